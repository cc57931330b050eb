"""What lesson 10 says of the stored models' heads holds in other stories, and where it can, in other models."""

import pytest
import torch

pytestmark = pytest.mark.slow

KINDS = ("name", "animal", "thing", "colour", "place")
MOVERS = {"weight split": (4, [2]), "multi-query": (1, [0]), "no positions": (1, [0, 3])}  # kv heads, heads of block 1
ASSIGNED = ("PARTS", "KINDS", "device", "told", "GIRLS", "BOYS", "others", "own", "other", "friends")


@pytest.fixture(scope="module", params=[2_100_000, 2_300_000, 2_400_000])
def lesson(request, lesson_code):
    """The lesson's functions, with stories of another seed."""
    code = lesson_code("10_what_heads_learn", *ASSIGNED)
    namespace = code.says.__globals__
    namespace |= vars(code)
    chosen = [one for one in code.stories(4000, seed=request.param) if len(code.words(one.text)) == 85]
    namespace["model"] = code.opened("weight split", 4)
    tokens = torch.cat([namespace["model"].encode(one.text) for one in chosen])
    repeats = {kind: torch.zeros(tokens.shape, dtype=torch.bool) for kind in KINDS}
    for number, one in enumerate(chosen):
        for fact in one.facts:
            if fact.kind in KINDS:
                repeats[fact.kind][number, list(fact.repeats)] = True
    namespace |= {"chosen": chosen, "tokens": tokens, "repeats": repeats}
    return code


def patched_heads(lesson, model, there, part, heads):
    """The logits with one part of some heads of block 1 from another run."""

    def change(one):
        for head in heads:
            one = lesson.patch(one, there[part], head)
        return one

    return lesson.run_with(model, lesson.says.__globals__["tokens"], 1, part, change)


@pytest.mark.parametrize("form", MOVERS)
def test_the_measure_finds_the_heads_without_which_no_name_is_left(lesson, form):
    kv_heads, heads = MOVERS[form]
    scores = lesson.looks_up(lesson.load_storyteller(form), "name")
    assert sorted(scores[1].topk(len(heads)).indices.tolist()) == heads and scores[1, heads].min() > 0.5, scores
    model = lesson.opened(form, kv_heads)
    tokens = lesson.says.__globals__["tokens"]
    with torch.no_grad():
        assert lesson.sure_of(model(tokens))["name"] > 0.85
    assert max(lesson.sure_of(lesson.without(model, 1, *heads)).values()) < 0.45
    assert lesson.sure_of(lesson.without(model, 1, *heads))["name"] < 0.12


def test_in_the_best_model_other_heads_take_over(lesson):
    model = lesson.opened("best", 2)
    assert int((lesson.looks_up(lesson.load_storyteller("best"), "name") > 0.5).sum()) == 4
    assert min(lesson.sure_of(lesson.without(model, 2, head))["name"] for head in (1, 2)) > 0.8
    assert 0.6 < lesson.sure_of(lesson.without(model, 2, 1, 2))["name"] < 0.8
    assert lesson.sure_of(lesson.without(model, 2, 0, 1, 2, 3))["name"] > 0.6


@pytest.mark.parametrize("form", MOVERS)
def test_keys_need_the_messages_of_block_0_for_names_and_animals_and_values_none(lesson, form):
    kv_heads, heads = MOVERS[form]
    model, tokens = lesson.opened(form, kv_heads), lesson.says.__globals__["tokens"]
    with torch.no_grad(), lesson.edited(model, 0, lesson.silent):
        unwritten = lesson.parts_of(model, tokens, 1)
    with torch.no_grad():
        before = lesson.sure_of(model(tokens))
    sure = {part: lesson.sure_of(patched_heads(lesson, model, unwritten, part, heads)) for part in lesson.PARTS}
    if form == "no positions":
        assert max(sure["keys"][kind] for kind in ("name", "animal")) < 0.55, sure
        return
    assert {kind for kind in KINDS if before[kind] - sure["keys"][kind] > 0.1} == {"name", "animal"}, sure
    assert all(before[kind] - sure["values"][kind] < 0.06 for kind in KINDS), sure
    assert min(before[kind] - sure["queries"][kind] for kind in ("name", "animal", "thing")) > 0.2, sure


def test_nothing_is_fetched_at_the_start(lesson):
    model, tokens = lesson.opened("multi-query", 1), lesson.says.__globals__["tokens"]
    lesson.loss_if_start.__globals__["multi_query"] = model
    with torch.no_grad():
        as_it_is = lesson.loss_of(model(tokens))
    values = lesson.parts_of(model, tokens, 1)["values"][:, 0]
    start, usual = values[0, 0], values[:, 1:].norm(dim=-1).mean()
    found = [start]
    for word in (".", "said", "Zoe"):
        sample, at = (tokens == model.numbers[word]).nonzero()[0]
        found.append(values[sample, at])
    lengths = start.norm(), usual, 3 * usual
    own, *words = (
        [lesson.loss_if_start(length * value / value.norm()) - as_it_is for length in lengths] for value in found
    )
    assert abs(own[0]) < 0.001 and abs(own[1]) < 0.01 and own[2] > 0.1, own
    assert all(abs(one[0]) < 0.003 and one[1] > own[1] and one[2] > own[2] for one in words), words
    assert lesson.loss_of(lesson.without(model, 1, 0)) > as_it_is + 0.3
    to_start = lesson.weights_of(lesson.load_storyteller("multi-query"))[1, :, 0, 20:, 0]
    fact_next = torch.stack(list(lesson.says.__globals__["repeats"].values())).any(dim=0)[:, 20:]
    assert to_start[fact_next].mean() < 0.01 and to_start[~fact_next].mean() > 0.1
