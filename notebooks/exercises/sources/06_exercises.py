# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: shared keys and values
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/06_exercises.ipynb)
#
# You will write multi-query and grouped-query attention as classes, hand shared heads out, turn trained matrices into
# shared ones, and let a new token use a cache. The class at the end begins with an empty cell.
#
# **You need** [lesson 06](../06_multi_query.ipynb). **It takes** about 75 minutes.
#
# Any right way passes, with loops, lists or NumPy on the way, unless a task speaks of gradients. What has a shape is
# returned as a tensor, of the dtype of the inputs. A check comes with float64 and with float32, with axes of size 1 and
# with long ones, and with scores of thousands.

# %% tags=["setup"]
# @title Setup: installs the course where it is missing; elsewhere it does nothing
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("course_lib") is None:
    address = "git+https://github.com/attention-course/attention-course@main"
    install = [sys.executable, "-m", "pip", "install", "-q"]
    if subprocess.run([*install, "attention-course[models] @ " + address]).returncode:
        raise RuntimeError(
            "The course could not be installed: "
            "switch the internet on and run this cell again."
        )

# %%
import torch
from torch import nn

from course_lib.exercises import check, progress, review

# %% [markdown]
# ## Before you begin: three questions from earlier lessons
#
# Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others.

# %%
review("06")

# %%
review("06", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. Multi-query attention as a module
#
# Difficulty 3 of 5, about 10 minutes.
#
# The whole module, causal. `d_out` is the width over all query heads and a multiple of `num_heads`; there is one head
# of keys and one of values, each `d_out // num_heads` wide. Call the projections `q_proj`, `k_proj`, `v_proj` and
# `out_proj`, without bias.

# %% nbgrader={"grade": false, "grade_id": "MultiQuery", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MultiQuery(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        raise NotImplementedError  # your code goes here

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_MultiQuery", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("MultiQuery", MultiQuery)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is `MultiHead` from the exercises of lesson 05 with a `k_proj` and a `v_proj` that are one head wide.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Only the queries are split into heads. Keys and values get an axis of one head: `self.k_proj(x)[:, None]`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scores are (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k). Mask, softmax, merge and `out_proj` are as ever.
#
# </details>

# %% [markdown]
# ## 2. Hand the shared heads out
#
# Difficulty 2 of 5, about 7 minutes.
#
# Give every query head the keys that it reads, so that plain multi-head attention can go on from there. Consecutive
# heads share one, as in the lesson.

# %% nbgrader={"grade": false, "grade_id": "share_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def share_heads(keys, num_heads):
    # (batch, kv head, token, head_dim), int -> (batch, head, token, head_dim)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_share_heads", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("share_heads", share_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Query head i gets kv head i // (num_heads // num_kv_heads). One way: pick `keys[:, kv_head]` for each query head and
# put them together with `torch.stack(..., dim=1)`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two functions of PyTorch repeat along an axis. For heads 0, 1 and twice as many query heads, `keys.repeat(1, 2, 1, 1)`
# gives 0, 1, 0, 1, and `keys.repeat_interleave(2, dim=1)` gives 0, 0, 1, 1.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `keys.repeat_interleave(num_heads // num_kv_heads, dim=1)`, where `num_kv_heads` is `keys.shape[1]`. (It copies.
# Exercise 6 does without the copy.)
#
# </details>

# %% [markdown]
# ## 3. From many heads to a few
#
# Difficulty 3 of 5, about 8 minutes.
#
# `weight` is `k_proj.weight` or `v_proj.weight` of multi-head attention; head i is its i-th block of `head_dim` rows.
# Make the matrix of grouped-query attention from it: consecutive heads form a group, there are `num_kv_heads` groups,
# and the matrix of a group is the mean of the matrices of its heads.

# %% nbgrader={"grade": false, "grade_id": "pool_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pool_heads(weight, num_heads, num_kv_heads):
    # (num_heads * head_dim, d_in) -> (num_kv_heads * head_dim, d_in)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_pool_heads", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("pool_heads", pool_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `head_dim` is the number of rows divided by `num_heads`; a group has `num_heads // num_kv_heads` heads.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Split the rows by a `view` into group, head within the group, and row within the head. Which of these three axes is
# averaged?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `weight.view(num_kv_heads, heads_per_group, head_dim, d_in).mean(dim=1)`; then join the first two axes.
#
# </details>

# %% [markdown]
# ## 4. Grouped-query attention with gaps
#
# Difficulty 2 of 5, about 7 minutes.
#
# Multi-head attention becomes grouped-query attention in four places: the widths of two projections, the number of
# heads that they are split into, and one line that gives each query head its kv head. Seven gaps, each written `...`:
# fill them in. The next exercise asks for all of it.

# %% nbgrader={"grade": false, "grade_id": "GroupedQueryWithGaps", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GroupedQueryWithGaps(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, ..., bias=False)
        self.v_proj = nn.Linear(d_in, ..., bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        queries = self.q_proj(x).view(*x.shape[:2], self.num_heads, self.head_dim)
        keys = self.k_proj(x).view(*x.shape[:2], ..., self.head_dim)
        values = self.v_proj(x).view(*x.shape[:2], ..., self.head_dim)
        queries, keys, values = (one.transpose(1, 2) for one in (queries, keys, values))
        group = ...  # query heads per kv head
        keys = ...  # (b, kv_head, t, d) -> (b, head, t, d)
        values = ...
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        context = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))

# %% nbgrader={"grade": true, "grade_id": "check_GroupedQueryWithGaps", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("GroupedQueryWithGaps", GroupedQueryWithGaps)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Keys and values have num_kv_heads heads, and each of them is head_dim wide.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `group` query heads share one kv head: how many times is each kv head needed?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `repeat_interleave(group, dim=1)` repeats each head in its place: 0, 0, 1, 1.
#
# </details>

# %% [markdown]
# ## 5. Grouped-query attention as a module
#
# Difficulty 4 of 5, about 15 minutes.
#
# The whole module, causal, from an empty class. `d_out` is the width over all query heads. There are `num_kv_heads`
# heads of keys and of values, each d_out // num_heads wide, and consecutive query heads share one. Call the projections
# `q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias. `share_heads` of exercise 2 may help; it copies keys and
# values, which exercise 6 avoids. No peeking at the gaps above.

# %% nbgrader={"grade": false, "grade_id": "GroupedQuery", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GroupedQuery(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        raise NotImplementedError  # your code goes here

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_GroupedQuery", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("GroupedQuery", GroupedQuery)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is `MultiHead` from the exercises of lesson 05 with narrower `k_proj` and `v_proj`: num_kv_heads * head_dim.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Keys and values are cut into num_kv_heads heads, queries into num_heads; all heads are head_dim wide.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Before the scores, `share_heads` brings keys and values to num_heads.
#
# </details>

# %% [markdown]
# ## 6. One new token and a cache
#
# Difficulty 3 of 5, about 10 minutes.
#
# One new token comes in, for each sample of a batch. `queries` is (batch, head, 1, head_dim); its `key` and `value` are
# (batch, kv head, 1, head_dim); the cache holds those of all tokens before it, `cached_keys` and `cached_values`,
# (batch, kv head, past, head_dim). There may be fewer kv heads than heads; consecutive heads then share one. Return a
# tuple of three: the context of the new token, (batch, head, 1, head_dim), and the grown caches of keys and values,
# (batch, kv head, past + 1, head_dim), with the new token last. The cached tensors themselves must not be changed.

# %% nbgrader={"grade": false, "grade_id": "decode_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def decode_step(queries, key, value, cached_keys, cached_values):
    # -> (b, h, 1, d), two of (b, g, past + 1, d)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_decode_step", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("decode_step", decode_step)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# First grow both caches, then let the new query attend to all of it. A token may attend to itself, too.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `torch.cat([cached_keys, key], dim=2)` joins them along the tokens. No mask is needed: nothing is later.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `share_heads` copies keys and values for each query head: right numbers, at a price that the lesson measures. Without
# a copy, one `reshape` makes the heads that share a kv head its queries, (batch, kv head, heads per kv head, head_dim);
# at the end go back to the shape of `queries`.
#
# </details>

# %% [markdown]
# ## 7. From memory, 20 minutes: attention with a cache
#
# Difficulty 5 of 5, about 20 minutes.
#
# An empty cell, and nothing to look up. Write the class `CachedAttention(d_in, d_out, num_heads)`, causal multi-head
# attention as an `nn.Module` with `forward(x, cache=None) -> (output, cache)`. `x` is (batch, token, d_in) and `output`
# (batch, token, d_out); an output projection, (d_out, d_out), mixes the heads. Queries, keys and values are each a
# projection of `x` itself, without a layer in front of all three. A text comes in pieces of one token or more: the
# first call has no cache, and each later call gets the cache that the call before returned. All pieces together must
# give what one pass over the whole text gives: a token attends to everything before it, in this piece and in earlier
# ones. What the cache looks like is up to you. Everything must be in it, because the check runs two texts in turn on
# the same module. Any names and any layout of the weights pass; biases may be there or not.

# %% nbgrader={"grade": false, "grade_id": "CachedAttention", "locked": false, "schema_version": 3, "solution": true, "task": false}
class CachedAttention(nn.Module): ...

# %% nbgrader={"grade": true, "grade_id": "check_CachedAttention", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
check("CachedAttention", CachedAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What does a new token need from the old ones? Their keys and values. Are their queries ever needed again?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Project the new tokens only, and split them into heads. If there is a cache, join along the tokens:
# `torch.cat([cache[0], keys], dim=2)`. Return `(keys, values)` as the new cache.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The mask has a row per new token and a column per token so far. The last row is the last token: `torch.ones(num_new,
# num_keys, dtype=torch.bool, device=x.device).tril(num_keys - num_new)`.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? Then try to find mistakes in the code of others: [the exercises on debugging](12_exercises.ipynb).

# %%
progress()
