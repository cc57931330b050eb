# %% [markdown]
# # Spread heads over many devices
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/16_many_devices.ipynb)
#
# You will cut an attention module into parts that compute on different devices, first by hand and then on two real
# processes that tell one story together. Then you compute how long the devices take to send each other what they need,
# and how many GPUs serve a model fastest.
#
# **You need** lessons [05](05_weight_split.ipynb), [06](06_multi_query.ipynb), [09](09_llama.ipynb) and
# [14](14_fast.ipynb).
# **It takes** about 50 minutes. No GPU is needed: most devices of this lesson are smaller modules in your notebook, or
# processes on your CPU.

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
import inspect
import tempfile
from pathlib import Path
from textwrap import fill

import torch
from torch import nn

from course_lib.attention import MultiHeadAttention, MultiQueryAttention
from course_lib.device import course_device
from course_lib.distributed import launch, shard
from course_lib.exercises import filled, from_earlier, predict
from course_lib.inputs import dream_big
from course_lib.pictures import draw_devices
from course_lib.pictures.live import devices
from course_lib.show import show
from course_lib.stories import load_storyteller

device = course_device()
words, embeddings, x = dream_big(device=device)
MyMultiHeadAttention = from_earlier("MyMultiHeadAttention")

# %% [markdown]
# ## Where to cut
#
# A large model does not fit into the memory of one GPU, or one GPU takes too long to read its parameters and its cache
# ([lesson 14](14_fast.ipynb)). So each weight matrix is cut, and each device gets a part of it. This is called **tensor
# parallelism** ([Shoeybi et al., Megatron-LM, 2019](https://arxiv.org/abs/1909.08053)).
#
# Up to its context a head needs nothing from the other heads, and since lesson 05 the heads are stacked in one matrix,
# here with two rows for each head. So the cut goes between heads:

# %%
d_in, d_out, num_heads, head_dim = 3, 8, 4, 2
torch.manual_seed(15)
whole = MyMultiHeadAttention(d_in, d_out, num_heads)
with torch.no_grad():
    whole.q_proj.weight *= 5  # so that the attention weights are not all alike
    whole.k_proj.weight *= 5
whole = whole.to(device)
print("q_proj.weight:", *whole.q_proj.weight.shape)

# %% [markdown]
# Heads 0 and 1, which are rows 0 to 3, go to one device, and heads 2 and 3 to the other.
#
# **Write it yourself.** Return the rows of device number `device`, counted from 0, if there are `num_devices` devices.

# %%
def cut_rows(weight, device, num_devices):
    # (head * head_dim, d_in), int, int -> (row, d_in)
    raise NotImplementedError  # two lines


cut_rows = filled("cut_rows", cut_rows)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def cut_rows(weight, device, num_devices):
#     # (head * head_dim, d_in), int, int -> (row, d_in)
#     rows = len(weight) // num_devices
#     return weight[device * rows : (device + 1) * rows]
# ```
#
# </details>
#
# So much for `q_proj`, `k_proj` and `v_proj`. The output projection comes after the heads: a device needs the
# **columns** that are multiplied by the context of its own heads.
#
# **Write it yourself.** Return the columns of device number `device`, each with all its rows.

# %%
def cut_columns(w_o, device, num_devices):
    # (d_out, head * head_dim), int, int -> (d_out, column)
    raise NotImplementedError  # two lines


cut_columns = filled("cut_columns", cut_columns)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def cut_columns(w_o, device, num_devices):
#     # (d_out, head * head_dim), int, int -> (d_out, column)
#     columns = w_o.shape[1] // num_devices
#     return w_o[:, device * columns : (device + 1) * columns]
# ```
#
# </details>
#
# ## A part is a smaller module
#
# One device's part is an ordinary multi-head module with fewer heads. We build it from your class and fill it with what
# your two functions cut:

# %%
def part_of(whole, number, num_devices):
    heads = num_heads // num_devices
    part = MyMultiHeadAttention(d_in, heads * head_dim, heads)
    for name in ("q_proj", "k_proj", "v_proj"):
        rows = cut_rows(getattr(whole, name).weight, number, num_devices)
        getattr(part, name).weight = nn.Parameter(rows)
    part.out_proj = nn.Linear(heads * head_dim, d_out, bias=False)
    columns = cut_columns(whole.out_proj.weight, number, num_devices)
    part.out_proj.weight = nn.Parameter(columns)
    return part


halves = [part_of(whole, number, 2) for number in (0, 1)]
show("output of device 0", halves[0](x), "batch token width", words)

# %% [markdown]
# It has the shape of the whole output. **Predict.** If you take the output of device 0 for that of the whole module,
# in how many of the 8 columns is it wrong?

# %%
guess = ...  # an integer
wrong = ~torch.isclose(halves[0](x), whole(x))  # (b, t, m)
predict(guess, lambda: wrong.any(dim=(0, 1)).sum())

# %% [markdown]
# <details><summary>After your guess</summary>
#
# In all of them. A device has all *rows* of `out_proj`, so it computes every column of the output, but from the context
# of its own heads alone.
#
# </details>
#
# Each number of the output is a sum with one term per column of `out_proj`. If the columns are cut, so is this sum, and
# the two outputs only have to be added:

# %%
two_samples = torch.cat([x, x.flip(1)])  # the sentence, and the sentence backwards
added = halves[0](two_samples) + halves[1](two_samples)
torch.testing.assert_close(added, whole(two_samples))
show("device 0 + device 1", halves[0](x) + halves[1](x), "batch token width", words)

# %% [markdown]
# The sum equals the output of the whole module. The picture shows one element of it, drawn with the library's `shard`,
# which cuts as you did:

# %%
reference = MultiHeadAttention(d_in, d_out, num_heads).to(device)
reference.load_state_dict(whole.state_dict())
parts = [shard(reference, number, 2) for number in (0, 1)]
torch.testing.assert_close(parts[1](two_samples), halves[1](two_samples))
draw_devices(reference, parts, x, words=words)

# %% [markdown]
# All of x goes into each device, which works alone until it has its output. Only then are the outputs added. To add a
# tensor over all devices and hand the sum to each of them is called **all-reduce**.
#
# ## The same story from two processes
#
# Now two real processes tell one story, each with half of the heads. They form a **process group**, in which they can
# send each other tensors; **gloo** is the library that does the sending on CPUs. The number of a process in the group
# is its **rank**. `dist.all_reduce` adds the tensors of all processes and leaves the sum in each of them, so both
# choose the next word from the same numbers. What do they write without that line?
#
# The course's `launch` starts the two processes, as **torchrun** does in a terminal. Both run the source of the
# function below, and `launch` returns what they print, in about ten seconds.

# %%
def tell_together():
    import torch.distributed as dist
    from torch import nn

    from course_lib.distributed import shard
    from course_lib.stories import load_storyteller

    class Part(nn.Module):
        def __init__(self, whole, summed):
            super().__init__()
            self.part, self.summed = shard(whole, dist.get_rank(), 2), summed

        def forward(self, x):
            output = self.part(x)  # what the heads of this process add
            if self.summed:
                dist.all_reduce(output)
            return output

    dist.init_process_group("gloo")
    for summed in (True, False):
        model = load_storyteller("weight split")
        for block in model.blocks:
            block.attention = Part(block.attention, summed)
        told = [None, None]
        dist.all_gather_object(told, model.write("Long ago there was a", num_words=44))
        if dist.get_rank() == 0:
            print(*told, sep="\n")
    dist.destroy_process_group()


# %% tags=["processes", "long"]
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder) / "two_tellers.py"
    script.write_text(f"{inspect.getsource(tell_together)}\n\ntell_together()\n")
    told = launch(2, script=str(script)).strip().splitlines()

# %% tags=["processes"]
whole = load_storyteller("weight split").write("Long ago there was a", num_words=44)
print(fill(told[0], 80))
print("both tell it, and one process alone as well:", told[0] == told[1] == whole)
for number, alone in enumerate(told[2:]):
    print(fill(f"without the sum, process {number}: {alone}", 80))

# %% [markdown]
# The two versions differ in one line, and neither raises an error. In the wrong one each process makes what it can of
# half of the heads, and the two don't even agree with each other.
#
# ## What is sent
#
# A longer script of the course leaves the cut to PyTorch: its ColwiseParallel cuts what you called rows, and
# RowwiseParallel what you called columns. The script compares outputs, gradients and cached decoding with the uncut
# module in float64, and lists every tensor that the processes send. Here is what device 0 reports for three forms of
# attention with 8 heads, for 2 samples of 5 tokens; `d_in` is 12, `d_out` is 24, and grouped-query attention has 2 kv
# heads:

# %% tags=["processes"]
forms = "multi-head", "grouped-query", "multi-query"
report = launch(2, "--form", *forms)
# all comparisons with one process agree to within 1e-12, on both devices
assert "False" not in report
blocks = report.split("\n  device 0")[1:]
for form, block in zip(forms, blocks, strict=True):
    print(form)
    for line in block.split("  device 1")[0].splitlines():
        if "sends" in line or "caches" in line:
            print(line.replace("bytes, ", "bytes,\n" + " " * 37))

# %% [markdown]
# In the forward pass every form sends one tensor, the output: 2 · 5 · 24 numbers of 8 bytes. For a decoded token it has
# a single token, however much is in the cache.
#
# In the backward pass the gradient of x is added over the devices. Of the three only multi-query attention sends two
# more tensors, and one device caches as much as with 2 kv heads.
#
# ## One kv head on every device
#
# Multi-query attention has a single head of keys and values. If its width were cut in two, each device would have a
# part of each *score*, and softmax needs whole scores. So each device keeps a copy of `k_proj` and `v_proj`, and only
# the query heads are split. (In the picture a colour stands for a kv head.)

# %%
torch.manual_seed(7)
multi_query = MultiQueryAttention(d_in, d_out, num_heads)
with torch.no_grad():
    multi_query.q_proj.weight *= 5
    multi_query.k_proj.weight *= 5
multi_query = multi_query.to(device)
shared = [shard(multi_query, number, 2) for number in (0, 1)]
title = "One kv head: both devices hold it"
draw_devices(multi_query, shared, x, words=words, title=title)

# %% [markdown]
# The outputs still add up. And in training? The gradient of a copy counts only the query heads of its device, so the
# gradients of `k_proj` and `v_proj` have to be added over the devices: these are the two additional tensors in the
# report. We compare the sum with the gradient of the whole module:

# %%
multi_query(x).square().sum().backward()
loss = (shared[0](x) + shared[1](x)).square().sum()
loss.backward()
added = sum(part.k_proj.weight.grad for part in shared)
torch.testing.assert_close(added, multi_query.k_proj.weight.grad)

# %% [markdown]
# Suppose this sum is forgotten: each device takes a small step of training with its own gradients alone. **Predict.**
# Does the loss that the two devices compute together still get smaller?

# %%
with torch.no_grad():
    for parameter in [*shared[0].parameters(), *shared[1].parameters()]:
        parameter -= 1e-3 * parameter.grad
guess = ...  # "yes" or "no"
predict(guess, lambda: (shared[0](x) + shared[1](x)).square().sum() < loss)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It does, because each gradient is right for its own copy. But the copies now differ: what is trained is grouped-query
# attention with two kv heads. No error is raised, and anyone who later keeps one of the copies gets a different model.
#
# </details>
#
# ## More devices than kv heads
#
# If grouped-query attention has fewer kv heads than there are devices, systems that serve models, such as
# [vLLM](https://github.com/vllm-project/vllm), **replicate** them: several neighbouring devices hold the same kv head.
#
# **Write it yourself.** Which kv heads does a device hold? Return the index of its first kv head, and how many it has.
# With 2 kv heads on 4 devices, devices 0 and 1 hold kv head 0, and devices 2 and 3 hold kv head 1. (The larger of the
# two numbers is always a multiple of the smaller.)

# %%
def kv_heads_of_device(device, num_devices, num_kv_heads):  # three ints -> (int, int)
    raise NotImplementedError  # two lines


kv_heads_of_device = filled("kv_heads_of_device", kv_heads_of_device)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def kv_heads_of_device(device, num_devices, num_kv_heads):  # three ints -> (int, int)
#     first = device * num_kv_heads // num_devices
#     return first, max(1, num_kv_heads // num_devices)
# ```
#
# </details>
#
# In bytes: Llama 3 70B ([Grattafiori et al., The Llama 3 Herd of Models, 2024](https://arxiv.org/abs/2407.21783)) has
# 80 layers with 8 kv heads of width 128. Here is its cache for one token, with 2 bytes per number:

# %%
print("devices   bytes per token, on one device   on all of them")
for num_devices in (1, 2, 4, 8, 16, 32):
    _, held = kv_heads_of_device(0, num_devices, num_kv_heads=8)
    # layers * (key and value) * kv heads * width * bytes
    on_one = 80 * 2 * held * 128 * 2
    print(f"{num_devices:7}   {on_one:30,}   {num_devices * on_one:14,}")

# %% [markdown]
# Up to 8 devices the cache of one device shrinks. From there on, with this cut, a device keeps one kv head however many
# devices there are, and the total grows. So models with 8 kv heads and machines with 8 GPUs go well together.
#
# ## How long does it take?
#
# A common way to all-reduce large tensors is a **ring** ([Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms,
# 2009](https://doi.org/10.1016/j.jpdc.2008.09.002)). The n devices form a circle, and the tensor is cut into n pieces.
# In each step every device sends one piece to its neighbour, all at the same time. After n - 1 steps each piece has
# been added up on one of the devices, and n - 1 more steps pass the sums on to all the others. Each step takes the time
# to send a piece plus a **latency**, the time that passes even for an empty message.
#
# **Write it yourself.** How many seconds does a ring of `num_devices` take for a tensor of `num_bytes`?

# %%
def all_reduce_seconds(num_bytes, num_devices, bytes_per_second, latency):
    # four numbers -> float
    raise NotImplementedError  # two lines


all_reduce_seconds = filled("all_reduce_seconds", all_reduce_seconds)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def all_reduce_seconds(num_bytes, num_devices, bytes_per_second, latency):
#     # four numbers -> float
#     steps = 2 * (num_devices - 1)
#     return steps * (num_bytes / num_devices / bytes_per_second + latency)
# ```
#
# </details>
#
# A device sends less than twice the tensor in total, but each additional device adds two latencies.
#
# Now a whole decoding step, computed and not measured. Each device reads its part of the layers' parameters and of the
# cache; with sizes like these the reading takes longer than the arithmetic (lesson 14). A layer does two all-reduces:
# one after attention, and one after its **feedforward part**, the linear layers that follow attention in a block and
# have `hidden` numbers per token between them.

# %%
llama_70b = {"layers": 80, "d_model": 8192, "heads": 64, "kv_heads": 8}
llama_70b |= {"width": 128, "hidden": 28672}


def parameters_per_layer(model):
    # W_q and W_o have all heads, W_k and W_v the kv heads
    columns = 2 * (model["heads"] + model["kv_heads"]) * model["width"]
    # the feedforward part has three matrices
    return columns * model["d_model"], 3 * model["hidden"] * model["d_model"]


def bytes_on_device(model, n, texts=16, tokens=8192):  # 2 bytes per number
    held = kv_heads_of_device(0, n, model["kv_heads"])[1]
    cached = texts * tokens * 2 * held * model["width"]  # keys and values
    weights = 2 * model["layers"] * sum(parameters_per_layer(model)) / n
    return {"weights": weights, "cache": 2 * model["layers"] * cached}


attention, feedforward = parameters_per_layer(llama_70b)
more = feedforward / attention
print(f"The feedforward part has {more:.1f} times as many parameters as attention.")
for n in (1, 2, 4, 8):
    gigabytes = sum(bytes_on_device(llama_70b, n).values()) / 1e9
    print(f"with n = {n}, each device holds {gigabytes:5.1f} GB of weights and cache")

# %% [markdown]
# The GPU is an [NVIDIA H100](https://www.nvidia.com/en-us/data-center/h100/) with 80 GB, so neither one nor two of them
# could hold this, and we begin with four. Its data sheet says how much it reads per second, and how much NVLink
# carries, which joins the eight GPUs of a machine. Between machines we take 50 GB per second for each GPU. The
# latencies we *assume*: 1 microsecond per step within a machine, and 5 between machines.
#
# A single ring through several machines makes every step as slow as the network. **Two levels** are usually faster:
#
# 1. The eight devices of a machine do the first half of their ring. Each then has the machine's sum of one eighth.
# 2. Each all-reduces its eighth with the devices that have the same eighth in the other machines.
# 3. The second half of the ring within each machine passes the eighths on.

# %%
GB = 1e9
READ = 3350 * GB  # per second: 3.35 TB
WITHIN = 900 / 2 * GB, 1e-6  # 450 GB per second in each direction; seconds of latency
BETWEEN = 400 / 8 * GB, 5e-6  # 400 gigabits, 8 to a byte, are 50 GB per second


def one_ring(num_bytes, n):
    return all_reduce_seconds(num_bytes, n, *(WITHIN if n <= 8 else BETWEEN))


def two_levels(num_bytes, n):
    if n <= 8:
        return one_ring(num_bytes, n)
    within = all_reduce_seconds(num_bytes, 8, *WITHIN)
    return within + all_reduce_seconds(num_bytes / 8, n // 8, *BETWEEN)


def step_ms(model, n, all_reduce, texts=16):
    # milliseconds for one new token of each text, on n devices
    held = bytes_on_device(model, n, texts)
    seconds = {name: size / READ for name, size in held.items()}
    tensor = 2 * texts * model["d_model"]  # bytes
    seconds["all-reduce"] = 2 * model["layers"] * all_reduce(tensor, n)
    return {name: 1000 * value for name, value in seconds.items()}


parts = step_ms(llama_70b, 16, two_levels)
print(", ".join(f"{name} {ms:.1f} ms" for name, ms in parts.items()))

# %% [markdown]
# Those were 16 devices in two levels. The figure has the others, with the all-reduces divided into sending and waiting
# for latencies. What was assumed is on the sliders:

# %%
devices()

# %% [markdown]
# With every doubling of the devices the weights take half the time to read, and so does the cache, until each device
# has a single kv head. The time of the all-reduces grows, and with a single ring it jumps where the ring leaves the
# machine: then 8 devices are best, and 64 take longer than 4. With two levels 16 are best, and with `256` texts of
# `4096` tokens 8 again. No number of devices is best in general.
#
# With 16 texts nearly all of an all-reduce is waiting. Then a ring is a poor choice: if each device sends its pieces to
# all others at once, two latencies are enough.
#
# **Predict.** In Llama 3 8B, `d_model` is half as large. It serves the same 16 texts. Is the speed-up from four to
# eight devices `"larger"` or `"smaller"` than that of the 70B model?

# %%
llama_8b = {"layers": 32, "d_model": 4096, "heads": 32, "kv_heads": 8}
llama_8b |= {"width": 128, "hidden": 14336}


def speed_up(model):
    four, eight = (sum(step_ms(model, n, two_levels).values()) for n in (4, 8))
    return four / eight


guess = ...  # "larger" or "smaller"
larger = speed_up(llama_8b) > speed_up(llama_70b)
predict(guess, lambda: "larger" if larger else "smaller")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Smaller, with 16 texts. A layer has fewer weights to read, so the cut saves less time, while each all-reduce waits for
# as many latencies as before. (The number of layers cancels.)
#
# </details>
#
# ## Cut the keys instead
#
# For one very long text there is another cut, **context parallelism**: each device holds the keys and values of *some
# tokens*, for all heads. In decoding, it lets the queries attend to these and gets an output and the logarithm of
# softmax's sum of exponentials. Exercise 6 of [lesson 14](exercises/14_exercises.ipynb) merges two such results:

# %%
merge_partial = from_earlier("merge_partial")
generator = torch.Generator().manual_seed(13)
query = torch.randn(3, 4, generator=generator).to(device)  # (token, width)
keys, values = torch.randn(2, 10, 4, generator=generator).to(device)


def on_one_device(keys, values):
    scores = query @ keys.T * 4**-0.5  # (q, d) @ (d, k) -> (q, k)
    return scores.softmax(dim=-1) @ values, scores.logsumexp(dim=-1)  # (q, d), (q)


here, there = on_one_device(keys[:7], values[:7]), on_one_device(keys[7:], values[7:])
merged, _ = merge_partial(*here, *there)
torch.testing.assert_close(merged, on_one_device(keys, values)[0])
print("seven keys here and three there give the attention over all ten")

# %% [markdown]
# The devices send the output and one number per query and head. No key is kept twice, however few kv heads there are,
# but each device needs the queries of all heads. In training the keys and values are sent from device to device ([Liu
# et al., Ring Attention, 2023](https://arxiv.org/abs/2310.01889)).
#
# ## Your turn
#
# 1. Set both latencies of the figure to 10 microseconds. How many devices are best now, in each of the three ways?
# 2. A layer also has a feedforward part: a matrix `up`, then relu, then a matrix `down`. Cut the two matrices so that
#    one sum is enough, and say why relu does no harm. Change `cut` below, which cuts nothing yet.

# %%
up, down, vector = torch.randn(12, 8), torch.randn(8, 12), torch.randn(8)


def cut(number):  # what device `number` of 2 holds of each matrix
    return up, down


parts = [cut(number) for number in (0, 1)]
left = sum(down_part @ (up_part @ vector).relu() for up_part, down_part in parts)
print("device 0 holds", *(tuple(part.shape) for part in parts[0]), end="; ")
print("the sum is right:", torch.allclose(left, down @ (up @ vector).relu(), atol=1e-5))

# %% [markdown]
# <details><summary>Answers</summary>
#
# 1. Four, with one ring and in two levels: eight devices save less time in reading than their longer ring adds in
#    latencies. If each sends to all of its machine at once, eight are best.
# 2. Cut `up` by rows and `down` by columns. A number between the two needs only its own row and column, and relu looks
#    at one number at a time:
#
#    ```python
#    def cut(number):
#        return cut_rows(up, number, 2), cut_columns(down, number, 2)
#    ```
#
# </details>
#
# ## What you have now
#
# You can split the heads by cutting three matrices into rows and one into columns, and a single sum joins the outputs.
# You can compute what another device saves and what it costs.
#
# **Practise:** [six exercises](exercises/16_exercises.ipynb), about forty minutes.
#
# **Next:** [lesson 17, Write it yourself](17_capstone.ipynb).
