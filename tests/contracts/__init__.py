"""Every engine and every rule, each through one suite."""
