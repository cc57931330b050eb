"""Read the code of the mistake catalogue from book/mistakes and diagnose it."""

import hashlib
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course_lib.diagnosis import Report, diagnose

DIVIDER = "# how it is called\n"
WRONG = "  # wrong"
NOTICE = "# you may notice: "
INSTEAD = re.compile(r"^( *)# instead: (.*)$")


@dataclass(frozen=True)
class Example:
    """A piece of attention code with one mistake.

    Attributes:
        wrong: The code with the mistake.
        right: The code with the marked lines corrected.
        wrong_lines: The numbers of the wrong lines in `wrong`.
        call: Code that makes `module`, `x` and `options` for `diagnose`.
        notices: What its author notices first, as one would type it into a search box.
    """

    wrong: str
    right: str
    wrong_lines: tuple[int, ...]
    call: str
    notices: tuple[str, ...]


def read_example(path: Path) -> Example:
    """Read one file of book/mistakes: the code, the lines to write instead, and how it is called.

    It begins with comments `# you may notice: <sentence>`. In its upper half wrong lines end with `# wrong`, and
    comments `# instead: <line>` hold the lines to write.

    Raises:
        ValueError: The file has no dividing line, no wrong line, or nothing to notice.
    """
    code, divider, call = path.read_text(encoding="utf-8").partition(DIVIDER)
    if not divider:
        raise ValueError(f"{path.name} has no line {DIVIDER.strip()!r}: write it between the code and its call.")
    wrong, right, wrong_lines, notices = [], [], [], []
    for line in code.rstrip().splitlines():
        if line.startswith(NOTICE):
            notices.append(line.removeprefix(NOTICE))
            continue
        if instead := INSTEAD.match(line):
            right.append(instead[1] + instead[2])
            continue
        wrong.append(line.removesuffix(WRONG))
        if line.endswith(WRONG):
            wrong_lines.append(len(wrong))
        else:
            right.append(line)
    if not wrong_lines:
        raise ValueError(f"{path.name} has no guilty line: end it with '# wrong' and write '# instead: <line>' below.")
    if not notices:
        raise ValueError(f"{path.name} has no line {NOTICE + '...'!r}: begin it with what its author may notice.")
    return Example(
        "\n".join(wrong) + "\n", "\n".join(right) + "\n", tuple(wrong_lines), call.strip() + "\n", tuple(notices)
    )


def run_example(source: str, call: str) -> Report:
    """Run code and diagnose it; the report calls it attention.py, and its pictures can still be drawn."""
    file = f"{hashlib.sha256(source.encode()).hexdigest()[:16]}/attention.py"  # each text gets a name of its own
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names: dict[str, Any] = {"__name__": "attention"}
    exec(compile(source, file, "exec"), names)
    with torch.random.fork_rng(devices=[]):
        exec(compile(call, "call.py", "exec"), names)
        return diagnose(names["module"], names["x"], **names["options"])
