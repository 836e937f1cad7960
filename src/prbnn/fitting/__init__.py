"""From data, a network and rules to a `Solution`: prepare, the loop, and how it ended."""
