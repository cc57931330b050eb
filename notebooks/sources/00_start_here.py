# %% [markdown]
# # Start here
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/00_start_here.ipynb)
#
# A small model is about to tell you a story. Then you'll switch off one part of it, and the story will fall to
# pieces. That part is **attention**, and in this course you write it yourself: one head first, then many heads side
# by side, then the forms that today's language models use. Much of what you write goes into a storyteller like this
# one, and you read what becomes of its stories.
#
# **You need** Python, basic PyTorch (tensors, `@`, `nn.Module`, `.backward()`), and a rough idea of what a matrix
# product, a gradient and a standard deviation are. **It takes** about 35 minutes.

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
# ## A story, and what holds it together
#
# Click into a cell and press **Shift + Enter** to run it. This one loads a model that has learned to tell little
# stories, and lets it tell one.

# %%
from textwrap import fill

import torch

from course_lib.device import course_device
from course_lib.exercises import check, filled, from_earlier, hint, predict
from course_lib.pictures import draw_attended_words, draw_vectors, heatmap
from course_lib.show import show
from course_lib.stories import load_storyteller

device = course_device()
storyteller = load_storyteller("weight split").to(device)
beginning = "In a green valley lived a mouse named Maya. One"
print(fill(storyteller.write(beginning), 80))
size = sum(parameter.numel() for parameter in storyteller.parameters())
print(f"({size} numbers, {len(storyteller.vocabulary)} words and signs)")

# %% [markdown]
# Nobody typed this story in. The model has 133,824 numbers, it knows 343 words and punctuation marks, and it has read
# twenty thousand stories that were put together like this one. It writes one word after another. Who is who, what
# belongs to whom, who "she" is: it has to get all of that from the words before. Now the same model once more, but this
# time we multiply everything its attention finds by 0.

# %%
silenced = load_storyteller("weight split").to(device)
with torch.no_grad():
    for attention in silenced.attentions:
        attention.out_proj.weight.zero_()
print(fill(silenced.write(beginning, num_words=60), 80))

# %% [markdown]
# It still knows which word likes to follow which. What it can't do any more is look back. Each word is made from the
# one before it and from its place in the text; what was said earlier doesn't count.
#
# So what does attention look at? The model has two blocks with four heads each. (You'll know in an hour what a head
# is.) We stop a story just before a word and ask the one of the eight that looks up facts; the others have other things
# to look at.

# %%
told = (
    "In a green valley lived a bear named Zoe. One morning Zoe went to the lake. "
    'By the lake she met a pig. "My name is Leo," said the pig. "And I am Zoe," said '
    "the bear. Zoe and Leo talked until the sun went down."
)


def where_it_looks(question):  # tokens, and the attention weights at the last one
    tokens, weights = storyteller.attention_weights(f"{told} {question}")
    block, head, last = 1, 2, -1  # weights is (block, head, query, key)
    return tokens, weights[block, head, last]


tokens, row = where_it_looks("What was the name of the bear? It was")
draw_attended_words(tokens, row, title="Which word comes after “It was”?")

# %% [markdown]
# The model cuts a text into **tokens**, here words and punctuation marks. The number under a token is its **attention
# weight**: how much this head takes from it. Asked for a name, it looks at a name. The same story, another question:
#
# **Predict.** Which token will the head take most from? Write your guess in place of the dots and run the cell. As long
# as there is no guess, it gives nothing away.

# %%
tokens, row = where_it_looks("Where did they meet? By the")
guess = ...  # write a word in quotes in place of the dots
predict(guess, lambda: tokens[row.argmax()])

# %% [markdown]
# <details><summary>After your guess</summary>
#
# From "lake". Nobody told the head that a place follows "By the". It learned to look there, because it had to guess the
# next word in twenty thousand stories.
#
# </details>
#
# Don't trust it too far, though. Ask for the other animal's name, right away and as the second question:

# %%
first = "Who was Zoe? She was a bear. "
for question in (
    "What was the name of the pig? It was",
    first + "What was the name of the pig? It was",
    first + "What was the name of the bear? It was",
):
    tokens, row = where_it_looks(question)
    print(question, "...", tokens[row.argmax()])

# %% [markdown]
# It doesn't read *whose* name is wanted. It goes by the place of the question: the first question of all gets the
# hero's name, and if another question came before, it's the friend's. In the stories that it learned from this was
# always right, so it never needed a better rule. It learned what it needed and not a bit more; you'll meet that again.
# Try questions of your own, too. (The model knows only the words of its stories, and tells you if you use another one.)
#
# ## One word, two meanings
#
# How can a word find another one? Start with two sentences that need no model: "The mouse ate the cheese." and "The
# mouse is next to the keyboard." You know at once which kind of mouse is meant, because you look at the other words. A
# model describes each token by a row of numbers, its **embedding**, which it looks up in a table. Real tables are
# learned and hold hundreds of numbers per token, or thousands. For our two sentences, two will do, and we made them up:
# the first says how much a word has to do with animals and food, the second how much with computers.

# %%
vocabulary = ["the", "mouse", "ate", "cheese", "is", "next", "to", "keyboard"]
rows = [
    [0.1, 0.1], [0.6, 0.6], [0.8, 0.1], [0.9, 0.1],
    [0.1, 0.1], [0.1, 0.2], [0.1, 0.1], [0.0, 1.0],
]
table = torch.tensor(rows, device=device)
show("table", table, "token width", vocabulary, digits=1)

# %% [markdown]
# `show` prints a tensor with the names of its axes. The row of "mouse" has as much of the animal as of the computer: a
# table can't know which one is meant.
#
# **Write it yourself.** Turn a sentence into its embeddings, one row per token. Put your lines in place of
# `raise NotImplementedError`; such a function that you write is called a **blank**. As long as a blank is empty or
# wrong, the lesson goes on with the course's version. When you are stuck, `hint` helps, a little more with each
# number, for any blank or exercise.

# %%
def embed_sentence(sentence, vocabulary, table):
    # str, list of words, (word, width) -> (token, width)
    raise NotImplementedError  # three lines: split, vocabulary.index, the rows


embed_sentence = filled("embed_sentence", embed_sentence)

# %%
hint("embed_sentence", 1)  # 2 says more

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
print("(token, width):", tuple(at_the_cheese.shape), tuple(at_the_keyboard.shape))
print("'mouse' is the same in both:", torch.equal(at_the_cheese[1], at_the_keyboard[1]))

# %% [markdown]
# The simplest remedy is to give each token something of its whole sentence: it keeps a part of its own vector and takes
# the rest from the mean of all.
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

# %%
places = ["in the table", "at the cheese", "at the keyboard"]


def show_mice(by_the_cheese, by_the_keyboard):
    mice = torch.stack([table[1], by_the_cheese, by_the_keyboard])
    show("'mouse'", mice, "token width", places, digits=2)


blends = [blend_with_mean(each, 0.5) for each in (at_the_cheese, at_the_keyboard)]
show_mice(blends[0][1], blends[1][1])

# %% [markdown]
# One word, two vectors, and they differ in the right direction. But look at the keyboard: its mouse has *less* of the
# computer than the table's mouse, 0.46 instead of 0.60. "The", "is" and "to" dilute it. They say nothing about
# mice, and in a mean each of them counts as much as the keyboard does.
#
# **Predict.** In "the cheese ate the mouse" the same words stand in another order. Does the blend give "mouse" the
# same vector as in "the mouse ate the cheese"?

# %%
eaten = embed_sentence("the cheese ate the mouse", vocabulary, table)
guess = ...  # write "yes" or "no" in place of the dots
predict(guess, lambda: torch.allclose(blend_with_mean(eaten, 0.5)[4], blends[0][1]))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It does, because a mean doesn't care about order. Attention by itself doesn't either, as long as every token may look
# at every other; [lesson 07](07_order.ipynb) gives it a sense of order.
#
# </details>
#
# ## Let each word choose
#
# A mouse should take much from "cheese" and little from "the". So it has to compare itself with each token first. A
# **dot product** compares two vectors: multiply them number by number and add up. If both are large in the same places,
# the sum is large. That gives a **score** for each pair of tokens. **Softmax** turns a row of scores into attention
# weights: numbers above 0 that sum to 1. And then the token takes from each token, itself included, as much as its
# weight says.
#
# That's attention. Papers write it with more symbols; the idea is these three steps, *compare, weigh, mix*.
#
# **Write it yourself.** `sharpness` is a number that all scores are multiplied by: the higher it is, the pickier the
# token.

# %%
def attend_by_likeness(embeddings, sharpness):
    # (token, width), a number -> (token, width)
    raise NotImplementedError  # three lines


attend_by_likeness = filled("attend_by_likeness", attend_by_likeness)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def attend_by_likeness(embeddings, sharpness):
#     # (token, width), a number -> (token, width)
#     scores = sharpness * embeddings @ embeddings.T  # (query, key)
#     weights = scores.softmax(dim=-1)  # each row sums to 1
#     return weights @ embeddings
# ```
#
# The row of a token in `scores` has its dot product with each token of the sentence. Softmax goes along the row,
# `dim=-1`.
#
# </details>
#
# Attention returns only the mix. As in the blend, half of what we show is the mouse's own vector:

# %%
sharpness = 4
sentences = (at_the_cheese, at_the_keyboard)
mixes = [attend_by_likeness(each, sharpness) for each in sentences]
half = [(at_the_cheese + mixes[0]) / 2, (at_the_keyboard + mixes[1]) / 2]
show_mice(half[0][1], half[1][1])

# %%
arrows = {"in the table": embed_sentence("mouse cheese keyboard", vocabulary, table)}
arrows["mouse at the cheese"] = half[0][1]
arrows["mouse at the keyboard"] = half[1][1]
title = "One word, two sentences, two vectors"
draw_vectors(arrows, words=["mouse", "cheese", "keyboard"], title=title)

# %% [markdown]
# To the right is animals and food, upwards is computers. At the keyboard the mouse now keeps its 0.60 of the computer,
# and at the cheese it has gained: 0.64 of the animal. The little words pull much less than in the mean. How much less
# is our choice: try a sharpness of 1, and of 10, in place of the 4.
#
# **Predict.** Suppose that we replace the embedding of "keyboard" by other numbers and leave the other tokens as they
# are. The sentence "the mouse is next to the keyboard" has seven tokens. How many of the seven rows of the mix change?

# %%
changed = at_the_keyboard.clone()
changed[6] = torch.tensor([0.9, 0.3], device=device)
# one True or False per row: has any of its numbers changed?
row_changes = (attend_by_likeness(changed, sharpness) != mixes[1]).any(dim=-1)
guess = ...  # write a number from 0 to 7 in place of the dots
predict(guess, lambda: int(row_changes.sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# All seven: the row of the token that we replaced, and those of the six that we left alone, because each of them takes
# something from the keyboard. The numbers of a word now depend on its neighbours.
#
# </details>
#
# ## Read a heatmap
#
# A table of attention weights is drawn as a **heatmap**. A **row** is the token that looks, the *query*; a **column**
# is a token that it looks at, the *key*. Here are the weights of the mouse and its neighbours:

# %%
scores = 4 * at_the_keyboard @ at_the_keyboard.T
weight_table = scores.softmax(dim=-1)
seven = ["the", "mouse", "is", "next", "to", "the", "keyboard"]
heatmap(weight_table, seven)

# %% [markdown]
# **Read it.** From which token does "next" take most? Find its row, then the largest number in it.

# %%
guess = ...  # write a word in quotes in place of the dots
predict(guess, lambda: seven[weight_table[seven.index("next")].argmax()])

# %% [markdown]
# <details><summary>After your answer</summary>
#
# From "keyboard", with 0.22; "mouse" comes close, with 0.21. A *column* says something else: who takes how much from
# that token.
#
# </details>
#
# One word of warning. **"Weight" has two meanings.** An *attention weight* says how much one token takes from another.
# It is computed anew for each sentence. A *weight matrix* belongs to the model, like those that you set to 0 above.
# It is learned once, and then it is the same for all sentences.
#
# ## How the lessons work
#
# Half of the lessons follow a sentence of six words with three numbers each, "Dream big and work for it", so that you
# can check every step by hand. Its numbers are made up or random, and its patterns mean nothing. The stories show
# what attention is *for*.
#
# The sentence below a cell tells you what to notice in its output. Change a number and run the cell again. You can't
# break anything: *Ctrl + Z* takes back what you typed, and *Restart Kernel and Run All Cells* in the menu *Kernel*
# recomputes everything. A wrong guess is worth more than a right one, because it shows what you don't understand
# yet. Here is one more blank, about the heatmap above.

# %%
def row_sums(weights):  # (query, key) -> (query): what does each row add up to?
    raise NotImplementedError  # one line


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
show("row sums", row_sums(weight_table), "query", seven)

# %% [markdown]
# Each row sums to 1, up to rounding. All other lessons have **exercises** in a notebook of their own. There you call
# `check` on your answer, which runs your code on inputs of its own and tells you what is wrong with it. This is its
# verdict on a sum along the wrong axis:

# %%
check("row_sums", lambda weights: weights.sum(dim=0))

# %% [markdown]
# If you work in *my_course*, the folder of your own copies of the lessons, a right answer is kept there. A later
# lesson brings it back with `from_earlier`, so that you go on building with your own code. In other places, such as
# Colab, nothing is kept, and `from_earlier` returns the course's version even if your own has passed:

# %%
row_sums = from_earlier("row_sums")

# %% [markdown]
# Three things are different here. *You write the code, and mistakes have names*: the check recognises the usual
# mistakes by their results, and in [lesson 15](15_debugging_attention.ipynb) you meet a tool that does the same for
# attention code from elsewhere. *Pictures are drawn from your tensors*, so they change with your code. And *claims are
# checked*: where a lesson rests on two ways being the same, it compares their numbers in a cell. Here is the first such
# check, attention in three lines against PyTorch's own:

# %%
import torch.nn.functional as F

batch = at_the_keyboard[None]  # None adds an axis: (1, token, width)
scale = float(sharpness)
by_pytorch = F.scaled_dot_product_attention(batch, batch, batch, scale=scale)
torch.testing.assert_close(mixes[1], by_pytorch[0])
print("three lines and PyTorch's own attention are equal")

# %% [markdown]
# The next cell prints the versions that you have. Yours may differ from the ones stored here, and that is fine. Apart
# from timings and from models that you train, the lessons give the same numbers on a CPU and on a GPU, up to rounding.

# %% tags=["versions", "nbval-ignore-output"]
import platform

print("Python", platform.python_version())
print("torch", torch.__version__, "on", device)

# %% [markdown]
# ## The lessons
#
# Together they take about 15½ hours. The minutes are those that each lesson states: the time to read it, to run it, and
# to fill in its blanks. If you also try each *Your turn*, and stop where something is new to you, count an hour per
# lesson. The exercises take additional time.
#
# | lesson | you end up with | minutes |
# |---|---|---|
# | 00 Start here | one word, two vectors, and attention in three lines | 35 |
# | [01 Build one attention head](01_single_head.ipynb) | one token by hand, then matrices, then your `MyHead` | 45 |
# | [02 Hide what must not be seen](02_masks_and_dropout.ipynb) | causal and padding masks, and a test for both | 45 |
# | [03 Put heads side by side](03_wrapper.ipynb) | several heads as a list, and why several | 45 |
# | [04 Reshape and transpose](04_reshape_and_transpose.ipynb) | what `view` and `transpose` do to memory | 40 |
# | [05 Split the weights](05_weight_split.ipynb) | multi-head attention as it is really written | 50 |
# | [06 Share keys and values](06_multi_query.ipynb) | multi-query and grouped-query attention | 60 |
# | [07 Give it a sense of order](07_order.ipynb) | a table, a rotation or a bias for the positions | 50 |
# | [08 Padding and two sequences](08_padding.ipynb) | many texts at once; attention across two texts | 50 |
# | [09 Llama's attention and its cache](09_llama.ipynb) | a real model's attention and generated words | 50 |
# | [10 Shrink the cache further](10_smaller_caches.ipynb) | fewer bits, windows, sinks, a rolling cache | 60 |
# | [11 Latent attention, and pages](11_latent_and_pages.ipynb) | latent attention, and stories that share memory | 60 |
# | [12 The forms of 2026](12_forms_of_2026.ipynb) | seven changes in new models, and where each goes wrong | 55 |
# | [13 See what heads learn](13_what_heads_learn.ipynb) | what the storyteller's heads do, found by experiment | 60 |
# | [14 Make it fast, and know why](14_fast.ipynb) | how fast kernels work, and the limits of a machine | 60 |
# | [15 Find what no error reports](15_debugging_attention.ipynb) | tests that find silent mistakes | 55 |
# | [16 Spread heads over many devices](16_many_devices.ipynb) | attention on two processes, and on many GPUs | 50 |
# | [17 Write it yourself](17_capstone.ipynb) | a storyteller of your own, as a page for a friend | 60 |
#
# If you are short of time, take lessons 01 to 06: they lead from one head to multi-query attention.
#
# **Next:** [01 Build one attention head](01_single_head.ipynb).
