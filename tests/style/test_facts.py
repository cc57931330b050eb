"""Facts decide, and sentences are made of them at the end: no code looks into a title, an evidence or a message."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = {"title", "evidence", "message", "sentence", "said", "hint", "question", "remarks", "checked"}
LOOKING = {"startswith", "endswith", "split", "partition", "rpartition", "find", "index", "count"}
LOOKING |= {"removesuffix", "replace"}
COMPARING = (ast.In, ast.NotIn, ast.Eq, ast.NotEq)
SEARCHING = {"search", "match", "fullmatch", "findall", "finditer"}
# Where a text is only set: its last sign, its width, or whether it stands there already.
SETTING = {
    "course_lib/recording_page/input_names.py": {"title"},  # the name of a tensor, which another name is compared with
    "course_lib/exercises/verdict.py": {"message"},
    "course_lib/pictures/charts/dot_table.py": {"title"},
    "course_lib/pictures/tensors/vectors.py": {"title"},
    "course_lib/pictures/weights/pattern_layout.py": {"title"},
    "tools/book/mistake_page.py": {"title"},
    "tools/book/mistakes.py": {"title"},
}


def name_of(node):
    """Return the name of the attribute or key that a node reads, or None."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    return None


def looked_into(code):
    """Yield (line, name) of each sentence that decides something in code."""
    for node in ast.walk(ast.parse(code)):
        parts = []
        if isinstance(node, ast.Compare) and any(isinstance(op, COMPARING) for op in node.ops):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = [node.func.value] if node.func.attr in LOOKING else node.args if node.func.attr in SEARCHING else []
        yield from ((node.lineno, name_of(part)) for part in parts if name_of(part) in SENTENCES)


@pytest.mark.parametrize("package", ["course_lib", "course_grader", "tools"])
def test_no_sentence_decides(package):
    found = {
        f"{path.relative_to(ROOT)}:{line} reads `{name}`"
        for path in (ROOT / package).rglob("*.py")
        for line, name in looked_into(path.read_text(encoding="utf-8"))
        if name not in SETTING.get(str(path.relative_to(ROOT)), ())
    }
    assert not found


def test_each_exception_is_needed():
    for file, names in SETTING.items():
        assert {name for _, name in looked_into((ROOT / file).read_text(encoding="utf-8"))} == names, file


@pytest.mark.parametrize(
    "code",
    [
        "if 'random' in one.title: pass",
        "left = [one for one in found if one.title == WINDOW]",
        "ok = not self.title.startswith(('It could', 'It was'))",
        "found = re.search(r'multiplied by (.*)', finding['evidence'])",
        "if finding['evidence'] != one.evidence: pass",
        "said = found.sentence.replace('Your function', 'Your module')",
    ],
)
def test_a_sentence_that_decides_is_seen(code):
    assert [*looked_into(code)]


def test_a_fact_that_decides_is_none():
    assert not [*looked_into("if one.kind is Kind.RANDOM and one.facts['factor'] == 2 and one.mistake in MASKS: pass")]
