# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: write it yourself
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/14_exercises.ipynb)
#
# You will write the pieces of a small GPT that the lesson took from PyTorch or left out: the loss, the normalization,
# two ways to choose the next token, and the number of parameters of a configuration.
#
# **You need** [lesson 14](../14_capstone.ipynb). **It takes** about half an hour. Nothing is trained, but the loss must
# be ready for it: its gradients are compared, too.
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
review("14")

# %%
review("14", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. How wrong a prediction is
#
# Difficulty 2 of 5, about 6 minutes.
#
# After each token a model scores all tokens of its vocabulary: `scores` is (batch, token, vocabulary), and softmax
# makes probabilities of them. The loss is the mean of -log(probability of the token that really came next), over all
# tokens that have a next one. Return it as a tensor with a single number. A model is trained with it, so gradients must
# get back to `scores`. Scores of 1000 must not overflow, and a token whose score lies 1000 below the others adds about
# 1000, not infinity.

# %% nbgrader={"grade": false, "grade_id": "next_token_loss", "locked": false, "schema_version": 3, "solution": true, "task": false}
def next_token_loss(scores, tokens):
    # (batch, token, vocabulary), (batch, token) of integers -> a number
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_next_token_loss", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("next_token_loss", next_token_loss)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The scores at token t predict the token at t + 1. For which tokens is there nothing to compare with?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Drop the last scores and the first token. `log_softmax(dim=-1)` is safe for large scores.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `F.cross_entropy` wants (n, vocabulary) and (n): `scores[:, :-1].flatten(0, 1)` and `tokens[:, 1:].flatten()`.
#
# </details>

# %% [markdown]
# ## 2. LayerNorm by hand
#
# Difficulty 2 of 5, about 5 minutes.
#
# For each token by itself: take away the mean of its elements, divide by the square root of their variance plus 1e-5,
# multiply by `gain` and add `shift`. The variance is the mean of the squared distances from the mean: divide by the
# width, not by the width minus one. Use neither `nn.LayerNorm` nor `F.layer_norm`, if you want to learn something.

# %% nbgrader={"grade": false, "grade_id": "layer_norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
def layer_norm(x, gain, shift):
    # (batch, token, width), two of (width) -> (batch, token, width)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_layer_norm", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("layer_norm", layer_norm)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Over which axis are mean and variance taken, if each token is on its own? Keep that axis, with size 1.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `x.var(dim=-1, keepdim=True)` divides by the width minus one, unless you say `correction=0`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `(x - mean) / (variance + 1e-5).sqrt() * gain + shift`.
#
# </details>

# %% [markdown]
# ## 3. Colder and warmer
#
# Difficulty 1 of 5, about 3 minutes.
#
# Divide the scores by the temperature, and make probabilities of them. Below 1 the likeliest token gets even more;
# above 1 all of them come closer. The check also comes with a temperature of 0.01.

# %% nbgrader={"grade": false, "grade_id": "with_temperature", "locked": false, "schema_version": 3, "solution": true, "task": false}
def with_temperature(scores, temperature):
    # (batch, vocabulary), a number above 0 -> (batch, vocabulary)
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_with_temperature", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("with_temperature", with_temperature)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What is divided: the scores, or the probabilities?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Softmax comes last, over the axis of the vocabulary, so that each row sums to 1.
#
# </details>

# %% [markdown]
# ## 4. Only the k best
#
# Difficulty 2 of 5, about 6 minutes.
#
# A bad token has a small probability, but there are many of them. Give back probabilities in which, in each row, only
# the `k` tokens with the largest scores have a chance: all others get 0, and what remains sums to 1 and keeps its
# proportions. `torch.topk` finds the largest of each row. (Fan, Lewis and Dauphin, Hierarchical Neural Story
# Generation, 2018.)

# %% nbgrader={"grade": false, "grade_id": "top_k_probabilities", "locked": false, "schema_version": 3, "solution": true, "task": false}
def top_k_probabilities(scores, k):
    # (batch, vocabulary), an int -> (batch, vocabulary), rows sum to 1
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_top_k_probabilities", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("top_k_probabilities", top_k_probabilities)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# It is a mask, as in attention: what shall get probability 0 gets the score -inf before softmax.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `scores.topk(k, dim=-1).values[:, -1:]` is the smallest score that stays, (batch, 1).
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `scores.masked_fill(scores < worst_kept, -torch.inf).softmax(dim=-1)`.
#
# </details>

# %% [markdown]
# ## 5. How large a GPT is
#
# Difficulty 3 of 5, about 9 minutes.
#
# Count the parameters of a GPT from its sizes. It has an embedding per token of the vocabulary and one per position
# (`max_len` of them), each `width` wide. Each of the `num_layers` blocks has attention without biases, whose keys are
# `kv_width` wide over all kv heads, and so are its values, while queries and output are `width` wide; an MLP with
# biases, from width to 4 * width and back; and two LayerNorms with gain and shift. A third LayerNorm comes after the
# last block. The matrix that scores the next token is the embedding of the vocabulary once more, so it has no
# parameters of its own (weight tying: Press and Wolf, Using the Output Embedding to Improve Language Models, 2017).

# %% nbgrader={"grade": false, "grade_id": "gpt_parameters", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gpt_parameters(vocabulary, max_len, width, num_layers, kv_width):
    # five ints -> int
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_gpt_parameters", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("gpt_parameters", gpt_parameters)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Count one block first, then the parts that exist only once.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Attention has four matrices, of which two are width by width and two width by kv_width. The MLP has two matrices and
# two biases.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The biases of the MLP are 4 * width and width; a LayerNorm has 2 * width. Everything in a block times the layers, plus
# two embeddings and one LayerNorm.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? Then attention, the loss, the normalization and the choice of the next token are your own. The lesson
# gave you the embedding, the block and the training loop: write those, too, and nothing is left.

# %%
progress()
