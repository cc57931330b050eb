# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: smaller caches
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/09_exercises.ipynb)
#
# You will write the mask of a window with attention sinks, find tokens in a rolling cache and in a paged one, compute
# how far windows reach through a stack of layers, and absorb the second matrix of latent attention.
#
# **You need** [lesson 09](../09_smaller_caches.ipynb). **It takes** about 35 minutes.
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
review("09")

# %%
review("09", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. A window with sinks
#
# Difficulty 3 of 5, about 7 minutes.
#
# Write the mask of a sliding window with attention sinks, (query, key), True = may attend. A query may attend to its
# own token, to the `window - 1` tokens before it, and besides to the first `num_sinks` tokens of the text; never to a
# later token. There may be fewer queries than keys, when a cache holds the tokens before: the last query then belongs
# to the last key.

# %% nbgrader={"grade": false, "grade_id": "window_with_sinks", "locked": false, "schema_version": 3, "solution": true, "task": false}
def window_with_sinks(query_len, key_len, window, num_sinks):
    # -> bool (query, key), True = may attend
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_window_with_sinks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("window_with_sinks", window_with_sinks)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# With 2 queries and 7 keys, the queries have the positions 5 and 6.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Compare each key's position with the query's, `position`, of shape (query, 1): it must be larger than `position -
# window`, or smaller than `num_sinks`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# And in every case `key <= position`: the first queries come before some of the sinks.
#
# </details>

# %% [markdown]
# ## 2. The slot of a token
#
# Difficulty 1 of 5, about 4 minutes.
#
# A rolling cache has `num_sinks + window` slots. The first `num_sinks` tokens stay in the first slots for ever. The
# tokens after them fill the other slots in order and then begin again at the first of these, so that each overwrites
# the token one window before it. In which slot is the token at `position`? All are counted from 0.

# %% nbgrader={"grade": false, "grade_id": "rolling_slot", "locked": false, "schema_version": 3, "solution": true, "task": false}
def rolling_slot(position, window, num_sinks):  # three ints -> int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_rolling_slot", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("rolling_slot", rolling_slot)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# With window=3 and num_sinks=2, the tokens 0 to 7 go into the slots 0, 1, 2, 3, 4, 2, 3, 4.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Count a token that is no sink from the first such token: `position - num_sinks`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Its place in the circle is that `% window`, and the circle begins at slot `num_sinks`.
#
# </details>

# %% [markdown]
# ## 3. Local and global layers
#
# Difficulty 2 of 5, about 5 minutes.
#
# In Gemma 3, five layers with a sliding window, called local, are followed by a global one, which attends to all tokens
# before. `layers` has a letter per layer, from the first to the last: "L" is local, "G" is global. In a local layer a
# token attends to `window` keys, its own included. What is the position of the earliest token that can have an
# influence on the last layer's output at `position`?

# %% nbgrader={"grade": false, "grade_id": "earliest_token", "locked": false, "schema_version": 3, "solution": true, "task": false}
def earliest_token(position, window, layers):
    # int, int, string such as "LLLLLG" -> int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_earliest_token", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("earliest_token", earliest_token)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A window of 3 reaches two tokens back. And from there, the layer below reaches two tokens back again.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A global layer reaches token 0, wherever it is in the stack.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# There is no token before 0: `max(0, ...)`.
#
# </details>

# %% [markdown]
# ## 4. What a latent cache costs
#
# Difficulty 1 of 5, about 4 minutes.
#
# A model with multi-head latent attention keeps, for each token, one latent vector with `latent_dim` numbers and one
# key with rotary positions, with `rotary_dim` numbers, in every layer. How many bytes does it keep for a text of
# `num_tokens` tokens?

# %% nbgrader={"grade": false, "grade_id": "latent_cache_bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def latent_cache_bytes(
    num_tokens,
    num_layers,
    num_heads,
    latent_dim,
    rotary_dim,
    bytes_per_number,
):  # six ints -> int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_latent_cache_bytes", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("latent_cache_bytes", latent_cache_bytes)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What is kept per token in one layer? Which of it do the heads share?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Keys and values are both made from the same latent vector.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# DeepSeek-V3 keeps (512 + 64) * 61 numbers per token.
#
# </details>

# %% [markdown]
# ## 5. Absorb the value projection
#
# Difficulty 4 of 5, about 10 minutes.
#
# In latent attention, head i mixes latents, (query, latent), and its part of `value_up` turns the mix into the context:
# `context_i = mix_i @ value_up_i.T`. The contexts of all heads stand side by side and go through the output projection:
# `output = context @ out_weight.T`. `value_up` is (head * value_dim, latent), `out_weight` is (d_model, head *
# value_dim). Give back one matrix, (d_model, head * latent), that does both: with the mixes of all heads side by side,
# `mixes @ absorbed.T` equals `output`.

# %% nbgrader={"grade": false, "grade_id": "absorb_value_projection", "locked": false, "schema_version": 3, "solution": true, "task": false}
def absorb_value_projection(value_up, out_weight, num_heads):
    # (h * v, latent), (m, h * v), int -> (m, h * latent)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_absorb_value_projection", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("absorb_value_projection", absorb_value_projection)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The output is a sum over the heads: out_weight_i (value_up_i mix_i), where out_weight_i are the columns of head i.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# So head i contributes the matrix out_weight_i @ value_up_i, (d_model, latent).
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Put these side by side along the columns: `torch.cat([...], dim=1)`.
#
# </details>

# %% [markdown]
# ## 6. The slot in a paged cache
#
# Difficulty 2 of 5, about 5 minutes.
#
# A paged cache cuts its memory into blocks of `block_size` slots: block 0 has the first `block_size` slots of the
# memory, block 1 the next ones, and so on. `block_table` lists the blocks of one sequence in the order of its tokens.
# In which slot of the memory is the token at `position`? All are counted from 0.

# %% nbgrader={"grade": false, "grade_id": "flat_slot", "locked": false, "schema_version": 3, "solution": true, "task": false}
def flat_slot(position, block_table, block_size):  # int, list of ints, int -> int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_flat_slot", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("flat_slot", flat_slot)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which entry of the block table does the token belong to? With block_size=4, token 6 belongs to entry 1.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# And in its block it is number `position % block_size`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The first slot of a block is `block * block_size`.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? Then go on with [what heads learn](10_exercises.ipynb).

# %%
progress()
