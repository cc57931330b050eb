# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: reshape and transpose
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/04_exercises.ipynb)
#
# You will read memory by strides, predict the strides of a tensor of heads, cut heads out and put them back, and say
# which joins need a copy.
#
# **You need** [lesson 04](../04_reshape_and_transpose.ipynb). **It takes** about half an hour.
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

from course_lib.exercises import check, progress, review

# %% [markdown]
# ## Before you begin: three questions from earlier lessons
#
# Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others.

# %%
review("04")

# %%
review("04", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. Which number lies where
#
# Difficulty 2 of 5, about 4 minutes.
#
# A tensor is a row of slots and a stride for each axis. Do what PyTorch does when you index: find the number.

# %% nbgrader={"grade": false, "grade_id": "number_at", "locked": false, "schema_version": 3, "solution": true, "task": false}
def number_at(memory, strides, index):
    # (slot), tuple of ints, tuple of ints of the same length -> one number
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_number_at", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("number_at", number_at)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A stride says how many slots one step along its axis skips.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Take each index times its stride and add them up: that is the slot.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `zip(strides, index)` walks through both; `memory[slot]` is the number.
#
# </details>

# %% [markdown]
# ## 2. Predict the strides
#
# Difficulty 3 of 5, about 5 minutes.
#
# Queries of one sample, (1, token, width), lie in memory row by row. What are the strides of `queries.view(1,
# num_tokens, num_heads, head_dim).transpose(1, 2)`? Count them, without making the tensor.

# %% nbgrader={"grade": false, "grade_id": "strides_by_head", "locked": false, "schema_version": 3, "solution": true, "task": false}
def strides_by_head(num_tokens, num_heads, head_dim):
    # three ints -> four ints: batch, head, token, head_dim
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_strides_by_head", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("strides_by_head", strides_by_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Begin with the strides of (batch, token, width): a step in the width is 1, a token is the width.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The view splits the width: a head is head_dim numbers on. A token still is num_heads * head_dim on.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `transpose(1, 2)` exchanges shapes and strides of axes 1 and 2 and nothing else.
#
# </details>

# %% [markdown]
# ## 3. Cut the heads
#
# Difficulty 2 of 5, about 5 minutes.
#
# One wide tensor in, a table of tokens for each head of each sample out. Mind the order of the axes: here the **tokens
# come first** and the batch second, (token, batch, num_heads * head_dim), as `nn.MultiheadAttention` has it unless it
# is told `batch_first=True`.

# %% nbgrader={"grade": false, "grade_id": "split_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def split_heads(x, num_heads):
    # (token, batch, num_heads * head_dim) -> (batch, head, token, head_dim)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_split_heads", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("split_heads", split_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two moves: first split the width, then bring the axes into the order that is wanted.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `view` splits the last axis into (num_heads, head_dim) and leaves the other two: (token, batch, head, head_dim). Which
# axis must come first now, which second?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `permute` takes all axes in their new order: `split.permute(1, 2, 0, 3)`. Two `transpose` do it as well.
#
# </details>

# %% [markdown]
# ## 4. Put the heads back
#
# Difficulty 2 of 5, about 4 minutes.
#
# And back: each token's row holds the elements of head 0, then those of head 1, and so on. Mind the order of the axes:
# here the **heads come first**, (head, batch, token, head_dim), as after a `torch.stack` of what each head gave.

# %% nbgrader={"grade": false, "grade_id": "merge_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def merge_heads(x):
    # (head, batch, token, head_dim) -> (batch, token, num_heads * head_dim)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_merge_heads", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("merge_heads", merge_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# First bring the axes into an order in which the two that are to be joined are neighbours. Then join.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `permute` takes all axes in their new order. Which order of the four makes (batch, token, head, head_dim)?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# After `x.permute(1, 2, 0, 3)` comes `reshape`, which copies: `view` refuses, because the elements don't lie in the
# order of the axes.
#
# </details>

# %% [markdown]
# ## 5. View or copy?
#
# Difficulty 3 of 5, about 11 minutes.
#
# You know the shape and the strides of a tensor. Two neighbouring axes, `axis` and `axis + 1`, are to become one, and
# all others stay. Can `view` do that, or does `reshape` have to copy? Return True if a copy is needed. All sizes are 2
# or more; no axis is repeated by `expand`. Compute it from the numbers alone, without making a tensor.
#
# For example, shape (2, 3, 4) with strides (12, 4, 1) is a tensor as it was made: axes 1 and 2 can be joined by a view.
# With strides (12, 1, 3) they can't.

# %% nbgrader={"grade": false, "grade_id": "needs_copy", "locked": false, "schema_version": 3, "solution": true, "task": false}
def needs_copy(shape, strides, axis):  # two tuples of ints, int -> True or False
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_needs_copy", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("needs_copy", needs_copy)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The joined axis has *one* stride: each step along it must skip the same number of slots.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Within a row a step skips `strides[axis + 1]` slots. How far is it from the last element of a row to the first one of
# the next row?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# It is the same step only if a step along `axis` skips a whole row: `shape[axis + 1] * strides[axis + 1]` slots.
# Compare that with `strides[axis]`.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? In [lesson 05](../05_weight_split.ipynb) the two moves become multi-head attention.

# %%
progress()
