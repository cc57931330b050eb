"""A verdict with a picture of what the answer did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .follow_up import ExtendedVerdict
from .verdict import Verdict

if TYPE_CHECKING:
    from course_lib.pictures import Picture


@dataclass(frozen=True, repr=False)
class IllustratedVerdict(ExtendedVerdict):
    """A verdict that a notebook shows above a picture, and a terminal above the picture's words."""

    picture: Picture = field(kw_only=True, compare=False)

    def __repr__(self) -> str:
        return f"{super().__repr__()}\n{self.picture!r}"

    def _repr_html_(self) -> str:
        return super()._repr_html_() + self.picture._repr_html_()


def illustrated(verdict: Verdict, picture: Picture | None) -> Verdict:
    """Add a picture to a verdict, if there is one."""
    if picture is None:
        return verdict
    fields = {name: getattr(verdict, name) for name in Verdict.__dataclass_fields__}
    return IllustratedVerdict(**fields, all_details=tuple(verdict.details()), picture=picture)
