# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: masks and dropout
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/02_exercises.ipynb)
#
# You will build both masks and join them, hide the future in a table of scores, translate masks for PyTorch, save a row
# that may look at nothing, do by hand what dropout does, and mask a few new tokens.
#
# **You need** [lesson 02](../02_masks_and_dropout.ipynb). **It takes** about fifty minutes. A mask is called `keep`
# here, as in the lesson: bool, True = may attend.
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
review("02")

# %%
review("02", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. The causal mask
#
# Difficulty 2 of 5, about 6 minutes.
#
# Who may look at whom? The first `num_prompt` tokens are a prompt, which is known from the start: **every** token may
# look at all of them. The other tokens are written one by one: a token may look at itself and at those before it.
# Without a prompt, `num_prompt=0`, it is the causal mask of the lesson.

# %% nbgrader={"grade": false, "grade_id": "causal_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_mask(num_tokens, num_prompt=0):
    # two ints -> (query, key), bool, True = may attend
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_causal_mask", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("causal_mask", causal_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Row q says what query q may look at: itself, everything before it, and the whole prompt.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Begin with the causal mask: `torch.ones(n, n, dtype=torch.bool).tril()` keeps the lower triangle with the diagonal.
# Which columns belong to the prompt?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The prompt is the first columns, in every row: `keep[:, :num_prompt] = True`.
#
# </details>

# %% [markdown]
# ## 2. Weights that don't see the future
#
# Difficulty 2 of 5, about 5 minutes.
#
# From scores, already scaled, to weights, with the future hidden. The scores are given to you and are not to be
# changed: others may still need them. What is hidden counts for nothing, however large it is. The check also comes with
# hidden scores far above the others, and with scores around 800 and around -30000.

# %% nbgrader={"grade": false, "grade_id": "causal_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_weights(scores):  # (batch, query, key) -> (batch, query, key)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_causal_weights", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("causal_weights", causal_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The mask acts on the scores, before softmax: what is hidden must get a weight of exactly 0.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Which score does softmax turn into 0? Not 0: exp(0) is 1.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `scores.masked_fill(~keep, -torch.inf)` returns a new tensor. Use it.
#
# </details>

# %% [markdown]
# ## 3. The padding mask
#
# Difficulty 2 of 5, about 8 minutes.
#
# A batch holds sentences of these lengths, each filled up with padding on the right. Hide the padding from every query,
# with a mask that fits scores of (batch, head, query, key). Two functions help: `torch.arange(5)` is the tensor 0, 1,
# 2, 3, 4, and `torch.tensor(lengths)` makes a tensor of the list.

# %% nbgrader={"grade": false, "grade_id": "padding_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def padding_mask(lengths, num_tokens):
    # list of batch lengths, int -> (batch, 1, 1, key), bool
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_padding_mask", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("padding_mask", padding_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Token k of sample b is real if k is less than `lengths[b]`. Which comparison of two tensors says that of all tokens
# and samples at once?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A column compared with a row gives a table: (batch, 1) < (key) is (batch, key). `[:, None]` makes a column:
# `torch.arange(num_tokens) < torch.tensor(lengths)[:, None]`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scores are (batch, head, query, key): put two axes of size 1 between batch and key, `[:, None, None]`. That makes
# (batch, 1, 1, key) of (batch, key).
#
# </details>

# %% [markdown]
# ## 4. Two masks in one
#
# Difficulty 2 of 5, about 5 minutes.
#
# `keep` says which key each query may attend to, and is the same for all samples. `real` says which tokens of each
# sample are real and which are padding. Both are bool; True means *may attend* and *real*. Join them to one mask for
# scores of (batch, head, query, key): a query may attend to a key if `keep` allows it **and** the key is real. To
# insert an axis of size 1, write `None` in its place: if `a` is (3, 4), then `a[:, None]` is (3, 1, 4).

# %% nbgrader={"grade": false, "grade_id": "joined_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def joined_mask(keep, real):
    # (query, key) bool, (batch, key) bool -> (batch, 1, query, key) bool
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_joined_mask", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("joined_mask", joined_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two bool tensors are joined by `&`: the result is True where both are True.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Shapes are aligned at the last axis. `real` is (batch, key), and two axes must come between: heads and queries.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `real[:, None, None]` is (batch, 1, 1, key). Join that with `keep`, and PyTorch broadcasts the rest.
#
# </details>

# %% [markdown]
# ## 5. Masks for PyTorch's own attention
#
# Difficulty 2 of 5, about 6 minutes.
#
# `keep` is a mask as in this course: bool, True = may attend. Turn it into what PyTorch takes. `target` says where it
# goes:
#
# - `"scaled_dot_product_attention"`: the argument `attn_mask` of this function. True means *may attend*. `keep` is (query, key) or (batch, 1, 1, key), and the shape stays.
# - `"attn_mask"`: the argument of that name when an `nn.MultiheadAttention` is called. True means *hidden*. `keep` is (query, key), and the shape stays.
# - `"key_padding_mask"`: the other mask of `nn.MultiheadAttention`. True means *hidden*. `keep` is (batch, 1, 1, key), and the result must be (batch, key).

# %% nbgrader={"grade": false, "grade_id": "to_torch_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def to_torch_mask(keep, target):
    # (query, key) or (batch, 1, 1, key) bool, str -> the mask that the target takes
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_to_torch_mask", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("to_torch_mask", to_torch_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down for each target what True means there. In how many of the three is it the opposite of `keep`?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `~keep` turns every True into False and every False into True.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `keep[:, 0, 0]` takes the two axes of size 1 away. Only `key_padding_mask` needs that, and `~` as well.
#
# </details>

# %% [markdown]
# ## 6. A row that may look at nothing
#
# Difficulty 3 of 5, about 8 minutes.
#
# With padding on the left, some rows may look at nothing at all. Give such a row weights of 0 instead of nan; the other
# rows get what softmax gives them under the mask. As in the exercise on the future, some inputs have very large scores,
# hidden or visible, or scores near -30000.

# %% nbgrader={"grade": false, "grade_id": "safe_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def safe_weights(scores, keep):
    # (batch, query, key), (batch, query, key) bool -> (batch, query, key)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_safe_weights", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("safe_weights", safe_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# With minus infinity in the whole row, softmax divides 0 by 0. Rows without a choice should be zeros.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Fill with a very low finite number: no nan any more. But what do these rows hold now?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# After softmax, set every hidden weight to 0. In all other rows that changes nothing.
#
# </details>

# %% [markdown]
# ## 7. What dropout does to a weight
#
# Difficulty 2 of 5, about 4 minutes.
#
# The dice have been thrown: `drop` is True where a weight is to be dropped. What does dropout with probability `p` make
# of the weights, in training and in evaluation?

# %% nbgrader={"grade": false, "grade_id": "dropped_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def dropped_weights(weights, drop, p, training):
    # (query, key), (query, key) bool, float, bool -> (query, key)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_dropped_weights", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("dropped_weights", dropped_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three cases: dropped in training, kept in training, and evaluation.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# In evaluation nothing happens. In training a dropped weight is 0.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A kept weight must make up for the others: only 1 - p of them are left.
#
# </details>

# %% [markdown]
# ## 8. Fewer queries than keys
#
# Difficulty 2 of 5, about 6 minutes.
#
# A model that writes text has computed some tokens before, and now computes the queries of the newest ones only. There
# are `num_keys` tokens in all, and the `num_queries` queries belong to the **last** of them: the last query is the last
# token. Build the causal mask. A token may attend to itself and to everything before it. `num_queries` is at most
# `num_keys`.

# %% nbgrader={"grade": false, "grade_id": "decode_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def decode_mask(num_queries, num_keys):
    # two ints -> (query, key), bool, True = may attend
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_decode_mask", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("decode_mask", decode_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Draw 2 queries and 5 keys on paper. Which token is query 0? Which keys may it see?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# It is the bottom of a square mask: the last `num_queries` rows of the causal mask for `num_keys` tokens.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `tril(n)` keeps n diagonals more than `tril()`. Query 0 may see `num_keys - num_queries` keys more than one.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? [Lesson 03](../03_wrapper.ipynb) puts heads side by side.

# %%
progress()
