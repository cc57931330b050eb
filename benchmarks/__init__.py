"""Measurements against code that nobody of this course wrote; run from a clone, not installed with the package."""
