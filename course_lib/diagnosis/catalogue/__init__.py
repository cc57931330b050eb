"""The mistakes that are known by name."""

from .heads import HEADS
from .masks import MASKS
from .mistake import Mistake
from .outputs import OUTPUTS
from .running import RUNNING
from .scores import SCORES

CATALOGUE: dict[str, Mistake] = {mistake.id: mistake for mistake in (*MASKS, *SCORES, *HEADS, *OUTPUTS, *RUNNING)}

__all__ = ["CATALOGUE", "Mistake"]
