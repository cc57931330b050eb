"""Where numbers come from, compared with what a change of each number changes in the result of the same call."""

import contextlib

import pytest
import torch
from torch.nn import functional as F

from course_lib.recorder import record
from course_lib.recording_page import sources
from course_lib.recording_page.selection import WITH_INDICES
from course_lib.recording_page.sources import sources_of
from course_lib.recording_page.story import story_of

NUMBERS = torch.Generator().manual_seed(5)
X = torch.randn(3, 4, generator=NUMBERS)
Y = torch.randn(3, 4, generator=NUMBERS)
ROWS = torch.tensor([2, 0])
COLUMNS = torch.tensor([[1, 3, 0], [2, 0, 3], [0, 1, 2]])
BOTH = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
IMAGE = torch.randn(1, 2, 6, generator=NUMBERS)


def written(x, key, value):
    held = x.clone()
    held[key] = value
    return held


def through(method, *args):
    """Call a method that writes in place, on a copy."""
    return lambda x, *tensors: getattr(x.clone(), method)(*args, *tensors)


SELECTING = {
    "max": (lambda x: x.max(), [X]),
    "max of rows": (lambda x: x.max(-1).values, [X]),
    "min of columns": (lambda x: torch.min(x, dim=0, keepdim=True)[0], [X]),
    "max of two": (torch.max, [X, X + torch.tensor([0.0])]),
    "amax": (lambda x: x.amax((0, 1)), [X]),
    "amin": (lambda x: x.amin(dim=0), [X]),
    "topk": (lambda x: x.topk(2, dim=0).values, [X]),
    "sort": (lambda x: x.sort(dim=-1, descending=True).values, [X]),
    "msort": (torch.msort, [X]),
    "median": (lambda x: x.median(), [X]),
    "median of rows": (lambda x: x.median(dim=1).values, [X]),
    "kthvalue": (lambda x: x.kthvalue(3).values, [X]),
    "cummax": (lambda x: x.cummax(1).values, [X]),
    "quantile": (lambda x: x.quantile(0.3, dim=1), [X]),
    "maximum norm": (lambda x: x.norm(torch.inf, dim=1), [X]),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), [IMAGE]),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 3), [IMAGE]),
}
CHOOSING = {
    "rows": (lambda x, i: x[i], [X, ROWS]),
    "columns": (lambda x, i: x[:, None, i], [X, ROWS]),
    "negative": (lambda x, i: x[..., i], [X, torch.tensor([-1, -3])]),
    "pairs": (lambda x, i, j: x[i, j], [X, ROWS, torch.tensor([[1, 3], [2, 0]])]),
    "one batch": (lambda x, i, j: x[i, j], [X[:1], torch.tensor([0]), ROWS]),
    "embedding": (F.embedding, [COLUMNS, X.T.contiguous()]),
    "gather": (lambda x, i: x.gather(1, i), [X, COLUMNS]),
    "index_select": (lambda x, i: x.index_select(1, i), [X, ROWS]),
    "take": (torch.take, [X, COLUMNS]),
    "take_along_dim": (lambda x, i: x.take_along_dim(i, dim=1), [X, COLUMNS]),
}
WRITING = {
    "setitem of a row": (lambda x, i, v: written(x, i, v), [X, ROWS, Y[:2]]),
    "setitem of pairs": (lambda x, i, j, v: written(x, (i, j), v), [X, ROWS, torch.tensor([3, 1]), Y[0, :2]]),
    "setitem of a column": (lambda x, i, v: written(x, (slice(1), i), v), [X, ROWS, Y[:1, :2]]),
    "setitem of a mask": (lambda x, m: written(x, m, 0.5), [X, BOTH]),
    "setitem of a mask of rows": (lambda x, m: written(x, m, 0.5), [X, BOTH[:, 0]]),
    "setitem of a mask of columns": (lambda x, m, v: written(x, (slice(None), m), v), [X, BOTH[0], Y[:, :1]]),
    "index_put_": (lambda x, i, v: x.clone().index_put_((i,), v), [X, ROWS, Y[:2]]),
    "scatter": (lambda x, i, v: x.scatter(1, i, v), [X, COLUMNS, Y]),
    "scatter of a number": (lambda x, i: x.scatter(1, i, 0.5), [X, COLUMNS]),
    "scatter of truth values": (lambda x, i, v: x.scatter(-1, i, v), [BOTH, COLUMNS, ~BOTH]),
    "scatter_": (lambda x, i, v: x.clone().scatter_(0, i, v), [X, ROWS[None], Y]),
    "scatter_add": (lambda x, i, v: x.scatter_add(1, i, v), [X, COLUMNS, Y]),
    "scatter_add_": (lambda x, i, v: torch.zeros(4).scatter_add_(0, i, v), [X, COLUMNS[0], Y[0]]),
    "index_add_": (lambda x, i, v: x.clone().index_add_(0, i, v), [X, ROWS, Y[:2]]),
    "index_add": (lambda x, i, v: x.index_add(1, i, v), [X, ROWS, Y[:, :2]]),
    "index_copy_": (lambda x, i, v: x.clone().index_copy_(0, i, v), [X, ROWS, Y[:2]]),
    "index_fill": (lambda x, i: x.index_fill(1, i, 0.5), [X, ROWS]),
    "slice_scatter": (lambda x, v: x.slice_scatter(v, 0, 1, 2), [X, Y[:1]]),
    "addmm_": (lambda x, y, z: x.clone().addmm_(y, z), [X[:, :3], Y, X.T.contiguous()]),
    "cumsum_": (lambda x: x.clone().cumsum_(1), [X]),
    "transpose_": (lambda x: x.clone().transpose_(0, 1), [X]),
    "out": (lambda x, y: torch.add(x, y, out=torch.ones(3, 4)), [X, Y]),
}
HIDING = {
    "a factor of 0": (torch.mul, [X, BOTH.float()]),
    "a 0 that is divided": (torch.div, [BOTH.float(), X]),
    "a weight of 0": (torch.matmul, [BOTH.float(), X.T.contiguous()]),
    "a mask of infinities": (torch.add, [X, torch.where(BOTH, 0.0, -torch.inf)]),
    "new_full": (lambda x: x.new_full((2,), 0.5), [X]),
    "new_full of a number": (lambda x, y: x.new_full((2,), y), [X, torch.tensor(0.5)]),
    "new_zeros": (lambda x: x.new_zeros(5), [X]),
    "new_ones": (lambda x: x.new_ones(3, 4), [X]),
    "empty_like": (torch.zeros_like, [X]),
    "full_like": (lambda x: torch.full_like(x, 3.0), [X]),
    "fill_": (lambda x: x.clone().fill_(1.0), [X]),
}
STATISTICS = (torch.tensor([0.5, 1.5]), torch.tensor([1.0, 2.0]))
NORMS = {
    "rms_norm of zeros": (lambda x: F.rms_norm(x, (4,)), [X.relu()]),
    "normalize of zeros": (lambda x: F.normalize(x, dim=-1), [X.relu()]),
    "norm of zeros": (lambda x: x.norm(dim=0), [X.relu()]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, *STATISTICS, w, b), [IMAGE, Y[0, :2].clone(), Y[1, :2].clone()]),
}


def changed(call, tensors, number, by=1e-4):
    """Return which numbers of a call's result change with another value of each number of one of its tensors."""

    def run(instead):
        given = [tensor.clone() for tensor in tensors]
        given[number] = instead
        return call(*given).flatten()

    tensor = tensors[number]
    before = run(tensor)
    table = torch.zeros(len(before), tensor.numel(), dtype=torch.bool)
    for i in range(tensor.numel()):
        for other in others(tensor.flatten()[i], by):
            poked = tensor.clone()
            poked.view(-1)[i] = other
            with contextlib.suppress(IndexError, RuntimeError):  # no index
                table[:, i] |= run(poked) != before
    return table


def others(value, by):
    if value.dtype == torch.bool:
        return [~value]
    if value.dtype.is_floating_point:
        return [value + by, value - by] if value.isfinite() else [torch.tensor(0.5)]
    return range(-2, 13)


def told(call, tensors):
    """Return the sources of a call's result for each of its tensors."""
    recording = record(call, *tensors)
    stage = next(stage for stage in story_of(recording).stages[::-1] if stage.step.tensor is recording.output)
    found = sources_of(stage.step, stage.result, stage.inputs)
    return {id(source.tensor): table for source, table in zip(stage.inputs, found, strict=True)}


@pytest.mark.parametrize("name", SELECTING | CHOOSING | WRITING | HIDING)
def test_sources_are_the_numbers_whose_change_shows(name):
    call, tensors = (SELECTING | CHOOSING | WRITING | HIDING)[name]
    tensors = [tensor.clone() for tensor in tensors]
    found = told(call, tensors)
    for number, tensor in enumerate(tensors):
        if number == 0 and id(tensor) not in found:  # the call wrote into a copy of it
            continue
        shows = changed(call, tensors, number)
        if name in WRITING and tensor.dtype == torch.int64:  # another index may write the same
            assert not (shows & ~found[id(tensor)]).any()
        else:
            assert torch.equal(found[id(tensor)], shows), number


INDICES = {name: lambda x, name=name: getattr(x, name)(dim=1)[1] for name in WITH_INDICES}
INDICES |= {name: lambda x, name=name: getattr(x, name)(2, dim=1)[1] for name in ("topk", "kthvalue")}
INDICES |= {name: lambda x, name=name: getattr(x, name)(dim=1) for name in ("argmax", "argmin", "argsort")}


@pytest.mark.parametrize("name", INDICES)
def test_sources_of_an_index_are_the_numbers_whose_change_can_choose_another_one(name):
    found, shows = told(INDICES[name], [X])[id(X)], changed(INDICES[name], [X], 0, by=9.0)
    can_change = shows.any(1)  # the first of a running maximum is 0 whatever the numbers are
    assert can_change.any() and torch.equal(found[can_change], shows[can_change])


@pytest.mark.parametrize("name", NORMS)
def test_each_number_whose_change_shows_in_a_norm_is_a_source(name):
    call, tensors = NORMS[name]
    found = told(call, tensors)
    for number, tensor in enumerate(tensors):
        assert not (changed(call, tensors, number, by=0.5) & ~found[id(tensor)]).any(), number
        assert name != "batch_norm" or torch.equal(found[id(tensor)], changed(call, tensors, number))


@pytest.mark.parametrize(
    ("rule", "name"),
    [("selection", "topk"), ("scatter", "scatter"), ("movement", "gather"), ("elementwise", "max of two")],
)
def test_a_wrong_rule_is_found(monkeypatch, rule, name):
    def turned(*given):
        found = right(*given)
        return found and [table if table is None else table.roll(1, dims=-1) for table in found]

    right = getattr(sources, f"{rule}_sources")
    monkeypatch.setattr(sources, "RULES", tuple(turned if rule is right else rule for rule in sources.RULES))
    with pytest.raises(AssertionError):
        test_sources_are_the_numbers_whose_change_shows(name)
