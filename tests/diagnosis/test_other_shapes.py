"""Right code whose keys, positions or contexts have other shapes than usual is not accused; its mistakes are found."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
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


# --- positions ---


class RelativeByWidth(Base):
    """Biases of rows and columns of a grid, for each query, that are appended to its columns; a key picks its own."""

    def __init__(self, axis=-1):
        super().__init__()
        self.axis = axis
        self.of_rows, self.of_columns = (nn.Parameter(torch.randn(5, HEAD_DIM)) for _ in range(2))

    def forward(self, x):
        rows, columns = x.shape[1:3]
        q, k, v = self.qkv(x.flatten(1, 2))
        row, column = (torch.arange(count, device=x.device) for count in (rows, columns))
        grid = q.unflatten(2, (rows, columns)) / self.scale
        to_rows = torch.einsum("nhrcd,rkd->nhrck", grid, self.of_rows[row[:, None] - row + rows - 1])
        to_columns = torch.einsum("nhrcd,ckd->nhrck", grid, self.of_columns[column[:, None] - column + columns - 1])
        q = torch.cat([q, to_rows.flatten(2, 3), to_columns.flatten(2, 3)], -1)
        own = [torch.eye(rows).repeat_interleave(columns, 0), torch.eye(columns).repeat(rows, 1)]
        k = torch.cat([k, *(one.to(x).expand(len(x), HEADS, -1, -1) for one in own)], -1)
        weights = (q @ k.mT * self.scale).softmax(self.axis)
        return self.merge(weights @ v).unflatten(1, (rows, columns))


@pytest.mark.parametrize(("axis", "mistakes"), [(-1, []), (-2, ["softmax-wrong-axis"])])
def test_columns_of_positions_that_are_appended_make_no_more_heads(axis, mistakes):
    assert found(RelativeByWidth(axis), GRID[:, :3, :3], causal=False) == mistakes


# --- keys of no token ---


class NullScore(Base):
    """A learned key whose score is made by a product of its own."""

    def __init__(self, scale=RIGHT):
        super().__init__(scale)
        self.null_key, self.null_value = (nn.Parameter(torch.randn(HEADS, 1, HEAD_DIM)) for _ in range(2))

    def forward(self, x):
        q, k, v = self.qkv(x)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.mT * self.scale).masked_fill(future, -torch.inf)
        scores = torch.cat([q @ self.null_key.mT * self.scale, scores], -1)
        values = torch.cat([self.null_value.expand(len(x), -1, -1, -1), v], -2)
        return self.merge(scores.softmax(-1) @ values)


class LearnedAndZeroKey(Base):
    """A learned key and one of zeros behind those of the tokens."""

    def __init__(self, scale=RIGHT):
        super().__init__(scale)
        self.bias_key, self.bias_value = (nn.Parameter(torch.randn(HEADS, 1, HEAD_DIM)) for _ in range(2))

    def forward(self, x):
        q, k, v = self.qkv(x)
        k, v = (
            torch.cat([t, one.expand(len(x), -1, -1, -1), torch.zeros_like(t[..., :1, :])], -2)
            for t, one in ((k, self.bias_key), (v, self.bias_value))
        )
        return self.merge(self.attend(q, k, v))


@pytest.mark.parametrize("module", [NullScore, LearnedAndZeroKey])
@pytest.mark.parametrize(("scale", "mistakes"), [(RIGHT, []), (TOO_SMALL, ["wrong-scale"])])
def test_keys_of_no_token_complete_the_rows(module, scale, mistakes):
    assert found(module(scale), X, causal=module is NullScore) == mistakes


# --- grids ---


class Neighbours(nn.Module):
    """Each pixel attends to the nine around it, with zeros around the image."""

    def __init__(self, scale=RIGHT):
        super().__init__()
        torch.manual_seed(1)
        self.scale, self.to_q, self.to_kv = scale, nn.Conv2d(D, D, 1), nn.Conv2d(D, 2 * D, 1)
        self.to_out = nn.Conv2d(D, D, 1)

    def forward(self, image):
        q = self.to_q(image).flatten(2).unflatten(1, (HEADS, HEAD_DIM)).mT[..., None, :]
        k, v = (
            F.unfold(part, 3, padding=1).unflatten(1, (HEADS, HEAD_DIM, 9)).permute(0, 1, 4, 3, 2)
            for part in self.to_kv(image).chunk(2, 1)
        )
        heads = ((q @ k.mT * self.scale).softmax(-1) @ v)[..., 0, :]
        return self.to_out(heads.mT.flatten(1, 2).unflatten(2, image.shape[2:]))


@pytest.mark.parametrize(("scale", "mistakes"), [(RIGHT, []), (TOO_SMALL, ["wrong-scale"])])
def test_a_neighbourhood_with_zeros_around_the_image_is_examined(scale, mistakes):
    image = GRID.permute(0, 3, 1, 2)[:, :, :3]
    report = diagnose(Neighbours(scale), image, num_heads=HEADS, causal=False)
    assert [finding.mistake for finding in report.findings] == mistakes, report
    assert "each token sees 4 to 9 of 12 tokens, a box of a grid: taken as meant" in report.remarks


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


def test_a_fixed_length_comes_with_the_way_to_say_that_it_is_meant():
    def attend(module, x):
        return module(x, x)

    (finding,) = diagnose(Alike(5), X, num_heads=HEADS, causal=False, call=attend).findings
    assert finding.mistake == "fixed-length"
    assert finding.evidence.endswith("; give `lengths=[5]` (--tokens 5 --lengths 5) if it is meant")
    assert found(Alike(5), X, causal=False, call=attend, lengths=[5]) == []


# --- a tensor of call ---


class Hiding(Base):
    """Takes numbers that are 1 for each hidden token; `pinned`: its own weights are float32."""

    def __init__(self, pinned=False):
        super().__init__()
        self.pinned = pinned

    def forward(self, x, hidden):
        q, k, v = self.qkv(x)
        weights = (q @ k.mT * self.scale - 1e4 * hidden[:, None, None]).softmax(-1)
        return self.merge((weights.to(torch.float32) if self.pinned else weights) @ v)


def test_a_tensor_that_call_makes_in_float32_pins_no_dtype_of_the_code():
    def of_call(module, x):
        return module(x, torch.zeros(x.shape[:2]))

    def of_x(module, x):
        return module(x, x.new_zeros(x.shape[:2]))

    report = diagnose(Hiding(), X, causal=False, num_heads=HEADS, call=of_call)
    assert report.ok and any("`call` makes a tensor of another dtype" in one for one in report.remarks), report
    assert found(Hiding(), X, causal=False, call=of_x) == []
    assert found(Hiding(pinned=True), X, causal=False, call=of_x) == ["dtype-pinned"]


class Hidden(nn.Module):
    """Makes numbers in its own dtype."""

    zero: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("zero", torch.zeros(1))

    def forward(self, x):
        return torch.zeros(x.shape[:2]).type_as(self.zero)


def test_a_tensor_of_a_module_that_only_call_runs_pins_no_dtype_of_the_code():
    hidden = Hidden()
    report = diagnose(Hiding(), X, causal=False, num_heads=HEADS, call=lambda module, x: module(x, hidden(x)))
    assert report.ok and any("`call` makes a tensor of another dtype" in one for one in report.remarks), report


class Conditioned(nn.Module):
    """Adds a projection of another tensor to the tokens, or to the embeddings of ids."""

    def __init__(self):
        super().__init__()
        self.embed, self.condition, self.attend = nn.Embedding(30, D), nn.Linear(8, D), Base()

    def forward(self, x, condition):
        x = x if x.is_floating_point() else self.embed(x)
        return self.attend.merge(self.attend.attend(*self.attend.qkv(x + self.condition(condition)[:, None])))


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


class FramesBehindClass(Base):
    """The token of the class sees all tokens; each patch sees it and the patches at its place in all frames."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        of_class = self.attend(q[..., :1, :], k, v)
        q, k, v = ((t[..., :1, :], t[..., 1:, :].unflatten(2, (2, -1)).transpose(2, 3)) for t in (q, k, v))
        keys, values = (torch.cat([t[0][..., None, :].expand(-1, -1, 3, -1, -1), t[1]], dim=-2) for t in (k, v))
        of_patches = self.attend(q[1], keys, values).transpose(2, 3).flatten(2, 3)
        return self.merge(torch.cat([of_class, of_patches], dim=2))


@pytest.mark.parametrize(("scale", "mistakes"), [(RIGHT, ()), (TOO_SMALL, ("wrong-scale",))])
def test_a_token_of_the_class_stands_before_the_groups(scale, mistakes):
    x = torch.randn(2, 7, D, generator=torch.Generator().manual_seed(0))
    report = diagnose(FramesBehindClass(scale), x, num_heads=HEADS, causal=False, lengths=[7])
    assert report.mistakes == mistakes, report
    if not mistakes:
        assert "besides the first token, which all see, its tokens see each other in 3 groups of 2" in str(report)
