"""A learner's code is run on copies, and what stops it is told in one sentence."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.diagnosis.lines import last_line

# Neither the course's lines nor PyTorch's are the learner's.
FOREIGN = (str(Path(__file__).resolve().parents[1]), str(Path(torch.__file__).resolve().parent))


class Stopped(Exception):
    """A learner's code raised.

    Attributes:
        says: one sentence: the line, the kind of error, its words.
        remark: what may help, a sentence each.
        where: the line, or None.
        unwritten: whether it is a stub.
    """

    def __init__(
        self, kind: str, words: str, where: str | None = None, text: str = "", *, unwritten: bool = False
    ) -> None:
        super().__init__(words)
        self.unwritten, self.where = unwritten, where
        words = (words.strip().splitlines() or ["no reason was given"])[0][:160].rstrip(".")
        at = f" at `{text[:100]}`" if text else ""
        doubles = "The check's numbers are float64: make your own tensors with `dtype=x.dtype`, or from x."
        self.remark = (doubles,) if re.search(r"dtype|Double|double", words) else ()
        self.says = f"Your code stopped{at} with {kind}: {words}."

    @classmethod
    def by(cls, error: BaseException) -> Stopped:
        """What an error in this process says."""
        where = last_line(error, FOREIGN)
        unwritten = isinstance(error, NotImplementedError)
        return cls(type(error).__name__, str(error), where, getattr(where, "text", ""), unwritten=unwritten)


def copied(value: Any) -> Any:
    """A copy that may be changed without harm; what is no tensor, module or container is given as it is."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, nn.Module):
        return copy.deepcopy(value)
    if isinstance(value, (list, tuple)):
        return type(value)(copied(one) for one in value)
    return value


def same(one: Any, other: Any) -> bool:
    """Whether a value is still as it was."""
    if isinstance(one, Tensor):
        return one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, nn.Module):
        before, after = one.state_dict(), other.state_dict()
        return before.keys() == after.keys() and all(same(before[name], after[name]) for name in before)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one is other or bool(one == other)


def run(code: Callable[..., Any], *arguments: Any, seed: int = 0) -> Any:
    """Call a learner's code with a random stream of its own.

    Raises:
        Stopped: it raised.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            return code(*arguments)
        except Stopped:  # it ran elsewhere, and that is how it ended there
            raise
        except Exception as error:
            raise Stopped.by(error) from error
