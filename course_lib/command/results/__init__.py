"""What `course doctor` or `course scan` found, for people, programs, code scanning and GitHub's pull requests."""

from .github import github_lines
from .result import Result, as_json, overall
from .sarif import sarif

__all__ = ["Result", "as_json", "github_lines", "overall", "sarif"]
