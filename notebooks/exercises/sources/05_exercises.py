# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: split the weights
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/05_exercises.ipynb)
#
# You will write multi-head attention as real models have it, and carry weights over: from a wrapper, and into PyTorch's
# own module.
#
# **You need** [lesson 05](../05_weight_split.ipynb). **It takes** about fifty minutes.
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

from course_lib.attention import MultiHeadAttention
from course_lib.exercises import check, progress, review

# %% [markdown]
# ## Before you begin: three questions from earlier lessons
#
# Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others.

# %%
review("05")

# %%
review("05", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. Scores of all heads at once
#
# Difficulty 2 of 5, about 4 minutes.
#
# Every query of a head meets every key of the same head. Scaled, as in the lesson. There may be more keys than queries.

# %% nbgrader={"grade": false, "grade_id": "scores_by_head", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scores_by_head(queries, keys):
    # (batch, head, query, head_dim), (batch, head, key, head_dim) -> (b, h, q, k)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_scores_by_head", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("scores_by_head", scores_by_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `@` multiplies the last two axes and leaves batch and head alone.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Turn the keys in their last two axes: `keys.transpose(2, 3)`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scale by the width of one head, the last size of the queries.
#
# </details>

# %% [markdown]
# ## 2. Eleven lines in order
#
# Difficulty 2 of 5, about 6 minutes.
#
# These are the lines of causal multi-head attention with split weights, shuffled. `x`, the four matrices, the mask
# `hidden`, the sizes and `per_head = (batch, num_tokens, num_heads, head_dim)` exist before the first of them. In which
# order do they run?
#
# ```python
# # A
# weights = scores.softmax(dim=-1)
# # B
# queries, keys, values = (each.transpose(1, 2) for each in (queries, keys, values))
# # C
# output = merged @ w_o
# # D
# scores = queries @ keys.transpose(2, 3)
# # E
# context = weights @ values
# # F
# queries, keys, values = x @ w_q, x @ w_k, x @ w_v
# # G
# merged = context.reshape(batch, num_tokens, num_heads * head_dim)
# # H
# scores = scores * head_dim**-0.5
# # I
# queries, keys, values = (each.view(per_head) for each in (queries, keys, values))
# # J
# context = context.transpose(1, 2)
# # K
# scores = scores.masked_fill(hidden, -torch.inf)
# ```
#
# The check runs them in your order and draws what each line made. Any order passes in which each line finds what it
# reads and the output is right.

# %% nbgrader={"grade": false, "grade_id": "order_of_lines", "locked": false, "schema_version": 3, "solution": true, "task": false}
def order_of_lines():
    # -> the eleven letters in the order in which the lines run, such as "ABCDEFGHIJK"
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_order_of_lines", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("order_of_lines", order_of_lines)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin at the end: which line makes the output, what does it read, and which line makes that?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Project, view, transpose; scores, scale, mask, softmax; multiply by the values, and all the way back.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The mask comes after the product and before softmax. On the way back the transpose comes before the reshape.
#
# </details>

# %% [markdown]
# ## 3. Multi-head attention with gaps
#
# Difficulty 2 of 5, about 7 minutes.
#
# Multi-head attention as in the lesson, causal: a token may attend to itself and to those before it. Fill in the gaps,
# each written `...`. The comment beside a line says which shape it gives. `hidden` is True where a query must not look
# at a key. The next exercise asks for all of it.

# %% nbgrader={"grade": false, "grade_id": "MultiHeadWithGaps", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MultiHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, ...  # the width of one head
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, ..., ...)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # -> (b, h, t, d)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        scores = (queries * self.head_dim**-0.5) @ ...  # (b, h, q, k)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        weights = scores.masked_fill(..., -torch.inf).softmax(dim=...)
        context = weights @ values  # (b, h, t, d)
        return self.out_proj(...)  # (b, t, h * d) -> (b, t, d_out)

# %% nbgrader={"grade": true, "grade_id": "check_MultiHeadWithGaps", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("MultiHeadWithGaps", MultiHeadWithGaps)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `per_head` is the shape that `view` gives: the width of all heads becomes two axes.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# After `view` the axes are (batch, token, head, head_dim). Which two have to change places?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# On the way back they change places again, and `reshape` joins head and head_dim.
#
# </details>

# %% [markdown]
# ## 4. Multi-head attention with split weights
#
# Difficulty 4 of 5, about 15 minutes.
#
# The eleven steps of the lesson as one module, causal, with one change: the width of a head is an argument of its own,
# as in many recent models, and `num_heads * head_dim` need not be `d_out`. Queries, keys and values are `num_heads *
# head_dim` wide, and the output projection makes `d_out` of the merged heads. Call the projections `q_proj`, `k_proj`,
# `v_proj` and `out_proj`, without bias.

# %% nbgrader={"grade": false, "grade_id": "MultiHead", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MultiHead(nn.Module):
    def __init__(self, d_in, d_out, num_heads, head_dim):
        super().__init__()
        raise NotImplementedError  # your code goes here

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_MultiHead", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("MultiHead", MultiHead)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Four `nn.Linear` in `__init__`. In `forward`: project, cut, score, hide, weigh, mix, merge, project.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `q_proj`, `k_proj` and `v_proj` are `nn.Linear(d_in, num_heads * head_dim, bias=False)`; `out_proj` leads from
# `num_heads * head_dim` to `d_out`. The scores are scaled by the root of `head_dim`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The mask is made for as many tokens as x has. After the mix: `transpose(1, 2)`, then `reshape(batch, num_tokens,
# num_heads * head_dim)`, then `out_proj`.
#
# </details>

# %% [markdown]
# ## 5. From the wrapper to the weight split
#
# Difficulty 3 of 5, about 15 minutes.
#
# Take the course's wrapper apart and build a `MultiHeadAttention` that gives the same output. The wrapper has `heads`,
# each with `q_proj`, `k_proj` and `v_proj`, and an `out_proj`; it is causal and has no bias. `MultiHeadAttention(d_in,
# d_out, num_heads)` is causal and without bias, too; its matrices are `q_proj.weight`, `k_proj.weight`, `v_proj.weight`
# and `out_proj.weight`.

# %% nbgrader={"grade": false, "grade_id": "to_split", "locked": false, "schema_version": 3, "solution": true, "task": false}
def to_split(wrapper):  # MultiHeadAttentionWrapper -> MultiHeadAttention
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_to_split", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("to_split", to_split)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Build `MultiHeadAttention(d_in, d_out, num_heads)` with the right sizes first. The wrapper knows `num_heads` and
# `head_dim`, and an `nn.Linear` knows its sizes: `wrapper.heads[0].q_proj.in_features` is `d_in`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `wrapper.heads[i].q_proj.weight` is (head_dim, d_in): in the wide matrix they lie one below the other,
# `torch.cat([head.q_proj.weight for head in wrapper.heads])`. W^O is carried over as it is.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Collect the four matrices in a dict with the names of the parameters as keys, `"q_proj.weight"` and so on to
# `"out_proj.weight"`, and give it to `split.load_state_dict(...)`. (Or, under `torch.no_grad()`, one by one:
# `split.q_proj.weight.copy_(matrix)`.)
#
# </details>

# %% [markdown]
# ## 6. Your weights in PyTorch's module
#
# Difficulty 2 of 5, about 5 minutes.
#
# These are the weights of the four `nn.Linear` of multi-head attention, without bias; here `d_in` equals `d_out`.
# `nn.MultiheadAttention` keeps the same numbers in two parameters: `in_proj_weight`, (3 * d_out, d_in), from which
# queries, keys and values come in this order, and `out_proj.weight`, (d_out, d_out). Give back both as a tuple, so that
# PyTorch's module gives the same output as yours.

# %% nbgrader={"grade": false, "grade_id": "to_torch_mha", "locked": false, "schema_version": 3, "solution": true, "task": false}
def to_torch_mha(q_proj, k_proj, v_proj, out_proj):
    # four of (d_out, d_in) -> (3 * d_out, d_in), (d_out, d_out)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_to_torch_mha", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("to_torch_mha", to_torch_mha)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The section "Proof" of the lesson prints how `in_proj_weight` begins: its first rows are those of one matrix.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Every matrix is (out, in), here and there: nothing has to be transposed, and no row changes within its matrix.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `torch.cat([...])` puts three matrices one below the other. Give back `in_proj_weight, out_proj`.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? In [lesson 06](../06_multi_query.ipynb) the heads share their keys and values.

# %%
progress()
