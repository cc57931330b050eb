"""A Model Context Protocol server: an assistant that writes attention can have it examined."""

from .protocol import serve
from .tools import TOOLS, call_tool

__all__ = ["TOOLS", "call_tool", "serve"]
