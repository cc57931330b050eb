"""Mistakes in attention code, and the doctor that finds, names and shows them."""

from .attention_report import AttentionReport, said_once
from .catalogue import CATALOGUE, Mistake
from .diagnose import diagnose
from .finding import MORE_HIDDEN, NOT_JUDGED, RANDOM, Finding
from .measure.copying import copy_of, in_dtype
from .measure.subject import Subject, SubjectFailed, asks_for_gpu
from .report import Report
from .without_x import WITHOUT_X

__all__ = [
    "CATALOGUE",
    "MORE_HIDDEN",
    "NOT_JUDGED",
    "RANDOM",
    "WITHOUT_X",
    "AttentionReport",
    "Finding",
    "Mistake",
    "Report",
    "Subject",
    "SubjectFailed",
    "asks_for_gpu",
    "copy_of",
    "diagnose",
    "in_dtype",
    "said_once",
]
