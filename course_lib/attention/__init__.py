"""Reference implementations of attention, one idea a file, in the order of the lessons.

Nothing here imports anything of the course but this folder: copy the folder, and it works with torch alone.
"""

from .core import attend, attend_fused
from .grouped_query import GroupedQueryAttention
from .kv_cache import KVCache
from .llama import LlamaAttention
from .masks import causal_keep, padding_keep, to_torch_mask
from .multi_query import MultiQueryAttention
from .rotary import apply_rotary, rotary_table
from .single_head import SingleHeadAttention
from .weight_split import MultiHeadAttention
from .wrapper import MultiHeadAttentionWrapper

__all__ = [
    "GroupedQueryAttention",
    "KVCache",
    "LlamaAttention",
    "MultiHeadAttention",
    "MultiHeadAttentionWrapper",
    "MultiQueryAttention",
    "SingleHeadAttention",
    "apply_rotary",
    "attend",
    "attend_fused",
    "causal_keep",
    "padding_keep",
    "rotary_table",
    "to_torch_mask",
]
