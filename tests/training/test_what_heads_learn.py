"""What lesson 13 says of the stored models' heads holds in other stories, and where it can, in other models."""

import pytest
import torch

pytestmark = pytest.mark.slow

KINDS = ("name", "animal", "thing", "colour", "place")
MOVERS = {"weight split": (4, [2]), "multi-query": (1, [0]), "no positions": (1, [0, 3])}  # kv heads, heads of block 1
ASSIGNED = ("PARTS", "KINDS", "device", "told", "GIRLS", "BOYS", "others", "own", "other", "friends")


@pytest.fixture(scope="module", params=[2_100_000, 2_300_000, 2_400_000])
def lesson(request, lesson_code):
    """The lesson's functions, with stories of another seed."""
    code = lesson_code("13_what_heads_learn", *ASSIGNED)
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
    namespace |= {"chosen": chosen, "tokens": tokens, "repeats": repeats, "seed": request.param}
    return code


def patched_heads(lesson, model, there, part, heads):
    """The logits with one part of some heads of block 1 from another run."""

    def change(one):
        for head in heads:
            one = lesson.patch(one, there[part], head)
        return one

    return lesson.run_with(model, lesson.says.__globals__["tokens"], {1: lesson.only(change, part)})


def without(lesson, model, block, *heads):
    """The logits without some heads of a block."""
    return lesson.run_with(model, lesson.says.__globals__["tokens"], {block: lesson.emptied(*heads)})


@pytest.mark.parametrize("form", MOVERS)
def test_the_measure_finds_the_heads_without_which_no_name_is_left(lesson, form):
    kv_heads, heads = MOVERS[form]
    scores = lesson.looks_up(lesson.load_storyteller(form), "name")
    assert sorted(scores[1].topk(len(heads)).indices.tolist()) == heads and scores[1, heads].min() > 0.5, scores
    model = lesson.opened(form, kv_heads)
    tokens = lesson.says.__globals__["tokens"]
    with torch.no_grad():
        assert lesson.sure_of(model(tokens))["name"] > 0.85
    assert max(lesson.sure_of(without(lesson, model, 1, *heads)).values()) < 0.45
    assert lesson.sure_of(without(lesson, model, 1, *heads))["name"] < 0.12


def test_in_the_best_model_other_heads_take_over(lesson):
    model = lesson.opened("best", 2)
    assert int((lesson.looks_up(lesson.load_storyteller("best"), "name") > 0.5).sum()) == 4
    assert min(lesson.sure_of(without(lesson, model, 2, head))["name"] for head in (1, 2)) > 0.8
    assert 0.6 < lesson.sure_of(without(lesson, model, 2, 1, 2))["name"] < 0.8
    assert lesson.sure_of(without(lesson, model, 2, 0, 1, 2, 3))["name"] > 0.6


@pytest.mark.parametrize("form", MOVERS)
def test_keys_need_the_messages_of_block_0_for_names_and_animals_and_values_none(lesson, form):
    kv_heads, heads = MOVERS[form]
    model, tokens = lesson.opened(form, kv_heads), lesson.says.__globals__["tokens"]
    unwritten = lesson.parts_of(model, tokens, {0: lesson.silent})
    with torch.no_grad():
        before = lesson.sure_of(model(tokens))
    sure = {part: lesson.sure_of(patched_heads(lesson, model, unwritten, part, heads)) for part in lesson.PARTS}
    if form == "no positions":
        assert max(sure["keys"][kind] for kind in ("name", "animal")) < 0.55, sure
        return
    assert {kind for kind in KINDS if before[kind] - sure["keys"][kind] > 0.1} == {"name", "animal"}, sure
    assert all(before[kind] - sure["values"][kind] < 0.06 for kind in KINDS), sure
    assert min(before[kind] - sure["queries"][kind] for kind in ("name", "animal", "thing")) > 0.2, sure


def test_with_two_things_the_other_one_gets_a_part_where_keys_have_no_messages(lesson):
    model = lesson.opened("weight split", 4)
    wrong = {"as it is": [], "unwritten": []}
    for story in lesson.stories(400, seed=lesson.says.__globals__["seed"]):
        things = [fact for fact in story.facts if fact.kind == "thing"]
        both = {fact.word for fact in things}
        if len(both) != 2:
            continue
        text = model.encode(story.text)
        unwritten = lesson.parts_of(model, text, {0: lesson.silent})
        change = lesson.only(lambda keys, there=unwritten["keys"]: lesson.patch(keys, there, 2), "keys")
        for name, edits in (("as it is", {}), ("unwritten", {1: change})):
            sure = lesson.run_with(model, text, edits).softmax(-1)[0]
            for fact in things:
                (other,) = both - {fact.word}
                wrong[name] += sure[list(fact.repeats), model.numbers[other]].tolist()
    means = {name: sum(found) / len(found) for name, found in wrong.items()}
    assert means["as it is"] < 0.02 and 0.12 < means["unwritten"] < 0.35, means


def test_a_bright_column_carries_nothing_and_a_darker_one_does(lesson):
    model, tokens = lesson.opened("no positions", 1), lesson.says.__globals__["tokens"]
    to_start = lesson.weights_of(lesson.load_storyteller("no positions"))[:, :, :, 1:, 0].mean(dim=(1, 3))
    assert to_start[1].min() > 1.5 * to_start[0].max(), to_start

    def nothing_at_start(values):
        changed = values.clone()
        changed[:, :, 0] = 0
        return changed

    silenced = lesson.only(nothing_at_start, "values")
    loss, bright, dark = (
        torch.nn.functional.cross_entropy(lesson.run_with(model, tokens, edits)[:, :-1].mT, tokens[:, 1:]).item()
        for edits in ({}, {1: silenced}, {0: silenced})
    )
    assert abs(bright - loss) < 0.005 and dark > 1.5 * loss, (loss, bright, dark)
