# %% [markdown]
# # Reshape and transpose
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/04_reshape_and_transpose.ipynb)
#
# Two storytellers differ in one line of code. Both lines give the same shape, and neither raises an error. One of the
# two models keeps the name of its hero in most stories, the other in hardly any. In this lesson you split one wide
# tensor into heads with `view` and `transpose`, see what each of them does to shape, strides and memory, and take the
# shortcut that costs the hero's name.
#
# **You need** [lesson 03](03_wrapper.ipynb). **It takes** about 40 minutes.

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
import json
from textwrap import fill, shorten

import torch

from course_lib.attention import attend, causal_keep
from course_lib.device import course_device
from course_lib.exercises import filled, predict
from course_lib.inputs import dream_big
from course_lib.pictures import layout_steps, memory_row
from course_lib.pictures.live import paste_your_split, why_transpose
from course_lib.recorder import record
from course_lib.show import show
from course_lib.stories import TRAINED

device = course_device()
words, embeddings, x = dream_big(device=device)

# %% [markdown]
# Why `view`, and then `transpose`? Press *Next*, and watch the colours above and the row of memory below.

# %%
why_transpose()

# %% [markdown]
# Now do it yourself, one call at a time.
#
# ## One tensor for two heads
#
# In lesson 03 each head had a projection of its own. If the heads' weight matrices are put one below the other, a
# single product gives the queries of all heads at once, as (batch, token, width): in each row the numbers of head 0,
# then those of head 1. Instead of real queries we use 0 to 23, so that you can follow each number.

# %%
batch, num_tokens, num_heads, head_dim = 1, 6, 2, 2
queries = torch.arange(24, device=device).view(batch, num_tokens, num_heads * head_dim)
show("queries", queries, "batch token width", words)

# %% [markdown]
# The row "work" has 12 and 13 for head 0, and 14 and 15 for head 1. Attention is computed within each head, and so each
# head needs a table of its own with all tokens in it.
#
# ## Step 1: `view` splits the width

# %%
# (b, t, h * d) -> (b, t, h, d)
split = queries.view(1, 6, 2, 2)
print("shape: ", tuple(queries.shape), "->", tuple(split.shape))
print("stride:", queries.stride(), "->", split.stride())
show("split of 'work'", split[0, words.index("work")], "head width")

# %% [markdown]
# No number moved. The last axis, which was 4 long, became two axes of 2: the head, and the number within the head. The
# memory is the same row of 24 slots as before, read in another way. The **stride** of an axis is how many slots one
# step along that axis skips: 24 to the next sample, 4 to the next token, 2 to the next head, and 1 to the next number
# of the same head.
#
# So the strides tell you in which slot an element is. **Write it yourself**, for any number of axes:

# %%
def slot_of(strides, index):  # two tuples of ints of the same length -> int
    raise NotImplementedError  # your line; zip(strides, index) walks through both


slot_of = filled("slot_of", slot_of)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def slot_of(strides, index):  # two tuples of ints of the same length -> int
#     return sum(stride * steps for stride, steps in zip(strides, index, strict=True))
# ```
#
# </details>

# %%
generator = torch.Generator().manual_seed(3)
memory = torch.randperm(24, generator=generator)  # 0 to 23 in a random order
shuffled = memory.view(split.shape)
index = (0, words.index("work"), 1, 0)  # batch, token, head, number
slot = slot_of(shuffled.stride(), index)
print("slot:", slot, " in it:", memory[slot].item(), end=" ")
print(" by index:", shuffled[index].item())

# %% [markdown]
# The memory is shuffled, so only the right slot holds the number that indexing returns. (A tensor may also begin in a
# later slot, as `queries[:, 1:]` does; ours begin in slot 0.)
#
# ## Step 2: `transpose` exchanges tokens and heads
#
# `@` multiplies tables that are in the last two axes. So the heads must come before the tokens:

# %%
by_head = split.transpose(1, 2)  # (b, t, h, d) -> (b, h, t, d)
print("shape: ", tuple(split.shape), "->", tuple(by_head.shape))
print("stride:", split.stride(), "->", by_head.stride())
show("by_head", by_head, "batch head token width", words)

# %% [markdown]
# Each head has its half of every token. Again no number moved: `transpose` swapped two sizes, and the two strides that
# go with them. All three tensors share the same 24 slots, and what you write through one name, you read through the
# others:

# %%
split[0, words.index("work"), 1, 0] = 99  # write through one name ...
# ... read through the others
print("queries:", queries[0, 3].tolist(), " by_head:", by_head[0, 1, 3].tolist())
split[0, words.index("work"), 1, 0] = 14  # and put it back

# %% [markdown]
# **Write it yourself**, for any sizes:

# %%
def to_heads(x, num_heads):
    # (batch, token, num_heads * head_dim) -> (batch, head, token, head_dim)
    raise NotImplementedError


to_heads = filled("to_heads", to_heads)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def to_heads(x, num_heads):
#     # (batch, token, num_heads * head_dim) -> (batch, head, token, head_dim)
#     batch, num_tokens, width = x.shape
#     split = x.view(batch, num_tokens, num_heads, width // num_heads)
#     return split.transpose(1, 2)
# ```
#
# </details>

# %%
print("equal to by_head:", torch.equal(to_heads(queries, num_heads), by_head))

# %% [markdown]
# ## Let the code draw itself
#
# You have just checked by hand that all three share one memory. For longer code the course has a tool: `record` runs
# any function or module, and notes every operation with its shape, its strides, its memory and its line of code. Here
# it runs yours:

# %%
recording = record(lambda queries: to_heads(queries, num_heads), queries)
recording

# %% [markdown]
# In the column *memory* both results have the number 0, which is the memory of `queries`, and the column *effect* calls
# both of them a view. A recording can also be drawn. Follow the outlined 14.

# %%
layout_steps(recording, words=words)

# %% [markdown]
# ## What strides do
#
# Here are the same three tensors, seen from the memory:

# %%
names = ["queries", ".view(1, 6, 2, 2)", ".transpose(1, 2)"]
memory_row(
    queries, split, by_head, names=names, words=words, num_heads=2, highlight=(0, 3, 2)
)

# %% [markdown]
# Each panel shows the slots above and, below them, the order in which the tensor reads them. The upper two tensors read
# slot by slot. The transposed one reads two slots, jumps over those of head 1, reads two more, and after the last
# number of head 0 goes back to the first of head 1.
#
# In lesson 05 the keys are transposed once more, in their last two axes.
#
# **Predict.** What are the strides of the keys after that, for the same six tokens in a model with 12 heads of width
# 64?

# %%
keys = torch.empty(1, 6, 12 * 64).view(1, 6, 12, 64).transpose(1, 2).transpose(2, 3)
guess = ...  # four numbers in parentheses, such as (24, 4, 2, 1)
predict(guess, lambda: keys.stride())

# %% [markdown]
# <details><summary>After your guess</summary>
#
# In the projected keys a step to the next token skips the width of all heads, 12 * 64 slots; to the next head 64,
# within a head 1, and to the next sample six tokens. The first transpose exchanges the strides of tokens and heads, the
# second those of tokens and numbers.
#
# </details>
#
# ## The shortcut that scrambles
#
# The wanted shape is (1, 2, 6, 2). Why not go there at once, with `view(batch, num_heads, num_tokens, head_dim)`? The
# shape will be right:

# %%
wrong = queries.view(batch, num_heads, num_tokens, head_dim)
print("shapes agree:", wrong.shape == by_head.shape)

# %% [markdown]
# `queries` is read slot by slot, so this `view` only cuts the row of slots in two, and the first half became head 0:
# all four numbers of "Dream", "big" and "and".
#
# **Predict.** Suppose that somebody takes the same shortcut with four heads of width 1. Which number is then the first
# of head 1? (In a correct split it is 1.)

# %%
guess = ...  # a number from 0 to 23
predict(guess, lambda: queries.view(batch, 4, num_tokens, 1)[0, 1, 0, 0].item())

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Four heads divide the slots into four pieces of six. So head 1 begins at slot 6, in the middle of "big".
#
# </details>
#
# The next figure shows which token and which head each row really holds. Choose an example, or paste the line of a
# model that you use.

# %%
paste_your_split()

# %% [markdown]
# With the straight view, head 1 never sees the first three words. Its first row, which should be its part of "Dream",
# is the part of "work" that belongs to head 0.
#
# The rule to remember: **`view` splits or joins neighbouring axes; to change the order of axes you need `transpose` or
# `permute`.** So split the width alone. Other code writes `queries.unflatten(2, (2, 2))` for that view, which names the
# axis to be split, or takes both steps with the library [einops](https://einops.rocks), where parentheses stand for one
# axis made of two others:
#
# ```python
# by_head = rearrange(queries, "b t (h d) -> b h t d", h=2)
# ```
#
# ## The same with real queries
#
# Does the split give what two separate heads give? Two heads with random query matrices compute their queries of the
# sentence `x`, once each by itself, and once with the two matrices stacked:

# %%
generator = torch.Generator().manual_seed(5)
# (head_dim, d_in) each
weight_0, weight_1 = torch.randn(2, head_dim, 3, generator=generator).to(device)
stacked = torch.cat([weight_0, weight_1])  # (num_heads * head_dim, d_in)
real_by_head = to_heads(x @ stacked.T, num_heads)  # one product for all heads
torch.testing.assert_close(real_by_head[:, 0], x @ weight_0.T)
torch.testing.assert_close(real_by_head[:, 1], x @ weight_1.T)
print("one wide product, then split = two narrow products")

# %% [markdown]
# **Now do** exercises 1 to 3 of [the sheet](exercises/04_exercises.ipynb).
#
# ## The way back
#
# After attention each head has its context, with the axes (batch, head, token, head_dim), and the heads of each token
# must be joined. So we take the steps back in reverse order: `transpose`, then join the last two axes.
#
# **Write it yourself**, with `reshape` for the join:

# %%
def from_heads(x):
    # (batch, head, token, head_dim) -> (batch, token, num_heads * head_dim)
    raise NotImplementedError  # your three lines: the sizes, the transpose, the join


from_heads = filled("from_heads", from_heads)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def from_heads(x):
#     # (batch, head, token, head_dim) -> (batch, token, num_heads * head_dim)
#     batch, num_heads, num_tokens, head_dim = x.shape
#     by_token = x.transpose(1, 2)
#     return by_token.reshape(batch, num_tokens, num_heads * head_dim)
# ```
#
# </details>

# %%
print("there and back again:", torch.equal(from_heads(by_head), queries))

# %% [markdown]
# If you forget the `transpose`, the tokens are mixed on the way back:

# %%
joining = record(lambda by_head: by_head.reshape(1, 6, 4), by_head)
layout_steps(joining, words=words, origin=queries)

# %% [markdown]
# The first row should be "Dream", but it has head 0 of "Dream" and head 0 of "big". The colours show the mistake: a
# row should have both, one for each head, and these rows have only one.
#
# ## Why `reshape` here and `view` there?
#
# `view` never moves anything, and raises an error if it would have to. For the way back from `by_head` it would be
# enough, because transposing twice gives the original order of the memory again. But the context of attention is a
# *new* tensor: the product of attention weights and values is written to new memory, head by head. Here `view` refuses:

# %%
def view_works(tensor):  # (batch, token, head, head_dim)
    try:
        tensor.view(tensor.shape[0], tensor.shape[1], -1)
    except RuntimeError:
        return False
    return True


random_weights = torch.rand(1, 2, 6, 6)  # (b, h, query, key)
context_by_head = random_weights @ torch.rand(1, 2, 6, 2)  # (b, h, t, d), new memory
context = context_by_head.transpose(1, 2)
print("view joins the heads of by_head:", view_works(by_head.transpose(1, 2)))
print("view joins the heads of context:", view_works(context))

# %% [markdown]
# The strides tell you why:

# %%
for name, one in (("before:", context_by_head), ("after: ", context)):
    print("stride", name, one.stride(), " contiguous:", one.is_contiguous())

# %% [markdown]
# A tensor is called **contiguous** if it is read slot by slot. `context` is not. From one number of a head to the next
# you move 1 slot, but from the last number of head 0 to the first number of head 1 you move 11 slots. A joined axis has
# a single stride, and no single stride can do both.
#
# `contiguous()` copies such numbers into the order in which they are read, and after that `view` works. `reshape`
# returns a view where that is possible, and a copy where it is not.
#
# Three more contexts, each new memory in the shape (batch, head, token, head_dim): one of a single token, one of a
# single head, and one of five samples.
#
# **Predict.** For how many of the three does `view` join the heads, after the transpose?

# %%
shapes = (1, 2, 1, 2), (1, 1, 6, 2), (5, 2, 6, 2)
contexts = [torch.rand(shape).transpose(1, 2) for shape in shapes]
guess = ...  # a number from 0 to 3
predict(guess, lambda: sum(map(view_works, contexts)))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# For two. The heads of a single token are neighbours in memory, and a single head has nothing to be joined to. So code
# that uses `view` here may pass a test with one token, as a model that writes computes it, and fail in training.
# `reshape` is right in all cases.
#
# </details>
#
# There is nothing wrong with a tensor that is not contiguous: `by_head` isn't either, and the next lesson computes with
# it as it is.
#
# Now you can read the recording of your own way back. It gets the 24 numbers as a product writes them, head by head.
# Look at the columns *stride*, *memory* and *effect*:

# %%
way_back = record(from_heads, by_head.contiguous())
way_back

# %% [markdown]
# The transpose is a view in memory 0. The `reshape` is a copy, and its result has a memory of its own, number 1. Here
# is the same run as a picture, with two rows of memory:

# %%
layout_steps(way_back, words=words, origin=queries)

# %% [markdown]
# Record code of your own, too, if it puzzles you: does anything move?
#
# **Now do** exercises 4 and 5 of [the sheet](exercises/04_exercises.ipynb).
#
# ## What a wrong view does to a story
#
# No error, the right shape: does it matter? Storytellers were trained on the same stories for a thousand steps, six
# with a view and a transpose, six with the straight view. Then each wrote 40 stories:

# %%
measured = json.loads((TRAINED / "consequences.json").read_text("utf-8"))
for name in ("right", "split-without-transpose"):
    runs = measured[name]["trained"]  # the last three have half the learning rate
    for run in runs:
        kept = [run["kept"].get(kind, 0) for kind in ("sentence", "name")]
        said = f"of 40 stories {kept[0]} in whole sentences, {kept[1]} keep the name"
        print(f"{name}: loss {run['training_loss']:.2f}, {said}")
    print(fill(shorten(runs[0]["story"], 260), 80), end="\n\n")

# %% [markdown]
# About half of the stories with the straight view are still made of whole sentences, but hardly any keeps the
# name from one sentence to the next. The loss says that something is worse; it doesn't say what.
#
# Does any test? Take the one of lesson 02, which changes the last token and looks at the outputs of the earlier ones.
# The mask is in place, and the straight view splits queries, keys and values.
#
# **Predict.** Of how many of the five earlier tokens does the output change? (Which rows of which head does "it" fill?
# And which output is each of these rows a part of?)

# %%
generator = torch.Generator().manual_seed(7)
# for queries, keys and values
matrices = torch.randn(3, 4, 3, generator=generator).to(device)


def attention(x, split):
    queries, keys, values = (split(x @ matrix.T) for matrix in matrices)
    # (b, h, t, d), and the attention weights, which we don't need
    context, _ = attend(queries, keys, values, causal_keep(6, device=device))
    return from_heads(context)


def earlier_tokens_changed(split):
    changed = torch.cat([x[:, :-1], -x[:, -1:]], dim=1)
    moved = (attention(changed, split) - attention(x, split)).abs()
    return int((moved[0, :-1].amax(dim=-1) > 1e-5).sum())


guess = ...  # a number from 0 to 5
predict(guess, lambda: earlier_tokens_changed(lambda wide: wide.view(1, 2, 6, 2)))

# %%
print("right split:", earlier_tokens_changed(lambda wide: to_heads(wide, 2)))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Of one. "it" fills the last two rows of head 1. The mask hides them from all earlier rows, but the last row but one
# becomes a part of the output of "for": the future has leaked, and the test sees it without a right model beside it.
#
# </details>
#
# ## Proof
#
# Splitting and merging are exact inverses, and head i of the split is a block of columns of the wide tensor. We check
# both on sizes that all differ, so that no axis can be mistaken for another:

# %%
generator = torch.Generator().manual_seed(0)
sizes = (2, 5, 3, 7), (4, 6, 5, 3), (7, 4, 2, 3)
for batch, num_tokens, num_heads, head_dim in sizes:
    sample = torch.randn(batch, num_tokens, num_heads * head_dim, generator=generator)
    heads = to_heads(sample, num_heads)
    torch.testing.assert_close(from_heads(heads), sample, rtol=0, atol=0)
    for i in range(num_heads):
        own = sample[:, :, head_dim * i : head_dim * (i + 1)]
        torch.testing.assert_close(heads[:, i], own, rtol=0, atol=0)
    print(tuple(sample.shape), "->", tuple(heads.shape), "and back")

# %% [markdown]
# ## Your turn
#
# 1. Is `queries.transpose(1, 2).view(1, 2, 2, 6).transpose(2, 3)` another way to the right heads? Work it out with the
#    strides, then try it.
# 2. With one head or one token, the wrong `view` gives the right numbers. Why?
#
# <details><summary>Answers</summary>
#
# 1. Yes. After `transpose(1, 2)` the shape is `(1, 4, 6)`, and one step along the last two axes moves you by 1 and by 4
#    slots. The `view` splits the axis of 4 into two heads of two, with steps of 2, 1 and 4 slots. The last `transpose`
#    makes them 2, 4 and 1, exactly as in `by_head`.
# 2. An axis of size 1 can be moved without changing the order of the numbers. So test with at least two heads and two
#    tokens.
#
# </details>
#
# ## What you have now
#
# The two functions that carry heads into and out of one tensor, and the reason why their steps come in this order.
#
# **Click through it:** the right split and the wrong view as [a recorded
# run](https://attention-course.github.io/attention-course/recordings/wrong_view.html).
#
# **With other numbers:** [four tokens of width
# 6](https://attention-course.github.io/attention-course/known_numbers.html#view-and-transpose-by-hand).
#
# **Practise:** [five exercises](exercises/04_exercises.ipynb), about half an hour.
#
# **Next:** [05 Split the weights](05_weight_split.ipynb), where the two functions become multi-head attention.
