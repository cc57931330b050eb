"""A mask in both senses: tables against the mask, looks against a loop, the mix-up measured and said."""

import re
from importlib import import_module

import pytest
import torch
from torch import nn

from course_lib.attention import causal_keep, padding_keep
from course_lib.pictures import mask_conventions
from course_lib.pictures.style import HIDDEN

from .picture_checks import TYPE, VALUE, cells_of, check_drawing

WORDS = ("Dream", "big", "and", "work", "for", "it")
CAUSAL = causal_keep(6)
LEFT = CAUSAL & padding_keep([4], 6, side="left")[0, 0]  # two rows see nothing


def tables(svg):
    """Rows of marks of the three tables, as strings."""
    return [
        ["".join(re.findall(r">(\w|✓)</tspan>", row)) for row in re.findall(r"<text y=[^>]*>(.*?)</text>", group)]
        for group in re.findall(r'<g class="s11 m">(.*?)</g>', svg)
    ]


@pytest.mark.parametrize("keep", [CAUSAL, LEFT, ~CAUSAL, torch.tensor([[True, False], [True, True]])])
def test_tables_are_the_mask_its_opposite_and_what_is_seen(keep):
    first, second, third = tables(mask_conventions(keep).svg)
    assert first == ["".join("T" if true else "F" for true in row) for row in keep.tolist()]
    assert second == ["".join("F" if true else "T" for true in row) for row in keep.tolist()]
    assert third == ["✓" * sum(row) for row in keep.tolist() if any(row)]
    assert cells_of(mask_conventions(keep).svg, HIDDEN) == int((~keep).sum())


def test_words_and_caption_of_a_causal_mask():
    picture = mask_conventions(CAUSAL, words=WORDS)
    assert (
        "Measured: Dream looks at Dream; big looks at Dream, big; and looks at Dream, big, and;" in picture.description
    )
    mixed = "Mixed up, with keep itself, nn.MultiheadAttention gives 100% of its weight to hidden tokens; 1 of 6 rows "
    assert picture.description.endswith(f"{mixed}is nan.")
    assert picture.caption == f"The tables are opposite, what the tokens look at is the same. {mixed}is nan."
    assert f"✗ {mixed}is nan." in picture.svg
    assert len(picture.description) < 900


def test_rows_that_see_nothing_are_said():
    picture = mask_conventions(LEFT, words=("(pad)", "(pad)", *WORDS[:4]))
    assert picture.svg.count(">sees nothing<") == 2
    assert "(pad) looks at nothing; (pad) looks at nothing; Dream looks at Dream;" in picture.description
    assert "A token that sees nothing gets zeros from the function, nan from the module." in picture.caption
    assert "sees nothing" not in mask_conventions(CAUSAL).svg + mask_conventions(CAUSAL).caption


def test_the_mixed_up_share_is_what_the_module_gives():
    torch.manual_seed(1)
    module = nn.MultiheadAttention(6, 2, batch_first=True).eval()
    x = torch.randn(1, 6, 6)
    wrong = module(x, x, x, attn_mask=CAUSAL)[1][0]
    assert wrong.isnan().any(dim=-1).sum() == 1
    assert torch.isclose(wrong[:-1][~CAUSAL[:-1]].sum(), torch.tensor(5.0))  # all the weight of the other five rows


def test_a_mask_that_hides_nothing_or_all():
    nothing = mask_conventions(torch.ones(2, 2, dtype=torch.bool))
    assert "gives no weights at all: 2 of 2 rows are nan." in nothing.caption
    everything = mask_conventions(torch.zeros(3, 3, dtype=torch.bool), title="Blind")
    assert "gives 100% of its weight to hidden tokens." in everything.caption
    assert ">Blind<" in everything.svg and everything.svg.count(">sees nothing<") == 3


def test_functions_that_treat_blind_rows_alike_are_said_so(monkeypatch):
    module = import_module("course_lib.pictures.weights.masks")
    measure = module._measure
    monkeypatch.setattr(module, "_measure", lambda keep: tuple(table.nan_to_num() for table in measure(keep)))
    assert "A token that sees nothing gets zeros from both." in mask_conventions(LEFT).caption


def test_a_disagreement_is_not_drawn(monkeypatch):
    module = import_module("course_lib.pictures.weights.masks")
    monkeypatch.setattr(module, "to_torch_mask", lambda keep: keep)  # the mistake that the picture warns of
    with pytest.raises(RuntimeError, match="don't look at the same tokens"):
        mask_conventions(CAUSAL)


def test_no_random_state_is_touched_and_the_bytes_are_the_same():
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = mask_conventions(CAUSAL, words=WORDS)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    assert mask_conventions(CAUSAL, words=WORDS).svg == first.svg
    assert len(first.svg) < 9_000


@pytest.mark.parametrize("num_tokens", [1, 2, 6, 8])
@pytest.mark.parametrize("word", ["it", "Dream", "antidisestablishment"])
def test_no_texts_overlap_and_nothing_is_cut(drawings, num_tokens, word):
    keep = causal_keep(num_tokens)
    keep[0, 0] = False
    mask_conventions(keep, words=[word] * num_tokens)
    drawing = drawings[0]
    check_drawing(drawing, widest=920)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: mask_conventions([[True]]), TYPE, "keep must be a bool tensor with True = may attend, got list"),
        (lambda: mask_conventions(torch.ones(2, 2)), TYPE, "got torch.float32"),
        (lambda: mask_conventions(CAUSAL[:4]), VALUE, r"as many queries as keys, 8 at most, got \(4, 6\): give a"),
        (lambda: mask_conventions(causal_keep(9)), VALUE, r"got \(9, 9\)"),
        (lambda: mask_conventions(causal_keep(0)), VALUE, r"got \(0, 0\)"),
        (lambda: mask_conventions(CAUSAL[0]), VALUE, r"got \(6,\)"),
        (lambda: mask_conventions(CAUSAL.to("meta")), VALUE, "keep is on the meta device"),
        (lambda: mask_conventions(CAUSAL, words=("a",)), VALUE, "words has 1 labels for 6 tokens"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
