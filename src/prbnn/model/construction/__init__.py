"""Networks whose form obeys rules, whatever their weights are."""
