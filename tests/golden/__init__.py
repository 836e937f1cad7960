"""Numbers of small fits, kept in files: a change of the numbers is seen, and made on purpose."""
