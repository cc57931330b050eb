"""What `course doctor` found, for people, programs, code scanning and the annotations of a pull request."""

from .github import github_lines
from .result import Result, as_json, overall
from .sarif import sarif

__all__ = ["Result", "as_json", "github_lines", "overall", "sarif"]
