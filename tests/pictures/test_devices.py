"""Heads over devices: blocks looked for in the whole, numbers that add up, parts that don't belong refused."""

import re

import pytest
import torch

from course_lib.attention import LlamaAttention, MultiHeadAttention
from course_lib.distributed import shard
from course_lib.inputs import dream_big
from course_lib.pictures import draw_devices
from course_lib.pictures.style import FAINT

from .forms import forms
from .picture_checks import TYPE, VALUE, cells_of, check_drawing, check_picture, texts_of

WORDS, _, X = dream_big()


def cut(whole, num_devices):
    return [shard(whole, device, num_devices) for device in range(num_devices)]


def test_words_and_caption():
    whole = forms()["grouped-query"]
    parts = cut(whole, 2)
    with torch.no_grad():
        first, two = (float(part(X)[0, 2, 5]) for part in parts)
    picture = draw_devices(whole, parts, X, words=WORDS, highlight=(2, 5))
    for device, (heads, rows) in enumerate((("0 and 1", "0 to 3"), ("2 and 3", "4 to 7"))):
        held = f"rows {rows} of q_proj (heads {heads}), rows {2 * device} to {2 * device + 1} of k_proj (head {device})"
        assert f"device {device} holds {held}, " in picture.description
        assert f" and columns {rows} of out_proj (heads {heads}). " in picture.description
        assert f"Its output for “and”, column 5: {(first, two)[device]:.4f}." in picture.description
    total = re.search(r"All-reduce: (.*), the whole module's output\.", picture.description)[1].replace("−", "-")
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", total.replace("- ", "-"))]
    assert numbers == pytest.approx([first, two, first + two], abs=1e-4)
    assert picture.caption == "What 2 devices give adds up to the whole module's output: checked in float64."


@pytest.mark.parametrize("name", ["multi-head", "grouped-query", "multi-query"])
@pytest.mark.parametrize("num_devices", [1, 2, 4])
def test_blocks_are_drawn_where_they_are_held(name, num_devices):
    whole = forms(8, 4)[name]
    picture = draw_devices(whole, cut(whole, num_devices), X, words=WORDS)
    groups = {"multi-head": 8, "grouped-query": 4, "multi-query": 1}[name]
    kept = max(1, groups // num_devices)
    texts = texts_of(picture.svg)
    filled = [text for text in texts if text.isdigit()]
    assert len(filled) == num_devices * (2 * 8 // num_devices + 2 * kept)
    grey = 0 if num_devices == 1 else num_devices * (2 * (8 - 8 // num_devices) + 2 * (groups - kept))
    assert cells_of(picture.svg, FAINT) == grey
    assert texts.count("all of x") == texts.count("q_proj") == texts.count("out_proj") == num_devices
    assert f"rows {16 - 16 // num_devices} to 15" in texts  # the last device's queries
    assert f"heads 0 to {8 // num_devices - 1}" in texts


def test_parts_need_not_be_neighbours():
    whole = MultiHeadAttention(3, 8, 4).double()
    parts = cut(whole, 2)
    rows = [0, 1, 4, 5], [2, 3, 6, 7]  # heads 0 and 2, heads 1 and 3
    for part, mine in zip(parts, rows, strict=True):
        for name in ("q_proj", "k_proj", "v_proj"):
            getattr(part, name).weight.data = getattr(whole, name).weight.data[mine]
        part.out_proj.weight.data = whole.out_proj.weight.data[:, mine]
    texts = texts_of(draw_devices(whole, parts, X.double()).svg)
    assert texts.count("rows 0 to 1 and 4 to 5") == 3 and "columns 2 to 3 and 6 to 7" in texts
    assert "heads 0 and 2" in texts and "heads 1 and 3" in texts and "“token 5”, column 0" in texts


def test_one_row_a_head_and_a_bias_and_llama():
    narrow = MultiHeadAttention(3, 4, 4, bias=True)
    texts = texts_of(draw_devices(narrow, cut(narrow, 4), X, words=WORDS, title="Mine").svg)
    assert texts[0] == "Mine" and texts.count("rows 3") == 3 and "head 3" in texts
    alone = draw_devices(narrow, [narrow], X, words=["a word that is far too long to be drawn here in full"] * 6)
    assert alone.caption == "What 1 device gives adds up to the whole module's output: checked in float64."
    assert texts_of(alone.svg)[0] == "Heads on 1 device"
    llama = LlamaAttention(12, 4, num_kv_heads=2, head_dim=6)
    x = torch.randn(2, 3, 12)
    assert "(2, 3, 12)" in texts_of(draw_devices(llama, cut(llama, 2), x).svg)


@pytest.mark.slow
@pytest.mark.parametrize(("num_heads", "num_devices"), [(4, 2), (8, 4), (8, 1), (1, 1)])
@pytest.mark.parametrize("words", [WORDS, ["a word that is far too long to be drawn here in full"] * 6])
def test_drawing(num_heads, num_devices, words, drawings):
    for whole in forms(num_heads, max(1, num_heads // 2)).values():
        picture = draw_devices(whole, cut(whole, num_devices), X, words=words)
        assert picture.svg == draw_devices(whole, cut(whole, num_devices), X, words=words).svg
        check_picture(picture)
    for drawing in drawings:
        check_drawing(drawing)


def with_weights(part, name, scale):
    getattr(part, name).weight.data *= scale
    return part


WHOLE = forms()["multi-head"]
REFUSED = [
    (
        lambda: draw_devices(WHOLE, [], X),
        VALUE,
        "0 devices and 4 heads can't be drawn: give 1 to 4 parts of a module with 8 heads at most.",
    ),
    (
        lambda: draw_devices(*(lambda whole: (whole, cut(whole, 3)))(forms(9, 3)["multi-head"]), X),
        VALUE,
        "3 devices and 9 heads can't be drawn: give 1 to 4 parts of a module with 8 heads at most.",
    ),
    (
        lambda: draw_devices(WHOLE, [*cut(WHOLE, 4), shard(WHOLE, 0, 4)], X),
        VALUE,
        "5 devices and 4 heads can't be drawn: give 1 to 4 parts of a module with 8 heads at most.",
    ),
    (
        lambda: draw_devices(WHOLE, [cut(WHOLE, 2)[0], with_weights(cut(WHOLE, 2)[1], "v_proj", 2)], X),
        VALUE,
        "device 1 holds parameters of v_proj that the whole module doesn't: cut it with shard().",
    ),
    (
        lambda: draw_devices(WHOLE, [cut(WHOLE, 2)[0], with_weights(cut(WHOLE, 2)[1], "out_proj", 2)], X),
        VALUE,
        "device 1 holds parameters of out_proj that the whole module doesn't: cut it with shard().",
    ),
    (
        lambda: draw_devices(WHOLE, cut(WHOLE, 2)[:1] * 2, X),
        VALUE,
        "the parts' outputs don't add up to the whole module's: give one part for each device.",
    ),
    (
        lambda: draw_devices(WHOLE, cut(WHOLE, 2), X, highlight=(6, 0)),
        VALUE,
        "highlight=(6, 0) is not an index of the output, (6, 8): give one integer per axis.",
    ),
    (
        lambda: draw_devices(WHOLE, cut(WHOLE, 2), X, highlight=(0,)),
        VALUE,
        "highlight=(0,) is not an index of the output, (6, 8): give one integer per axis.",
    ),
    (
        lambda: draw_devices(WHOLE, cut(WHOLE, 2), X, words=["a"]),
        VALUE,
        "words has 1 labels for 6 tokens: give one per token.",
    ),
    (
        lambda: draw_devices(MultiHeadAttention(3, 8, 4, out_proj=False), cut(WHOLE, 2), X),
        VALUE,
        "module 'whole' has no out_proj, so outputs can't be added up: build it with one.",
    ),
    (
        lambda: draw_devices(WHOLE, [torch.nn.Linear(3, 8)], X),
        TYPE,
        "module 'device 0' has no q_proj: give an attention module of the course's forms.",
    ),
]


@pytest.mark.parametrize(("draw", "kind", "words"), REFUSED, ids=[words[:40] for _, _, words in REFUSED])
def test_refused(draw, kind, words):
    with pytest.raises(kind) as error:
        draw()
    assert str(error.value) == words
