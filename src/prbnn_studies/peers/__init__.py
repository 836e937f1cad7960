"""Networks with and without rules beside other libraries, on public tables."""
