"""A published model of Llama's form, with an attention of your own in each of its layers."""

from .checkpoint import Checkpoint, Comparison
from .load import load_checkpoint

__all__ = ["Checkpoint", "Comparison", "load_checkpoint"]
