# %% [markdown]
# # Put heads side by side
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/03_wrapper.ipynb)
#
# You will run two heads by hand, join what they give, see what the output projection W^O adds, and pack it all into a
# wrapper: multi-head attention as a plain list of heads.
#
# **You need** [lesson 02](02_masks_and_dropout.ipynb). **It takes** fifteen minutes.

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

from course_lib.attention import MultiHeadAttentionWrapper, SingleHeadAttention, causal_keep
from course_lib.device import course_device
from course_lib.inputs import dream_big
from course_lib.pictures import compare, layout_steps
from course_lib.recorder import record
from course_lib.show import show

device = course_device()
words, embeddings, x = dream_big(device=device)
keep = causal_keep(6, device=device)

# %% [markdown]
# ## Why more than one head
#
# A head has one softmax, so each token makes one mix. If "it" should take the subject from one word and the action from
# another, one head must blend both into the same weights. Two heads make two mixes, each with projections of its own.
#
# ## Head 0 by hand
#
# A token comes in three numbers wide, and four shall go out. Two heads share the four: each is two wide.

# %%
d_in, d_out, num_heads = 3, 4, 2
head_dim = d_out // num_heads
print("head_dim:", head_dim)

# %%
torch.manual_seed(5)  # the seed of lesson 01, so head 0 is the head you know
q_proj_0 = nn.Linear(d_in, head_dim, bias=False)
k_proj_0 = nn.Linear(d_in, head_dim, bias=False)
v_proj_0 = nn.Linear(d_in, head_dim, bias=False)
q_proj_1 = nn.Linear(d_in, head_dim, bias=False)
k_proj_1 = nn.Linear(d_in, head_dim, bias=False)
v_proj_1 = nn.Linear(d_in, head_dim, bias=False)
for projection in (q_proj_0, k_proj_0, v_proj_0, q_proj_1, k_proj_1, v_proj_1):
    projection.to(device)
with torch.no_grad():
    for projection in (q_proj_0, k_proj_0, q_proj_1, k_proj_1):
        projection.weight *= 5  # as if trained

# %%
queries_0, keys_0, values_0 = q_proj_0(x), k_proj_0(x), v_proj_0(x)  # (batch, token, head_dim)
scores_0 = (queries_0 * head_dim**-0.5) @ keys_0.transpose(1, 2)  # (batch, query, key)
weights_0 = scores_0.masked_fill(~keep, -torch.inf).softmax(dim=-1)
context_0 = weights_0 @ values_0  # (batch, token, head_dim)
show("context_0", context_0, "batch token width", words)

# %% [markdown]
# ## Head 1 by hand
#
# The same once more, with the other three projections. Nothing of head 0 appears in it:

# %%
queries_1, keys_1, values_1 = q_proj_1(x), k_proj_1(x), v_proj_1(x)
scores_1 = (queries_1 * head_dim**-0.5) @ keys_1.transpose(1, 2)
weights_1 = scores_1.masked_fill(~keep, -torch.inf).softmax(dim=-1)
context_1 = weights_1 @ values_1
show("context_1", context_1, "batch token width", words)

# %%
weights = torch.stack([weights_0, weights_1], dim=1)  # (batch, head, query, key)
compare(weights_0, weights_1, words, names=("head 0", "head 1"))

# %% [markdown]
# Same tokens, same mask, two patterns. Compare the last row: where does "it" look in each?

# %%
for head in range(num_heads):
    row = weights[0, head, -1]
    print(f"head {head}: 'it' looks most at {words[row.argmax().item()]!r} ({row.max().item():.2f})")

# %% [markdown]
# ## A mistake: copy, paste, forget
#
# Code that is copied for each head invites a slip. In a published notebook both heads masked `attn`, the scores of an
# *earlier* cell, in place of their own. The output had the right shape and was causal. What gives it away? Each head's
# own queries and keys no longer do anything:

# %%
def gradient_arrives(scores_0, scores_1):
    projections = {"q_proj_0": q_proj_0, "k_proj_0": k_proj_0, "q_proj_1": q_proj_1, "k_proj_1": k_proj_1}
    for projection in projections.values():
        projection.zero_grad()
    weights_0 = scores_0.masked_fill(~keep, -torch.inf).softmax(dim=-1)
    weights_1 = scores_1.masked_fill(~keep, -torch.inf).softmax(dim=-1)
    joined = torch.cat([weights_0 @ v_proj_0(x), weights_1 @ v_proj_1(x)], dim=-1)
    joined.square().sum().backward()
    return {name: projection.weight.grad is not None for name, projection in projections.items()}


def scores_of(q_proj, k_proj):
    return (q_proj(x) * head_dim**-0.5) @ k_proj(x).transpose(1, 2)


attn = scores_0.detach()  # left over from an earlier cell
print("own scores:  ", gradient_arrives(scores_of(q_proj_0, k_proj_0), scores_of(q_proj_1, k_proj_1)))
print("stale scores:", gradient_arrives(attn, attn))

# %% [markdown]
# A function or a module has no stale variables. That is one reason for the wrapper below.
#
# ## Join the heads
#
# The two contexts are laid side by side: columns 0 and 1 are head 0, columns 2 and 3 are head 1.

# %%
joined = torch.cat([context_0, context_1], dim=-1)  # 2 x (batch, token, head_dim) -> (batch, token, d_out)
show("joined", joined, "batch token width", words)

# %%
def join(context_0, context_1):
    return torch.cat([context_0, context_1], dim=-1)


layout_steps(record(join, context_0, context_1), words)

# %% [markdown]
# The cells are numbered, head 0 first. Every number keeps its row, so each token now has the numbers of both heads side
# by side. `cat` must copy: two tensors can't become neighbours in memory without moving.
#
# ## What W^O does
#
# So far no number of the output knows both heads. The output projection, W^O in the formulas and `out_proj` in code,
# mixes them. **Predict:** if head 1 is switched off, which of the four columns change without W^O, and which with it?

# %%
torch.manual_seed(4)
out_proj = nn.Linear(d_out, d_out, bias=False).to(device)
head_1_off = torch.cat([context_0, torch.zeros_like(context_1)], dim=-1)
change = (joined - head_1_off).abs().amax(dim=(0, 1))
change_mixed = (out_proj(joined) - out_proj(head_1_off)).abs().amax(dim=(0, 1))
show("largest change without W^O", change, "width")
show("largest change with W^O", change_mixed, "width")

# %% [markdown]
# Without W^O only the last two columns change; with it, all four do. W^O can also be read as one small matrix a head:
# joining and projecting is the same as projecting each head by its own part of W^O and *adding*:
#
# $$
# \mathrm{concat}(\mathrm{head}_0, \mathrm{head}_1)\, W^O = \mathrm{head}_0\, W^O_0 + \mathrm{head}_1\, W^O_1
# $$

# %%
w_o_0, w_o_1 = out_proj.weight.split(head_dim, dim=1)  # (d_out, d_out) -> 2 x (d_out, head_dim)
summed = context_0 @ w_o_0.T + context_1 @ w_o_1.T
print("joined and projected = projected and added:", torch.allclose(out_proj(joined), summed, atol=1e-6))

# %% [markdown]
# ## The wrapper
#
# A list of heads, a `cat`, a projection. `nn.ModuleList` is a list that PyTorch knows about: its parameters are
# trained and moved with the model, which those of a plain Python list are not.

# %%
class MyWrapper(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        if d_out % num_heads:
            raise ValueError(f"d_out={d_out} is not divisible by num_heads={num_heads}")
        head_dim = d_out // num_heads
        self.heads = nn.ModuleList([SingleHeadAttention(d_in, head_dim) for _ in range(num_heads)])
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in)
        joined = torch.cat([head(x) for head in self.heads], dim=-1)  # (batch, token, d_out)
        return self.out_proj(joined)


my_wrapper = MyWrapper(d_in, d_out, num_heads).to(device)
for name, parameter in my_wrapper.named_parameters():
    print(f"{name:22} {tuple(parameter.shape)}")

# %% [markdown]
# ## Record your own
#
# One line of `forward` runs all heads, but what does it really do? Record the wrapper (yours, or one you changed):

# %%
recording = record(my_wrapper, x)
for head in ("heads.0", "heads.1"):
    steps = [step.op for step in recording if step.submodule.startswith(head)]
    print(head, "ran", len(steps), "steps:", *steps)
print("outside the heads:", *(step.op for step in recording if not step.submodule.startswith("heads")))

# %% [markdown]
# Head 1 does all the steps of head 0 once more; nothing is shared but the input. `print(recording)` shows every line.
#
# `d_out` is the width over *all* heads, here and everywhere in this course. (Elsewhere it may mean the width of one
# head: then two heads of `d_out=2` give four numbers. Look before you compare.)
#
# ## Proof: two heads by hand = my wrapper = the library's

# %%
by_hand = out_proj(joined)
head_0, head_1 = my_wrapper.heads
head_0.q_proj, head_0.k_proj, head_0.v_proj = q_proj_0, k_proj_0, v_proj_0
head_1.q_proj, head_1.k_proj, head_1.v_proj = q_proj_1, k_proj_1, v_proj_1
my_wrapper.out_proj = out_proj

reference = MultiHeadAttentionWrapper(d_in, d_out, num_heads).to(device)
reference.load_state_dict(my_wrapper.state_dict())
reference_output, reference_weights = reference(x, return_weights=True)

torch.testing.assert_close(my_wrapper(x), by_hand)
torch.testing.assert_close(reference_output, by_hand)
torch.testing.assert_close(reference_weights, weights)
show("by hand", by_hand, "batch token width", words)
show("my_wrapper(x)", my_wrapper(x), "batch token width", words)
show("reference(x)", reference_output, "batch token width", words)

# %% [markdown]
# ## A published example, and why its mistake went unnoticed
#
# One of the documents this course grew out of runs a wrapper without W^O on our sentence, from seed 123. But it scores
# with the values in place of the keys. With the library's wrapper and the same seed, once right and once with the
# mistake:

# %%
torch.manual_seed(123)
example = MultiHeadAttentionWrapper(d_in=3, d_out=4, num_heads=2, out_proj=False).to(device)
right = example(x)
for head in example.heads:
    head.k_proj = head.v_proj  # keys = values, so the scores are queries @ values
mistaken = example(x)
show("right", right, "batch token width", words)
show("with the mistake", mistaken, "batch token width", words)
print("largest difference:", f"{(right - mistaken).abs().max().item():.4f}")

# %% [markdown]
# They differ in the third decimal, because fresh weights make all scores nearly alike; rounded to two decimals, hardly
# anything shows. With weights that attend, as our two heads do, the same mistake is plain:

# %%
for head in reference.heads:
    head.k_proj = head.v_proj
difference = (reference(x) - by_hand).abs().max().item()
print("largest difference with weights that attend:", f"{difference:.2f}")

# %% [markdown]
# That is why the heads of this course are scaled "as if trained", and why its tests do the same.
#
# ## Your turn
#
# 1. With `num_heads=1`, what is left of the wrapper?
# 2. How many matrix products does a wrapper of 12 heads run to project queries, keys and values? How many would be
#    enough?
#
# <details><summary>Answers</summary>
#
# 1. One head and W^O: `MultiHeadAttentionWrapper(3, 4, num_heads=1, out_proj=False)` gives the same as one
#    `SingleHeadAttention(3, 4)` with its weights.
# 2. 36 small ones. Three would be enough, if the heads' matrices were stacked into one. That is what comes next.
#
# </details>
#
# ## What you have now
#
# Multi-head attention that anyone can read, as a loop over heads. To run all heads in one product, the heads must be
# cut out of one wide tensor.
#
# **Practise:** [three exercises](exercises/03_exercises.ipynb), twenty minutes.
#
# **Next:** [04 Reshape and transpose](04_reshape_and_transpose.ipynb).
