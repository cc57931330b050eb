# %% [markdown]
# # Exercises: masks and dropout
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/solutions/02_exercises.ipynb)
#
# You will build both masks, hide the future in a table of scores, save a row that may look at nothing, and do by hand
# what dropout does.
#
# **You need** [lesson 02](../02_masks_and_dropout.ipynb). **It takes** about half an hour. A mask is called `keep`
# here, as everywhere in this course: bool, True = may attend.

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
# ## 1. The causal mask
#
# Difficulty 1 of 5, about 3 minutes.
#
# Who may look at whom, for any number of tokens?

# %% nbgrader={"grade": false, "grade_id": "causal_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_mask(num_tokens):  # -> (query, key), bool, True = may attend
    ### BEGIN SOLUTION
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_causal_mask", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("causal_mask", causal_mask).passed
### END HIDDEN TESTS
check("causal_mask", causal_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Row q says what query q may look at: itself and everything before it.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Begin with a square of True, `torch.ones(n, n, dtype=torch.bool)`, and cut one triangle off.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `tril()` keeps the lower triangle with the diagonal.
#
# </details>

# %% [markdown]
# ## 2. Weights that don't see the future
#
# Difficulty 2 of 5, about 5 minutes.
#
# From scores to weights, with the future hidden. The scores are given to you and are not to be changed: others may
# still need them.

# %% nbgrader={"grade": false, "grade_id": "causal_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def causal_weights(scores):  # (batch, query, key) -> (batch, query, key)
    ### BEGIN SOLUTION
    keep = causal_mask(scores.shape[-1])
    return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_causal_weights", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("causal_weights", causal_weights).passed
### END HIDDEN TESTS
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
# Difficulty 2 of 5, about 5 minutes.
#
# Sentences of these lengths stand in a batch, each filled up with padding on the right. Nobody may look at the padding.
# The mask shall fit scores of (batch, head, query, key).

# %% nbgrader={"grade": false, "grade_id": "padding_mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
def padding_mask(lengths, num_tokens):  # list of batch lengths, int -> (batch, 1, 1, key), bool
    ### BEGIN SOLUTION
    real = torch.arange(num_tokens) < torch.tensor(lengths)[:, None]  # (key) < (batch, 1) -> (batch, key)
    return real[:, None, None]  # (batch, key) -> (batch, 1, 1, key)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_padding_mask", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("padding_mask", padding_mask).passed
### END HIDDEN TESTS
check("padding_mask", padding_mask)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Token k of sample b is real if k is less than lengths[b].
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `torch.arange(num_tokens) < lengths[:, None]` compares all tokens with all lengths: (batch, key).
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scores are (batch, head, query, key): put two axes of size 1 between batch and key, `[:, None, None]`.
#
# </details>

# %% [markdown]
# ## 4. A row that may look at nothing
#
# Difficulty 3 of 5, about 8 minutes.
#
# With padding on the left, some rows may look at nothing at all. Such a row shall get weights of 0, not nan; all other
# rows are as ever.

# %% nbgrader={"grade": false, "grade_id": "safe_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def safe_weights(scores, keep):  # (batch, query, key), (batch, query, key) bool -> (batch, query, key)
    ### BEGIN SOLUTION
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~keep, lowest).softmax(dim=-1)
    return weights.masked_fill(~keep, 0.0)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_safe_weights", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("safe_weights", safe_weights).passed
### END HIDDEN TESTS
check("safe_weights", safe_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# With minus infinity in the whole row, softmax divides 0 by 0. Rows without a choice shall give zeros.
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
# ## 5. What dropout does to a weight
#
# Difficulty 2 of 5, about 4 minutes.
#
# The dice have been thrown: `drop` is True where a weight is to be dropped. What does dropout with probability `p` make
# of the weights, in training and in evaluation?

# %% nbgrader={"grade": false, "grade_id": "dropped_weights", "locked": false, "schema_version": 3, "solution": true, "task": false}
def dropped_weights(weights, drop, p, training):  # (query, key), (query, key) bool, float, bool -> (query, key)
    ### BEGIN SOLUTION
    if not training:
        return weights
    return weights.masked_fill(drop, 0.0) / (1 - p)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_dropped_weights", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("dropped_weights", dropped_weights).passed
### END HIDDEN TESTS
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
# ## Where you stand
#
# Passed them all? [Lesson 03](../03_wrapper.ipynb) puts heads side by side.

# %%
progress()
