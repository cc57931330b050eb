"""The mistakes that are known by name: one folder each, with what is said of it and an example."""

from .catalogue import CATALOGUE, EXAMPLE, FOLDER
from .mistake import MEASURED, ExceptionalCase, Family, Mistake, Origin, Step, Symptom

__all__ = [
    "CATALOGUE",
    "EXAMPLE",
    "FOLDER",
    "MEASURED",
    "ExceptionalCase",
    "Family",
    "Mistake",
    "Origin",
    "Step",
    "Symptom",
]
