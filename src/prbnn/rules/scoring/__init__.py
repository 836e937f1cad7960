"""Rules as compiled scores: where a bound is scored, and whether a score obeys."""
