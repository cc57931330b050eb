"""Mistakes in attention code: what they are called, how they show, and modules that make them on purpose."""

from .catalogue import CATALOGUE, Mistake

__all__ = ["CATALOGUE", "Mistake"]
