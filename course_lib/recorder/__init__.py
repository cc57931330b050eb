"""Record what a forward pass computed, copied or never used, and on which source line."""

from .aten_ops import AtenOp
from .effects import COPIES, TO_TYPE
from .recorder import name, record
from .recording import Recording
from .step import Step

__all__ = ["COPIES", "TO_TYPE", "AtenOp", "Recording", "Step", "name", "record"]
