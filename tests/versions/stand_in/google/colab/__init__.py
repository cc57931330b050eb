"""Stands in for Colab's own module: all that a lesson's setup cell asks is whether it has been imported."""
