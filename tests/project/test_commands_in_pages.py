"""Each `course` and `make` command on a page exists, with its options, and no line of code on a page is cut off."""

import re
import shlex
from pathlib import Path

import pytest

from course_lib import command
from course_lib.command import main
from tools.notebooks.lint_outputs import wide_lines

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "book").glob("*.md"))]
LINES = [
    pytest.param(line.strip(), id=f"{page.name}-{line.strip()[:60]}")
    for page in PAGES
    for block in re.findall(
        r"^```(?:sh|bash|shell|console)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    for line in block.replace("\\\n", " ").splitlines()
]


CODE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_of_code_is_cut_off(page):
    """An address can't be broken, and what a command says is folded by the book."""
    blocks = [code for _, kind, code in CODE.findall(page.read_text("utf-8")) if kind != "console"]
    shown = re.sub(r"https?://\S+", "", "".join(blocks))
    assert list(wide_lines(shown)) == []


def _words(line, command):
    words = shlex.split(line, comments=True)
    at = next((at for at, word in enumerate(words) if word.split("/")[-1] == command), None)
    return None if at is None else words[at + 1 :]


@pytest.mark.parametrize("line", LINES)
def test_a_command_can_be_typed_as_it_stands(line, monkeypatch, capsys):
    monkeypatch.setattr(command, "carry_out", lambda subcommand, module, args: 0)
    words = _words(line, "course")
    if words is not None and not words[0].endswith(":"):  # "course doctor: ..." is what a command says
        assert main(words) == 0, capsys.readouterr().err
    targets = _words(line, "make")
    for target in targets or ():
        if "=" not in target:
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), target


def test_there_are_such_commands():
    course = [line.values[0] for line in LINES if _words(line.values[0], "course")]
    assert len(course) >= 10 and any(" grade " in line for line in course)


def test_a_wrong_option_is_noticed(capsys):
    with pytest.raises(SystemExit):
        main(["grade", "folder", "--weeks", "week1", "--out", "x"])
    assert "--week" in capsys.readouterr().err
