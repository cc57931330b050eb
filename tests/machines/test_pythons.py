"""Which Python the set-up takes, and what it says where none fits."""

import pytest

from .stripped import MADE, path_of, python_saying, steps

TESTED = "Python 3.11 to 3.14"


def test_no_python(beginner, tmp_path):
    beginner.path = path_of(tmp_path / "empty")
    done = beginner.make("lab")
    assert done.returncode == 2
    assert steps(done) == [
        "No Python was found: install Python 3.11 or newer, or name one, such as make lab PYTHON=/path/to/python3.12."
    ]


def test_a_python_that_is_too_old(beginner, tmp_path):
    beginner.path = path_of(tmp_path / "old")
    python_saying("3.10.13", beginner.path)
    done = beginner.make("lab")
    assert done.returncode == 2
    assert steps(done) == [
        f"No {TESTED} was found: install one, or name one, such as make lab PYTHON=/path/to/python3.12 "
        "(without make: /path/to/python3.12 tools/set_up.py)."
    ]
    assert not beginner.environment.exists()


@pytest.mark.parametrize(("named", "have"), [("python3.10", "Python 3.10.13"), ("/nowhere/python3", "not found")])
def test_a_named_python_that_does_not_fit(beginner, named, have):
    python_saying("3.10.13", beginner.path, "python3.10")
    done = beginner.make("lab", f"PYTHON={named}")
    assert done.returncode == 2
    sentence = f"PYTHON={named} is not {TESTED} ({have}): name a different one, such as PYTHON=python3.12."
    assert steps(done) == [sentence]
    assert not beginner.environment.exists()


def test_a_python_that_fits_is_found_beside_one_that_is_too_old(beginner, tmp_path):
    beginner.path = path_of(tmp_path / "two", "python3.12")
    python_saying("3.10.13", beginner.path)
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[0] == MADE


def test_a_python_newer_than_all_tested_ones_is_tried_with_a_warning(beginner, tmp_path):
    beginner.path = path_of(tmp_path / "new")
    python_saying("3.15.1", beginner.path)
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    assert steps(done)[:2] == [
        "Python 3.15.1 is newer than 3.14, the newest that was tested: trying it.",
        "1/3 making .venv with Python 3.15.1",
    ]
    assert beginner.has("sentence")
