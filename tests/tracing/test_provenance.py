"""Labels travel as the elements do: the same code, run on a tensor of indices, says where each element came from."""

import random

import pytest
import torch
import torch.nn.functional as F

from course_lib.tracing import UNLABELLED, propagate, trace_run

SHAPE = (2, 4, 6)
INDICES = torch.arange(48).view(SHAPE)
LAYOUT = {
    "transpose": lambda t: t.transpose(0, -1),
    "permute": lambda t: t.permute(*range(1, t.dim()), 0),
    "reshape": lambda t: t.reshape(t.shape[0], -1),
    "flatten": lambda t: t.flatten(),
    "contiguous": lambda t: t.contiguous(),
    "unsqueeze": lambda t: t.unsqueeze(-1).expand(*t.shape, 2),
    "slice": lambda t: t[..., 1:] if t.shape[-1] > 1 else t,
    "strided slice": lambda t: t[::2],
    "select": lambda t: t.select(0, t.shape[0] - 1)[None],
    "split and cat": lambda t: torch.cat(t.split(2, dim=0)[::-1], dim=0),
    "unbind and stack": lambda t: torch.stack(t.unbind(0), dim=-1),
    "flip": lambda t: t.flip(0),
    "roll": lambda t: t.roll(1, -1),
    "repeat": lambda t: t.repeat(*[1] * (t.dim() - 1), 2),
    "repeat_interleave": lambda t: t.repeat_interleave(2, dim=0),
    "index": lambda t: t[torch.tensor([t.shape[0] - 1, 0])],
    "index_select": lambda t: t.index_select(-1, torch.tensor([0, t.shape[-1] - 1])),
    "gather": lambda t: t.gather(0, torch.zeros_like(t, dtype=torch.int64)),
    "unfold": lambda t: t.unfold(0, 2, 1) if t.shape[0] > 1 else t,
    "pad": lambda t: F.pad(t, (1, 0), value=-1),
    "swap halves": lambda t: torch.cat(t.chunk(2, dim=-1)[::-1], dim=-1),
}
ARITHMETIC = [lambda t: t * 2, lambda t: 1 - t, lambda t: t.exp(), lambda t: t + torch.rand(t.shape[-1]), F.relu]


def labels_after(code, x=None, start=INDICES):
    x = torch.rand(SHAPE, dtype=torch.float64) if x is None else x
    trace, output = trace_run(code, x)
    assert torch.is_tensor(output), output
    return propagate(trace, {trace.x.number: start})[trace.output.number]


@pytest.mark.parametrize("seed", range(40))
def test_a_chain_of_layout_and_arithmetic_keeps_the_indices_that_the_layout_alone_gives(seed):
    rng = random.Random(seed)
    moves = [LAYOUT[rng.choice(list(LAYOUT))] for _ in range(4)]
    between = [rng.choice(ARITHMETIC) for _ in moves]

    def code(x):
        for move, arithmetic in zip(moves, between, strict=True):
            x = arithmetic(move(x))
        return x

    expected = INDICES
    for move in moves:
        expected = move(expected)
    assert torch.equal(labels_after(code), expected)


@pytest.mark.parametrize("name", LAYOUT)
def test_each_move_alone(name):
    assert torch.equal(labels_after(LAYOUT[name]), LAYOUT[name](INDICES))


def test_patches_keep_the_indices_of_a_grid_and_zeros_around_it_have_none():
    x, indices = torch.rand(1, 2, 3, 4, dtype=torch.float64), torch.arange(24).view(1, 2, 3, 4)
    labels = labels_after(lambda t: F.unfold(t, 2, padding=1), x, indices)
    padded = F.pad(indices, (1, 1, 1, 1), value=-1).unfold(2, 2, 1).unfold(3, 2, 1)
    assert torch.equal(labels, padded.permute(0, 1, 4, 5, 2, 3).flatten(1, 3).flatten(2))


@pytest.mark.parametrize(
    "write",
    [
        lambda held, at, new: held.index_copy_(0, at, new),
        lambda held, at, new: held.index_put_((at,), new),
        lambda held, at, new: held.scatter_(0, at[:, None].expand_as(new), new),
        lambda held, at, new: held.index_copy(0, at, new),
        lambda held, at, new: held.scatter(0, at[:, None].expand_as(new), new),
        lambda held, at, new: (held[1::2].copy_(new[[1, 0]]), held)[1],
        lambda held, at, new: (held.__setitem__(slice(3, 4), new[:1]), held.__setitem__(1, new[1]), held)[2],
        lambda held, at, new: held.slice_scatter(new[[1, 0]], 0, 1, 5, 2),
    ],
)
def test_written_elements_bring_their_labels_to_the_indices_that_are_named(write):
    at = torch.tensor([3, 1])

    def code(x):
        return write(torch.zeros(5, 2, dtype=x.dtype), at, x[0]) * 2

    labels = labels_after(code, torch.rand(1, 2, 2, dtype=torch.float64), torch.tensor([[[10, 11], [20, 21]]]))
    assert torch.equal(labels, write(torch.full((5, 2), UNLABELLED), at, torch.tensor([[10, 11], [20, 21]])))


def test_a_plain_number_that_is_written_leaves_the_labels():
    def code(x):
        held = x * 1
        held.scatter_(1, torch.zeros(2, 1, 6, dtype=torch.int64), 7.0)
        held[held > 100] = 0.0
        return held.masked_fill(held > 3, 0.0)

    assert torch.equal(labels_after(code), INDICES)


@pytest.mark.parametrize(
    "code",
    [
        lambda x: x @ torch.rand(6, 3, dtype=x.dtype),
        lambda x: x @ x.mT,
        lambda x: x.sum(1),
        lambda x: x.amax(-1, keepdim=True),
        lambda x: torch.zeros_like(x),
        lambda x: x.new_zeros(x.shape),
        lambda x: torch.rand(4, 6),
    ],
)
def test_products_sums_and_new_tensors_end_every_label(code):
    assert (labels_after(code) == UNLABELLED).all()


@pytest.mark.parametrize("add", [torch.add, torch.Tensor.add_])
def test_gaps_are_filled_from_the_other_summand(add):
    def code(x):
        left, right = torch.zeros_like(x), torch.zeros_like(x)
        left[..., :3] = x[..., :3]
        right[..., 3:] = x[..., 3:]
        return add(left, right)

    assert torch.equal(labels_after(code), INDICES)


def test_of_two_labels_the_first_counts_where_nothing_is_zero():
    assert torch.equal(labels_after(lambda x: x.flip(-1) + x, torch.rand(SHAPE) + 1), INDICES.flip(-1))
    both_zero = torch.zeros(SHAPE)
    assert torch.equal(labels_after(lambda x: x.flip(-1) + x, both_zero), INDICES.flip(-1))


def test_a_label_may_start_within_the_run():
    trace, _ = trace_run(lambda x: (x @ x.mT).transpose(1, 2) * 3, torch.rand(2, 4, 6))
    product = next(operation for operation in trace.operations if operation.name == "bmm").outputs[0]
    start = torch.arange(32).view(2, 4, 4)
    labels = propagate(trace, {product.number: start})
    assert torch.equal(labels[trace.output.number], start.mT) and torch.equal(labels[product.number], start)


def angles(dtype):
    speeds = torch.tensor([1.0, 0.1, 0.01], dtype=dtype)
    return torch.arange(4, dtype=dtype)[:, None] * speeds  # (token, pair)


def rotated_in_halves(x):
    angle = angles(x.dtype).repeat(1, 2)
    first, second = x.chunk(2, dim=-1)
    return x * angle.cos() + torch.cat([-second, first], dim=-1) * angle.sin()


def rotated_in_halves_the_other_way_round(x):
    angle = angles(x.dtype).repeat(1, 2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1) * angle.sin() + x * angle.cos()


def rotated_in_pairs(x):
    angle = angles(x.dtype).repeat_interleave(2, dim=1)
    other_half = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
    return x * angle.cos() + other_half * angle.sin()


def rotated_as_complex_numbers(x):
    pairs = torch.view_as_complex(x.unflatten(-1, (3, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones(4, 3, dtype=x.dtype), angles(x.dtype))).flatten(-2)


@pytest.mark.parametrize(
    "code",
    [rotated_in_halves, rotated_in_halves_the_other_way_round, rotated_in_pairs, rotated_as_complex_numbers],
)
def test_a_rotated_element_keeps_its_own_column(code):
    columns = torch.arange(6).expand(SHAPE).clone()  # one label per column, as the doctor follows queries and keys
    assert torch.equal(labels_after(code, start=columns), columns)
