"""The mistakes that are known by name: one folder each, with what is said of it and an example."""

from .catalogue import CATALOGUE
from .mistake import FOLDER, MEASURED, ExceptionalCase, Family, Mistake, Origin, Step, Symptom

__all__ = [
    "CATALOGUE",
    "FOLDER",
    "MEASURED",
    "ExceptionalCase",
    "Family",
    "Mistake",
    "Origin",
    "Step",
    "Symptom",
]
