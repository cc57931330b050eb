# %% [markdown]
# # Make it fast, and know why
#
# [Open in
# Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/09_fast.ipynb)
#
# You will count what attention must compute and move, see how a fused kernel gets by without the weights, find out why
# multi-query attention, as it is usually written, decodes many times slower than it could, and meet the two numbers of
# a machine that explain all of this.
#
# **You need** [lesson 06](06_multi_query.ipynb). **It takes** twenty-five minutes.

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
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import (
    GroupedQueryAttention,
    KVCache,
    MultiHeadAttention,
    attend,
    attend_fused,
    causal_keep,
)
from course_lib.bench import stored
from course_lib.bench.case import Case
from course_lib.bench.memory import peak_bytes
from course_lib.bench.results import MEASURED
from course_lib.bench.timing import compare_times
from course_lib.device import course_device
from course_lib.pictures import bars, lines
from course_lib.recorder import record

device = course_device()
generator = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(shape, generator=generator).to(device)

# %% [markdown]
# ## Counted here, timed there
#
# What can be counted is the same on every machine. Times are not. So the plots of this lesson come from one
# measurement that is stored with the course, and each says where it was made. Cells headed "on your machine" measure
# again, in a few seconds, on yours.

# %%
measured = stored("cpu")
machine = measured.machine
where = f"{machine['processor']}, {machine['threads']} threads, "
where += f"PyTorch {machine['torch']}, {machine['date']}"
print(where)

# %% [markdown]
# `course bench` repeats all of it on your machine, in some minutes; `course bench --save FILE` keeps the result.
#
# ## Count first
#
# Take one layer of width m = 768 with 12 heads of 64, and t tokens. Each of its four projections is t * m * m
# multiplications. Each query meets each key: t * t * m multiplications for the scores of all heads, and as many for the
# context.

# %%
m, num_heads, head_dim = 768, 12, 64
print("tokens   projections   scores and context   their share")
for t in (128, 1024, 8192):
    projections, pairs = 4 * t * m * m, 2 * t * t * m
    print(f"{t:6} {projections / 1e6:9,.0f} M {pairs / 1e6:16,.0f} M {pairs / (projections + pairs):16.2f}")
print("equal at t = 2 m =", 2 * m)

# %% [markdown]
# Short texts pay for projections, long ones for pairs. Don't believe the formula: PyTorch can count the products of a
# real run.

# %%
layer = MultiHeadAttention(m, m, num_heads).to(device).eval()
x = draw(1, 128, m)
with FlopCounterMode(display=False) as counter, torch.no_grad():
    layer(x)
print(f"by formula: {4 * 128 * m * m + 2 * 128 * 128 * m:,}")
print(f"counted:    {counter.get_total_flops() // 2:,}")  # it counts additions, too

# %% [markdown]
# Half of these pairs are then hidden by the causal mask: computed for nothing.
#
# Now the bytes, 4 a number. The last column is one tensor of (batch, head, query, key):

# %%
print("tokens        x   weights of the layer   one (1, h, q, k)")
for t in (128, 1024, 8192):
    sizes = 4 * t * m, 4 * 4 * m * m, 4 * num_heads * t * t
    print("{:6} {:5.1f} MB {:19.1f} MB {:15,.1f} MB".format(t, *(size / 1e6 for size in sizes)))

# %% [markdown]
# One sample, one layer, and gigabytes. And the explicit form does not make just one of them:

# %%
for step in record(layer, x).steps:
    if step.shape == (1, num_heads, 128, 128) and step.effect != "view":
        print(f"{step.op:12} {step.tensor.nbytes:9,} bytes")

# %% [markdown]
# Each is written to memory and read again by the next line, for a little arithmetic. And for training, autograd keeps
# some of them until the backward pass.
#
# ## How to get by without the weights
#
# Softmax needs the whole row: its largest score, and its sum. Or does it? Go through the keys in blocks, and keep
# three things for each query: the largest score so far, the sum so far, the context so far. When a larger score turns
# up, shrink what is there:

# %%
def in_blocks(queries, keys, values, size):
    queries = queries * queries.shape[-1] ** -0.5
    largest = torch.full_like(queries[..., :1], -torch.inf)  # (b, h, q, 1)
    total, context = torch.zeros_like(largest), torch.zeros_like(queries)
    for keys_here, values_here in zip(keys.split(size, dim=2), values.split(size, dim=2), strict=True):
        scores = queries @ keys_here.mT  # (b, h, q, d) @ (b, h, d, block) -> (b, h, q, block)
        new_largest = scores.amax(dim=-1, keepdim=True).maximum(largest)
        shrink = (largest - new_largest).exp()
        weights = (scores - new_largest).exp()
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        context = context * shrink + weights @ values_here
        largest = new_largest
    return context / total


queries, keys, values = draw(3, 2, num_heads, 512, head_dim).unbind()
whole = record(attend, queries, keys, values)
blocks = record(in_blocks, queries, keys, values, 64)
torch.testing.assert_close(blocks.output, whole.output[0])
for name, recording in (("whole rows", whole), ("in blocks", blocks)):
    made = [step for step in recording if step.effect == "compute"]
    numbers, shape = max((step.tensor.numel(), step.shape) for step in made)
    print(f"{name:10}  largest tensor {shape}, {numbers:9,} numbers")

# %% [markdown]
# Equal, and the weights were never there as a whole. (This is "online softmax"; on GPUs, FlashAttention.) A **fused
# kernel** is this loop as one function in the machine's own language: a block is so small that it stays in the
# processor's cache, and blocks that the causal mask hides are left out. PyTorch's is `F.scaled_dot_product_attention`,
# ours `kernel="fused"`. Equal numbers first, forward and backward:

# %%
explicit = MultiHeadAttention(m, m, num_heads).to(device)
fused = MultiHeadAttention(m, m, num_heads, kernel="fused").to(device)
fused.load_state_dict(explicit.state_dict())
x = draw(2, 128, m).requires_grad_()
torch.testing.assert_close(fused(x), explicit(x))
(gradient,) = torch.autograd.grad(explicit(x).square().sum(), x)
(fused_gradient,) = torch.autograd.grad(fused(x).square().sum(), x)
torch.testing.assert_close(fused_gradient, gradient, rtol=1e-4, atol=1e-4)
print("same output, same gradient")

# %% [markdown]
# Then times, of the stored measurement, with the same weights in every form. "Linears + SDPA" is the floor: the four
# projections and PyTorch's kernel, nothing else.

# %%
def times(rows, title):
    """Bars of medians; the thin line holds half of the rounds, ratios were taken round by round."""
    spreads = {row.name: (row.median_ms, *row.quartiles_ms) for row in rows}
    return bars(spreads, title=title, unit="ms", ratios={row.name: row.ratio for row in rows}, note=where)


(forward,) = measured.find("forms", num_tokens=256, dtype="float32", direction="forward")
times(forward.rows, f"{forward.title}: forward")

# %%
(backward,) = measured.find("forms", num_tokens=256, dtype="float32", direction="forward and backward")
times(backward.rows, f"{backward.title}: forward and backward")

# %%
megabytes = {row.name: row.peak_bytes / 1e6 for row in backward.rows}
bars(megabytes, title="The most memory it holds at a time, forward and backward", unit="MB", note=where)

# %%
for table in (forward, backward):
    slow, fast = table["weight split, explicit"], table["weight split, fused"]
    faster, smaller = slow.median_ms / fast.median_ms, slow.peak_bytes / fast.peak_bytes
    print(f"fused, {table.direction}: {faster:.2f} times as fast, memory divided by {smaller:.2f}")
t = forward.sizes["num_tokens"]
print(f"share of the pairs in the products: {2 * t * t * m / (4 * t * m * m + 2 * t * t * m):.2f}")

# %% [markdown]
# No miracle, and now you know why: at this length most of the work is projections, which both forms do alike. What goes
# away is what was written and read between the products. It pays with length, as you see below.
#
# **On your machine:**

# %% tags=["timing", "nbval-ignore-output"]
x = draw(2, 512, m)
cases = [Case("explicit", lambda: explicit(x)), Case("fused", lambda: fused(x))]
with torch.no_grad():
    for case, row in zip(cases, compare_times(cases, rounds=5), strict=True):
        most = peak_bytes(case.run, str(device))
        print(f"{row.name:8} {row.median_ms:8.1f} ms, at most {most / 1e6:6.1f} MB")

# %% [markdown]
# ## Two problems: prefill and decode
#
# A prompt is read all at once: **prefill**. Then the answer is written, one token at a time: **decode**. Which is the
# harder one depends on two numbers of the machine: how fast it multiplies matrices, and how fast it reads memory. Here
# a multiplication and an addition are two **operations**.

# %%
limits = {each.dtype: each for each in measured.limits}
rate, reading = limits["float32"].matmul_gflops, limits["float32"].read_gb_per_s
balance = rate / reading
print(f"{rate:.0f} billion operations a second, {reading:.0f} GB a second")
print(f"while one byte arrives, it could do {balance:.1f} operations")

# %% [markdown]
# Work with fewer operations a byte than that waits for memory: it is **memory-bound**. Work with more keeps the
# multipliers busy: it is **compute-bound**. So count operations a byte. The core of attention, with 32 heads of 64:

# %%
def operations_a_byte(query_len, key_len, num_kv_heads, num_heads=32, head_dim=64):
    operations = 4 * num_heads * query_len * key_len * head_dim  # scores and context
    numbers = 2 * num_heads * query_len * head_dim  # queries in, context out
    numbers += 2 * num_kv_heads * key_len * head_dim  # keys and values
    return operations / (4 * numbers)


for name, query_len, num_kv_heads in (
    ("prefill, 4096 tokens", 4096, 32),
    ("decode, 32 kv heads (MHA)", 1, 32),
    ("decode,  8 kv heads (GQA)", 1, 8),
    ("decode,  1 kv head  (MQA)", 1, 1),
):
    density = operations_a_byte(query_len, 4096, num_kv_heads)
    bound = "compute" if density > balance else "memory"
    print(f"{name:26} {density:7.1f} operations a byte: {bound}-bound")

# %% [markdown]
# In decode, a key that was read from memory is used by one query and that's it: 4 bytes for a multiplication and an
# addition. Shared by 32 heads it is used 32 times. That is what multi-query attention is for.
#
# The weights of the projections have the same trouble, but another remedy: the tokens of all requests that are served
# at once share them. The cache can't be shared so, because each request has its own.

# %%
for batch in (1, 8, 64):
    print(f"decode, projections, {batch:2} samples: {2 * batch / 4:4.1f} operations a byte of weights")

# %% [markdown]
# Here is the measurement in this light. The dashed roof is all the machine can do: on the slope memory decides, on the
# flat part the multipliers. How far a point is below it is what its code leaves unused.

# %%
(steps,) = measured.find("cache", dtype="float32")
points = {f"decode, {name}": steps[f"{name}, fused"] for name in ("MHA", "GQA", "MQA")}
points["prefill, 256 tokens"] = forward["weight split, fused"]
at = {name: {row.flops / row.bytes: row.flops / row.median_ms / 1e6} for name, row in points.items()}
densities = [density for point in at.values() for density in point]
roof = {x: min(rate, x * reading) for x in (min(densities) / 2, balance, max(densities) * 2)}
lines(
    at,
    title="A layer under the roof of the machine",
    x="operations a byte",
    y="billion operations a second",
    limit={"the machine at best": roof},
    note=where,
)

# %%
for name, row in points.items():
    density = row.flops / row.bytes
    print(f"{name:19} {density:6.1f} operations a byte, {row.times_limit:5.2f} times the least time")

# %% [markdown]
# ## The copy in a broadcast
#
# In lesson 06 you unfolded the recording of a product and saw PyTorch write the shared keys once for each head. Now the
# whole step, in the ways that you find in published code. One new token asks 4096 keys of one kv head:

# %%
queries, keys, values = draw(2, 32, 1, 64), draw(2, 1, 4096, 64), draw(2, 1, 4096, 64)


def broadcast(queries, keys, values):
    scores = queries * 64**-0.5 @ keys.mT  # (b, h, 1, d) @ (b, 1, d, k) -> (b, h, 1, k)
    return scores.softmax(dim=-1) @ values


def expand(queries, keys, values):
    return broadcast(queries, keys.expand(-1, 32, -1, -1), values.expand(-1, 32, -1, -1))  # views


def repeat(queries, keys, values):
    return broadcast(queries, keys.repeat_interleave(32, dim=1), values.repeat_interleave(32, dim=1))


def fold(queries, keys, values):
    folded = queries.transpose(1, 2)  # (b, h, 1, d) -> (b, 1, h, d): heads become queries of the one head
    return broadcast(folded, keys, values).transpose(1, 2)

# %% [markdown]
# The recording knows what PyTorch copies underneath:

# %%
for form in (broadcast, expand, repeat, fold):
    recording = record(form, queries, keys, values)
    torch.testing.assert_close(recording.output, attend(queries, keys, values)[0])
    underneath = [ran for step in recording for ran in step.underneath if ran.effect == "copy"]
    copied = sum(ran.nbytes for ran in underneath) / (keys.nbytes + values.nbytes)
    print(f"{form.__name__:10} copied: {copied:3.0f} times the keys and values")

# %% [markdown]
# `expand` looks free: it is a view whose stride is 0. The product then makes the copy all the same; only folding spares
# it. **Predict** what the copy costs, in bytes moved: keys and values are read once, written 32 times, and all that is
# read again by the product.

# %%
print("with the copy:", 1 + 32 + 32, "times the keys and values; folded: 1")

# %% [markdown]
# And PyTorch's fused kernel? It takes folded queries as well, and with `enable_gqa` it shares by itself. The library's
# `attend_fused` chooses between the two:

# %%
def fold_fused(queries, keys, values):
    return F.scaled_dot_product_attention(queries.transpose(1, 2), keys, values).transpose(1, 2)


def enable_gqa(queries, keys, values):
    return F.scaled_dot_product_attention(queries, keys, values, enable_gqa=True)


for form in (fold_fused, enable_gqa, attend_fused):
    torch.testing.assert_close(form(queries, keys, values), attend(queries, keys, values)[0])
    print(f"{form.__name__:12} equal")

# %% [markdown]
# The stored measurement, for caches of 1k to 32k keys. Two limits are dashed: the time to read keys and values once,
# and the time to multiply. Nothing is faster than the higher one.

# %%
decode = list(measured.find("mqa-decode", dtype="float32"))


def curve(tables, size, name, of=lambda row: row.median_ms):
    """{size: number} over the tables that have a row of this name."""
    return {table.sizes[size]: of(row) for table in tables for row in table.rows if row.name == name}


names = ["broadcast", "folded", "attend_fused"]
names += [f"SDPA, {how}" for how in ("repeat_interleave", "expand", "enable_gqa")]
floors = {
    "reading once": curve(decode, "key_len", "attend_fused", lambda row: row.cache_bytes / reading / 1e6),
    "multiplying": curve(decode, "key_len", "attend_fused", lambda row: row.flops / rate / 1e6),
}
sizes = decode[0].sizes
lines(
    {name: curve(decode, "key_len", name) for name in names},
    title=f"One step of multi-query decoding: {sizes['batch']} samples, {sizes['num_heads']} heads",
    x="keys in the cache",
    y="ms a step",
    limit=floors,
    note=where,
)

# %%
print("     keys   broadcast / attend_fused   attend_fused / limit")
for table in decode:
    own, key_len = table["attend_fused"], table.sizes["key_len"]
    limit = max(floor[key_len] for floor in floors.values())
    slower = [f"{1 / own.ratio:.1f}" for row in table.rows if row.name == "broadcast"] or ["left out"]
    print(f"{key_len:9,} {slower[0]:>26} {own.median_ms / limit:22.1f}")

# %% [markdown]
# Same numbers, same formula, one line of layout between them. ("SDPA, expand" is not among the slow ones where
# PyTorch's kernel reads by strides, without a copy. You can't know: unfold the recording, or measure.)
#
# **On your machine:**

# %% tags=["timing", "nbval-ignore-output"]
forms = (broadcast, expand, repeat, fold, enable_gqa, fold_fused)
cases = [Case(form.__name__, lambda form=form: form(queries, keys, values)) for form in forms]
rows = compare_times(cases, rounds=5)
spreads = {row.name: (row.median_ms, *row.quartiles_ms) for row in rows}
bars(spreads, title="One step, 2 samples, 32 heads, 4096 keys", unit="ms", note="your machine, now")

# %% [markdown]
# ## The cache
#
# `KVCache` takes its memory once, and each step writes a row. It holds 2 * batch * kv heads * tokens * head_dim
# numbers, here of 2 bytes each:

# %%
for name, num_kv_heads in (("MHA", 32), ("GQA", 8), ("MQA", 1)):
    cache = KVCache(1, num_kv_heads, 4096, 64, dtype=torch.bfloat16, device=device)
    formula = 2 * num_kv_heads * 4096 * 64 * 2
    print(f"{name}, {num_kv_heads:2} kv heads: formula {formula:11,}, nbytes {cache.nbytes:11,}")

# %% [markdown]
# That is one layer and one sample; the models that you talk to have dozens of layers. On the stored machine, a decoding
# step of a whole layer (the same weights in all forms, kv heads repeated), and what it takes on top of its cache:

# %%
print(steps.title)
print(f"{'':13}     cache    on top      median")
for row in steps.rows:
    cache_mb, peak_mb = row.cache_bytes / 1e6, row.peak_bytes / 1e6
    print(f"{row.name:13} {cache_mb:6.1f} MB {peak_mb:6.1f} MB {row.median_ms:8.2f} ms")

# %% [markdown]
# What do you get for the memory? Without a cache, each step computes the keys and values of all tokens again. Token by
# token in both ways, and all at once:

# %%
decoder = GroupedQueryAttention(256, 256, num_heads=8, num_kv_heads=2).to(device).eval()


def with_cache(x):
    cache = KVCache(1, 2, x.shape[1], 32, device=device)
    return torch.cat([decoder(x[:, t : t + 1], cache=cache) for t in range(x.shape[1])], dim=1)


def without_cache(x):
    return torch.cat([decoder(x[:, : t + 1])[:, -1:] for t in range(x.shape[1])], dim=1)


x = draw(1, 64, 256)
with torch.no_grad():
    torch.testing.assert_close(with_cache(x), decoder(x))
    torch.testing.assert_close(without_cache(x), decoder(x))
print("three ways, one output:", tuple(decoder(x).shape))

# %%
counted_by = "Counted by PyTorch, the same on every machine"
counts = {"with a cache": {}, "computing all again": {}}
for t in (8, 16, 32, 64):
    for name, write in (("with a cache", with_cache), ("computing all again", without_cache)):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            write(x[:, :t])
        counts[name][t] = counter.get_total_flops() / 2e6
title, y = "What it takes to write t tokens", "million multiplications"
lines(counts, title=title, x="tokens", y=y, note=counted_by)

# %%
for name, counted in counts.items():
    print(f"{name:20} twice the tokens, {counted[64] / counted[32]:.2f} times the multiplications")
with_it, without_it = (counted[64] for counted in counts.values())
print(f"64 tokens: {without_it / with_it:.1f} times as many without a cache")

# %% [markdown]
# Linear against quadratic. (With a cache it is a little more than twice, because each new token has more keys to ask;
# without, a little more than four times.) **On your machine**, the time:

# %% tags=["timing", "nbval-ignore-output"]
cases = [Case("with a cache", lambda: with_cache(x)), Case("computing all again", lambda: without_cache(x))]
for row in compare_times(cases, rounds=3):
    print(f"{row.name:20} {row.median_ms:8.1f} ms for 64 tokens")

# %% [markdown]
# Less than the count promises: at such small sizes much of a step's time is Python and PyTorch getting ready.
#
# ## Growth
#
# With the number of tokens, one sample, the whole layer. Dashed is the least that the machine's two numbers allow:

# %%
growth = list(measured.find("growth-tokens"))
kernels = ("explicit", "fused")
lines(
    {name: curve(growth, "num_tokens", name) for name in kernels},
    title="Time of a layer, width 768, 12 heads, forward",
    x="tokens",
    y="ms",
    limit={"the machine at best": curve(growth, "num_tokens", "fused", lambda row: row.limit_ms)},
    note=where,
)

# %%
lines(
    {name: curve(growth, "num_tokens", name, lambda row: row.peak_bytes / 1e6) for name in kernels},
    title="Memory of the same layer",
    x="tokens",
    y="MB at most",
    note=where,
)

# %%
for name in kernels:
    before, last = [table for table in growth if name in [row.name for row in table.rows]][-2:]
    slower = last[name].median_ms / before[name].median_ms
    larger = last[name].peak_bytes / before[name].peak_bytes
    print(f"{name:8} tokens double once more: {slower:.1f} times the time, {larger:.1f} times the memory")

# %% [markdown]
# The explicit form's memory is quadratic, the fused one's linear. Time grows towards four times for both, because the
# pairs have to be computed by either.
#
# With the number of heads, at the same width. The products are the same; only the tensors of (head, query, key) grow:

# %%
by_heads = list(measured.find("growth-heads"))
sizes = by_heads[0].sizes
lines(
    {name: curve(by_heads, "num_heads", name) for name in kernels},
    title=f"Time of a layer, {sizes['num_tokens']} tokens, width {sizes['d_out']}",
    x="heads",
    y="ms",
    note=where,
)

# %%
for name in kernels:
    fewest, most = by_heads[0][name], by_heads[-1][name]
    first, last = (table.sizes["num_heads"] for table in (by_heads[0], by_heads[-1]))
    print(f"{name:8} {first} -> {last} heads: {most.median_ms / fewest.median_ms:.1f} times the time")

# %% [markdown]
# Each head more is one more table of (query, key) to write and to read. The fused kernel has no such tables.
#
# ## And the course's own code?
#
# Its goals were set before it was measured. `course bench` prints each with its reasons; in short:

# %%
for goal in dict.fromkeys(each.goal for each in measured.goals):
    found = [each for each in measured.goals if each.goal == goal]
    worst = (max if found[0].sense == "at most" else min)(each.measured for each in found)
    verdict = f"met in {sum(each.met for each in found)} of {len(found)} tables"
    print(f"{goal:55} {verdict}, worst {worst:.2f}, {found[0].sense} {found[0].bound:.2f}")

# %% [markdown]
# ## Half the bytes
#
# `bfloat16` has 2 bytes instead of 4. It keeps the range of float32 and pays with digits; `float16` does it the other
# way round. The last column is the mean error of attention against 64 bits, as a part of its size:

# %%
queries, keys, values = (draw(2, 4, 256, 64).double() for _ in range(3))
exact, _ = attend(queries, keys, values)
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    context, _ = attend(queries.to(dtype), keys.to(dtype), values.to(dtype))
    off = ((context - exact).abs().mean() / exact.abs().mean()).item()
    info = torch.finfo(dtype)
    print(f"{info.dtype:9} up to {info.max:.1e}, after 1 comes 1 + {info.eps:.7f}, off by {off:.3f}")

# %% [markdown]
# Fine for weights and activations, not for long sums: add a thousand ones, one by one.

# %%
total = torch.tensor(0.0, dtype=torch.bfloat16)
for _ in range(1000):
    total = total + 1
print("1 + 1 + ... + 1, a thousand times:", total.item())

# %% [markdown]
# At 256 the next number is 258, so 256 + 1 is 256 again. That's why good kernels multiply in 16 bits and add up in 32,
# and why Llama's softmax runs in float32 (lesson 07).
#
# Half the bytes is half the time only where memory decides, and only if the processor can multiply such numbers without
# turning them into 32 bits first. Ask before you hope:

# %%
for dtype, each in limits.items():
    print(f"{dtype:8} {each.matmul_gflops:8.1f} billion operations a second")
faster = limits["bfloat16"].matmul_gflops > limits["float32"].matmul_gflops
print("the stored machine multiplies faster in bfloat16:", faster)

# %% [markdown]
# ## What a GPU changes
#
# First, what the course knows about: the machines whose measurements are stored.

# %%
devices = sorted(path.stem for path in MEASURED.glob("*.json"))
for name in devices:
    results = stored(name)
    print(f"{name}: {results.machine['gpu'] if name == 'cuda' else results.machine['processor']}")
    for each in results.limits:
        density = each.matmul_gflops / each.read_gb_per_s
        numbers = f"{each.matmul_gflops:9,.0f} GFLOP/s, {each.read_gb_per_s:6,.0f} GB/s"
        print(f"  {each.dtype:8} {numbers}: {density:.1f} operations a byte")
if "cuda" not in devices:
    print("cuda: no GPU result is stored yet")

# %% [markdown]
# What is known without a measurement:
#
# - **The same two numbers, far apart.** A GPU reads much faster than a CPU, and multiplies faster still, above all in
#   16 bits. So more of what you do waits for memory: decode, and everything that the explicit form writes and reads
#   between its products. A fused kernel can gain more there than here.
# - **Each operation is launched from Python**, which takes some microseconds. A small step of many operations can be
#   shorter than its launches.
# - **The fastest kernel is choosy.** PyTorch's flash kernel for GPUs takes only 16-bit numbers and no mask tensor, just
#   `is_causal=True`. So our modules pass that where it means the same, and make a mask where it does not: with a cache,
#   where `is_causal` hides the wrong tokens (lesson 07).

# %%
print(f"data sheet of an H100 SXM, bfloat16, not measured: {989e12 / 3.35e12:.0f} operations a byte")
x = draw(2, 128, m)
for name, module in (("explicit", explicit), ("fused", fused)):
    ran = [step.op for step in record(module, x).steps if step.effect != "view"]
    print(f"{name}, {len(ran)} operations that compute: {' '.join(ran)}")

# %% [markdown]
# **On your machine**, CPU or GPU: its two numbers in 32 bits, and what a mask costs that the kernel could have known.

# %% tags=["timing", "nbval-ignore-output"]
square, long = draw(1024, 1024), draw(1 << 24)
(product,) = compare_times([Case("product", lambda: square @ square)], rounds=7)
(read,) = compare_times([Case("read", lambda: long.sum())], rounds=7)
gflops, gigabytes = 2 * 1024**3 / product.min_ms / 1e6, long.nbytes / read.min_ms / 1e6
print(f"{gflops:,.0f} GFLOP/s, {gigabytes:,.0f} GB/s: {gflops / gigabytes:.1f} operations a byte")

queries, keys, values = draw(3, 2, 12, 1024, 64).unbind()
keep = causal_keep(1024, device=device)
masked = Case("with a mask", lambda: attend_fused(queries, keys, values, keep))
causal = Case("causal=True", lambda: attend_fused(queries, keys, values, causal=True))
for row in compare_times([masked, causal], rounds=5):
    print(f"{row.name} {row.median_ms:8.1f} ms")

# %% [markdown]
# One tool is left out here because it needs a compiler and patience: `torch.compile(module)` rewrites a module into
# kernels made for your sizes, and may put a fused kernel where it recognises written-out attention. Measure before and
# after, and compare the numbers first.
#
# ## Your turn
#
# 1. Your server decodes for 64 users at once instead of one. Which reads do they share, and which not?
# 2. A colleague expands keys and values to all heads before the product, "because `expand` copies nothing". What do you
#    show them?
# 3. The fused kernel computes the scores twice in training: once forward and, as it did not keep them, once more in the
#    backward pass. Why can it still be faster?
#
# <details><summary>Answers</summary>
#
# 1. The weights, which are read once for all 64. Not the caches: each user has their own. Fewer kv heads make these
#    smaller.
# 2. `record(their_function, ...).unfold()`: the clone under the product, with its bytes. Then the times.
# 3. Because multiplying again is quicker than writing a tensor of (batch, head, query, key) to memory and reading it
#    back. That is the roof once more.
#
# </details>
#
# ## What you have now
#
# You count before you measure: multiplications, bytes, and their ratio, held against two numbers of the machine. You
# know what a fused kernel leaves out, why decode is another problem than prefill, and how a broadcast costs what
# sharing had saved. And you have a benchmark, `course bench`, for every claim.
#
# **Next:** [10 Find what no error reports](10_debugging_attention.ipynb)
