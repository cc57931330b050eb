"""Watches a real forward pass: what was computed on which line, moved, copied, or never used."""

from .recorder import name, record
from .recording import Recording
from .step import Step
from .underneath import Underneath

__all__ = ["Recording", "Step", "Underneath", "name", "record"]
