"""Run a model along every path that it offers, such as cached, masked or fused, and hold the outputs side by side."""

from .configurations import NotBuilt, families, tiny_context, tiny_ids, tiny_model
from .path import Outcome
from .paths import ON_REQUEST, PATHS
from .report import ScanReport
from .scan import scan

__all__ = [
    "ON_REQUEST", "PATHS", "NotBuilt", "Outcome", "ScanReport", "families", "scan", "tiny_context", "tiny_ids",
    "tiny_model",
]  # fmt: skip
