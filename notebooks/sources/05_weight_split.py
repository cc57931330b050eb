# %% [markdown]
# # Split the weights
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/05_weight_split.ipynb)
#
# Your wrapper from lesson 03 tells stories, and it does so in a loop. Here you write multi-head attention as real
# models have it: project once for all heads, split, attend, merge, mix. It tells the same stories, and you compare it
# with your wrapper and with PyTorch's module.
#
# **You need** lessons [03](03_wrapper.ipynb) and [04](04_reshape_and_transpose.ipynb). **It takes** about 50 minutes.

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
from textwrap import fill, shorten

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
to_heads, from_heads = from_earlier("to_heads"), from_earlier("from_heads")

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
# its rows are divided among the heads. The code never cuts the matrix, only the queries, keys and values that come
# out of it.
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
# ## Project
#
# `d_out` is the width over all heads. Each head gets an equal part of it, so `num_heads` must divide `d_out`. The keys
# and the values get their wide matrix in the same way as the queries. The fourth matrix is the output projection of
# lesson 03.

# %%
head_dim = d_out // num_heads
W_k = torch.cat([head.k_proj.weight for head in wrapper.heads])
W_v = torch.cat([head.v_proj.weight for head in wrapper.heads])
W_o = wrapper.out_proj.weight
for name, matrix in (("W_q", W_q), ("W_k", W_k), ("W_v", W_v), ("W_o", W_o)):
    print(name, tuple(matrix.shape))

# %% [markdown]
# One product gives the queries of all heads. Columns 0 to 3 of each row are the token's query in head 0, and columns 4
# to 7 are its query in head 1:

# %%
queries = x @ W_q.T
show("queries", queries, "batch token width", words, digits=2)

# %% [markdown]
# ## Split
#
# Each head needs a table of tokens of its own, (batch, head, token, head_dim). In lesson 04 you wrote how to get there.
#
# **Write it yourself.** Queries, keys and values go the same way, so put projection and split into one function. Try it
# without looking back.

# %%
def project_to_heads(x, weight, num_heads):
    # (b, token, d_in), (d_out, d_in), int -> (b, head, token, head_dim)
    raise NotImplementedError  # your three lines


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
queries_by_head = project_to_heads(x, W_q, num_heads)
keys_by_head = project_to_heads(x, W_k, num_heads)
values_by_head = project_to_heads(x, W_v, num_heads)
torch.testing.assert_close(queries_by_head[:, 1], wrapper.heads[1].q_proj(x))
recording = record(lambda queries: to_heads(queries, num_heads), queries)
layout_steps(recording, words=words)

# %% [markdown]
# The picture is drawn from a recording of `to_heads`. Follow the outlined cell: it stays in the row of its token, and
# ends in the table of its head.
#
# ## Attend
#
# The queries are divided by the square root of `head_dim`, because this is the width in which the dot product is taken.
# The code multiplies them by `head_dim**-0.5`, which is the same up to rounding. Then every query is compared with
# every key of its head. A product takes rows of the left and *columns* of the right, so the keys are transposed in
# their last two axes.
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
# **A causal mask for as many tokens as there are.** The mask has the shape (query, key), without batch and head.
# PyTorch **broadcasts** it: the one mask is used for every sample and every head. We make it from the length of the
# input, so that the code works for any number of tokens.

# %%
keep = causal_keep(num_tokens, device=device)
show("keep", keep, "query key", words)

# %% [markdown]
# **Hide, then softmax.** `masked_fill` returns a new tensor and leaves the old one as it is. Its result therefore needs
# a name, and the softmax must be taken of *that* tensor.

# %%
masked_scores = scores.masked_fill(~keep, -torch.inf)
weights = masked_scores.softmax(dim=-1)
head_heatmaps(weights, words, keep=keep)

# %% [markdown]
# These are the two patterns of lesson 03, and they came out of one batched product. Most rows divide their attention
# among several tokens.
#
# The second batched product mixes the values of each head with that head's attention weights:

# %%
# (b, h, query, key) @ (b, h, key, head_dim) -> (b, h, query, head_dim)
context_by_head = weights @ values_by_head
print("context by head:", tuple(context_by_head.shape))

# %% [markdown]
# The next picture shows all of this within each head, from the queries to the context. Two things are left out: the
# division of the queries by $\sqrt{4}$, which happens at the arrow, and the scores. So to check a weight by hand, halve
# the query first. Nothing of head 0 appears in head 1:

# %%
draw_attention(queries_by_head, keys_by_head, values_by_head, keep=keep, words=words)

# %% [markdown]
# ## Merge
#
# The tokens come before the heads again, and the last two axes become one. The product wrote head by head, so a token's
# numbers are not neighbours, and `reshape` has to copy.

# %%
context = context_by_head.transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
merged = context.reshape(batch, num_tokens, d_out)
copied = merged.data_ptr() != context.data_ptr()
print(tuple(context.shape), "->", tuple(merged.shape), " copied:", copied)

# %% [markdown]
# ## Mix
#
# The output projection makes each number of the output out of all heads:

# %%
output = merged @ W_o.T
show("output", output, "batch token width", words, digits=2)

# %% [markdown]
# The wrapper of lesson 03 computes the same numbers, head after head:

# %%
torch.testing.assert_close(output, wrapper(x))
print("the five parts = the wrapper of lesson 03")

# %% [markdown]
# Split and merge only rearrange axes; the arithmetic is in the rest. [Attention Is All You
# Need](https://arxiv.org/abs/1706.03762) (Vaswani et al., 2017) defines multi-head attention in two formulas. In the
# paper's notation, shortened, and with the heads counted from 0 as in the code:
#
# $$
# \mathrm{head}_i = \mathrm{softmax}\left(\frac{Q_i K_i^{\top}}{\sqrt{d}}\right) V_i, \qquad
# \mathrm{output} = \mathrm{concat}(\mathrm{head}_0, \ldots, \mathrm{head}_{h-1})\, W^O
# $$
#
# The paper gives each head matrices of its own. In the weight split, $Q_i$ is the $i$-th block of columns of the
# queries, and $d$ is `head_dim`. The split is hidden in that small $i$, and the merge in *concat*. The mask is in the
# paper's figure 2 and in its text.
#
# Now do exercises 1 to 3 of [the sheet](exercises/05_exercises.ipynb): the scores of all heads, the lines in their
# order, and the class with gaps.
#
# ## Into a module
#
# **Write it yourself, from an empty class.** Four projections without bias, `q_proj`, `k_proj`, `v_proj` and
# `out_proj`, and then project, split, attend, merge, mix. Keep an eye on the shapes. Lesson 07 goes on with your class.

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
print("my module gives the same output")

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
# The function below is the class once more, with four places in which it can go wrong. None of the mistakes raises an
# error or changes the shape of the output:

# %%
def attend(module, x, split=to_heads, scaled=True, masked=True, merge=from_heads):
    roles = module.q_proj, module.k_proj, module.v_proj
    queries, keys, values = (split(role(x), module.num_heads) for role in roles)
    scores = queries @ keys.transpose(2, 3)
    if scaled:
        scores = scores * module.head_dim**-0.5
    if masked:
        keep = causal_keep(x.shape[1], device=x.device)
        scores = scores.masked_fill(~keep, -torch.inf)
    return module.out_proj(merge(scores.softmax(dim=-1) @ values))


def view_at_once(table, num_heads):  # (b, t, h * d) -> (b, h, t, d), no transpose
    return table.view(len(table), num_heads, table.shape[1], -1)


def merge_at_once(context):  # (b, h, t, d) -> (b, t, h * d), no transpose
    return context.reshape(len(context), context.shape[2], -1)


# %%
mistakes = {
    "straight_view": {"split": view_at_once},
    "mask_dropped": {"masked": False},
    "merged_at_once": {"merge": merge_at_once},
    "unscaled": {"scaled": False},
}
module = MultiHeadAttention(d_in, d_out, num_heads).to(device)
module.load_state_dict(mine.state_dict())
torch.testing.assert_close(attend(module, x), output)

# %% [markdown]
# First read what the trained storyteller says with each of them:

# %%
for name, mistake in mistakes.items():

    class Broken(MultiHeadAttention):
        def forward(self, x, mistake=mistake):
            return attend(self, x, **mistake)

    told = with_attention(storyteller, Broken).write("This is the story of")
    print(f"{name}:", fill(shorten(told, 130), 80), sep="\n")

# %% [markdown]
# With a wrong view or a wrong merge the sentences fall apart at once, without the division a little later. Without the
# mask most words still follow each other well, and a quick look might let it pass.
#
# Now measure, in the small module with its random matrices. **Predict.** Which of the four changes the output
# least?

# %%
outputs = {name: attend(module, x, **mistakes[name]) for name in mistakes}
changes = {name: (one - output).norm() / output.norm() for name, one in outputs.items()}
guess = ...  # one of the four names, in quotation marks
predict(guess, lambda: min(changes, key=changes.get))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is `unscaled`: in this module the attention weights become merely sharper than they should be. Don't trust that.
# The next cell measures the same in the two blocks of the trained storyteller.
#
# </details>

# %%
given = storyteller.attention_inputs(story)
blocks = zip(storyteller.attentions, given, strict=True)
for block, (trained, block_input) in enumerate(blocks):
    right = attend(trained, block_input)
    print(f"block {block}:", end="")
    for name, mistake in mistakes.items():
        change = attend(trained, block_input, **mistake) - right
        print(f"  {name} {change.norm() / right.norm():.0%}", end="")
    print()

# %% [markdown]
# In the second block `unscaled` is again the smallest. In the first block it changes the output by as much as the
# output is long, and hardly less than a missing mask does. So a mistake that is small in an untrained module may be
# large in a trained one.
#
# **Predict.** Lesson 02 had a test for causal attention: change the last token, and see whether the output of an
# earlier token changes. How many of the four mistakes does this test find?

# %%
def found_by_last_token(mistake):
    changed = torch.cat([x[:, :-1], -x[:, -1:]], dim=1)
    moved = attend(module, x, **mistake) - attend(module, changed, **mistake)
    return bool(moved[:, :-1].abs().max() > 1e-5)


guess = ...  # a number from 0 to 4
predict(guess, lambda: sum(map(found_by_last_token, mistakes.values())))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The last-token test finds three of the four. With `mask_dropped` every token sees the future, and `straight_view` and
# `merged_at_once` mix the tokens, so that an earlier output depends on a later token. The test can't find `unscaled`,
# because that mistake still hides what should be hidden.
#
# </details>
#
# A comparison with an output that is known to be right finds all four:

# %%
differ = [name for name, one in outputs.items() if not torch.allclose(one, output)]
print("differ:", differ)

# %% [markdown]
# To see where your own class moves the numbers of a token, draw it with `layout_steps(record(mine, x), words=words)`.
#
# ## Compare, and cheat
#
# Do your class, the library's, the wrapper and PyTorch's module agree? A comparison proves nothing if it can't fail.
# So there are two different samples, sizes that differ wherever they can (`nn.MultiheadAttention` wants `d_in` equal
# to `d_out`), queries and keys scaled up so that the attention is not flat, and float64, because a small mistake
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
by_split = split(samples)
by_wrapper = split_to_wrapper(split)(samples)
torch_module = to_torch(split)
hidden = to_torch_mask(causal_keep(tokens, device=device))  # True = hidden
by_torch, _ = torch_module(samples, samples, samples, attn_mask=hidden)

# %%
for result in (by_split, by_wrapper, by_torch):
    torch.testing.assert_close(yours(samples), result, rtol=0, atol=1e-12)
print("yours, the library's, the wrapper, and PyTorch's agree to twelve decimals")

# %% [markdown]
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
# Now do exercises 4 to 6 of [the sheet](exercises/05_exercises.ipynb).
#
# ## What it buys
#
# For the projections the wrapper runs three small products per head, and the weight split does the same arithmetic in
# three. What does that save? The next cell gives both the same weights and the same input, and divides the
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
# On the machine that made this page the loop costs most when each product is small: in a narrow model, or with few
# tokens, as when a model writes one token after another. For a longer text in a wide model there was no measurable
# difference on one CPU thread. (This is the forward pass alone, and there is no figure for a GPU.) The other gain is in
# the code. All heads are now one tensor, and the next lesson, the cache of lesson 09 and the fused function of lesson
# 14 work on it as it is; with a list of heads each of them would be a loop again.
#
# ## Your turn
#
# 1. Exchange the two heads: swap the two blocks of four rows in `W_q`, `W_k` and `W_v`, which `W_q.roll(4, 0)` does.
#    Does the output change? What has to be done to `W_o` so that it doesn't?
# 2. Make the library's `MultiHeadAttention` with the sizes of this lesson and one more argument, d_v=6. Print the
#    shapes of its four weight matrices. Which of them have changed? And which change with d_qk=6?
# 3. GPT-2 has a single matrix for queries, keys and values, called c_attn. Pack the three of your module into one, and
#    cut the product into the three projections again.
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
# 3. Stack the rows, and cut the columns of the product. This prints True:
#
#    ```python
#    c_attn = torch.cat([mine.q_proj.weight, mine.k_proj.weight, mine.v_proj.weight])
#    queries, keys, values = (x @ c_attn.T).split(d_out, dim=2)
#    print(torch.allclose(values, mine.v_proj(x), atol=1e-6))
#    ```
#
# </details>
#
# ## What you have now
#
# You have multi-head attention as real models have it, written by you and found equal to a loop over heads and to
# PyTorch's module, on one set of sizes.
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
