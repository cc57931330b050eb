"""Names and docstrings of the library use the glossary's words, and none of those that it rules out."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("course_lib", "course_grader", "tools")
EXCEPTIONS = {  # names of exercises, which learners' notebooks contain, and of the files that hold them
    "mix_heads": "the function that a learner writes",
    "two_mixes": "likewise",
    "patient_a": "in lesson 15 the metaphor stays",
    "patient_b": "likewise",
    "patient_c": "likewise",
    "patient_d": "likewise, in lesson 08",
}


class Text(NamedTuple):
    """A name or a docstring, and where it stands."""

    where: str
    kind: str
    text: str


def ruled_out() -> dict[str, set[str]]:
    """What the glossary's last table lists: kind -> words and phrases."""
    table = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8").split("## Words that are not used")[1]
    found: dict[str, set[str]] = {"names": set(), "docstrings": set()}
    for words, kinds in re.findall(r"^\| ([a-z0-9, ]+) \| ([a-z, ]+) \|", table, re.MULTILINE):
        for kind in kinds.split(", "):
            if kind in found:
                found[kind] |= set(words.split(", "))
    return found


def texts(path: Path, source: str) -> Iterator[Text]:
    """Yield the file's name, its public names with their parameters, and every docstring."""
    tree = ast.parse(source)
    yield Text(f"{path}", "names", path.stem)
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)):
                if not name.id.startswith("_"):
                    yield Text(f"{path}:{node.lineno}", "names", name.id)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            line = getattr(node, "lineno", 1)
            yield Text(f"{path}:{line}", "docstrings", ast.get_docstring(node) or "")
            if isinstance(node, ast.Module) or re.match("_(?!_)", node.name):
                continue
            yield Text(f"{path}:{line}", "names", node.name)
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                yield from (Text(f"{path}:{line}", "names", argument.arg) for argument in arguments)


def words_of(kind: str, text: str) -> str:
    """The words of a text or of a name, in lower case, with a space around each."""
    between = r"(?<=[a-z0-9])(?=[A-Z])" if kind == "names" else r"`[^`]*`"  # code is quoted as it is
    return f" {' '.join(re.findall('[a-z0-9]+', re.sub(between, ' ', text).lower()))} "


def violations(found: Iterable[Text]) -> list[str]:
    """The words that the glossary rules out, each with its place."""
    wrong = ruled_out()
    words = [(text, words_of(text.kind, text.text)) for text in found if text.text not in EXCEPTIONS]
    return [
        f"{text.where}: {word!r} in {text.kind}"
        for text, said in words
        for word in sorted(wrong[text.kind])
        if f" {word} " in said
    ]


@pytest.fixture(scope="module")
def all_texts() -> list[Text]:
    """The texts of all files."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [text for path in paths for text in texts(path.relative_to(ROOT), path.read_text(encoding="utf-8"))]


def test_the_glossary_rules_words_out():
    words = ruled_out()
    assert {"patient", "mix", "numbers"} <= words["names"] and {"patient", "64 bits"} <= words["docstrings"]
    assert "numbers" not in words["docstrings"]


def test_names_and_docstrings_are_in_plain_words(all_texts):
    assert violations(all_texts) == []


def test_a_word_that_is_ruled_out_is_found():
    source = '''
"""In 64 bits."""
PATIENT = 1
def fine(shares, *, walls): "A meeting of `patient`."
class Fine:
    def sharedPapers(self): "Patient."
    def _patient(self, patient): "Whole numbers."
'''
    assert violations(texts(Path("mix.py"), source)) == [
        "mix.py: 'mix' in names",
        "mix.py:3: 'patient' in names",
        "mix.py:1: '64 bits' in docstrings",
        "mix.py:4: 'meeting' in docstrings",
        "mix.py:4: 'shares' in names",
        "mix.py:4: 'walls' in names",
        "mix.py:6: 'patient' in docstrings",
        "mix.py:6: 'papers' in names",
        "mix.py:7: 'whole numbers' in docstrings",
    ]


def test_every_exception_is_needed(all_texts):
    assert set(EXCEPTIONS) <= {text for _, kind, text in all_texts if kind == "names"}
