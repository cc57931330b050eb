"""Run a learner's code and describe its errors as plain data, in the learner's kernel and in the grader's sandbox.

This folder is mounted in the sandbox by itself, where nothing else of the course can be seen: its modules import torch
and each other only.
"""

from .calls import INPUT, build_described, build_module, call_function, run_module
from .errors import describe_error
from .gradients import call_backward, floating_tensors
from .stubs import is_empty
from .time_limit import TimeLimit, time_limit

__all__ = [
    "INPUT", "TimeLimit", "build_described", "build_module", "call_backward", "call_function", "describe_error",
    "floating_tensors", "is_empty", "run_module", "time_limit",
]  # fmt: skip
