"""The stored solutions and sheets are what the exercises make, to the byte, and hold what graders and learners need."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from course_lib.command import main
from course_lib.exercises.catalogue import EXERCISES, SETS
from tools.notebooks.address import read_address
from tools.notebooks.exercise_notebook import generated_notebooks, make_notebook
from tools.notebooks.jupytext_pairs import carry_outputs
from tools.notebooks.lesson_files import EXERCISES as EXERCISES_FOLDER
from tools.notebooks.lesson_files import SOLUTIONS, Lesson, find_notebooks
from tools.notebooks.notebook_file import read_ipynb, stored_text

ROOT = Path(__file__).resolve().parents[2]
ALL_SOLUTIONS = find_notebooks(ROOT, folders=(SOLUTIONS,))
ALL_EXERCISES = find_notebooks(ROOT, folders=(EXERCISES_FOLDER,))

each_solution = pytest.mark.parametrize("solution", ALL_SOLUTIONS, ids=lambda lesson: lesson.name)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def of_lesson(solution):
    return [exercise for exercise in EXERCISES.values() if exercise.lesson == solution.name[:2]]


def unlike_its_exercises(lesson):
    """Return whether a stored notebook differs, in more than its outputs, from what its exercises make."""
    stored = lesson.ipynb.read_text(encoding="utf-8")
    made = make_notebook(lesson)
    carry_outputs(made, nbformat.reads(stored, as_version=4))
    return stored_text(made) != stored


def test_there_is_a_stored_pair_for_each_lesson_with_exercises():
    assert sorted(ALL_SOLUTIONS + ALL_EXERCISES) == sorted(generated_notebooks(ROOT))
    assert [one.name for one in ALL_SOLUTIONS] == [f"{lesson}_exercises" for lesson in sorted(SETS)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("lesson", ALL_SOLUTIONS + ALL_EXERCISES, ids=lambda lesson: lesson.label)
def test_a_stored_notebook_is_what_its_exercises_make(lesson):
    pytest.importorskip("nbgrader")
    assert not unlike_its_exercises(lesson), f"run `course exercises {lesson.label}`"


def another_text(notebook):
    notebook.cells[0].source += "!"


def another_code(notebook):
    code(notebook)[-1].source += "  # edited by hand"


def fewer_points(notebook):
    next(cell for cell in code(notebook) if "points" in cell.metadata.get("nbgrader", {})).metadata.nbgrader.points = 0


def lost_tag(notebook):
    del code(notebook)[0].metadata["tags"]


def moved_cell(notebook):
    notebook.cells.insert(2, notebook.cells.pop(3))


def another_id(notebook):
    notebook.cells[0].id = "mine"


def metadata_of_an_editor(notebook):
    notebook.metadata["jupytext"] = {"formats": "ipynb,py:percent"}


EDITS = (another_text, another_code, fewer_points, lost_tag, moved_cell, another_id, metadata_of_an_editor)


@pytest.mark.slow
def test_an_edit_of_a_stored_notebook_is_seen(tmp_path):
    pytest.importorskip("nbgrader")
    stored = Lesson("03_exercises", ROOT / "notebooks" / EXERCISES_FOLDER)  # made of the solutions: it covers both
    copy = Lesson("03_exercises", tmp_path / "notebooks" / EXERCISES_FOLDER)
    copy.folder.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(stored.ipynb, copy.ipynb)
    assert not unlike_its_exercises(copy)
    for edit in EDITS:
        notebook = read_ipynb(stored.ipynb)
        edit(notebook)
        nbformat.write(notebook, copy.ipynb)
        assert unlike_its_exercises(copy), edit.__name__


def test_an_exercise_that_changed_is_seen(monkeypatch):
    solution = Lesson("03_exercises", ROOT / "notebooks" / SOLUTIONS)
    monkeypatch.setitem(SETS, "03", replace(SETS["03"], intro=SETS["03"].intro + " More."))
    assert unlike_its_exercises(solution)
    monkeypatch.setitem(SETS, "03", replace(SETS["03"], exercises=SETS["03"].exercises[:-1]))
    assert unlike_its_exercises(solution)


@each_solution
def test_nothing_of_a_solution_is_left(solution):
    text = (ROOT / "notebooks" / EXERCISES_FOLDER / f"{solution.name}.ipynb").read_text(encoding="utf-8")
    for mark in ("BEGIN SOLUTION", "HIDDEN TESTS", "assert", f"notebooks/{SOLUTIONS}"):
        assert mark not in text
    cells = code(read_ipynb(solution.ipynb))
    for cell in cells:
        for region in re.findall(r"### BEGIN SOLUTION\n(.*?)\s*### END SOLUTION", cell.source, re.DOTALL):
            longest = max(region.splitlines(), key=len).strip()
            given = [one.source for one in cells if "BEGIN SOLUTION" not in one.source]
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
def test_the_check_stands_right_under_its_stub(solution):
    cells = read_ipynb(solution.ipynb).cells
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


ROOT_OF_NINE = {
    "import math": {},
    "def root(x):\n    ### BEGIN SOLUTION\n    return math.sqrt(x)\n    ### END SOLUTION": {
        "grade": False, "grade_id": "root", "locked": False, "schema_version": 3, "solution": True,
    },
    "### BEGIN HIDDEN TESTS\nassert root(9) == 3\n### END HIDDEN TESTS\nroot.__name__": {
        "grade": True, "grade_id": "check", "locked": True, "points": 1, "schema_version": 3, "solution": False,
    },
}  # fmt: skip


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository without notebooks, and a function that changes the solutions that are made in it."""
    pytest.importorskip("nbgrader")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in (SOLUTIONS, EXERCISES_FOLDER):
        (tmp_path / "notebooks" / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def solve(old="", new=""):
        cells = [
            nbformat.v4.new_code_cell(source.replace(old, new), metadata={"nbgrader": graded} if graded else {})
            for source, graded in ROOT_OF_NINE.items()
        ]
        made = "tools.notebooks.exercise_notebook.solution_notebook"
        monkeypatch.setattr(made, lambda *_: nbformat.v4.new_notebook(cells=cells))

    solve()
    return solve


@pytest.mark.slow
def test_the_command_makes_and_runs_both(repository, capsys):
    assert main(["exercises", "01", "--kernel", "python3"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == ["solutions/01_exercises", "exercises/01_exercises"]
    solution, student = generated_notebooks(Path.cwd())[:2]
    assert [path.name for path in solution.folder.iterdir()] == ["01_exercises.ipynb"], "it has no second source"
    for lesson, inside in ((solution, "return math.sqrt(x)"), (student, "raise NotImplementedError  # your code goes")):
        cells = read_ipynb(lesson.ipynb).cells
        assert inside in cells[1].source
        assert [cell.execution_count for cell in cells] == [1, 2, 3]
        assert cells[2].metadata.nbgrader.grade_id == "check"
    assert cells[2].source == "root.__name__"
    assert main(["run", "exercises/01", "--kernel", "python3"]) == 0
    assert capsys.readouterr().out.split()[-1] == "unchanged"


def test_the_command_says_what_failed(repository, capsys):
    repository("math.sqrt(x)", "x")
    assert main(["exercises", "solutions/01", "--kernel", "python3"]) == 1
    assert capsys.readouterr().err == (
        "FAILED  solutions/01_exercises, code cell 3, `assert root(9) == 3`: AssertionError: \n"
    )
    repository("### END SOLUTION", "")
    assert main(["exercises", "exercises/01", "--kernel", "python3"]) == 1
    said = "FAILED  exercises/01_exercises: nbgrader refuses the notebook: no end solution"
    assert capsys.readouterr().err.startswith(said)
    assert main(["exercises", "99"]) == 2
    assert "There is no lesson '99'; the lessons are: solutions/01_exercises, exercises/" in capsys.readouterr().err
    assert list(Path.cwd().glob("notebooks/**/*.ipynb")) == []


def test_a_notebook_without_exercises_is_refused(repository, capsys):
    stray = Path("notebooks", EXERCISES_FOLDER, "99_exercises.ipynb")
    stray.write_text("{}", encoding="utf-8")
    assert main(["run", "--kernel", "python3"]) == 1
    said = "exercises/99_exercises: course_lib/exercises has no exercises to make it from; remove the notebook."
    assert capsys.readouterr().err == f"FAILED  {said}\n"


@pytest.mark.parametrize("folder", [SOLUTIONS, EXERCISES_FOLDER])
def test_jupyterlab_saves_no_second_file(folder, tmp_path):
    from jupyter_server.services.contents.largefilemanager import LargeFileManager
    from jupytext.sync_contentsmanager import build_sync_jupytext_contents_manager_class

    for name in ("jupytext.toml", f"{folder}/jupytext.toml", f"{folder}/01_exercises.ipynb"):
        (tmp_path / "notebooks" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "notebooks" / name, tmp_path / "notebooks" / name)
    manager = build_sync_jupytext_contents_manager_class(LargeFileManager)(root_dir=str(tmp_path))
    path = f"notebooks/{folder}/01_exercises.ipynb"
    manager.save({"type": "notebook", "content": manager.get(path)["content"]}, path)
    assert list(tmp_path.rglob("*.py")) == []


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
    from tools.notebooks.lint import lint

    lesson = Lesson("01_exercises", tmp_path / "notebooks")
    lesson.py.parent.mkdir(parents=True)
    shutil.copy(ALL_SOLUTIONS[0].ipynb, lesson.ipynb)
    lesson.py.write_text("", encoding="utf-8")
    assert "cell 5 stores metadata.nbgrader; only tags may be stored." in "\n".join(lint(lesson, read_address(ROOT)))
