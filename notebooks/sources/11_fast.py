# %% [markdown]
# # Make it fast, and know why
#
# [Open in
# Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/11_fast.ipynb)
#
# You will count what attention computes and what it moves, and compare both counts with what a machine can do per
# second. That tells you why writing one token at a time is slow even on the fastest GPUs. Then you will write the core
# of FlashAttention, which never makes the table of attention weights, and the merge that lets several workers share one
# long text.
#
# **You need** [lesson 06](06_multi_query.ipynb). **It takes** about 45 minutes.

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
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import MultiHeadAttention, attend, causal_keep
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict
from course_lib.pictures import bar_chart, draw_tiles, line_plot, roofline
from course_lib.recorder import record
from course_lib.timing import compare_times, copies_of_keys, stored

# %%
device = course_device()
generator = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(shape, generator=generator).to(device)

# %% [markdown]
# ## Count before you measure
#
# A time depends on the machine, but a count does not, so we begin with counts. Take a layer of width 768 with 12 heads.
# Each token goes through four projections of 768 times 768 multiplications. Each query also meets each key, once for
# the scores and once for the context, and each time that costs 768 multiplications over all heads. The table counts
# them in millions (M):

# %%
m, num_heads, head_dim = 768, 12, 64
print("tokens   projections   scores and context   their share")
for t in (128, 1024, 8192):
    projections, pairs = 4 * t * m * m, 2 * t * t * m
    share = pairs / (projections + pairs)
    print(f"{t:6} {projections / 1e6:9,.0f} M {pairs / 1e6:16,.0f} M {share:16.2f}")

# %% [markdown]
# In a short text the projections cost most; in a long one the pairs of a query and a key do, because only the pairs
# grow with the square of the length.
#
# **Predict.** For how many tokens do both cost the same?

# %%
as_many = [t for t in range(1, 8192) if 2 * t * t * m >= 4 * t * m * m]
guess = ...  # a number of tokens
predict(guess, lambda: as_many[0])

# %% [markdown]
# <details><summary>After your guess</summary>
#
# They cost the same at twice the width. To see it, set `4 * t * m * m` equal to `2 * t * t * m`, and divide both by
# `2 * t * m`.
#
# </details>
#
# The causal mask hides nearly half of these pairs only after their products have been computed. Now we count
# the bytes, 4 per number. The last column is one tensor of scores:

# %%
print("tokens   input x   parameters   scores (1, head, query, key)")
for t in (128, 1024, 8192):
    sizes = 4 * t * m / 1e6, 4 * 4 * m * m / 1e6, 4 * num_heads * t * t / 1e6
    print("{:6} {:6.1f} MB {:9.1f} MB {:15,.1f} MB".format(t, *sizes))

# %% [markdown]
# At 8,192 tokens the scores of one layer and one text take 3,221 MB, more than a hundred times as much as the input.
# The explicit form, your own from lesson 05, makes several tensors of this shape. Here they are for 128 tokens:

# %%
MyMultiHeadAttention = from_earlier("MyMultiHeadAttention")
layer = MyMultiHeadAttention(m, m, num_heads).to(device)
for step in record(layer, draw(1, 128, m)).steps:
    if step.shape == (1, num_heads, 128, 128) and step.effect != "view":
        print(f"{step.op:12} {step.tensor.nbytes:9,} bytes")

# %% [markdown]
# For a long text each step writes its tensor to memory and the next one reads it back, and the mask and softmax do very
# little arithmetic with each number.
#
# ## Two limits of a machine
#
# A processor computes only with numbers in its own memory on the chip, some megabytes of fast **SRAM**. Everything else
# waits in the large memory beside the chip, which is the RAM of a computer or, in most GPUs of data centres, **HBM**
# (high-bandwidth memory). So each machine has two limits: how many operations it does per second (FLOP/s, where a
# multiplication and an addition are two operations), and how many bytes per second come in from the large memory, its
# **bandwidth**.
#
# Their quotient is the **machine balance**, the operations that the machine could do while one byte arrives. For four
# GPUs the first two numbers are copied from NVIDIA's data sheets
# ([T4](https://www.nvidia.com/en-us/data-center/tesla-t4/), [A100](https://www.nvidia.com/en-us/data-center/a100/),
# [H100](https://www.nvidia.com/en-us/data-center/h100/), [H200](https://www.nvidia.com/en-us/data-center/h200/); matrix
# products of two-byte numbers, without the doubling for sparse matrices). All but the T4 are the SXM modules; the PCIe
# cards are slower.

# %%
machines = {  # operations per second, bytes per second
    "T4": (65e12, 320e9),
    "A100": (312e12, 2039e9),  # the one with 80 GB
    "H100": (989e12, 3350e9),
    "H200": (989e12, 4800e9),
}
for name, (flops, bandwidth) in machines.items():
    speeds = f"{flops / 1e12:3.0f} TFLOP/s, {bandwidth / 1e9:5,.0f} GB/s"
    print(f"{name}: {speeds}, balance {flops / bandwidth:3.0f}")

# %% [markdown]
# The A100 can do 153 operations while a byte arrives and the H100 even 295, so they are busy only if a number that was
# read is used again and again.
#
# The stored measurements of this lesson were made on two threads of a CPU, whose limits were measured with a large
# matrix product and a long read, in `float32`:

# %%
measured = stored("cpu")
cpu = measured.limits[0]
cpu_balance = cpu.matmul_gflops / cpu.read_gb_per_s
print(f"{measured.place}:")
speeds = f"{cpu.matmul_gflops:.0f} GFLOP/s, {cpu.read_gb_per_s:.0f} GB/s"
print(f"{speeds}, balance {cpu_balance:.1f}")

# %% [markdown]
# That is in float32, four bytes per number. The GPUs above compute in two-byte numbers on units made for matrix
# products, and their balance is far higher.
#
# A computation has such a quotient, too, its **arithmetic intensity**: its operations divided by the bytes that it must
# move. If it is below the balance, the processor waits for bytes, and the computation is **memory-bound**. If it is
# above, the bytes wait for the processor, and the computation is **compute-bound**. ([Williams, Waterman and Patterson,
# Roofline: An Insightful Visual Performance Model, 2009](https://doi.org/10.1145/1498765.1498785))
#
# **Write it yourself:** the intensity of attention for one text, without the projections and without a mask. Queries,
# keys and values are read once, the context is written once, and a multiplication and an addition are two operations.

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
# ## Prefill and decode
#
# A model reads a prompt all at once, which is called **prefill**. Then it writes the answer one token at a time, which
# is called **decode**: a single new query meets all keys of the cache. Here are both, for multi-head attention (MHA),
# grouped-query attention (GQA) and multi-query attention (MQA), with 4,096 keys, 32 heads of width 64 and numbers of 2
# bytes:

# %%
work = {  # query_len, key_len, num_heads, num_kv_heads
    "prefill, MHA": (4096, 4096, 32, 32),
    "decode, MHA": (1, 4096, 32, 32),
    "decode, GQA": (1, 4096, 32, 8),
    "decode, MQA": (1, 4096, 32, 1),
}

# %%
balances = [flops / bandwidth for flops, bandwidth in machines.values()]
print("operations per byte  ", *(f"{name:>8}" for name in machines))
for name, sizes in work.items():
    intensity = arithmetic_intensity(*sizes, 64, 2)
    bounds = ["compute" if intensity > balance else "memory" for balance in balances]
    print(f"{name:12} {intensity:8.1f}", *(f"{bound:>8}" for bound in bounds))

# %% [markdown]
# With these sizes prefill is compute-bound and decode is memory-bound on each of the GPUs, here *even with multi-query
# attention*. In decode with MHA a key is read and used by one query. That is 1 operation per byte, where an H100 could
# do 295. With GQA four heads use the key, and with MQA all 32. That is nearly 32 times as good, and still nine times
# too little for an H100.
#
# The picture of this is called a **roofline**. The line is the most that the machine can do at each intensity.

# %%
intensities = {name: arithmetic_intensity(*one, 64, 2) for name, one in work.items()}
note = "Computed from the data sheet, not measured. A real program is below the line."
title = "Attention on an H100, at best"
roofline(intensities, gflops=989e3, gb_per_s=3350, title=title, note=note)

# %% [markdown]
# The points of decode are on the slope, where the bandwidth decides, and from MHA to MQA they climb it. On our CPU, in
# `float32`, the answer for MQA is another one:

# %%
intensity = arithmetic_intensity(*work["decode, MQA"], 64, 4)
print(f"decode, MQA: {intensity:.1f} operations per byte", end=", ")
print(f"balance of the CPU {cpu_balance:.1f}")

# %% [markdown]
# The intensity is halved, because a number now has twice the bytes, but 15.9 is above the balance of 3.7, so this
# decode is compute-bound. And more heads can share. In the latent attention of DeepSeek-V3
# ([lesson 09](09_smaller_caches.ipynb)) 128 query heads read the same cache of 576 numbers per token, the latent and a
# rotated part. All of them serve as the key, and the 512 of the latent as the value, too, so they are read only once.
# With 4,096 keys and two-byte numbers:

# %%
heads, key_len, key_width, value_width = 128, 4096, 576, 512
operations = 2 * heads * key_len * (key_width + value_width)
numbers = key_len * key_width + heads * (key_width + value_width)
intensity = operations / (2 * numbers)
limits = zip(machines, balances, strict=True)
bound = [name for name, balance in limits if intensity > balance]
print(f"{intensity:.0f} operations per byte, compute-bound on: {', '.join(bound)}")

# %% [markdown]
# So with one new token this decode is compute-bound on three of the four GPUs. Whether something is memory-bound
# depends on the computation *and* on the machine.
#
# **Predict.** A server decodes for 8 users at once, each with a cache of their own. How many times as high is the
# arithmetic intensity of attention as for one user? The cell lets PyTorch count the operations of a real run.

# %%
def counted_intensity(batch):
    queries = draw(batch, 32, 1, 64)
    keys, values = draw(batch, 1, 4096, 64), draw(batch, 1, 4096, 64)
    with FlopCounterMode(display=False) as counter:
        context, _ = attend(queries, keys, values)
    num_bytes = sum(tensor.nbytes for tensor in (queries, keys, values, context))
    return counter.get_total_flops() / num_bytes


by_formula = arithmetic_intensity(1, 4096, 32, 1, 64, 4)
torch.testing.assert_close(counted_intensity(1), by_formula)
guess = ...  # a number
predict(guess, lambda: counted_intensity(8) / counted_intensity(1), within=0.1)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Eight users bring eight times the operations and eight times the caches, so the intensity of attention stays as it is.
# The weight matrices of the projections are different, because all users share them. They are read once per step, and
# their intensity grows with the batch. That is why servers put many users into one batch, and, as
# attention doesn't profit from the batch, why caches must be small.
#
# </details>
#
# Now do exercises 1 to 3 of the [sheet](exercises/11_exercises.ipynb).
#
# ## Softmax in pieces
#
# We counted as if the scores never went to the large memory. (If they do, prefill is memory-bound on these GPUs as
# well, as exercise 2 lets you count.) So they have to be used on the chip, a few at a time. Softmax seems to forbid it,
# because it needs the largest score and the sum of the whole row. But you can go through the row in blocks and keep the
# largest score and the sum *so far*. When a larger score comes, the old sum refers to the wrong maximum, and one factor
# corrects it. This is **online softmax** ([Milakov and Gimelshein, Online normalizer calculation for softmax,
# 2018](https://arxiv.org/abs/1805.02867)). Here are six scores in blocks of two:

# %%
row = torch.tensor([2.0, 3.0, 1.0, 5.0, 4.0, 0.0])
totals = {}
for seen in (2, 4, 6):
    largest = row[:seen].max()
    totals[seen] = (row[:seen] - largest).exp().sum()
    print(f"{seen} scores: largest {largest:.0f}", end=", ")
    print(f"sum of exp(score - largest) {totals[seen]:.4f}")

# %% [markdown]
# **Predict.** The first sum belongs to the largest score 3, and then 5 comes. By what number must the first sum be
# multiplied before the exponentials of the two new scores are added?

# %%
new_terms = (row[2:4] - row[:4].max()).exp().sum()
guess = ...  # a number with two decimals
predict(guess, lambda: (totals[4] - new_terms) / totals[2], within=0.005)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# exp(score - 5) is exp(score - 3) times exp(3 - 5), for every score in the sum, so the whole sum is multiplied by
# `exp(3 - 5)`. The third block brings no larger score, and its factor is exp(0), which is 1.
#
# </details>
#
# The context is a sum over the keys as well, so it is corrected by the same factor. **Write it yourself:** one step,
# for some queries of one head and one block of keys and values. Don't divide by the total, because that is done once,
# at the end.

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
# Around it goes a loop over the blocks of keys, which divides at the end. The largest score begins at minus infinity,
# so that the factor of the first block is exp(-inf), which is 0. The second result, one number per query, is the
# logarithm of the sum of all exponentials, **log-sum-exp** or lse, which you will soon need.

# %%
def in_blocks(queries, keys, values, size, causal=False):
    # 3 x (token, head_dim) -> (query, head_dim), (query)
    context, total = torch.zeros_like(queries), queries.new_zeros(len(queries))
    largest = torch.full_like(total, -torch.inf)  # (query)
    for first in range(0, len(keys), size):
        block = slice(first, first + size)
        # (q, d) @ (d, k) -> (q, k)
        scores = (queries * queries.shape[1] ** -0.5) @ keys[block].T
        # if causal, the keys end at the diagonal: only their last block needs a mask
        if causal and first + size >= len(keys):
            keep = causal_keep(*scores.shape, device=scores.device)
            scores = scores.masked_fill(~keep, -torch.inf)
        largest, total, context = online_step(
            largest, total, context, scores, values[block]
        )
    return context / total[:, None], largest + total.log()


queries, keys, values = draw(3, 512, 64).unbind()
context, lse = in_blocks(queries, keys, values, 64)
scores = (queries * 64**-0.5) @ keys.T
torch.testing.assert_close(context, scores.softmax(dim=-1) @ values)
torch.testing.assert_close(lse, scores.logsumexp(dim=-1))
print("equal to the softmax of whole rows")

# %% [markdown]
# ## Tiles
#
# The queries can be cut into blocks, too. A block of the scores, some queries by some keys, is a **tile**, and the
# method is **tiling**. With a causal mask it also saves work, because many tiles hold nothing but hidden scores:

# %%
draw_tiles(causal_keep(512), 64, title="512 tokens in tiles of 64 by 64")

# %% [markdown]
# For each block of queries the keys end at the diagonal, and what is to its right is never computed. Only the last
# tile, the one on the diagonal, needs a mask:

# %%
def in_tiles(queries, keys, values, size):
    # causal, 3 x (token, head_dim) -> (token, head_dim)
    rows = []
    for end in range(size, len(queries) + size, size):
        tile = queries[end - size : end]
        rows.append(in_blocks(tile, keys[:end], values[:end], size, causal=True)[0])
    return torch.cat(rows)


def in_whole_rows(*qkv):
    return attend(*(each[None, None] for each in qkv), causal=True)[0][0, 0]


whole = record(in_whole_rows, queries, keys, values)
tiles = record(in_tiles, queries, keys, values, 64)
torch.testing.assert_close(tiles.output, whole.output)

# %% [markdown]
# The result is the same. The recordings know how large each computed tensor was, and how many matrix products ran:

# %%
for name, recording in (("whole rows", whole), ("in tiles", tiles)):
    made = [step.tensor for step in recording if step.effect == "compute"]
    numbers, shape = max((one.numel(), tuple(one.shape)) for one in made)
    tables = sum(step.op == "matmul" for step in recording)
    print(f"{name:10}  largest tensor {shape}, {numbers:7,} numbers", end="; ")
    print(f"{tables:2} matrix products")

# %% [markdown]
# The table of 512 by 512 scores is gone. Apart from the result, the largest tensor that a step computes is now a single
# tile of 64 by 64, and it stays as small for a text of any length. These loops are those of **FlashAttention-2** ([Dao,
# FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning,
# 2023](https://arxiv.org/abs/2307.08691)): a tile is so small that it stays in SRAM, and both loops are one **fused
# kernel**, a single program for the processor. In training it keeps the lse, from which the backward pass computes each
# tile of attention weights again, because that is faster than reading them. The first FlashAttention ([Dao et al.,
# 2022](https://arxiv.org/abs/2205.14135)) had the idea; its outer loop goes over the *keys*, so it divides and rewrites
# the context at every step, and in place of the lse it keeps the largest score and the sum.
#
# **Write it yourself:** how many tiles does a causal mask save?

# %%
def tiles_skipped(num_tokens, size):  # two ints -> int
    raise NotImplementedError  # tiles a side, then those above the diagonal: two lines


tiles_skipped = filled("tiles_skipped", tiles_skipped)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def tiles_skipped(num_tokens, size):  # two ints -> int
#     side = -(-num_tokens // size)  # tiles a side; the last may be smaller
#     return side * (side - 1) // 2  # those above the diagonal
# ```
#
# </details>
#
# Each tile takes two matrix products, for its scores and its context, so the recording has counted the tiles:

# %%
computed = sum(step.op == "matmul" for step in tiles) // 2
every, skipped = (512 // 64) ** 2, tiles_skipped(512, 64)
print(f"{every} tiles, {computed} computed, {skipped} skipped by the formula")

# %% [markdown]
# In a longer text a smaller share of the tiles is on the diagonal, so that nearly half of all tiles are skipped, and
# a causal mask can make a tiled kernel up to twice as fast.
#
# Now do exercises 4 and 5 of the [sheet](exercises/11_exercises.ipynb).
#
# ## Merge partial results
#
# In decode each head has one query, so it has one block of queries. With few texts and few heads most of a GPU would
# have nothing to do. The remedy is to divide the *keys* among several workers. Each attends to its own part and returns
# its finished context and its lse. The lse tells how much of the whole softmax belongs to this part, because exp(lse)
# is its sum of exponentials.
#
# **Predict.** Two workers hold two keys each, and the first returns an lse that is larger by the logarithm of 3. What
# fraction of the merged context comes from the first? The cell takes the softmax over all four scores.

# %%
first, second = torch.tensor([1.5, 0.5]), torch.tensor([-0.5, 2.0])
larger = first.logsumexp(dim=0) - second.logsumexp(dim=0)
second += larger - torch.tensor(3.0).log()  # now the two differ by as much
scores = torch.cat([first, second])
guess = ...  # a number from 0 to 1
predict(guess, lambda: scores.softmax(dim=0)[:2].sum(), within=0.01)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The sums of exponentials are in the ratio 3 to 1, and the fractions are proportional to them.
#
# </details>
#
# **Write it yourself:** merge two partial results into one, and return its lse, too, so that it can be merged again.
# (`torch.logaddexp` takes two logarithms and returns the logarithm of the sum.)

# %%
def merge_partial(out_a, lse_a, out_b, lse_b):
    # (query, width), (query), the same for b -> (query, width), (query)
    raise NotImplementedError  # the lse of both, the two shares, the mix: three lines


merge_partial = filled("merge_partial", merge_partial)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def merge_partial(out_a, lse_a, out_b, lse_b):
#     # (query, width), (query), the same for b -> (query, width), (query)
#     lse = torch.logaddexp(lse_a, lse_b)  # (query)
#     share_a, share_b = (lse_a - lse).exp(), (lse_b - lse).exp()
#     return share_a[:, None] * out_a + share_b[:, None] * out_b, lse
# ```
#
# </details>
#
# Here four workers have a quarter of the keys each, and one query goes to all of them:

# %%
query = draw(1, 64)
blocks = [slice(at, at + 128) for at in (0, 128, 256, 384)]
parts = [in_blocks(query, keys[block], values[block], 64) for block in blocks]
merged, merged_lse = parts[0]
for out, part_lse in parts[1:]:
    merged, merged_lse = merge_partial(merged, merged_lse, out, part_lse)
at_once, _ = attend(query[None, None], keys[None, None], values[None, None])
torch.testing.assert_close(merged, at_once[0, 0])
lses = [round(part_lse.item(), 2) for _, part_lse in parts]
print("merged:", tuple(merged.shape), " lse of the parts:", lses)

# %% [markdown]
# The result equals attention over all keys, although no worker saw all of them. On one GPU this is **flash decoding**
# ([Dao et al., Flash-Decoding for long-context inference,
# 2023](https://crfm.stanford.edu/2023/10/12/flashdecoding.html)). If the workers are devices that each keep a part of
# one long text, the method is **context parallelism** ([lesson 13](13_many_devices.ipynb)).
#
# ## The kernel that PyTorch has
#
# PyTorch's function scaled_dot_product_attention has several kernels and chooses one by device, dtype and options; the
# course's modules call it with `kernel="fused"`. Don't take it for granted that a fused one runs. The step that made a
# result is named in its `grad_fn`. On the CPU, dropout is enough to make the function fall back to the explicit form,
# whose last step is an ordinary product. It is named `UnsafeView`, because PyTorch ends a product of tensors of four
# axes with a view. (The context manager sdpa_kernel of torch.nn.attention lets you insist on one.)

# %% tags=["versions", "nbval-ignore-output"]
heads_in = draw(1, 4, 128, 64).requires_grad_()
for dropout in (0.0, 0.1):  # as in GPT-2's configuration
    q_k_v = heads_in, heads_in, heads_in
    made = F.scaled_dot_product_attention(*q_k_v, is_causal=True, dropout_p=dropout)
    print(f"dropout {dropout}: {made.grad_fn.name()}")

# %% [markdown]
# Before you compare times, compare numbers, forward and backward. The cell prints nothing if they are equal:

# %%
explicit = MultiHeadAttention(m, m, num_heads).to(device)
fused = MultiHeadAttention(m, m, num_heads, kernel="fused").to(device)
fused.load_state_dict(explicit.state_dict())
x = draw(2, 128, m).requires_grad_()
sums = [module(x).square().sum() for module in (explicit, fused)]
gradients = [torch.autograd.grad(one, x)[0] for one in sums]
torch.testing.assert_close(fused(x), explicit(x))
torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)

# %% [markdown]
# Here are the stored times of the whole layer for one text, forward, with the most memory that each form holds at a
# time:

# %%
times, memory = {}, {}
for name in ("explicit", "fused"):
    asked = "growth-tokens", name, "num_tokens"
    times[name] = measured.curve(*asked)
    memory[name] = measured.curve(*asked, value="peak_bytes")
print("tokens   explicit      fused   ratio       peak memory")
for t in times["fused"]:
    slow, fast = times["explicit"][t], times["fused"][t]
    large, small = memory["explicit"][t] / 1e6, memory["fused"][t] / 1e6
    seconds = f"{slow:7.0f} ms {fast:7.0f} ms {slow / fast:7.1f}"
    print(f"{t:6} {seconds} {large:9,.0f} MB and {small:2.0f} MB")

# %% [markdown]
# For a short text there is little to gain, because most of the work is projections, which both forms do alike. At 4,096
# tokens the fused form needs a fortieth of the memory, because no tensor of (1, head, query, key) is ever whole. It is
# also four times as fast: such tensors are neither written nor read, and tiles are skipped, which saves time but no
# memory. (When a cache holds earlier keys, is_causal=True hides the wrong ones, as lesson 08 showed.)
#
# ## The copy in a broadcast
#
# In lesson 06 you saw that multi-query attention by broadcasting copies the shared keys once per head, and that folding
# the heads into the query axis avoids the copy. Here are the stored times of a step of decode, for growing caches.
# "attend_fused" folds and then calls PyTorch's fused kernel.

# %%
steps = {}
for name in ("broadcast", "folded", "attend_fused"):
    steps[name] = measured.curve("mqa-decode", name, "key_len", dtype="float32")
title, xlabel = "A step of multi-query decode: 8 texts, 32 heads", "keys in the cache"
line_plot(steps, title=title, xlabel=xlabel, ylabel="ms", note=measured.place)

# %% [markdown]
# How large should the gap between "broadcast" and "folded" be? The broadcast reads the keys and values once, writes
# them 32 times and reads them 32 times, which is 65 times the bytes of folding. If bytes decided both times, the gap
# would be 65. But on this CPU the folded step is compute-bound: it takes several times as long as its bytes alone, and
# the gap should be smaller by this factor:

# %%
longer = arithmetic_intensity(1, 4096, 32, 1, 64, 4) / cpu_balance
print(f"by the count: {1 + 32 + 32} / {longer:.1f} = {65 / longer:.0f}")
for key_len, slow in steps["broadcast"].items():
    folded, with_kernel = steps["folded"][key_len], steps["attend_fused"][key_len]
    print(f"{key_len:6,} keys: broadcast / folded = {slow / folded:4.1f}", end=", ")
    print(f"broadcast / attend_fused = {slow / with_kernel:.0f}")

# %% [markdown]
# With 1,024 keys the *quotient* is nearly met: the count says 15, and 16.2 was measured, though both steps took about
# four times as long as their counts allow. With more keys 54 to 64 were measured, and the fused kernel is faster still.
# A count gives only a lower bound of a time, and with more keys broadcasting stays further above its bound. A large
# part of this is new memory, because each copy goes into memory that the operating system has to provide first. This
# cell makes the same copy on your machine, into new memory and into memory that is already there:

# %% tags=["timing", "nbval-ignore-output"]
rows = compare_times(copies_of_keys(str(device)), rounds=5)
copy_times = {row.name: row.median_ms for row in rows}
title, note = "Copy the keys for 32 heads", "Measured when this cell ran"
bar_chart(copy_times, title=title, unit="ms", note=note)

# %% [markdown]
# On a CPU the first bar is several times as long, although both copies move the same bytes. (On a GPU they should be
# alike, because PyTorch reuses memory there.)
#
# ## Your turn
#
# 1. How many query heads must share one kv head until decode with two-byte numbers is compute-bound on an H100? Try
#    `arithmetic_intensity` with one kv head, `4096` keys and more and more heads.
# 2. A colleague writes `queries @ keys.expand(-1, 32, -1, -1).mT` for queries of shape `(2, 32, 1, 64)` and keys of
#    shape `(2, 1, 1024, 64)`, "because `expand` copies nothing". Put it into a function, and show the colleague
#    `record(...).expand()`.
# 3. Numbers of two bytes need half the traffic of `float32`, but they are less exact. Add 1 a thousand times, one by
#    one, to `torch.tensor(0.0, dtype=torch.bfloat16)`. What is the sum?
#
# <details><summary>Answers</summary>
#
# 1. It takes `319` heads. For a long cache the intensity comes close to the number of heads that share, and it must
#    exceed the balance. It stays a little below that number, because queries and context are moved as well. A model
#    with fewer heads gets there with several new tokens per step, as in speculative decoding.
# 2. `expand` itself is a view, but the product contains a `clone` that writes the keys `32` times.
# 3. The sum stops at `256`. The next number that `bfloat16` has is `258`, so `256 + 1` is rounded to `256` again. That
#    is why good kernels multiply numbers of two bytes and add up in `float32`.
#
# </details>
#
# ## What you have now
#
# You can count operations and bytes before you measure, and compare their quotient with the balance of a machine. You
# have written online softmax and the merge of partial results, which are the core of FlashAttention-2 and of flash
# decoding, and you can say when decode waits for memory and when it doesn't.
#
# **Practise:** [five exercises](exercises/11_exercises.ipynb), about 35 minutes.
#
# **Next:** [12 Find what no error reports](12_debugging_attention.ipynb)
