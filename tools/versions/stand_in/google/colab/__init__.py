"""Stands in for Colab's own module, which is imported there before the first cell runs."""
