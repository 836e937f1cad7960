"""What should hold: rules, the regions they hold in and how binding they are."""
