"""What holds everywhere, with a proof: bounds of functions over boxes, and verdicts on rules."""

from prbnn.certify.bounds import Bounds, bounds
from prbnn.certify.verifying import Verdict, verify

__all__ = ["Bounds", "Verdict", "bounds", "verify"]
