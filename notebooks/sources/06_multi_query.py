# %% [markdown]
# # Share keys and values
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/06_multi_query.ipynb)
#
# A model that writes has to remember something of every word so far, and this memory can grow larger than the model
# itself. The remedy is drastic: let all heads share one set of keys and values. You write it, let it tell a story, and
# count what it saves and what it costs. But your class has a flaw: as soon as it writes two texts at once, it can be
# slower than a class that shares nothing. You find out why, and repair it.
#
# **You need** [lesson 05](05_weight_split.ipynb). **It takes** about 60 minutes.

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
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    attend,
    causal_keep,
)
from course_lib.attention.convert import multi_query_to_multi_head
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.inputs import dream_big
from course_lib.pictures import draw_kv_sharing, head_heatmaps
from course_lib.pictures.live import share_keys_and_values
from course_lib.recorder import record
from course_lib.stories import (
    TRAINED,
    load_storyteller,
    tokens_per_second,
    with_attention,
)
from course_lib.timing import Case, compare_times, peak_bytes, random_tensors

device = course_device()
words, embeddings, x = dream_big(device=device)

# %% [markdown]
# How much does our storyteller remember? Four heads in each of two blocks keep something for every token:

# %%
teller = load_storyteller("weight split")
weights = sum(weight.numel() * weight.element_size() for weight in teller.parameters())
per_token = int(tokens_per_second(teller, num_tokens=2, rounds=1).bytes_per_token)
print(f"the model: {weights:,} bytes; kept per token: {per_token:,} bytes")
print(f"tokens whose memory is as large as the model: {weights // per_token}")

# %% [markdown]
# A page or two of text, and the memory is larger than the model.
#
# ## What a model has to remember
#
# A model that writes text produces one token at a time, which is added to the text before the next one is computed.
# The query of the newest token is compared with the keys of *all* tokens so far, and its context is the weighted sum
# of all their values. To compute these keys and values again for every new token would be a waste, because a causal
# mask makes them independent of what comes later. So they are kept from step to step in a **KV cache**. The queries
# are not: each of them is used only once, for its own token.
#
# In multi-head attention every head has keys and values of its own. **Predict.** How many numbers does one token add
# to the cache in each layer, with four heads of width 2?

# %%
d_in, d_out, num_heads = 3, 8, 4
head_dim = d_out // num_heads
torch.manual_seed(2)
full = MultiHeadAttention(d_in, d_out, num_heads).to(device)
guess = ...  # a number
predict(guess, lambda: full.k_proj(x[0, -1]).numel() + full.v_proj(x[0, -1]).numel())

# %% [markdown]
# For each new token the whole cache is also *read*, and for long texts this can take more time than the arithmetic.
# [Noam Shazeer](https://arxiv.org/abs/1911.02150) (2019) therefore lets all heads share a single head of keys and
# values. The heads keep their own queries and their own part of the output projection. In the formula of a head, $K$
# and $V$ lose their index $i$:
#
# $$
# \mathrm{head}_i = \mathrm{softmax}\left(\frac{Q_i K^{\top}}{\sqrt{d}}\right) V
# $$
#
# This is **multi-query attention** (MQA).
#
# ## By hand
#
# The query matrix makes 8 numbers per token, as in lesson 05, but here for four heads of width 2. The key matrix and
# the value matrix are only one head wide. (Two are scaled up, because with untrained matrices the attention weights are
# nearly all alike.)

# %%
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
# Your `to_heads` of lesson 04 has split the queries. The keys and values have nothing to split: they are one head
# already. Can they go into the product as they are? `@` multiplies the last two axes and **broadcasts** the axes in
# front of them. These are compared from the right: two sizes must be equal, or one of them 1 or missing. Then the
# table of the smaller side is used for every table of the other.
#
# **Predict.** With four samples `queries @ keys.transpose(1, 2)` raises no error. The keys of which sample do the
# queries of sample 0 meet in head 1?

# %%
generator = torch.Generator().manual_seed(8)
four = torch.randn(4, 6, d_in, generator=generator).to(device)
many_queries, many_keys = to_heads(q_proj(four), num_heads), k_proj(four)
guess = ...  # a number from 0 to 3


def sample_met(queries, keys):
    met = (queries @ keys.transpose(1, 2))[0, 1]
    found = [torch.allclose(met, queries[0, 1] @ one.T, atol=1e-6) for one in keys]
    return found.index(True)


predict(guess, lambda: sample_met(many_queries, many_keys))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The axes in front are (4, 4), sample and head, and (4,), sample. Compared from the right, the samples of the keys
# meet the *heads* of the queries, so head 1 reads the keys of sample 1, a stranger's text. With one sample it would
# even be right. The keys need an axis of size 1 where the queries count their heads.
#
# </details>
#
# **Write it yourself.** Compute the context of every head from queries that are split into heads and from keys and
# values that are *not*. You need no mask.

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
# Do heads that share their keys look at the same tokens? These are the attention weights of the four heads under the
# causal mask:

# %%
keep = causal_keep(6, device=device)
_, weights = attend(queries, keys[:, None], values[:, None], keep)
head_heatmaps(weights, words, keep=keep)

# %% [markdown]
# They don't: head 3 looks at "and" whenever it can, while head 2 divides its attention most evenly. The patterns
# differ because the queries differ, but each head adds up the same six values.
#
# ## Into a module
#
# **Write it yourself, from an empty class.** It is the one of lesson 05 with two narrower matrices: `k_proj` and
# `v_proj` make one head for all.

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
# It tells a story, with the weights of a storyteller that was trained with shared keys and values:

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
# ## Proof 2: it is multi-head attention with equal keys and values
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
# Multi-query attention can therefore compute nothing that multi-head attention couldn't. What does it give up? Both
# modules compute the same output, so the same loss sends the same gradient back into both. Compare what their key
# matrices receive:

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
# It is the sum: a parameter that is used in four places receives a contribution from each of them. No head can change
# the keys for itself alone.
#
# </details>
#
# ## The middle ground: grouped queries
#
# Four heads could also share *two* sets of keys and values. This is **grouped-query attention** (GQA). Each set is
# called a **kv head**, and their number is `num_kv_heads` ([Ainslie et al.](https://arxiv.org/abs/2305.13245), 2023).
#
# **Write it yourself.** Consecutive query heads share a kv head. Which one does query head number `query_head` read,
# if all are counted from 0?

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
# The list is a convention. If you run a model that was trained with 0, 1, 0, 1 under this one, the shapes are the
# same and the numbers are wrong, and no error tells you. To give each query head a copy of its keys,
# `keys.repeat_interleave(2, dim=1)` follows the convention, while `keys.repeat(1, 2, 1, 1)` breaks it:

# %%
# (b, g, t, d): a head is its own number
two_heads = torch.tensor([0, 1]).view(1, 2, 1, 1)
print("repeat_interleave:", two_heads.repeat_interleave(2, dim=1).flatten().tolist())
print("repeat:           ", two_heads.repeat(1, 2, 1, 1).flatten().tolist())

# %% [markdown]
# The next picture is measured: the weights of each kv head were changed in turn, and a line leads to every query head
# that noticed. The lower boxes are what goes into the cache.

# %%
in_groups = GroupedQueryAttention(d_in, d_out, num_heads, num_kv_heads=2).to(device)
forms = {"multi-head": full, "grouped-query": in_groups, "multi-query": reference}
draw_kv_sharing(forms, x)

# %% [markdown]
# A trained multi-head model can be turned into a grouped one: the key matrices of a group are replaced by their mean,
# and so are its value matrices. Then it is trained a little more.
#
# Move the slider of the next figure from a kv head for each head to one for all, and watch what is left to remember.

# %%
share_keys_and_values()

# %% [markdown]
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
print("form           bytes per token  loss             sure who gave")
for form in ("weight split", "grouped-query", "multi-query"):
    kept = tokens_per_second(load_storyteller(form), num_tokens=2, rounds=1)
    loss, order = [run["loss"] for run in card[form]["seeds"]], sure_of(form, "order")
    both = f"{min(loss):.3f} to {max(loss):.3f}   {min(order):.2f} to {max(order):.2f}"
    print(f"{form:14} {kept.bytes_per_token:15.0f}  {both}")

# %% [markdown]
# The names don't tell the forms apart, and the loss hardly does. The three ranges overlap: at this size, keeping a
# quarter of the memory costs no more than an unlucky seed does. The hardest question is who gave and who got. Grouped
# came out best in all three runs. We know no reason for it; three runs don't make it a law.
#
# In larger models Shazeer found "only minor quality degradation from the baseline". Ainslie et al. write that one set
# "can lead to quality degradation", and that grouped models come close to multi-head attention in quality and to
# multi-query attention in speed.
#
# ## What it saves: the cache
#
# **Write it yourself.** How many bytes does a model keep for one text of `num_tokens` tokens? Think of what is kept
# for one token, in one layer, by one kv head.

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
# The sizes below are from papers and published configurations, with 2 bytes per number:

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
# PaLM, by far the largest of the four, needs the second least.
#
# **Predict.** A GPU has 24 GiB left for the caches of Llama 3 8B, and one GiB is `2**30` bytes. How many thousand
# tokens fit into it, for all users together?

# %%
guess = ...  # thousands of tokens
predict(guess, lambda: 24 * 2**30 / cache_bytes(1, 32, 8, 128, 2) / 1000, within=5)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# With multi-head attention only a quarter of these tokens would fit, and so a quarter of the users.
#
# </details>
#
# ## The hidden copy in your class
#
# The broadcast product gives the right numbers, but how does PyTorch compute it? The next cell records one step, in
# which one new token is compared with 1,024 cached ones. The recording's method `expand()` also shows, with a dash,
# the operations that PyTorch runs inside each step.

# %%
# 2 samples, 32 heads, one new token
one_query = torch.randn(2, 32, 1, 64, device=device)
cached_keys = torch.randn(2, 1, 1024, 64, device=device)  # one kv head


def broadcast(one_query, cached_keys):
    # (b, h, 1, d) @ (b, 1, d, k) -> (b, h, 1, k)
    return one_query @ cached_keys.transpose(2, 3)


one_sample = record(broadcast, one_query[:1], cached_keys[:1]).expand()
print("copied with one sample:", "clone" in str(one_sample))
record(broadcast, one_query, cached_keys).expand()

# %% [markdown]
# The second `expand` repeats the keys without copying (stride 0). `clone` then copies all 32, into 16,777,216 bytes.
# PyTorch's batched product (`bmm`) has a single axis for all samples and heads, and no single stride reads the keys
# of the first sample 32 times and then those of the second 32 times. So with two samples or more the keys are copied
# *for each of the 32 heads*.
#
# Your `multi_query` and your `MyMultiQueryAttention` compute such a product, once for the keys and once for the
# values. The repair is to have nothing to broadcast. For one new token the table of queries has a single row in each
# head. Let the *heads* be the rows: all queries that read the same keys belong into one table, next to each other.
#
# **Write it yourself**, as a step of a model that writes: a new token comes in, the cache grows by its key and value,
# and its queries read all of it. There may be any number of kv heads.

# %%
def decode_step(queries, key, value, cached_keys, cached_values):
    # (b, h, 1, d), two of (b, g, 1, d), two of (b, g, past, d): g kv heads
    # -> the context (b, h, 1, d), and the caches, two of (b, g, past + 1, d)
    raise NotImplementedError  # no loop, no copy for each head


decode_step = filled("decode_step", decode_step)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def decode_step(queries, key, value, cached_keys, cached_values):
#     # -> (b, h, 1, d), two of (b, g, past + 1, d)
#     keys = torch.cat([cached_keys, key], dim=2)  # -> (b, g, past + 1, d)
#     values = torch.cat([cached_values, value], dim=2)
#     # (b, h, 1, d) -> (b, g, h / g, d): heads that share a kv head become its queries
#     folded = queries.reshape(*keys.shape[:2], -1, queries.shape[-1])
#     # (b, g, h / g, d) @ (b, g, d, k) -> (b, g, h / g, k)
#     scores = (folded * queries.shape[-1] ** -0.5) @ keys.transpose(2, 3)
#     context = scores.softmax(dim=-1) @ values  # (b, g, h / g, d)
#     return context.reshape(queries.shape), keys, values
# ```
#

# </details>
#
# Does it copy for each head? (The check would also pass a step that does.) This is the most memory that one step holds
# at a time, and its time on the machine that made this page, on one thread, beside multi-head attention:

# %%
def one_step(queries, keys, values):  # keys: (b, h, k, d), or (b, 1, k, d) to broadcast
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(2, 3)
    return scores.softmax(dim=-1) @ values


def yours(queries, keys, values):  # the last token is the new one
    return decode_step(
        queries,
        keys[:, :, -1:], values[:, :, -1:],
        keys[:, :, :-1], values[:, :, :-1],
    )[0]


def new_token(num_samples):
    shared = (num_samples, 1, 1024, 64)
    queries = (num_samples, 32, 1, 64)
    return random_tensors(str(device), "float32", queries, shared, shared)


q, k, v = new_token(2)
print(f"keys and values: {k.nbytes + v.nbytes:12,} bytes")
by_broadcast = peak_bytes(lambda: one_step(q, k, v), device.type)
by_yours = peak_bytes(lambda: yours(q, k, v), device.type)
print(f"broadcast:       {by_broadcast:12,} bytes")
print(f"yours:           {by_yours:12,} bytes")

# %% tags=["timing", "nbval-ignore-output"]
threads = torch.get_num_threads()
torch.set_num_threads(1)
for num_samples in (1, 2, 8):
    q, k, v = new_token(num_samples)
    own_k, own_v = k.repeat(1, 32, 1, 1), v.repeat(1, 32, 1, 1)  # 32 times the memory
    cases = [
        Case("multi-head", partial(one_step, q, own_k, own_v)),
        Case("broadcast", partial(one_step, q, k, v)),
        Case("yours", partial(yours, q, k, v)),
    ]
    with torch.no_grad():
        rows = compare_times(cases, rounds=7)
    times = ", ".join(f"{row.name} {row.median_ms:.1f} ms" for row in rows)
    print(f"batch of {num_samples}: {times}")
torch.set_num_threads(threads)

# %% [markdown]
# With one sample nothing is copied, and sharing pays at once. With more, broadcasting took longer than multi-head
# attention: the copy cost all the time that was saved, and more. With `torch.cat` your step copies the cache, too, to
# add the new token, but once, and not for each head. (PyTorch's fused function takes shared heads, too; [lesson
# 14](14_fast.ipynb) explains it.)
#
# ## Proof 3: a cache changes nothing
#
# The output for the last token must be the same whether all tokens are computed at once, or the last one alone with
# the keys and values of the others from a cache. Compute "it" in the second way:

# %%
# (b, t, d) -> (b, 1, t, d): one kv head; five tokens were here before
cached = k_proj(x[:, :5])[:, None], v_proj(x[:, :5])[:, None]
new = x[:, 5:]  # the sixth arrives
new_query = to_heads(q_proj(new), num_heads)  # (b, 1, h * d) -> (b, h, 1, d)
key, value = k_proj(new)[:, None], v_proj(new)[:, None]
context, *cached = decode_step(new_query, key, value, *cached)
step_output = reference.out_proj(context.transpose(1, 2).flatten(2))[:, 0]
torch.testing.assert_close(step_output, mine(x)[:, 5])
print("the output for 'it' is the same with the cache")

# %% [markdown]
# The newest token needs no mask, because it comes last and may see everything. Two new tokens at once would need one:
# the first of them must not see the second.
#
# Now do exercise 6 of [the sheet](exercises/06_exercises.ipynb).
#
# ## Your turn
#
# Give `MyMultiQueryAttention` two heads instead of four at the same `d_out`. Does its cache grow or shrink?
#
# <details><summary>Answer</summary>
#
# It grows. With half as many heads each head is twice as wide, and the cache holds one key and one value of that
# width per token: 8 numbers in place of 4.
#
# </details>
#
# ## What you have now
#
# You have heads that share their keys and values, and a step that doesn't copy them for each head. [Lesson
# 10](10_smaller_caches.ipynb) makes the cache smaller still.
#
# **Click through it:** [multi-query](https://attention-course.github.io/attention-course/recordings/multi_query.html)
# and [grouped-query attention](https://attention-course.github.io/attention-course/recordings/grouped_query.html) as
# recorded runs, or [with ten samples of a hundred
# tokens](https://attention-course.github.io/attention-course/known_numbers.html#one-set-of-keys-and-values-for-all-heads).
#
# **Practise:** [six exercises](exercises/06_exercises.ipynb), about 65 minutes.
#
# **Next:** [07 Give it a sense of order](07_order.ipynb).
