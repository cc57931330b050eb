"""Pytest at the repository's root: notebooks are compared by the rules of course_lib/lessons/compare.py."""

pytest_plugins = ["course_lib.lessons.nbval_hooks"]
