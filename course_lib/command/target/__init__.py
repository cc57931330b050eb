"""Find, import and build what `course doctor` examines, with one sentence for each error."""

from .building import Heads, evaluate
from .call_guesses import guess_call, part_to_take
from .opening import Opened, load, open_target
from .repository import repository_of
from .setup_file import open_setup
from .target import Target, split
from .width import ANY, runs, shape_with_width_first, why_not, width_of

__all__ = [
    "ANY", "Heads", "Opened", "Target", "evaluate", "guess_call", "load", "open_setup", "open_target", "part_to_take",
    "repository_of", "runs", "shape_with_width_first", "split", "why_not", "width_of",
]  # fmt: skip
