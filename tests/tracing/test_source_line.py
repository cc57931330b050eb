"""Whose line an error or an operation is blamed on: the author's, never PyTorch's or the course's own tools."""

from pathlib import Path

import pytest
import torch

from course_lib.attention import MultiHeadAttention
from course_lib.diagnosis import diagnose
from course_lib.recorder import record
from course_lib.tracing import is_foreign, last_line

X = torch.rand(1, 4, 6)


def raised(run):
    with pytest.raises(Exception) as caught:
        run()
    return caught.value


def test_the_author_is_whoever_is_neither_torch_nor_a_tool_of_the_course():
    assert is_foreign(torch.nn.functional.__file__) and is_foreign("<frozen importlib._bootstrap>")
    assert is_foreign("/a/repository/vendor/einops/einops.py") and is_foreign("/a/einops/layers/torch.py")
    assert not is_foreign("/a/einops/attention.py")
    assert is_foreign("/a/site-packages/opt_einsum/backends/torch.py")
    assert is_foreign(record.__code__.co_filename) and is_foreign(diagnose.__code__.co_filename)
    assert not is_foreign(__file__) and not is_foreign("<string>") and not is_foreign("/tmp/ipykernel_1/2.py")
    assert not is_foreign(MultiHeadAttention.forward.__code__.co_filename)  # a learner records it and reads its lines


def test_the_last_line_is_the_innermost_one_of_the_author():
    linear = torch.nn.Linear(3, 3)
    error = raised(lambda: record(lambda x: linear(x), X))  # the line to be found
    line = last_line(error)
    assert line.file == __file__ and line.text.endswith("# the line to be found")
    assert line.line == test_the_last_line_is_the_innermost_one_of_the_author.__code__.co_firstlineno + 2


def test_more_folders_can_be_foreign():
    module = MultiHeadAttention(6, 6, 2)
    error = raised(lambda: module(X[0]))
    folder = str(Path(MultiHeadAttention.forward.__code__.co_filename).parent)
    assert last_line(error).file.startswith(folder)
    assert last_line(error, (folder,)).file == __file__


def test_an_error_without_a_line_of_the_author_has_none():
    assert last_line(raised(lambda: torch.relu("x")), (__file__,)) is None
    assert last_line(ValueError("never raised")) is None
