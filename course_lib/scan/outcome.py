"""The outcome of a path: whether it agrees with the plain pass, and whether it leaks hidden tokens."""

from dataclasses import dataclass
from typing import Any, Literal

from course_lib.diagnosis import Finding

from .compare import Submodule

Status = Literal["agrees", "wrong", "not run", "not examined", "remark"]


@dataclass(frozen=True)
class Outcome:
    """The result of one path of one model.

    Attributes:
        path: its name, such as "token by token".
        status: "agrees"; "wrong"; "not run", because the model does not offer the path; "not examined", because it
            raised or could not be looked into; or "remark", a difference that the model may be meant to have.
        detail: what was measured, or why nothing was, as a clause.
        mistake: id in the catalogue; "" for what has none.
        submodule: the first module whose output differs, if it is known.
        finding: what the doctor found; None for what the path itself shows.
        not_judged: whether the scale of some scores was not judged.
        deviation: the largest difference from the plain output, in its standard deviations; None if not compared.
    """

    path: str
    status: Status
    detail: str
    mistake: str = ""
    submodule: Submodule | None = None
    deviation: float | None = None
    finding: Finding | None = None
    not_judged: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        submodule = self.submodule
        return {
            "path": self.path,
            "status": self.status,
            "said": self.detail,
            "mistake": self.mistake,
            "module": submodule.module if submodule else None,
            "class": submodule.kind if submodule else None,
            "where": submodule.where if submodule else None,
            "apart": self.deviation,
        }
