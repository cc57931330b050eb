"""Trace a run of PyTorch code: its tensors, frames, source lines and operations, and the provenance of elements."""

from . import torch_private
from .contraction import FACTORS, Contraction, contractions, outer_products, product_of
from .fused import SingleOperations, unfused
from .gradients import without_gradients
from .graph import ModuleCall, Operation, Trace, Value
from .modes import DispatchWatch, FunctionWatch, WithoutDropout
from .provenance import LAYOUT, REDUCTIONS, UNLABELLED, VIEWS, WRITES, propagate
from .randomness import draws, drops_out
from .replay import Change, replay
from .source import Source, end_of, read_source, source_of, text_of
from .source_line import SourceLine, error_message, is_foreign, is_refused, last_line, set_in_script
from .statement import Statement, call_at, enclosing_comprehension, line_at, statement_of
from .tensors import Layout, layout_of, map_instances, shape_stride_offset, tensors_in
from .torch_private import operation_name, storage_of
from .tracer import code_frames, trace_run

__all__ = [
    "FACTORS", "LAYOUT", "REDUCTIONS", "UNLABELLED", "VIEWS", "WRITES", "Change", "Contraction", "DispatchWatch",
    "FunctionWatch", "Layout", "ModuleCall", "Operation", "SingleOperations", "Source", "SourceLine", "Statement",
    "Trace", "Value", "WithoutDropout", "call_at", "code_frames", "contractions", "draws", "drops_out",
    "enclosing_comprehension", "end_of", "error_message", "is_foreign", "is_refused", "last_line", "layout_of",
    "line_at", "map_instances", "operation_name", "outer_products", "product_of", "propagate", "read_source", "replay",
    "set_in_script", "shape_stride_offset", "source_of", "statement_of", "storage_of", "tensors_in", "text_of",
    "torch_private", "trace_run", "unfused", "without_gradients",
]  # fmt: skip
