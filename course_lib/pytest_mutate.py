"""`course mutate` as an option: `pytest -p course_lib.pytest_mutate --mutate attention.py:MyAttention tests`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--mutate",
        metavar="FILE.py:NAME",
        help="plant each known mistake into this class or function, and say which of them the tests catch",
    )


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """With the option, run the tests once for each mistake in place of once; the exit status is 1 if one survives."""
    if config.option.mutate is None:
        return None
    tests = config.args  # what pytest was told to run, or its testpaths
    return subprocess.run(
        [sys.executable, "-m", "course_lib.command", "mutate", config.option.mutate, "--tests", *tests]
    ).returncode
