"""What holds everywhere, with a proof: bounds of functions over boxes."""

from prbnn.certify.bounds import Bounds, bounds

__all__ = ["Bounds", "bounds"]
