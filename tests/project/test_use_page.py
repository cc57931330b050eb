"""The book's page on using the library: its code runs, and the doctor's report on it is what the command says."""

import re
from pathlib import Path

from course_lib.command import main

PAGE = (Path(__file__).resolve().parents[2] / "book" / "use.md").read_text(encoding="utf-8")


def test_the_report_is_the_commands(tmp_path, monkeypatch, capsys):
    text = PAGE.split("## The doctor")[1]
    source = re.search(r"```python\n(.*?)```", text, re.S)[1]
    command, *shown = re.search(r"```console\n\$ (.*?)```", text, re.S)[1].rstrip().splitlines()
    (tmp_path / "my_attention.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = re.match(r'course (doctor \S+) --args "(.*?)" (.*)', command)
    assert main([*words[1].split(), "--args", words[2], *words[3].split()]) == 1
    said = capsys.readouterr()
    assert [*said.err.splitlines(), *said.out.rstrip().splitlines()] == shown


def test_every_example_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(compile(block, "use.md", "exec"), names)
    assert names["output"].shape == (1, 6, 4) and names["weights"].shape == (1, 2, 6, 6)
