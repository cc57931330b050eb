"""What `check` does with stubs, errors, unknown names and inputs; how verdicts and progress read."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib import exercises
from course_lib.exercises import ALL, check, progress
from course_lib.exercises.catalogue import EXERCISES


def stub(*arguments):
    raise NotImplementedError  # your code goes here


def ellipsis(*arguments): ...


def docstring(*arguments):
    """What it should do."""


class StubModule(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        raise NotImplementedError


class StubForward(nn.Module):
    def __init__(self, *sizes):
        super().__init__()

    def forward(self, *inputs):
        raise NotImplementedError


class Blank(nn.Module): ...


class Misspelt(nn.Module):
    def __init__(self, *sizes):
        super().__init__()

    def foward(self, x):
        return x


CLASSES = [name for name in ALL if name[0].isupper()]


@pytest.mark.parametrize("name", ALL)
def test_a_stub_is_not_written_yet(name):
    stubs = [StubModule, StubForward, Blank] if name in CLASSES else [stub, ellipsis, docstring]
    for answer in (*stubs, None, ...):
        verdict = check(name, answer)
        assert repr(verdict).startswith(f"… {name}: not written yet."), (answer, verdict)
        assert not verdict.passed and verdict.mistake is None


def test_a_function_that_calls_a_stub_is_told_which():
    verdict = check("attention", lambda queries, keys, values: stub(queries))
    assert verdict.state == "not passed yet" and verdict.message == "Your code calls `stub`, which is not written yet."


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_without_forward_is_told_so(name):
    assert check(name, Misspelt).message.startswith("The class has no method `forward`")


def test_a_forgotten_return_is_no_stub():
    def forgetful(query, keys):
        keys @ query

    verdict = check("scores_of_token", forgetful)
    assert verdict.mistake == "returns-none" and "is a `return` missing?" in verdict.message


def test_an_error_is_one_sentence_with_its_line():
    def attention(queries, keys, values):
        scores = queries @ keys
        return scores

    verdict = check("attention", attention)
    assert verdict.message.startswith(
        "Your code stopped in `attention` at `scores = queries @ keys` with RuntimeError: mat1 and mat2"
    )
    assert verdict.message.endswith(").") and "\n" not in verdict.message
    assert re.fullmatch(r"test_check\.py:\d+", verdict.where)
    assert "Traceback" not in repr(verdict)


def test_an_error_at_other_sizes_only_says_so():
    verdict = check("scaled_scores", lambda q, k: q @ k.T / q.shape[1] ** 0.5 if len(q) > len(k) else q @ k)
    assert "It was right for scaled_scores with `queries` (" in repr(verdict) and "and is not for" in repr(verdict)


def test_fewer_bits_are_refused_where_pytorch_computed_them():
    def scores_of_token(query, keys):
        scores = torch.zeros(len(keys))  # float32, whatever came in
        for at, key in enumerate(keys):
            scores[at] = query @ key
        return scores

    verdict = check("scores_of_token", scores_of_token)
    assert not verdict.passed and "Your result is float32; it should be float64." in verdict.message
    named = check("scaled_scores", lambda queries, keys: (queries @ keys.T).float())
    assert named.mistake == "missing-scale"
    mixed = check("attention", lambda queries, keys, values: torch.eye(len(queries), len(values)) @ values)
    assert "RuntimeError" in mixed.message and "The check computes in float64" in repr(mixed)


@pytest.mark.parametrize("answer", [3, "split_heads", torch.ones(2)])
def test_an_answer_that_is_no_function_is_told(answer):
    assert f"The answer is a {type(answer).__name__}" in check("split_heads", answer).message


def test_a_class_answer_is_the_class():
    class NoModule:
        def __init__(self, *sizes):
            pass

    assert check("MultiHead", lambda *sizes: nn.Linear(7, 12)).message.endswith("it should be the class itself.")
    said = "The answer is an instance; give the class itself, without parentheses."
    assert check("MultiHead", nn.Linear(7, 12)).message == said
    assert "is no `nn.Module`" in check("MultiHead", NoModule).message
    assert check("MultiHead", nn.Identity).message == "After `__init__` the module has no parameters."


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("split_head", "there is no exercise 'split_head'; did you mean split_heads"),
        ("Multihead", "MultiHead"),
        ("zzzz", "the exercises are scores_of_token, scaled_scores"),
        (7, "there is no exercise 7"),
    ],
)
def test_an_unknown_name_lists_those_that_are_near(name, said):
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        check(name, None)
    assert not isinstance(refused.value, KeyError)


@pytest.mark.parametrize("name", ["cache_bytes", "kv_head_of", "number_at"])
def test_a_nan_is_near_to_no_number(name):
    verdict = check(name, lambda *_: float("nan"))
    assert not verdict.passed and "nan" in verdict.message


@pytest.mark.slow
def test_the_learners_input_and_random_stream_stay_as_they_are(monkeypatch):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    seen = []

    def attention(queries, keys, values):
        seen.append(queries)
        torch.manual_seed(0)
        return torch.rand_like(queries)

    check("attention", attention)
    assert torch.equal(torch.random.get_rng_state(), before)
    first = seen[0].clone()
    seen[0].zero_()
    seen.clear()
    check("attention", attention)
    assert torch.equal(seen[0], first), "a check's own numbers can be changed from outside"


@pytest.mark.slow
def test_check_prints_nothing(capsys):
    check("split_heads", stub)
    check("split_heads", lambda x, num_heads: x)
    shown = capsys.readouterr()
    assert shown.out == shown.err == ""


def test_a_verdict_says_in_words_what_its_colour_says():
    passed = check(
        "causal_mask", lambda n, prompt: torch.ones(n, n).tril().bool() | (torch.arange(n) < prompt)
    )._repr_html_()
    wrong = check("causal_mask", lambda n, prompt: torch.ones(n, n).bool())
    html = wrong._repr_html_()
    unwritten = check("causal_mask", stub)._repr_html_()
    assert "passed." in passed and "not passed yet." in html and "not written yet." in unwritten
    for words in (wrong.message, wrong.mistake, "Ask yourself", "Look again at lesson"):
        assert words in html
    for page in (passed, html, unwritten):
        assert "<script" not in page and "src=" not in page and "id=" not in page
        assert re.findall("color|background", page) == [], "the words take the page's own colours"


def test_progress_counts_what_was_checked(kernel):
    assert repr(progress()) == "No exercise was checked yet."
    check("split_heads", lambda x, num_heads: x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3))
    check("merge_heads", stub)
    check("number_at", lambda memory, strides, index: memory[sum(index)])
    summary = progress()
    assert repr(summary).splitlines()[0] == "1 of 5 exercises passed."
    states = {exercise.name: state for exercise, state in summary.rows}
    assert states == {
        "number_at": "not passed yet",
        "strides_by_head": "not tried",
        "split_heads": "passed",
        "merge_heads": "not written yet",
        "needs_copy": "not tried",
    }
    html = summary._repr_html_()
    assert "<caption>1 of 5 exercises passed</caption>" in html and '<th scope="col">' in html
    assert all(state in html for state in states.values())
    check("merge_heads", lambda x: x.permute(1, 2, 0, 3).flatten(2))
    assert progress().passed == 2


def test_the_exercises_cover_the_lessons():
    assert len(EXERCISES) >= 20
    assert {exercise.lesson for exercise in EXERCISES.values()} == {
        path.name[7:] for path in Path(exercises.__file__).parent.glob("lesson_??") if path.name != "lesson_00"
    }
    for name, exercise in EXERCISES.items():
        assert exercise.name == name and 1 <= exercise.difficulty <= 5 and 1 <= exercise.minutes <= 20
        assert len(exercise.hints) >= 2 and exercise.title
