# %% [markdown]
# # Make it fast, and know why
#
# [Open in
# Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/14_fast.ipynb)
#
# Two storytellers with the same weight matrices tell the same story, word for word. But one of them reads much faster
# than the other, and even that one is strangely slow when it *writes*. By the end of this lesson you'll know why, and
# the storyteller will have told its story through the fast one's algorithm, written by you.
#
# **You need** lessons [05](05_weight_split.ipynb) and [06](06_multi_query.ipynb). **It takes** about 60 minutes.

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
import math
import os
from functools import partial
from textwrap import fill, shorten

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile

from course_lib.attention import MultiHeadAttention, causal_keep
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak, solution_with
from course_lib.pictures import draw_memories, draw_tiles
from course_lib.pictures.live import roofline
from course_lib.pictures.live import tiles as tiles_figure
from course_lib.recorder import record
from course_lib.stories import facts_kept, load_storyteller, with_attention
from course_lib.timing import Case, compare_times

device = course_device()
torch.set_num_threads(1)  # products as small as ours are slower on several


def storyteller(kernel):
    model = load_storyteller("weight split").to(device)
    for attention in model.attentions:
        attention.kernel = kernel
    return model


explicit, fused = storyteller("explicit"), storyteller("fused")
beginning = "Long ago there was a fox"
story = explicit.write(beginning)
print(fill(story, 80))
print("the same story from both:", fused.write(beginning) == story)

# %% tags=["timing", "nbval-ignore-output"]
texts = explicit.encode(story).repeat(64, 3)[:, :192]  # 64 texts of 192 tokens


@torch.no_grad()
def reading(models):  # name -> tokens per second
    cases = [Case(name, partial(model, texts)) for name, model in models.items()]
    rows = compare_times(cases, rounds=4)
    return {row.name: texts.numel() / row.median_ms * 1e3 for row in rows}


def writing(model, num_texts=1):  # milliseconds per step: a token of each text
    start = model.encode("").repeat(num_texts, 1)
    new = Case("new", lambda: torch.cat([*model.generate(start, 48)]).float())
    return compare_times([new], rounds=5)[0].median_ms / 48


for name, speed in reading({"explicit": explicit, "fused": fused}).items():
    print(f"{name:8} reads {speed:6,.0f} tokens per second")
print(f"fused    writes {1000 / writing(fused):5,.0f}")

# %% [markdown]
# "explicit" is the attention that you know, with its table of scores. "fused" calls a single function of PyTorch, which
# runs a single **kernel**, as a program on the device is called.
#
# ## What moves
#
# A processor computes only with what is in the small memory on its own chip, and everything else waits in the large
# memory beside it. On a GPU they are called **SRAM** and, usually, **HBM** (high-bandwidth memory). Here are their
# sizes and speeds in an A100 (Dao et al., [FlashAttention: Fast and Memory-Efficient Exact Attention with
# IO-Awareness](https://arxiv.org/abs/2205.14135), 2022, figure 1). What SRAM brings in a second takes the others
# longer:

# %%
memories = {  # bytes, bytes per second
    "SRAM, on the chip": (20e6, 19e12),
    "HBM, beside it": (40e9, 1.5e12),
    "RAM of the computer": (1e12, 12.8e9),
}
draw_memories(memories, title="The memories of an A100 GPU")

# %% [markdown]
# Your machine has such a pyramid, too. One megabyte that is read again and again stays near the processor; 256 don't:

# %% tags=["timing", "nbval-ignore-output"]
def gb_per_s(megabytes):
    numbers = torch.ones(megabytes * 2**18, device=device)
    repeats = 256 // megabytes
    read = Case("read", lambda: sum(numbers.sum() for _ in range(repeats)))
    return 256 * 2**20 / compare_times([read], rounds=5)[0].median_ms / 1e6


near, far = gb_per_s(1), gb_per_s(256)
print(f"1 MB, again and again: {near:.0f} GB/s; 256 MB: {far:.0f} GB/s")

# %% [markdown]
# **Predict.** Your class of lesson 05 reads a text of 192 tokens with 4 heads. How many tensors as large as the scores,
# (1, 4, 192, 192), does it write to memory on its way?

# %%
MyMultiHeadAttention = from_earlier("MyMultiHeadAttention")
lesson_05 = with_attention(explicit, MyMultiHeadAttention)
steps = record(lesson_05.attentions[0], torch.randn(1, 192, 64, device=device)).steps
tables = [one for one in steps if one.shape == (1, 4, 192, 192)]
guess = ...  # a number
predict(guess, lambda: sum(one.effect != "view" for one in tables))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The scores, the masked scores and the attention weights (counted in your own class, so yours may differ). Each is
# written, and read back by the next step.
#
# </details>

# %%
one_table = 64 * 4 * 192 * 192 * 4  # texts, heads, queries, keys, bytes
q_k_v_context = 4 * 64 * 192 * 64 * 4  # tensors, texts, tokens, width, bytes
print(f"64 texts, one such table: {one_table / 1e6:.1f} MB", end=", ")
print(f"queries, keys, values and context: {q_k_v_context / 1e6:.1f} MB")

# %% [markdown]
# Here these tables are the largest tensors that attention moves, and its output holds none of them.
#
# ## Two limits
#
# What does moving a byte cost? The arithmetic that could have been done in the meantime. Operations per second divided
# by bytes per second are the **machine balance**. (A multiplication and an addition are two operations.) NVIDIA's
# numbers for an [H100](https://www.nvidia.com/en-us/data-center/h100/) SXM and products of two-byte numbers:

# %%
flops, speed = 989e12, 3350e9  # operations per second, bytes per second
print(f"balance: {flops / speed:.0f} operations per byte")

# %% [markdown]
# The **arithmetic intensity** of a computation is the same quotient: its operations divided by the bytes it moves.
# Below the balance it waits for bytes and is **memory-bound**; above it is **compute-bound** (Williams, Waterman and
# Patterson, [Roofline: An Insightful Visual Performance Model for Multicore
# Architectures](https://doi.org/10.1145/1498765.1498785), 2009).
#
# **Write it yourself:** the intensity of attention for one text at its best, when no table moves. Queries, keys and
# values are read once and the context is written once. Count the operations of the two products, without a mask.

# %%
def arithmetic_intensity(
    query_len,
    key_len,
    num_heads,
    num_kv_heads,
    head_dim,
    bytes_per_number,
):  # -> float
    raise NotImplementedError  # operations, numbers moved, their quotient: three lines


arithmetic_intensity = filled("arithmetic_intensity", arithmetic_intensity)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def arithmetic_intensity(
#     query_len,
#     key_len,
#     num_heads,
#     num_kv_heads,
#     head_dim,
#     bytes_per_number,
# ):  # -> float
#     operations = 2 * 2 * num_heads * query_len * key_len * head_dim  # two products
#     # q, context; k, v
#     numbers = 2 * (num_heads * query_len + num_kv_heads * key_len) * head_dim
#     return operations / (numbers * bytes_per_number)
# ```
#
# </details>
#
# A model reads its prompt all at once (**prefill**) and then writes one token at a time (**decode**), with a single
# query that meets all keys of the cache. With 4,096 keys, 32 heads of width 64 and two-byte numbers:

# %%
prefill = arithmetic_intensity(4096, 4096, 32, 32, 64, 2)
decode = arithmetic_intensity(1, 4096, 32, 32, 64, 2)
print(f"prefill {prefill:,.0f}, decode {decode:.2f} operations per byte")

# %% [markdown]
# Guess before you move anything in the figure: a server decodes for 8 users at once, each with a cache of their own.
# Does the intensity of attention rise? And that of a weight matrix?

# %%
roofline()

# %% [markdown]
# In multi-head decode each key is read and used by one query: 1 operation per byte, where an H100 could do 295. Sharing
# climbs the slope, because more queries use each number that is read. A batch does nothing for attention: eight times
# the operations, eight times the caches. A weight matrix is read once for all users, and its intensity grows with their
# number. So many users in one batch make good use of the weights, and the caches must be small all the same.
#
# ## And a third limit
#
# Now the storyteller. To write a token it reads its weight matrices, and a cache. How long should that take?

# %% tags=["timing", "nbval-ignore-output"]
weights = sum(weight.numel() for weight in fused.parameters())
to_read = 4 * weights + 24 * 1024  # and the cache, halfway through the 48 tokens
square = torch.randn(512, 512, device=device)
product = compare_times([Case("product", lambda: square @ square)], rounds=5)[0]
gflops = 2 * 512**3 / product.median_ms / 1e6
step = writing(fused, 1)
for rate in (near, far):
    print(f"{to_read / 1e6:.2f} MB at {rate:.0f} GB/s: {to_read / rate / 1e6:.3f} ms")
million = 2 * weights / 1e6
for number in (1, 64):
    print(f"{number} x {million:.2f} million operations:", end=" ")
    print(f"{number * million / gflops:.3f} ms")
print(f"measured: {step:.2f} ms")

# %% [markdown]
# Neither the bytes, at either speed, nor the arithmetic explains the time of a step. So let it write 64 texts at once.
# The weights are read once for all of them, but each text needs its own arithmetic.
#
# **Predict.** How many times as long as before does a step take: is that nearest to 1, to 4, to 16 or to 64? (If its
# time were all arithmetic, 64 times.)

# %% tags=["timing", "nbval-ignore-output"]
step_64 = writing(fused, 64)
guess = ...  # 1, 4, 16 or 64
predict(guess, lambda: min((1, 4, 16, 64), key=lambda near: abs(near - step_64 / step)))

# %% tags=["timing", "nbval-ignore-output"]
passes = [record(fused, texts[:number, :1]).steps for number in (1, 64)]
calls = {sum(len(one.aten_ops) for one in each) for each in passes}  # the same for both
print(f"one text: {step:.2f} ms per step, 64 texts: {step_64:.2f} ms")
print("operations called, by either:", *calls)
print(f"tokens per second: {64 * step / step_64:.0f} times as many")

# %% [markdown]
# 64 times the arithmetic, as many operations called, and the step takes only a few times as long. So with a single text
# most of the time goes into *calling* operations, however little each of them does. This **overhead** is the third
# limit, and small models live there.
#
# **Now do** exercises 1 to 3 of the [sheet](exercises/14_exercises.ipynb).
#
# ## Softmax in pieces
#
# Reading is another matter: there the tables cost time. To get rid of them, scores must be used a few at a time.
# Softmax seems to forbid it, as it needs the largest score and the sum of the whole row. But both can be kept *so far*
# (Milakov and Gimelshein, [Online normalizer calculation for softmax](https://arxiv.org/abs/1805.02867),
# 2018). Six scores, in blocks of two:

# %%
row = torch.tensor([2.0, 3.0, 1.0, 5.0, 4.0, 0.0])
totals = {}
for seen in (2, 4, 6):
    largest = row[:seen].max()
    totals[seen] = (row[:seen] - largest).exp().sum()
    print(f"{seen} scores: largest {largest:.0f}", end=", ")
    print(f"sum of exp(score - largest) {totals[seen]:.4f}")

# %% [markdown]
# The first sum belongs to a largest score of 3. Then 5 comes, and the old sum refers to the wrong number.
#
# **Predict.** By what must it be multiplied before the two new terms are added?

# %%
new_terms = (row[2:4] - 5).exp().sum()
guess = ...  # a number with two decimals
predict(guess, lambda: (totals[4] - new_terms) / totals[2], within=0.005)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# By `exp(3 - 5)`, because exp(score - 5) is exp(score - 3) times exp(3 - 5), for every score in the sum.
#
# </details>
#
# The context is a sum over the keys as well, so the same factor corrects it.
#
# **Write it yourself:** one step, for some queries of one head and one block of keys. Don't divide by the total: that
# is done once, at the end. And leave the arguments as they are, without `+=`.

# %%
def online_step(largest, total, context, scores, values):
    # 2 x (q), (q, d), (q, k), (k, d) -> (q), (q), (q, d)
    # the new largest score, the factor, the new weights: four lines
    raise NotImplementedError


online_step = filled("online_step", online_step)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def online_step(largest, total, context, scores, values):
#     # 2 x (q), (q, d), (q, k), (k, d) -> (q), (q), (q, d)
#     new_largest = torch.maximum(largest, scores.amax(dim=-1))
#     shrink = (largest - new_largest).exp()  # (query)
#     # (query, key), not divided by their sum
#     weights = (scores - new_largest[:, None]).exp()
#     return (
#         new_largest,
#         total * shrink + weights.sum(dim=-1),
#         context * shrink[:, None] + weights @ values,
#     )
# ```
#
# </details>
#
# Let the tiles pass one by one. Then choose a mistake, and see where its context ends up:

# %%
tiles_figure()

# %% [markdown]
# ## Attention in tiles
#
# Cut the queries into blocks, too. Some queries by some keys are a **tile**, and a causal mask makes many tiles
# superfluous:

# %%
draw_tiles(causal_keep(512), 64, title="512 tokens in tiles of 64 by 64")

# %% [markdown]
# **Predict.** You'll test your class on 29 tokens in tiles of 5 by 5, with smaller ones at the end. How many tiles of
# scores must it compute?

# %%
mask = causal_keep(29)
tiles = [tile for rows in mask.split(5) for tile in rows.split(5, dim=1)]
needed = sum(tile.any().item() for tile in tiles)
guess = ...  # a number
predict(guess, needed)

# %% [markdown]
# **Write it yourself, from an empty class:** the attention of lesson 05, in tiles of `size` by `size`. The outer loop
# is over queries, the inner one over keys. Each block of queries begins with minus infinity and zeros, goes through the
# blocks of keys up to the diagonal, and divides at the end. The inside of the loop is your `online_step` with batch and
# head in front, so new axes are made by `[..., None]`. Only the tile on the diagonal needs a mask. (`split` allows a
# smaller last block.)

# %%
class MyTiledAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, size=16):
        super().__init__()
        raise NotImplementedError  # q_proj, k_proj, v_proj and out_proj

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError


MyTiledAttention = filled("MyTiledAttention", MyTiledAttention)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyTiledAttention(nn.Module):
#     def __init__(self, d_in, d_out, num_heads, size=16):
#         super().__init__()
#         self.num_heads, self.size = num_heads, size
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, d_out, bias=False)
#         self.v_proj = nn.Linear(d_in, d_out, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#
#     def blocks(self, x):  # (b, t, h * d) -> blocks of tokens, each (b, h, size, d)
#         by_head = x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
#         return by_head.split(self.size, dim=2)
#
#     def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
#         queries = self.blocks(self.q_proj(x))
#         keys, values = self.blocks(self.k_proj(x)), self.blocks(self.v_proj(x))
#         contexts = []
#         for row, block in enumerate(queries):
#             block = block * block.shape[-1] ** -0.5
#             context, total = torch.zeros_like(block), torch.zeros_like(block[..., 0])
#             largest = torch.full_like(total, -torch.inf)  # (b, h, q)
#             for column in range(row + 1):  # later tiles are hidden as a whole
#                 # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
#                 scores = block @ keys[column].transpose(2, 3)
#                 if column == row:  # on the diagonal
#                     hidden = torch.ones_like(scores[0, 0]).triu(1).bool()
#                     scores = scores.masked_fill(hidden, -torch.inf)
#                 new_largest = torch.maximum(largest, scores.amax(dim=-1))
#                 shrink = (largest - new_largest).exp()
#                 weights = (scores - new_largest[..., None]).exp()
#                 total = total * shrink + weights.sum(dim=-1)
#                 context = context * shrink[..., None] + weights @ values[column]
#                 largest = new_largest
#             contexts.append(context / total[..., None])
#         merged = torch.cat(contexts, dim=2).transpose(1, 2).flatten(2)  # (b, t, h * d)
#         return self.out_proj(merged)
# ```
#
# </details>
#
# The proof: the library's output on these 29 tokens, from exactly the tiles that are needed.

# %%
torch.manual_seed(6)
reference = MultiHeadAttention(11, 21, num_heads=3).to(device)
samples = torch.randn(2, 29, 11, generator=torch.Generator().manual_seed(1)).to(device)


def proof(module_class):
    module = module_class(11, 21, 3, size=5).to(device)
    module.load_state_dict(reference.state_dict())
    run = record(module, samples)
    torch.testing.assert_close(run.output, reference(samples))
    products = [step.shape for step in run.steps if step.op in ("matmul", "einsum")]
    scores = [shape for shape in products if {7, 21}.isdisjoint(shape[-2:])]  # no width
    computed = sum(math.prod(shape[:-2]) for shape in scores) // (2 * 3)  # batch, heads
    assert computed == needed, f"{computed} tiles, needed: {needed}. Is `size` used?"
    return computed


print(f"equal; of {len(tiles)} tiles {proof(MyTiledAttention)} computed")

# %% [markdown]
# **Now cheat.** Write a class with a mistake that this proof doesn't see.

# %%
Sneaky = ...  # a class like MyTiledAttention, with your mistake, in place of the dots
sneak("MyTiledAttention", Sneaky, proof)

# %% [markdown]
# <details><summary>A way in</summary>
#
# The proof's scores are small. A class with zeros in place of the largest scores passes; at scores of a hundred its
# exponentials are infinite.
#
# </details>
#
# Into the storyteller, with the weight matrices that were trained:

# %%
tiled = with_attention(explicit, partial(MyTiledAttention, size=64))
print("its own story, through your tiles:", tiled.write(beginning) == story)

# %% [markdown]
# How fast do two loops in plain Python read?

# %% tags=["timing", "nbval-ignore-output"]
models = {"lesson 05": lesson_05, "fused": fused}
for size in (8, 64, 192):
    sized = partial(MyTiledAttention, size=size)
    models[f"tiles of {size}"] = with_attention(explicit, sized)
for name, speed in reading(models).items():
    print(f"{name:12} {speed:7,.0f} tokens per second")

# %% [markdown]
# Where this page was made, tiles of 64 beat the class of lesson 05, in spite of the loops. Tiles of 8 make many more
# calls. A single tile of 192 is the whole table again, in more calls than lesson 05 makes.
#
# ## FlashAttention, the first and the second
#
# When both loops are one **fused kernel**, a single program whose tiles stay in SRAM, that is **FlashAttention-2**
# (Dao, [FlashAttention-2: Faster Attention with Better Parallelism and Work
# Partitioning](https://arxiv.org/abs/2307.08691), 2023). The first **FlashAttention**, of the paper above, has other
# loops:
#
# | What differs | FlashAttention | FlashAttention-2, and yours |
# |---|---|---|
# | outer loop | blocks of keys | blocks of queries |
# | inner loop | blocks of queries | blocks of keys |
# | the context | divided and written to HBM in each step | divided once, at the end |
# | kept for training | largest scores and totals | their **lse** |
#
# The lse is `largest + total.log()`, the logarithm of the sum of all exponentials. From it the backward pass computes
# each tile of attention weights again, instead of reading a table.
#
# The lse has a second use. Decode has a single query per head, one row of tiles, which would keep only a small part of
# a GPU busy. So the *keys* are divided among workers, and their results are merged: the exponential of each lse says
# how much of the whole softmax is its own. On one GPU this is **flash decoding** (Dao et al.,
# [Flash-Decoding for long-context inference](https://crfm.stanford.edu/2023/10/12/flashdecoding.html), 2023). The merge
# is exercise 6 of the sheet, and [lesson 16](16_many_devices.ipynb) needs it.
#
# ## Three mistakes
#
# Somebody changed one line, in three ways: each tile subtracts *its own* largest score, not the largest so far; or the
# *context* isn't multiplied by the factor; or the *total* isn't. Below, each change is written as old => new. The tiles
# are 16 by 16.
#
# **Predict.** One of the three tells the right story all the same, word for word. Is it `"largest"`, `"context"` or
# `"total"`?

# %%
edits = {
    "largest": "torch.maximum(largest, scores.amax(dim=-1)) => scores.amax(dim=-1)",
    "context": "context * shrink[..., None] => context",
    "total": "total * shrink => total",
}


def edited(name, size=16):
    changed = partial(solution_with("MyTiledAttention", edits[name]), size=size)
    return with_attention(explicit, changed)


models = {"right": tiled} | {name: edited(name) for name in edits}
told = {name: models[name].write(beginning) for name in edits}
guess = ...  # one of the three, in quotes
predict(guess, lambda: next(name for name in edits if told[name] == story))

# %%
for name in ("context", "total"):
    print(f"{name}:\n{fill(shorten(told[name], 300), 80)}")
    same = edited(name, size=48).write(beginning) == story
    print(f"the right story with tiles of 48: {same}\n")

# %% [markdown]
# Both begin well: in the first tile nothing has to be corrected. And with tiles of 48 nobody who reads the story of
# "total" will find its mistake: a right text proves nothing.
#
# So measure. How sure are the models of names and things in stories that they weren't trained on? And do the outputs
# stay finite when the inputs are a thousand times as large?

# %%
inputs = 1000 * explicit.attention_inputs(story)[0]  # (1, 75, 64)
for name, model in models.items():
    sure = facts_kept(model, count=50)
    huge = model.attentions[0](inputs).isfinite().all().item()
    kept = f"sure of names {sure['name']:.2f}, of things {sure['thing']:.2f}"
    print(f"{name:8} {kept}, finite at huge scores: {huge}")

# %% [markdown]
# "largest" loses nothing, until a factor is infinite. Softmax doesn't care which number is subtracted, if all sums
# refer to the same one and the factor corrects them, up or down. The largest *so far* is the safe choice: no
# exponential and no factor exceeds 1, and no total is 0. So a test of such a kernel needs more keys than a tile, *and*
# scores that are far apart.
#
# **Now do** exercises 4 to 6 of the [sheet](exercises/14_exercises.ipynb).
#
# ## Which kernel ran
#
# PyTorch's scaled_dot_product_attention chooses a kernel by device, dtype and options. If no fused one fits, it
# computes the whole table, without a word. The profiler lists what ran. Five calls:

# %%
q, k, v = torch.randn(3, 2, 8, 5, 16, device=device).unbind()
calls = {
    "causal": ((q, k, v), {"is_causal": True}),
    "dropout": ((q, k, v), {"is_causal": True, "dropout_p": 0.1}),
    "a mask": ((q, k, v), {"attn_mask": causal_keep(5, device=device)}),
    "4 kv heads": ((q, k[:, :4], v[:, :4]), {"is_causal": True, "enable_gqa": True}),
    "no batch axis": ((q[0], k[0], v[0]), {"is_causal": True}),
}

# %% tags=["versions", "nbval-ignore-output"]
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler is talkative


def kernel_of(tensors, options):
    with profile(activities=[ProfilerActivity.CPU]) as ran:
        F.scaled_dot_product_attention(*tensors, **options)
    names = [event.key for event in ran.key_averages()]
    return next(name for name in names if name.startswith("aten::_scaled_dot_product"))


for name, call in calls.items():
    print(f"{name:14} {kernel_of(*call)}")

# %% [markdown]
# The one whose name ends in `math` is the explicit form. On this CPU dropout is enough to get it, or a missing axis.
# To insist on a kernel, there is sdpa_kernel in torch.nn.attention, which raises an error rather than fall back.
# (`enable_gqa` says that consecutive query heads share a kv head, as in lesson 06.)
#
# ## Your turn
#
# 1. How many query heads must share one kv head until decode with two-byte numbers is compute-bound on an H100? Try
#    `arithmetic_intensity` with one kv head, `4096` keys and more and more heads of width `64`.
# 2. In `bfloat16`, the two-byte type of large models, the explicit and the fused form differ visibly. Which one is
#    nearer to what float64 computes of the same inputs?
# 3. Let both storytellers tell ten stories in `bfloat16`. How many pairs are the same, word for word?
#
# <details><summary>Answers</summary>
#
# 1. It takes `319` heads. For a long cache the intensity comes close to the number of heads that share, but stays a
#    little below it, because queries and context move as well.
# 2. The fused one: its largest error was about `0.016`, like that of float32 rounded once, and the explicit form's
#    about `0.1`. Compare the two with each other, and you blame the better one. So compare both with a *third*, in
#    higher precision.
#
#    ```python
#    from course_lib.attention import attend, attend_fused
#
#    q, k, v = torch.randn(3, 2, 4, 192, 16).mul(2).bfloat16()
#    right, _ = attend(q.double(), k.double(), v.double(), causal=True)
#    rounded = attend(q.float(), k.float(), v.float(), causal=True)[0].bfloat16()
#    for each in (attend(q, k, v, causal=True)[0], attend_fused(q, k, v, causal=True), rounded):
#        print((each - right).abs().max().item())
#    ```
#
# 3. In float32 all ten are. In `bfloat16` from one to three differed where we tried it, without a mistake in either: a
#    different pig walks by. So the same text is no test of a kernel, and another text no proof of a mistake.
#
#    ```python
#    def tell(kernel):
#        model = storyteller(kernel).to(torch.bfloat16)
#        names = ("Anna", "Ben", "Clara", "Emma", "Finn", "Jack", "Leo", "Lucy", "Max", "Mila")
#        return [model.write(f"Once there was a fox named {name}.") for name in names]
#
#    pairs = zip(tell("explicit"), tell("fused"), strict=True)
#    print(sum(one == other for one, other in pairs))
#    ```
#
# </details>
#
# ## What you have now
#
# Attention that never makes its table, and a storyteller that can't tell the difference. You can say which of three
# limits holds a computation back, which kernel ran, and what a fair test of one looks like.
#
# **Practise:** [six exercises](exercises/14_exercises.ipynb), about 40 minutes.
#
# **Next:** [15 Find what no error reports](15_debugging_attention.ipynb).
