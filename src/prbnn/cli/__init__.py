"""The command line; pandas and scikit-learn are imported only by the commands that need them."""
