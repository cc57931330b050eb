"""What is drawn for grading: new numbers of the old kinds, on which right answers pass and known wrong ones don't."""

import importlib.util
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.classroom.judging.drawn import Draw, Made, Parts, as_split, built, drawn_inputs
from course_lib.exercises.catalogue import EXERCISES
from course_lib.exercises.functions import FunctionJudge

ANSWERS = Path(__file__).resolve().parents[1] / "exercises"
JUDGES = {name: exercise.judge for name, exercise in EXERCISES.items() if isinstance(exercise.judge, FunctionJudge)}
CODE = ("leaks", "without_gradient", "to_split")


def _right():
    found = {}
    for path in sorted(ANSWERS.glob("answers_*.py")):
        spec = importlib.util.spec_from_file_location(f"functions_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= module.RIGHT
    return found


RIGHT = _right()


def on_drawn(name, seed):
    """The exercise's judge, with drawn inputs in place of the public ones."""
    return replace(JUDGES[name], inputs=lambda: built(drawn_inputs(name, Draw(seed))))


def plain(value):
    """What can be written down, of inputs and results."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), str(value.dtype), tuple(value.flatten().tolist())
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    return (value.source, value.name, plain(value.arguments)) if isinstance(value, Made) else value


@pytest.mark.parametrize("name", JUDGES)
def test_right_answers_pass_on_what_is_drawn(name):
    for seed, answer in enumerate((JUDGES[name].reference, *RIGHT[name])):
        verdict = on_drawn(name, seed)(answer)
        assert verdict.passed, (seed, verdict)


@pytest.mark.parametrize("name", JUDGES)
def test_no_known_wrong_answer_passes_on_what_is_drawn(name):
    judge = JUDGES[name]
    for seed in range(5 if name in CODE else 20):
        given = built(drawn_inputs(name, Draw(seed)))
        results = [judge._seen(judge.reference(*one), one) for one in given]
        for wrong in judge.wrong:
            assert not judge._equals(wrong, given, results), f"seed {seed}: {wrong.is_}"


def test_a_wrong_answer_that_cannot_be_seen_would_be_found():
    judge = JUDGES["attention"]
    given = [(q, q, v) for q, _, v in drawn_inputs("attention", Draw(0))]  # the keys are the queries
    expected = [judge.reference(*one) for one in given]
    unseen = [wrong.is_ for wrong in judge.wrong if judge._equals(wrong, given, expected)]
    assert unseen == ["attention scored with the queries alone"]


@pytest.mark.parametrize("name", JUDGES)
def test_a_known_mistake_keeps_its_name(name):
    for wrong in JUDGES[name].wrong:
        assert on_drawn(name, 1)(wrong.code).mistake == wrong.mistake, wrong.is_


@pytest.mark.parametrize("name", [name for name in JUDGES if name not in CODE])
def test_a_table_of_the_public_results_does_not_pass(name):
    judge = JUDGES[name]
    table = {plain(given): judge.reference(*given) for given in judge.inputs()}
    shapes = {repr([getattr(one, "shape", None) for one in given]): judge.reference(*given) for given in judge.inputs()}

    def by_number(*given):
        return table.get(plain(given), next(iter(table.values())))

    def by_shape(*given):
        return shapes.get(repr([getattr(one, "shape", None) for one in given]), next(iter(shapes.values())))

    assert judge(by_number).passed
    for seed in range(8):
        assert not on_drawn(name, seed)(by_number) and not on_drawn(name, seed)(by_shape)


@pytest.mark.parametrize("name", CODE)
def test_results_in_the_public_order_do_not_pass(name):
    judge = JUDGES[name]
    results = [judge.reference(*given) for given in judge.inputs()]
    for seed in range(2):
        calls = iter(results * 4)
        assert not on_drawn(name, seed)(lambda *given, calls=calls: next(calls))


@pytest.mark.parametrize("name", JUDGES)
def test_what_is_drawn_is_plain_new_and_the_same_for_one_seed(name):
    inputs = drawn_inputs(name, Draw(b"secret"))
    assert len(inputs) >= 3
    assert plain(inputs) == plain(drawn_inputs(name, Draw(b"secret"))) != plain(drawn_inputs(name, Draw(b"other")))
    public = {plain(given) for given in JUDGES[name].inputs()} if name not in CODE else set()
    again = sum(plain(given) in public for given in inputs)
    assert again < len(inputs) / 2  # (heads, kv heads) of kv_head_of and lengths of causal_mask may come again

    def check(value):
        if isinstance(value, (list, tuple)):
            return all(map(check, value))
        if isinstance(value, Made):
            return isinstance(value.source, str) and isinstance(value.name, str) and check(value.arguments)
        return type(value) in (torch.Tensor, bool, int, float, str)

    assert check(inputs)
    kinds = [type(one) for one in JUDGES[name].inputs()[0]]
    if name not in CODE:
        assert all([type(one) for one in given] == kinds for given in inputs)


@pytest.mark.parametrize("name", [name for name in JUDGES if name not in ("kv_head_of", "padding_mask")])
def test_no_size_is_the_same_in_all_inputs(name):
    for seed in range(20):
        shapes = [plain_sizes(given) for given in drawn_inputs(name, Draw(seed))]
        for place in zip(*shapes, strict=False):
            assert len(set(place)) > 1, (seed, shapes)


def plain_sizes(given):
    """The sizes of the first argument, or the numbers, where these are sizes."""
    first = given[0]
    if isinstance(first, Made):
        return first.arguments[:3] if first.name == "wrapper" else tuple(given[1].shape)
    if isinstance(first, list):
        return tuple(first[0].shape)
    return tuple(first.shape) if isinstance(first, torch.Tensor) else given[:4]


def test_masks_that_leak_are_as_many_as_others_and_the_answer_is_no_pattern():
    patterns = set()
    for seed in range(10):
        inputs = drawn_inputs("leaks", Draw(seed))
        truth = []
        for made, x in inputs:
            (keep,) = made.arguments
            truth.append(bool(keep.triu(1).any()))
            assert JUDGES["leaks"].reference(made.build(), x) == truth[-1], "a leak is too small to be seen"
            assert keep.any(1).all() and len({*x.shape}) == 3 and len(keep) == x.shape[1]
        counts = Counter(truth)
        assert len(inputs) == 16 and min(counts.values()) >= 3
        patterns.add(tuple(truth))
    assert len(patterns) == 10


def test_a_leaking_function_can_be_asked_about_the_beginning_of_a_sample_only():
    made, x = drawn_inputs("leaks", Draw(0))[0]
    assert made.build()(x[:, :2]).shape == x[:, :2].shape


def test_parameters_without_gradient_are_drawn_by_name_and_nothing_tells_which():
    sizes = Counter()
    for seed in range(5):
        for made, x in drawn_inputs("without_gradient", Draw(seed)):
            module = made.build()
            names = [name for name, _ in module.named_parameters()]
            assert len(names) == 4 and all(re.fullmatch(r"[a-z]+_\d+\.weight", name) for name in names)
            assert set(vars(module)) == set(vars(nn.Module())), "an attribute may tell"
            sizes[len(JUDGES["without_gradient"].reference(module, x))] += 1
    assert set(sizes) >= {0, 1, 2, 3}


def test_code_is_built_anew_each_time_and_changes_nothing_outside():
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    for name in ("to_split", "without_gradient"):
        made = drawn_inputs(name, Draw(3))[0][0]
        one, other = (built([(made,)])[0][0] for _ in range(2))
        with torch.no_grad():
            for parameter in one.parameters():
                parameter.zero_()
        for module in (other, *built([(made,)])[0]):
            assert all(parameter.any() for parameter in module.parameters())
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_split_comes_back_as_its_weights():
    ((wrapper,), *_) = built(drawn_inputs("to_split", Draw(0)))
    judge = JUDGES["to_split"]
    right = judge.reference(wrapper)
    parts = Parts("MultiHeadAttention", dict(right.state_dict()))
    assert _of_parts(parts, wrapper).passed
    assert isinstance(as_split(parts, wrapper), MultiHeadAttention)
    biased = Parts(parts.kind, {**parts.state, "q_proj.bias": torch.ones(3)})
    assert _of_parts(biased, wrapper).passed, "as in the public check, which looks at four matrices"
    changed = {**parts.state, "v_proj.weight": parts.state["v_proj.weight"] + 1e-3}
    assert "`v_proj.weight` is off" in _of_parts(Parts(parts.kind, changed), wrapper).says
    narrow = {**parts.state, "out_proj.weight": torch.ones(2, 3, dtype=torch.int64)}
    assert "has the shape (2, 3)" in _of_parts(Parts(parts.kind, narrow), wrapper).says


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (Parts("MultiHeadAttentionWrapper", {}), "MultiHeadAttentionWrapper"),
        (Parts("Mine\n\0\ud800", {}), "Mine"),
        (Parts("", {}), "module"),
        (Parts("MultiHeadAttention", {}), "MultiHeadAttention without `q_proj.weight`"),
        ({"q_proj.weight": torch.ones(2)}, "dict"),
        (3, "int"),
    ],
)
def test_what_is_no_split_is_told_by_its_kind(result, what):
    ((wrapper,), *_) = built(drawn_inputs("to_split", Draw(0)))
    said = _of_parts(result, wrapper).says
    assert said.endswith(f"with TypeError: give back a MultiHeadAttention, not a {what}."), said


def _of_parts(result, wrapper):
    judge = replace(JUDGES["to_split"], inputs=lambda: [(wrapper,)])
    return judge(lambda given: as_split(result, given))


def test_a_draw_is_its_seed():
    one, other = Draw(b"1"), Draw(b"1")
    assert one.sizes(4) == other.sizes(4) and torch.equal(one.numbers(3, 2), other.numbers(3, 2))
    assert one.below(9) == other.below(9) and one.shuffled("abcdef") == other.shuffled("abcdef")
    assert Draw(1).sizes(8) != Draw(2).sizes(8)
    rows = Draw(7).size_rows(3, 4)
    assert all(len(set(row)) == 4 for row in rows) and all(len(set(place)) == 3 for place in zip(*rows, strict=True))
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    Draw(7).numbers(5)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("seed", [1.5, "7", None, True])
def test_a_seed_is_bytes_or_a_whole_number(seed):
    said = f"seed must be bytes or a whole number, got {seed!r}: draw one with `secrets.token_bytes(16)`."
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        Draw(seed)


def test_too_many_sizes_and_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"^count must be at most 8, got 9: from 2 to 9 are no more\.$"):
        Draw(0).sizes(9)
    said = "name is 'MultiHead', and no inputs are drawn for it: choose one of scores_of_token, scaled_scores"
    with pytest.raises(ValueError, match=f"^{said}"):
        drawn_inputs("MultiHead", Draw(0))
