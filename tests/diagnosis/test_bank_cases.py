"""The bank of right modules is right: each style computes what the library computes on the same weights."""

import pytest
import torch

from course_lib.diagnosis.measure.probes import influence
from course_lib.diagnosis.measure.subject import Subject
from course_lib.mutations import RIGHT
from course_lib.pictures import layout_steps
from course_lib.recorder import record
from tests.diagnosis.bank.healthy import OWN_HEADS, SHARED_HEADS, EinsumParameters
from tests.diagnosis.bank.weights import run
from tests.pictures.picture_checks import check_picture

from .test_wrong_steps import X, modules, weights_of

pytestmark = pytest.mark.one_in(5)

WITHOUT_LAYOUT = (EinsumParameters,)  # einsum does it all underneath

CASES = [(style, "multi-head") for style in (*OWN_HEADS, *SHARED_HEADS)]
CASES += [(style, form) for style in SHARED_HEADS for form in ("grouped", "multi-query")]


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(("style", "form"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_a_style_is_attention(style, form, bias):
    weights = weights_of(modules(bias=bias)[form])
    with torch.no_grad():
        output = style(weights)(X)
    torch.testing.assert_close(output, run(RIGHT, weights, X), rtol=0, atol=1e-11)


@pytest.mark.parametrize("style", (*OWN_HEADS, *SHARED_HEADS), ids=lambda style: style.__name__)
def test_no_probe_of_influence_is_misled_by_a_style(style):
    seen = influence(Subject(style(weights_of(modules()["multi-head"]))), X)
    assert torch.equal(seen > 1e-9, torch.ones(seen.shape, dtype=torch.bool).tril())


@pytest.mark.slow
@pytest.mark.parametrize("style", (*OWN_HEADS, *SHARED_HEADS), ids=lambda style: style.__name__)
def test_every_style_is_recorded_and_drawn(style):
    weights = weights_of(modules()["multi-head"])
    recording = record(style(weights), X)
    torch.testing.assert_close(recording.output, run(RIGHT, weights, X), rtol=0, atol=1e-11)
    assert list(recording.unused()) == []
    assert all(step.where.startswith("healthy.py:") and step.source for step in recording)
    if style not in WITHOUT_LAYOUT:
        picture = layout_steps(recording)
        check_picture(picture, largest=70_000)
        assert "✗" not in picture.svg, picture.description


def test_there_are_many_styles():
    assert len(OWN_HEADS) + len(SHARED_HEADS) >= 30
