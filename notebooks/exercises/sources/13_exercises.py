# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: many devices
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/13_exercises.ipynb)
#
# You will compute what one device adds to the output of a layer, who adds the biases, what a device keeps and sends,
# and how many devices are best; at the end you merge keys that lie on several devices.
#
# **You need** [lesson 13](../13_many_devices.ipynb). **It takes** about forty minutes. Devices are counted from 0, and
# heads are dealt out in order: with 4 heads and 2 devices, device 0 has heads 0 and 1. No second device is needed.
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
review("13")

# %%
review("13", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. What one device adds
#
# Difficulty 3 of 5, about 10 minutes.
#
# One device holds its rows of the three projections, `w_q`, `w_k` and `w_v`, each (heads of this device * head_dim,
# d_in), and its columns of `out_proj`, `w_o`, (d_out, heads of this device * head_dim). Give back its part of the
# layer's output, (batch, token, d_out): causal, without bias. Added over all devices, these parts are the whole output.
# How many heads the device has follows from the shapes. The check also comes with scores of -20000 and less.

# %% nbgrader={"grade": false, "grade_id": "partial_output", "locked": false, "schema_version": 3, "solution": true, "task": false}
def partial_output(
    x, w_q, w_k, w_v, w_o, head_dim
):  # (b, t, d_in), 3 x (h * d, d_in), (d_out, h * d), int -> (b, t, d_out)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_partial_output", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("partial_output", partial_output)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is multi-head attention as ever, with fewer heads. Only the number of heads must come from somewhere.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `w_q` has heads * head_dim rows. In `view(batch, num_tokens, -1, head_dim)` PyTorch counts the heads for you.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Split, transpose, scale by head_dim ** -0.5, mask, softmax, weigh the values, transpose back and flatten; then `merged
# @ w_o.T`, which is (batch, token, d_out) although the device has only some of the heads.
#
# </details>

# %% [markdown]
# ## 2. Biases on one device
#
# Difficulty 2 of 5, about 5 minutes.
#
# Now `q_proj` and `out_proj` have biases. `q_bias` is added to the queries of all heads, (head * head_dim), and
# `out_bias` to the output, (d_out). Give back two tensors: the bias that device `device` adds to its own queries, and
# the one that it adds to its output. The outputs of all devices are added up afterwards; by agreement device 0 takes
# care of the output's bias, and the others have zeros there.

# %% nbgrader={"grade": false, "grade_id": "biases_of_device", "locked": false, "schema_version": 3, "solution": true, "task": false}
def biases_of_device(q_bias, out_bias, device, num_devices):
    # (head * head_dim), (d_out), int, int -> two tensors
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_biases_of_device", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("biases_of_device", biases_of_device)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which numbers of `q_bias` belong to the rows that the device holds?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# If every device added `out_bias`, how often would the sum contain it?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The device's part of `q_bias`, cut like rows; `out_bias` on device 0, `torch.zeros_like(out_bias)` elsewhere.
#
# </details>

# %% [markdown]
# ## 3. The cache on each device
#
# Difficulty 2 of 5, about 4 minutes.
#
# How many bytes does one layer's cache take on each device, for one text of `num_tokens` tokens? The kv heads are dealt
# out whole. If there are fewer of them than devices, each device holds one, and some kv heads are kept several times.
# One of the two numbers is always a multiple of the other.

# %% nbgrader={"grade": false, "grade_id": "cache_per_device", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cache_per_device(num_tokens, num_kv_heads, head_dim, num_devices, bytes_per_number):
    # five ints -> int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_cache_per_device", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("cache_per_device", cache_per_device)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# First: how many kv heads does a device hold?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Its share, num_kv_heads // num_devices, but never less than one.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# That number, times 2 for keys and values, times num_tokens, head_dim and bytes_per_number.
#
# </details>

# %% [markdown]
# ## 4. What one device sends per token
#
# Difficulty 2 of 5, about 5 minutes.
#
# A model has `num_layers` layers. In each of them the output of attention and the output of the feedforward part are
# added over `num_devices` devices, so there are two all-reduces per layer. In one decoding step each of `num_texts`
# texts gets one new token; a tensor that is added up is (num_texts, 1, d_model). How many bytes does one device *send*
# in such a step, if each all-reduce goes round a ring? `num_devices` divides `d_model`.

# %% nbgrader={"grade": false, "grade_id": "ring_bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ring_bytes(num_layers, num_texts, d_model, num_devices, bytes_per_number):
    # five ints -> int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_ring_bytes", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("ring_bytes", ring_bytes)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# How many bytes has one tensor, and how many of them does a device send per step of the ring?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A ring takes 2 * (num_devices - 1) steps, and in each a device sends one of num_devices equal pieces.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Multiply by the number of all-reduces: two per layer.
#
# </details>

# %% [markdown]
# ## 5. How many devices are best
#
# Difficulty 3 of 5, about 7 minutes.
#
# On one device a decoding step reads the weights in `weights_ms` milliseconds and the cache in `cache_ms`. With n
# devices the weights are cut n times; the cache is cut as often as there are kv heads to deal out, and no further. All
# the all-reduces of a step together take `(n - 1) * ring_ms`, because the ring gets longer. `degrees` lists the numbers
# of devices that you may choose from. Give back the one with the shortest step.

# %% nbgrader={"grade": false, "grade_id": "best_degree", "locked": false, "schema_version": 3, "solution": true, "task": false}
def best_degree(weights_ms, cache_ms, num_kv_heads, ring_ms, degrees):
    # four numbers, list of int -> int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_best_degree", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("best_degree", best_degree)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write the time of a step with n devices: three terms.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Weights: weights_ms / n. The cache stops at num_kv_heads: cache_ms / min(n, num_kv_heads).
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Compute the sum for each number in `degrees`, and give back the number at which the sum is smallest.
#
# </details>

# %% [markdown]
# ## 6. Keys on several devices
#
# Difficulty 3 of 5, about 7 minutes.
#
# Each device holds some of the keys and values, and all queries. `outputs[i]` is the finished attention of device i
# over its own keys, softmax included, and `lses[i]` its `scores.logsumexp(dim=-1)`, one number per query. Give back the
# attention over the keys of all devices. The check also comes with scores around 2000 and -2000, with scores far apart
# from query to query, and with queries that see no key of the last device: their lse there is -inf, their output 0.

# %% nbgrader={"grade": false, "grade_id": "merge_devices", "locked": false, "schema_version": 3, "solution": true, "task": false}
def merge_devices(outputs, lses):
    # (device, query, width), (device, query) -> (query, width)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_merge_devices", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("merge_devices", merge_devices)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# How much of the whole softmax falls to one device? Its sum of exponentials, divided by that of all devices.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A device's sum is exp(lse). exp(2000) is infinite, but a fraction does not change if the same number is taken from all
# lses first. Which function does exactly that?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `lses.softmax(dim=0)` has one fraction per device and query; multiply the outputs by it and add over devices.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? In [lesson 14](../14_capstone.ipynb) you write attention from memory, and a small model made of it
# learns to spell.

# %%
progress()
