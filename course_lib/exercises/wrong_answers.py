"""Known wrong answers, written as edits of the solution."""

import ast
import contextlib
import inspect
import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
import torch.nn.functional as F

from course_lib.mutations import ARROW, built, edited

from .exercise import Exercise, Wrong

ID = re.compile(r"(.*) \[([a-z-]+)\]", re.S)
RIGHT, RESULT = "right", "result"  # in the code of a wrong answer: the solution, and what it returns for the arguments


@dataclass(frozen=True, kw_only=True)
class WithWrongAnswers(Exercise):
    """An exercise that knows wrong answers, and what is right in an answer that does not pass.

    Attributes:
        wrong: The likeliest first, as text that `wrong_answers` reads.
        usual: The share of the points for an answer that is right with usual sizes and values, and wrong at an edge.
        without_gradients: The share for one that computes everything right, and lets no right gradient through.
    """

    wrong: str = ""
    usual: float = 0.5
    without_gradients: float = 0.75

    @property
    def known(self) -> tuple[Wrong, ...]:
        """The known wrong answers."""
        return wrong_answers(self.wrong, self.solution)


@dataclass(frozen=True)
class EditedSolution:
    """A function or class that differs from a solution.

    Attributes:
        solution: The right answer.
        code: What differs: "old => new", several of them with " && " between; or, without an arrow, what stands in the
            place of its body, an expression or statements with "; " between, in which `right` is the solution, and
            `result` what it returns for the same arguments.
    """

    solution: Callable[..., Any]
    code: str

    @cached_property
    def answer(self) -> Callable[..., Any]:
        """The function or class, made when it is asked for."""
        source = textwrap.dedent(inspect.getsource(self.solution))
        source = edited(source, self.code) if ARROW in self.code else _with_body(source, self.code)
        return built(source, self.solution, math=math, torch=torch, F=F, right=self.solution)

    def __call__(self, *arguments: Any) -> Any:
        return self.answer(*arguments)


def _with_body(source: str, code: str) -> str:
    """Return a function's source with another body."""
    (function,) = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    head = "\n".join(source.splitlines()[: function.body[0].lineno - 1])
    body = [code]
    with contextlib.suppress(SyntaxError):  # it has statements
        body = [f"return {ast.unparse(ast.parse(code, mode='eval'))}"]
    used = {node.id for node in ast.walk(ast.parse("\n".join(body))) if isinstance(node, ast.Name)}
    names = [argument.arg for argument in function.args.args]
    if RESULT in used - set(names):
        body.insert(0, f"{RESULT} = {RIGHT}({', '.join(names)})")
    return "\n".join([head, *(f"    {line}" for line in body)]) + "\n"


@cache
def wrong_answers(text: str, solution: Callable[..., Any]) -> tuple[Wrong, ...]:
    """Read a list of known wrong answers, the most likely first.

    Args:
        text: For each its code in a line of its own, and indented under it what its result equals, with the id of the
            mistake in brackets if it has one, and the question that helps, after a question mark and a space. Text that
            is indented further goes on with the line above.
        solution: The right answer.

    Raises:
        ValueError: An indented line has no code above it, or code has no description.
    """
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith(" "):
            found.append((line, []))
        elif line.strip() and not found:
            raise ValueError(f"the list of wrong answers begins with {line!r}, which has no code above it")
        elif line.startswith(" " * 8):
            found[-1][1][-1] += f" {line.strip()}"
        elif line.strip():
            found[-1][1].append(line.strip())
    return tuple(_wrong(code, told, solution) for code, told in found)


def _wrong(code: str, told: list[str], solution: Callable[..., Any]) -> Wrong:
    hints = [line.removeprefix("? ") for line in told if line.startswith("? ")]
    equals = [line for line in told if not line.startswith("? ")]
    if len(equals) != 1:
        raise ValueError(f"wrong answer {code!r} needs one line that says what its result equals, has {len(equals)}")
    if len(hints) > 1:
        raise ValueError(f"wrong answer {code!r} has {len(hints)} questions; a line that goes on is indented further")
    named = ID.fullmatch(equals[0])
    text, mistake = named.groups() if named else (equals[0], None)
    return Wrong(text, EditedSolution(solution, code), mistake, hints[0] if hints else None)
