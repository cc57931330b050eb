"""Layout pictures: what stands in them is what the code did, and a mistake in the code shows."""

import base64
import re

import pytest
import torch

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
)
from course_lib.inputs import dream_big
from course_lib.pictures import layout_steps
from course_lib.recorder import name, record

from .picture_checks import check_picture, texts_of

WORDS, _, X = dream_big()
QUERIES = torch.arange(24.0).view(1, 6, 4)
FORMS = {
    "single head": SingleHeadAttention(3, 4),
    "wrapper": MultiHeadAttentionWrapper(3, 4, 2),
    "weight split": MultiHeadAttention(3, 4, 2),
    "four heads": MultiHeadAttention(3, 8, 4),
    "multi-query": MultiQueryAttention(3, 8, 4),
    "grouped": GroupedQueryAttention(3, 8, 4, num_kv_heads=2),
    "large": MultiHeadAttention(3, 768, 12),
}


def to_heads(queries):
    split = queries.view(1, 6, 2, 2)
    by_head = split.transpose(1, 2)
    return by_head


def three_steps(queries):
    return queries.view(1, 6, 2, 2).transpose(1, 2).contiguous()


@pytest.mark.slow
@pytest.mark.one_in(10)
@pytest.mark.parametrize("words", [WORDS, None], ids=["words", "no words"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_drawn_readably(form, words):
    picture = layout_steps(record(FORMS[form], X.repeat(2, 1, 1) if words is None else X), words=words)
    check_picture(picture, largest=70_000)
    for step in picture.steps:
        check_picture(step)


def test_panels_carry_shape_stride_code_and_numbers():
    picture = layout_steps(record(to_heads, QUERIES), words=WORDS)
    check_picture(picture)
    shown = texts_of(picture.svg)
    for text in (
        "queries", "split", "by_head", ".view(1, 6, 2, 2)", ".transpose(1, 2)", "shape  (1, 2, 6, 2)",
        "stride (24, 2, 4, 1)", "no element moves", "24 slots, read by queries, split, by_head",
    ):  # fmt: skip
        assert text in shown
    assert [shown.count(str(number)) for number in range(24)] == [4] * 24  # three panels and one row of memory
    assert shown.count("head 0") == 3 and shown.count("work") == 5
    assert picture.caption == "No element moves: view and transpose only change how the same memory is read."


def test_it_says_whose_code_ran():
    shown = texts_of(layout_steps(record(to_heads, QUERIES)).svg)
    assert shown[1].startswith("Drawn from a recorded run of test_layout_steps.py. Cells are numbered")
    space = {}
    exec("def typed(x):\n    return x[:, None].mT", space)  # without a file, as in a notebook
    typed = layout_steps(record(torch.Tensor.view, QUERIES, 6, 4))
    assert texts_of(typed.svg)[1].startswith("Drawn from a recorded run. Cells")
    assert {"index", "mT"} <= set(texts_of(layout_steps(record(space["typed"], QUERIES)).svg))


def test_words_tell_the_same_story():
    words = layout_steps(record(to_heads, QUERIES), words=WORDS).description
    assert "Begins with queries of shape (1, 6, 4), stride (24, 4, 1)" in words
    assert "Then .transpose(1, 2): no element moves. Now shape (1, 2, 6, 2), stride (24, 2, 4, 1)" in words
    assert "its axes count heads; tokens; elements within a head." in words
    assert (
        "Element 14 (work, head 1) is at [0, 3, 2] of queries (slot 14), then at [0, 3, 1, 0] of split (slot 14), "
        "then at [0, 1, 3, 0] of by_head (slot 14)." in words
    )


def test_a_width_with_the_heads_in_turn_is_not_called_head_after_head():
    interleaved = record(lambda queries: queries.view(1, 6, 2, 2).permute(0, 1, 3, 2).flatten(2), QUERIES)
    words = layout_steps(interleaved, words=WORDS).description
    assert "stride (24, 4, 1): its axes count tokens; elements, head after head." in words  # before the permute
    assert words.count("its axes count tokens; elements, the heads in turn.") == 1  # and after it


def test_a_copy_gets_a_memory_of_its_own():
    picture = layout_steps(record(three_steps, QUERIES), words=WORDS)
    assert len(picture.svg.encode()) < 25_000
    shown = texts_of(picture.svg)
    assert "elements copied" in shown and "24 slots, read by .contiguous()" in shown
    assert "contiguous copies the elements to new memory." in picture.caption
    start = shown.index("24 slots, read by .contiguous()")
    assert shown[start + 1 : start + 25] == [
        str(4 * t + 2 * h + i) for h in range(2) for t in range(6) for i in range(2)
    ]


def test_steps_fold_out_one_by_one_without_a_kernel():
    picture = layout_steps(record(three_steps, QUERIES), words=WORDS)
    assert [step.caption.split(";")[0] for step in picture.steps] == [
        "Step 1: .view(1, 6, 2, 2): no element moves",
        "Step 2: .transpose(1, 2): no element moves",
        "Step 3: .contiguous(): elements copied",
    ]
    html = picture._repr_html_()
    assert html.count("<details") == html.count("<summary>") == 3 and html.count("<img alt=") == 4
    for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html):
        assert base64.b64decode(data).startswith(b"<svg")
    (caption,) = re.findall(r"<figcaption>(.*?)</figcaption>", html)
    assert caption == picture.caption
    assert layout_steps(record(lambda x: x.view(1, 6, 2, 2), QUERIES)).steps == ()  # nothing to step through


@pytest.mark.slow
def test_two_recordings_give_the_same_bytes():
    module = FORMS["weight split"]
    one, two = (layout_steps(record(module, X), words=WORDS) for _ in range(2))
    assert one.svg == two.svg and one._repr_html_() == two._repr_html_()


@pytest.mark.slow
def test_what_goes_the_same_way_is_drawn_once():
    picture = layout_steps(record(FORMS["weight split"], X), words=WORDS)
    assert "queries and values" in texts_of(picture.svg)
    assert picture.description.startswith("queries and values. Begins with q_proj(x)")
    both = layout_steps(record(FORMS["weight split"], X), words=WORDS, of=["queries", "values"])
    assert both.description.count("Begins with") == 1


def test_a_name_chooses_what_is_drawn():
    recording = record(FORMS["weight split"], X)
    picture = layout_steps(recording, words=WORDS, of="keys_by_head", title="The keys")
    assert texts_of(picture.svg)[0] == "The keys" and "k_proj(source)" in texts_of(picture.svg)
    assert "q_proj(x)" not in texts_of(picture.svg)
    with pytest.raises(ValueError, match=r"of='scores' names no tensor whose layout changes: choose from .*queries"):
        layout_steps(recording, of="scores")


class WrongView(MultiHeadAttention):
    """The heads by a view alone."""

    def forward(self, x):
        queries = self.q_proj(x).view(len(x), self.num_heads, -1, self.head_dim)
        return queries * 2


class MergedWithoutTranspose(MultiHeadAttention):
    """The heads put back by a reshape alone."""

    def forward(self, x):
        context = self.v_proj(x).view(len(x), -1, self.num_heads, self.value_dim).transpose(1, 2) * 2
        return context.reshape(len(x), -1, self.num_heads * self.value_dim)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [WrongView, MergedWithoutTranspose])
def test_a_scrambled_tensor_is_marked(kind):
    torch.manual_seed(0)
    picture = layout_steps(record(kind(3, 4, 2), X), words=WORDS)
    check_picture(picture)
    assert any("✗" in text for text in texts_of(picture.svg))
    assert "This is scrambled: tokens change along axes 1 and 2, so no axis counts tokens." in picture.description
    assert "✗ The result is scrambled" in picture.caption
    right = layout_steps(record(FORMS["weight split"], X), words=WORDS)
    assert "✗" not in right.svg and "scrambled" not in right.description + right.caption


def test_large_tensors_are_drawn_in_part_and_say_so():
    picture = layout_steps(record(FORMS["large"], X.repeat(2, 1, 1)), of="queries_by_head")
    text = "drawn: sample 0 of 2, 4 of 6 tokens, 3 of 12 heads, 2 of 64 elements of each head"
    assert texts_of(picture.svg).count(text) == 3
    shown = texts_of(picture.svg)
    assert {"64", "65", "128", "129"} <= set(shown)  # columns of three heads, not the first six of one
    assert "memory" not in shown


def test_a_number_can_be_chosen():
    recording = record(to_heads, QUERIES)
    assert "Element 5 (big, head 0)" in layout_steps(recording, words=WORDS, highlight=(0, 1, 1)).description
    assert "Element 23 (it, head 1)" in layout_steps(recording, words=WORDS, highlight=(0, -1, -1)).description
    with pytest.raises(
        TypeError, match="highlight must be a tuple of integers, one per axis of the first tensor, got 5"
    ):
        layout_steps(recording, highlight=5)
    for index in ((0, 6, 0), (1, 1)):
        with pytest.raises(
            ValueError, match=r"is not an index of the first tensor, \(1, 6, 4\): give one integer per axis"
        ):
            layout_steps(recording, highlight=index)


def test_the_number_of_heads_can_be_given():
    recording = record(lambda x: x.transpose(0, 1), QUERIES[0])
    assert "head 1" not in texts_of(layout_steps(recording).svg)
    assert "Element 14 (token 3, head 1)" in layout_steps(recording, num_heads=2).description


def test_padding_and_single_axes_are_drawn_too():
    padded = layout_steps(record(lambda x: torch.nn.functional.pad(x, (0, 1)), QUERIES), words=WORDS)
    check_picture(padded)
    assert texts_of(padded.svg).count("·") == 6
    heads = layout_steps(record(lambda x: torch.nn.functional.pad(x.flip(1), (0, 2)), QUERIES), num_heads=2)
    assert not any("-1" in text for text in texts_of(heads.svg))
    check_picture(layout_steps(record(lambda x: x.flip(0), torch.arange(7))))
    check_picture(layout_steps(record(lambda x: x.expand(3, 2).t(), torch.arange(2))))


@pytest.mark.slow
def test_of_many_ways_the_first_are_drawn_and_the_others_named():
    def code(x):
        return [name(x[:, : 6 - i].transpose(1, 2) * 2, "end") for i in range(5)], one(x), two(x), three(x)

    def one(x):
        shorter = x[:, 1:].contiguous()
        return shorter

    def two(x):
        first = x[:, ::2].mT
        return first

    def three(x):
        last = x.flip(1)
        return last

    picture = layout_steps(record(code, QUERIES), words=WORDS)
    check_picture(picture, largest=60_000)
    assert texts_of(picture.svg)[-1] == "Not drawn: first, last; choose with of=."
    assert "Not drawn" not in layout_steps(record(code, QUERIES), words=WORDS, of=["first", "last"]).description


def test_many_tokens_of_few_heads_are_drawn_in_part():
    picture = layout_steps(record(FORMS["weight split"], torch.randn(1, 40, 3)), of="queries_by_head")
    check_picture(picture)
    assert "drawn: 4 of 40 tokens" in texts_of(picture.svg)


def test_heads_within_their_numbers_are_drawn_as_they_are():
    picture = layout_steps(record(lambda x: x.view(1, 6, 2, 2).permute(0, 1, 3, 2), QUERIES), words=WORDS)
    check_picture(picture)
    assert "scrambled" not in picture.description
    twins = layout_steps(record(lambda x: x.view(1, 6, 2, 2).transpose(2, 3).transpose(1, 2), QUERIES), words=WORDS)
    check_picture(twins)


def test_a_number_that_is_left_behind_is_followed_as_far_as_it_goes():
    picture = layout_steps(record(lambda x: x[:, ::2].contiguous().mT.contiguous(), QUERIES), words=WORDS)
    check_picture(picture)
    assert "Element 12 (work) is at [0, 3, 0] of x (slot 12)." in picture.description


def test_nothing_to_draw_is_refused():
    with pytest.raises(
        TypeError, match=r"recording must be a Recording, got Tensor: make one with record\(module, x\)"
    ):
        layout_steps(X)
    with pytest.raises(ValueError, match=r"recording has no step that changes a layout \(it has 1 steps in all\)"):
        layout_steps(record(torch.relu, X))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["weight split", "wrapper"])
def test_upright_it_says_the_same_and_fits_a_phone(form):
    picture = layout_steps(record(FORMS[form], X), words=WORDS)
    check_picture(picture, largest=60_000)
    numbers = [[text for text in texts_of(svg) if text.isdigit()] for svg in (picture.svg, picture.portrait)]
    assert sorted(numbers[0]) == sorted(numbers[1]) != []
