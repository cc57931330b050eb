"""What can't be recorded is refused in one sentence, before it runs where that can be known."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from course_lib.recorder import record

X = torch.ones(2, 3)


class Parent(nn.Module):
    def __init__(self, child):
        super().__init__()
        self.child = child

    def forward(self, x):
        raise AssertionError("it ran")


def compiled_in_place():
    module = nn.Linear(3, 3)
    module.compile(backend="eager")
    return module


COMPILED = "is compiled, so no line of it runs: record it before torch.compile"
MAPPED = "record can't look inside torch.vmap or another torch.func transform"


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: 3, TypeError, r"module_or_function must be a module or a function, got int: .* record\(module, x\)"),
        (lambda: torch.compile(nn.Linear(3, 3), backend="eager"), ValueError, f"OptimizedModule {COMPILED}"),
        (lambda: torch.compile(torch.sin, backend="eager"), ValueError, COMPILED),
        (compiled_in_place, ValueError, f"Linear {COMPILED}"),
        (lambda: Parent(compiled_in_place()), ValueError, f"Linear {COMPILED}"),
        (lambda: Parent(torch.jit.trace(nn.Linear(3, 3), X)), ValueError, "is scripted, so no line of it runs"),
        (lambda: torch.jit.trace(lambda x: x + 1, X), ValueError, "record it before torch.jit"),
        (lambda: torch.vmap(lambda x: x + 1), ValueError, MAPPED),
        (lambda: torch.func.grad(lambda x: (x + 1).sum()), ValueError, MAPPED),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_is_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        record(make(), X)


def test_recording_within_a_transform_is_refused():
    with pytest.raises(ValueError, match=MAPPED):
        torch.vmap(lambda x: record(torch.sin, x).output)(X)


@pytest.mark.slow
def test_a_compiled_function_inside_is_refused_without_a_warning():
    code = """
import torch
from course_lib.recorder import record
compiled = torch.compile(lambda x: x + 1, backend="eager")
try:
    record(lambda x: compiled(x) * 2, torch.ones(2))
except ValueError as error:
    print(error)
print(compiled(torch.ones(2)).tolist())
"""
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"A function that is called here {COMPILED}.", "[2.0, 2.0]"], done.stderr
    assert done.stderr == ""


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_compiled_function_inside_is_refused_in_this_process_too():
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with pytest.raises(ValueError, match=COMPILED):
        record(lambda x: compiled(x) * 2, X)
