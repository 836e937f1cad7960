"""Tables in files: found, read, and turned into numbers in a way that is said and can be repeated."""
