"""`prbnn study`: one module per study command."""
