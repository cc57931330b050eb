"""Parts of an exercise, wrong helpers, and what the report says of each exercise once thirty have taken it."""

import pytest

from course_grader import GradingPolicy, Release, StudentResult, released_exercises
from course_grader.grading import GradingTask, grade_student
from course_grader.marks import Mark
from course_grader.reports import class_report, feedback_page
from course_grader.reports.class_report import concerns, count_mistakes, unnamed_mistakes
from course_grader.sandbox import ResourceLimits, Sandbox
from course_grader.submissions import SubmittedNotebook, read_notebook
from course_lib.exercises import EXERCISES, InputGenerator, not_passed, passed
from course_lib.exercises.local_answer import LocalAnswer
from course_lib.exercises.wrong_answers import EditedSolution
from tests.grader.synthetic_class import RELEASE, notebook, student_result

EDGE = "def softmax_rows(scores):\n    return scores.exp() / scores.exp().sum(-1, keepdim=True)"  # no guard: inf / inf
HELPER = "def causal_mask(n):\n    return torch.ones(n, n).bool()"  # hides nothing
CALLS = """
def causal_weights(scores):
    return scores.masked_fill(~causal_mask(scores.shape[-1]), -torch.inf).softmax(-1)
"""


MERGE = EXERCISES["merge_heads"]
OF_FIRST_CALL = MERGE.solution(*MERGE.example(InputGenerator(0))).shape


@pytest.fixture(scope="module")
def grade(isolation):
    limits = ResourceLimits(cell=3, answer=3, notebook=30)
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:

        def grade(lesson, *sources, due=None, **policy):
            text = notebook("import torch", *sources)
            file = SubmittedNotebook(f"{lesson}_exercises.ipynb", 0.0, False, read_notebook(text.encode()))
            release = Release("week", "1", "0", released_exercises([lesson]))
            task = GradingTask("ada", (file,), (), release, GradingPolicy(due, 0.5, **policy))
            result = grade_student(task, sandbox, exposed)
            return {mark.verdict.name: mark for mark in result.marks}, feedback_page(result, release)

        yield grade


@pytest.mark.xdist_group("sandbox")
def test_what_is_right_in_a_wrong_answer_earns_a_part(grade):
    plain, _ = grade("01", EDGE)
    parts, page = grade("01", EDGE, parts=True)
    late, _ = grade("01", EDGE, parts=True, due=-1.0)
    assert not plain["softmax_rows"].verdict.passed
    assert [marks["softmax_rows"].points for marks in (plain, parts, late)] == [0, 1, 0.5]
    assert "1 of 2 points" in page and "What is right in it earns these points." in page
    nothing, _ = grade("01", "def softmax_rows(scores):\n    return scores", parts=True)
    assert nothing["softmax_rows"].points == 0


@pytest.mark.xdist_group("sandbox")
def test_a_wrong_helper_costs_once_where_the_teacher_says_so(grade):
    twice, _ = grade("02", HELPER, CALLS)
    once, page = grade("02", HELPER, CALLS, helper_once=True)
    late, _ = grade("02", HELPER, CALLS, helper_once=True, due=-1.0)
    possible = once["causal_weights"].possible
    assert [marks["causal_weights"].points for marks in (twice, once, late)] == [0, possible, possible / 2]
    assert once["causal_mask"].points == 0 and once["causal_weights"].caused_by == ("causal_mask",)
    assert "this passes: correct that first. So it has its points." in page


@pytest.mark.xdist_group("sandbox")
def test_another_exercises_class_is_no_helper(grade):
    gaps = """
from torch import nn
class GroupedQueryWithGaps(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
    def forward(self, x):
        return x
"""
    marks, _ = grade("06", gaps, "class GroupedQuery(GroupedQueryWithGaps):\n    pass", helper_once=True)
    assert marks["GroupedQuery"].points == 0 and marks["GroupedQueryWithGaps"].points == 0


def with_output(joined):
    return EditedSolution(EXERCISES["Wrapper"].solution, f"self.out_proj(joined) => self.out_proj({joined})").answer


@pytest.mark.parametrize(
    ("name", "answer", "share"),
    [
        ("scaled_scores", lambda queries, keys: queries.detach() @ keys.mT / keys.shape[-1] ** 0.5, None),
        ("merge_heads", lambda x: x.permute(1, 2, 0, 3).flatten(2) * (x.dtype.itemsize == 8), 0.5),
        ("merge_heads", lambda x: x.permute(1, 2, 0, 3).flatten(2).squeeze(), 0.5),
        ("merge_heads", lambda x: x.flatten(2), 0.0),
        ("Wrapper", with_output("joined.detach()"), 0.75),
        ("Wrapper", with_output("joined.squeeze()"), 0.5),
        ("Wrapper", with_output("joined * (x.shape[-1] != joined.shape[-1])"), 0.5),  # wrong where widths are equal
        ("Wrapper", with_output("joined.detach().squeeze()"), 0.5),
        ("MultiQuery", EditedSolution(EXERCISES["MultiQuery"].solution, "-torch.inf => -1e3").answer, 0.5),
        ("Wrapper", with_output("1 * joined"), None),
        ("Wrapper", with_output("joined.flip(1)"), 0.0),
        ("merge_heads", lambda x: x.permute(1, 2, 0, 3).reshape(OF_FIRST_CALL), 0.0),  # the second call stops
    ],
)
def test_the_share_says_how_far_an_answer_gets(name, answer, share):
    verdict = EXERCISES[name].judge(LocalAnswer(answer), InputGenerator(0))
    assert verdict.passed if share is None else (not verdict and verdict.share == share)


def whole_class(size):
    """A class in which number_at separates, split_heads is solved by all, and merge_heads by the weaker half."""
    right, results = passed("Right."), []
    names = [exercise.name for exercise in RELEASE.exercises]
    for number in range(size):
        good = number % 2 == 0
        said = {name: right if good else not_passed(f"Wrong by {number}.") for name in names}
        said["split_heads"] = right
        said["merge_heads"] = not_passed("Equals a view.", "merge-without-transpose") if good else right
        results.append(student_result(f"s{number:02}", [said[name] for name in names], RELEASE))
    return results


def test_the_report_says_how_hard_an_exercise_is_and_what_to_explain_first():
    page = class_report(whole_class(30), RELEASE)
    row = {
        name: page.split(f"(<code>{name}</code>)")[1].split("</tr>")[0]
        for name in ("number_at", "split_heads", "merge_heads")
    }
    assert "50%" in row["number_at"] and ">1.00<" in row["number_at"]
    assert "100%" in row["split_heads"] and ">-1.00<" not in row["split_heads"]
    assert "50%" in row["merge_heads"] and ">-" in row["merge_heads"]
    few = class_report(whole_class(29), RELEASE)
    assert "Separates" in page and "Separates" not in few
    results = whole_class(30)
    found = concerns(count_mistakes(results, RELEASE), unnamed_mistakes(results, RELEASE))
    assert [concern.students for concern in found] == [15] * len(found)
    assert {concern.anchor for concern in found} == {"merge-without-transpose", "unnamed"}
    first = page.split("<h2>What to explain first</h2>")[1].split("</ol>")[0]
    assert '<a href="#merge-without-transpose">15 of 30</a>' in first and "<code>number_at</code>" in first


def test_a_mark_of_an_earlier_version_is_read(tmp_path):
    mark = Mark(not_passed("No.").of("merge_heads", "04"), "Put the heads back", 0.0, 2.0)
    stored = StudentResult("ada", (mark,)).as_dict()
    del stored["marks"][0]["late"]
    assert StudentResult.from_dict(stored).marks == (mark,)
