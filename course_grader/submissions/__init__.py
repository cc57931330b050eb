"""Read what students submitted without trusting it: who submitted what, which notebooks count, and what is in them."""

from .collector import OWN_TIMESTAMP, OwnTimestamp
from .discovery import Submission, find_submissions
from .explain_missing import explain_missing
from .files_and_zips import Unreadable
from .notebook import Cell, Guesses, Notebook, read_notebook
from .plain_python import parse, plain_python
from .selection import SubmittedNotebook, select_notebooks
from .survey import survey
from .visible_text import escape_hidden

__all__ = [
    "OWN_TIMESTAMP", "Cell", "Guesses", "Notebook", "OwnTimestamp", "Submission", "SubmittedNotebook", "Unreadable",
    "escape_hidden", "explain_missing", "find_submissions", "parse", "plain_python", "read_notebook",
    "select_notebooks", "survey",
]  # fmt: skip
