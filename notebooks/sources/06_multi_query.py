# %% [markdown]
# # Share keys and values
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/06_multi_query.ipynb)
#
# A model that writes has to remember something of every word so far, and this memory can grow larger than the model
# itself. The remedy is drastic: let all heads share one set of keys and values. You write it, let it tell a story, and
# count what it saves. What it costs was measured under three seeds, and you look at the numbers. At the end you find a
# hidden copy in your own class, which can cost all the time that was saved, and remove it.
#
# **You need** [lesson 05](05_weight_split.ipynb). **It takes** about 45 minutes.

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
from functools import partial
from textwrap import fill

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    causal_keep,
)
from course_lib.attention.convert import multi_query_to_multi_head
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.inputs import dream_big
from course_lib.pictures import draw_kv_sharing, head_heatmaps
from course_lib.pictures.live import share_keys_and_values
from course_lib.recorder import record
from course_lib.show import show
from course_lib.stories import (
    TRAINED,
    load_storyteller,
    tokens_per_second,
    with_attention,
)
from course_lib.timing import Case, broadcast_attention, compare_times, random_tensors

device = course_device()
words, embeddings, x = dream_big(device=device)
share_keys_and_values()

# %% [markdown]
# Move the slider and watch what is left to remember.
#
# ## What a model has to remember
#
# A model that writes text produces one token at a time, which is added to the text before the next one is computed.
# (You build this loop in lesson 08.) The query of the newest token is compared with the keys of *all* tokens so far,
# and its context is mixed from all their values. Computing these keys and values again for every new token would be a
# waste, because a causal mask makes them independent of what comes later. So they are kept from step to step in a **KV
# cache**. The queries are not: each of them is used only once, for its own token.
#
# In multi-head attention every head has keys and values of its own. This is how many numbers one token adds to the
# cache in each layer, with four heads of width 2:

# %%
num_heads, head_dim = 4, 2
print(f"numbers per token in the cache: {2 * num_heads * head_dim}", end=" ")
print("= 2 (key and value) * 4 heads * width 2")

# %% [markdown]
# For each new token the whole cache is also *read*, and for long texts this reading can take more time than the
# arithmetic. Noam Shazeer therefore lets all heads share a single head of keys and values and differ in their queries
# only ([Fast Transformer Decoding: One Write-Head is All You Need, 2019](https://arxiv.org/abs/1911.02150)). In the
# formula of a head, $K$ and $V$ lose their index $i$:
#
# $$
# \mathrm{head}_i = \mathrm{softmax}\left(\frac{Q_i K^{\top}}{\sqrt{d}}\right) V
# $$
#
# This is **multi-query attention** (MQA). Each head can still look for something else, because its queries are its own,
# but all heads compare them with the same keys and mix the same values.
#
# ## By hand
#
# The query matrix makes 8 numbers per token, as in lesson 05, but here for four heads of width 2. The key matrix and
# the value matrix are only one head wide. They are the matrices of the library's class, to which yours is compared
# below. As in the earlier lessons two of them are scaled up, this time by 5, because with untrained matrices and inputs
# as short as ours the attention weights are nearly all alike.

# %%
d_in, d_out = 3, 8
torch.manual_seed(1)
reference = MultiQueryAttention(d_in, d_out, num_heads).to(device)
q_proj, k_proj, v_proj = reference.q_proj, reference.k_proj, reference.v_proj
with torch.no_grad():
    q_proj.weight *= 5
    k_proj.weight *= 5

# %%
to_heads = from_earlier("to_heads")
queries, keys, values = to_heads(q_proj(x), num_heads), k_proj(x), v_proj(x)
shapes = [tuple(one.shape) for one in (queries, keys, values)]
print("queries:", shapes[0], " keys:", shapes[1], " values:", shapes[2])

# %% [markdown]
# Your `to_heads` of lesson 04 has split the queries. The keys have nothing to split, because they are one head already.
# They only need an axis of size 1 in the place where the queries count their heads, and `[:, None]` inserts it. Then
# tokens and width change places, because a product takes columns of its right side:

# %%
def as_one_head(keys):
    return keys[:, None].transpose(2, 3)  # (b, t, d) -> (b, 1, t, d) -> (b, 1, d, t)


print("one table of keys:", tuple(as_one_head(keys).shape))

# %% [markdown]
# The queries have four tables, one per head, whose rows are the tokens.
#
# **Predict.** What is the shape of the product of the two, `queries @ as_one_head(keys)`?

# %%
guess = ...  # four sizes in parentheses, such as (1, 1, 6, 2)
predict(guess, lambda: (queries @ as_one_head(keys)).shape)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# `@` multiplies the last two axes and **broadcasts** the axes in front of them: where one side has size 1, its single
# table is used for every table of the other side. So each of the four heads meets the same keys, and the result has one
# table of scores per head, with a row per query and a column per key.
#
# </details>
#
# **Write it yourself.** Compute the context of every head from queries that are split into heads and from keys and
# values that are *not*. Nothing is hidden here, so you need no mask.

# %%
def multi_query(queries, keys, values):
    # (batch, head, query, head_dim), 2 x (batch, key, head_dim) -> (b, h, q, d)
    raise NotImplementedError  # scores, attention weights, context: three lines


multi_query = filled("multi_query", multi_query)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def multi_query(queries, keys, values):
#     # (batch, head, query, head_dim), 2 x (batch, key, head_dim) -> (b, h, q, d)
#     scaled = queries * queries.shape[-1] ** -0.5
#     # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
#     weights = (scaled @ keys[:, None].transpose(2, 3)).softmax(dim=-1)
#     return weights @ values[:, None]  # (b, h, q, k) @ (b, 1, k, d) -> (b, h, q, d)
# ```
#
# </details>
#
# The next cell computes the attention weights of the four heads with the causal mask. Do heads that share their keys
# look at the same tokens?

# %%
keep = causal_keep(6, device=device)
# (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
scores = (queries * head_dim**-0.5) @ as_one_head(keys)
weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
head_heatmaps(weights, words, keep=keep)

# %% [markdown]
# They don't: head 3 looks at "and" whenever it can, while head 2 divides its attention almost evenly. The patterns
# differ because the queries differ, but each head mixes the same six values.
#
# ## Into a module
#
# **Write it yourself, from an empty class.** It is the one of lesson 05 with two narrower matrices: `k_proj` and
# `v_proj` make one head for all. Lesson 12 examines your class once more.

# %%
class MyMultiQueryAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        # queries (b, h, t, d), keys (b, 1, t, d) and values (b, 1, t, d)
        raise NotImplementedError


MyMultiQueryAttention = filled("MyMultiQueryAttention", MyMultiQueryAttention)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyMultiQueryAttention(nn.Module):
#     def __init__(self, d_in, d_out, num_heads):
#         super().__init__()
#         self.num_heads, self.head_dim = num_heads, d_out // num_heads
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, self.head_dim, bias=False)  # one head for all
#         self.v_proj = nn.Linear(d_in, self.head_dim, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#
#     def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
#         # (b, h, t, d)
#         queries = self.q_proj(x).unflatten(2, (-1, self.head_dim)).transpose(1, 2)
#         keys = self.k_proj(x)[:, None]  # (b, t, d) -> (b, 1, t, d)
#         values = self.v_proj(x)[:, None]
#         # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
#         scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
#         hidden = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
#         context = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values
#         # (b, h, t, d) -> (b, t, h * d)
#         return self.out_proj(context.transpose(1, 2).flatten(2))
# ```
#
# </details>
#
# It tells a story, too, with the weights of a storyteller that was trained with shared keys and values:

# %%
storyteller = load_storyteller("multi-query").to(device)
told = with_attention(storyteller, MyMultiQueryAttention).write("Once there was a")
print(fill(told, 80))

# %% [markdown]
# ## Proof 1: it is the library's
#
# Your module gets the matrices of the library's, on sizes that all differ: 5 samples, 7 tokens, 3 numbers in and 8 out,
# 4 heads of width 2.

# %%
generator = torch.Generator().manual_seed(3)
samples = torch.randn(5, 7, d_in, generator=generator).to(device)


def proof(module_class):
    module = module_class(d_in, d_out, num_heads).to(device)
    module.load_state_dict(reference.state_dict())
    torch.testing.assert_close(module(samples), reference(samples))
    return module


mine = proof(MyMultiQueryAttention)
print("your module and the library's give the same output")

# %% [markdown]
# **Now cheat.** Write a class with a mistake that this proof doesn't see.

# %%
Sneaky = ...  # a class like MyMultiQueryAttention, in place of the dots
sneak("MyMultiQueryAttention", Sneaky, proof)

# %% [markdown]
# <details><summary>A way in</summary>
#
# The proof knows one width of a head, two. A class that divides by the root of 2, whatever its width, passes.
#
# </details>
#
# ## Proof 2: it is multi-head attention with equal heads
#
# `multi_query_to_multi_head` makes a multi-head module whose four heads have the same key matrix and the same value
# matrix. It repeats the rows of the two matrices, one copy below the other:

# %%
multi_head = multi_query_to_multi_head(reference)
one, four = (module.k_proj.weight.shape for module in (reference, multi_head))
print("k_proj:", tuple(one), "->", tuple(four))
torch.testing.assert_close(multi_head(samples), mine(samples))
print("the outputs are equal")

# %% [markdown]
# Multi-query attention can therefore compute nothing that multi-head attention couldn't. It gives up freedom in order
# to save memory, and you can see in the gradients what this means for training. Both modules compute the same output,
# so that the same loss sends the same gradient back into both. Compare what their key matrices receive:

# %%
def gradient_of_keys(module):
    loss = module(samples).square().sum()
    return torch.autograd.grad(loss, module.k_proj.weight)[0]


shared = gradient_of_keys(reference)
separate = gradient_of_keys(multi_head).view(num_heads, head_dim, d_in)

# %% [markdown]
# **Predict.** The shared key matrix receives one gradient, and the four separate key matrices receive four. Is the
# shared one the `"sum"` of the four, their `"mean"`, or the `"largest"` of them?

# %%
candidates = {"sum": separate.sum(dim=0), "mean": separate.mean(dim=0)}
candidates["largest"] = separate.amax(dim=0)
same = {way: torch.allclose(shared, one, atol=1e-4) for way, one in candidates.items()}
guess = ...  # a word in quotation marks
predict(guess, lambda: next(way for way in same if same[way]))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is the sum, because a parameter that is used in four places receives a contribution from each of them. A training
# step therefore changes the shared matrix by what the four heads ask for together, and no head can change the keys for
# itself alone.
#
# </details>
#
# ## The middle ground: grouped queries
#
# One set of keys and values for all heads is the extreme. Four heads could also share *two* sets. This is
# **grouped-query attention** (GQA). Each set is called a **kv head**, and their number is `num_kv_heads` ([Ainslie et
# al., GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints,
# 2023](https://arxiv.org/abs/2305.13245)).
#
# **Write it yourself.** Consecutive query heads share a kv head. Which one does query head number `query_head` read, if
# all are counted from 0?

# %%
def kv_head_of(query_head, num_heads, num_kv_heads):  # three ints -> int
    raise NotImplementedError  # one or two lines


kv_head_of = filled("kv_head_of", kv_head_of)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def kv_head_of(query_head, num_heads, num_kv_heads):  # three ints -> int
#     heads_per_group = num_heads // num_kv_heads
#     return query_head // heads_per_group
# ```
#
# </details>

# %%
print("4 heads, 2 kv heads:", [kv_head_of(head, 4, 2) for head in range(4)])

# %% [markdown]
# The list is a convention. A model could also be trained with 0, 1, 0, 1, but if you run a trained model with the other
# convention, the shapes are the same and the numbers are wrong, and no error tells you. To give each query head a copy
# of its keys, `keys.repeat_interleave(2, dim=1)` follows the convention, while `keys.repeat(1, 2, 1, 1)` breaks it:

# %%
# (b, g, t, d): a head is its own number
two_heads = torch.tensor([0, 1]).view(1, 2, 1, 1)
print("repeat_interleave:", two_heads.repeat_interleave(2, dim=1).flatten().tolist())
print("repeat:           ", two_heads.repeat(1, 2, 1, 1).flatten().tolist())

# %% [markdown]
# The library's class `GroupedQueryAttention` also covers the two forms that you know, with as many kv heads as heads
# and with one:

# %%
torch.manual_seed(2)
full = MultiHeadAttention(d_in, d_out, num_heads).to(device)
with torch.no_grad():
    full.q_proj.weight *= 5
    full.k_proj.weight *= 5
for form, num_kv_heads in ((full, 4), (reference, 1)):
    grouped = GroupedQueryAttention(d_in, d_out, num_heads, num_kv_heads).to(device)
    grouped.load_state_dict(form.state_dict())
    torch.testing.assert_close(grouped(samples), form(samples))
print("num_kv_heads = 4: multi-head; num_kv_heads = 1: multi-query")

# %% [markdown]
# The next picture is measured: the keys and values of each kv head were changed in turn, and a line leads to every
# query head whose output changed. The lower boxes are what goes into the cache: four, two, and one per token.

# %%
in_groups = GroupedQueryAttention(d_in, d_out, num_heads, num_kv_heads=2).to(device)
forms = {"multi-head": full, "grouped-query": in_groups, "multi-query": reference}
draw_kv_sharing(forms, x)

# %% [markdown]
# A trained multi-head model can be turned into a grouped one: the key matrices of a group are replaced by their mean,
# and so are its value matrices. This changes the output, and so the authors train the model further, which they call
# *uptraining*.
#
# Now do exercises 1 to 5 of [the sheet](exercises/06_exercises.ipynb).
#
# ## What it costs: facts
#
# What do the models lose? Three storytellers of each form were trained, with seeds 0, 1 and 2.
#
# **Predict.** On average, which form is surer of the names in its stories, by more than 0.02: `"weight split"` (four
# sets in each block), `"multi-query"` (one), or `"neither"`?

# %%
card = json.loads((TRAINED / "card.json").read_text("utf-8"))


def sure_of(form, kind):  # of three seeds
    return torch.tensor([run["sure"][kind] for run in card[form]["seeds"]])


more = (sure_of("weight split", "name") - sure_of("multi-query", "name")).mean()
guess = ...  # one of the three, in quotes
surer = "weight split" if more > 0 else "multi-query"
predict(guess, lambda: surer if abs(more) > 0.02 else "neither")

# %%
print("form           bytes per token   loss    sure who gave, who got")
for form in ("weight split", "grouped-query", "multi-query"):
    speed = tokens_per_second(load_storyteller(form), num_tokens=2, rounds=1)
    loss = sum(run["loss"] for run in card[form]["seeds"]) / 3
    order = sure_of(form, "order")
    span = f"{order.min():.2f} to {order.max():.2f}"
    print(f"{form:14} {speed.bytes_per_token:15.0f} {loss:6.3f}    {span}")

# %% [markdown]
# A quarter of the bytes, and the loss is larger in the third decimal only: in this little language sharing costs almost
# nothing. Who gave and who got is the hardest kind, and there three runs of each form are too few to call one of them
# better. Large models are another matter. Shazeer reports a "minor quality degradation" with one set. Ainslie et al.
# write that it "can lead to quality degradation", and that their grouped models come close to multi-head attention in
# quality and to multi-query attention in speed.
#
# ## What it saves: the cache
#
# **Write it yourself.** How many bytes does a model keep for one text of `num_tokens` tokens? Think of what is kept for
# one token, in one layer, by one kv head.

# %%
def cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number):
    # five ints -> int
    raise NotImplementedError  # one or two lines


cache_bytes = filled("cache_bytes", cache_bytes)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def cache_bytes(num_tokens, num_layers, num_kv_heads, head_dim, bytes_per_number):
#     # five ints -> int
#     numbers_per_token = 2 * num_kv_heads * head_dim  # keys and values
#     return num_tokens * num_layers * numbers_per_token * bytes_per_number
# ```
#
# </details>
#
# Compare the formula with the storage of a real tensor, for one layer with 4,096 tokens:

# %%
# (keys or values, kv head, token, head_dim), 2 bytes each
cache = torch.empty(2, 8, 4096, 128, dtype=torch.bfloat16)
measured, formula = cache.untyped_storage().nbytes(), cache_bytes(4096, 1, 8, 128, 2)
print(f"measured: {measured:,} bytes; formula: {formula:,} bytes")

# %% [markdown]
# The sizes in the next table come from papers and published configurations. Your function computes the bytes, again
# with 2 bytes per number:

# %%
models = {  # layers, heads, kv heads, head_dim
    "Llama 2 7B (2023), multi-head": (32, 32, 32, 128),
    "Llama 3 8B (2024), grouped": (32, 32, 8, 128),
    "Qwen2.5 7B (2024), grouped": (28, 28, 4, 128),
    "PaLM 540B (2022), multi-query": (118, 48, 1, 256),
}
print(f"{'model':32} {'bytes per token':>15} {'if it were multi-head':>22}")
for name, (layers, heads, kv_heads, width) in models.items():
    own = cache_bytes(1, layers, kv_heads, width, 2)
    full_size = cache_bytes(1, layers, heads, width, 2)
    print(f"{name:32} {own:15,} {full_size:22,}")

# %% [markdown]
# Llama 3 8B keeps a quarter of what Llama 2 7B keeps per token, because eight kv heads serve 32 query heads. PaLM, by
# far the largest of the four, needs the second least, because it is multi-query.
#
# **Predict.** A GPU has 24 GiB left for the caches of Llama 3 8B, and one GiB is `2**30` bytes. How many thousand
# tokens fit into it, for all users together?

# %%
guess = ...  # thousands of tokens
predict(guess, lambda: 24 * 2**30 / cache_bytes(1, 32, 8, 128, 2) / 1000, within=5)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Divide the bytes by the bytes per token. With multi-head attention only a quarter of these tokens would fit, and so a
# quarter of the users. This is why many of the models released since 2023 share keys and values among heads.
#
# </details>
#
# ## The hidden copy in your class
#
# The broadcast product gives the right numbers, but how does PyTorch compute it? The next cell records one step, in
# which one new token is compared with 1,024 cached ones. The recording's method `expand()` also shows, with a dash, the
# operations that PyTorch runs inside each step. Two rows matter, `expand` and `clone`: look at the stride of the one
# and at the new memory of the other.

# %%
# 2 samples, 32 heads, one new token
one_query = torch.randn(2, 32, 1, 64, device=device)
cached_keys = torch.randn(2, 1, 1024, 64, device=device)  # one kv head


def broadcast(one_query, cached_keys):
    # (b, h, 1, d) @ (b, 1, d, k) -> (b, h, 1, k)
    return one_query @ cached_keys.transpose(2, 3)


print("the keys themselves:", f"{cached_keys.untyped_storage().nbytes():,} bytes")
one_sample = record(broadcast, one_query[:1], cached_keys[:1]).expand()
print("copied with one sample:", "clone" in str(one_sample))
record(broadcast, one_query, cached_keys).expand()

# %% [markdown]
# `expand` repeats the keys for 32 heads without copying, with a stride of 0. The row `clone` then has 16,777,216 bytes,
# which is 32 times the size of the keys. PyTorch's batched product (`bmm`) has a single axis for all samples and heads,
# and no single stride reads the keys of the first sample 32 times and then those of the second 32 times. So with two
# samples or more the keys are copied *for each of the 32 heads*. The cache stays small, and the copy is freed after the
# product. What is lost is time.
#
# This product stands in your `multi_query` and in your `MyMultiQueryAttention`, once for the keys and once for the
# values. Here are the copies that your class makes of 128 tokens:

# %%
def copies(module, x):  # what the products of scores and context copy
    inside = [op for step in record(module, x).steps for op in step.aten_ops]
    products = [at for at, op in enumerate(inside) if op.op == "bmm"]
    found = [op for op in inside[: products[-1]] if op.op == "clone"]
    return [f"{tuple(op.shape)}, {op.nbytes:,} bytes" for op in found]


torch.manual_seed(5)
wide = MyMultiQueryAttention(64, 512, 32).to(device)  # 32 heads of 16
long_text = torch.randn(2, 128, 64, device=device)
print(f"keys: {wide.k_proj(long_text).nbytes:,} bytes; copies:")
print(*copies(wide, long_text), sep="\n")

# %% [markdown]
# The keys, (2, 32, 16, 128), and the values, (2, 32, 128, 16), each become 32 times as large in the copy. (The first
# copy is that of the queries.) The repair is to write the products with `einsum`, which takes one letter per axis. The
# keys have no letter *h*, and `einsum` makes the queries of all heads the rows of one table:

# %%
class WithoutCopies(MyMultiQueryAttention):
    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        # (b, h, t, d)
        queries = self.q_proj(x).unflatten(2, (-1, self.head_dim)).transpose(1, 2)
        keys, values = self.k_proj(x), self.v_proj(x)  # (b, t, d), without heads
        scaled = queries * self.head_dim**-0.5
        scores = torch.einsum("bhqd,bkd->bhqk", scaled, keys)
        hidden = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = torch.einsum("bhqk,bkd->bhqd", weights, values)
        # (b, h, t, d) -> (b, t, h * d)
        return self.out_proj(context.transpose(1, 2).flatten(2))


repaired = WithoutCopies(64, 512, 32).to(device)
repaired.load_state_dict(wide.state_dict())
torch.testing.assert_close(repaired(long_text), wide(long_text))
print("copies:", *copies(repaired, long_text), sep="\n")
print("keys moved by broadcasting:", 1 + 32 + 32, "times their size")

# %% [markdown]
# The output is the same, and only the copy of the queries is left. Broadcasting reads the keys once, writes them 32
# times and reads them 32 times again, 65 times their size in all; with `einsum` they are read once.
#
# This is what was measured on the machine that made this page, for one new token in each of 8 samples, with 32 heads
# and 4,096 cached tokens, on one thread. PyTorch's fused function takes shared heads, too, with `enable_gqa=True` (on a
# CPU without a copy from PyTorch 2.9 on); lesson 11 explains it.

# %% tags=["timing", "nbval-ignore-output"]
shapes = (8, 32, 1, 64), (8, 1, 4096, 64), (8, 1, 4096, 64)
q, k, v = random_tensors(str(device), "float32", *shapes)


fused = F.scaled_dot_product_attention


def with_einsum():
    weights = torch.einsum("bhqd,bkd->bhqk", q * 64**-0.5, k[:, 0]).softmax(dim=-1)
    return torch.einsum("bhqk,bkd->bhqd", weights, v[:, 0])


cases = [
    Case("broadcast", lambda: broadcast_attention(q, k, v)),
    Case("einsum", with_einsum),
    Case("enable_gqa", partial(fused, q, k, v, enable_gqa=True)),
]
threads = torch.get_num_threads()
torch.set_num_threads(1)
with torch.no_grad():
    for row in compare_times(cases, rounds=5):
        speed = f"{row.speedup:6.1f} times as fast as broadcasting"
        print(f"{row.name:13} {row.median_ms:8.2f} ms   {speed}")
    classes = (("your class", wide), ("repaired", repaired))
    whole = [Case(name, partial(module, long_text)) for name, module in classes]
    _, row = compare_times(whole, rounds=15)
torch.set_num_threads(threads)
print(f"the repaired class on a whole text: {row.speedup:.1f} times as fast as yours")

# %% [markdown]
# The factor of 65 counts nothing but the keys, so expect the measured ones to be of that order, but not the same. The
# last line is about something else: in a whole text there are as many queries as keys, so the copied keys are no larger
# than the queries, and the repair gains little or nothing. The copy does its harm in the steps that a model takes when
# it writes, one new token at a time.
#
# ## Proof 3: a cache changes nothing
#
# The output for the last token must be the same whether all tokens are computed at once, or the last one alone with the
# keys and values of the others from a cache. Compute "it" in the second way:

# %%
cached_k, cached_v = k_proj(x[:, :5]), v_proj(x[:, :5])  # five tokens were here before
new = x[:, 5:]  # the sixth arrives
all_keys = torch.cat([cached_k, k_proj(new)], dim=1)  # (b, t, d)
all_values = torch.cat([cached_v, v_proj(new)], dim=1)
new_query = to_heads(q_proj(new), num_heads)  # (b, 1, h * d) -> (b, h, 1, d)

# %%
# one sample, one query, and it may see all six keys: no mask is needed
context = multi_query(new_query, all_keys, all_values)
step_output = reference.out_proj(context.transpose(1, 2).flatten(2))[:, 0]
torch.testing.assert_close(step_output, mine(x)[:, 5])
rows = torch.cat([step_output, mine(x)[:, 5]])
show("'it'", rows, "token width", ("with the cache", "all at once"), digits=2)

# %% [markdown]
# Both rows are the same. The newest token needs no mask, because it comes last and may see everything. Two new tokens
# at once would need one, because the first of them must not see the second.
#
# Now do exercises 6 and 7 of [the sheet](exercises/06_exercises.ipynb).
#
# ## Your turn
#
# 1. Give `MyMultiQueryAttention` two heads instead of four at the same `d_out`. Does its cache grow or shrink?
# 2. Record the grouped module with `record(in_groups, x).layout()`. What is copied?
#
# <details><summary>Answers</summary>
#
# 1. It grows. With half as many heads each head is twice as wide, and the cache holds one key and one value of that
#    width per token: 8 numbers in place of 4.
# 2. The queries are copied once, when the heads that share a kv head are folded into one table, and the context once,
#    when its heads are merged. No step copies keys or values. (With several samples a product may copy them inside:
#    `record(module, x).expand()` shows it.)
#
# </details>
#
# ## What you have now
#
# You have written one head, many heads as a list, many heads from one matrix, and heads that share their keys and
# values, and you compared each form with the one before it. [Lesson 09](09_smaller_caches.ipynb) makes the cache
# smaller still.
#
# **Click through it:** [multi-query](https://attention-course.github.io/attention-course/recordings/multi_query.html)
# and [grouped-query attention](https://attention-course.github.io/attention-course/recordings/grouped_query.html)
# as recorded runs. Choose any number there, and you see where it came from and where it goes.
#
# **With other numbers:** [ten samples of a hundred
# tokens](https://attention-course.github.io/attention-course/known_numbers.html#one-set-of-keys-and-values-for-all-heads).
#
# **Practise:** [seven exercises](exercises/06_exercises.ipynb), about 75 minutes.
#
# **Next:** [07 Order, padding, and two sequences](07_order_and_padding.ipynb).
