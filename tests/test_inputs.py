"""The four toy inputs hold the published numbers."""

from pathlib import Path

import pytest
import torch

from course_lib import inputs
from course_lib.inputs import ToyInput, dream_big, fables, four_by_six, kid_smiles, three_rows

INPUTS = {
    dream_big: (
        "Dream big and work for it",
        1,
        [
            [0.72, 0.45, 0.31],
            [0.75, 0.20, 0.55],
            [0.30, 0.80, 0.40],
            [0.85, 0.35, 0.60],
            [0.55, 0.15, 0.75],
            [0.25, 0.20, 0.85],
        ],
    ),
    three_rows: (
        None,
        2,
        [
            [0.43, 0.15, 0.89, 0.55, 0.87, 0.66],
            [0.57, 0.85, 0.64, 0.22, 0.58, 0.33],
            [0.77, 0.25, 0.10, 0.05, 0.80, 0.55],
        ],
    ),
    kid_smiles: ("The Kid Smiles", 1, [[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1], [1, 1, 1, 1, 1, 1]]),
    four_by_six: (
        None,
        1,
        [
            [0.7924, 0.4975, 0.5119, 0.4034, 0.6843, 0.3314],
            [0.9629, 0.7819, 0.5565, 0.5319, 0.2773, 0.2841],
            [0.3263, 0.7731, 0.5472, 0.6618, 0.3387, 0.6278],
            [0.7786, 0.0196, 0.0878, 0.0646, 0.6827, 0.6362],
        ],
    ),
}
each_input = pytest.mark.parametrize("make", INPUTS, ids=lambda make: make.__name__)


@each_input
def test_the_numbers_are_the_published_ones(make):
    sentence, samples, rows = INPUTS[make]
    toy = make()
    assert isinstance(toy, ToyInput)
    assert torch.equal(toy.embeddings, torch.tensor(rows, dtype=torch.float32))
    assert len(toy.words) == len(rows)
    assert sentence is None or " ".join(toy.words) == sentence
    assert torch.equal(toy.batch, toy.embeddings.expand(samples, -1, -1))


@each_input
def test_words_are_different_from_each_other(make):
    assert len(set(make().words)) == len(make().words)


@each_input
def test_dtype_and_device_are_as_told(make):
    toy = make(dtype=torch.float64, device="meta")
    assert toy.embeddings.dtype == toy.batch.dtype == torch.float64
    assert toy.embeddings.device.type == toy.batch.device.type == "meta"
    exact = make(dtype=torch.float64).embeddings
    assert torch.equal(exact, torch.tensor(INPUTS[make][2], dtype=torch.float64))


@each_input
def test_pytorchs_default_dtype_is_followed(make):
    torch.set_default_dtype(torch.float64)
    try:
        assert make().batch.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@each_input
def test_each_call_makes_its_own_tensors(make):
    first, second = make(), make()
    first.embeddings.fill_(0.0)
    first.batch.fill_(1.0)
    assert (first.embeddings == 0).all()
    assert torch.equal(second.embeddings, make().embeddings)
    assert torch.equal(second.batch, make().batch)


@each_input
def test_nothing_random_is_drawn(make):
    state = torch.get_rng_state()
    make()
    assert torch.equal(state, torch.get_rng_state())


def test_the_fables_are_the_text_without_the_note_on_their_origin():
    text = fables()
    titles = [fable.splitlines()[0] for fable in text.split("\n\n")]
    assert len(titles) == len(set(titles)) == 82
    assert titles[0] == "The Cock and the Pearl" and titles[-1] == "The Fox and the Goat"
    assert text.isascii() and "#" not in text and text.endswith('."\n')


def test_the_file_of_the_fables_says_why_it_is_free():
    note = (Path(inputs.__file__).with_name("data") / "fables.txt").read_text("utf-8").split("\n\n")[0]
    assert all(line.startswith("# ") for line in note.splitlines())
    assert "1894" in note and "public domain" in note
