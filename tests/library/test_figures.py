"""The committed figures are what the code draws today."""

from pathlib import Path

import pytest

from course_lib import figures

FOLDER = Path(__file__).parents[2] / "figures"


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_committed_figure_shows_what_the_code_draws(name):
    # The drawing's bytes depend on matplotlib's version; its labels and numbers don't.
    def texts(svg):
        return [part.split("</text>")[0].split(">")[-1] for part in svg.split("<text")[1:]]

    committed = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert texts(committed) == texts(figures.FIGURES[name]().svg)


def test_no_figure_is_left_over():
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(figures.FIGURES)


def test_writing_says_what_changed(tmp_path, capsys):
    assert figures.main(["--to", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.endswith("two_heads.svg: written\n")
    assert figures.main(["--to", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.endswith("two_heads.svg: unchanged\n")
