"""Whether bounds hold: as a sceptic would ask."""
