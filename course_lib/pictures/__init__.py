"""Pictures drawn from tensors, modules and recorded runs, each with the same content in words."""

from .annotated_code import draw_annotated_code
from .charts.bar_chart import bar_chart, count_chart
from .charts.dot_table import dot_table
from .charts.line_plot import line_plot
from .charts.roofline import roofline
from .dark import in_the_dark as in_the_dark
from .dark import with_dark_colors as with_dark_colors
from .layout.steps import layout_steps
from .listing import draw_listing
from .memory.levels import draw_memories
from .memory.memory_row import memory_row
from .memory.wrong_view import draw_wrong_view
from .picture import Picture, Scene
from .sharing.devices import draw_devices
from .sharing.kv_cache import draw_kv_cache
from .sharing.kv_sharing import draw_kv_sharing
from .sharing.latent import draw_latent
from .sharing.pages import draw_pages
from .style import MONO as MONO
from .style import PALETTE
from .style import SANS as SANS
from .style import SHADES as SHADES
from .style import head_color as head_color
from .style import weight_color as weight_color
from .tensors.heads import draw_attention, draw_heads
from .tensors.matrix_product import draw_matrix_product
from .tensors.projections import draw_projections
from .tensors.rotary import draw_rotary
from .tensors.vectors import draw_vectors
from .text import number_text as number_text
from .weights.attended_words import draw_attended_words
from .weights.comparison import compare
from .weights.heatmap import head_heatmaps, heatmap
from .weights.masks import mask_conventions
from .weights.patch import draw_patch
from .weights.tiles import draw_tiles

__all__ = [
    "PALETTE", "Picture", "Scene", "bar_chart", "compare", "count_chart", "dot_table", "draw_annotated_code",
    "draw_attended_words", "draw_attention", "draw_devices", "draw_heads", "draw_kv_cache", "draw_kv_sharing",
    "draw_latent", "draw_listing", "draw_matrix_product", "draw_memories", "draw_pages", "draw_patch",
    "draw_projections", "draw_rotary", "draw_tiles", "draw_vectors", "draw_wrong_view", "head_heatmaps", "heatmap",
    "layout_steps", "line_plot", "mask_conventions", "memory_row", "roofline",
]  # fmt: skip
