# %% [markdown]
# # Start here
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/00_start_here.ipynb)
#
# "The mouse ate the cheese." "The mouse is next to the keyboard." You know at once which kind of mouse is meant,
# because you look at the other words. A model that describes each word by a fixed list of numbers can't tell the two
# apart. The numbers for "mouse" have to depend on the words around it, and **attention** is the step of a model that
# takes these words into account.
#
# In this course you write attention yourself: first a single one, which is called a head, then many of them side by
# side, then the forms that today's language models use, and at the end a tiny model that writes. In this lesson you
# check that your notebook works, and blend the mouse with the mean of its sentence, in three lines of code. Then you
# see attention, on another sentence, take much from some words and little from others, and learn to read its picture.
#
# **You need** Python, basic PyTorch (tensors, `@`, `nn.Module`, `.backward()`), and a rough idea of what a matrix
# product, a gradient and a standard deviation are. **It takes** about 25 minutes.

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

# %% [markdown]
# ## Is everything here?
#
# Click into a cell and press **Shift + Enter** to run it. The next cell prints the versions that you have. Yours may
# differ from the ones stored here, and that is fine.

# %% tags=["versions", "nbval-ignore-output"]
import platform

import torch

from course_lib.device import course_device

device = course_device()
print("Python", platform.python_version())
print("torch", torch.__version__, "on", device)

# %% [markdown]
# The last word is the **device** on which this notebook computes. It is `cpu`, unless you chose a **kernel** (the
# process that runs your cells) for a GPU in the menu *Kernel > Change Kernel*. Apart from timings and from models that
# you train, the lessons give the same numbers on both devices, up to rounding.
#
# ## Tokens and embeddings
#
# A model does not read words. A text is cut into **tokens**, which are words or pieces of words, and each token is
# looked up in a table that holds a row of numbers for it. This row is the token's **embedding**. Real models use
# hundreds or thousands of numbers per token and learn them in training. For the two sentences about the mouse, eight
# words with two numbers each will do. We made the numbers up: the first says how much a word has to do with animals
# and food, the second how much it has to do with computers.

# %%
from course_lib.exercises import check, filled, from_earlier, predict
from course_lib.show import show

vocabulary = ["the", "mouse", "ate", "cheese", "is", "next", "to", "keyboard"]
rows = [
    [0.1, 0.1], [0.6, 0.6], [0.8, 0.1], [0.9, 0.1],
    [0.1, 0.1], [0.1, 0.2], [0.1, 0.1], [0.0, 1.0],
]
table = torch.tensor(rows, device=device)
show("table", table, "token width", vocabulary, digits=1)

# %% [markdown]
# `show` is the course's way to print a tensor: it names the axes and their sizes, and it labels each row with its
# word. The row of "mouse" has as much of the animal as of the computer, because a table can't know which one is meant.
#
# **Write it yourself.** Turn a sentence into its embeddings, one row per token. Put your lines in place of
# `raise NotImplementedError`; such a function that you write is called a **blank**. As long as a blank is empty or
# wrong, the lesson goes on with the course's version.

# %%
def embed_sentence(sentence, vocabulary, table):
    # str, list of words, (word, width) -> (token, width)
    raise NotImplementedError  # three lines: split, vocabulary.index, the rows


embed_sentence = filled("embed_sentence", embed_sentence)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def embed_sentence(sentence, vocabulary, table):
#     # str, list of words, (word, width) -> (token, width)
#     tokens = sentence.split()
#     rows = [vocabulary.index(token) for token in tokens]
#     return table[rows]
# ```
#
# A tensor that is indexed with a list of row numbers returns these rows, in this order.
#
# </details>

# %%
at_the_cheese = embed_sentence("the mouse ate the cheese", vocabulary, table)
at_the_keyboard = embed_sentence("the mouse is next to the keyboard", vocabulary, table)
print(
    tuple(at_the_cheese.shape), "and", tuple(at_the_keyboard.shape), "= (token, width)"
)
print("'mouse' is the same in both:", torch.equal(at_the_cheese[1], at_the_keyboard[1]))

# %% [markdown]
# ## Let the neighbours in
#
# The table holds one mouse for both sentences. The simplest remedy is to give each token something of its whole
# sentence: it keeps a part of its own vector, and takes the rest from the mean of all vectors.
#
# **Write it yourself.** `share` is the part that comes from the mean.

# %%
def blend_with_mean(embeddings, share):
    # (token, width), a number from 0 to 1 -> (token, width)
    raise NotImplementedError  # three lines: the mean, the own part, both


blend_with_mean = filled("blend_with_mean", blend_with_mean)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def blend_with_mean(embeddings, share):
#     # (token, width), a number from 0 to 1 -> (token, width)
#     mean = embeddings.mean(dim=0)  # (width), the mean over all tokens
#     own = (1 - share) * embeddings
#     return own + share * mean
# ```
#
# The mean is a single row. PyTorch adds it to each row of `own`, which is called *broadcasting*.
#
# </details>
#
# Here is the mouse after each sentence has given it one half, as arrows: to the right is animals and food, upwards is
# computers.

# %%
from course_lib.pictures import draw_vectors

mouse_at_the_cheese = blend_with_mean(at_the_cheese, 0.5)[1]
mouse_at_the_keyboard = blend_with_mean(at_the_keyboard, 0.5)[1]
arrows = {"in the table": embed_sentence("mouse cheese keyboard", vocabulary, table)}
arrows["mouse at the cheese"] = mouse_at_the_cheese
arrows["mouse at the keyboard"] = mouse_at_the_keyboard
title = "One word, two sentences, two vectors"
draw_vectors(arrows, words=["mouse", "cheese", "keyboard"], title=title)

# %%
mouse = table[vocabulary.index("mouse")]
mice = torch.stack([mouse, mouse_at_the_cheese, mouse_at_the_keyboard])
places = ["in the table", "at the cheese", "at the keyboard"]
show("'mouse'", mice, "token width", places, digits=2)

# %% [markdown]
# One word now has two vectors. The mouse that ate the cheese is more animal than computer, 0.55 against 0.40, and the
# mouse next to the keyboard is more computer than animal, 0.46 against 0.38. The table did not say so; the neighbours
# did. All four numbers are smaller than the 0.60 of the table, however, so even at the keyboard the mouse has less of
# the computer than before. The last is the fault of words such as "the" and "is": both of their numbers are close to 0,
# and they pull the mean down.
#
# **Predict.** In "the cheese ate the mouse" the same words stand in another order. Does the blend give "mouse" the
# same vector as in "the mouse ate the cheese"? Write your guess in place of the dots and run the cell. As long as
# there is no guess, it gives nothing away.

# %%
eaten = embed_sentence("the cheese ate the mouse", vocabulary, table)
eaten_mouse = blend_with_mean(eaten, 0.5)[4]
guess = ...  # write "yes" or "no" in place of the dots
predict(guess, lambda: torch.allclose(eaten_mouse, mouse_at_the_cheese))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It gives the same vector, because a mean does not depend on the order. Attention by itself has the same weakness as
# long as no word is hidden from any other, and [lesson 07](07_order_and_padding.ipynb) removes it.
#
# </details>
#
# The mean is a crude tool: each time that "the" stands in a sentence, it counts as much as "cheese", although it
# says nothing about mice. Attention lets each token choose: it takes much from some tokens and little from others, and
# which ones is something that a model learns.
#
# ## Attention changes a word's numbers
#
# Most lessons use another sentence, six tokens with three made-up numbers each, so that you can check every one of
# them by eye:

# %%
from course_lib.inputs import dream_big

words, embeddings, x = dream_big(device=device)
show("embeddings", embeddings, "token width", words, digits=2)
print("x:", tuple(x.shape), "= (batch, token, width)")

# %% [markdown]
# The layers of this course always take a **batch**, which is several sentences at once. Their input `x` therefore has
# one axis more than `embeddings`, even if there is only one sentence in it.
#
# Here is an attention layer. (A **layer** is a part of a model that computes new numbers from its input, with numbers
# of its own that are learned.) You need not understand this cell yet, because you will write such a layer yourself in
# [lesson 01](01_single_head.ipynb). It takes our sentence and returns two numbers per token.

# %%
from course_lib.attention import SingleHeadAttention

torch.manual_seed(99)
head = SingleHeadAttention(d_in=3, d_out=2, causal=False)
with torch.no_grad():
    head.q_proj.weight *= 4  # larger than untrained weights, so that a pattern shows
    head.k_proj.weight *= 4
head = head.to(device)
output, weights = head(x, return_weights=True)
show("output", output[0], "token width", words)

# %% [markdown]
# **Predict.** We replace the three numbers of the first token, "Dream", by others and leave the other five tokens as
# they are. How many of the six rows of the output change?

# %%
other = x.clone()
other[0, 0] = torch.tensor([0.1, 0.9, 0.2], device=device)  # instead of "Dream"
# one True or False per row: has any of its numbers changed?
row_changes = (head(other)[0] != output[0]).any(dim=-1)
guess = ...  # write a number from 0 to 6 in place of the dots
predict(guess, lambda: int(row_changes.sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# All six change: the row of the token that we replaced, and also the rows of the five tokens that we left alone,
# because each of them takes something from "Dream". This is what attention is for: the numbers of a word now depend
# on its neighbours.
#
# </details>
#
# ## What an attention weight is
#
# For each token, the layer computes how much to take from each token of the sentence, itself included. These numbers
# are the **attention weights**. The output of a token is a mix of what all tokens offer, and its attention weights
# are the shares of this mix. We draw them as a **heatmap**. Read two remarks before you look at it:
#
# > **The pattern means nothing.** Nobody has trained this layer. Its numbers were drawn at random, so it is chance
# > which word attends to which. Trained layers come in [lesson 10](10_what_heads_learn.ipynb). Until then, look at
# > *how* the numbers are computed, and don't ask why one word attends to another.
# >
# > **"Weight" has two meanings.** An *attention weight* says how much one token takes from another. It is computed
# > anew for each sentence. A *weight matrix* belongs to the model, like `head.q_proj.weight`. It is learned once,
# > and then it is the same for all sentences.

# %%
from course_lib.pictures import heatmap

heatmap(weights, words)

# %% [markdown]
# You read it as follows:
#
# - A **row** is the token that looks, the *query*. A **column** is a token that it looks at, the *key*.
# - The number in a cell is an attention weight, from 0 to 1. The colour shows the same number.
# - Each row sums to 1, because a row contains all the shares of one token's mix. (The printed numbers are rounded, so
#   their sum may be off by a hundredth.)
#
# **Read it.** From which token does "and" take most? Find its row, then the brightest cell in it, and write your
# answer as you write a guess.

# %%
# those of the first sentence: (batch, 1, query, key) -> (query, key)
weight_table = weights[0, 0]
row = weight_table[words.index("and")]
guess = ...  # write a word in quotes in place of the dots
predict(guess, lambda: words[row.argmax()])  # the word at the row's largest number

# %% [markdown]
# <details><summary>After your answer</summary>
#
# The brightest cell in the row of "and" is in the column of "it", with 0.44. If you answered "for", you went down the
# column of "and" instead, and this column shows how much the others take from "and".
#
# </details>
#
# ## How the lessons work
#
# The sentence below a cell tells you what to notice in its output. Change a number and run the cell again. You can't
# break anything: *Ctrl + Z* takes back what you typed in a cell, and *Restart Kernel and Run All Cells* in the menu
# *Kernel* computes everything anew from the cells as they are. Most terms are set in bold in the place that explains
# it, and the course's web book has a glossary.
#
# You have already met blanks and **predictions**. Guess before you run the cell, because a wrong guess shows you what
# you have not understood yet. Here is one more blank, about the table of attention weights above.

# %%
def row_sums(weights):  # (query, key) -> (query): what does each row add up to?
    raise NotImplementedError  # one line, with weights.sum(dim=...)


row_sums = filled("row_sums", row_sums)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def row_sums(weights):  # (query, key) -> (query)
#     return weights.sum(dim=1)
# ```
#
# </details>

# %%
show("row sums", row_sums(weight_table), "query", words)

# %% [markdown]
# Each row sums to 1, up to rounding.
#
# All other lessons have **exercises** in a notebook of their own. There you call `check` on your answer, which runs
# your code on inputs of its own and tells you what is wrong with it. This is its verdict on a sum along the wrong axis:

# %%
check("row_sums", lambda weights: weights.sum(dim=0))

# %% [markdown]
# If you work in *my_course*, the folder of your own copies of the lessons, a right answer is kept there. A later
# lesson brings it back with `from_earlier`, so that you go on building with your own code. In other places, such as
# Colab, nothing is kept, and `from_earlier` returns the course's version even if your own has passed:

# %%
row_sums = from_earlier("row_sums")

# %% [markdown]
# ## What is different here
#
# 1. **You write the code, and mistakes have names.** The check recognises the usual mistakes by their results. In
#    [lesson 12](12_debugging_attention.ipynb) you meet a tool that does the same for attention code from elsewhere.
# 2. **Pictures are drawn from your tensors.** They are computed when you run their cell, so they change with your code.
#    (Only some pictures of lessons 11 and 13 show stored measurements and the limits of machines.)
# 3. **Claims are checked.** Where a lesson says that two ways of computing attention are the same, it compares their
#    numbers in a cell, like this:

# %%
import torch.nn.functional as F

queries, keys, values = head.q_proj(x), head.k_proj(x), head.v_proj(x)
by_pytorch = F.scaled_dot_product_attention(queries, keys, values)
torch.testing.assert_close(output, by_pytorch)
print("the course's head and PyTorch's own attention are equal")

# %% [markdown]
# ## The lessons
#
# Together they take about 10½ hours. The minutes are those that each lesson states: the time to read it, to run it, and
# to fill in its blanks. If you also try each *Your turn*, and stop where something is new to you, count an hour per
# lesson. The exercises take additional time.
#
# | lesson | you end up with | minutes |
# |---|---|---|
# | 00 Start here | one word, two vectors, and how to read a heatmap | 25 |
# | [01 Build one attention head](01_single_head.ipynb) | one token by hand, then matrices, then your `MyHead` | 40 |
# | [02 Hide what must not be seen](02_masks_and_dropout.ipynb) | causal and padding masks, and a test for both | 45 |
# | [03 Put heads side by side](03_wrapper.ipynb) | several heads as a list, and why several | 35 |
# | [04 Reshape and transpose](04_reshape_and_transpose.ipynb) | what `view` and `transpose` do to memory | 35 |
# | [05 Split the weights](05_weight_split.ipynb) | multi-head attention as it is really written | 45 |
# | [06 Share keys and values](06_multi_query.ipynb) | multi-query and grouped-query attention | 45 |
# | [07 Order, padding, and two sequences](07_order_and_padding.ipynb) | positions; attention across two texts | 45 |
# | [08 Llama's attention and its cache](08_llama.ipynb) | a real model's attention and generated words | 45 |
# | [09 Shrink the cache further](09_smaller_caches.ipynb) | windows, sinks, latent attention, pages | 45 |
# | [10 See what heads learn](10_what_heads_learn.ipynb) | tiny models that you train, and what their heads do | 45 |
# | [11 Make it fast, and know why](11_fast.ipynb) | how fast kernels work, and the limits of a machine | 45 |
# | [12 Find what no error reports](12_debugging_attention.ipynb) | tests that find silent mistakes | 45 |
# | [13 Spread heads over many devices](13_many_devices.ipynb) | attention on two processes, and on many GPUs | 45 |
# | [14 Write it yourself](14_capstone.ipynb) | a tiny language model, written from an empty cell | 45 |
#
# If you are short of time, take lessons 01 to 06: they lead from one head to multi-query attention.
#
# **Next:** [01 Build one attention head](01_single_head.ipynb).
