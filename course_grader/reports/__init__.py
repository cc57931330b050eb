"""Write the results: the gradebook's tables, a page per student, a report for the teacher."""

from .class_report import class_report
from .csv_table import one_line, read_table, safe_cell, write_table
from .feedback import FEEDBACK_FOLDER, feedback_page, page_path
from .gradebook import write_gradebook
from .rendering import number
from .roster import read_roster

__all__ = [
    "FEEDBACK_FOLDER",
    "class_report",
    "feedback_page",
    "number",
    "one_line",
    "page_path",
    "read_roster",
    "read_table",
    "safe_cell",
    "write_gradebook",
    "write_table",
]
