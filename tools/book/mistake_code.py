"""Read the examples of the mistakes and diagnose them."""

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
INSTEAD = re.compile(r"^( *)# instead: (.*)$")


@dataclass(frozen=True)
class Example:
    """A piece of attention code with one mistake.

    Attributes:
        wrong: The code with the mistake.
        right: The code with the marked lines corrected.
        wrong_lines: The numbers of the wrong lines in `wrong`.
        call: Code that makes `module`, `x` and `options` for `diagnose`.
    """

    wrong: str
    right: str
    wrong_lines: tuple[int, ...]
    call: str


def read_example(path: Path) -> Example:
    """Read the example of a mistake: the code, the lines to write instead, and how it is called.

    In the upper half of the file wrong lines end with `# wrong`, and comments `# instead: <line>` hold the lines to
    write.

    Raises:
        ValueError: The file has no dividing line, or no wrong line.
    """
    code, divider, call = path.read_text(encoding="utf-8").partition(DIVIDER)
    if not divider:
        raise ValueError(f"{path} has no line {DIVIDER.strip()!r}: write it between the code and its call.")
    wrong, right, wrong_lines = [], [], []
    for line in code.rstrip().splitlines():
        if instead := INSTEAD.match(line):
            right.append(instead[1] + instead[2])
            continue
        wrong.append(line.removesuffix(WRONG))
        if line.endswith(WRONG):
            wrong_lines.append(len(wrong))
        else:
            right.append(line)
    if not wrong_lines:
        raise ValueError(f"{path} has no guilty line: end it with '# wrong' and write '# instead: <line>' below.")
    return Example("\n".join(wrong) + "\n", "\n".join(right) + "\n", tuple(wrong_lines), call.strip() + "\n")


def run_example(source: str, call: str) -> Report:
    """Run code and diagnose it; the report calls it attention.py, and its pictures can still be drawn."""
    file = f"{hashlib.sha256(source.encode()).hexdigest()[:16]}/attention.py"  # each text gets a name of its own
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names: dict[str, Any] = {"__name__": "attention"}
    exec(compile(source, file, "exec"), names)
    with torch.random.fork_rng(devices=[]):
        exec(compile(call, "call.py", "exec"), names)
        return diagnose(names["module"], names["x"], **names["options"])
