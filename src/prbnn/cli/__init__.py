"""The command line; JAX is imported only by the commands that need it."""
