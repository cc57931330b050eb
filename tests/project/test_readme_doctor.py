"""The doctor's report in the README is what the command says of the class that stands above it."""

import re
from pathlib import Path

from course_lib.command import main

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_report_is_the_commands(tmp_path, monkeypatch, capsys):
    text = README.read_text(encoding="utf-8").split("## The doctor")[1]
    source = re.search(r"```python\n(.*?)```", text, re.S)[1]
    command, *shown = re.search(r"```console\n\$ (.*?)```", text, re.S)[1].rstrip().splitlines()
    (tmp_path / "my_attention.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = re.match(r'course (doctor \S+) --args "(.*?)" (.*)', command)
    assert main([*words[1].split(), "--args", words[2], *words[3].split()]) == 1
    said = capsys.readouterr()
    assert [*said.err.splitlines(), *said.out.rstrip().splitlines()] == shown
