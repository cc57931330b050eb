"""Mistakes in attention code, and the doctor that finds, names and shows them."""

from course_lib.mistakes import CATALOGUE, Mistake, Step, Symptom

from .attention_report import AttentionReport, said_once
from .diagnose import diagnose
from .finding import NOT_JUDGED, Finding, Kind
from .measure.cache_stand_in import StandIn
from .measure.calling import handing
from .measure.copying import copy_of, in_dtype
from .measure.decoding import Arguments, Decoding, Result, arguments_that_keep, find_decodings, in_steps, parts_of
from .measure.offers import moved_by_the_last
from .measure.subject import Subject, SubjectFailed, asks_for_gpu
from .report import Report
from .validation import check_intentions
from .without_x import WITHOUT_X

__all__ = [
    "CATALOGUE", "NOT_JUDGED", "WITHOUT_X", "Arguments", "AttentionReport", "Decoding", "Finding", "Kind", "Mistake",
    "Report", "Result", "StandIn", "Step", "Subject", "SubjectFailed", "Symptom", "arguments_that_keep", "asks_for_gpu",
    "check_intentions", "copy_of", "diagnose", "find_decodings", "handing", "in_dtype", "in_steps",
    "moved_by_the_last", "parts_of", "said_once",
]  # fmt: skip
