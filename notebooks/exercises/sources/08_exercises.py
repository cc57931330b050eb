# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: Llama's attention and its cache
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/08_exercises.ipynb)
#
# You will let a cache grow and take tokens back, find the positions of new tokens, write word after word, and bring the
# rows of a published file into the order that your code expects.
#
# **You need** [lesson 08](../08_llama.ipynb). **It takes** about twenty-five minutes.
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
review("08")

# %%
review("08", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. Let a cache grow
#
# Difficulty 1 of 5, about 4 minutes.
#
# `cache` holds the keys and the values of the tokens so far, a tuple of two tensors of (batch, kv head, cached token,
# head_dim); before the first step they hold 0 tokens. `keys` and `values` are those of the new tokens, (batch, kv head,
# new token, head_dim). Give back the grown cache: the keys and the values of all tokens, the oldest first. That is what
# attention reads in this step, and what the next step gets. Leave the old cache as it is, and let a gradient reach it:
# whoever trains on long texts needs that.

# %% nbgrader={"grade": false, "grade_id": "append_to_cache", "locked": false, "schema_version": 3, "solution": true, "task": false}
def append_to_cache(cache, keys, values):
    # 2 x (b, g, cached, d), 2 x (b, g, new, d) -> 2 x (b, g, cached + new, d)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_append_to_cache", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("append_to_cache", append_to_cache)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `torch.cat` joins tensors along an axis that exists already. Which of the four grows?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The tokens are axis 2, and the old ones stand in front: the list that is joined begins with them.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `torch.cat([cache[0], keys], dim=2)`, and the same for `cache[1]` and `values`.
#
# </details>

# %% [markdown]
# ## 2. Take tokens back
#
# Difficulty 2 of 5, about 4 minutes.
#
# A small model has guessed a few tokens ahead, and the large model has rejected the last `rejected` of them
# (speculative decoding does that all the time; Leviathan et al., 2022). `cache` is a tuple of keys and values, (batch,
# kv head, cached token, head_dim). Return the cache without the rejected tokens; `rejected` may be 0. Nothing has to be
# computed, because in causal attention no key depends on later tokens.

# %% nbgrader={"grade": false, "grade_id": "rewind_cache", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rewind_cache(cache, rejected):
    # 2 x (b, g, cached, d), int -> 2 x (b, g, cached - rejected, d)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_rewind_cache", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("rewind_cache", rewind_cache)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The rejected tokens are the last ones. How many are kept?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `keys[:, :, :-rejected]` is right, except for 0: `-0` is 0, and the slice `[:0]` is empty.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `kept = keys.shape[2] - rejected`, and `keys[:, :, :kept]`; the same for the values.
#
# </details>

# %% [markdown]
# ## 3. The positions of new tokens
#
# Difficulty 2 of 5, about 4 minutes.
#
# A batch of sentences is generated with a cache. Sentence b has `lengths[b]` real tokens so far (padding on the left is
# not counted), and `num_new` tokens are to be added to each. Return the positions of the new tokens, (batch, new); the
# first token of a sentence is at position 0.

# %% nbgrader={"grade": false, "grade_id": "next_positions", "locked": false, "schema_version": 3, "solution": true, "task": false}
def next_positions(lengths, num_new):  # (batch) of int64, int -> (batch, new), int64
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_next_positions", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("next_positions", next_positions)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A sentence of four words has positions 0 to 3. Where is the next word?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Each row starts at its own length and counts up: a column of lengths plus a row of steps.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `lengths[:, None] + torch.arange(num_new)`.
#
# </details>

# %% [markdown]
# ## 4. Write word after word
#
# Difficulty 3 of 5, about 6 minutes.
#
# `model(tokens)` takes token ids, (batch, token), and returns logits, (batch, token, vocabulary). Decode greedily:
# `num_new` times, let the model read everything so far, take the most likely next token of each sample, and put it
# behind the others. `num_new` may be 0. Return all ids, (batch, token + num_new).

# %% nbgrader={"grade": false, "grade_id": "greedy_decode", "locked": false, "schema_version": 3, "solution": true, "task": false}
def greedy_decode(model, tokens, num_new):
    # tokens: (batch, token), int64 -> (batch, token + num_new), int64
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_greedy_decode", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("greedy_decode", greedy_decode)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is a loop of two lines: choose the next token, and append it.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The logits of the last token choose: `model(tokens)[:, -1].argmax(dim=-1)` is (batch).
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# To append it, it needs an axis for the token: `torch.cat([tokens, newest[:, None]], dim=1)`.
#
# </details>

# %% [markdown]
# ## 5. From neighbours to halves
#
# Difficulty 4 of 5, about 8 minutes.
#
# Meta's files pair neighbours: in each head, rows 0 and 1 of `q_proj` and `k_proj` make pair 0, rows 2 and 3 pair 1,
# and so on. The course and `transformers` pair halves: with 3 pairs, rows 0 and 3 make pair 0, rows 1 and 4 pair 1.
# `weight` is a `q_proj.weight` or `k_proj.weight` of Meta's, with `num_heads` heads one below the other. Give it back
# with its rows in the order that halves need, so that all scores of rotated queries and keys stay as they are.

# %% nbgrader={"grade": false, "grade_id": "permute_meta_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def permute_meta_weights(weight, num_heads):
    # (head * head_dim, d_in), int -> (head * head_dim, d_in)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_permute_meta_weights", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("permute_meta_weights", permute_meta_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Nothing is computed: rows change places, within each head and in the same way in each.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# With 3 pairs, the new rows of a head are its old rows 0, 2, 4, 1, 3, 5: first the first rows of all pairs, then the
# second ones.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# View the rows as (num_heads, pair, 2, d_in), exchange the axes of the pairs and of the two, and `reshape` to the old
# shape.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? [Lesson 09](../09_smaller_caches.ipynb) makes the cache smaller still.

# %%
progress()
