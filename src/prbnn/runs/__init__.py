"""A run: from a file and rules to fitted models in a folder, and their use on other files."""
