"""What `course doctor` is pointed at: found, imported, built and measured, with a sentence for all that can fail."""

from .building import build, evaluate
from .importing import load
from .naming import Target, split
from .width import width_of

__all__ = ["Target", "build", "evaluate", "load", "split", "width_of"]
