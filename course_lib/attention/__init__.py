"""Reference implementations of attention, one idea per file, in the order of the lessons.

The folder imports nothing else of the course, so a copy of it works with torch alone.
"""

from .block_pool import BlockPool
from .checks import check_at_least, check_divisible, check_positive
from .core import attend, attend_fused
from .grouped_query import GroupedQueryAttention
from .kv_cache import KVCache
from .latent import LatentAttention
from .llama import LlamaAttention
from .masks import causal_keep, padding_keep, to_torch_mask
from .multi_query import MultiQueryAttention
from .packed import packed_keep, packed_positions
from .paged_cache import PagedKVCache, gather_paged
from .rolling_cache import RollingKVCache
from .rotary import apply_rotary, rotary_table
from .selection import index_scores, select_keep
from .single_head import SingleHeadAttention
from .sinks import softmax_with_sink
from .soft_cap import soft_cap
from .weight_split import MultiHeadAttention
from .windows import window_keep
from .wrapper import MultiHeadAttentionWrapper

__all__ = [
    "BlockPool",
    "GroupedQueryAttention",
    "KVCache",
    "LatentAttention",
    "LlamaAttention",
    "MultiHeadAttention",
    "MultiHeadAttentionWrapper",
    "MultiQueryAttention",
    "PagedKVCache",
    "RollingKVCache",
    "SingleHeadAttention",
    "apply_rotary",
    "attend",
    "attend_fused",
    "causal_keep",
    "check_at_least",
    "check_divisible",
    "check_positive",
    "gather_paged",
    "index_scores",
    "packed_keep",
    "packed_positions",
    "padding_keep",
    "rotary_table",
    "select_keep",
    "soft_cap",
    "softmax_with_sink",
    "to_torch_mask",
    "window_keep",
]
