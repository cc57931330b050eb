"""The committed figures are what the code draws today."""

import re
from itertools import zip_longest
from pathlib import Path

import pytest

from course_lib.command import main
from course_lib.pictures import live
from tests.pictures.picture_checks import check_picture, texts_of
from tools import figures

FOLDER = Path(__file__).parents[2] / "figures"
BY_MATPLOTLIB = {"two_heads"}


@pytest.fixture(scope="module")
def drawn():
    return {name: draw() for name, draw in figures.FIGURES.items()}


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_committed_figure_is_what_the_code_draws(name, drawn):
    committed = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    if name in BY_MATPLOTLIB:  # its bytes depend on matplotlib's version; its labels and numbers don't
        assert texts_of(committed) == texts_of(drawn[name].svg)
    else:
        assert committed == drawn[name].svg


@pytest.mark.parametrize("name", sorted(set(figures.FIGURES) - BY_MATPLOTLIB))
def test_a_figure_is_readable(name, drawn):
    check_picture(drawn[name])


def test_no_figure_is_left_over():
    assert {path.stem for path in FOLDER.glob("*")} == set(figures.FIGURES)


@pytest.mark.slow
def test_drawing_again_gives_the_same_bytes(drawn):
    assert all(draw().svg == drawn[name].svg for name, draw in figures.FIGURES.items())


def test_a_changed_module_changes_its_figure(drawn, monkeypatch):
    right = figures.MultiHeadAttention.run_kernel

    def run_kernel(self, queries, keys, values, keep):
        context, weights = right(self, queries, keys, values, keep)
        return context.transpose(1, 2).reshape(context.shape), weights  # tokens and heads mixed up

    monkeypatch.setattr(figures.MultiHeadAttention, "run_kernel", run_kernel)
    assert figures.transpose_back().svg != drawn["transpose_back"].svg
    assert "✗" in figures.transpose_back().svg


def test_the_cells_of_the_animation_stand_where_the_steps_of_the_figure_say(drawn):
    svg, steps = drawn["why_transpose"].svg, live.why_transpose().data["steps"]
    moves = [
        re.findall(r"translate\((.*?)px,(.*?)px\)", move) for move in re.findall(r"@keyframes c\d+\{(.*?\})\}", svg)
    ]
    assert len(moves) == 24 and "<script" not in svg
    for number, step in enumerate(steps):
        tables = [table["rows"] for table in step["tables"]]
        rows = [row["cells"] for rows in zip_longest(*tables) for row in rows]  # tables stand side by side
        places = {cell: tuple(map(float, reversed(moves[cell][number]))) for cell in range(24)}
        assert sorted(places, key=places.get) == [cell for row in rows for cell in row]


def test_writing_says_what_changed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(figures, "FIGURES", dict(list(figures.FIGURES.items())[:2]))
    assert main(["figures", "--to", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.count(": written\n") == len(figures.FIGURES)
    assert main(["figures", "--to", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.count(": unchanged\n") == len(figures.FIGURES)
