"""How a measured violation becomes pressure on the posterior."""
