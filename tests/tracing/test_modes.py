"""What all watchers share: every call passes through, ids stay unique, frames are the author's."""

import gc
import sys

import pytest
import torch
from torch import nn

from course_lib.tracing import DispatchWatch, FunctionWatch, map_instances


class Functions(FunctionWatch):
    def __init__(self, stop=None):
        super().__init__(stop)
        self.seen = []

    def call(self, func, args, kwargs):
        self.seen.append((func.__name__, [frame.f_code.co_name for frame in self.author_frames()]))
        return func(*args, **kwargs)


class Operations(DispatchWatch):
    def __init__(self):
        super().__init__()
        self.seen = []

    def call(self, func, args, kwargs):
        self.seen.append(func.overloadpacket.__name__)
        return func(*args, **kwargs)


def test_functions_are_seen_as_written_and_operations_as_they_run():
    linear, x = nn.Linear(3, 4), torch.rand(2, 3)
    expected = linear(x)
    with Functions() as written, Operations() as run:
        result = linear(x)
    assert torch.equal(result, expected)
    assert [name for name, _ in written.seen] == ["linear"]
    assert run.seen == ["t", "addmm"]


def test_a_watch_without_a_rule_changes_nothing():
    x = torch.rand(2, 3)
    with FunctionWatch(), DispatchWatch():
        assert torch.equal(x.softmax(-1), torch.softmax(x, -1))


def test_a_watch_may_return_something_else():
    class Zeros(FunctionWatch):
        def call(self, func, args, kwargs):
            return func(*map_instances(torch.Tensor, torch.zeros_like, args), **kwargs)

    with Zeros():
        result = torch.rand(3) + 1
    assert result.tolist() == [1.0, 1.0, 1.0]


def test_frames_are_the_authors_from_the_inside_to_where_the_run_starts():
    def inner(x):
        return nn.functional.relu(x)

    def outer(x):
        return inner(x)

    x = torch.rand(2)
    with Functions(stop=sys._getframe()) as watch:
        outer(x)
    (name, frames), *others = watch.seen
    assert name == "relu" and frames[-2:] == ["inner", "outer"] and not others  # before them, this watch itself
    watch.let_go()
    assert watch.stop is None


@pytest.mark.slow
def test_an_id_belongs_to_one_tensor_as_long_as_the_watch_lives():
    watch = FunctionWatch()
    ids = [watch.hold(torch.rand(3)) for _ in range(100)]
    gc.collect()
    assert len(set(ids)) == 100  # without holding them, CPython uses the address of the last one again
