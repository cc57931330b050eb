"""Heatmaps: words and drawing from the same data, hidden cells marked, bad input refused in words."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from course_lib.pictures import Picture, head_heatmaps, heatmap

from .picture_checks import TYPE, VALUE

WORDS = ("Dream", "big", "and")
PATTERN = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.5]])


def test_words_hold_every_number_and_every_hidden_cell():
    assert heatmap(PATTERN, WORDS).description == (
        "Attention weights, 3 queries by 3 keys. Dream: Dream 1.00; hidden: big, and. "
        "big: Dream 0.25, big 0.75; hidden: and. and: Dream 0.20, big 0.30, and 0.50."
    )


def test_the_drawing_holds_the_same_numbers_and_labels():
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", heatmap(PATTERN, WORDS, title="one head").svg)
    assert [text for text in texts if re.fullmatch(r"\d\.\d\d", text)] == [
        "1.00",
        "0.25",
        "0.75",
        "0.20",
        "0.30",
        "0.50",
    ]
    assert texts.count("Dream") == texts.count("big") == texts.count("and") == 2  # once a row, once a column
    assert {"query", "key", "weight", "one head"} <= set(texts)


@pytest.mark.slow
def test_heads_share_one_picture_and_one_scale():
    picture = head_heatmaps(torch.stack([PATTERN, PATTERN])[None], WORDS)
    assert picture.svg.count(">head 0<") == picture.svg.count(">head 1<") == 1
    assert picture.svg.count(">weight<") == 1
    assert [line.split(":")[0] for line in picture.description.split("\n")] == ["head 0", "head 1"]


@pytest.mark.slow
def test_more_heads_than_a_row_holds():
    picture = head_heatmaps(torch.full((5, 6, 6), 1 / 6))  # three per row, and the last place stays empty
    assert all(f">head {head}<" in picture.svg for head in range(5))
    assert picture.svg.count(">query<") == 2  # once per row


@pytest.mark.slow
def test_a_title_of_all_heads():
    picture = head_heatmaps(torch.stack([PATTERN, PATTERN]), WORDS, title="Layer 3")
    assert ">Layer 3<" in picture.svg
    assert [line.split(":")[0] for line in picture.description.split("\n")] == ["Layer 3, head 0", "Layer 3, head 1"]


def test_keep_says_what_is_hidden_where_a_weight_is_zero_by_chance():
    weights = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    keep = torch.tensor([[True, False], [True, True]])
    assert "b: a 1.00; hidden: b." in heatmap(weights, ("a", "b")).description
    assert "b: a 1.00, b 0.00." in heatmap(weights, ("a", "b"), keep=keep).description


@pytest.mark.slow
def test_a_row_that_sees_nothing():
    assert "a: nothing; hidden: a, b." in heatmap(torch.tensor([[0.0, 0.0], [0.5, 0.5]]), ("a", "b")).description


@pytest.mark.slow
def test_a_row_that_sees_nothing_says_so_in_the_drawing():
    assert ">sees nothing<" in heatmap(torch.tensor([[0.0, 0.0, 0.0], *PATTERN[1:].tolist()]), WORDS).svg
    assert "nothing" not in heatmap(PATTERN, WORDS).svg


@pytest.mark.slow
def test_nothing_hidden_means_no_word_of_hatching():
    assert heatmap(PATTERN, WORDS).caption.endswith("Hatched cells are hidden: their weight is 0.")
    assert heatmap(torch.full((2, 2), 0.5)).caption == "Rows are queries, columns are keys; each row sums to 1."
    empty_row = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert "each row sums to 1, or to 0 where a query sees nothing." in heatmap(empty_row).caption
    assert "rows don't all sum to 1." in heatmap(torch.full((2, 2), 0.3)).caption


def test_query_and_key_labels_may_differ():
    assert "new: a 0.50, b 0.50." in heatmap(torch.full((1, 2), 0.5), ("new",), key_words=("a", "b")).description


def test_a_large_pattern_names_the_strongest_key_and_draws_no_numbers():
    pattern = torch.eye(12) * 0.9 + 0.1 / 12
    picture = heatmap(pattern, [f"w{i}" for i in range(12)])
    assert "w3 most to w3 0.91" in picture.description
    assert ">0.91<" not in picture.svg
    assert len(picture.svg) < 60_000


@pytest.mark.slow
def test_the_same_data_give_the_same_bytes_and_a_valid_svg():
    first, second = heatmap(PATTERN, WORDS), heatmap(PATTERN, WORDS)
    assert first.svg == second.svg
    assert ElementTree.fromstring(first.svg).tag.endswith("svg")
    assert len(first.svg) < 40_000


def test_html_survives_an_untrusted_notebook():
    html = heatmap(torch.eye(2), WORDS[:2])._repr_html_()
    assert html.startswith("<figure><img alt=") and html.endswith("</figcaption></figure>")
    assert base64.b64decode(re.search(r"base64,([^\"]+)", html)[1]).startswith(b"<svg")


def test_repr_is_words_and_caption():
    picture = Picture(svg="<svg/>", description="what it shows", caption="why")
    assert repr(picture) == "what it shows\nwhy"


def test_save(tmp_path):
    picture = heatmap(PATTERN, WORDS)
    assert picture.save(tmp_path / "h.svg").read_text() == picture.svg
    with pytest.raises(ValueError, match=r"path must end in \.svg, got 'h\.png'"):
        picture.save(tmp_path / "h.png")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_and_gradients(dtype):
    assert "big 0.75" in heatmap(PATTERN.to(dtype).requires_grad_(), WORDS).description


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: heatmap([[1.0]]), TYPE, "weights must be a floating-point tensor, got list"),
        (lambda: heatmap(torch.eye(2).long()), TYPE, "got torch.int64"),
        (lambda: heatmap(torch.ones(2, 3, 3)), VALUE, r"weights must be \(query, key\).*got the shape \(2, 3, 3\)"),
        (lambda: heatmap(torch.ones(3)), VALUE, r"got the shape \(3,\)"),
        (lambda: heatmap(torch.ones(0, 3)), VALUE, "at least one cell"),
        (lambda: head_heatmaps(torch.ones(2, 2, 3, 3)), VALUE, r"must be \(head, query, key\).*pick one sample"),
        (lambda: head_heatmaps(torch.ones(3, 3)), VALUE, r"must be \(head, query, key\)"),
        (
            lambda: heatmap(torch.full((2, 2), -3.0)),
            VALUE,
            "between 0 and 1, got -3 to -3: draw them after the softmax",
        ),
        (lambda: heatmap(torch.full((2, 2), torch.nan)), VALUE, "between 0 and 1, got nan"),
        (lambda: heatmap(PATTERN, ("a", "b")), VALUE, "words has 2 labels for 3 tokens"),
        (lambda: heatmap(PATTERN, WORDS, key_words=("a",)), VALUE, "key_words has 1 labels for 3 tokens"),
        (lambda: heatmap(PATTERN, keep=[[True]]), TYPE, "keep must be a bool tensor .*, got list"),
        (lambda: heatmap(PATTERN, keep=torch.ones(3, 3)), VALUE, "keep must be bool of shape"),
        (
            lambda: heatmap(PATTERN, keep=torch.ones(2, 3, dtype=torch.bool)),
            VALUE,
            r"\(3, 3\), got torch.bool \(2, 3\)",
        ),
        (lambda: head_heatmaps(PATTERN[None], titles=["a", "b"]), VALUE, "titles has 2 entries for 1 heads"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_table_of_something_else_says_what_it_holds():
    scores = torch.tensor([[0.5, 1.0], [0.25, 0.5]])
    picture = heatmap(scores, ("a", "b"), keep=torch.ones(2, 2, dtype=torch.bool), measure="scores, scaled to 0 to 1")
    assert picture.description.startswith("Scores, scaled to 0 to 1, 2 queries by 2 keys. a: a 0.50, b 1.00.")
    assert picture.caption == "Rows are queries, columns are keys."
