# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: make it fast
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/11_exercises.ipynb)
#
# You will decide what a computation waits for, count what a model must read to write a token, and write the loops of a
# fused kernel, in which hidden tiles are skipped.
#
# **You need** [lesson 11](../11_fast.ipynb). **It takes** about 35 minutes. Nothing is timed here: only the numbers are
# compared.
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
review("11")

# %%
review("11", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. What a computation waits for
#
# Difficulty 1 of 5, about 3 minutes.
#
# A computation does `operations` multiplications and additions and moves `bytes_moved` bytes. A machine does at most
# `flops_per_second` operations and moves at most `bytes_per_second` bytes per second, both at the same time. Give back
# the word `"memory"` if the computation waits for memory, and `"compute"` if it waits for arithmetic. (Upper and lower
# case are the same.)

# %% nbgrader={"grade": false, "grade_id": "bound_by", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bound_by(operations, bytes_moved, flops_per_second, bytes_per_second):
    # four numbers -> "memory" or "compute"
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_bound_by", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("bound_by", bound_by)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which of the two takes longer, moving the bytes or computing the operations?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# operations / flops_per_second is the time of the arithmetic. What is the other time?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Compare `operations / bytes_moved` with `flops_per_second / bytes_per_second`: below it, memory decides.
#
# </details>

# %% [markdown]
# ## 2. What writing the scores costs
#
# Difficulty 2 of 5, about 5 minutes.
#
# A prompt of `num_tokens` tokens goes through multi-head attention in its explicit form. Count as in the lesson, with
# queries, keys and values read once and the context written once, but now the scores are written to memory and read
# again, and so are the attention weights. How many operations per byte are left? There is no mask, and softmax counts
# no operations.
#
# (For a long prompt the result hardly depends on its length. Try it: that is why a fused kernel gains so much.)

# %% nbgrader={"grade": false, "grade_id": "explicit_intensity", "locked": false, "schema_version": 3, "solution": true, "task": false}
def explicit_intensity(num_tokens, num_heads, head_dim, bytes_per_number):
    # four ints -> float
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_explicit_intensity", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("explicit_intensity", explicit_intensity)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two products of num_heads * num_tokens * num_tokens * head_dim multiplications and as many additions.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Four tensors have num_heads * num_tokens * head_dim numbers. How many numbers have the scores?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The scores and the weights together pass between memory and processor four times.
#
# </details>

# %% [markdown]
# ## 3. How fast a model can write
#
# Difficulty 2 of 5, about 5 minutes.
#
# A server writes `num_texts` texts at once, one new token for each of them per step. In a step it reads all weights of
# the model, `weight_bytes`, and the cache of each text, `cache_bytes` per text. Reading is all that takes time. How
# many new tokens per second, over all texts, does it write at most?

# %% nbgrader={"grade": false, "grade_id": "tokens_per_second", "locked": false, "schema_version": 3, "solution": true, "task": false}
def tokens_per_second(num_texts, weight_bytes, cache_bytes, bytes_per_second):
    # four numbers -> float
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_tokens_per_second", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("tokens_per_second", tokens_per_second)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# How many bytes are read in one step? Which of them are read once, whatever the number of texts?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The time of a step is its bytes divided by bytes_per_second.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A step writes num_texts tokens: divide them by the time of the step.
#
# </details>

# %% [markdown]
# ## 4. Blocks that are skipped
#
# Difficulty 3 of 5, about 7 minutes.
#
# A kernel cuts the scores of `num_tokens` queries and `num_tokens` keys into blocks of `query_block` rows and
# `key_block` columns; the last blocks may be smaller. The mask is causal: a query may attend to itself and to earlier
# keys. Give back a table of bool, (query block, key block), that is True where at least one query of the block may
# attend to at least one of its keys, and False where the block can be skipped.

# %% nbgrader={"grade": false, "grade_id": "causal_blocks", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_blocks(num_tokens, query_block, key_block):
    # three ints -> (query block, key block) of bool
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_causal_blocks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("causal_blocks", causal_blocks)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# In a block, which query sees the most keys, and which key is seen by the most queries?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A block is needed if its last query may attend to its first key.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Query block i ends with query (i + 1) * query_block - 1, and key block j begins with key j * key_block. Compare a
# column of the one with a row of the other; `torch.arange(0, num_tokens, key_block)` makes the row.
#
# </details>

# %% [markdown]
# ## 5. Attention in blocks
#
# Difficulty 4 of 5, about 15 minutes.
#
# The loops of a fused kernel, for one head, from memory; `online_step` of the lesson is given. Such a kernel never
# makes a tensor of all queries and all keys; here only what you give back is compared, so that is up to you. There are
# as many queries as keys. Cut the queries into blocks of `block` rows and the keys likewise; the last blocks may be
# smaller. For each block of queries go through the blocks of keys with an online softmax, scaled. If `causal`, a query
# sees itself and earlier keys, and blocks that are hidden as a whole are skipped. Give back two values: the context,
# (token, width), and how many blocks of scores were computed, an int. The check also comes with scores of several
# thousands, above and below 0.

# %%
def online_step(largest, total, context, scores, values):
    # 2 x (q), (q, d), (q, k), (k, d) -> (q), (q), (q, d)
    new_largest = torch.maximum(largest, scores.amax(dim=-1))
    shrink = (largest - new_largest).exp()  # (query)
    # (query, key), not divided by their sum
    weights = (scores - new_largest[:, None]).exp()
    return (
        new_largest,
        total * shrink + weights.sum(dim=-1),
        context * shrink[:, None] + weights @ values,
    )

# %% nbgrader={"grade": false, "grade_id": "blocked_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def blocked_attention(queries, keys, values, block, causal):
    # 2 x (t, d), (t, width), int, bool -> (t, width), int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_blocked_attention", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("blocked_attention", blocked_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two loops, queries outside and keys inside. Each block of queries starts anew with -inf, 0 and 0, and divides its
# context by its total after its last block of keys.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `online_step` is the inside of the inner loop. If causal, the inner loop ends with the block on the diagonal, and only
# that block needs a mask.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `for first in range(0, len(queries), block)`, inside it `for start in range(0, first + 1 if causal else len(keys),
# block)`. Mask the scores where `start == first`, with a triangle of the block's own size, and add 1 to the count.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? [Lesson 12](../12_debugging_attention.ipynb) finds mistakes that raise no error; [its
# exercises](12_exercises.ipynb) train that.

# %%
progress()
