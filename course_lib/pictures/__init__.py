"""Pictures drawn from tensors, modules and recorded runs, each with the same content in words."""

from .attention_in_heads import attention_in_heads, heads_of
from .caching import cache
from .comparison import compare
from .devices import devices
from .heatmaps import head_heatmaps, heatmap
from .layout import layout_steps
from .mask_conventions import mask_conventions
from .memory import memory_row, wrong_view
from .picture import Picture
from .plots import bars, counts, lines
from .products import matrix_product, three_projections
from .rotary import rotary
from .sharing import family

__all__ = [
    "Picture",
    "attention_in_heads",
    "bars",
    "cache",
    "compare",
    "counts",
    "devices",
    "family",
    "head_heatmaps",
    "heads_of",
    "heatmap",
    "layout_steps",
    "lines",
    "mask_conventions",
    "matrix_product",
    "memory_row",
    "rotary",
    "three_projections",
    "wrong_view",
]
