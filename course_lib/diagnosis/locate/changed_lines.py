"""Find the lines in which code differs from its reference, if both are versions of one text."""

import ast
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from types import CodeType
from typing import Any, NamedTuple

from torch import nn

from course_lib.calling import code_of
from course_lib.tracing import Source, SourceLine, end_of, is_foreign, read_source, source_of

ALIKE = 0.5  # of the lines of two texts that are versions of each other
LONGEST = 100  # characters of the reference that are shown
COMMENT = re.compile(r"(^|\s)#[^'\"]*$")


@dataclass(frozen=True)
class Change:
    """Lines of code that its reference writes otherwise.

    Attributes:
        file: Python's name of the code's file.
        lines: the line numbers; of a gap, the first line of the statement before it.
        right: what the reference has there, on one line; "" for nothing.
        is_gap: whether the reference only has more there.
    """

    file: str
    lines: tuple[int, ...]
    right: str
    is_gap: bool

    @property
    def said(self) -> str:
        """What the reference has there, in words."""
        line = SourceLine(self.file, self.lines[0])
        right = self.right if len(self.right) <= LONGEST else f"{self.right[:LONGEST]}..."
        if self.is_gap:
            return f"below {line} `expect` also has `{right}`"
        return f"in place of {line} `expect` has " + (f"`{right}`" if right else "nothing")

    @cached_property
    def pointed(self) -> dict[int, int]:
        """Each line of the statements that are changed -> the first changed line in its statement."""
        found = {line: line for line in self.lines}
        for node in read_source(self.file).statements:
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else end_of(node)[0]
            inside = [line for line in self.lines if node.lineno <= line <= last]
            found |= dict.fromkeys(range(node.lineno, last + 1), inside[0]) if inside else {}
        return found


class Section(NamedTuple):
    """Some lines of a file, and the name of the class or function that they are in; "" for a whole file."""

    file: str
    name: str
    first: int
    last: int


def changed_lines(code: Any, expect: Any, ran: Set[CodeType], ran_right: Set[CodeType]) -> list[Change]:
    """Return where the texts of code and of its reference differ.

    Two files are compared as a whole. Classes and functions of one file are compared by themselves.

    Args:
        code, expect: two modules, whose parts are compared by their names, or two functions.
        ran, ran_right: the functions that ran in each; those of one name in two files are versions of each other.
    """
    by_name = {one.co_qualname: one for one in ran_right}
    pairs = [(source_of(one), source_of(by_name.get(one.co_qualname))) for one in ran]
    found: dict[Section, list[Change]] = {}
    for mine, right in (*_definitions(code, expect), *pairs):
        if mine is None or right is None or mine == right or is_foreign(mine.file):
            continue
        both = _section(mine, right.file), _section(right, mine.file)
        if both[0] not in found:
            found[both[0]] = list(_compared(*both))
    return [one for changes in found.values() for one in changes]


def _definitions(code: Any, expect: Any) -> Iterator[tuple[Source | None, Source | None]]:
    if isinstance(code, nn.Module) and isinstance(expect, nn.Module):
        others = dict(expect.named_modules())
        named = ((type(one), type(others[name])) for name, one in code.named_modules() if name in others)
        yield from ((source_of(one), source_of(other)) for one, other in dict.fromkeys(named))
    else:
        yield source_of(code_of(code)), source_of(code_of(expect))


def _section(source: Source, other: str) -> Section:
    """Return the lines of a definition below its header, or all those of a file that the other is not in."""
    if source.file != other:
        return Section(source.file, "", 1, len(read_source(source.file).lines))
    body = source.tree.body
    first = body[0].lineno if isinstance(body, list) else source.tree.lineno
    return Section(source.file, getattr(source.tree, "name", ""), first, end_of(source.tree)[0])


def _compared(mine: Section, right: Section) -> Iterator[Change]:
    """Yield the changes between two sections; none if they are no versions of each other."""
    one, other = _code_of(mine), _code_of(right)
    if not one:
        return
    texts, others = [text for _, text in one], [text for _, text in other]
    same = next((n for n, pair in enumerate(zip(texts, others, strict=False)) if pair[0] != pair[1]), 0)
    matcher = SequenceMatcher(None, texts[same:], others[same:], autojunk=False)
    blocks = [block for block in matcher.get_opcodes() if block[0] != "equal"]
    if len(texts) - sum(last - first for _, first, last, _, _ in blocks) < ALIKE * max(len(texts), len(others)):
        return
    for _, first, last, begin, end in blocks:
        changed = tuple(number for number, _ in one[same + first : same + last])
        before = _statement_at(mine.file, one[max(same + first - 1, 0)][0])
        text = " ".join(line.strip() for line in others[same + begin : same + end])
        yield Change(mine.file, changed or (before,), text, is_gap=not changed)


def _statement_at(file: str, line: int) -> int:
    """Return the first line of the innermost statement that a line belongs to."""
    starts = [one.lineno for one in read_source(file).statements if one.lineno <= line <= end_of(one)[0]]
    return max(starts, default=line)


def _code_of(section: Section) -> list[tuple[int, str]]:
    """Return the numbers and texts of the lines that are code, with the section's own name left out."""
    text = read_source(section.file)
    documented = {
        line for node in text.statements if _is_text(node) for line in range(node.lineno, end_of(node)[0] + 1)
    }
    numbers = [line for line in range(section.first, section.last + 1) if line not in documented]
    lines = [COMMENT.sub("", text.lines[line - 1].rstrip()) for line in numbers]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    own = re.compile(rf"\b{re.escape(section.name)}\b") if section.name else re.compile(r"(?!)")
    return [(n, own.sub("_", line[margin:])) for n, line in zip(numbers, lines, strict=True) if line.strip()]


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is a text alone, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
