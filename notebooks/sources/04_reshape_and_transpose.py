# %% [markdown]
# # Reshape and transpose
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/04_reshape_and_transpose.ipynb)
#
# You will split one wide tensor into heads with `view` and `transpose`, see what each of them does to shape, strides
# and memory, and put the heads back together. You will also take the shortcut that scrambles them. No error tells you
# so, but a test that you know does.
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
# Why `view`, and then `transpose`? Press *Next* three times, and watch the colours above and the row of memory below.
# (A notebook that is not trusted shows a picture in the figure's place.)

# %%
why_transpose()

# %% [markdown]
# Now do it yourself, one call at a time.
#
# ## One tensor for two heads
#
# In lesson 03 each head had a projection of its own. If the heads' weight matrices are put one below the other, a
# single product gives the queries of all heads at once. Its shape is (batch, token, width), and in each row come the
# numbers of head 0 first and then those of head 1. Instead of real queries we use 0 to 23, so that you can follow each
# number.

# %%
batch, num_tokens, num_heads, head_dim = 1, 6, 2, 2
queries = torch.arange(24, device=device).view(batch, num_tokens, num_heads * head_dim)
show("queries", queries, "batch token width", words)

# %% [markdown]
# Each token has four numbers, of which the first two belong to head 0 and the last two to head 1. The row "work" has 12
# and 13 for head 0, and 14 and 15 for head 1. Attention is computed within each head, and so each head needs a table of
# its own with all tokens in it.
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
# memory is the same row of 24 slots as before, and only the way of reading it is new. The **stride** of an axis is how
# many slots one step along that axis skips: 4 to the next token, 2 to the next head, and 1 to the next number of the
# same head. (The first stride, 24, would lead to the next sample, if the batch had more than one.)
#
# So the strides tell you in which slot an element is. PyTorch computes the same when you index a tensor. **Write it
# yourself**, for any number of axes:

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
# The memory is shuffled: slot 14 holds 7. If you computed another slot, you would read another number. (A tensor may
# also begin in a later slot, as `queries[:, 1:]` does; ours begin in slot 0.)
#
# ## Step 2: `transpose` exchanges tokens and heads
#
# `@` multiplies the last two axes, so for `@` the heads must come first. Then each head is a table of its own, with a
# row per token:

# %%
by_head = split.transpose(1, 2)  # (b, t, h, d) -> (b, h, t, d)
print("shape: ", tuple(split.shape), "->", tuple(by_head.shape))
print("stride:", split.stride(), "->", by_head.stride())
show("by_head", by_head, "batch head token width", words)

# %% [markdown]
# Each head has its half of every token. Again no number moved: `transpose` swapped two sizes, and the two strides that
# go with them. All three tensors share the same 24 slots, so a number that is written through one name is read through
# the others:

# %%
print("same memory:", queries.data_ptr() == split.data_ptr() == by_head.data_ptr())
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
torch.testing.assert_close(to_heads(queries, num_heads), by_head)
unflattened = queries.unflatten(2, (num_heads, head_dim)).transpose(1, 2)
print("the same with unflatten:", torch.equal(unflattened, by_head))

# %% [markdown]
# ## Let the code draw itself
#
# You have just checked by hand that all three share one memory. For longer code this becomes tedious, so the course has
# a tool: `record` runs a function and notes every operation with its shape, its strides, its memory and its line of
# code. It takes any function or module. Here it runs yours:

# %%
recording = record(lambda queries: to_heads(queries, num_heads), queries)
recording

# %% [markdown]
# In the column *memory* both results have the number 0, which is the memory of `queries`, and the column *effect* calls
# both of them a view. A recording can also be drawn. Follow the outlined 14. Below the picture you can unfold the steps
# one at a time.

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
# slot by slot. The transposed one jumps: it reads two slots, jumps over those of head 1, reads two slots, and so on.
# After the last number of head 0 it goes back to the first number of head 1. The memory is the same in all three; only
# the sizes and the strides differ, and they decide the order of reading.
#
# In lesson 05 the keys are transposed once more, in their last two axes. **Predict.** What are the strides of the keys
# after that, for the same six tokens in a model with 12 heads of width 64?

# %%
keys = torch.empty(1, 6, 12 * 64).view(1, 6, 12, 64).transpose(1, 2).transpose(2, 3)
guess = ...  # four numbers in parentheses, such as (24, 4, 2, 1)
predict(guess, lambda: keys.stride())

# %% [markdown]
# <details><summary>After your guess</summary>
#
# In the projected keys a step to the next token moves by the width of all heads, `12 * 64` slots, to the next head by
# 64, within a head by 1, and to the next sample by six tokens. The first transpose exchanges the strides of tokens and
# heads, the second those of tokens and numbers, which gives `(4608, 64, 1, 768)`. A transpose exchanges two sizes and
# the two strides that go with them, and it never does anything else.
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
# `queries` is read slot by slot, so this `view` only cuts the row of slots in two, and the first half of the slots
# became head 0: all four numbers of "Dream", "big" and "and".
#
# **Predict.** Suppose that there are four heads of width 1 instead of two of width 2, and that somebody takes the same
# shortcut. Which number is then the first of head 1? (In a correct split it is 1.)

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
# The next figure shows which token and which head each row really holds. Its line is yours to change: choose an
# example, or paste the line of a model that you use.

# %%
paste_your_split()

# %% [markdown]
# Head 1 never sees the first three words, and its first row, which should be its part of "Dream", is the part of "work"
# that belongs to head 0. The shape is right and no error is raised.
#
# The rule to remember: **`view` splits or joins neighbouring axes; to change the order of axes you need `transpose` or
# `permute`.** Split the width alone: a view that moves the token axis to another place is always wrong.
#
# Other code writes the two steps with `unflatten`, which names only the axis that is split, or, with the library
# [einops](https://einops.rocks), in one line with names for the axes (to read, not to run):
#
# ```python
# by_head = rearrange(queries, "b t (h d) -> b h t d", h=2)
# ```
#
# The parentheses stand for one axis that is made of two others. A shape comment of this course writes the same axis as
# a product, `h * d`.
#
# ## The same with real queries
#
# Does the split give what two separate heads give? We take the sentence `x` of the earlier lessons and two heads with
# random query matrices. Their queries are computed once by each head alone, and once with the two matrices stacked:

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
# It does, up to rounding. Now do exercises 1 to 3 of [the sheet](exercises/04_exercises.ipynb).
#
# ## The way back
#
# After attention each head has its context, with the axes (batch, head, token, head_dim), and the heads of each token
# must be joined. So we take the steps back in reverse order. First `transpose`, and then join the last two axes.
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
# The first row should be "Dream", but it has head 0 of "Dream" and head 0 of "big", the numbers 0, 1, 4, 5.
# Again the shape is right and nothing fails. The colours, which belong to the heads, show you the mistake: a row should
# have both colours, one for each head, and these rows have only one.
#
# ## Why `reshape` here and `view` there?
#
# `view` never moves anything, and it raises an error if it would have to. For the way back from `by_head` it would be
# enough, because transposing twice gives the original order of the memory again. But where attention is computed step
# by step, the context is a *new* tensor, because the product of attention weights and values is written to new memory,
# head by head. Here `view` refuses:

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
# `contiguous()` copies such numbers into the order in which they are read, and after that `view` works. `reshape` does
# both in one: it makes a view where that is possible, and a copy where it is not.
#
# A model that generates text computes the attention of one new token at a time. **Predict.** Does `view` join the heads
# of a context of a *single* token?

# %%
# (b, h, 1, d) -> (b, 1, h, d)
one_token = torch.randn(1, num_heads, 1, head_dim).transpose(1, 2)
guess = ...  # "yes" or "no"
predict(guess, lambda: view_works(one_token))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It works. If the context was computed for one token alone, the heads of that token are neighbours in memory. (In a
# token that is cut out of a longer context, `context_by_head[:, :, -1:]`, they are not, and `view` refuses.) So code
# that uses `view` here may pass a test with one token and fail in training. `reshape` is right in both cases.
#
# </details>
#
# There is nothing wrong with a tensor that is not contiguous. `by_head` isn't contiguous either, and the next lesson
# computes with it as it is (where a product needs a copy, PyTorch makes one inside it).
#
# ## Read the strides
#
# Now you can read the recording of your own way back. It gets the 24 numbers as a product writes them, head by head.
# Look at the columns *stride*, *memory* and *effect*:

# %%
way_back = record(from_heads, by_head.contiguous())
way_back

# %% [markdown]
# The transpose is a view in memory 0. The `reshape` is a copy, and so its result has a memory of its own, number 1.
# Here is the same run as a picture, with two rows of memory. Follow the outlined 14:

# %%
layout_steps(way_back, words=words, origin=queries)

# %% [markdown]
# ## Record your own
#
# `record` takes any function or module. Change the function below and run the cell again. You can try another order of
# the axes, `permute`, `flatten`, `unbind`, or code of your own that puzzles you. Does anything move?

# %%
def my_own(queries):
    # (b, t, h, d) -> (b, t, d, h)
    heads_last = queries.view(1, 6, 2, 2).permute(0, 1, 3, 2)
    return heads_last.flatten(2)  # (b, t, d, h) -> (b, t, d * h)


mine = record(my_own, queries)
layout_steps(mine, words=words)

# %% [markdown]
# Here each row still has its own token, but the numbers of the two heads alternate: the row of "Dream" is 0, 2, 1, 3.
# `permute` moved nothing, and `flatten` had to copy, because no single stride leads through the numbers in this order.
#
# Now do exercises 4 and 5 of [the sheet](exercises/04_exercises.ipynb).
#
# ## What a wrong view does to a story
#
# No error, the right shape: does it matter? Storytellers were trained on the same stories for a thousand steps, under
# three seeds, with two kv heads (lesson 06). Three split their heads with a view and a transpose, three with the
# straight view. Then each wrote 40 stories. (The losses are training losses. Lesson 06 prints those of stories held
# out, after four thousand steps.)

# %%
measured = json.loads((TRAINED / "consequences.json").read_text("utf-8"))
for name in ("right", "split-without-transpose"):
    runs = measured[name]["trained"][:3]  # three more have half the learning rate
    for run in runs:
        kept = [run["kept"].get(kind, 0) for kind in ("sentence", "name")]
        said = f"of 40 stories {kept[0]} in whole sentences, {kept[1]} keep the name"
        print(f"{name}: loss {run['training_loss']:.2f}, {said}")
    print(fill(shorten(runs[0]["story"], 260), 80), end="\n\n")

# %% [markdown]
# With the straight view a model still learns whole sentences. What it can't keep is a fact from one sentence to the
# next: who the story is about, what they have, where they are. The loss says that something is worse; it doesn't say
# what.
#
# And does any test tell you that the heads are scrambled? Lesson 02 had one for causal attention: change the last
# token, and see whether the output of an earlier token changes. **Predict.** With the mask in place, does this test see
# the straight view?

# %%
generator = torch.Generator().manual_seed(7)
matrices = torch.randn(3, 4, 3, generator=generator).to(device)  # queries, keys, values


def attention(x, split):
    queries, keys, values = (split(x @ matrix.T) for matrix in matrices)
    context, _ = attend(queries, keys, values, causal_keep(6, device=device))
    return from_heads(context)


def seen_by_last_token(split):
    changed = torch.cat([x[:, :-1], -x[:, -1:]], dim=1)
    moved = attention(changed, split) - attention(x, split)
    return bool(moved[:, :-1].abs().max() > 1e-5)


guess = ...  # "yes" or "no"
predict(guess, lambda: seen_by_last_token(lambda wide: wide.view(1, 2, 6, 2)))

# %%
print("the right split leaks:", seen_by_last_token(lambda wide: to_heads(wide, 2)))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It does. The mask hides later *rows*, and in the scrambled tables an early row holds a late word: the first row of
# head 1 is a part of "work". So the future leaks into earlier outputs, and the test needs no right model beside it.
#
# </details>
#
# ## Proof
#
# Splitting and merging are exact inverses wherever the heads divide the width, and head i of the split is a block of
# columns of the wide tensor. We check both on several sizes, in each of which no two are equal, so that no axis can be
# mistaken for another:

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
# What if the heads don't divide the width? Two heads can't share five numbers. With the course's `to_heads`, `view`
# finds no such shape and raises an error:

# %%
try:
    to_heads(torch.zeros(1, 6, 5), num_heads=2)
except RuntimeError as error:
    print(error)

# %% [markdown]
# This is why the classes of the course's library check the sizes first, and say which number to change.
#
# ## Your turn
#
# 1. Is `queries.transpose(1, 2).view(1, 2, 2, 6).transpose(2, 3)` another way to the right heads? Work it out with the
#    strides, then try it.
# 2. With one head or one token, the wrong `view` gives the right numbers. Why?
# 3. Split another matrix, four_by_six of `course_lib.inputs`, into two heads of width 3. Do you get its blocks of
#    columns?
#
# <details><summary>Answers</summary>
#
# 1. Yes. After `transpose(1, 2)` the shape is `(1, 4, 6)`, and one step along the last two axes moves you by 1 and by 4
#    slots. The `view` splits the axis of 4 into two heads of two, with steps of 2, 1 and 4 slots. The last `transpose`
#    makes them 2, 4 and 1, exactly as in `by_head`. (The stride of the batch axis may be printed differently. It is
#    never used, because there is only one sample.)
# 2. An axis of size 1 can be moved without changing the order of the numbers. So test with at least two heads and two
#    tokens.
# 3. Yes. This prints True:
#
#    ```python
#    from course_lib.inputs import four_by_six
#
#    toy = four_by_six()
#    heads = to_heads(toy.batch, 2)[0]  # (head, token, head_dim)
#    print(torch.equal(heads, torch.stack(toy.embeddings.split(3, dim=1))))
#    show("heads", heads, "head token width", toy.words)
#    ```
#
# </details>
#
# ## What you have now
#
# You have the two functions that carry heads into and out of one tensor, and you know why their steps come in this
# order.
#
# **Click through it:** the right split and the wrong view as [a recorded
# run](https://attention-course.github.io/attention-course/recordings/wrong_view.html). Choose any number there, and you
# see where it came from and where it goes.
#
# **With other numbers:** [four tokens of width
# 6](https://attention-course.github.io/attention-course/known_numbers.html#view-and-transpose-by-hand).
#
# **Practise:** [five exercises](exercises/04_exercises.ipynb), about half an hour.
#
# **Next:** [05 Split the weights](05_weight_split.ipynb), where the two functions become multi-head attention.
