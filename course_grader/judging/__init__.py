"""Judge students' answers outside the sandbox, on inputs that were drawn after their code was loaded in it."""

from .notebook_judge import judge_notebook, stops
from .provided_code import provided_code
from .remote_notebook import Budget, RemoteNotebook
from .substitution import with_solutions

__all__ = ["Budget", "RemoteNotebook", "judge_notebook", "provided_code", "stops", "with_solutions"]
