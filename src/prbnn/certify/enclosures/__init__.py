"""Guaranteed bounds of functions over boxes, in floating point as deployed."""
