"""The table of cases, a file for each family of code."""

from benchmarks.real_bugs.case import Case

from . import applications, book, compressed_and_flamingo, keras, serving, teaching, timm, transformers, x_transformers

FAMILIES = (timm, compressed_and_flamingo, x_transformers, teaching, book, serving, transformers, keras, applications)
CASES: tuple[Case, ...] = tuple(case for family in FAMILIES for case in family.CASES)
