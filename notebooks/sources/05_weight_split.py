# %% [markdown]
# # Split the weights
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/05_weight_split.ipynb)
#
# You will write multi-head attention as it is written in real models: one projection for all heads, cut into heads by
# reshape and transpose, in eleven steps. Then you prove that it is the wrapper of lesson 03, and PyTorch's own module,
# to the last digit.
#
# **You need** lessons [03](03_wrapper.ipynb) and [04](04_reshape_and_transpose.ipynb). **It takes** twenty minutes.

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

from course_lib.attention import MultiHeadAttention, MultiHeadAttentionWrapper, causal_keep, to_torch_mask
from course_lib.attention.convert import split_to_wrapper, to_torch, wrapper_to_split
from course_lib.device import course_device
from course_lib.inputs import dream_big, kid_smiles, three_rows
from course_lib.pictures import attention_in_heads, head_heatmaps, layout_steps, matrix_product
from course_lib.recorder import record
from course_lib.show import show

device = course_device()
words, embeddings, x = kid_smiles(device=device)
show("x", x, "batch token width", words, digits=0)

# %% [markdown]
# Three tokens of six whole numbers: "The Kid Smiles" counts up, down, and stays. Two heads will work on it.
#
# ## Step 1: choose the widths
#
# `d_out` is the width over all heads. Each head gets its share, so `d_out` must be divisible by `num_heads`.

# %%
batch, num_tokens, d_in = x.shape
d_out, num_heads = 6, 2
head_dim = d_out // num_heads
print(f"batch {batch}, tokens {num_tokens}, d_in {d_in}, d_out {d_out}: {num_heads} heads of {head_dim}")

# %% [markdown]
# ## Step 2: one matrix for each role
#
# Queries, keys and values of *all* heads come out of one matrix each; a fourth will mix the heads at the end. Here
# they are plain matrices, so that every number can be followed: `x @ W`.

# %%
generator = torch.Generator().manual_seed(0)
W_q, W_k, W_v = (torch.randn(d_in, d_out, generator=generator).to(device) for _ in range(3))
W_o = (torch.randn(d_out, d_out, generator=generator) * d_out**-0.5).to(device)
show("W_q", W_q, "in out")

# %% [markdown]
# ## Step 3: project
#
# (batch, token, d_in) -> (batch, token, d_out), three times:

# %%
queries, keys, values = x @ W_q, x @ W_k, x @ W_v
print("queries:", tuple(queries.shape), queries.stride())
show("queries", queries, "batch token width", words, digits=2)
show("keys", keys, "batch token width", words, digits=2)
show("values", values, "batch token width", words, digits=2)

# %% [markdown]
# The first of the three as a picture. Columns 0 to 2 of `W_q` are made for head 0, columns 3 to 5 for head 1, so one
# wide product is two narrow ones side by side:

# %%
matrix_product(x, W_q, names=("x", "W_q", "queries"), words=words, num_heads=num_heads, follow=(2, 3))

# %% [markdown]
# ## Step 4: split the width into heads
#
# (batch, token, d_out) -> (batch, token, head, head_dim). A `view`: nothing moves.

# %%
queries_split = queries.view(batch, num_tokens, num_heads, head_dim)
keys_split = keys.view(batch, num_tokens, num_heads, head_dim)
values_split = values.view(batch, num_tokens, num_heads, head_dim)
print("queries_split:", tuple(queries_split.shape), queries_split.stride())
show("queries_split", queries_split, "batch token head width", words, digits=2)

# %% [markdown]
# ## Step 5: bring the heads to the front
#
# (batch, token, head, head_dim) -> (batch, head, token, head_dim). Each head is now a table of tokens, and PyTorch's
# `@` multiplies the last two axes for each batch and head by itself.

# %%
queries_by_head = queries_split.transpose(1, 2)
keys_by_head = keys_split.transpose(1, 2)
values_by_head = values_split.transpose(1, 2)
print("queries_by_head:", tuple(queries_by_head.shape), queries_by_head.stride())
show("queries_by_head", queries_by_head, "batch head token width", words, digits=2)

# %% [markdown]
# Steps 4 and 5 as a picture, drawn from a recording of the two calls. Follow the outlined number:

# %%
def to_heads(queries):
    queries_split = queries.view(batch, num_tokens, num_heads, head_dim)
    queries_by_head = queries_split.transpose(1, 2)
    return queries_by_head


layout_steps(record(to_heads, queries), words)

# %% [markdown]
# ## Step 6: dot products within each head
#
# The keys are transposed in their last two axes: (batch, head, token, head_dim) -> (batch, head, head_dim, token).
# The queries are scaled first.

# %%
keys_transposed = keys_by_head.transpose(2, 3)
scores = (queries_by_head * head_dim**-0.5) @ keys_transposed
print("queries_by_head:", tuple(queries_by_head.shape))
print("keys_transposed:", tuple(keys_transposed.shape))
print("scores:         ", tuple(scores.shape), "= (batch, head, query, key)")
show("scores", scores, "batch head query key", words, digits=2)

# %% [markdown]
# Why the transpose? A product takes rows of the left and *columns* of the right, so each key must become a column:

# %%
layout_steps(record(lambda keys_by_head: keys_by_head.transpose(2, 3), keys_by_head), words)

# %% [markdown]
# ## Step 7: a causal mask for as many tokens as there are
#
# (query, key): one mask serves all samples and heads. It is made here, from the length of the input, so no longest
# length is built into the module.

# %%
keep = causal_keep(num_tokens, device=device)
show("keep", keep, "query key", words)

# %% [markdown]
# ## Step 8: hide, then softmax
#
# `masked_fill` returns a new tensor; it must be given a name, or nothing is hidden.

# %%
masked_scores = scores.masked_fill(~keep, -torch.inf)
weights = masked_scores.softmax(dim=-1)
print("weights:", tuple(weights.shape), "= (batch, head, query, key)")
show("weights", weights, "batch head query key", words)

# %%
head_heatmaps(weights, words, keep=keep)

# %% [markdown]
# ## Step 9: mix the values, and bring the tokens back to the front
#
# (batch, head, query, key) @ (batch, head, key, head_dim) -> (batch, head, query, head_dim), then the transpose of
# step 5 once more.

# %%
context_by_head = weights @ values_by_head
context = context_by_head.transpose(1, 2)
print("context_by_head:", tuple(context_by_head.shape), context_by_head.stride())
print("context:        ", tuple(context.shape), context.stride())
show("context", context, "batch token head width", words)

# %% [markdown]
# Steps 6 to 9 within each head, with all their numbers. Nothing of head 0 appears in head 1:

# %%
attention_in_heads(queries_by_head, keys_by_head, values_by_head, keep, words)

# %% [markdown]
# ## Step 10: merge the heads
#
# (batch, token, head, head_dim) -> (batch, token, d_out). The tokens' numbers don't lie side by side now, so this is a
# `reshape`, which copies.

# %%
merged = context.reshape(batch, num_tokens, d_out)
print("merged:", tuple(merged.shape), merged.stride(), " copied:", merged.data_ptr() != context.data_ptr())
show("merged", merged, "batch token width", words)

# %% [markdown]
# The transpose of step 9 and this `reshape` as a picture. Here the numbers do move: the second row of memory is new.

# %%
def merge(context_by_head):
    context = context_by_head.transpose(1, 2)
    merged = context.reshape(batch, num_tokens, d_out)
    return merged


layout_steps(record(merge, context_by_head), words)

# %% [markdown]
# ## Step 11: mix the heads
#
# (batch, token, d_out) -> (batch, token, d_out), with W^O:

# %%
output = merged @ W_o
show("output", output, "batch token width", words)

# %% [markdown]
# That is all of multi-head attention. Steps 4 and 5, the transpose of step 9 and step 10 **only rename or move axes**;
# all arithmetic is in steps 3, 6, 8, 9 and 11. In the papers the eleven steps are two lines:
#
# $$
# \mathrm{head}_i = \mathrm{softmax}\left(\frac{Q_i K_i^{\top}}{\sqrt{d}}\right) V_i, \qquad
# \mathrm{output} = \mathrm{concat}(\mathrm{head}_0, \ldots, \mathrm{head}_{h-1})\, W^O
# $$
#
# where $Q_i$ is the $i$-th block of columns of $x W^Q$. Steps 4 and 5 are hidden in that small $i$, step 10 in
# *concat*.
#
# ## Two things to notice in these numbers
#
# **The weights are all or nothing.** The inputs reach 6 and the matrices were drawn with a spread of 1, so the scores
# are in the hundreds:

# %%
print("scores from", f"{scores.min().item():.0f}", "to", f"{scores.max().item():.0f}")
print("largest weight of each row:", [[f"{w:.3f}" for w in head] for head in weights[0].amax(dim=-1).tolist()])

# %% [markdown]
# `nn.Linear` draws smaller numbers for wider inputs, to avoid just that. With the matrices of queries and keys divided
# by the square root of their six inputs:

# %%
calm_queries = (x @ (W_q * d_in**-0.5)).view(batch, num_tokens, num_heads, head_dim).transpose(1, 2)
calm_keys = (x @ (W_k * d_in**-0.5)).view(batch, num_tokens, num_heads, head_dim).transpose(1, 2)
calm_scores = (calm_queries * head_dim**-0.5) @ calm_keys.transpose(2, 3)
calm_weights = calm_scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
last_rows = torch.cat([weights, calm_weights])[:, :, 2:].flatten(0, 1)  # (4, 1, key): "Smiles" only
titles = ["head 0", "head 1", "head 0, calm", "head 1, calm"]
head_heatmaps(last_rows, ["Smiles"], key_words=words, titles=titles)

# %% [markdown]
# The last token's row, before and after: now "Smiles" divides its attention.
#
# **Dropout stays off.** The published walk through these steps had dropout on, with p = 0.1. By luck it dropped
# nothing that shows, and made everything else larger by 1 / 0.9:

# %%
print("largest number of merged:           ", f"{merged.max().item():.4f}")
print("the published one, with dropout on: ", f"{merged.max().item() / 0.9:.4f}")

# %% [markdown]
# ## Into a module
#
# The eleven steps in the order above. Read it once with the shapes only:

# %%
class MyMultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        if d_out % num_heads:
            raise ValueError(f"d_out={d_out} is not divisible by num_heads={num_heads}")
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out)
        self.k_proj = nn.Linear(d_in, d_out)
        self.v_proj = nn.Linear(d_in, d_out)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, self.num_heads, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, t, m) -> (b, t, h, d) -> (b, h, t, d)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)

        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)  # (b, h, q, k)
        keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)

        context = (weights @ values).transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
        merged = context.reshape(batch, num_tokens, self.num_heads * self.head_dim)  # (b, t, h * d)
        return self.out_proj(merged)


mine = MyMultiHeadAttention(d_in, d_out, num_heads).to(device)
mine.load_state_dict({
    f"{name}.{kind}": numbers  # nn.Linear keeps its matrix as (out, in)
    for name, W in {"q_proj": W_q, "k_proj": W_k, "v_proj": W_v, "out_proj": W_o}.items()
    for kind, numbers in {"weight": W.T, "bias": torch.zeros(d_out)}.items()
})
torch.testing.assert_close(mine(x), output)
print("my module gives the output of step 11")

# %% [markdown]
# Now the picture of your own class, drawn from a run of it. The values go the way of the queries; the keys are turned
# once more, for the product:

# %%
recording = record(mine, x)
layout_steps(recording, words)

# %% [markdown]
# And all it did, step by step. Read the column *effect*:

# %%
print({effect: sum(step.effect == effect for step in recording) for effect in ("compute", "view", "copy")})
recording

# %% [markdown]
# Twelve steps compute something or make the mask; the others only turn axes about, and only one of those must copy.

# %% [markdown]
# ## Record your own
#
# Break something in `MyMultiHeadAttention`, run its cell and these two again: leave out a `transpose`, view straight to
# `(batch, self.num_heads, num_tokens, self.head_dim)`, forget to use `masked_fill`'s result. Does the picture show it?
# Does the table? The proof below will fail, too.
#
# ## Proof: wrapper = weight split = `nn.MultiheadAttention`
#
# Two samples of three tokens, fresh weights from seed 123, in 64 bits. The library's weight-split module gives its
# weights to a wrapper, to PyTorch's own module and to yours:

# %%
row_words, _, rows = three_rows(dtype=torch.float64, device=device)
torch.manual_seed(123)
split = MultiHeadAttention(6, 6, num_heads=2, bias=True).to(device, torch.float64)
wrapper = split_to_wrapper(split)
torch_module = to_torch(split)
mine = mine.double()
mine.load_state_dict(split.state_dict())

by_split = split(rows)
by_wrapper = wrapper(rows)
by_torch, _ = torch_module(rows, rows, rows, attn_mask=to_torch_mask(causal_keep(3, device=device)))
by_mine = mine(rows)
show("weight split", by_split[0], "token width", row_words)
show("wrapper", by_wrapper[0], "token width", row_words)
show("nn.MultiheadAttention", by_torch[0], "token width", row_words)
show("mine", by_mine[0], "token width", row_words)

# %%
for result in (by_wrapper, by_torch, by_mine):
    torch.testing.assert_close(result, by_split, rtol=0, atol=1e-12)
print("all four agree to twelve decimals")

# %% [markdown]
# How do the weights get from one form to another? The wrapper's head i is a block of rows of the wide matrix: rows
# 0 to 2 are head 0, rows 3 to 5 head 1. PyTorch stacks queries, keys and values once more, into one matrix of 18 rows.

# %%
print("split.q_proj.weight:           ", tuple(split.q_proj.weight.shape))
print("wrapper.heads[1].q_proj.weight:", tuple(wrapper.heads[1].q_proj.weight.shape))
print("torch_module.in_proj_weight:   ", tuple(torch_module.in_proj_weight.shape))
wide_matrix = split.q_proj.weight
print("head 1 is rows 3 to 5:          ", torch.equal(wrapper.heads[1].q_proj.weight, wide_matrix[3:]))
print("queries are rows 0 to 5 of torch:", torch.equal(torch_module.in_proj_weight[:6], wide_matrix))

# %% [markdown]
# And the other way: the two heads you made by hand in lesson 03, stacked into one module, on "Dream big and work for
# it":

# %%
dream = dream_big(device=device)
torch.manual_seed(5)
two_heads = MultiHeadAttentionWrapper(3, 4, num_heads=2)
with torch.no_grad():
    for head in two_heads.heads:
        head.q_proj.weight *= 5
        head.k_proj.weight *= 5
two_heads = two_heads.to(device)
stacked = wrapper_to_split(two_heads)
stacked_output, stacked_weights = stacked(dream.batch, return_weights=True)
torch.testing.assert_close(stacked_output, two_heads(dream.batch))
head_heatmaps(stacked_weights, dream.words)

# %% [markdown]
# The pictures of lesson 03, from one projection.
#
# ## What it buys
#
# The wrapper runs three small products a head, one after the other; the split form three wide ones. The time below is
# measured on your machine, side by side, on 4 samples of 128 tokens, width 384, 12 heads:

# %% tags=["timing", "nbval-ignore-output"]
from course_lib.bench.case import Case
from course_lib.bench.timing import compare_times

wide = MultiHeadAttention(384, 384, num_heads=12).to(device)
many = split_to_wrapper(wide)
wide_input = torch.randn(4, 128, 384, device=device)
with torch.no_grad():
    cases = [Case("wrapper", lambda: many(wide_input)), Case("weight split", lambda: wide(wide_input))]
    for row in compare_times(cases, rounds=15):
        print(f"{row.name:13} {row.median_ms:6.2f} ms   {row.speedup:.2f} times as fast as the wrapper")

# %% [markdown]
# Both do the same arithmetic, so on a CPU don't expect much. `make bench` compares more forms at larger sizes. The real
# gain is that all heads are one tensor: the next lesson, caches and fused kernels all need that.
#
# ## Your turn
#
# 1. In step 10, write `context_by_head.reshape(...)`, without the transpose of step 9. Does anything fail? Which test
#    finds it?
# 2. Give `MyMultiHeadAttention` queries and keys that are narrower than the values. Which widths must be equal?
#
# <details><summary>Answers</summary>
#
# 1. Nothing fails, and the shape is right; the words are mixed (lesson 04). The comparison with `split(rows)` finds
#    it, and so does changing the last token: earlier outputs move.
# 2. Queries and keys must be equally wide, since a score is their dot product. The values may have any width;
#    `out_proj` takes it. The library's `MultiHeadAttention` calls them `d_qk` and `d_v`.
#
# </details>
#
# ## What you have now
#
# Multi-head attention, proven equal to a loop over heads and to PyTorch.
#
# **Practise:** [three exercises](exercises/05_exercises.ipynb), half an hour.
#
# **Next:** [06 Share keys and values](06_multi_query.ipynb).
