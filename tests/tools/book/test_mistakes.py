"""How the book's mistake pages are made; tests/browser/test_mistake_pages.py reads all of those that were built."""

import re

import pytest

from course_lib.mistakes import CATALOGUE
from tools.book import mistakes
from tools.book.mistake_code import run_example
from tools.book.mistake_page import diff
from tools.book.mistakes import read_example, write_pages

SMALL = "module = 1\n\n\n# how it is called\nx = 2\n"


def example_of(name):
    return read_example(CATALOGUE[name].example)


@pytest.mark.slow
def test_pages_are_the_same_each_time(tmp_path, monkeypatch):
    names = ("mask-discarded", "merge-without-transpose", "dropout-at-eval")
    monkeypatch.setattr(mistakes, "CATALOGUE", {name: CATALOGUE[name] for name in names})
    for folder in (tmp_path / "first", tmp_path / "again"):
        write_pages(folder)
    first, again = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in tmp_path.iterdir())
    assert first == again and {"index.md", "mask-discarded.md", "mask-discarded.svg"} <= first.keys()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SMALL, "own.py has no guilty line: end it with '# wrong' and write '# instead: <line>' below."),
        ("a = 1  # wrong\n", "own.py has no line '# how it is called': write it between the code and its call."),
    ],
)
def test_an_example_that_lacks_a_mark_is_refused(tmp_path, text, words):
    (tmp_path / "own.py").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"{re.escape(words)}$"):
        read_example(tmp_path / "own.py")


def test_marks_replace_leave_out_and_insert(tmp_path):
    text = "a = 1  # wrong\n# instead: a = 2\nb = 3  # wrong\nif a:\n    c = 4\n    # instead: d = 5\n\n\n"
    (tmp_path / "own.py").write_text(text + "# how it is called\nmodule = c\n", encoding="utf-8")
    example = read_example(tmp_path / "own.py")
    assert example.wrong == "a = 1\nb = 3\nif a:\n    c = 4\n"
    assert example.right == "a = 2\nif a:\n    c = 4\n    d = 5\n"
    assert example.wrong_lines == (1, 2)
    assert example.call == "module = c\n"
    assert diff(example).splitlines() == [
        "@@ from line 1 on @@", "- a = 1", "- b = 3", "+ a = 2", "  if a:", "      c = 4", "+     d = 5",
    ]  # fmt: skip


def test_the_random_numbers_of_the_build_are_left_alone():
    import torch

    example = example_of("returns-none")
    before = torch.random.get_rng_state()
    run_example(example.wrong, example.call)
    assert torch.equal(before, torch.random.get_rng_state())


def code_of(name, wrong=True):
    """The module of an example's wrong or right code and its input; both codes draw the same weights."""
    import torch

    example, names = example_of(name), {"__name__": "attention"}
    with torch.random.fork_rng(devices=[]):
        exec(example.wrong if wrong else example.right, names)
        exec(example.call, names)
    return names["module"].eval(), names["x"]


def earlier_outputs_move(module, x):
    """How far the outputs of the earlier tokens move when the last token changes."""
    changed = x.clone()
    changed[:, -1] += 1
    return (module(x) - module(changed))[:, :-1].abs().max().item()


def test_the_page_of_the_soft_cap_shows_a_leak_that_can_be_seen():
    assert earlier_outputs_move(*code_of("softcap-missing")) > 1e-3
    assert earlier_outputs_move(*code_of("softcap-missing", wrong=False)) == 0


def test_the_page_of_mixed_samples_is_wrong_with_one_sample_too_and_each_sample_moves_the_other():
    (wrong, x), (right, _) = code_of("batch-mixed"), code_of("batch-mixed", wrong=False)
    right.load_state_dict(wrong.state_dict())
    assert (wrong(x[:1]) - right(x[:1])).abs().max() > 0.1
    for changed, other in ((0, 1), (1, 0)):
        moved = x.clone()
        moved[changed] += 1
        assert (wrong(x) - wrong(moved))[other].abs().max() > 0.1
    assert "works with batch 1 only." not in " ".join(CATALOGUE["batch-mixed"].notices)


def test_the_page_of_unused_positions_says_what_holds_under_its_causal_mask():
    (wrong, x), order = code_of("rotary-unused"), [2, 0, 3, 1, 4]
    last_moves = (wrong(x) - wrong(x[:, order]))[:, -1].abs().max()
    all_move = (wrong(x)[:, order] - wrong(x[:, order])).abs().max()
    assert last_moves < 1e-6 < 0.1 < all_move
    assert any("earlier words" in notice for notice in CATALOGUE["rotary-unused"].notices)
