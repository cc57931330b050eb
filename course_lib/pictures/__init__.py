"""Pictures drawn from tensors and from recorded runs, each with the same content in words."""

from .heatmaps import head_heatmaps, heatmap
from .layout import layout_steps
from .memory import memory_row
from .memory_wrong_view import wrong_view
from .picture import Picture

__all__ = ["Picture", "head_heatmaps", "heatmap", "layout_steps", "memory_row", "wrong_view"]
