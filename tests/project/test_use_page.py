"""The book's pages on the library and the doctor: their code runs, and the reports are what the commands say."""

import re
from pathlib import Path

import pytest
import torch

from course_lib.command import main
from course_lib.mistakes import CATALOGUE
from course_lib.scan import PATHS

BOOK = Path(__file__).resolve().parents[2] / "book"
LIBRARY, DOCTOR = ((BOOK / name).read_text(encoding="utf-8") for name in ("use.md", "doctor.md"))


def test_the_report_is_the_commands(tmp_path, monkeypatch, capsys):
    source = re.search(r"```python\n(.*?)```", DOCTOR, re.S)[1]
    command, *shown = re.search(r"```console\n\$ (.*?)```", DOCTOR, re.S)[1].rstrip().splitlines()
    (tmp_path / "my_attention.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = re.match(r'course (doctor \S+) --args "(.*?)" (.*)', command)
    assert main([*words[1].split(), "--args", words[2], *words[3].split()]) == 1
    said = capsys.readouterr()
    assert [*said.err.splitlines(), *said.out.rstrip().splitlines()] == shown


def test_every_example_of_the_doctor_runs():
    blocks = re.findall(r"```python\n(.*?)```", DOCTOR, re.S)
    assert len(blocks) == 3
    names = {"torch": torch}
    for block in blocks:
        *statements, last = block.rstrip().rsplit("\n", 1)
        exec(compile("\n".join(statements), "doctor.md", "exec"), names)
        result = eval(last, names) if "(" in last and not last.startswith(" ") else None
    assert str(result).splitlines()[0] == re.search(r"```text\n(.*?)\n```", DOCTOR, re.S)[1]


def test_the_page_lists_every_path_and_counts_the_mistakes():
    table = DOCTOR.split("| path |")[1].split("\n\n")[0]
    assert {name for row in table.splitlines()[2:] for name in row.split("|")[1].strip().split(", ")} >= {
        part for path in PATHS for part in path.name.split(", ")
    }
    assert f"It knows {len(CATALOGUE)} [mistakes by name]" in DOCTOR


@pytest.mark.slow
def test_every_example_of_the_library_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one saves a page
    blocks = re.findall(r"```python\n(.*?)```", LIBRARY, re.S)
    assert len(blocks) == 1
    names = {}
    for block in blocks:
        exec(compile(block, "use.md", "exec"), names)
    assert names["output"].shape == (1, 6, 4) and names["weights"].shape == (1, 2, 6, 6)
