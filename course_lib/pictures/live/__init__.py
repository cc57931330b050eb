"""Figures that move: one idea each, which the reader steps through or edits; without scripts a picture with its words."""

from .figure import Figure
from .paste_your_split import paste_your_split
from .why_transpose import why_transpose

__all__ = ["Figure", "paste_your_split", "why_transpose"]
