"""Numbers are followed through the recorded calls: where each stands, where it lies, and what it belongs to."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
)
from course_lib.pictures.coordinates import axes_in_width
from course_lib.pictures.layout.path import paths_of
from course_lib.pictures.layout.path_coordinates import coordinates_of
from course_lib.recorder import record

B, T, H, D = 2, 5, 3, 7
INDEX = torch.tensor([4, 0, 2])


def wide(width=H * D):
    return torch.arange(B * T * width).view(B, T, width)


def packed(x):
    q, _, _ = x.view(B, T, 3, H, D).permute(2, 0, 3, 1, 4).unbind(0)
    return q


def test_queries_keys_and_values_in_one_width_have_the_same_heads():
    _, _, head, column = axes_in_width((1, 3 * H * D), H, D)
    assert head[0].tolist() == [h for _ in range(3) for h in range(H) for _ in range(D)]
    assert column[0].tolist() == list(range(D)) * 3 * H


ONE_WAY = {
    "split": (lambda x: x.view(B, T, H, D).transpose(1, 2), wide()),
    "permute": (lambda x: x.view(B, T, H, D).permute(0, 2, 1, 3), wide()),
    "unflatten": (lambda x: x.unflatten(2, (H, D)).swapaxes(1, 2), wide()),
    "movedim": (lambda x: x.unflatten(-1, (H, D)).movedim(2, 1), wide()),
    "flatten": (lambda x: x.view(B, T, H, D).transpose(1, 2).flatten(0, 1), wide()),
    "merge": (lambda x: x.view(B, T, H, D).transpose(1, 2).transpose(1, 2).reshape(B, T, H * D), wide()),
    "packed": (packed, wide(3 * H * D)),
    "T": (lambda x: x[0].T, wide()),
    "mT": (lambda x: x.mT, wide()),
    "none and a slice": (lambda x: x[:, None, 1:, ::2], wide()),
    "index": (lambda x: x[:, INDEX], wide()),
    "index_select": (lambda x: x.index_select(1, INDEX), wide()),
    "gather": (lambda x: x.gather(1, INDEX[None, :, None].expand(B, 3, H * D)), wide()),
    "repeat_interleave": (lambda x: x.view(B, T, H, D).transpose(1, 2).repeat_interleave(2, dim=1), wide()),
    "expand": (lambda x: x[:, None].expand(B, 4, T, H * D), wide()),
    "roll": (lambda x: x.roll(1, dims=1), wide()),
    "wrong view": (lambda x: x.view(B, H, T, D), wide()),
    "contiguous": (lambda x: x.view(B, T, H, D).transpose(1, 2).contiguous(), wide()),
    "copies in between": (lambda x: x.view(B, T, H, D).transpose(1, 2).contiguous().view(B * H, T, D), wide()),
}


@pytest.mark.parametrize("way", ONE_WAY)
def test_numbers_and_slots_are_those_of_the_real_tensors(way):
    code, x = ONE_WAY[way]
    path = paths_of(record(code, x))[0]
    (source,) = path.sources
    assert torch.equal(source.elements, torch.arange(x.numel()).view(x.shape))
    for state in (source, *path.states):
        tensor = x if state.step is None else state.step.tensor
        assert torch.equal(state.elements, tensor)  # x holds its own numbers
        memory = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        assert torch.equal(memory[state.slots], tensor)
    for one in path.states:
        for other in path.states:
            shared = one.step.tensor.untyped_storage().data_ptr() == other.step.tensor.untyped_storage().data_ptr()
            assert (one.memory == other.memory) == shared


def test_several_sources_are_numbered_one_after_the_other():
    (path,) = paths_of(record(lambda a, b: torch.stack([a, b], dim=1), wide(2), wide(2) + 100))
    first, second = path.sources
    assert first.elements.min() == 0 and second.elements.min() == B * T * 2
    expected = torch.stack([first.elements, second.elements], dim=1)
    assert torch.equal(path.states[0].elements, expected)
    (path,) = paths_of(record(lambda a: torch.cat([a, a]), wide(2)))
    assert len(path.sources) == 1  # one tensor, twice


def test_what_comes_from_nowhere_has_no_number():
    (path,) = paths_of(record(lambda x: F.pad(x, (0, 2)), wide(3)))
    numbers = path.states[0].elements
    assert torch.equal(numbers[..., :3], torch.arange(B * T * 3).view(B, T, 3)) and bool((numbers[..., 3:] == -1).all())


def test_chains_part_where_the_code_parts_and_end_where_it_computes():
    def code(x):
        heads = x.view(B, T, H, D)
        return heads.transpose(1, 2) * 2, heads.permute(2, 0, 1, 3), (heads + 1).transpose(1, 2)

    paths = paths_of(record(code, wide()))
    assert [[state.op for state in path.states] for path in paths] == [
        ["view", "transpose"], ["view", "permute"], ["transpose"],
    ]  # fmt: skip
    assert [path.sources[0].title for path in paths] == ["x", "x", "heads + 1"]
    assert paths[0].key != paths[1].key


def independent(shape):
    """(token, head, place) of each element of (batch, head, token, place)."""
    axes = torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij")
    return axes[2], axes[1], axes[3]


@pytest.mark.parametrize(
    ("module", "heads"),
    [
        (MultiHeadAttention(11, H * D, H), {"queries": H, "keys": H, "values": H}),
        (GroupedQueryAttention(11, 6 * D, 6, num_kv_heads=H), {"queries": 6, "keys": H, "values": H}),
    ],
)
def test_each_number_belongs_to_its_token_and_head(module, heads):
    recording = record(module, torch.randn(B, T, 11))
    paths = {path.states[0].title: path for path in paths_of(recording) if len(path.states) > 1}
    for role, num_heads in heads.items():
        path = paths[role]
        coordinates = coordinates_of(path, num_tokens=T)
        by_head = path.states[1]
        assert by_head.shape == (B, num_heads, T, D) and coordinates.num_heads == num_heads
        token, head, place = independent(by_head.shape)
        assert torch.equal(coordinates.token[by_head.elements], token)
        assert torch.equal(coordinates.head[by_head.elements], head)
        assert torch.equal(coordinates.column[by_head.elements], place)
        assert coordinates.roles(by_head.elements) == ["sample", "head", "token", "column"]
        assert coordinates.roles(path.sources[0].elements) == ["sample", "token", "width"]


def test_the_context_of_shared_heads_is_told_where_it_is_unfolded():
    module = GroupedQueryAttention(11, 6 * D, 6, num_kv_heads=H)
    recording = record(module, torch.randn(B, T, 11))
    path = next(path for path in paths_of(recording) if path.sources[0].title == "context_folded")
    coordinates = coordinates_of(path, num_tokens=T)
    context = path.states[0]
    token, head, _ = independent(context.shape)
    assert torch.equal(coordinates.token[context.elements], token) and torch.equal(
        coordinates.head[context.elements], head
    )
    assert coordinates.roles(path.states[-1].elements) == ["sample", "token", "width"]


def roles_after(code, x, **known):
    path = paths_of(record(code, x))[-1]
    coordinates = coordinates_of(path, **known)
    return coordinates, coordinates.roles(path.states[-1].elements)


def test_scrambled_and_merely_unusual_orders_are_told_apart():
    x = wide()
    scattered = ["sample", "scattered", "scattered", "column"]
    assert roles_after(lambda x: x.view(B, H, T, D), x, num_tokens=T)[1] == scattered
    by_head = x.view(B, T, H, D).transpose(1, 2).contiguous()
    assert roles_after(lambda x: x.reshape(B, T, H * D), by_head, num_tokens=T)[1][1:] == ["scattered", "scattered"]
    interleaved = roles_after(lambda x: x.view(B, T, D, H), x, num_heads=H, num_tokens=T)[1]
    assert interleaved[:2] == ["sample", "token"] and "scattered" not in interleaved
    folded = roles_after(lambda x: x.view(B, T, H, D).transpose(1, 2).reshape(B, 1, H * T, D), x)[1]
    assert folded == ["sample", "one", "mixed", "column"] or folded[2] in ("mixed", "scattered")


def test_the_number_of_tokens_tells_token_from_head():
    by_token = torch.arange(B * T * H * D).view(B, T, H, D) + 0
    coordinates, roles = roles_after(lambda x: x.flatten(2), by_token, num_tokens=T)
    assert roles == ["sample", "token", "width"] and coordinates.num_heads == H
    merged = torch.arange(B * H * T * D).view(B * H, T, D)
    coordinates, roles = roles_after(lambda x: x.view(B, H, T, D), merged)
    assert roles == ["sample", "head", "token", "column"] and coordinates.num_heads == H


def test_as_many_heads_as_tokens_are_still_told_apart():
    x = torch.arange(2 * 4 * 4 * 3).view(2, 4, 12)
    _, roles = roles_after(lambda x: x.view(2, 4, 4, 3).transpose(1, 2), x, num_tokens=4)
    assert roles == ["sample", "head", "token", "column"]


def test_one_head_is_no_head():
    module = MultiQueryAttention(11, H * D, H)
    path = next(c for c in paths_of(record(module, torch.randn(B, T, 11))) if c.sources[0].title == "k_proj(source)")
    coordinates = coordinates_of(path, num_tokens=T)
    assert coordinates.num_heads == 1 and coordinates.roles(path.states[-1].elements)[-2:] == ["column", "token"]


def test_joined_heads_are_heads():
    wrapper = MultiHeadAttentionWrapper(11, H * D, H)
    path = next(c for c in paths_of(record(wrapper, torch.randn(B, T, 11))) if c.states[-1].op == "cat")
    coordinates = coordinates_of(path, num_tokens=T)
    assert coordinates.num_heads == H
    assert torch.equal(coordinates.head[path.states[-1].elements][0, 0], torch.arange(H * D) // D)


def test_a_shape_that_tells_nothing_is_read_as_batch_head_token():
    x = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)
    for code in (lambda x: x.flatten(0, 1), lambda x: x.view(2, 12, 5).view(2, 3, 4, 5).mT, lambda x: x.mT.flatten(1)):
        coordinates, _ = roles_after(code, x, num_tokens=99)
        assert torch.equal(coordinates.head.view(2, 3, 4, 5), independent((2, 3, 4, 5))[1])
