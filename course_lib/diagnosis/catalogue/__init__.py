"""The mistakes that are known by name."""

from .heads import HEADS
from .masks import MASKS
from .mistake import MEASURED, Mistake, Origin, Step, Symptom
from .outputs import OUTPUTS
from .paths import PATHS
from .positions import POSITIONS
from .running import RUNNING
from .scores import SCORES

FAMILIES = (MASKS, SCORES, HEADS, OUTPUTS, RUNNING, POSITIONS, PATHS)
CATALOGUE: dict[str, Mistake] = {mistake.id: mistake for family in FAMILIES for mistake in family}

__all__ = ["CATALOGUE", "MEASURED", "Mistake", "Origin", "Step", "Symptom"]
