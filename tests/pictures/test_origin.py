"""Elements keep their numbers through a chain of recordings: checked against index tensors that go the same way."""

import pytest
import torch

from course_lib.inputs import dream_big
from course_lib.pictures import layout_steps
from course_lib.pictures.layout.choice import origins_of
from course_lib.pictures.layout.path import paths_of
from course_lib.pictures.layout.path_coordinates import coordinates_of
from course_lib.recorder import record

from .picture_checks import check_picture, texts_of

B, T, H, D = 2, 5, 3, 7
WORDS = dream_big().words
QUERIES = torch.arange(24.0).view(1, 6, 4)
GENERATOR = torch.Generator().manual_seed(0)
DATA = {
    "random": torch.randn(B, T, H * D, generator=GENERATOR),
    "all alike": torch.zeros(B, T, H * D),  # values tell nothing
    "16 bits": torch.randn(B, T, H * D, generator=GENERATOR).bfloat16(),
    "integers": torch.arange(B * T * H * D).view(B, T, H * D).flip(1) * 10,
}


def some_step(number, shape):
    """A function that changes the layout of a tensor of a shape, another one for each number."""
    axes = torch.randperm(len(shape), generator=torch.Generator().manual_seed(number)).tolist()
    steps = [
        lambda x: x.permute(axes),
        lambda x: x.permute(axes).contiguous(),
        lambda x: x.flip(axes[0]),
        lambda x: x.roll(1, dims=axes[0]),
        lambda x: x.flatten(0, 1).permute(1, 0, *range(2, x.dim() - 1)),
        lambda x: x.unflatten(axes[0], (1, -1)).transpose(0, -1),
        lambda x: x.transpose(axes[0], axes[-1]).reshape(-1, x.shape[axes[0]]).T[None],
    ]
    return steps[number % len(steps)]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("seed", range(20))
def test_numbers_stay_through_a_chain_of_recordings(seed, data):
    x = DATA[data]
    index = torch.arange(x.numel()).view(x.shape)
    before = []
    for number in torch.randint(1000, (4,), generator=torch.Generator().manual_seed(seed)).tolist():
        step = some_step(number, x.shape)
        recording = record(step, x)
        if not any(step.is_layout for step in recording.all_steps):
            continue  # an order of axes that is the one they have
        (path,) = paths_of(recording, origins_of(before))
        assert torch.equal(path.sources[0].elements, index)
        x, index = recording.output, step(index)
        assert torch.equal(path.states[-1].elements, index)
        assert (path.origin is None) == (not before)
        before.append(recording)


@pytest.mark.parametrize("data", ["random", "integers"])
@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_those_of_a_tensor_if_its_values_differ(seed, data):
    x = DATA[data]
    y, index = x, torch.arange(x.numel()).view(x.shape)
    for number in torch.randint(1000, (3,), generator=torch.Generator().manual_seed(seed)).tolist():
        step = some_step(number, y.shape)
        y, index = step(y), step(index)  # nothing is recorded here
    step = some_step(3, y.shape)  # a roll, which always changes the order
    (path,) = paths_of(record(step, y), origins_of(x))
    assert torch.equal(path.sources[0].elements, index) and torch.equal(path.states[-1].elements, step(index))


def test_views_need_no_values():
    x = DATA["all alike"]
    split = x.view(B, T, H, D)[:, 1:]
    (path,) = paths_of(record(lambda split: split.transpose(1, 2), split), origins_of(x))
    index = torch.arange(x.numel()).view(B, T, H, D)[:, 1:]
    assert torch.equal(path.states[-1].elements, index.transpose(1, 2))


def test_joined_tensors_of_one_origin_keep_their_numbers_and_others_are_numbered_anew():
    x = DATA["random"]
    parts = x.split(D, dim=2)
    (path,) = paths_of(record(lambda a, b: torch.cat([b, a], dim=2), *parts[:2]), origins_of(x))
    index = torch.arange(x.numel()).view(x.shape)
    assert torch.equal(path.states[-1].elements, torch.cat([index[..., D : 2 * D], index[..., :D]], dim=2))
    (path,) = paths_of(record(lambda a, b: torch.cat([a, b], dim=2), x, x + 1), origins_of(x))
    assert path.origin is None and path.sources[1].elements.min() == x.numel()


def test_each_tensor_continues_its_own_path():
    def to_heads(queries, keys):
        return queries.view(B, T, H, D).transpose(1, 2), keys.view(B, T, H, D).permute(0, 2, 3, 1)

    first = record(to_heads, DATA["random"], DATA["16 bits"])
    second = record(lambda queries, keys: (queries.mT, keys.flip(0)), *first.output)
    index = torch.arange(B * T * H * D).view(B, T, H, D)
    queries, keys = paths_of(second, origins_of(first))
    assert torch.equal(queries.states[-1].elements, index.transpose(1, 2).mT)
    assert torch.equal(keys.states[-1].elements, index.permute(0, 2, 3, 1).flip(0))


def test_heads_stay_known_after_they_are_merged():
    first = record(lambda x: x.view(B, T, H, D).transpose(1, 2).transpose(1, 2).reshape(B, T, H * D), DATA["random"])
    (path,) = paths_of(record(lambda merged: merged.mT.contiguous(), first.output), origins_of(first))
    coordinates = coordinates_of(path, num_tokens=T)
    assert coordinates.num_heads == H
    assert torch.equal(coordinates.head[path.states[-1].elements][0, :, 0], torch.arange(H * D) // D)


def split(queries):
    by_head = queries.view(1, 6, 2, 2).transpose(1, 2)
    return by_head


def merge(by_head):
    merged = by_head.transpose(1, 2).reshape(1, 6, 4)
    return merged


@pytest.mark.slow
@pytest.mark.parametrize("values", [QUERIES, torch.zeros(1, 6, 4)], ids=["different", "alike"])
def test_element_14_stays_14_in_pictures(values):
    there = record(split, values)
    back = record(merge, there.output)
    again = record(split, back.output)
    for recording, origin in ((there, None), (back, there), (again, [there, back])):
        picture = layout_steps(recording, words=WORDS, origin=origin)
        check_picture(picture)
        assert "Element 14 (work, head 1)" in picture.description
    assert layout_steps(again, words=WORDS, origin=(there, back)).description == picture.description
    assert "Element 14 (work, head 1)" in layout_steps(again, highlight=(0, 3, 2), words=WORDS).description


def test_a_picture_says_whose_numbers_it_shows():
    there = record(split, QUERIES)
    picture = layout_steps(record(merge, there.output), words=WORDS, origin=there)
    assert "Elements keep the numbers of queries." in picture.description
    assert "Cells are numbered as in queries; follow the outlined one." in texts_of(picture.svg)[1]
    picture = layout_steps(record(merge, there.output), words=WORDS, origin=QUERIES, highlight=(0, 1, 3, 0))
    assert "Elements keep the numbers of a tensor of shape (1, 6, 4)." in picture.description
    assert "Element 14 (work, head 1)" in picture.description
    without = layout_steps(record(merge, there.output), words=WORDS, highlight=(0, 1, 3, 0))
    assert "Element 18 (work, head 1)" in without.description and "keep the numbers" not in without.description


def test_what_came_from_elsewhere_is_refused():
    recording = record(merge, split(QUERIES))
    for origin in (QUERIES + 0.5, torch.ones(1, 6, 4), record(split, QUERIES * 2)):
        with pytest.raises(ValueError, match="origin holds none of the elements whose layout changes here, or they"):
            layout_steps(recording, origin=origin)
    with pytest.raises(TypeError, match="origin must be a tensor, a Recording or several of them, got str"):
        layout_steps(recording, origin=["queries"])
