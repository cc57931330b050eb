"""The table of consequences: the right code is the course's form, and each mistake changes what it says it changes."""

import pytest
import torch

from course_lib.mistakes import CATALOGUE
from course_lib.stories import with_attention
from course_lib.stories.forms import new_storyteller
from tools.book.storyteller import loss_and_facts, low_to_high, of_all_runs, runs, write_story
from tools.storyteller.consequences import EDITED, FORM, IN_CACHE, PLANTED, RIGHT, ROTARY_FORM, attention_with

BEGINNING = "Once there was an owl named Ida. One morning Ida met a cat."


@pytest.fixture(scope="module", params=[FORM, ROTARY_FORM])
def model(request):
    return new_storyteller(request.param, seed=5).double().eval()


def logits(model, *, cached):
    """The logits after each word, in one pass or word by word with a cache."""
    tokens = model.encode(BEGINNING)
    with torch.no_grad():
        if not cached:
            return model(tokens)
        caches = model.new_caches()
        return torch.cat([model(one, caches) for one in tokens.split(1, dim=1)], dim=1)


def is_rotary(model):
    return model.position_table is None


def test_the_right_code_is_the_course_form(model):
    right = with_attention(model, attention_with(RIGHT, rotary=is_rotary(model)))
    for cached in (False, True):
        torch.testing.assert_close(logits(right, cached=cached), logits(model, cached=cached), rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("mistake", [*PLANTED, *EDITED])
def test_a_mistake_changes_what_the_model_says(model, mistake):
    wrong = with_attention(model, attention_with(mistake, rotary=is_rotary(model)))
    changes = [(logits(wrong, cached=one) - logits(model, cached=one)).abs().max() > 1e-2 for one in (False, True)]
    assert mistake in CATALOGUE
    if mistake in IN_CACHE:
        assert not changes[0] and (changes[1] or not is_rotary(model))
    else:
        assert changes[0] or not is_rotary(model)


def test_only_runs_that_all_mistakes_have_are_shown():
    one, two = {"seed": 0, "rate": 1.0}, {"seed": 0, "rate": 0.5}
    found = {"a": {"trained": [one, two], "put_in": []}, "b": {"trained": [two], "put_in": [two]}}
    assert of_all_runs(found) == {"a": {"trained": [two], "put_in": []}, "b": {"trained": [two], "put_in": [two]}}
    assert runs(of_all_runs(found)) == "1 seed"
    assert runs({"a": {"trained": [one, two]}}) == "1 seed at 2 learning rates each"


def test_cells_of_the_table():
    runs = [
        {"loss": loss, "kept": {"name": kept, "sentence": 9}, "said": {"name": 9, "thing": 1}}
        for loss, kept in ((0.5, 8), (0.25, 4))
    ]
    assert loss_and_facts(runs) == ("0.25–0.50", "12 of 20")
    assert loss_and_facts([]) == ("–", "–")
    assert low_to_high([0.301, 0.299]) == "0.30"


def test_the_page_in_which_it_writes_has_a_preview(tmp_path):
    page = write_story(tmp_path, "https://x.org/").read_text(encoding="utf-8")
    head = page.partition("</head>")[0]
    for tag in ('og:title" content="A storyteller"', 'og:image" content="https://x.org/_static/previews/story.png"'):
        assert f'<meta property="{tag}>' in head
    assert head.count('name="description"') == 1 and "name=description" not in head
    assert '<meta name="twitter:card" content="summary_large_image">' in head and "little stories" in head
