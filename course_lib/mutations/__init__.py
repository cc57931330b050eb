"""Right attention, and what can go wrong in it: as steps that are computed, and as edits of source code."""

from .edits import ARROW, edited
from .inject import Injected, built, inject
from .known import find_mistake, known_mistakes
from .mutation_testing import Outcome, Planted, plantings, survival
from .operators import MADE, Mutation, mutations
from .slips import Slip, slips
from .source import Edit, Source, run_source
from .steps import RIGHT, Attention, Projections
from .watched import Watched
from .wrong_heads import EQUAL_HEADS, MERGES, OUTPUT, SHARED, SPLITS, VALUES
from .wrong_steps import MASKS, ROLES, SCALES, SOFTMAX, TWICE_UNDER_MASKS, WrongSteps

WRONG_STEPS = (
    *SCALES,
    *ROLES,
    *SOFTMAX,
    *TWICE_UNDER_MASKS,
    *MASKS,
    *SPLITS,
    *MERGES,
    *EQUAL_HEADS,
    *SHARED,
    *OUTPUT,
    *VALUES,
)

__all__ = [
    "ARROW", "MADE", "RIGHT", "WRONG_STEPS", "Attention", "Edit", "Injected", "Mutation", "Outcome", "Planted",
    "Projections", "Slip", "Source", "Watched", "WrongSteps", "built", "edited", "find_mistake", "inject",
    "known_mistakes", "mutations", "plantings", "run_source", "slips", "survival",
]  # fmt: skip
