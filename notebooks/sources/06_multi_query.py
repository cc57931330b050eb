# %% [markdown]
# # Share keys and values
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/06_multi_query.ipynb)
#
# You will let all heads share one set of keys and values: multi-query attention. You prove that it is multi-head
# attention with equal key and value heads, see grouped-query attention as the ground between the two, count what a
# cache costs in bytes, and find the copy that can lose the whole saving.
#
# **You need** [lesson 05](05_weight_split.ipynb). **It takes** twenty minutes.

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
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    attend,
    causal_keep,
)
from course_lib.attention.convert import (
    multi_head_to_grouped_query,
    multi_head_to_multi_query,
    multi_query_to_multi_head,
)
from course_lib.device import course_device
from course_lib.inputs import dream_big
from course_lib.pictures import cache, family, head_heatmaps, layout_steps
from course_lib.recorder import record
from course_lib.show import show

device = course_device()
words, embeddings, x = dream_big(device=device)

# %% [markdown]
# ## What a model must remember
#
# A model that writes text adds one word at a time. The new word's query meets the keys of *all* words so far, so keys
# and values are kept from step to step, in a **cache**; queries are used once and forgotten. With every head keeping
# its own keys and values, a token costs

# %%
num_heads, head_dim = 4, 2
print("numbers in the cache for one token:", 2 * num_heads * head_dim, "= 2 (keys and values) * 4 heads * 2 wide")

# %% [markdown]
# and at each step the whole cache is read again. **Multi-query attention** keeps a single head of keys and values, and
# lets every head ask it with queries of its own. In the formula, $K$ and $V$ lose their $i$:
#
# $$
# \mathrm{head}_i = \mathrm{softmax}\left(\frac{Q_i K^{\top}}{\sqrt{d}}\right) V
# $$
#
# ## By hand
#
# The queries are as wide as ever; keys and values are one head wide:

# %%
d_in, d_out = 3, 8
torch.manual_seed(1)
q_proj = nn.Linear(d_in, num_heads * head_dim, bias=False)
k_proj = nn.Linear(d_in, head_dim, bias=False)
v_proj = nn.Linear(d_in, head_dim, bias=False)
out_proj = nn.Linear(num_heads * head_dim, d_out, bias=False)
with torch.no_grad():
    q_proj.weight *= 5  # as if trained
    k_proj.weight *= 5
for projection in (q_proj, k_proj, v_proj, out_proj):
    projection.to(device)

queries, keys, values = q_proj(x), k_proj(x), v_proj(x)
print("queries:", tuple(queries.shape), " keys:", tuple(keys.shape), " values:", tuple(values.shape))

# %% [markdown]
# Queries are split into heads as in lesson 05. Keys and values get an axis of one head:

# %%
queries_by_head = queries.view(1, 6, num_heads, head_dim).transpose(1, 2)  # (b, t, h * d) -> (b, h, t, d)
keys_shared = keys[:, None]  # (b, t, d) -> (b, 1, t, d)
values_shared = values[:, None]
print("queries_by_head:", tuple(queries_by_head.shape), queries_by_head.stride())
print("keys_shared:    ", tuple(keys_shared.shape), keys_shared.stride())

# %%
def to_heads(queries, keys):
    queries_by_head = queries.view(1, 6, num_heads, head_dim).transpose(1, 2)
    keys_transposed = keys[:, None].transpose(2, 3)  # (b, t, d) -> (b, 1, t, d) -> (b, 1, d, t)
    return queries_by_head, keys_transposed


layout_steps(record(to_heads, queries, keys), words)

# %% [markdown]
# Four tables of queries, one of keys, whose tokens are columns in the end, ready for the product.
#
# In a product, an axis of size 1 is **broadcast**: each of the four heads meets the same keys.

# %%
keep = causal_keep(6, device=device)
keys_transposed = keys_shared.transpose(2, 3)  # (b, 1, k, d) -> (b, 1, d, k)
scores = (queries_by_head * head_dim**-0.5) @ keys_transposed  # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
context_by_head = weights @ values_shared  # (b, h, q, k) @ (b, 1, k, d) -> (b, h, q, d)
print("scores:", tuple(scores.shape), " context_by_head:", tuple(context_by_head.shape))

# %%
head_heatmaps(weights, words, keep=keep)

# %% [markdown]
# One set of keys, four patterns: the heads differ because their *queries* do. The rest is as before:

# %%
merged = context_by_head.transpose(1, 2).reshape(1, 6, num_heads * head_dim)  # (b, h, t, d) -> (b, t, h * d)
output = out_proj(merged)
print("merged:", tuple(merged.shape), " output:", tuple(output.shape))

# %% [markdown]
# ## Proof 1: it is the library's

# %%
multi_query = MultiQueryAttention(d_in, d_out, num_heads).to(device)
multi_query.q_proj, multi_query.out_proj = q_proj, out_proj
multi_query.k_proj, multi_query.v_proj = k_proj, v_proj
torch.testing.assert_close(multi_query(x), output)
show("output", output, "batch token width", words)
show("multi_query(x)", multi_query(x), "batch token width", words)

# %% [markdown]
# ## Proof 2: it is multi-head attention with equal heads
#
# Take a multi-head module and give all four heads the same key matrix and the same value matrix.
# `multi_query_to_multi_head` does that, by repeating the rows:

# %%
multi_head = multi_query_to_multi_head(multi_query)
print("k_proj of multi-query:", tuple(multi_query.k_proj.weight.shape))
print("k_proj of multi-head: ", tuple(multi_head.k_proj.weight.shape))
key_heads = multi_head.k_proj.weight.view(num_heads, head_dim * d_in)  # one row a head
show("its four key heads", key_heads, "head weight")

# %%
torch.testing.assert_close(multi_head(x), multi_query(x))
print("same output:", torch.allclose(multi_head(x), multi_query(x)))

# %% [markdown]
# So multi-query attention can do nothing that multi-head attention can't. It gives up freedom to save memory.
#
# ## The ground between: grouped queries
#
# Four heads could also share *two* sets: heads 0 and 1 the first, heads 2 and 3 the second. That is **grouped-query
# attention**, and the number of sets is `num_kv_heads`. Its two ends are forms you know:

# %%
torch.manual_seed(2)
full = MultiHeadAttention(d_in, d_out, num_heads).to(device)
with torch.no_grad():
    full.q_proj.weight *= 5
    full.k_proj.weight *= 5

as_many = GroupedQueryAttention(d_in, d_out, num_heads, num_kv_heads=4).to(device)
as_many.load_state_dict(full.state_dict())
torch.testing.assert_close(as_many(x), full(x))
print("num_kv_heads = num_heads is multi-head attention")

just_one = GroupedQueryAttention(d_in, d_out, num_heads, num_kv_heads=1).to(device)
just_one.load_state_dict(multi_query.state_dict())
torch.testing.assert_close(just_one(x), multi_query(x))
print("num_kv_heads = 1 is multi-query attention")

# %% [markdown]
# The whole family. No line in this picture is believed: in each module the keys of one head were changed, and the query
# heads whose weights then changed are those that read them.

# %%
in_groups = GroupedQueryAttention(d_in, d_out, num_heads, num_kv_heads=2).to(device)
forms = {"multi-head": full, "grouped-query": in_groups, "multi-query": multi_query}
family(forms, x)

# %% [markdown]
# A trained multi-head model can be turned into either: the key and value matrices of a group are replaced by their
# **mean**. That changes what it computes, the more the fewer remain:

# %%
for num_kv_heads in (4, 2, 1):
    grouped = multi_head_to_grouped_query(full, num_kv_heads)
    difference = (grouped(x) - full(x)).abs().mean() / full(x).abs().mean()
    shape = tuple(grouped.k_proj.weight.shape)
    print(f"{num_kv_heads} kv heads: k_proj {shape}, output differs by {difference.item():.2f} of its size")

# %% [markdown]
# So models are trained a little further after the change. Nothing is lost only where the heads of a group were equal
# before:

# %%
there_and_back = multi_head_to_multi_query(multi_query_to_multi_head(multi_query))
torch.testing.assert_close(there_and_back(x), multi_query(x))
print("multi-query -> multi-head -> multi-query gives the same output")

# %% [markdown]
# ## What it saves: parameters
#
# Queries and output stay; keys and values shrink. The formula, and the numbers that the modules really hold:

# %%
def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


wide, heads = 512, 8
print("kv heads   formula: 2 m m + 2 m g d   measured")
for num_kv_heads in (8, 4, 2, 1):
    module = GroupedQueryAttention(wide, wide, heads, num_kv_heads)
    formula = 2 * wide * wide + 2 * wide * num_kv_heads * (wide // heads)
    print(f"{num_kv_heads:8}   {formula:24,}   {count(module):8,}")

# %% [markdown]
# (m is the model's width, 512; g the number of kv heads; d the width of a head, 64.)
#
# ## What it saves: the cache
#
# This is why it was invented. The bytes of one layer's cache, for 4096 tokens, 32 heads of 64, in 16-bit numbers: the
# formula beside the storage of real tensors.

# %%
num_tokens, heads, width = 4096, 32, 64
print("kv heads   formula: 2 t g d * 2 bytes   measured")
for num_kv_heads in (32, 8, 1):
    key_cache = torch.empty(1, num_kv_heads, num_tokens, width, dtype=torch.float16, device=device)
    value_cache = torch.empty_like(key_cache)
    measured = key_cache.untyped_storage().nbytes() + value_cache.untyped_storage().nbytes()
    print(f"{num_kv_heads:8}   {2 * num_tokens * num_kv_heads * width * 2:26,}   {measured:10,}")

# %% [markdown]
# Drawn for our sentence and our three small modules, with "it" as the new word:

# %%
cache(forms, x, words)

# %% [markdown]
# One kv head needs a 32nd of the memory, and a 32nd of the reading at each step. Multiply by the layers of a model and
# the requests it serves at once, and you see what sharing is worth.
#
# ## How to lose it again
#
# The broadcast product above is right, but how does PyTorch compute it? Its batched product wants one matrix of keys
# *for each head*. Unfold the recording of one product, and look for new memory:

# %%
generator = torch.Generator().manual_seed(0)
one_query = torch.randn(2, 32, 1, 64, generator=generator).to(device)  # 2 samples, 32 heads, one new token
cached_keys = torch.randn(2, 1, 1024, 64, generator=generator).to(device)  # one kv head, 1024 tokens


def broadcast(one_query, cached_keys):
    return one_query @ cached_keys.transpose(2, 3)  # (b, h, 1, d) @ (b, 1, d, k) -> (b, h, 1, k)


print("the keys themselves:", f"{cached_keys.untyped_storage().nbytes():,} bytes")
record(broadcast, one_query, cached_keys).unfold()

# %% [markdown]
# There it is: `clone` writes the keys once for each of the 32 heads, 32 times their size, in every step. The memory of
# the cache was saved, the time was not.
#
# The remedy: all heads ask the *same* keys, so their queries can stand in one table, as if they were 32 queries of one
# head. Fold the head axis into the query axis, multiply, unfold:

# %%
def fold(one_query, cached_keys):
    folded_query = one_query.view(2, 1, 32, 64)  # (b, h, 1, d) -> (b, 1, h, d): heads become queries
    folded_scores = folded_query @ cached_keys.transpose(2, 3)  # (b, 1, h, d) @ (b, 1, d, k) -> (b, 1, h, k)
    return folded_scores.view(2, 32, 1, 1024)  # -> (b, h, 1, k)


folding = record(fold, one_query, cached_keys)
torch.testing.assert_close(folding.output, broadcast(one_query, cached_keys))
folding.unfold()

# %% [markdown]
# Only the scores are made, and they are equal. The library's `attend` works so, for every number of kv heads. What it
# saves on your machine, on one step with 8 samples and 4096 cached tokens:

# %% tags=["timing", "nbval-ignore-output"]
from course_lib.bench.cases import multi_query_decode
from course_lib.bench.timing import compare_times

with torch.no_grad():
    for row in compare_times(multi_query_decode(str(device), quick=False), rounds=5):
        print(f"{row.name:17} {row.median_ms:8.2f} ms   {row.speedup:5.1f} times as fast as broadcasting")

# %% [markdown]
# `attend_fused` is the same step through PyTorch's fused kernel. `make bench` repeats this with more rounds.
#
# ## Proof 3: a cache changes nothing
#
# The last token's output must not depend on whether all tokens are computed at once or the last one alone, with the
# keys and values of the others from a cache:

# %%
cached_k, cached_v = keys_shared[:, :, :5], values_shared[:, :, :5]  # five tokens were here before
new = x[:, 5:]  # the sixth comes in
new_queries = q_proj(new).view(1, 1, num_heads, head_dim).transpose(1, 2)  # (b, 1, h * d) -> (b, h, 1, d)
all_keys = torch.cat([cached_k, k_proj(new)[:, None]], dim=2)
all_values = torch.cat([cached_v, v_proj(new)[:, None]], dim=2)
step, _ = attend(new_queries, all_keys, all_values, causal_keep(1, 6, device=device))
step_output = out_proj(step.transpose(1, 2).reshape(1, 1, num_heads * head_dim))
torch.testing.assert_close(step_output[:, 0], output[:, 5])
show("all at once, row 'it'", output[:, 5], "batch width")
show("with the cache", step_output[:, 0], "batch width")

# %% [markdown]
# ## Record your own
#
# Which of your steps take new memory? Change the number of kv heads, or record one of your own classes and filter it:
# `recording.layout()` keeps the steps that move axes, `recording.unused()` those without a purpose.

# %%
grouped = GroupedQueryAttention(d_in, d_out, num_heads, num_kv_heads=2).to(device)
record(grouped, x).layout()

# %% [markdown]
# The one *copy* at the beginning folds the queries of the heads that share a kv head into one table; keys and values
# are never copied. The one at the end merges the heads.
#
# ## Your turn
#
# 1. With `num_heads=4, num_kv_heads=2`, which kv head does query head 2 use? What would go wrong if the kv heads were
#    laid out 0, 1, 0, 1 instead of 0, 0, 1, 1?
# 2. Does multi-query attention make the products `scores` and `context` cheaper? Count the multiplications.
#
# <details><summary>Answers</summary>
#
# 1. Kv head 1: consecutive query heads share, head i uses kv head i // 2. With 0, 1, 0, 1 heads 1 and 2 would read the
#    other's keys. The shapes are the same, so only a comparison of numbers finds it.
# 2. No: (b, h, q, d) times (b, 1, d, k) still takes b * h * q * d * k multiplications. What shrinks is what must be
#    stored and read.
#
# </details>
#
# ## What you have now
#
# The whole family, from one head to many heads to shared heads, each step written by you and proven equal. That is the
# spine of this course. From here it goes to the code you meet at work.
#
# **Practise:** [five exercises](exercises/06_exercises.ipynb), half an hour.
#
# **Next:** [07 Meet attention in the wild](07_in_the_wild.ipynb), where these forms grow up into Llama's attention.
