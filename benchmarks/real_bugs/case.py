"""A published bug: where its code is before and after the fix, on which path it shows, how the code is built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from .sources import Source


class Built(NamedTuple):
    """What is measured of one side of a pair.

    Attributes:
        module: the module, or a function of x; its parameters are filled by their names, the same on both sides.
        x: (batch, token, width).
        options: the arguments of `diagnose`; `call` takes the path on which the bug shows.
        plain: (module, x) -> output on the path that a user's test takes first; the path itself if None.
        other: (module, x) -> output of the other form of the same computation (unfused for fused); None if it has none.
        torchcode: maps a task of TorchCode to the code in the form which that task asks for.
        scan: (model, x, options) for `course_lib.scan.scan`; None where the paths of a whole model are not the matter.
    """

    module: Callable[..., Any]
    x: Tensor
    options: Mapping[str, Any] = {}
    plain: Callable[[Any, Tensor], Tensor] | None = None
    other: Callable[[Any, Tensor], Tensor] | None = None
    torchcode: Mapping[str, Any] = {}
    scan: tuple[Any, Tensor, Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Unmeasured:
    """A published bug that is named and not measured.

    Attributes:
        id, title, link, mistake: as those of a Case.
        why: what keeps it from being measured.
    """

    id: str
    title: str
    link: str
    mistake: str
    why: str


@dataclass(frozen=True)
class Case:
    """One bug.

    Attributes:
        id: short name, unique.
        title: what is wrong, as a sentence.
        before, after: the code with the bug and with its fix.
        link: the issue, the pull request or the commit of the fix.
        mistake: id in the doctor's catalogue, or words for what the catalogue has no entry for.
        also: other ids that say the same of this code.
        blame: file and lines of `before` that are to blame, such as "timm/models/eva.py:137" or "...:137-139".
        path: on which way through the code the bug shows.
        build: (import_module) -> Built.
    """

    id: str
    title: str
    before: Source
    after: Source
    link: str
    mistake: str
    blame: str
    path: str
    build: Callable[[Callable[[str], Any]], Built] = field(repr=False)
    also: tuple[str, ...] = ()

    @property
    def accepted(self) -> set[str]:
        """The ids that name the bug; empty where the catalogue has none."""
        return {name for name in (self.mistake, *self.also) if " " not in name}

    @property
    def blamed(self) -> tuple[str, range]:
        """The file and the lines that are to blame."""
        file, _, lines = self.blame.rpartition(":")
        first, _, last = lines.partition("-")
        return file, range(int(first), int(last or first) + 1)
