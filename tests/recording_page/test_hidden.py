"""Hidden numbers follow one rule: written-out attention and the fused kernel tell the same of the same numbers."""

import pytest
import torch
from torch.nn import functional as F

from course_lib.recorder import record
from course_lib.recording_page import sources
from course_lib.recording_page.story import story_of

from .paths import table_of

VISIBLE = torch.tensor([[True, False, False], [True, True, False], [False, True, True]])
MASKS = {
    "truth values": VISIBLE,
    "infinities": torch.zeros(3, 3).masked_fill(~VISIBLE, -torch.inf),
    "the smallest number": torch.zeros(3, 3).masked_fill(~VISIBLE, torch.finfo(torch.float32).min),
    "minus ten thousand": (1 - VISIBLE.float()) * -10_000,
}


def written_out(q, k, v, mask):
    scores = q @ k.mT / 2
    scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ v


def written_in_place(q, k, v, mask):
    scores = q @ k.mT
    if mask.dtype == torch.bool:
        scores.masked_fill_(~mask, -1e9)
    else:
        scores += mask
    return F.softmax(scores, dim=-1) @ v


def fused(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask)


def told(code, mask):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 3, 2, generator=generator) for _ in range(3))
    story = story_of(record(code, q, k, v, mask))
    return {name: table_of(story, name) for name in ("q", "k", "v", "mask")}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("code", [written_out, written_in_place])
def test_fused_and_written_out_tell_the_same(code, mask):
    mask = MASKS[mask]
    assert told(code, mask) == told(fused, mask)


def test_a_wrong_rule_is_found(monkeypatch):
    def turned(*given):
        found = sources.fused_attention_sources(*given)
        return found and [table.roll(1, dims=-1) for table in found]

    rules = [turned if rule is sources.fused_attention_sources else rule for rule in sources.RULES]
    monkeypatch.setattr(sources, "RULES", rules)
    assert told(written_out, VISIBLE) != told(fused, VISIBLE)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("code", [written_out, written_in_place, fused])
def test_a_hidden_token_is_on_no_path_and_its_mask_is(code, mask):
    found = told(code, MASKS[mask])
    keys, values = ([sorted({place // 2 for place in places}) for places in found[name][:6:2]] for name in "kv")
    assert values == [[0], [0, 1], [1, 2]]
    assert keys == [[], *values[1:]] and found["q"][0] == []  # the only visible key has a weight of 1 whatever it is
    assert found["mask"][:6:2] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_grouped_queries_share_keys():
    q, k, v = torch.randn(1, 4, 3, 2), torch.randn(1, 2, 3, 2), torch.randn(1, 2, 3, 2)
    story = story_of(
        record(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), q, k, v)
    )
    assert table_of(story, "k")[:4] == [[]] * 2 + [[0, 1, 2, 3]] * 2 and table_of(story, "k")[-1] == [
        6,
        7,
        8,
        9,
        10,
        11,
    ]
    assert table_of(story, "v")[7] == [1] and table_of(story, "v")[-1] == [7, 9, 11]


@pytest.mark.parametrize("code", [lambda a, b: a & b, lambda a, b: torch.logical_or(a, b)])
def test_the_side_that_decides_leaves_the_other_no_source(code):
    """A number is a source if its change alone changes the result."""
    values = torch.tensor([False, True])
    a, b = (grid.flatten() for grid in torch.meshgrid(values, values, indexing="ij"))
    story, result = story_of(record(code, a, b)), code(a, b)
    for name, changed in (("a", code(~a, b)), ("b", code(a, ~b))):
        moves = (changed != result).tolist()
        assert table_of(story, name) == [[place] if moves[place] else [] for place in range(4)], name
