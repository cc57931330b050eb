# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: what heads learn
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/10_exercises.ipynb)
#
# You will measure what a model gets right and where its heads look, take a head away in two ways, and exchange what it
# found by that of another run.
#
# **You need** [lesson 10](../10_what_heads_learn.ipynb). **It takes** about half an hour. Nothing is trained: each
# function gets the numbers of a model, and all attention weights are causal, so that a weight on a later token is 0.
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
review("10")

# %%
review("10", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. Count right answers
#
# Difficulty 2 of 5, about 5 minutes.
#
# `logits` (batch, token, letter) are a model's scores for the *next* token: those at position t predict token t + 1.
# `known` is True for each token that could be predicted. Give back the share of these tokens that the largest logit
# gets right, over all samples together, as a number or a tensor with one element. Token 0 is never predicted, so its
# `known` is False.

# %% nbgrader={"grade": false, "grade_id": "known_accuracy", "locked": false, "schema_version": 3, "solution": true, "task": false}
def known_accuracy(logits, tokens, known):
    # (batch, token, letter), (batch, token), (batch, token) of bool -> number
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_known_accuracy", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("known_accuracy", known_accuracy)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Which position predicts token 5? Bring the answers and the tokens to the same length first.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The answers of all positions but the last belong to all tokens but the first, and `known` belongs to tokens.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `right = logits[:, :-1].argmax(-1) == tokens[:, 1:]`, then the mean of `right[known[:, 1:]]` as floats.
#
# </details>

# %% [markdown]
# ## 2. Where in the sequence a head looks back
#
# Difficulty 2 of 5, about 4 minutes.
#
# A head may look at the token before it at some places and not at others. For each head and each query but the first,
# give back the mean weight on the token right before, over the samples only. Column 0 is about query 1.

# %% nbgrader={"grade": false, "grade_id": "weight_before_by_place", "locked": false, "schema_version": 3, "solution": true, "task": false}
def weight_before_by_place(weights):  # (batch, head, query, key) -> (head, query - 1)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_weight_before_by_place", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("weight_before_by_place", weight_before_by_place)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Query 1 looks at key 0, query 2 at key 1, and so on. Which diagonal of each head's table is that?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The diagonal one below the main one is (batch, head, query - 1). Which of its axes has to go?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `weights.diagonal(-1, 2, 3).mean(0)`.
#
# </details>

# %% [markdown]
# ## 3. Take a head away
#
# Difficulty 2 of 5, about 4 minutes.
#
# `contexts` is what each head of a layer found, (batch, head, token, head_dim), and `w_o` is the weight of its
# `out_proj`, (d_out, head * head_dim), without bias. Give back the layer's output with nothing of head number `head` in
# it, (batch, token, d_out). The other heads give what they gave before. Leave `contexts` as it is.

# %% nbgrader={"grade": false, "grade_id": "ablate_head", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ablate_head(contexts, w_o, head):
    # (batch, head, token, d), (d_out, head * d), int -> (batch, token, d_out)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_ablate_head", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("ablate_head", ablate_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The output is a sum of what each head gives. Which term has to go?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Either the head's context becomes 0, or its columns of `w_o` do: head i owns the columns from i * head_dim to (i + 1)
# * head_dim - 1. Change a copy, not the argument.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `kept = contexts.clone()`, then `kept[:, head] = 0`, then merge the heads as ever, `kept.transpose(1, 2).flatten(2)`,
# and multiply by `w_o.T`.
#
# </details>

# %% [markdown]
# ## 4. Put a head's mean in its place
#
# Difficulty 2 of 5, about 5 minutes.
#
# Zeros may be something that the next layer has never met. Mean ablation puts an average in the head's place: its own
# context, averaged over all samples and all tokens, so that every token gets the same vector. `contexts` (batch, head,
# token, head_dim) and `w_o` (d_out, head * head_dim) are as in the exercise before. Give back the layer's output,
# (batch, token, d_out), and leave `contexts` as it is.

# %% nbgrader={"grade": false, "grade_id": "mean_ablate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mean_ablate(contexts, w_o, head):
    # (batch, head, token, d), (d_out, head * d), int -> (batch, token, d_out)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_mean_ablate", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("mean_ablate", mean_ablate)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `contexts[:, head]` is what the head found, (batch, token, head_dim). Which of its axes does the mean remove?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The mean over the first two axes is one vector of head_dim numbers. Write it into a copy of `contexts`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `kept = contexts.clone()`, `kept[:, head] = contexts[:, head].mean(dim=(0, 1))`, then merge the heads and multiply by
# `w_o.T`.
#
# </details>

# %% [markdown]
# ## 5. Exchange what one head found
#
# Difficulty 2 of 5, about 5 minutes.
#
# Activation patching: `contexts` is what the heads of a layer found in one run, `others` what they found in another,
# both (batch, head, token, head_dim). Give back the layer's output, (batch, token, d_out), for the first run, but with
# head number `head` taken from the other one. `w_o` is (d_out, head * head_dim). Leave `contexts` as it is.

# %% nbgrader={"grade": false, "grade_id": "patch_head", "locked": false, "schema_version": 3, "solution": true, "task": false}
def patch_head(contexts, others, w_o, head):
    # 2 x (batch, head, token, d), (d_out, head * d), int -> (b, t, d_out)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_patch_head", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("patch_head", patch_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Nearly everything is the first run. Which slice comes from the other?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `others[:, head]` is (batch, token, head_dim). Write it into a copy of `contexts`, not into the argument.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `patched = contexts.clone()`, `patched[:, head] = others[:, head]`, then merge the heads and multiply by `w_o.T`.
#
# </details>

# %% [markdown]
# ## 6. Find an attention sink
#
# Difficulty 1 of 5, about 4 minutes.
#
# How much of its weight does each head put on the first token? Give back the mean over all samples and over all queries
# but the first, which can see nothing but itself and always gives 1. A high score is a bright column, which need not be
# a sink: a sink adds nearly nothing to the output, as its value is close to 0, but a head may also look at the first
# token because it copies what it finds there, as in the lesson.

# %% nbgrader={"grade": false, "grade_id": "sink_weight", "locked": false, "schema_version": 3, "solution": true, "task": false}
def sink_weight(weights):  # (batch, head, query, key) -> (head)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_sink_weight", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("sink_weight", sink_weight)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The weights on the first token are one column of each head's table. Which one?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `weights[:, :, 1:, 0]` is (batch, head, query - 1).
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Take its mean over the samples and the queries, `.mean(dim=(0, 2))`.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? [Lesson 11](../11_fast.ipynb) counts what attention costs.

# %%
progress()
