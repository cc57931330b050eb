# %% [markdown]
# # Build one attention head
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/01_single_head.ipynb)
#
# You will compute attention for one token by hand, then for all tokens with three matrix products, and pack it into a
# module. At the end your module equals the library's, number by number.
#
# **You need** [lesson 00](00_start_here.ipynb). **It takes** fifteen minutes.

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

from course_lib.device import course_device
from course_lib.inputs import dream_big
from course_lib.pictures import heatmap, layout_steps, matrix_product
from course_lib.recorder import record
from course_lib.show import show

device = course_device()
words, embeddings, x = dream_big(device=device)
show("x", x, "batch token width", words)

# %% [markdown]
# ## Three questions for each token
#
# A token plays three roles, and gets a vector of its own for each:
#
# - the **query**: what am I looking for?
# - the **key**: what can I be found by?
# - the **value**: what do I give to who finds me?
#
# Each role is a linear projection of the token. We make them two numbers wide:

# %%
d_in, d_out = 3, 2
torch.manual_seed(5)
q_proj = nn.Linear(d_in, d_out, bias=False)
k_proj = nn.Linear(d_in, d_out, bias=False)
v_proj = nn.Linear(d_in, d_out, bias=False)
with torch.no_grad():
    q_proj.weight *= 5  # as if trained: with fresh weights the pattern would be nearly flat
    k_proj.weight *= 5
q_proj, k_proj, v_proj = q_proj.to(device), k_proj.to(device), v_proj.to(device)

# %%
queries = q_proj(embeddings)  # (token, width): (6, 3) -> (6, 2)
keys = k_proj(embeddings)
values = v_proj(embeddings)
show("queries", queries, "token width", words)
show("keys", keys, "token width", words)
show("values", values, "token width", words)

# %% [markdown]
# `nn.Linear` keeps its matrix as (width out, width in), so `q_proj(x)` is `x @ q_proj.weight.T`:

# %%
print("weight:", tuple(q_proj.weight.shape))
print("same numbers:", torch.allclose(q_proj(embeddings), embeddings @ q_proj.weight.T))

# %% [markdown]
# Each number of the queries is one row of `x` times one column of the matrix. The first number of "work", for example:

# %%
names = ("x", "q_proj.weight.T", "queries")
matrix_product(embeddings, q_proj.weight.T, names=names, words=words, follow=(words.index("work"), 0))

# %% [markdown]
# ## One token by hand
#
# Take the token "work". How well does its query match each key? The dot product says it: large when both point the same
# way, negative when they point apart.

# %%
work = words.index("work")
scores_of_work = torch.stack([queries[work] @ key for key in keys])  # six numbers, one a key
show("scores of 'work'", scores_of_work, "key", words)

# %% [markdown]
# Scores can be any number. A mix needs weights that are positive and sum to 1: `softmax` makes them, after the scores
# have been divided by the square root of the width. (Why divide? Two sections down.)

# %%
scaled = scores_of_work / d_out**0.5
weights_of_work = scaled.exp() / scaled.exp().sum()  # this is softmax, written out
show("weights of 'work'", weights_of_work, "key", words)
print("sum:", f"{weights_of_work.sum().item():.4f}")

# %% [markdown]
# The largest score became the largest weight. The **context** of "work" is the mix of all values with these weights:

# %%
context_of_work = torch.zeros(d_out, device=device)
for weight, value in zip(weights_of_work, values, strict=True):
    context_of_work += weight * value
show("context of 'work'", context_of_work, "width")

# %% [markdown]
# That is attention for one token: **compare, weigh, mix**. Every class in this course does these three steps.
#
# ## All tokens at once
#
# The six dot products of one query with all keys are one row of a matrix product; six queries give six rows. Scaling is
# done on the queries, before the product: the result is the same and the numbers stay smaller.

# %%
scores = (queries * d_out**-0.5) @ keys.T  # (query, width) @ (width, key) -> (query, key)
show("scores", scores, "query key", words)

# %% [markdown]
# `keys.T` turns rows into columns, because a product takes rows of the left and columns of the right: now each key is a
# column, below its word. Drawn from a recording of that one call (cells are numbered, so that you can follow them):

# %%
layout_steps(record(lambda keys: keys.T, keys), words)

# %% [markdown]
# Row "work" of the scores holds the scaled scores from above:

# %%
print("row 'work' equals the scores by hand:", torch.allclose(scores[work], scaled))

# %% [markdown]
# **Predict:** softmax has to run over one axis of this matrix. Over the rows or over the columns? What must sum to 1?

# %%
weights = scores.softmax(dim=-1)  # over the keys: each query's weights sum to 1
print("sums over the keys:   ", [f"{total:.2f}" for total in weights.sum(dim=-1).tolist()])
print("sums over the queries:", [f"{total:.2f}" for total in weights.sum(dim=-2).tolist()])

# %%
heatmap(weights, words)

# %% [markdown]
# "big", "work", "for" and "it" look mostly at "and"; "Dream" and "and" don't. The mix is the last product:

# %%
context = weights @ values  # (query, key) @ (key, width) -> (query, width)
show("context", context, "token width", words)
print("row 'work' equals the context by hand:", torch.allclose(context[work], context_of_work))

# %% [markdown]
# ## Why divide by the square root of the width?
#
# A dot product of two random vectors is a sum of as many terms as they are wide. The wider the head, the larger the
# scores. We draw 20000 pairs of random queries and keys for several widths and measure how far the scores spread:

# %%
generator = torch.Generator().manual_seed(0)
print("width   spread of q.k   spread / sqrt(width)")
for width in (2, 8, 32, 128, 512):
    q, k = torch.randn(2, 20000, width, generator=generator)
    spread = (q * k).sum(dim=-1).std().item()
    print(f"{width:5}   {spread:13.1f}   {spread / width**0.5:20.2f}")

# %% [markdown]
# The spread grows like the square root of the width, and dividing by it brings every width back to about 1. It matters
# because softmax turns large scores into all or nothing. The same random queries, with and without the division:

# %%
generator = torch.Generator().manual_seed(0)
print("        --- scaled ---    - not scaled -")
print("width   largest  slope    largest  slope")
for width in (2, 8, 32, 128, 512):
    q, k = torch.randn(2, 2000, 6, width, generator=generator)
    products = q @ k.transpose(1, 2)  # (sample, query, key)
    row = f"{width:5}"
    for scores_tried in (products / width**0.5, products):
        largest = scores_tried.softmax(dim=-1).amax(dim=-1)
        row += f"   {largest.mean().item():7.2f}  {(largest * (1 - largest)).mean().item():5.2f}"
    print(row)

# %% [markdown]
# *Largest* is the largest of a query's six weights, on average; *slope* is how much it still changes when its score
# does, w (1 - w). With the division both stay about the same at every width. Without it, a wide head gives nearly all
# its weight to one token before it has learned anything, and with a slope near zero it hardly learns to look
# elsewhere.
#
# ## The formula in the papers
#
# $$
# \mathrm{attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^{\top}}{\sqrt{d}}\right) V
# $$
#
# You have written every part of it. $Q$, $K$ and $V$ are `queries`, `keys` and `values`, a row for each token; $d$ is
# the width of a row; $Q K^{\top}$ is `queries @ keys.T`; and softmax runs over the keys, which the formula does not
# say.
#
# ## Into a module
#
# The projections become parameters; the three steps become `forward`. The input has a batch axis now, so the keys are
# transposed in their last two axes only.

# %%
class MyHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):  # (batch, token, width)
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(-2, -1)  # (batch, query, key)
        weights = scores.softmax(dim=-1)
        return weights @ values  # (batch, token, width)


my_head = MyHead(d_in, d_out).to(device)
my_head.q_proj, my_head.k_proj, my_head.v_proj = q_proj, k_proj, v_proj
print("my output:", tuple(my_head(x).shape))
print("equals the matrix form:", torch.allclose(my_head(x)[0], context))

# %% [markdown]
# ## Record your own
#
# `record` runs a module and notes every operation: the line, the shape of the result, whether it computed something,
# only looked at it in another way (*view*), or copied it. Change `MyHead`, and record it again:

# %%
record(my_head, x)

# %% [markdown]
# Three projections, one scaling, one transpose, two products, one softmax: that is all of attention. (*stride* and
# *memory* are the subject of lesson 04.)
#
# ## A mistake that no one sees
#
# A published notebook that this course grew out of scores queries against the *values*: `queries @ values.T`. The
# shapes fit and nothing fails. Swap it in:

# %%
wrong_scores = (queries * d_out**-0.5) @ values.T
wrong_context = wrong_scores.softmax(dim=-1) @ values
print("shapes equal:", wrong_context.shape == context.shape)
sums = wrong_scores.softmax(dim=-1).sum(dim=-1)
print("rows still sum to 1:", torch.allclose(sums, torch.ones_like(sums)))
print("largest difference of the outputs:", f"{(wrong_context - context).abs().max().item():.2f}")

# %% [markdown]
# Shape and row sums are as they should be, the numbers aren't. So a shape proves little. What does prove something is a
# comparison with a second implementation, and a look at the gradients: a projection that gets none is not used.

# %%
def gradients(scored_with):
    for projection in (q_proj, k_proj, v_proj):
        projection.zero_grad()
    queries, keys, values = q_proj(embeddings), k_proj(embeddings), v_proj(embeddings)
    against = keys if scored_with == "keys" else values
    ((queries * d_out**-0.5 @ against.T).softmax(dim=-1) @ values).square().sum().backward()
    return {name: p.weight.grad is not None for name, p in (("q", q_proj), ("k", k_proj), ("v", v_proj))}


print("scored with keys,   gradient arrives:", gradients("keys"))
print("scored with values, gradient arrives:", gradients("values"))

# %% [markdown]
# The recorder finds it, too: a result that nothing ever reads is a step without a purpose. It even names the line:

# %%
def mistaken(x):
    queries, keys, values = q_proj(x), k_proj(x), v_proj(x)
    scores = (queries * d_out**-0.5) @ values.transpose(1, 2)
    return scores.softmax(dim=-1) @ values


record(mistaken, x).unused()

# %% [markdown]
# ## Proof
#
# The library's head with your weights gives your numbers. (`causal=False`: masks come in the next lesson.)

# %%
from course_lib.attention import SingleHeadAttention

reference = SingleHeadAttention(d_in, d_out, causal=False).to(device)
reference.load_state_dict(my_head.state_dict())
torch.testing.assert_close(my_head(x), reference(x))
show("my_head(x)", my_head(x), "batch token width", words)
show("reference(x)", reference(x), "batch token width", words)

# %% [markdown]
# ## Your turn
#
# 1. If all keys were equal, what would the weights be? Answer first, then replace `keys` by `keys[:1].expand(6, 2)`.
# 2. The tokens carry no position. Permute the rows of `x`: what happens to the rows of the output?
#
# <details><summary>Answers</summary>
#
# 1. All scores of a row are equal, so every weight is 1/6 and every context is the mean of the values.
# 2. They are permuted in the same way and nothing else changes: attention without positions is blind to order. Try
#    `torch.allclose(my_head(x[:, [5, 4, 3, 2, 1, 0]]), my_head(x)[:, [5, 4, 3, 2, 1, 0]])`.
#
# </details>
#
# ## What you have now
#
# One head: compare, weigh, mix. Every token sees every other one, also those that come later.
#
# **Practise:** [five exercises](exercises/01_exercises.ipynb), half an hour.
#
# **Next:** [02 Hide what must not be seen](02_masks_and_dropout.ipynb).
