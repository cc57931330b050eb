# %% [markdown]
# # Spread heads over many devices
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/11_many_devices.ipynb)
#
# You will cut one attention module into two halves that compute on two devices: first by hand, then with PyTorch on two
# real processes. You count every byte they send, see what multi-query attention loses when it is spread, and how
# grouped-query attention wins it back.
#
# **You need** lessons [05](05_weight_split.ipynb) and [06](06_multi_query.ipynb). **It takes** twenty minutes. No GPU
# is needed: the two devices are two processes on your CPU.

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
import inspect
import textwrap

import torch

from course_lib.attention import (
    GroupedQueryAttention,
    KVCache,
    MultiHeadAttention,
    MultiQueryAttention,
    attend,
    causal_keep,
)
from course_lib.attention.convert import split_to_wrapper
from course_lib.device import course_device
from course_lib.distributed import launch, shard, share_of
from course_lib.inputs import dream_big
from course_lib.pictures import devices
from course_lib.show import show

device = course_device()
words, embeddings, x = dream_big(device=device)

# %% [markdown]
# ## Where to cut
#
# A large model does not fit on one device, or one device needs too long to read its weights and its cache
# ([lesson 09](09_fast.ipynb)). So every weight is cut, and each device gets a part. Devices compute fast and talk
# slowly: a good cut is one after which they have little to say to each other.
#
# Attention has such a place. From x to its context, a head needs nothing from the other heads. And since lesson 05 the
# heads lie one below the other in one matrix:

# %%
d_in, d_out, num_heads, head_dim = 3, 8, 4, 2
torch.manual_seed(4)
whole = MultiHeadAttention(d_in, d_out, num_heads)
with torch.no_grad():
    whole.q_proj.weight *= 5  # as if trained
    whole.k_proj.weight *= 5
whole = whole.to(device)

for head, rows in enumerate(whole.q_proj.weight.split(head_dim)):
    print(f"head {head}: rows {head * head_dim} and {head * head_dim + 1} of q_proj.weight, {tuple(rows.shape)}")

# %% [markdown]
# Cut the matrix in half between rows 3 and 4, and you have dealt out the heads: 0 and 1 to one device, 2 and 3 to the
# other.
#
# ## Two halves by hand
#
# Here is what one device does. It takes *rows* of `q_proj`, `k_proj` and `v_proj`, and computes its two heads as ever:

# %%
def half(rows):
    """Two heads, from all of x to their context and to what they give to the output; rows says which heads."""
    queries, keys, values = (
        (x @ projection.weight[rows].T).view(1, 6, 2, head_dim).transpose(1, 2)  # (b, t, h * d) -> (b, h, t, d)
        for projection in (whole.q_proj, whole.k_proj, whole.v_proj)
    )
    context, _ = attend(queries, keys, values, causal_keep(6, device=device))
    merged = context.transpose(1, 2).reshape(1, 6, 2 * head_dim)  # (b, h, t, d) -> (b, t, h * d)
    return merged, merged @ whole.out_proj.weight[:, rows].T  # (b, t, h * d) -> (b, t, d_out)


merged_0, first = half(slice(0, 4))
merged_1, second = half(slice(4, 8))
show("first half", first, "batch token width", words)
show("second half", second, "batch token width", words)

# %% [markdown]
# The last line takes the same numbers again, now as *columns* of `out_proj`: the columns that meet these heads. What
# comes out is as large as the whole output, and still only a share of it. Add the two:

# %%
torch.testing.assert_close(first + second, whole(x))
show("first + second", first + second, "batch token width", words)
show("whole(x)", whole(x), "batch token width", words)

# %% [markdown]
# They add up because a number of the output is a sum over all heads' columns. Cut the columns, and you cut that sum:

# %%
heads_side_by_side = torch.cat([merged_0, merged_1], dim=-1)  # (b, t, h * d), all four heads
terms = heads_side_by_side[0, 5] * whole.out_proj.weight[0]  # the word "it", column 0 of the output
print("eight products: ", " ".join(f"{term:7.4f}" for term in terms.tolist()))
print(f"the first four: {terms[:4].sum().item():7.4f}")
print(f"the last four:  {terms[4:].sum().item():7.4f}")
print(f"all of them:    {terms.sum().item():7.4f}")

# %% [markdown]
# ## A half is a smaller module
#
# `shard` makes what a device holds, as an ordinary module with fewer heads:

# %%
parts = [shard(whole, number, 2) for number in (0, 1)]
torch.testing.assert_close(parts[0](x) + parts[1](x), whole(x))
parts[0]

# %%
devices(whole, parts, x, words)

# %% [markdown]
# Up to the end the devices work alone. Then they meet once: an operation that adds a tensor over all devices, and gives
# the sum to each, is called **all-reduce**. This way of cutting is called **tensor parallel**.
#
# ## Why not cut inside a head?
#
# The wrapper of lesson 03 holds the same weights. But there each head has a small matrix of its own, and cutting *that*
# in half goes right through the head:

# %%
wrapper = split_to_wrapper(whole)
print("q_proj of all heads:", tuple(whole.q_proj.weight.shape), " half of it is two heads")
print("q_proj of one head: ", tuple(wrapper.heads[0].q_proj.weight.shape), " half of it is half a head")

# %% [markdown]
# Each device would have half the width of every head. A score is a sum over that width, so each device would have a
# share of each *score*. Can they wait with adding until the end? Head 0, with no mask to keep it short:

# %%
queries, keys = wrapper.heads[0].q_proj(x), wrapper.heads[0].k_proj(x)  # (b, t, 2)
left = queries[..., :1] @ keys[..., :1].transpose(1, 2) * head_dim**-0.5  # (b, q, 1) @ (b, 1, k) -> (b, q, k)
right = queries[..., 1:] @ keys[..., 1:].transpose(1, 2) * head_dim**-0.5
scores = queries @ keys.transpose(1, 2) * head_dim**-0.5
torch.testing.assert_close(left + right, scores)
print(f"scores, added before softmax: {(left + right - scores).abs().max().item():.4f} off")
late = (left.softmax(-1) + right.softmax(-1)) / 2
print(f"weights, added after softmax: {(late - scores.softmax(-1)).abs().max().item():.4f} off")

# %% [markdown]
# No: softmax needs the whole score. So they would have to add the scores of every head, for each query and key,
# before going on. For one text of 4096 tokens, 32 heads of 64:

# %%
tokens, heads, width = 4096, 32, 64
inside = heads * tokens * tokens  # (head, query, key)
between = tokens * heads * width  # (token, d_out)
print(f"cut inside heads:  {inside:13,} numbers to add")
print(f"cut between heads: {between:13,} numbers to add, {inside // between} times fewer")

# %% [markdown]
# The wrapper can still be spread by giving away whole heads, one small module after the other. In the weight-split
# form one cut of one matrix does it, as long as the cut falls between heads. `view` and `transpose` do the rest on each
# device as they do it on one.
#
# ## Two real processes
#
# PyTorch does this cut, too. A parameter becomes a **DTensor**, of which each process holds a part. This is the
# library's `spread`, without its checks:

# %%
from course_lib.distributed.spread import spread

source = inspect.getsource(spread)
print(textwrap.dedent(source[source.index("    plan =") :]).rstrip())

# %% [markdown]
# - `ColwiseParallel` speaks of W in `x W`. An `nn.Linear` stores W transposed, so its columns are the *rows* you cut.
# - `RowwiseParallel` cuts the columns you cut, and does the all-reduce.
# - `PrepareModuleInput` says that all devices have the same x. Its gradient is then added up once, not three times.
# - `module.num_heads`: between the projections each process has ordinary tensors with its own heads. `view` must know
#   how many those are.
#
# Now for real. `launch` starts two processes, waits for them, and returns what they printed. In a terminal you would
# type:
#
# ```bash
# torchrun --nproc-per-node 2 -m course_lib.distributed.tensor_parallel --form multi-head
# ```
#
# Each process draws the same weights and the same x. It runs the whole module and its part, forward and backward, and
# compares. With a GPU for each, processes talk through `nccl`; else they run on the CPU and talk through `gloo`. What
# they print is the same. Give it ten seconds or more:

# %%
print(launch(2, "--form", "multi-head"))

# %% [markdown]
# Read one device from top to bottom:
#
# - It **holds** half of each matrix. (`Linear` writes (out, in): 12 of 24 rows, and for `out_proj` 12 of 24 columns.)
#   These are the numbers that `shard` cuts by hand.
# - **As one process:** output, gradients, and the text decoded token by token with a cache differ by at most
#   1e-12 from those of the whole module.
# - The **cache** on a device holds the keys and values of its own heads. Nobody else needs them.
#
# ## What is sent
#
# One tensor forward, one backward. How many is counted by PyTorch's `CommDebugMode`, which sees all that goes between
# processes; shapes and bytes are written down as they pass. The formula for 2 samples of 5 tokens, 64-bit numbers:

# %%
batch, tokens, wide_in, wide_out, bytes_per_number = 2, 5, 12, 24, 8
print("forward, the output:         batch * token * d_out * 8 =", batch * tokens * wide_out * bytes_per_number)
print("backward, the gradient of x: batch * token * d_in * 8  =", batch * tokens * wide_in * bytes_per_number)
print("a token, the output:         batch * 1 * d_out * 8     =", batch * 1 * wide_out * bytes_per_number)

# %% [markdown]
# Number of heads, head_dim, and how many tokens are in the cache are not in it. (How many bytes go over the wire for
# one all-reduce depends on how it is done. In a ring of n devices each sends 2 (n - 1) / n of them.)
#
# *A token* is one step of decoding: a small message, but one for each new token and each layer, and all devices wait
# for the slowest. That is why fast links between GPUs matter; it is not measured here.
#
# ## One kv head can't be cut
#
# Now multi-query attention, with one head of keys and values. Do what you did before, and take half of the rows:

# %%
torch.manual_seed(5)
multi_query = MultiQueryAttention(d_in, d_out, num_heads)
with torch.no_grad():
    multi_query.q_proj.weight *= 5
    multi_query.k_proj.weight *= 5
multi_query = multi_query.to(device)
print("k_proj:", tuple(multi_query.k_proj.weight.shape), " one head, two wide")

queries_of_two_heads = (x @ multi_query.q_proj.weight[:4].T).view(1, 6, 2, head_dim).transpose(1, 2)
half_keys = (x @ multi_query.k_proj.weight[:1].T)[:, None]  # (b, t, d) -> (b, 1, t, d)
half_values = (x @ multi_query.v_proj.weight[:1].T)[:, None]
try:
    attend(queries_of_two_heads, half_keys, half_values)
except ValueError as error:
    print(error)

# %% [markdown]
# The cut goes through the only head. So each device keeps `k_proj` and `v_proj` whole, and cuts the rest as before:

# %%
parts = [shard(multi_query, number, 2) for number in (0, 1)]
torch.testing.assert_close(parts[0](x) + parts[1](x), multi_query(x))
devices(multi_query, parts, x, words, title="One kv head: both devices hold it")

# %% [markdown]
# The output is right. Two things are lost. First the saving: every device keeps the *same* cache, and two devices
# together keep it twice.
#
# Second, a trap in training. Each device has a copy of `k_proj`, and the gradient that arrives there:

# %%
target = torch.ones(1, 6, d_out, device=device)
(multi_query(x) - target).square().sum().backward()
(parts[0](x) + parts[1](x) - target).square().sum().backward()
here, there = (part.k_proj.weight.grad for part in parts)
show("on device 0", here, "row d_in")
show("on device 1", there, "row d_in")
show("their sum", here + there, "row d_in")
show("in one process", multi_query.k_proj.weight.grad, "row d_in")
torch.testing.assert_close(here + there, multi_query.k_proj.weight.grad)

# %% [markdown]
# Each sees what its own heads ask for, so the gradients must be added up as well. (`keep_whole`, in `spread` above,
# does it.) If you forget it, the shapes are right, the first output is right, and no error comes; after one step the
# two copies are no longer the same matrix. It is a mistake for [lesson 10](10_debugging_attention.ipynb): only a
# comparison finds it.
#
# ## One kv head a device
#
# Grouped-query attention can be cut, if there is a kv head for every device. Both forms, on two processes:

# %%
print(launch(2, "--form", "grouped-query", "multi-query"))

# %% [markdown]
# Grouped-query: kv head 0 here, kv head 1 there, and they send what multi-head attention sends. Multi-query: kv head 0
# here *and* there, with two more messages backward, the gradients of `k_proj` and `v_proj`. Yet the cache of a device
# is the same, 48 bytes a token. On two devices a second kv head costs no memory.
#
# ## The cache on each device
#
# Now a large one: 32 heads of 64, 4096 tokens, 16-bit numbers. With g kv heads a device keeps g / devices of them, but
# never less than one. The bytes of one layer's cache on *each* device, by the formula and in the cache of a real shard:

# %%
tokens, width = 4096, 64
print("          multi-head, 32 kv heads   grouped-query, 8 kv heads    multi-query, 1 kv head")
print("devices" + 3 * "      formula    measured ")
for num_devices in (1, 2, 4, 8, 16):
    cells = []
    for num_kv_heads in (32, 8, 1):
        module = GroupedQueryAttention(16, 32 * width, num_heads=32, num_kv_heads=num_kv_heads)
        part = shard(module, 0, num_devices)
        cache = KVCache(1, part.num_kv_heads, tokens, part.head_dim, dtype=torch.float16, device=device)
        formula = 2 * tokens * max(1, num_kv_heads // num_devices) * width * 2
        cells.append(f"{formula:12,}{cache.nbytes:12,}")
    print(f"{num_devices:7} " + "  ".join(cells))

# %% [markdown]
# Read down the columns. Multi-head attention halves with each doubling. Multi-query stays where it is: alone it needs
# the least, but more devices don't help. Grouped-query falls until each device has one kv head, here at 8, and then
# stays: from there on it costs a device as much as multi-query. Machines with 8 GPUs and models with 8 kv heads are
# both common; now you know that they fit. (Another way out for multi-query is to give each device some *samples* of the
# batch, instead of heads, while it attends: Pope et al., "Efficiently Scaling Transformer Inference", 2022.)
#
# ## What can't be spread
#
# Heads must be dealt out whole. Each process asks this before anything is computed; process 0 says the sentence:

# %%
from course_lib.distributed.spread import check_spread

for num_heads, num_kv_heads, num_devices in ((3, 3, 2), (8, 2, 4)):
    try:
        check_spread(num_heads, num_kv_heads, num_devices)
    except ValueError as refusal:
        print(refusal)

# %% [markdown]
# ## On real GPUs
#
# The script stays as it is. One machine with 4 GPUs:
#
# ```bash
# torchrun --nproc-per-node 4 -m course_lib.distributed.tensor_parallel --form grouped-query --num-kv-heads 4
# ```
#
# Two machines with 4 GPUs each: start the same command on both, with `--node-rank 1` on the second. `FIRST` is the name
# of the first machine, 29500 a free port on it:
#
# ```bash
# torchrun --nnodes 2 --node-rank 0 --nproc-per-node 4 --rdzv-endpoint FIRST:29500 \
#     -m course_lib.distributed.tensor_parallel --form grouped-query --num-kv-heads 8
# ```
#
# On a cluster a scheduler starts them. With Slurm, which gives each machine its number in `SLURM_NODEID`:
#
# ```bash
# export FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# srun --ntasks-per-node 1 bash -c 'torchrun --nnodes $SLURM_NNODES --node-rank $SLURM_NODEID --nproc-per-node 4 \
#     --rdzv-endpoint $FIRST:29500 -m course_lib.distributed.tensor_parallel --form grouped-query --num-kv-heads 8'
# ```
#
# What changes: process number i of a machine takes its GPU i (`LOCAL_RANK`), and `nccl` replaces `gloo`. Expect the
# same lines and the same verdicts. Between machines, links are slower than within one, so large models usually cut
# heads within a machine only, and something else, such as layers or samples, between machines. None of this was
# measured here: the two `torchrun` commands were tried on the CPU, on one machine that played both, the one for Slurm
# not at all.
#
# It was tried on Linux. On Windows `torchrun` of some PyTorch versions does not start (it asks for `libuv`): use WSL.
#
# ## Your turn
#
# 1. `out_proj` may have a bias. What is wrong if each of n devices adds it? What does `shard` do?
# 2. 8 query heads, 2 kv heads, 4 devices: which heads does each device need? Ask `share_of(number, 4, 8, 2)`. What
#    happens to the cache?
# 3. A layer also has a feedforward part, `down(relu(up(x)))`. Where would you cut, and how many all-reduces does that
#    need?

# %%
print(share_of(0, 4, 8, 2))

# %% [markdown]
# <details><summary>Answers</summary>
#
# 1. The sum contains it n times. It must be added once: `shard` leaves it on device 0 and puts zeros on the others.
# 2. Two query heads each, all of one group, and the kv head of that group: devices 0 and 1 hold kv head 0, devices 2
#    and 3 hold kv head 1. Each kv head is kept twice, so a device's cache is as large as with 2 devices. (`shard` can
#    do this; the script on processes asks for a kv head a device.)
# 3. As here: `up` by rows, `down` by columns. Every hidden number needs only its own row and column, relu looks at one
#    number at a time, and what comes out adds up: one all-reduce.
#
# </details>
#
# ## What you have now
#
# A head is not only an idea but a unit that can be shipped: rows in, columns out, one sum at the end. You proved it by
# hand, saw two processes agree, and can say what a kv head costs on each device.
#
# **Next:** this was the last lesson. [09 Make it fast, and know why](09_fast.ipynb) measures what one device can do; go
# to [10 Find what no error reports](10_debugging_attention.ipynb) on the day your own cut goes wrong.
