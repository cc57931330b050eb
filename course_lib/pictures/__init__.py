"""Pictures drawn from tensors, each with the same content in words."""

from .heatmaps import head_heatmaps, heatmap
from .picture import Picture

__all__ = ["Picture", "head_heatmaps", "heatmap"]
