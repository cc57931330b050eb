# %% [markdown]
# # Exercises: reshape and transpose
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/solutions/04_exercises.ipynb)
#
# You will read memory by strides, foretell the strides of a tensor of heads, and cut heads out and put them back.
#
# **You need** [lesson 04](../04_reshape_and_transpose.ipynb). **It takes** about twenty minutes.

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

from course_lib.exercises import check, progress

# %% [markdown]
# ## 1. Which number lies where
#
# Difficulty 2 of 5, about 4 minutes.
#
# A tensor is a row of slots and a stride for each axis. Do what PyTorch does when you index: find the number.

# %% nbgrader={"grade": false, "grade_id": "number_at", "locked": false, "schema_version": 3, "solution": true, "task": false}
def number_at(memory, strides, index):  # (slot), tuple of ints, tuple of ints of the same length -> one number
    ### BEGIN SOLUTION
    slot = sum(stride * step for stride, step in zip(strides, index, strict=True))
    return memory[slot]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_number_at", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("number_at", number_at).passed
### END HIDDEN TESTS
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
# ## 2. Foretell the strides
#
# Difficulty 3 of 5, about 5 minutes.
#
# Queries of one sample, (1, token, width), lie in memory row by row. What are the strides of `queries.view(1,
# num_tokens, num_heads, head_dim).transpose(1, 2)`? Count them, without making the tensor.

# %% nbgrader={"grade": false, "grade_id": "strides_by_head", "locked": false, "schema_version": 3, "solution": true, "task": false}
def strides_by_head(num_tokens, num_heads, head_dim):  # three ints -> four ints: batch, head, token, head_dim
    ### BEGIN SOLUTION
    width = num_heads * head_dim
    return (num_tokens * width, head_dim, width, 1)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_strides_by_head", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("strides_by_head", strides_by_head).passed
### END HIDDEN TESTS
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
# One wide tensor in, a table of tokens for each head out.

# %% nbgrader={"grade": false, "grade_id": "split_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def split_heads(x, num_heads):  # (batch, token, num_heads * head_dim) -> (batch, head, token, head_dim)
    ### BEGIN SOLUTION
    batch, num_tokens, width = x.shape
    return x.view(batch, num_tokens, num_heads, width // num_heads).transpose(1, 2)  # (b, t, h * d) -> (b, h, t, d)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_split_heads", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("split_heads", split_heads).passed
### END HIDDEN TESTS
check("split_heads", split_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two moves: put up a fence in the width, then bring the heads to the front.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `view` splits the last axis into (num_heads, head_dim). Nothing has moved yet.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `x.view(batch, num_tokens, num_heads, head_dim).transpose(1, 2)`.
#
# </details>

# %% [markdown]
# ## 4. Put the heads back
#
# Difficulty 2 of 5, about 4 minutes.
#
# And back: each token's row holds the numbers of head 0, then those of head 1, and so on.

# %% nbgrader={"grade": false, "grade_id": "merge_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def merge_heads(x):  # (batch, head, token, head_dim) -> (batch, token, num_heads * head_dim)
    ### BEGIN SOLUTION
    batch, num_heads, num_tokens, head_dim = x.shape
    return x.transpose(1, 2).reshape(batch, num_tokens, num_heads * head_dim)  # (b, h, t, d) -> (b, t, h * d)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_merge_heads", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("merge_heads", merge_heads).passed
### END HIDDEN TESTS
check("merge_heads", merge_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The way of `split_heads` backwards: first the axes, then the fence.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# After `transpose(1, 2)` head and head_dim are neighbours and can be joined.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `view` refuses here, because the numbers don't lie in reading order; `reshape` copies them.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? In [lesson 05](../05_weight_split.ipynb) your two functions become multi-head attention.

# %%
progress()
