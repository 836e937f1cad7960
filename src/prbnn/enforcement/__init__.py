"""How a measured violation becomes pressure on the posterior, one file per law."""
