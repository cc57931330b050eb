"""The picture of every reshape and transpose that a recorded run made."""

from .steps import layout_steps

__all__ = ["layout_steps"]
