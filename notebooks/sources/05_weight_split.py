# %% [markdown]
# # Split the weights
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/05_weight_split.ipynb)
#
# Your wrapper of lesson 03 tells stories, and it does so in a loop. Here you write multi-head attention as real models
# have it: one wide projection for all heads, split into heads by reshape and transpose, in eleven steps. It tells the
# same stories, and you prove that it computes the same as your wrapper and as PyTorch's module.
#
# **You need** lessons [03](03_wrapper.ipynb) and [04](04_reshape_and_transpose.ipynb). **It takes** about 45 minutes.

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
from functools import partial
from textwrap import fill

import torch
from torch import nn

from course_lib.attention import MultiHeadAttention, causal_keep, to_torch_mask
from course_lib.attention.convert import split_to_wrapper, to_torch
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.inputs import dream_big
from course_lib.pictures import (
    draw_attention,
    draw_matrix_product,
    head_heatmaps,
    layout_steps,
)
from course_lib.recorder import record
from course_lib.show import show
from course_lib.stories import load_storyteller, with_attention
from course_lib.timing import Case, compare_times

device = course_device()
words, embeddings, x = dream_big(device=device)
MyWrapper = from_earlier("MyWrapper")

# %% [markdown]
# ## The idea: two narrow matrices are one wide matrix
#
# We continue with the sentence and the two heads of lesson 03. Each head has a query matrix of its own, 4 by
# 3. Make the wrapper again, from the same seeds, and put the two query matrices one below the other:

# %%
batch, num_tokens, d_in = x.shape
d_out, num_heads = 8, 2
torch.manual_seed(4)
wrapper = MyWrapper(d_in, d_out, num_heads).to(device)
torch.manual_seed(6)
wrapper.out_proj = nn.Linear(d_out, d_out, bias=False).to(device)
with torch.no_grad():
    for head in wrapper.heads:
        head.q_proj.weight *= 4  # as in lesson 03, so that a pattern shows
        head.k_proj.weight *= 4

# %%
# 2 x (head_dim, d_in) -> (d_out, d_in)
W_q = torch.cat([head.q_proj.weight for head in wrapper.heads])
one_head = wrapper.heads[0].q_proj.weight
print("two matrices of", tuple(one_head.shape), "-> one of", tuple(W_q.shape))

# %% [markdown]
# One product with the wide matrix now gives the queries of both heads. The product is `x @ W_q.T`, because `nn.Linear`
# keeps its matrix as (width out, width in). A row of `W_q` is therefore a column of `W_q.T`, and makes one column of
# the result:

# %%
names = ("x", "W_q.T", "queries")
draw_matrix_product(
    x, W_q.T, names=names, words=words, num_heads=2, highlight=(0, 3, 5)
)

# %% [markdown]
# Look at the colours. Each column of the result is made of `x` and the same column of `W_q.T`, so that nothing of one
# head gets into the columns of the other. The wide product is therefore the two narrow products side by side. The
# outlined number belongs to "work" in head 1, and its sum is written out below.
#
# This is what the name **weight split** means: there is one wide weight matrix per role (queries, keys, values), and
# its rows are divided among the heads. The code never cuts the matrix itself, but the queries, keys and values that
# come out of it.
#
# **Write it yourself.** Which rows of a wide weight matrix belong to head number `head`?

# %%
def rows_of_head(weight, head, num_heads):
    # (d_out, d_in), int, int -> (head_dim, d_in)
    raise NotImplementedError  # your two lines


rows_of_head = filled("rows_of_head", rows_of_head)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def rows_of_head(weight, head, num_heads):
#     # (d_out, d_in), int, int -> (head_dim, d_in)
#     head_dim = weight.shape[0] // num_heads
#     return weight[head * head_dim : (head + 1) * head_dim]
# ```
#
# </details>

# %%
own_rows = rows_of_head(W_q, 1, num_heads)
torch.testing.assert_close(own_rows, wrapper.heads[1].q_proj.weight)
print("the rows of head 1 are the query matrix of head 1")

# %% [markdown]
# ## Step 1: choose the widths
#
# From here on you take the computation in eleven steps. `d_out` is the width over all heads. Each head gets an equal
# part of it, so that `d_out` must be divisible by `num_heads`.

# %%
head_dim = d_out // num_heads
print(f"batch {batch}, tokens {num_tokens}, d_in {d_in}, d_out {d_out}", end=", ")
print(f"heads {num_heads}, head_dim {head_dim}")

# %% [markdown]
# All six sizes are different, so that a size tells you which axis it belongs to. (From step 6 on two axes are 6 long,
# because queries and keys both count the tokens.)
#
# ## Step 2: one wide matrix per role
#
# The keys and the values get their wide matrix in the same way as the queries. The fourth matrix is the output
# projection of lesson 03.

# %%
W_k = torch.cat([head.k_proj.weight for head in wrapper.heads])
W_v = torch.cat([head.v_proj.weight for head in wrapper.heads])
W_o = wrapper.out_proj.weight
for name, matrix in (("W_q", W_q), ("W_k", W_k), ("W_v", W_v), ("W_o", W_o)):
    print(name, tuple(matrix.shape))

# %% [markdown]
# ## Step 3: project
#
# One product gives the queries of all heads. They have the shape (batch, token, d_out).

# %%
queries = x @ W_q.T
show("queries", queries, "batch token width", words, digits=2)

# %% [markdown]
# Columns 0 to 3 of each row are the token's query in head 0, and columns 4 to 7 are its query in head 1.
#
# ## Step 4: split the width into heads
#
# This is the `view` of lesson 04, from (batch, token, d_out) to (batch, token, head, head_dim). Nothing moves in
# memory.

# %%
queries_split = queries.view(batch, num_tokens, num_heads, head_dim)
print(tuple(queries.shape), "->", tuple(queries_split.shape))

# %% [markdown]
# ## Step 5: bring the heads to the front
#
# The `transpose` of lesson 04 exchanges tokens and heads, so that each head becomes a table of tokens of its own. The
# shape is now (batch, head, token, head_dim).

# %%
queries_by_head = queries_split.transpose(1, 2)
print(tuple(queries_split.shape), "->", tuple(queries_by_head.shape))

# %% [markdown]
# Here are steps 4 and 5 as a picture, which is drawn from a recording of the two calls:

# %%
def split_and_transpose(queries):
    return queries.view(batch, num_tokens, num_heads, head_dim).transpose(1, 2)


two_steps = record(split_and_transpose, queries)
layout_steps(two_steps, words=words)

# %% [markdown]
# Follow the outlined cell: it stays in the row of its token, and ends in the table of its head.
#
# **Write it yourself.** The keys and the values go the same way, so put steps 3, 4 and 5 into one function.

# %%
def project_to_heads(x, weight, num_heads):
    # (b, token, d_in), (d_out, d_in), int -> (b, head, token, head_dim)
    # your three lines: project, split, bring the heads to the front
    raise NotImplementedError


project_to_heads = filled("project_to_heads", project_to_heads)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def project_to_heads(x, weight, num_heads):
#     # (b, token, d_in), (d_out, d_in), int -> (b, head, token, head_dim)
#     projected = x @ weight.T  # (batch, token, d_out)
#     # (batch, token, head, head_dim)
#     split = projected.view(*x.shape[:2], num_heads, -1)
#     return split.transpose(1, 2)
# ```
#
# `*x.shape[:2]` puts the first two sizes in, and `-1` stands for the size that is left over, here `head_dim`.
#
# </details>

# %%
torch.testing.assert_close(project_to_heads(x, W_q, num_heads), queries_by_head)
keys_by_head = project_to_heads(x, W_k, num_heads)
values_by_head = project_to_heads(x, W_v, num_heads)
print("keys and values:", tuple(keys_by_head.shape), tuple(values_by_head.shape))

# %% [markdown]
# ## Step 6: dot products within each head
#
# The queries are divided by the square root of `head_dim`, because this is the width in which the dot product is taken.
# The code multiplies them by `head_dim**-0.5`, which is the same. Then every query is compared with every key of its
# head. A product takes rows of the left and *columns* of the right, so the keys are transposed in their last two axes.
#
# The `@` here is a **batched matrix product**: of two tensors with four axes it multiplies the last two, once for each
# index of the first two. **Predict.** What is the shape of `scores`?

# %%
keys_transposed = keys_by_head.transpose(2, 3)  # (batch, head, head_dim, token)
scores = (queries_by_head * head_dim**-0.5) @ keys_transposed
guess = ...  # four numbers in parentheses, such as (2, 3, 4, 5)
predict(guess, lambda: scores.shape)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# (batch, head, query, key): one table of six queries by six keys per head. The width of a head is gone, because the dot
# product sums over it.
#
# </details>
#
# For head 1 the batched product does what a plain product of two tables does:

# %%
# (query, head_dim) @ (head_dim, key)
one_table = (queries_by_head[0, 1] * head_dim**-0.5) @ keys_transposed[0, 1]
torch.testing.assert_close(scores[0, 1], one_table)
print("batched product, head 1 = plain product of head 1's tables")

# %% [markdown]
# ## Step 7: a causal mask for as many tokens as there are
#
# The mask has the shape (query, key), without batch and head. PyTorch **broadcasts** it: the one mask is used for every
# sample and every head. We make it from the length of the input, so that the code works for any number of tokens.

# %%
keep = causal_keep(num_tokens, device=device)
show("keep", keep, "query key", words)

# %% [markdown]
# ## Step 8: hide, then softmax
#
# `masked_fill` returns a new tensor and leaves the old one as it is. Its result therefore needs a name, and the softmax
# must be taken of *that* tensor.

# %%
masked_scores = scores.masked_fill(~keep, -torch.inf)
weights = masked_scores.softmax(dim=-1)
head_heatmaps(weights, words, keep=keep)

# %% [markdown]
# These are the two patterns of lesson 03, and they came out of one batched product. Most rows divide their attention
# among several tokens.
#
# ## Step 9: mix the values, and bring the tokens back to the front
#
# The second batched product mixes the values of each head with that head's attention weights. Then the transpose of
# step 5 is undone, so that the tokens come before the heads again.

# %%
# (b, h, query, key) @ (b, h, key, head_dim) -> (b, h, query, head_dim)
context_by_head = weights @ values_by_head
context = context_by_head.transpose(1, 2)
print(tuple(context_by_head.shape), "->", tuple(context.shape))

# %% [markdown]
# The next picture shows steps 6 to 9 within each head, from the queries to the context, before the transpose. Two
# things are left out: the division of the queries by $\sqrt{4}$, which happens at the arrow, and the scores. So to
# check a weight by hand, halve the query first. Nothing of head 0 appears in head 1:

# %%
draw_attention(queries_by_head, keys_by_head, values_by_head, keep=keep, words=words)

# %% [markdown]
# ## Step 10: merge the heads
#
# The last two axes become one again, from (batch, token, head, head_dim) to (batch, token, d_out). After the transpose
# a token's numbers are no longer neighbours in memory, and so this takes a `reshape`, which copies here.

# %%
merged = context.reshape(batch, num_tokens, d_out)
copied = merged.data_ptr() != context.data_ptr()
print(tuple(context.shape), "->", tuple(merged.shape), " copied:", copied)

# %% [markdown]
# ## Step 11: mix the heads
#
# The output projection makes each number of the output out of all heads:

# %%
output = merged @ W_o.T
show("output", output, "batch token width", words, digits=2)

# %% [markdown]
# The wrapper of lesson 03 computes the same numbers, head after head:

# %%
torch.testing.assert_close(output, wrapper(x))
print("eleven steps = the wrapper of lesson 03")

# %% [markdown]
# Steps 4, 5 and 10 only rearrange axes. The arithmetic is in steps 3, 6, 8, 9 and 11. [Attention Is All You
# Need](https://arxiv.org/abs/1706.03762) (Vaswani et al., 2017) defines multi-head attention in two formulas, with
# the heads counted from 0 as in the code:
#
# $$
# \mathrm{head}_i = \mathrm{softmax}\left(\frac{Q_i K_i^{\top}}{\sqrt{d}}\right) V_i, \qquad
# \mathrm{output} = \mathrm{concat}(\mathrm{head}_0, \ldots, \mathrm{head}_{h-1})\, W^O
# $$
#
# The paper gives each head matrices of its own. In the weight split, $Q_i$ is the $i$-th block of columns of the
# queries, and $d$ is `head_dim`. Steps 4 and 5 are hidden in that small $i$, and step 10 is hidden in *concat*. The
# mask of steps 7 and 8 is not in the formula, because the paper describes it in words.
#
# Now do exercises 1 and 2 of [the sheet](exercises/05_exercises.ipynb): compute the scores of all heads, and put the
# lines of the steps into their order.
#
# ## Into a module
#
# **Write it yourself, from an empty class.** Four projections without bias, `q_proj`, `k_proj`, `v_proj` and
# `out_proj`, and then the steps that you have just seen. Keep an eye on the shapes. Lesson 07 goes on with your class.

# %%
class MyMultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        raise NotImplementedError  # sizes and projections

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # project, split, attend, merge, project


MyMultiHeadAttention = filled("MyMultiHeadAttention", MyMultiHeadAttention)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyMultiHeadAttention(nn.Module):
#     def __init__(self, d_in, d_out, num_heads):
#         super().__init__()
#         self.num_heads, self.head_dim = num_heads, d_out // num_heads
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, d_out, bias=False)
#         self.v_proj = nn.Linear(d_in, d_out, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#
#     def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
#         batch, num_tokens, _ = x.shape
#         per_head = (batch, num_tokens, self.num_heads, self.head_dim)
#         # (batch, head, token, head_dim)
#         queries = self.q_proj(x).view(per_head).transpose(1, 2)
#         keys = self.k_proj(x).view(per_head).transpose(1, 2)
#         values = self.v_proj(x).view(per_head).transpose(1, 2)
#         keep = torch.ones(num_tokens, num_tokens, device=x.device).tril().bool()
#         # (batch, head, query, key)
#         scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
#         weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
#         context = (weights @ values).transpose(1, 2)  # (batch, token, head, head_dim)
#         return self.out_proj(context.reshape(batch, num_tokens, -1))
# ```
#
# </details>

# %%
mine = MyMultiHeadAttention(d_in, d_out, num_heads).to(device)
with torch.no_grad():
    layers = (mine.q_proj, mine.k_proj, mine.v_proj, mine.out_proj)
    for layer, matrix in zip(layers, (W_q, W_k, W_v, W_o), strict=True):
        layer.weight.copy_(matrix)
torch.testing.assert_close(mine(x), output)
print("my module gives the output of step 11")

# %% [markdown]
# And it tells stories. `with_attention` finds out which of your matrices is which, and gives them the trained weights.
# Lesson 03's storyteller was made of the same weights, cut into heads:

# %%
storyteller = load_storyteller("weight split").to(device)
story = with_attention(storyteller, MyMultiHeadAttention).write("This is the story of")
print(fill(story, 80))
wrapper = load_storyteller("wrapper").to(device)
print("the story of the wrapper:", story == wrapper.write("This is the story of"))

# %% [markdown]
# ## Break it on purpose
#
# The function below takes the eleven steps, and each of its four switches makes one mistake in them:

# %%
def attend(
    x, *, straight_view=False, mask_dropped=False, merged_at_once=False, unscaled=False
):
    projected = mine.q_proj(x), mine.k_proj(x), mine.v_proj(x)
    tables = [one.view(batch, num_tokens, num_heads, head_dim) for one in projected]
    if straight_view:  # a view directly to (batch, head, token, head_dim)
        straight = (batch, num_heads, num_tokens, head_dim)
        queries, keys, values = (table.view(straight) for table in tables)
    else:
        queries, keys, values = (table.transpose(1, 2) for table in tables)
    scores = (queries if unscaled else queries * head_dim**-0.5) @ keys.transpose(2, 3)
    hidden = scores if mask_dropped else scores.masked_fill(~keep, -torch.inf)
    context = hidden.softmax(dim=-1) @ values
    # merged at once: without the transpose of step 9
    context = context if merged_at_once else context.transpose(1, 2)
    return mine.out_proj(context.reshape(batch, num_tokens, d_out))


mistakes = ("straight_view", "mask_dropped", "merged_at_once", "unscaled")
torch.testing.assert_close(attend(x), mine(x))

# %% [markdown]
# None of them raises an error or changes the shape of the output. The numbers are different, though:

# %%
outputs = {name: attend(x, **{name: True}) for name in mistakes}
changes = {name: (one - output).abs().max().item() for name, one in outputs.items()}
print("shapes right:", all(one.shape == output.shape for one in outputs.values()))

# %% [markdown]
# **Predict.** Which of the four changes the output least?

# %%
guess = ...  # one of the four names, in quotation marks
predict(guess, lambda: min(changes, key=changes.get))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is `unscaled`. Each token still reads its own row, in its own head, and only what it may see; without the division
# the attention weights are merely sharper than they should be. The other three let numbers of wrong tokens in. (These
# are the changes in this module; print `changes` to see them.)
#
# </details>
#
# **Predict.** Lesson 02 had a test for causal attention: change the last token, and see whether the output of an
# earlier token changes. How many of the four mistakes does this test find?

# %%
def found_by_last_token(name):
    changed = torch.cat([x[:, :-1], -x[:, -1:]], dim=1)
    switch = {name: True}
    moved = (attend(x, **switch) - attend(changed, **switch))[:, :-1].abs().max()
    return bool(moved > 1e-5)


guess = ...  # a number from 0 to 4
predict(guess, lambda: sum(found_by_last_token(name) for name in mistakes))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The last-token test finds three of the four. With `mask_dropped`
# every token sees the future, and `straight_view` and `merged_at_once` mix the tokens, so that an earlier output
# depends on a later token. The test can't find `unscaled`, because that mistake still hides what should be hidden. You
# can print who is found with `{name: found_by_last_token(name) for name in mistakes}`.
#
# </details>
#
# A comparison with an output that is known to be right finds all four of them:

# %%
differ = [name for name, one in outputs.items() if not torch.allclose(one, output)]
print("differ:", differ)

# %% [markdown]
# This is why the next section compares numbers. To see where your own class moves the numbers of a token, draw it with
# `layout_steps(record(mine, x), words=words)`.
#
# ## Proof, and how to cheat it
#
# Wrapper = weight split = `nn.MultiheadAttention`: a comparison proves that only if it could fail. So there are two
# samples, sizes that differ wherever they can (`nn.MultiheadAttention` wants `d_in` equal to `d_out`), queries and keys
# scaled up until the attention is neither flat nor all on one token in most rows, and float64, because a small mistake
# could hide among the roundings of float32:

# %%
width, heads, tokens = 12, 3, 5
generator = torch.Generator().manual_seed(1)
samples = torch.randn(2, tokens, width, generator=generator, dtype=torch.float64)
samples = samples.to(device)
torch.manual_seed(2)
yours = MyMultiHeadAttention(width, width, heads).double().to(device)
with torch.no_grad():
    yours.q_proj.weight *= 2
    yours.k_proj.weight *= 2

# %% [markdown]
# The others get the same matrices. `split_to_wrapper` cuts them into heads, and `to_torch` copies them into PyTorch's
# module, which takes the input once each for the queries, the keys and the values:

# %%
split = MultiHeadAttention(width, width, heads).double().to(device)
split.load_state_dict(yours.state_dict())
by_split, attention = split(samples, return_weights=True)
by_wrapper = split_to_wrapper(split)(samples)
torch_module = to_torch(split)
hidden = to_torch_mask(causal_keep(tokens, device=device))  # True = hidden
by_torch, _ = torch_module(samples, samples, samples, attn_mask=hidden)

# %%
# the largest attention weight of each row but the first: (sample, head, row)
largest = attention[:, :, 1:].amax(dim=-1)
flat = 1 / torch.arange(2, tokens + 1, device=device)  # of a row that is flat
times_flat, sharp = (largest / flat).flatten(), (largest > 0.95).sum().item()
span = f"{times_flat.min():.2f} to {times_flat.max():.2f}"
print(f"largest weights: {span} times those of a flat row")
print(f"rows that are nearly all on one token: {sharp} of {largest.numel()}")
for result in (by_split, by_wrapper, by_torch):
    torch.testing.assert_close(yours(samples), result, rtol=0, atol=1e-12)
print("yours, the library's, the wrapper, and PyTorch's agree to twelve decimals")

# %% [markdown]
# The first two lines check the input. (The first row of each table isn't counted: its token can attend only to itself.)
# The third line is the proof.
#
# **Now cheat.** Write a class with a mistake that the same comparison doesn't see.

# %%
def proof(module_class):
    module = module_class(width, width, heads).double().to(device)
    module.load_state_dict(yours.state_dict())
    torch.testing.assert_close(module(samples), by_torch, rtol=0, atol=1e-12)


Sneaky = ...  # a class like MyMultiHeadAttention, in place of the dots
sneak("MyMultiHeadAttention", Sneaky, proof)

# %% [markdown]
# <details><summary>A way in</summary>
#
# The comparison knows one number of heads, three. A class that reverses its heads where their number is even passes.
#
# </details>
#
# In the next module each sample takes the values of the *other* sample. This is done by a **hook**, a function that
# PyTorch calls with what `v_proj` returns and that may replace it:

# %%
mixed_up = MyMultiHeadAttention(width, width, heads).double().to(device)
mixed_up.load_state_dict(yours.state_dict())
# exchange the samples
mixed_up.v_proj.register_forward_hook(lambda module, inputs, values: values.flip(0))
passes = torch.allclose(mixed_up(samples), yours(samples), rtol=0, atol=1e-12)
print("passes on our samples:", passes)
same_twice = samples[:1].repeat(2, 1, 1)

# %% [markdown]
# The comparison finds the mistake. **Predict.** Does the module pass the same comparison on a batch that holds one
# sample twice?

# %%
same = torch.allclose(mixed_up(same_twice), yours(same_twice), rtol=0, atol=1e-12)
guess = ...  # "yes" or "no"
predict(guess, lambda: same)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It passes, although it is badly wrong, because the values of the other sample are now equal to its own. A test with
# two equal samples can't find a mistake that exchanges samples, and so ours are different.
#
# </details>
#
# The heads of the wrapper are blocks of rows of the wide matrix, as in your `rows_of_head`. PyTorch also stacks the
# matrices of queries, keys and values:

# %%
print("q_proj.weight: ", tuple(split.q_proj.weight.shape))
print("in_proj_weight:", tuple(torch_module.in_proj_weight.shape))
stacked = torch.cat([split.q_proj.weight, split.k_proj.weight, split.v_proj.weight])
torch.testing.assert_close(torch_module.in_proj_weight, stacked)

# %% [markdown]
# The first 12 of the 36 rows are the query matrix, and the matrices of keys and values follow. The projections of this
# course have no bias, as in Llama and many other recent models. `nn.MultiheadAttention` has biases unless you say
# `bias=False`, which `to_torch` did here.
#
# Now do exercises 3 to 6 of [the sheet](exercises/05_exercises.ipynb).
#
# ## What it buys
#
# For the projections the wrapper runs three small products per head, and the weight split runs three wide ones with the
# same arithmetic. What does that save? The next cell gives both the same weights and the same input, and divides the
# time of the wrapper by that of the weight split, on one thread:

# %% tags=["timing", "nbval-ignore-output"]
threads = torch.get_num_threads()
torch.set_num_threads(1)
for width, heads, tokens in ((96, 12, 16), (768, 12, 1), (768, 12, 16), (768, 12, 128)):
    wide = MultiHeadAttention(width, width, heads).to(device)
    narrow = split_to_wrapper(wide)
    text = torch.randn(4, tokens, width, device=device)
    cases = [Case("split", partial(wide, text)), Case("wrapper", partial(narrow, text))]
    with torch.no_grad():
        split_time, wrapper_time = compare_times(cases, rounds=15)
    ratio = f"the wrapper takes {wrapper_time.ratio:.1f} times as long"
    print(f"width {width:3}, {heads} heads, {tokens:3} tokens: {ratio}")
torch.set_num_threads(threads)

# %% [markdown]
# On the machine that made this page the loop cost most where the products are small: in a narrow model, or with few
# tokens, as when a model writes one token after another. For a longer text in a wide model the weight split bought
# nothing. The other gain is in the code. All heads are now one tensor, and the next lesson, the cache of lesson 08 and
# the fused function of lesson 11 work on it as it is; with a list of heads each of them would be a loop again.
#
# ## Your turn
#
# 1. Exchange the two heads: swap the two blocks of four rows in `W_q`, `W_k` and `W_v`, which `W_q.roll(4, 0)` does.
#    Does the output change? What has to be done to `W_o` so that it doesn't?
# 2. Make the library's `MultiHeadAttention` with the sizes of this lesson and one more argument, d_v=6. Print the
#    shapes of its four weight matrices. Which of them have changed? And which change with d_qk=6?
#
# <details><summary>Answers</summary>
#
# 1. It changes, because `W_o` still expects head 0 in the first four columns. Swap its two blocks of *columns* as well,
#    with `W_o.roll(4, 1)`, and the output is the old one: the order of the heads means nothing. This prints False and
#    True:
#
#    ```python
#    with torch.no_grad():
#        for layer in (mine.q_proj, mine.k_proj, mine.v_proj):
#            layer.weight.copy_(layer.weight.roll(4, 0))
#        print(torch.allclose(mine(x), output, atol=1e-6))
#        mine.out_proj.weight.copy_(W_o.roll(4, 1))
#        print(torch.allclose(mine(x), output, atol=1e-6))
#    ```
#
# 2. With d_v=6 the matrix of the values becomes (6, 3), and `out_proj` becomes (8, 6), because it takes the merged
#    values. With d_qk=6 the matrices of queries *and* keys become (6, 3). These two must be equally wide, because a
#    score is their dot product; the values may have another width.
#
# </details>
#
# ## What you have now
#
# You have multi-head attention as real models have it, written by you and proven equal to a loop over heads and to
# PyTorch's module.
#
# **Click through it:** this class as [a recorded
# run](https://attention-course.github.io/attention-course/recordings/weight_split.html). Choose any number there, and
# you see where it came from and where it goes.
#
# **With other numbers:** ["The Kid
# Smiles"](https://attention-course.github.io/attention-course/known_numbers.html#the-kid-smiles-step-by-step), [three
# rows](https://attention-course.github.io/attention-course/known_numbers.html#three-rows-with-biases), and [values of
# another
# width](https://attention-course.github.io/attention-course/known_numbers.html#values-of-another-width-than-keys).
#
# **Practise:** [six exercises](exercises/05_exercises.ipynb), about fifty minutes.
#
# **Next:** [06 Share keys and values](06_multi_query.ipynb).
