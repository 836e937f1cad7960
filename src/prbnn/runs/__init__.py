"""A run: from a file and a list of rules to fitted models in a folder, and back."""
