"""The plan of the repository: packages use each other's faces, imports run one way, no modules need each other."""

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

from tests.style.imports import Import, circles, code_of, imports_of, module_names, package_of, past_faces, upwards
from tools.book.reference import PARTS, names_on_page

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("course_lib", "course_grader", "tools")
MODULES = module_names(ROOT, PACKAGES)
LATE = {  # (importer, imported): an import within a function that runs upwards, with the reason
    ("course_lib.recorder.recording", "course_lib.recording_page"): "`save_page` is a method of what it draws",
    ("course_lib.pictures.live.own_words", "course_lib.stories"): "it shows a head of a trained model",
    ("course_lib.pictures.live.share_keys_and_values", "course_lib.stories"): "it shows what trained models keep",
}
RUN_BY_LEARNERS = ("sources/*.py", "exercises/*.ipynb", "solutions/*.ipynb")
LESSONS = sorted(path for kind in RUN_BY_LEARNERS for path in (ROOT / "notebooks").glob(kind))

FACES = {  # what may be imported from anywhere besides a package itself, each with the reason
    "course_lib.pictures.live": "a figure is called by its name there: live.why_transpose()",
    "course_lib.attention.convert": "lessons import it as a module of its own: weights from one form to another",
    "tools.performance.grading": "needs the packages of the extra teach, which the other measurements do not",
}
FLOORS = [  # from the lowest to the highest; imports run downwards or stay on a floor
    {"course_lib.mistakes"},  # alone: the mistakes import nothing of ours
    {
        "course_lib",
        "course_lib.about",
        "course_lib.atomic_file",
        "course_lib.calling",
        "course_lib.markup",
        "course_lib.quantised",
        "course_lib.wording",
        "course_lib.workspace",
    },
    {"course_lib.inputs", "course_lib.show", "course_lib.device", "course_lib.attention"},
    {"course_lib.checkpoint"},
    {"course_lib.tracing"},
    {"course_lib.recorder", "course_lib.mutations"},
    {"course_lib.pictures", "course_lib.timing", "course_lib.distributed"},
    {
        "course_lib.diagnosis",
        "course_lib.oral",
        "course_lib.testing",
        "course_lib.recording_page",
        "course_lib.stories",
    },
    {"course_lib.exercises", "course_lib.scan"},
    {"course_lib.command"},
    {"course_grader"},
    {"tools"},
]


@cache  # not a constant: every process of the tests reads this file, and few need what takes three seconds
def all_imports():
    return [each for name, path in MODULES.items() for each in imports_of(name, path, MODULES)]


@pytest.fixture(scope="module")
def imports():
    """The imports of the repository, without those that may run upwards."""
    return [each for each in all_imports() if (each.importer, each.imported) not in LATE]


def between_packages(imports):
    """The same imports, each from package to package."""
    pairs = [Import(package_of(each.importer), package_of(each.imported), each.line) for each in imports]
    return [each for each in pairs if each.importer != each.imported]


def lesson_imports(path):
    """Yield (module, name) of each import of the library in a lesson or its exercises."""
    for node in ast.walk(ast.parse(code_of(path))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib"):
            yield from ((node.module, alias.name) for alias in node.names)


def missing_on_the_reference(wanted):
    """Return the imports of lessons that no page of the reference describes."""
    missing = []
    for module, name in wanted:
        part = module.removeprefix("course_lib.")
        names = names_on_page(part) if part in PARTS else None
        described = names is not None and (name in names if names else hasattr(importlib.import_module(module), name))
        if not described:
            missing.append(f"{module}.{name}")
    return missing


def test_the_modules_are_found(imports):
    assert len(MODULES) > 300 and len(imports) > 1500 and len(LESSONS) > 40


def test_another_package_is_used_by_its_face(imports):
    assert [str(each) for each in past_faces(imports, FACES)] == []


def test_a_lesson_uses_faces():
    found = [each for path in LESSONS for each in imports_of(path.stem, path, MODULES)]
    assert len(found) > 100
    assert [str(each) for each in past_faces(found, FACES)] == []


def test_every_exception_is_needed(imports):
    used = {each.imported for path in LESSONS for each in imports_of(path.stem, path, MODULES)}
    used |= {each.imported for each in imports if package_of(each.importer) != package_of(each.imported)}
    assert set(FACES) <= used
    assert set(LATE) <= {(each.importer, each.imported) for each in upwards(all_imports(), FLOORS)}


def test_no_modules_import_each_other(imports):
    assert circles(imports) == []


def test_no_packages_import_each_other(imports):
    assert circles(between_packages(imports)) == []


def test_imports_run_one_way(imports):
    assert [str(each) for each in upwards(imports, FLOORS)] == []


def test_a_package_says_what_it_is():
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{name} has no docstring"


@pytest.mark.slow
def test_what_lessons_import_is_on_the_reference():
    wanted = sorted({each for path in LESSONS for each in lesson_imports(path)})
    assert ("course_lib.timing", "compare_times") in wanted
    assert missing_on_the_reference(wanted) == []


# --- planted violations ---


@pytest.fixture
def planted(tmp_path):
    """Return a function that writes files and reads their imports."""

    def plant(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        modules = module_names(tmp_path, PACKAGES)
        return [each for name, path in modules.items() for each in imports_of(name, path, modules)]

    return plant


TWO_PACKAGES = {
    "course_lib/__init__.py": "",
    "course_lib/attention/__init__.py": "from .core import attend\n__all__ = ['attend']\n",
    "course_lib/attention/core.py": "",
    "course_lib/recorder/__init__.py": "",
}
PAST_A_FACE = [
    "from course_lib.attention.core import attend",
    "import course_lib.attention.core",
    "from course_lib.attention import core",
    "def f():\n    from ..attention.core import attend",
]


@pytest.mark.parametrize("text", PAST_A_FACE)
def test_an_import_past_a_face_is_found(text, planted):
    imports = planted({**TWO_PACKAGES, "course_lib/recorder/a.py": text})
    (found,) = past_faces(imports, ())
    assert str(found).startswith("course_lib.recorder.a:") and found.imported == "course_lib.attention.core"
    assert list(past_faces(imports, ["course_lib.attention.core"])) == []


def test_an_import_of_a_face_is_none(planted):
    files = {**TWO_PACKAGES, "course_lib/recorder/a.py": "from course_lib.attention import attend"}
    assert list(past_faces(planted(files), ())) == []
    assert list(past_faces(planted({"course_lib/attention/attend.py": ""}), ())) == []  # the face gives that name


def test_a_circle_is_found(planted):
    files = {
        "course_lib/__init__.py": "",
        "course_lib/a.py": "from . import b",
        "course_lib/b.py": "def f():\n    from course_lib import c",
        "course_lib/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import A",
        "course_lib/d.py": "from .a import A",
    }
    assert circles(planted(files)) == [["course_lib.a", "course_lib.b", "course_lib.c"]]


UP = {
    "course_lib/attention/a.py": "from course_lib.recorder import b",
    "course_lib/recorder/b.py": "from course_lib.command import c",
    "course_lib/command/c.py": "import course_grader",
    "course_grader/__init__.py": "from tools.notebooks import d",
    "tools/notebooks/d.py": "from course_lib.attention import a",
}


def test_an_import_upwards_is_found(planted):
    found = {(package_of(each.importer), package_of(each.imported)) for each in upwards(planted(UP), FLOORS)}
    assert found == {
        ("course_lib.attention", "course_lib.recorder"),
        ("course_lib.recorder", "course_lib.command"),
        ("course_lib.command", "course_grader"),
        ("course_grader", "tools.notebooks"),
    }


def test_a_new_package_needs_a_floor(planted):
    imports = planted({"course_lib/fresh/a.py": "from course_lib.fresh import b", "course_lib/fresh/b.py": ""})
    with pytest.raises(ValueError, match=r"course_lib\.fresh\.b is on no floor: give its package a place in FLOORS\."):
        list(upwards(imports, [{"course_lib.attention"}]))


def test_a_name_that_the_reference_lacks_is_found():
    wanted = [("course_lib.command", "main"), ("course_lib.exercises", "run"), ("course_lib.show", "nothing")]
    assert missing_on_the_reference([*wanted, ("course_lib.show", "show")]) == [".".join(each) for each in wanted]
