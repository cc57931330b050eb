"""An error in a learner's code, as one sentence, the shapes behind it and one question."""

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .axes import named_shape
from .error_leads import DTYPE, LEADS
from .shape_leads import SHAPES

CALL = r"takes \d+ positional|takes from \d+ to \d+ positional|missing \d+ required positional"


class TensorOnLine(NamedTuple):
    """A tensor that the line uses on which the code stopped, and the line of its function that assigned it, or 0."""

    name: str
    shape: tuple[int, ...]
    assigned: int
    is_global: bool


class LearnerError(Exception):
    """A learner's code raised an error.

    Args:
        report: What `answering.describe_error` returned.
        where: The source line as the learner knows it, such as "cell:3".

    Attributes:
        sentence: One sentence with the source line, the type of the error and its text.
        source: The text of the source line, or "".
        where: As above; None if the error passed through no code of the learner.
        unwritten: The name of the function that is still a stub, or None.
        made: The parameters that a function or a module's forward made before it stopped, such as "Linear (24, 24)".
    """

    def __init__(self, report: Mapping[str, Any], where: str | None = None) -> None:
        self.kind, self.text = str(report.get("kind", "an error")), str(report.get("message", ""))
        super().__init__(self.text)
        self.where, self.unwritten = where, report.get("unwritten") or None
        self.made: list[str] = list(report.get("made") or ())
        self.tensors = [TensorOnLine(name, tuple(shape), *rest) for name, shape, *rest in report.get("tensors", ())]
        self.source, function = str(report.get("text", ""))[:100], report.get("function", "")
        place = (f" in `{function}`" if function and function[0] != "<" else "") + (
            f" at `{self.source}`" if self.source else ""
        )
        reason = self.text[:240].rstrip(".:, ") or "no reason was given"
        self.sentence = f"Your code stopped{place} with {self.kind}: {reason}."

    @property
    def is_of_call(self) -> bool:
        """Whether the call itself failed, because the function takes another number of arguments."""
        return not self.source and self.kind == "TypeError" and bool(re.search(CALL, self.text))

    @property
    def is_of_gap(self) -> bool:
        """Whether a gap, `...`, stopped the code: it stands on the line, or the error is about its type."""
        return _holds_gap(self.source) or type(...).__name__ in self.text

    def explain(
        self, axes: Mapping[int, str], arguments: Mapping[Any, str] | None = None
    ) -> tuple[tuple[str, ...], str | None]:
        """Explain the error by the shapes of the tensors on the line.

        Args:
            axes: Size -> the name of the axis that has it, such as {5: "query"}.
            arguments: Name or shape of an argument -> the names of its axes, such as {"keys": "key head_dim"}.

        Returns:
            Sentences of evidence, and a question or None.
        """
        lead = next((lead for lead in LEADS if lead.fits(f"{self.kind}: {self.text}", self.source)), None)
        shapes = []
        for name, shape, assigned, _ in self.tensors:
            line = f" (from line {assigned})" if assigned else ""
            known = arguments or {}  # an argument may bear another name here
            own = (known.get(name, known.get(shape, "")) if not assigned else "").split()
            named = f"{shape} = ({', '.join(own)})" if len(own) == len(shape) > 1 else named_shape(shape, axes)
            shapes.append(f"`{name}`{line} is {named}")
        listed = (f"At this line {'; '.join(shapes)}.",) if shapes else ()
        if lead is DTYPE and self.made:
            meaning = f"Here a new layer is made, `{self.made[0]}`: it has random weights of its own, in float32."
            return (*listed, meaning), "Which weights should multiply here?"
        if lead is None:
            return listed, "What does each name on this line hold? Print its type and its shape one line above."
        if lead in SHAPES and (kept := [one.name for one in self.tensors if one.assigned and one.is_global]):
            meaning = f"`{kept[0]}` is a global name, which keeps its value from one call to the next."
            return (*listed, meaning), f"Does `{kept[0]}` get its value in each call, or in the first one alone?"
        crossed = [one for one in self.tensors if heads_after_tokens(one.shape, axes)]
        if crossed and lead in SHAPES:
            names = " and ".join(f"`{one.name}`" for one in crossed[:3])
            meaning = f"In {names} the heads stand behind the tokens, so that a product multiplies heads with heads."
            return (*listed, meaning), "Which axis has to stand beside the batch, and what brings it there?"
        transposed = re.findall(r"(\w+)\.T\b", self.source)
        if lead in SHAPES and any(one.name in transposed and len(one.shape) > 2 for one in self.tensors):
            return (
                *listed,
                "`.T` reverses the order of all axes.",
            ), "Which two axes should be exchanged, and only those?"
        if lead in SHAPES and _uses_stacked(self.source):
            meaning = "`torch.stack` makes a new axis."
            return (*listed, meaning), "Should the result have one axis more, or should one axis become longer?"
        return (*listed, lead.meaning), lead.question


def _uses_stacked(source: str) -> bool:
    """Return whether a line works on what `stack` returns; what fails among its arguments fails before."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except SyntaxError:  # the line goes on in the next
        return "stack(" in source

    def within(node: ast.AST) -> bool:
        return any("stack" in (getattr(one.func, "attr", ""), getattr(one.func, "id", "")) for one in _calls(node))

    operations = [node for node in nodes if isinstance(node, ast.BinOp)]
    return any(map(within, operations)) or (not operations and any(map(within, nodes)))


def _holds_gap(source: str) -> bool:
    """Return whether `...` stands on a line as a value of its own; among other indices it may be meant."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except SyntaxError:  # the line goes on in the next
        return False
    meant = [one for node in nodes if isinstance(node, ast.Subscript | ast.List) for one in ast.walk(node)]
    return any(isinstance(one, ast.Constant) and one.value is ... and one not in meant for one in nodes)


def _calls(node: ast.AST) -> list[ast.Call]:
    return [one for one in ast.walk(node) if isinstance(one, ast.Call)]


def heads_after_tokens(shape: tuple[int, ...], axes: Mapping[int, str]) -> bool:
    """Return whether a shape is (batch, token, head, ...), in which heads and tokens have not been exchanged."""
    names = [axes.get(size, "") for size in shape]
    return len(shape) == 4 and names[1] in ("token", "query", "key") and "head" in names[2] and "dim" not in names[2]
