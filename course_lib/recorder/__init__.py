"""Record what a forward pass computed, copied or never used, and on which source line."""

from .aten_ops import AtenOp
from .effects import COPIES as COPIES
from .effects import TO_TYPE as TO_TYPE
from .recorder import name, record
from .recording import Recording
from .step import Step

__all__ = ["AtenOp", "Recording", "Step", "name", "record"]
