# %% [markdown]
# # Reshape and transpose
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/04_reshape_and_transpose.ipynb)
#
# You will cut one wide tensor into heads with `view` and `transpose`, see what each does to shape, strides and memory,
# and put the heads back together. You will also take the shortcut that scrambles them, and see that no error tells
# you.
#
# **You need** [lesson 03](03_wrapper.ipynb). **It takes** twenty minutes.

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

from course_lib.device import course_device
from course_lib.inputs import dream_big, four_by_six
from course_lib.pictures import layout_steps, memory_row, wrong_view
from course_lib.recorder import record
from course_lib.show import show

device = course_device()
words, embeddings, x = dream_big(device=device)

# %% [markdown]
# ## One tensor for two heads
#
# In lesson 03 each head had a projection of its own. If their matrices are stacked, one product gives the queries of
# all heads at once: (batch, token, head 0's numbers then head 1's). Numbers that are easy to follow stand in for that
# product:

# %%
batch, num_tokens, num_heads, head_dim = 1, 6, 2, 2
queries = torch.arange(24, device=device).view(batch, num_tokens, num_heads * head_dim)
show("queries", queries, "batch token width", words)

# %% [markdown]
# Each token has four numbers: the first two belong to head 0, the last two to head 1. The row "work" is 12, 13 for
# head 0 and 14, 15 for head 1. Attention needs them apart: for each head, a table of all tokens.
#
# ## Step 1: `view` puts up a fence

# %%
split = queries.view(batch, num_tokens, num_heads, head_dim)  # (b, t, h * d) -> (b, t, h, d)
print("shape: ", tuple(queries.shape), "->", tuple(split.shape))
print("stride:", queries.stride(), "->", split.stride())
show("split", split, "batch token head width", words)

# %% [markdown]
# No number moved. The last axis, 4, became two axes, 2 and 2: which head, and which of its numbers. Memory is the same
# row of 24 slots as before, and the **strides** say how to read it: to go one token on, skip 4 slots; one head on,
# skip 2; one number on, skip 1. So we can compute where a number lies:

# %%
token, head, number = words.index("work"), 1, 0
slot = token * split.stride(1) + head * split.stride(2) + number * split.stride(3)
print("'work', head 1, number 0: slot", slot)
print("the number there:", split[0, token, head, number].item())

# %% [markdown]
# ## Step 2: `transpose` turns the table around
#
# Now heads must come before tokens, so that each head is a (token, width) table of its own:

# %%
by_head = split.transpose(1, 2)  # (b, t, h, d) -> (b, h, t, d)
print("shape: ", tuple(split.shape), "->", tuple(by_head.shape))
print("stride:", split.stride(), "->", by_head.stride())
show("by_head", by_head, "batch head token width", words)

# %% [markdown]
# Each head holds its half of every token. And again nothing moved: `transpose` only swapped two shapes and two strides.
# All three tensors start at the same address and share the same 24 slots:

# %%
print("same memory:", queries.data_ptr() == split.data_ptr() == by_head.data_ptr())
split[0, words.index("work"), 1, 0] = 99  # write through one name ...
print("queries:", queries[0, 3].tolist(), " by_head:", by_head[0, 1, 3].tolist())  # ... read through the others
split[0, words.index("work"), 1, 0] = 14  # and put it back

# %% [markdown]
# ## Let the code draw itself
#
# You need not believe any of this. `record` runs a function and notes every operation with its line, its shapes, its
# strides and whether anything moved. Here are both steps as one function:

# %%
def to_heads(queries):
    split = queries.view(1, 6, 2, 2)
    by_head = split.transpose(1, 2)
    return by_head


recording = record(to_heads, queries)
recording

# %% [markdown]
# The column *memory* says it: both results lie in memory 0, that of `queries`. A recording can also be drawn. The cells
# are numbered in the order of `queries`, and 14 is outlined, so that you can follow it. Below the picture the steps
# fold out one at a time.

# %%
layout_steps(recording, words)

# %% [markdown]
# Read it from left to right: one table; the same table with a fence between the heads; two tables, one a head. And at
# the bottom the memory that all three read, untouched.
#
# ## What strides do
#
# The same three tensors, seen from memory. For each: the slots, and below them the order in which the tensor reads
# them. **Predict:** which of the three reads them in another order than they lie?

# %%
labels = ["queries", ".view(1, 6, 2, 2)", ".transpose(1, 2)"]
memory_row(queries, split, by_head, labels=labels, words=words, heads=2, follow=(0, 3, 2))

# %% [markdown]
# The upper two read slot by slot. The transposed one jumps: two slots, a jump over head 1, two slots, until head 0 is
# done; then the same for head 1. Nothing but the lines differs.
#
# ## The shortcut that scrambles
#
# The wanted shape is (1, 2, 6, 2). Why not go there at once with `view(batch, num_heads, num_tokens, head_dim)`?
# **Predict:** what stands in head 1 then?

# %%
wrong = queries.view(batch, num_heads, num_tokens, head_dim)
print("shapes agree:", wrong.shape == by_head.shape)
show("wrong", wrong, "batch head token width", words)

# %% [markdown]
# `view` never moves a number, it cuts the row of slots into pieces: the first 12 slots became head 0, which are all
# four numbers of "Dream", "big" and "and". Which token and head does each row really hold?

# %%
wrong_view(queries, num_heads, words)

# %% [markdown]
# Head 1 never sees the first three words, and its row "Dream" is head 0 of "work". The shape is right and nothing
# fails. The rule to remember: **`view` splits or joins neighbours; only `transpose` changes the order.**
#
# ## The same with real queries
#
# Does the cut give what the two separate heads of lesson 03 gave? Stack two projections, project once, cut:

# %%
torch.manual_seed(5)
weight_0, weight_1 = torch.randn(2, head_dim, 3).to(device)  # (head_dim, d_in) each
stacked = torch.cat([weight_0, weight_1])  # (num_heads * head_dim, d_in)
projected = x @ stacked.T  # one product for all heads: (b, t, m) -> (b, t, h * d)
real_by_head = projected.view(batch, num_tokens, num_heads, head_dim).transpose(1, 2)
torch.testing.assert_close(real_by_head[:, 0], x @ weight_0.T)
torch.testing.assert_close(real_by_head[:, 1], x @ weight_1.T)
show("real_by_head", real_by_head, "batch head token width", words)

# %% [markdown]
# It does. Another way to say what the two steps do: cut the columns into blocks and stack the blocks. On the four by
# six matrix of an article that draws this with two heads of three:

# %%
toy = four_by_six(device=device)
cut = toy.embeddings.view(4, 2, 3).transpose(0, 1)  # (t, h * d) -> (t, h, d) -> (h, t, d)
print("equals the stacked blocks:", torch.equal(cut, torch.stack(toy.embeddings.split(3, dim=1))))
show("cut", cut, "head token width", toy.words)

# %% [markdown]
# ## The way back
#
# After attention each head holds its context, (batch, head, token, width), and the heads must be joined for each
# token. So the order is reversed first: `transpose`, then join the last two axes.

# %%
def merge(context_by_head):
    context = context_by_head.transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
    merged = context.reshape(1, 6, 4)  # (b, t, h, d) -> (b, t, h * d)
    return merged


print("there and back again:", torch.equal(merge(by_head), queries))

# %% [markdown]
# Forget the `transpose`, and the words are mixed on the way back:

# %%
mixed = by_head.reshape(batch, num_tokens, num_heads * head_dim)
show("mixed", mixed, "batch token width", words)

# %%
layout_steps(record(lambda by_head: by_head.reshape(1, 6, 4), by_head), words)

# %% [markdown]
# Row "Dream" now holds head 0 of "Dream" *and* of "big" (0, 1 and 4, 5 in the table), and row "work" begins with head 1
# of "Dream". Again the shape is right; only the colours, which belong to the heads, are out of place. (A chain of steps
# numbers its own first tensor, so here head 0 is 0 to 11.)
#
# ## Why `reshape` here and `view` there?
#
# `view` promises not to move anything. In our example the trip there and back ends where it began, so it works. But the
# context of a real attention is *new*: `weights @ values` writes it head by head.

# %%
context_by_head = by_head.contiguous()  # laid out head by head, as a product is
context = context_by_head.transpose(1, 2)
print("stride before:", context_by_head.stride(), " contiguous:", context_by_head.is_contiguous())
print("stride after: ", context.stride(), " contiguous:", context.is_contiguous())

# %% [markdown]
# A token's four numbers no longer lie side by side: no single stride steps from head 0's last number to head 1's first.
# `view` refuses:

# %%
try:
    context.view(batch, num_tokens, num_heads * head_dim)
except RuntimeError as error:
    print(type(error).__name__ + ":", str(error).split(".")[0])

# %% [markdown]
# `contiguous()` copies the numbers into reading order, after which `view` works. `reshape` does both in one: a view
# where that is possible, a copy where not.

# %%
copied = context.contiguous()
print("contiguous() moved it:", copied.data_ptr() != context.data_ptr(), " stride", copied.stride())
print("same result:", torch.equal(copied.view(1, 6, 4), context.reshape(1, 6, 4)))

# %%
labels = ["context_by_head", ".transpose(1, 2)", ".contiguous()"]
memory_row(context_by_head, context, copied, labels=labels, words=words, heads=2, follow=(0, 1, 3, 0))

# %% [markdown]
# In the middle the lines cross: the tensor reads memory in another order than it lies there. At the bottom they are
# straight again, because the numbers were copied into the order in which they are read.
#
# "Not contiguous" is no fault, it only means that reading order and memory order differ. `by_head` isn't contiguous
# either, and the next lesson computes with it as it is.
#
# ## Read the strides
#
# Now the recording of the way back tells you everything at once. Look at the columns *stride*, *memory* and *effect*:

# %%
way_back = record(merge, context_by_head)
way_back

# %% [markdown]
# And what does `reshape` do underneath? Unfold the recording:

# %%
way_back.unfold()

# %% [markdown]
# A `clone`, which copies 24 numbers of 8 bytes, and a view of the copy. Drawn, with the second row of memory that the
# copy needs:

# %%
layout_steps(way_back, words)

# %% [markdown]
# ## Record your own
#
# `record` takes any function or module. Change the function below and run the cell again: another order of the axes,
# `permute`, `flatten`, `unbind`, or code of yours that puzzles you. What does it do, and does anything move?

# %%
def my_own(queries):
    heads_last = queries.view(1, 6, 2, 2).permute(0, 1, 3, 2)  # (b, t, h, d) -> (b, t, d, h)
    return heads_last.flatten(2)  # (b, t, d, h) -> (b, t, d * h)


mine = record(my_own, queries)
layout_steps(mine, words)

# %% [markdown]
# Each row of this one still holds its own token, but the heads are interleaved: 0, 2, 1, 3. (A tensor that your code
# gives no name gets one with `course_lib.recorder.name(tensor, "my name")`; outside a recording that does nothing.)
#
# ## Proof
#
# Two small functions hold the whole lesson. Cutting and merging are exact inverses, for any sizes, and head i of the
# cut is columns i * width to (i + 1) * width of the tensor. Sizes that all differ make sure that no axis stands in for
# another:

# %%
def split_heads(x, num_heads):
    batch, num_tokens, width = x.shape
    return x.view(batch, num_tokens, num_heads, width // num_heads).transpose(1, 2)  # (b, t, h * d) -> (b, h, t, d)


def merge_heads(x):
    batch, num_heads, num_tokens, head_dim = x.shape
    return x.transpose(1, 2).reshape(batch, num_tokens, num_heads * head_dim)  # (b, h, t, d) -> (b, t, h * d)


sample = torch.randn(2, 5, 21, generator=torch.Generator().manual_seed(0)).to(device)  # 3 heads of 7
heads = split_heads(sample, num_heads=3)
torch.testing.assert_close(merge_heads(heads), sample, rtol=0, atol=0)
for i in range(3):
    torch.testing.assert_close(heads[:, i], sample[:, :, 7 * i : 7 * (i + 1)], rtol=0, atol=0)
print("split_heads:", tuple(sample.shape), "->", tuple(heads.shape))
print("merge_heads:", tuple(heads.shape), "->", tuple(merge_heads(heads).shape))

# %% [markdown]
# ## Your turn
#
# 1. Is `queries.transpose(1, 2).view(1, 2, 2, 6).transpose(2, 3)` a way to the right heads, too? Work it out with the
#    strides, then try it.
# 2. With one head or one token, the wrong `view` gives the right numbers. Why? (So test with two of each, at least.)
#
# <details><summary>Answers</summary>
#
# 1. Yes. `transpose(1, 2)` gives (1, 4, 6) with strides (24, 1, 4); splitting its axis of 4 into heads of two is a
#    split of neighbours, strides (24, 2, 1, 4); swapping the last two gives (1, 2, 6, 2) with (24, 2, 4, 1): exactly
#    `by_head`.
# 2. An axis of size 1 has nothing to reorder, so moving it changes no number.
#
# </details>
#
# ## What you have now
#
# The two moves that carry heads in and out of one tensor, and the reason why they come in this order.
#
# **Practise:** [four exercises](exercises/04_exercises.ipynb), twenty minutes.
#
# **Next:** [05 Split the weights](05_weight_split.ipynb), where they become multi-head attention.
