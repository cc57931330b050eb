# %% [markdown]
# # Exercises: shared keys and values
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/solutions/06_exercises.ipynb)
#
# You will let all heads ask one set of keys and values, find out who shares with whom in groups, count what a cache
# costs, and write grouped-query attention.
#
# **You need** [lesson 06](../06_multi_query.ipynb). **It takes** about half an hour.

# %% tags=["setup"]
# @title Setup: installs the course where it is missing (Colab, Kaggle, a bare Jupyter); elsewhere it does nothing
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("course_lib") is None:
    course = "attention-course[models] @ git+https://github.com/attention-course/attention-course@main"
    if subprocess.run([sys.executable, "-m", "pip", "install", "-q", course]).returncode:
        raise RuntimeError("The course could not be installed: switch the internet on and run this cell again.")

# %%
import torch
from torch import nn

from course_lib.exercises import check, progress

# %% [markdown]
# ## 1. All heads ask one set of keys
#
# Difficulty 2 of 5, about 6 minutes.
#
# Queries have heads, keys and values have none. No mask.

# %% nbgrader={"grade": false, "grade_id": "multi_query", "locked": false, "schema_version": 3, "solution": true, "task": false}
def multi_query(queries, keys, values):  # (batch, head, query, head_dim), 2 x (batch, key, head_dim) -> (b, h, q, d)
    ### BEGIN SOLUTION
    scaled = queries * queries.shape[-1] ** -0.5
    weights = (scaled @ keys[:, None].transpose(2, 3)).softmax(dim=-1)  # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
    return weights @ values[:, None]  # (b, h, q, k) @ (b, 1, k, d) -> (b, h, q, d)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_multi_query", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("multi_query", multi_query).passed
### END HIDDEN TESTS
check("multi_query", multi_query)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Keys and values come without an axis of heads. Give them one of size 1: `keys[:, None]`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A product broadcasts an axis of size 1: (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k).
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scale by head_dim, softmax over the keys, then `weights @ values[:, None]`.
#
# </details>

# %% [markdown]
# ## 2. Who shares with whom
#
# Difficulty 1 of 5, about 3 minutes.
#
# With groups, several query heads read one kv head. Which one does a query head read? All are counted from 0.

# %% nbgrader={"grade": false, "grade_id": "kv_head_of", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kv_head_of(query_head, num_heads, num_kv_heads):  # three ints -> int
    ### BEGIN SOLUTION
    heads_per_group = num_heads // num_kv_heads
    return query_head // heads_per_group
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_kv_head_of", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("kv_head_of", kv_head_of).passed
### END HIDDEN TESTS
check("kv_head_of", kv_head_of)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Consecutive query heads share: with 6 heads and 2 kv heads, 0, 1, 2 share one and 3, 4, 5 the other.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The size of a group is num_heads // num_kv_heads.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The number of the group is query_head // size of a group.
#
# </details>

# %% [markdown]
# ## 3. Hand the shared heads out
#
# Difficulty 2 of 5, about 5 minutes.
#
# Give every query head the keys that it reads, so that plain multi-head attention can go on from there.

# %% nbgrader={"grade": false, "grade_id": "share_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def share_heads(keys, num_heads):  # (batch, kv head, token, head_dim), int -> (batch, head, token, head_dim)
    ### BEGIN SOLUTION
    heads_per_group = num_heads // keys.shape[1]
    return keys.repeat_interleave(heads_per_group, dim=1)  # (b, g, t, d) -> (b, h, t, d)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_share_heads", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("share_heads", share_heads).passed
### END HIDDEN TESTS
check("share_heads", share_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Query head i gets kv head i // (num_heads // num_kv_heads).
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Two functions of PyTorch repeat: one gives 0, 1, 0, 1, the other one 0, 0, 1, 1.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `keys.repeat_interleave(num_heads // num_kv_heads, dim=1)`. (It copies; lesson 06 shows how not to.)
#
# </details>

# %% [markdown]
# ## 4. What a cache costs
#
# Difficulty 1 of 5, about 3 minutes.
#
# How many bytes does a whole model keep for one text of `num_tokens` tokens?

# %% nbgrader={"grade": false, "grade_id": "cache_bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number):  # five ints -> int
    ### BEGIN SOLUTION
    numbers_per_token = 2 * num_kv_heads * head_dim  # keys and values
    return num_tokens * num_layers * numbers_per_token * bytes_per_number
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_cache_bytes", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("cache_bytes", cache_bytes).passed
### END HIDDEN TESTS
check("cache_bytes", cache_bytes)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What is kept for a token, in one layer, by one kv head?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A key and a value, each head_dim numbers.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Times kv heads, layers, tokens, and the bytes of one number.
#
# </details>

# %% [markdown]
# ## 5. Grouped-query attention as a module
#
# Difficulty 4 of 5, about 15 minutes.
#
# The whole module, causal. Call the projections `q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias.

# %% nbgrader={"grade": false, "grade_id": "GroupedQuery", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GroupedQuery(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        ### BEGIN SOLUTION
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        ### END SOLUTION

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        ### BEGIN SOLUTION
        batch, num_tokens, _ = x.shape
        queries = self.q_proj(x).view(batch, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)  # (b, h, t, d)
        keys = self.k_proj(x).view(batch, num_tokens, self.num_kv_heads, self.head_dim).transpose(1, 2)  # (b, g, t, d)
        values = self.v_proj(x).view(batch, num_tokens, self.num_kv_heads, self.head_dim).transpose(1, 2)
        keys, values = share_heads(keys, self.num_heads), share_heads(values, self.num_heads)  # (b, g, t, d) -> (b, h, t, d)
        keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=x.device).tril()
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)  # (b, h, q, k)
        context = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))  # (b, h, t, d) -> (b, t, h * d)
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_GroupedQuery", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("GroupedQuery", GroupedQuery).passed
### END HIDDEN TESTS
check("GroupedQuery", GroupedQuery)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is `MultiHead` of lesson 05 with narrower `k_proj` and `v_proj`: num_kv_heads * head_dim.
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
# ## Where you stand
#
# Passed them all? Then try to find mistakes in the code of others: [the exercises on debugging](10_exercises.ipynb).

# %%
progress()
