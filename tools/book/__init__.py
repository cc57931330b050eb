"""The web book: its build, and its pages made from the notebooks, the catalogue and the docstrings."""

from .reference import as_literal_blocks

__all__ = ["as_literal_blocks"]
