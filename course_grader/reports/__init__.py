"""Write the results: the gradebook's tables, a page per student, a report for the teacher."""

from .class_report import class_report
from .csv_table import read_course_table, write_table
from .feedback import FEEDBACK_FOLDER, feedback_page, page_path
from .gradebook import write_gradebook
from .look_through import look_through
from .rendering import number, render
from .roster import display_name, read_roster, sheet_for, sheets_of, shown_name, shown_names, student_named

__all__ = [
    "FEEDBACK_FOLDER", "class_report", "display_name", "feedback_page", "look_through", "number", "page_path",
    "read_course_table", "read_roster", "render", "sheet_for", "sheets_of", "shown_name", "shown_names",
    "student_named", "write_gradebook", "write_table",
]  # fmt: skip
