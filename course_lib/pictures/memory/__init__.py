"""Pictures of memory: the order in which tensors read their slots, and the view that scrambles heads."""

from .row import memory_row
from .wrong_view import wrong_view

__all__ = ["memory_row", "wrong_view"]
