"""Make the student's notebook from the teacher's with nbgrader's own preprocessors, and say what metadata it keeps."""

from __future__ import annotations

from typing import Any

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}  # for the setup cell, in Colab and in JupyterLab
STUB = "raise NotImplementedError  # your code goes here"


def kept_metadata(cell: Any) -> dict[str, Any]:
    """Return the metadata that a cell is stored with: its tags, nbgrader's, and what folds the setup cell."""
    kept = {key: cell.metadata[key] for key in ("tags", "nbgrader") if cell.metadata.get(key)}
    return kept | (FOLDED if "setup" in kept.get("tags", ()) else {})


def student_notebook(solution: Any) -> Any:
    """Return a teacher's notebook, which stays as it is, without solutions, hidden tests and outputs.

    Raises:
        ValueError: nbgrader refuses the markers or the metadata; the message is its own.
    """
    import nbformat
    from nbgrader.preprocessors import CheckCellMetadata, ClearHiddenTests, ClearOutput, ClearSolutions
    from traitlets.config import Config

    from course_lib.exercises import EXERCISES

    config = Config()
    config.ClearSolutions.code_stub = {"python": STUB}
    notebook: Any = nbformat.from_dict(solution.copy())
    notebook.cells = [nbformat.from_dict(dict(cell)) for cell in solution.cells]
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC})
    resources: Any = {}
    for preprocessor in (ClearSolutions, ClearHiddenTests, ClearOutput, CheckCellMetadata):
        try:
            notebook, resources = preprocessor(config=config).preprocess(notebook, resources)
        except Exception as error:  # nbgrader raises RuntimeError and classes of its own
            raise ValueError(f"nbgrader refuses the notebook: {error}") from error
    for cell in notebook.cells:
        cell.source = cell.source.replace("notebooks/solutions/", "notebooks/exercises/")
        exercise = EXERCISES.get(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
        if exercise and exercise.stub:  # a class with an empty body, or code with gaps
            cell.source = exercise.stub.strip()
    return notebook
