"""Engines: each finds a posterior of log density + sum of pressure * f, one file an engine."""
