"""What is drawn for each exercise: for every seed right answers pass on it, and known wrong ones are named."""

import re
from collections import Counter

import pytest
import torch
from torch import nn

from course_lib.exercises import ALL, FromSource, FunctionExercise, InputGenerator, LocalAnswer
from course_lib.exercises.copies import built
from course_lib.mistakes import CATALOGUE
from course_lib.tracing import tensors_in

from .known_answers import RIGHT

FUNCTIONS = {name: exercise for name, exercise in ALL.items() if isinstance(exercise, FunctionExercise)}
# Made code is new in each call and can't be looked up.
TAKE_CODE = ("future_probe", "cache_probe", "write_greedily", "through_block", "training_loop")
SLOW = ("leaks", "without_gradient", "to_split", "greedy_decode")


def judged(name, code, seed):
    return FUNCTIONS[name].judge(LocalAnswer(code), InputGenerator(seed))


def drawn(name, seed):
    return [case.arguments for case in FUNCTIONS[name].cases(InputGenerator(seed))]


def all_calls(name, seed):
    """The arguments of all calls, those at the edges included."""
    rng = InputGenerator(seed)
    cases = FUNCTIONS[name].cases(rng)
    results = [FUNCTIONS[name].solution(*built(case.arguments)) for case in cases]
    return [case.arguments for case in (*cases, *FUNCTIONS[name].edges(cases, results, rng))]


def plain(value):
    """What can be written down, of inputs and results."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), str(value.dtype), tuple(value.flatten().tolist())
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    return (value.source, value.name, plain(value.arguments)) if isinstance(value, FromSource) else value


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_right_answers_pass_on_what_is_drawn(name):
    for seed, answer in enumerate((FUNCTIONS[name].solution, *RIGHT[name])):
        verdict = judged(name, answer, seed)
        assert verdict.passed, (seed, verdict)


def has_real_numbers(value):
    """Whether a result holds drawn real numbers: two of these are never equal by chance, unlike counts and flags."""
    if isinstance(value, (list, tuple)):
        return any(map(has_real_numbers, value))
    return value.is_floating_point() if isinstance(value, torch.Tensor) else isinstance(value, float)


def seeds_for(name, at):
    """The seeds on which the wrong answer number `at` is judged; seed 0, that of `check`, is among them.

    All 20 where a wrong result may be the right one by chance. Elsewhere each answer takes every fourth, and the
    answers of an exercise take turns, so that together they meet all 20.
    """
    if name in SLOW:
        return range(3)
    first = drawn(name, 0)[0]
    if name in TAKE_CODE or not has_real_numbers(FUNCTIONS[name].solution(*built(first))):
        return range(20)
    return sorted({0, *range(at % 4, 20, 4)})


@pytest.mark.slow
@pytest.mark.one_in(18)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_known_wrong_answer_has_its_name_on_every_draw(name):
    for at, wrong in enumerate(FUNCTIONS[name].known):
        assert wrong.mistake is None or wrong.mistake in CATALOGUE
        verdicts = [judged(name, wrong.code, seed) for seed in seeds_for(name, at)]
        for verdict in verdicts:
            assert not verdict.passed and verdict.mistake == wrong.mistake, f"{wrong.equals}: {verdict}"
        said = {verdict.message for verdict in verdicts}
        assert f"Your result equals {wrong.equals}." in said, f"{wrong.code.code} is never told: {said}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in (*SLOW, *TAKE_CODE)])
def test_a_table_of_the_public_results_does_not_pass(name):
    public = all_calls(name, 0)
    results = [FUNCTIONS[name].solution(*built(arguments)) for arguments in public]
    table = {plain(arguments): result for arguments, result in zip(public, results, strict=True)}

    def by_number(*given):
        return table.get(plain(given), results[0])

    verdict = judged(name, by_number, 0)
    assert verdict.passed or "no gradient reaches" in verdict.message, verdict  # the numbers are right
    for seed in range(1, 8):
        assert not judged(name, by_number, seed)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_drawn_is_plain_and_the_same_for_one_seed(name):
    arguments = drawn(name, b"secret")
    assert len(arguments) >= 3
    assert plain(arguments) == plain(drawn(name, b"secret")) != plain(drawn(name, b"other"))

    def check(value):
        if isinstance(value, (list, tuple)):
            return all(map(check, value))
        if isinstance(value, FromSource):
            return isinstance(value.source, str) and isinstance(value.name, str) and check(value.arguments)
        return value is None or type(value) in (torch.Tensor, bool, int, float, str)

    assert check(arguments)


OTHERWISE_DRAWN = ("kv_head_of", "padding_mask", "decode_step", "flat_slot")  # of one query, or no tensor
OTHERWISE_DRAWN += ("streaming_scores", "blocks_taken", "forks_apart", "kv_layers")  # or of a word whose letters count


@pytest.mark.parametrize(
    "name",
    [name for name in FUNCTIONS if name not in OTHERWISE_DRAWN],
)
def test_no_size_is_the_same_in_all_calls(name):
    for seed in range(8):
        shapes = [plain_sizes(arguments) for arguments in drawn(name, seed)]
        for place in zip(*shapes, strict=False):
            assert len(set(place)) > 1, (seed, shapes)


def plain_sizes(given):
    """The sizes of the first argument, or the numbers, where these are sizes; of a sentence its number of words."""
    first = given[0]
    if isinstance(first, str):
        return (len(first.split()),)
    if isinstance(first, FromSource) and first.name == "wrapper":
        return first.arguments[:3]
    if isinstance(first, (FromSource, list, torch.Tensor)):
        sizes = [tuple(one.shape) for one in tensors_in(given)]
        return sizes[0] if sizes else (len(first),)  # of rows without a tensor: how many
    return given[:4]


@pytest.mark.slow
def test_masks_that_leak_are_as_many_as_others_and_the_answer_is_no_pattern():
    patterns = set()
    for seed in range(10):
        truth = []
        for made, x in drawn("leaks", seed):
            keep, *_ = made.arguments
            leaking = keep.triu(1).any(1).nonzero().flatten().tolist()
            truth.append(bool(leaking))
            assert ALL["leaks"].solution(made.build(), x) == leaking, "a leak is too small to be seen"
            assert keep.any(1).all() and len({*x.shape}) == 3 and len(keep) == x.shape[1]
        assert min(Counter(truth).values()) >= 3
        patterns.add(tuple(truth))
    assert len(patterns) == 10


def test_a_leaking_function_can_be_asked_about_the_beginning_of_a_sample_only():
    made, x = drawn("leaks", 0)[0]
    assert made.build()(x[:, :2]).shape == x[:, :2].shape


def test_parameters_without_gradient_are_drawn_by_name_and_nothing_tells_which():
    sizes = Counter()
    for seed in range(5):
        for made, x, token in drawn("without_gradient", seed):
            module = made.build()
            names = [name for name, _ in module.named_parameters()]
            assert len(names) == 4 and all(re.fullmatch(r"[a-z]+_\d+\.weight", name) for name in names)
            assert set(vars(module)) == set(vars(nn.Module())), "an attribute may tell"
            sizes[len(ALL["without_gradient"].solution(module, x, token))] += 1
    assert set(sizes) >= {0, 1, 2, 3}


def test_a_generator_is_its_seed():
    one, other = InputGenerator(b"1"), InputGenerator(b"1")
    assert one.sizes(4) == other.sizes(4) and torch.equal(one.normal(3, 2), other.normal(3, 2))
    assert one.integer(9) == other.integer(9) and one.shuffled("abcdef") == other.shuffled("abcdef")
    assert InputGenerator(1).sizes(8) != InputGenerator(2).sizes(8)
    rows = InputGenerator(7).size_rows(3, 4)
    assert all(len(set(row)) == 4 for row in rows) and all(len(set(place)) == 3 for place in zip(*rows, strict=True))
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    InputGenerator(7).normal(5)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("seed", [1.5, "7", None, True])
def test_a_seed_is_bytes_or_an_integer(seed):
    said = f"seed must be bytes or an integer, got {seed!r}: draw one with `secrets.token_bytes(16)`."
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        InputGenerator(seed)


def test_too_many_sizes_are_refused():
    with pytest.raises(ValueError, match=r"^count must be at most 8, got 9: from 2 to 9 are no more\.$"):
        InputGenerator(0).sizes(9)
