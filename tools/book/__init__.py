"""The web book: its build, and its pages made from the notebooks, the catalogue and the docstrings."""

from course_lib.command import fast_startup  # noqa: F401  # before notebooks are read, here and in Sphinx

from .reference import as_literal_blocks

__all__ = ["as_literal_blocks"]
