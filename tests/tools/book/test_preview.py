"""The pictures beside shared links: their size, and that they are the course's own drawings."""

import numpy as np
import pytest
from PIL import Image

from tools.book.moving_figures import FIGURES
from tools.book.preview import HEIGHT, KINDS, OF_LESSONS, WIDTH, preview_of, write_previews


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("previews")
    write_previews(folder)
    return folder


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_is_small_and_full(folder, kind):
    path = folder / f"{kind}.png"
    assert path.stat().st_size < 100_000
    image = Image.open(path)
    assert image.size == (WIDTH, HEIGHT)
    pixels = np.asarray(image.convert("L")) < 250
    assert (
        pixels[:10].sum() == pixels[-10:].sum() == pixels[:, :20].sum() == pixels[:, -20:].sum() == 0
    )  # nothing is cut
    assert 0.03 < pixels.mean() < 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_its_words_say_what_it_shows(kind):
    alt = preview_of(kind).alt
    assert 60 < len(alt) < 420 and alt.endswith(".")


def test_texts_are_dark_on_white(folder):
    image = np.asarray(Image.open(folder / "front.png").convert("L"))
    heading, line = image[:70], image[74:104]
    assert heading.min() < 60 and line.min() < 110  # the ink and the quiet grey of the light theme


def test_a_lesson_shows_the_question_of_its_first_figure():
    first = {entry.lesson: entry.name for entry in reversed(FIGURES)}
    assert first == OF_LESSONS and {entry.name for entry in FIGURES} < {*KINDS}
