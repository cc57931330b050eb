"""The questions before a set: their answers are right by another way of computing them, and wrong ones are told."""

import re

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from course_lib.attention import KVCache, apply_rotary, packed_positions, rotary_table
from course_lib.exercises import SETS, review
from course_lib.exercises.input_generator import InputGenerator
from course_lib.exercises.review import COUNT, _drawn
from course_lib.exercises.review_answers import is_right
from course_lib.exercises.review_questions import QUESTIONS

ALL = [pytest.param(question, id=question.__name__[1:]) for each in QUESTIONS.values() for question in each]


@pytest.mark.parametrize("question", ALL)
def test_a_question_asks_for_one_thing_and_differs_from_seed_to_seed(question):
    drawn = [question(InputGenerator(seed)) for seed in range(20)]
    for text, answer, why in drawn:
        assert text.endswith("?") and why.endswith(".") and isinstance(answer, (int, float, tuple, str))
    assert len({text for text, _, _ in drawn}) > 1


def test_sums_in_explanations_are_right():
    """Each explanation that writes "1 / (1 - p) = 1.25", worked out with the question's numbers."""
    count = 0
    for question in (each.values[0] for each in ALL):
        for text, _, why in (question(InputGenerator(seed)) for seed in range(20)):
            known = {name: float(number) for name, number in re.findall(r"\b([a-z]) = ([\d.]+)", text)}
            for written, said in re.findall(r"((?:[\d.]+|\b[a-z]\b|[-+*/() ])+) = ([\d.]+)\.", why):
                count += 1
                assert eval(written.strip(), known) == pytest.approx(float(said)), why
    assert count == 2 * 20


@pytest.mark.parametrize("lesson", [lesson for lesson in SETS if lesson > "01"])
def test_right_answers_pass_and_wrong_ones_are_told(lesson):
    for seed in range(5):
        questions = _drawn(lesson, seed)
        right = [question.answer for question in questions]
        assert review(lesson, right, seed=seed)
        assert not review(lesson, [None, *right[1:]], seed=seed)
        asked = review(lesson, seed=seed)
        assert not asked and len(asked.lines) == COUNT and all(line.endswith(("?", '"2/7".')) for line in asked.lines)
    shown = review(lesson, ["nonsense", ..., (1, 2)])
    assert shown.lines[0].startswith(f"✗ 'nonsense' is not it. Look again at lesson {_drawn(lesson, 0)[0].lesson}:")
    assert shown.lines[1].startswith("… ")
    assert re.search("<li>", shown._repr_html_())


def measured(name, number):
    """The answer to some questions, by running PyTorch on the numbers of the text."""
    text, answer, _ = next(q for each in QUESTIONS.values() for q in each if q.__name__ == name)(InputGenerator(number))
    return [int(one) for one in re.findall(r"\d+", text)], answer


@pytest.mark.parametrize("seed", range(5))
def test_answers_are_what_pytorch_gives(seed):
    (b, q, d, _, k, _), answer = measured("_scores_shape", seed)
    assert tuple((torch.ones(b, q, d) @ torch.ones(b, k, d).mT).shape) == answer
    (a, b, c, *_), answer = measured("_stride", seed)
    assert torch.ones(a, b, c).stride() == answer
    (a, b, c, *_), answer = measured("_transposed", seed)
    assert torch.ones(a, b, c).transpose(1, 2).stride() == answer
    (a, b, c, *_), answer = measured("_copies", seed)
    x = torch.ones(a, b, c)
    assert (x.transpose(1, 2).reshape(a, b * c).data_ptr() != x.data_ptr()) == (answer == "yes")
    (tokens, query), answer = measured("_visible", seed)
    assert int(torch.ones(tokens, tokens).tril()[query].sum()) == answer
    (heads, kv_heads, head), answer = measured("_shared", seed)
    assert torch.arange(kv_heads).repeat_interleave(heads // kv_heads)[head] == answer
    (keys, hidden), answer = measured("_hidden_score", seed)
    scores = torch.zeros(keys).masked_fill(torch.arange(keys) < hidden, -torch.inf)
    assert scores.softmax(0).max().item() == pytest.approx(answer)


@pytest.mark.parametrize("seed", range(5))
def test_answers_of_later_lessons_are_what_the_library_gives(seed):
    (query, key, moved), answer = measured("_same_distance", seed)
    cos, sin = rotary_table(40, 8)
    queries, keys = (apply_rotary(torch.randn(8).expand(1, 1, 40, 8), cos, sin)[0, 0] for _ in range(2))
    torch.testing.assert_close(queries[query] @ keys[key], queries[moved] @ keys[answer], atol=1e-4, rtol=0)
    lengths, answer = measured("_padding", seed)
    batch = pad_sequence([torch.ones(length) for length in lengths], batch_first=True)
    assert int((batch == 0).sum()) == answer
    (heads, samples, queries, keys), answer = measured("_cross_scores", seed)
    assert (torch.ones(samples, heads, queries, 2) @ torch.ones(samples, heads, keys, 2).mT).shape == answer
    (prompt, written, _), answer = measured("_next_position", seed)
    cache = KVCache(1, 1, 40, 2)
    for count in (prompt, written):
        cache.append(*torch.ones(2, 1, 1, count, 2))
    assert cache.length == answer
    (*lengths, index), answer = measured("_packed", seed)
    assert packed_positions(lengths)[index] == answer
    (tokens, changed), answer = measured("_changed_rows", seed)
    assert int(torch.ones(tokens, tokens).tril()[:, changed].sum()) == answer
    (*shape, _), answer = measured("_mean_ablation", seed)
    values = torch.randn(shape)
    values[:, 0] = values[:, 0].mean(dim=(0, 1))
    assert len(values[:, 0].unique()) == answer
    (size, *lengths), answer = measured("_pages", seed)
    assert sum(len(torch.arange(length).split(size)) for length in lengths) == answer
    (low, high), answer = measured("_rescaled", seed)
    assert answer == pytest.approx((torch.tensor(low).exp() / torch.tensor(high).exp()).item())


@pytest.mark.parametrize("lesson", [lesson for lesson in SETS if lesson > "02"])
def test_one_question_is_of_the_lesson_before_or_the_one_before_that(lesson):
    asked = {number for seed in range(20) for number in [_drawn(lesson, seed)[0].lesson]}
    assert asked == {f"{int(lesson) - back:02}" for back in (1, 2)}


@pytest.mark.parametrize(
    ("lesson", "answers", "words"),
    [
        ("01", None, "lesson is '01', before which there are no questions: the first is '02'"),
        ("03", [1, 2], r"answers must be a list of 3, one for each question, got \[1, 2\]"),
        ("03", "abc", "answers must be a list of 3"),
    ],
)
def test_what_cannot_be_asked(lesson, answers, words):
    with pytest.raises(ValueError, match=words):
        review(lesson, answers)


@pytest.mark.parametrize(
    ("answer", "given", "right"),
    [
        (4, 4.0, True),
        (4, "4", True),
        (4, " 4.0 ", True),
        (4, torch.tensor(4), True),
        (4, True, False),
        (1, True, False),
        (1024, 1023, False),
        (1 / 3, 0.333, True),
        (1 / 3, "1/3", True),
        (1 / 3, "0.3333", True),
        (1 / 3, 0.33, False),
        (1 / 3, 0.334, False),
        (1 / 3, "1/0", False),
        (0.2, 0.2, True),
        (0.2, float("nan"), False),
        ((7, 1, 1, 3), "(7,1,1,3)", True),
        ((7, 1, 1, 3), "7, 1, 1, 3", True),
        ((7, 1, 1, 3), [7.0, 1, 1, 3], True),
        ((7, 1, 1, 3), torch.Size((7, 1, 1, 3)), True),
        ((7, 1, 1, 3), torch.tensor([7, 1, 1, 3]), True),
        ((7, 1, 1, 3), (7, 1, 3), False),
        ((7, 1, 1, 3), "(7, 1", False),
        ((7, 1, 1, 3), 7, False),
        ((7, 1, 1, 3), (7, 1, 1, None), False),
        ("yes", " Yes. ", True),
        ("yes", True, True),
        ("yes", "no", False),
        ("yes", 1, False),
    ],
)
def test_an_answer_is_right_however_it_is_written(answer, given, right):
    assert is_right(answer, given) is right


def test_a_wrong_answer_names_the_lesson_of_its_question():
    for seed in range(10):
        for question, line in zip(_drawn("05", seed), review("05", [None] * 3, seed=seed).lines, strict=True):
            assert line == f"✗ None is not it. Look again at lesson {question.lesson}: {question.asked}"
            assert any(one(InputGenerator(0))[2] and question.lesson < "05" for one in QUESTIONS[question.lesson])


def test_a_question_reads_well_with_every_number():
    for seed in range(60):
        texts = [" ".join(map(str, one(InputGenerator(seed)))) for each in QUESTIONS.values() for one in each]
        assert not re.search(r"\b1 of them are|among the 1 that|weights of \(", " ".join(texts))
    asked = " ".join(one(InputGenerator(0))[0] for one in QUESTIONS["02"])
    assert "one that can differ from sample to sample" in asked
