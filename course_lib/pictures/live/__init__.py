"""Figures that move, each with a picture and its words for where no script runs."""

from .decode import decode
from .devices import devices
from .drag_the_query import drag_the_query
from .figure import Figure
from .own_words import own_words
from .paste_your_split import paste_your_split
from .roofline import roofline
from .share_keys_and_values import share_keys_and_values
from .tiles import tiles
from .turn import turn
from .who_may_look import who_may_look
from .why_transpose import why_transpose

__all__ = [
    "Figure",
    "decode",
    "devices",
    "drag_the_query",
    "own_words",
    "paste_your_split",
    "roofline",
    "share_keys_and_values",
    "tiles",
    "turn",
    "who_may_look",
    "why_transpose",
]
