"""The learners' notebooks are what nbgrader makes of the teacher's, and both say what the exercises say."""

import re
from pathlib import Path

import pytest

from course_lib.command import main
from course_lib.exercises.catalogue import EXERCISES, SETS
from tools.notebooks.address import read_address
from tools.notebooks.discover import EXERCISES as EXERCISES_FOLDER
from tools.notebooks.discover import SOLUTIONS, Lesson, find_notebooks
from tools.notebooks.exercise_notebook import solutions_source
from tools.notebooks.notebook_file import read_ipynb, read_py

ROOT = Path(__file__).resolve().parents[2]
ALL_SOLUTIONS = find_notebooks(ROOT, folders=(SOLUTIONS,))
ALL_EXERCISES = find_notebooks(ROOT, folders=(EXERCISES_FOLDER,))

each_solution = pytest.mark.parametrize("solution", ALL_SOLUTIONS, ids=lambda lesson: lesson.name)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def parts(cell):
    return cell.cell_type, cell.source, cell.metadata.get("tags"), cell.metadata.get("nbgrader")


def of_lesson(solution):
    return [exercise for exercise in EXERCISES.values() if exercise.lesson == solution.name[:2]]


def test_there_is_a_pair_of_notebooks_for_each_lesson_with_exercises():
    lessons = sorted({exercise.lesson for exercise in EXERCISES.values()})
    assert [one.name for one in ALL_SOLUTIONS] == [f"{lesson}_exercises" for lesson in lessons]
    assert [one.name for one in ALL_EXERCISES] == [one.name for one in ALL_SOLUTIONS]


@each_solution
def test_the_exercises_are_what_the_command_makes(solution, tmp_path):
    pytest.importorskip("nbgrader")
    from course_grader import student_notebook
    from tools.notebooks.notebook_file import write_student

    copy = Lesson(solution.name, tmp_path / SOLUTIONS)
    for folder in (SOLUTIONS, EXERCISES_FOLDER):
        (tmp_path / folder / "sources").mkdir(parents=True)
        toml = (ROOT / "notebooks" / folder / "jupytext.toml").read_text(encoding="utf-8")
        (tmp_path / folder / "jupytext.toml").write_text(toml, encoding="utf-8")
    copy.py.write_text(solution.py.read_text(encoding="utf-8"), encoding="utf-8")
    made = write_student(copy)
    stored = Lesson(solution.name, ROOT / "notebooks" / EXERCISES_FOLDER)
    assert made.py.read_bytes() == stored.py.read_bytes(), "run `make exercises`"
    fresh, notebook = student_notebook(read_py(solution.py)), read_ipynb(stored.ipynb)
    assert list(map(parts, fresh.cells)) == list(map(parts, notebook.cells)), "run `make exercises`"


@each_solution
def test_nothing_of_a_solution_is_left(solution):
    text = (ROOT / "notebooks" / EXERCISES_FOLDER / f"{solution.name}.ipynb").read_text(encoding="utf-8")
    for mark in ("BEGIN SOLUTION", "HIDDEN TESTS", "assert", f"notebooks/{SOLUTIONS}"):
        assert mark not in text
    for cell in code(read_py(solution.py)):
        for region in re.findall(r"### BEGIN SOLUTION\n(.*?)\s*### END SOLUTION", cell.source, re.DOTALL):
            longest = max(region.splitlines(), key=len).strip()
            given = [one.source for one in code(read_py(solution.py)) if "BEGIN SOLUTION" not in one.source]
            given += [exercise.stub for exercise in of_lesson(solution)]  # gaps stand in code that is given
            assert longest not in text or any(longest in source for source in given), longest


@each_solution
def test_the_stored_outputs_say_passed_and_not_written(solution):
    for lesson, state in (
        (solution, "passed"),
        (Lesson(solution.name, ROOT / "notebooks" / EXERCISES_FOLDER), "not written yet"),
    ):
        said = [
            output.data["text/plain"].splitlines()[0]
            for cell in code(read_ipynb(lesson.ipynb))
            for output in cell.outputs
            if output.output_type == "execute_result" and "check(" in cell.source
        ]
        names = [exercise.name for exercise in of_lesson(solution)]
        assert [re.match(r". (\w+): ([\w ]+)\.", line).groups() for line in said] == [(name, state) for name in names]


@each_solution
def test_the_solutions_are_what_the_objects_make(solution):
    made = solutions_source(SETS[solution.name[:2]], read_address(ROOT))
    assert solution.py.read_text(encoding="utf-8") == made, "run `make exercises`"


@each_solution
def test_the_check_stands_right_under_its_stub(solution):
    cells = read_py(solution.py).cells
    for exercise in of_lesson(solution):
        at = next(
            i for i, cell in enumerate(cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise.name
        )
        stub, below = cells[at], cells[at + 1]
        assert re.search(rf"^(def|class) {exercise.name}\(", stub.source, re.MULTILINE)
        assert "-> " in stub.source, "the stub says the shapes that go in and come out"
        assert below.source.endswith(f'check("{exercise.name}", {exercise.name})')
        assert f'assert check("{exercise.name}", {exercise.name}).passed' in below.source
        assert stub.metadata["nbgrader"] == {
            "grade": False,
            "grade_id": exercise.name,
            "locked": False,
            "schema_version": 3,
            "solution": True,
            "task": False,
        }
        assert below.metadata["nbgrader"] == {
            "grade": True,
            "grade_id": f"check_{exercise.name}",
            "locked": True,
            "points": exercise.difficulty,
            "schema_version": 3,
            "solution": False,
            "task": False,
        }
    assert cells[-1].source == "progress()"


@each_solution
def test_nbgrader_takes_both_notebooks(solution):
    pytest.importorskip("nbgrader")
    from nbgrader.nbgraderformat import MetadataValidator

    for lesson in (solution, Lesson(solution.name, ROOT / "notebooks" / EXERCISES_FOLDER)):
        MetadataValidator().validate_nb(read_ipynb(lesson.ipynb))


def test_markers_that_nbgrader_refuses_are_told_by_name(tmp_path):
    pytest.importorskip("nbgrader")
    from tools.notebooks.notebook_file import write_student

    (tmp_path / SOLUTIONS / "sources").mkdir(parents=True)
    lesson = Lesson("01_exercises", tmp_path / SOLUTIONS)
    lesson.py.write_text("# %%\ndef f():\n    ### BEGIN SOLUTION\n    return 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="solutions/01_exercises: nbgrader refuses the notebook: no end solution"):
        write_student(lesson)
    assert not (tmp_path / EXERCISES_FOLDER / "sources" / "01_exercises.py").exists()


SOLUTION = """\
# %%
import math

# %% nbgrader={"grade": false, "grade_id": "root", "locked": false, "schema_version": 3, "solution": true}
def root(x):
    ### BEGIN SOLUTION
    return math.sqrt(x)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check", "locked": true, "points": 1, "schema_version": 3, "solution": false}
### BEGIN HIDDEN TESTS
assert root(9) == 3
### END HIDDEN TESTS
root.__name__
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    import shutil

    (tmp_path / "notebooks" / SOLUTIONS / "sources").mkdir(parents=True)
    (tmp_path / "notebooks" / EXERCISES_FOLDER).mkdir()
    for name in (
        "pyproject.toml",
        f"notebooks/{SOLUTIONS}/jupytext.toml",
        f"notebooks/{EXERCISES_FOLDER}/jupytext.toml",
    ):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "notebooks" / SOLUTIONS / "sources" / "01_exercises.py").write_text(SOLUTION, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tools.commands.exercises.write_solutions", lambda root: None)  # this one is not the course's
    return tmp_path


def test_the_command_makes_and_runs_both(repository, capsys):
    pytest.importorskip("nbgrader")
    assert main(["exercises", "01", "--kernel", "python3"]) == 0
    shown = capsys.readouterr().out
    assert "solutions/01_exercises" in shown and "exercises/01_exercises" in shown
    student = Lesson("01_exercises", repository / "notebooks" / EXERCISES_FOLDER)
    assert "raise NotImplementedError  # your code goes here" in student.py.read_text(encoding="utf-8")
    cells = read_ipynb(student.ipynb).cells
    assert [cell.execution_count for cell in cells] == [1, 2, 3]
    assert cells[2].source == "root.__name__" and cells[2].metadata.nbgrader.grade_id == "check"


def test_the_command_says_what_failed(repository, capsys):
    pytest.importorskip("nbgrader")
    path = repository / "notebooks" / SOLUTIONS / "sources" / "01_exercises.py"
    path.write_text(SOLUTION.replace("math.sqrt(x)", "x"), encoding="utf-8")
    assert main(["exercises", "--kernel", "python3"]) == 1
    assert "FAILED  01_exercises, code cell 3, `assert root(9) == 3`" in capsys.readouterr().err
    assert main(["exercises", "99"]) == 2
    assert "There is no lesson '99'; the lessons are: solutions/01_exercises." in capsys.readouterr().err
    path.unlink()
    assert main(["exercises"]) == 2


def test_notebooks_can_be_chosen_by_folder():
    def labels(*names):
        return [lesson.label for lesson in find_notebooks(ROOT, list(names))]

    assert labels("04") == ["04_reshape_and_transpose", "exercises/04_exercises", "solutions/04_exercises"]
    assert labels("exercises/04") == ["exercises/04_exercises"]
    assert labels("notebooks/solutions/04_exercises.ipynb") == ["solutions/04_exercises"]
    assert labels("exercises") == [one.label for one in ALL_EXERCISES]
    with pytest.raises(ValueError, match="There is no lesson 'exercises/99'"):
        labels("exercises/99")


def test_only_exercises_and_solutions_may_hold_nbgraders_metadata(tmp_path):
    from tools.notebooks.address import read_address
    from tools.notebooks.lint import lint

    lesson = Lesson("01_exercises", tmp_path / "notebooks")
    lesson.py.parent.mkdir(parents=True)
    for source, copy in ((ALL_SOLUTIONS[0].py, lesson.py), (ALL_SOLUTIONS[0].ipynb, lesson.ipynb)):
        copy.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    assert "cell 5 stores metadata.nbgrader; only tags may be stored." in "\n".join(lint(lesson, read_address(ROOT)))
