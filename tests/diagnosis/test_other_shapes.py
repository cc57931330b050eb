"""Right code whose keys, positions or contexts have other shapes than usual is not accused; its mistakes are found."""

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from course_lib.diagnosis.measure.grid import boxes_of

HEADS, HEAD_DIM, D = 3, 4, 12
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))
GRID = torch.randn(2, 4, 4, D, generator=torch.Generator().manual_seed(0))
RIGHT, TOO_SMALL = HEAD_DIM**-0.5, 1 / HEAD_DIM


class Base(nn.Module):
    """Projections of queries, keys and values, and of the heads' results."""

    def __init__(self, scale=RIGHT):
        super().__init__()
        torch.manual_seed(1)
        self.scale = scale
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(-2, -3)

    def merge(self, heads):
        return self.to_out(heads.transpose(-2, -3).flatten(-2))

    def attend(self, q, k, v, *, causal=False):
        scores = q @ k.mT * self.scale
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        return scores.softmax(-1) @ v

    def qkv(self, x, context=None):
        context = x if context is None else context
        return self.split(self.to_q(x)), self.split(self.to_k(context)), self.split(self.to_v(context))


def found(module, x, **options):
    report = diagnose(module, x, num_heads=HEADS, **options)
    assert report.exit_status != 2, report
    return [finding.mistake for finding in report.findings]


# --- grids ---


def test_boxes_are_parts_of_rows_and_of_columns():
    row, column = torch.arange(12) // 4, torch.arange(12) % 4
    near = [(one[:, None] - one).abs() <= 1 for one in (row, column)]
    assert boxes_of(near[0] & near[1], of_row=True) is not None
    assert boxes_of(torch.ones(12, 12).tril() > 0, of_row=False) is None  # the future is hidden
    assert boxes_of((torch.arange(12)[:, None] - torch.arange(12)).abs() <= 1, of_row=True) is None  # a window
    assert boxes_of(torch.ones(12, 12, dtype=torch.bool), of_row=False) is None
    assert boxes_of(torch.eye(12, dtype=torch.bool), of_row=False) is None


class WindowsOfRows(Base):
    """Windows as wide as the grid, whose tokens follow each other in the row; the output is a grid."""

    def forward(self, x, columns=4):
        grid = x.unflatten(1, (-1, columns))
        windows = grid.unflatten(1, (-1, 2)).flatten(2, 3)
        return self.merge(self.attend(*self.qkv(windows))).unflatten(2, (2, columns)).flatten(1, 2)


@pytest.mark.parametrize(("scale", "mistakes"), [(RIGHT, []), (TOO_SMALL, ["wrong-scale"])])
def test_windows_of_whole_rows_are_known_by_the_grid(scale, mistakes):
    assert found(WindowsOfRows(scale), GRID.flatten(1, 2), causal=False, lengths=[16]) == mistakes


# --- a context ---


class Alike(Base):
    """Takes as many tokens of x as of the context; `fixed`: the number is that of a table, too."""

    def __init__(self, fixed=None):
        super().__init__()
        self.positions = None if fixed is None else nn.Parameter(torch.randn(fixed, D))

    def forward(self, x, context):
        if x.shape[1] != context.shape[1]:
            raise ValueError(f"x has {x.shape[1]} tokens and its context {context.shape[1]}")
        tokens = x if self.positions is None else x + self.positions
        return self.merge(self.attend(*self.qkv(tokens, context)))


@pytest.mark.parametrize(("fixed", "mistakes"), [(None, []), (5, ["fixed-length"])])
def test_as_many_tokens_as_the_context_has_are_no_fixed_length(fixed, mistakes):
    assert found(Alike(fixed), X, context=X.flip(1)) == mistakes


# --- a tensor of call ---


class Conditioned(nn.Module):
    """Adds a projection of another tensor to the tokens, or to the embeddings of ids."""

    def __init__(self):
        super().__init__()
        self.embed, self.condition, self.attend = nn.Embedding(30, D), nn.Linear(8, D), Base()

    def forward(self, x, condition):
        x = x if x.is_floating_point() else self.embed(x)
        return self.attend.merge(self.attend.attend(*self.attend.qkv(x + self.condition(condition)[:, None])))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("x", "dtype"), [(X, "x.dtype"), (torch.arange(10).view(2, 5), "next(m.parameters()).dtype")])
def test_code_that_call_gives_a_tensor_of_another_dtype_is_not_examined(x, dtype):
    condition = torch.ones(1, 8)

    def of_numpy(module, x):
        return module(x, torch.from_numpy(np.ones((len(x), 8), "float32")))

    for call in (of_numpy, lambda module, x: module(x, condition)):
        report = diagnose(Conditioned(), x, num_heads=HEADS, causal=False, call=call)
        (finding,) = report.findings
        assert (report.exit_status, finding.mistake) == (
            2,
            None,
        ) and "`call` makes a tensor of another" in finding.title
        assert finding.evidence.endswith(f"; let `call` make it with dtype={dtype}")
    right = diagnose(
        Conditioned(), x, num_heads=HEADS, causal=False, call=lambda m, x: m(x, condition.to(m.condition.weight))
    )
    assert right.ok, right
