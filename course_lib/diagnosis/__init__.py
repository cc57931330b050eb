"""Mistakes in attention code, and the doctor that finds, names and shows them."""

from .catalogue import CATALOGUE, Mistake
from .diagnose import diagnose
from .finding import Finding
from .measure.subject import Subject, SubjectFailed, asks_for_gpu
from .report import Report

__all__ = [
    "CATALOGUE",
    "Finding",
    "Mistake",
    "Report",
    "Subject",
    "SubjectFailed",
    "asks_for_gpu",
    "diagnose",
]
