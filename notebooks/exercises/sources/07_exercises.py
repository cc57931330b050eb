# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: order, padding and two sequences
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/07_exercises.ipynb)
#
# You will work with rotary positions: how far a pair turns, what a score makes of a distance, and pairs of neighbours
# instead of halves. Then you will find the last word of each sentence in a padded batch, and let one sentence ask
# another.
#
# **You need** [lesson 07](../07_order_and_padding.ipynb). **It takes** about 30 minutes. Unless an exercise says
# something else, the two elements of pair i are those with index i and i + pairs, the two halves of a head, as in the
# lesson and in the Llama of `transformers`.
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

from course_lib.exercises import check, from_earlier, progress, review

rotary_table = from_earlier("rotary_table")
rotate = from_earlier("rotate")

# %% [markdown]
# ## Before you begin: three questions from earlier lessons
#
# Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others.

# %%
review("07")

# %%
review("07", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. How many tokens for a full turn?
#
# Difficulty 2 of 5, about 4 minutes.
#
# Per token, pair i of a head of `head_dim` elements is rotated by base ** (-2 i / head_dim) radians. A full turn is 2
# pi radians. Return, for each pair, after how many tokens it has made a full turn: a tensor of head_dim / 2 numbers
# with decimals. (Distances beyond the slowest pair's turn are what a model can't tell apart by that pair alone; a
# larger base moves them further away.)

# %% nbgrader={"grade": false, "grade_id": "tokens_per_turn", "locked": false, "schema_version": 3, "solution": true, "task": false}
def tokens_per_turn(head_dim, base):  # int, float -> (pair)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_tokens_per_turn", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("tokens_per_turn", tokens_per_turn)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# If a pair rotates by a quarter of a turn per token, how many tokens does it need?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Divide the full turn by the angle per token: `2 * torch.pi / speed`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `speed = base ** (-2 * torch.arange(head_dim // 2) / head_dim)`, and return `2 * torch.pi / speed`.
#
# </details>

# %% [markdown]
# ## 2. The score at each distance
#
# Difficulty 3 of 5, about 8 minutes.
#
# One query and one key, not rotated yet. When each is rotated by its own position, their score depends on the distance
# alone. Give back the score for each distance from 0 to `num_distances - 1`, not scaled: element n is the score of a
# query n positions after its key, wherever the two are. The rotation is that of the lesson, `rotary_table` and
# `rotate`, with `base`.

# %% nbgrader={"grade": false, "grade_id": "scores_by_distance", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scores_by_distance(query, key, num_distances, base):
    # (head_dim), (head_dim), int, float -> (distance)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_scores_by_distance", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("scores_by_distance", scores_by_distance)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Only the distance counts, so you may choose the positions. Where does the key stand most conveniently?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# With the key at position 0 it isn't rotated at all, and a query at distance n stands at position n.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Repeat the query, `query.expand(num_distances, -1)`, rotate row n by position n, and multiply by the key: `rotate(...,
# *rotary_table(num_distances, len(query), base)) @ key`.
#
# </details>

# %% [markdown]
# ## 3. Rotate pairs of neighbours
#
# Difficulty 2 of 5, about 8 minutes.
#
# Some models, Meta's own Llama files among them, pair neighbours: elements 0 and 1 are pair 0, elements 2 and 3 are
# pair 1, and so on. `cos` and `sin` hold one angle per token and pair. Rotate each pair (a, b) of `x` to (a cos - b
# sin, b cos + a sin), and put the rotated elements where a and b were.

# %% nbgrader={"grade": false, "grade_id": "rotate_neighbours", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rotate_neighbours(x, cos, sin):
    # (b, h, token, head_dim), 2 x (token, pair) -> (b, h, token, head_dim)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_rotate_neighbours", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("rotate_neighbours", rotate_neighbours)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A slice with a step of 2 takes all first elements: `x[..., 0::2]`. Where do the second ones begin?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The rotated pairs have to be interleaved again. Stack the two results on a new last axis, (pair, 2).
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)`.
#
# </details>

# %% [markdown]
# ## 4. The last real word of each sentence
#
# Difficulty 2 of 5, about 5 minutes.
#
# A batch is padded on the right: sample b holds `lengths[b]` real tokens, and padding after them. What a model says
# about the next word is in the output of the last real token. Return that output for each sample, (batch, width). Every
# length is at least 1.

# %% nbgrader={"grade": false, "grade_id": "last_real_output", "locked": false, "schema_version": 3, "solution": true, "task": false}
def last_real_output(outputs, lengths):
    # (batch, token, width), (batch) of int64 -> (batch, width)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_last_real_output", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("last_real_output", last_real_output)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Column -1 of the batch is padding in every sample but the longest. In which column is the last real token?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# It is in column `lengths[b] - 1`, because columns count from 0. Two index tensors side by side choose one token per
# sample.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `outputs[torch.arange(len(outputs)), lengths - 1]`.
#
# </details>

# %% [markdown]
# ## 5. One sentence asks another
#
# Difficulty 2 of 5, about 5 minutes.
#
# One head of cross-attention: the queries come from `x`, the keys and values from `context`, which may have another
# number of tokens. Scaled, without a mask. The weights lie as `nn.Linear` keeps them: `w_q` and `w_k` are (head_dim,
# d_in), `w_v` is (d_v, d_in).

# %% nbgrader={"grade": false, "grade_id": "cross_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cross_attention(x, context, w_q, w_k, w_v):
    # (b, query, d_in), (b, key, d_in), 3 x (out, d_in) -> (b, query, d_v)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_cross_attention", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("cross_attention", cross_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is the head of lesson 01. The only question is which of the two inputs each projection reads.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A weight of (out, in) is applied as `x @ w_q.T`. The scores are (batch, query, key), not square.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `queries = x @ w_q.T`, `keys = context @ w_k.T`, `values = context @ w_v.T`; the scores are divided by the square root
# of head_dim.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? [Lesson 08](../08_llama.ipynb) builds Llama's attention from these pieces.

# %%
progress()
