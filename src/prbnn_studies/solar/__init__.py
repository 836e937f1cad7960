"""The solar study: AC power of an inverter that derates when its power stage is hot."""
