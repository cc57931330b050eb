"""The groups of cases, one file per topic, in the order in which they are measured and printed."""

from tools.performance.experiment import Group

from .cache import with_a_cache
from .forms import multi_head_forms
from .growth import growth_with_heads, growth_with_tokens
from .llama import llama_forms
from .multi_query import multi_query_modules
from .prefill_decode import decode, prefill
from .recorder import recording

GROUPS = (
    Group("forms", "wrapper, weight split, PyTorch's own module: the same weights in each", multi_head_forms),
    Group("llama", "Llama's attention, the course's and that of transformers", llama_forms),
    Group("multi-query", "multi-query attention as modules, at the size of source 2", multi_query_modules),
    Group("mqa-prefill", "ways to share one head of keys and values: many queries", prefill),
    Group("mqa-decode", "ways to share one head of keys and values: one query, a long cache", decode),
    Group("cache", "one decoding step of a module with its cache: MHA, GQA, MQA", with_a_cache),
    Group("growth-tokens", "time and memory as the number of tokens grows", growth_with_tokens),
    Group("growth-heads", "time and memory as the number of heads grows", growth_with_heads),
    Group("recorder", "what it costs to watch a forward pass", recording),
)

__all__ = ["GROUPS"]
