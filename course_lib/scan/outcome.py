"""What became of one path: whether it agrees with the plain pass, and what it shows of tokens that it must not show."""

from dataclasses import dataclass
from typing import Any, Literal

from course_lib.diagnosis import Finding

from .compare import Place

Status = Literal["agrees", "wrong", "not run", "not examined", "remark"]


@dataclass(frozen=True)
class Outcome:
    """The result of one path of one model.

    Attributes:
        path: its name, such as "token by token".
        status: "agrees"; "wrong"; "not run", because the model does not offer the path; "not examined", because it
            raised or could not be looked into; or "remark", a difference that the model may be meant to have.
        said: what was measured, or why nothing was, as a clause.
        mistake: id in the catalogue; "" for what has none.
        place: the first module whose output differs, if it is known.
        finding: what the doctor found; None for what the path itself shows.
        not_judged: whether the scale of some scores was not judged.
        apart: the largest difference from the plain pass, in standard deviations of its output; None if not compared.
    """

    path: str
    status: Status
    said: str
    mistake: str = ""
    place: Place | None = None
    apart: float | None = None
    finding: Finding | None = None
    not_judged: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        place = self.place
        return {
            "path": self.path,
            "status": self.status,
            "said": self.said,
            "mistake": self.mistake,
            "module": place.module if place else None,
            "class": place.kind if place else None,
            "where": place.where if place else None,
            "apart": self.apart,
        }
