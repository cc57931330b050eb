"""Stories: every story keeps its own facts, and a damaged one loses the damaged kind of fact alone."""

import random
from collections import Counter
from itertools import permutations

import pytest

from course_lib.stories import KINDS, facts_kept, joined, stories, words
from course_lib.stories.language import CHOICES, SLOT
from course_lib.stories.plots import PLOTS

TOLD = stories(2000, seed=5)
OTHER_PRONOUN = {
    **{"she": "he", "She": "He", "herself": "himself", "Her": "His"},
    **{"he": "she", "He": "She", "himself": "herself", "His": "Her", "his": "her", "him": "her"},
}


def damaged(story, fact, rng):
    """The story with a fact said wrongly once, and nothing else changed."""
    tokens, at = words(story.text), rng.choice(fact.repeats)
    if fact.kind == "pronoun":
        tokens[at] = OTHER_PRONOUN[tokens[at]]
    else:
        choices = next(CHOICES[name] for name in KINDS[fact.kind])
        tokens[at] = rng.choice([word for word in choices if word not in tokens])
        if tokens[at - 1] in ("a", "an"):
            tokens[at - 1] = "an" if tokens[at][0] in "aeiou" else "a"
    return joined(tokens)


@pytest.mark.slow
def test_every_story_keeps_its_own_facts():
    for story in TOLD:
        kept = facts_kept(story.text)
        assert all(kept.values()), (story.text, kept)
        assert kept.keys() - {"sentence"} == {fact.kind for fact in story.facts}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_fact_that_is_said_wrongly_once_is_lost_and_no_other(kind):
    rng, count = random.Random(3), 0
    for story in TOLD[:500]:
        for fact in story.facts:
            if fact.kind == kind and fact.repeats and not (kind == "pronoun" and fact.word in ("her", "hers")):
                kept = facts_kept(damaged(story, fact, rng))
                assert [name for name, is_kept in kept.items() if not is_kept] == [kind], story.text
                count += 1
    assert count > 50


def test_a_fact_of_which_a_text_says_nothing_more_is_lost():
    kept = facts_kept("Once there was a fox named Mila. She had a red kite. But then the red kite was gone.")
    assert kept == {"sentence": True, "animal": False, "name": False, "pronoun": True, "colour": True, "thing": True}


def test_a_sentence_of_another_language_is_told():
    kept = facts_kept("Once there was a fox named Mila. Ben. Ben. This is the story of Mila the fox.")
    assert kept == {"sentence": False, "animal": True, "name": True}


def test_facts_stand_where_they_say():
    for story in TOLD[:300]:
        tokens = words(story.text)
        assert joined(tokens) == story.text
        for fact in story.facts:
            assert all(tokens[at].lower() == fact.word.lower() for at in fact.repeats)


def test_no_sentence_begins_another():
    """Otherwise a text could be read in two ways of which one ends within a sentence."""
    templates = [template for beats in PLOTS.values() for beat in beats for template in beat if template]
    forms = {SLOT.sub("{}", template) for template in templates}
    assert [(first, second) for first, second in permutations(forms, 2) if second.startswith(first)] == []


def test_every_sentence_is_told_and_hardly_a_story_twice():
    texts = [story.text for story in TOLD]
    assert len(set(texts)) == len(texts)
    beginnings = {template.partition("{")[0] for beats in PLOTS.values() for beat in beats for template in beat}
    assert all(any(beginning in text for text in texts) for beginning in beginnings)
    assert min(Counter(fact.kind for story in TOLD for fact in story.facts).values()) > 200


def test_a_seed_tells_the_same_stories_again():
    assert stories(5, seed=1) == stories(5, seed=1) != stories(5, seed=2)
    assert stories(0) == []


def test_a_count_that_is_none_is_refused():
    with pytest.raises(ValueError, match="count must be at least 0, got -1"):
        stories(-1)
    with pytest.raises(TypeError, match="count must be an integer, got 'three'"):
        stories("three")


MET_BEN = "Once there was a cat named Ida. One morning Ida met a dog. The dog was named Ben."


@pytest.mark.parametrize(
    ("text", "kind", "is_kept"),
    [
        ("Once there was a cat named Ida. One morning Ida met a cat. The cat was named Ben.", "animal", True),
        ("Once there was a cat named Ida. One morning Ida met a dog. The dog was named Ida.", "name", False),
        (f"{MET_BEN} Ida was at the lake long before Ben. Who won? It was Ida.", "order", True),
        (f"{MET_BEN} Ida was at the lake long before Ida. Who won? It was Ida.", "order", False),
    ],
)
def test_two_may_be_of_one_kind_but_not_of_one_name(text, kind, is_kept):
    assert facts_kept(text)[kind] is is_kept
