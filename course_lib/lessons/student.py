"""The learner's notebook from the teacher's, by nbgrader's own preprocessors."""

from typing import Any

from nbgrader.preprocessors import CheckCellMetadata, ClearHiddenTests, ClearOutput, ClearSolutions
from traitlets.config import Config

from course_lib.lessons.discover import EXERCISES, SOLUTIONS, Lesson
from course_lib.lessons.notebook_file import KERNELSPEC, read_py, write_py

STUB = "raise NotImplementedError  # your code goes here"


def student_notebook(solution: Any) -> Any:
    """Take solutions, hidden tests and outputs out of a teacher's notebook.

    Args:
        solution: a notebook with ``### BEGIN SOLUTION`` markers and nbgrader's metadata; it is left as it is.

    Returns:
        The learner's notebook, whose links lead to the exercises.

    Raises:
        ValueError: markers or metadata that nbgrader refuses, in its own words.
    """
    import nbformat

    config = Config()
    config.ClearSolutions.code_stub = {"python": STUB}
    notebook = nbformat.from_dict(solution.copy())
    notebook.cells = [nbformat.from_dict(dict(cell)) for cell in solution.cells]
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC})
    resources: dict[str, Any] = {}
    for preprocessor in (CheckCellMetadata, ClearSolutions, ClearHiddenTests, ClearOutput, CheckCellMetadata):
        try:
            notebook, resources = preprocessor(config=config).preprocess(notebook, resources)
        except Exception as error:  # nbgrader raises RuntimeError and classes of its own
            raise ValueError(f"nbgrader refuses the notebook: {error}") from error
    for cell in notebook.cells:
        cell.source = cell.source.replace(f"notebooks/{SOLUTIONS}/", f"notebooks/{EXERCISES}/")
    return notebook


def write_student(solution: Lesson) -> Lesson:
    """Write the learner's .py of a teacher's notebook and return the pair it belongs to."""
    student = Lesson(solution.name, solution.folder.parent / EXERCISES)
    student.folder.mkdir(exist_ok=True)
    try:
        write_py(student_notebook(read_py(solution.py)), student)
    except ValueError as error:
        raise ValueError(f"{solution.label}: {error}") from error
    return student
