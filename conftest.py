"""Pytest at the repository's root: notebooks are compared by the rules of course_lib/lessons/compare.py."""

from course_lib.lessons.nbval_hooks import pytest_itemcollected

__all__ = ["pytest_itemcollected"]
