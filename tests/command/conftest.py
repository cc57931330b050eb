"""What tests of the command share."""

import sys

import pytest


@pytest.fixture
def imports_are_undone(tmp_path, monkeypatch):
    """The doctor puts the file's folder and the file itself where imports are looked up."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__dict__", {}).get("__file__")).startswith(str(tmp_path)):
            parts = name.split(".")
            for length in range(len(parts)):  # a folder without __init__.py is a package without a file
                sys.modules.pop(".".join(parts[: length + 1]), None)
