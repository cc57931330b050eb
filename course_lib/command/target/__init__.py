"""Find, import and build what `course doctor` examines, with one sentence for each error."""

from .building import build, evaluate
from .importing import Target, load, split
from .width import width_of

__all__ = ["Target", "build", "evaluate", "load", "split", "width_of"]
