"""The UCI study: tables on their standard splits, beside published numbers, and what knowledge adds."""
