"""The family that the pictures of sharing are tested on."""

import torch

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention


def forms(num_heads=4, num_kv_heads=2, **options):
    torch.manual_seed(2)
    width = 2 * num_heads
    return {
        "multi-head": MultiHeadAttention(3, width, num_heads, **options),
        "grouped-query": GroupedQueryAttention(3, width, num_heads, num_kv_heads, **options),
        "multi-query": MultiQueryAttention(3, width, num_heads, **options),
    }
