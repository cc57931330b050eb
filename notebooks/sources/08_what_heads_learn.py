# %% [markdown]
# # See what heads learn
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/08_what_heads_learn.ipynb)
#
# You will train two tiny models from nothing, one with multi-head and one with multi-query attention, on a task that
# only attention can solve. Both solve it, in seconds. Then you look inside: which head looks where, and what happens to
# the model without it.
#
# **You need** lessons [05](05_weight_split.ipynb) and [06](06_multi_query.ipynb). **It takes** twenty minutes.

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
from time import perf_counter

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import KVCache, MultiHeadAttention, MultiQueryAttention
from course_lib.device import course_device
from course_lib.pictures import head_heatmaps
from course_lib.show import show

device = course_device()

# %% [markdown]
# ## A task that needs attention
#
# So far our weights were random, or multiplied by five "as if trained". A head that has learned something needs
# something to learn. Ours: a few random letters, all different, are repeated again and again. **Say the next letter.**

# %%
alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
num_tokens = 16


def draw(num_samples, generator):
    """Letters (sample, token), and which of them could be known: those from the second round on."""
    period = torch.randint(4, 13, (num_samples, 1), generator=generator)  # 4 to 12 letters a round
    order = torch.rand(num_samples, 26, generator=generator).argsort(dim=1)  # all different within a round
    place = torch.arange(num_tokens) % period  # (sample, token)
    return order.gather(1, place).to(device), (torch.arange(num_tokens) >= period).to(device)


letters, known = draw(4, torch.Generator().manual_seed(0))
for row, can in zip(letters.tolist(), known.tolist(), strict=True):
    print(" ".join(alphabet[letter] if can else alphabet[letter].lower() for letter, can in zip(row, can, strict=True)))

# %% [markdown]
# Small letters are the first round: nobody can know them. From the capitals on, a reader can: *where did this letter
# stand before, and what came after it?* How far back that is differs from row to row, so no fixed place will do.
#
# ## The model
#
# Letters and places become vectors. Two layers of attention add what they find. A last matrix names the next letter.
# That is all, without a single layer of anything else:

# %%
class TinyModel(nn.Module):
    def __init__(self, attention, width=64, num_heads=2):
        super().__init__()
        self.letters = nn.Embedding(26, width)
        self.places = nn.Embedding(num_tokens, width)
        self.layers = nn.ModuleList(attention(width, width, num_heads) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.name_next = nn.Linear(width, 26, bias=False)
        for embedding in (self.letters, self.places):
            nn.init.normal_(embedding.weight, std=0.2)

    def forward(self, letters):
        x = self.letters(letters) + self.places.weight  # (b, t) -> (b, t, m)
        weights = []
        for layer, norm in zip(self.layers, self.norms, strict=False):
            found, layer_weights = layer(norm(x), return_weights=True)
            x = x + found  # what a layer finds is added to what is there
            weights.append(layer_weights)  # (b, h, q, k)
        return self.name_next(self.norms[2](x)), torch.stack(weights)  # (b, t, 26), (layer, b, h, q, k)


models = {}
for name, attention in {"multi-head": MultiHeadAttention, "multi-query": MultiQueryAttention}.items():
    torch.manual_seed(3)
    models[name] = TinyModel(attention).to(device)
    print(f"{name:11} {sum(parameter.numel() for parameter in models[name].parameters()):6,} parameters")

# %% [markdown]
# The multi-query model has fewer: its heads share one set of keys and values. Both get the same budget of training.
#
# ## Before training
#
# The question to both: how often is the next letter right, on 500 sequences that no training will see?

# %%
test_letters, test_known = draw(500, torch.Generator().manual_seed(12345))


@torch.no_grad()
def accuracy(model):
    scores, _ = model(test_letters)
    right = scores[:, :-1].argmax(dim=-1) == test_letters[:, 1:]  # place t names the letter at t + 1
    return right[test_known[:, 1:]].float().mean().item()


for name, model in models.items():
    print(f"{name:11} right less than one time in five: {accuracy(model) < 0.2}")

# %% [markdown]
# One word to look at, "DREAM" three times and a D:

# %%
dream = ("DREAM" * 4)[:num_tokens]
dream_letters = torch.tensor([[alphabet.index(letter) for letter in dream]], device=device)


@torch.no_grad()
def look(model, layer):
    _, weights = model(dream_letters)
    return head_heatmaps(weights[layer, 0], list(dream), titles=[f"layer {layer}, head {head}" for head in (0, 1)])


_, untrained = models["multi-head"](dream_letters)
show("last row of layer 1, head 0, untrained", untrained[1, 0, 0, -1], "key", digits=2)

# %% [markdown]
# Sixteen letters, a sixteenth of attention for each, or nearly so. That is what a head does that has learned nothing.
#
# ## Training
#
# Fifteen lines: draw sequences, compare what the model says with the next letter where it could be known, and move
# all weights a little downhill.

# %%
def train(model, steps=600, fastest=5e-3):
    generator = torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.0)
    for step in range(steps):
        for group in optimizer.param_groups:  # 50 steps to warm up, then slower and slower
            group["lr"] = fastest * min(1.0, (step + 1) / 50) * (1 - step / steps)
        letters, known = draw(32, generator)
        scores, _ = model(letters)
        loss = F.cross_entropy(scores[:, :-1][known[:, 1:]], letters[:, 1:][known[:, 1:]])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield step + 1, loss.item()


# %% tags=["timing", "nbval-ignore-output"]
threads = torch.get_num_threads()
torch.set_num_threads(1)  # products this small are slower when they are shared out
for name, model in models.items():
    start = perf_counter()
    for step, loss in train(model):
        if step % 30 == 0:
            bar = "#" * (step // 30) + "." * (20 - step // 30)
            print(f"\r{name:11} [{bar}] step {step}, loss {loss:.3f}, {perf_counter() - start:.0f} s", end="")
    print()
torch.set_num_threads(threads)

# %% [markdown]
# Watch the loss if you ran it: it stays high for a while, then falls within a few dozen steps. Something clicked. Did
# they solve it?

# %%
for name, model in models.items():
    print(f"{name:11} more than 99 of 100 right: {accuracy(model) > 0.99}")

# %% [markdown]
# ## What the heads do
#
# (The pictures below are of *your* models. Training repeats every rounding a thousand times, so another machine ends
# with other decimals, and sometimes two heads change places. The checked cells print only what must be the same.)

# %% tags=["trained", "nbval-ignore-output"]
look(models["multi-head"], layer=0)

# %% [markdown]
# One head of layer 0 has a line right below the diagonal, in the first round: each letter looks at **the letter before
# it**. It learned that from places alone. In later rounds the line fades, because nobody looks there, as you see next.

# %% tags=["trained", "nbval-ignore-output"]
look(models["multi-head"], layer=1)

# %% [markdown]
# In layer 1 the first five rows have nothing to find yet. Then a line begins: the second D looks at the first **R**,
# the letter that came *after* the first D. The second R looks at the first E, and so on. What they look at is the
# answer. This is called an **induction head**.
#
# How does it find the R? It can't search for "the letter after a D" by itself. But layer 0 has told each letter who
# stood before it: the R carries "I come after a D". So the second D asks for whoever says that. Two layers, one after
# the other, and neither can do it alone.
#
# ## Measured, not seen
#
# A picture of one word can mislead. So two numbers for each head, over all 500 sequences: in the first round, the mean
# weight on the letter before; in later rounds, the weight on letters that came after an earlier copy.

# %%
@torch.no_grad()
def habits(model):
    """Mean weight on the letter before, and on letters after an earlier copy, each (layer, head)."""
    _, weights = model(test_letters)
    weights = weights.transpose(1, 2)  # (layer, b, h, q, k) -> (layer, h, b, q, k)
    before = weights.diagonal(-1, 3, 4)[:, :, ~test_known[:, 1:]].mean(dim=-1)  # queries 1, 2, ... of the first round
    comes_after = torch.zeros_like(weights[0, 0], dtype=torch.bool)  # (b, q, k)
    comes_after[:, :, 1:] = test_letters[:, :, None] == test_letters[:, None, :-1]
    after_copy = (weights * comes_after).sum(dim=-1)[:, :, test_known].mean(dim=-1)
    return before, after_copy


before, after_copy = habits(TinyModel(MultiHeadAttention).to(device))
print("untrained, all below 0.3:", max(before.max(), after_copy.max()).item() < 0.3)

# %% tags=["trained", "nbval-ignore-output"]
for name, model in models.items():
    before, after_copy = habits(model)
    print(f"{name}\n{'':18}letter before   after an earlier copy")
    for layer in range(2):
        for head in range(2):
            print(f"  layer {layer}, head {head} {before[layer, head]:13.2f} {after_copy[layer, head]:22.2f}")

# %%
for name, model in models.items():
    before, after_copy = habits(model)
    print(f"{name}: a head of layer 0 looks at the letter before: {before[0].max().item() > 0.5}")
    print(f"{name}: a head of layer 1 looks after an earlier copy: {after_copy[1].max().item() > 0.6}")
    print(f"{name}: no head of layer 0 does that: {after_copy[0].max().item() < 0.3}")

# %% [markdown]
# ## Take a head away
#
# Weights say where a head looks, not whether it matters. To know that, switch it off: its columns of `out_proj` become
# zero, so nothing of it reaches the output. (Lesson 05: head i owns head_dim columns.)

# %%
@torch.no_grad()
def accuracy_without(model, layer, head):
    out_proj, head_dim = model.layers[layer].out_proj, model.layers[layer].value_dim
    kept = out_proj.weight.clone()
    out_proj.weight[:, head * head_dim : (head + 1) * head_dim] = 0.0
    without = accuracy(model)
    out_proj.weight.copy_(kept)  # and back again
    return without


# %% tags=["trained", "nbval-ignore-output"]
for name, model in models.items():
    print(f"{name}: {accuracy(model):.2f} right with all heads")
    for layer in range(2):
        for head in range(2):
            print(f"  without layer {layer}, head {head}: {accuracy_without(model, layer, head):.2f}")

# %%
for name, model in models.items():
    chief = habits(model)[0][0].argmax().item()  # the head of layer 0 that looks at the letter before
    print(f"{name}: without the head that looks back, less than 0.8 right: {accuracy_without(model, 0, chief) < 0.8}")
    others = [accuracy_without(model, 1, head) for head in (0, 1)]
    print(f"{name}: without one head of layer 1, still more than 0.9 right: {min(others) > 0.9}")
    print(f"{name}: as before afterwards: {accuracy(model) > 0.99}")

# %% [markdown]
# Without the head that looks back, the model falls apart, although it does not name a single letter: its work is read
# by layer 1. And without one of the two induction heads hardly anything happens: the other does the same. **Where a
# head looks and whether it is needed are two questions.**
#
# ## Multi-head or multi-query?
#
# Both solved the task. What was shared cost nothing here:

# %%
for name, model in models.items():
    num_kv_heads = 2 if name == "multi-head" else 1
    cache = KVCache(batch=1, num_kv_heads=num_kv_heads, max_len=num_tokens, head_dim=32)
    attention_parameters = sum(parameter.numel() for parameter in model.layers.parameters())
    print(f"{name:11} attention {attention_parameters:6,} parameters, cache of a layer {cache.nbytes:5,} bytes")

# %% [markdown]
# A quarter of the attention's parameters saved, half of the cache, and the same heads learned: one that looks back,
# and two that copy. Don't conclude too much from a toy: this task needs one pattern at a time, and two heads are few.
# Published comparisons of large models find that multi-query attention costs a little quality, and grouped queries
# less; that is why both exist.
#
# ## Your turn
#
# 1. Train with one layer: `TinyModel` with `range(1)` and two norms. What accuracy do you expect, and why not one in
#    twenty-six?
# 2. Leave `places` out. Which head can no longer be learned?
# 3. With 5 letters a round, at which distance below the diagonal does the line of an induction head stand?
#
# <details><summary>Answers</summary>
#
# 1. Far from solved. One layer can see which letters occurred, so it can guess among the 4 to 12 of this sequence,
#    and by their places it can guess at periods; it can't ask "who comes after a D".
# 2. The one that looks at the letter before. The causal mask alone tells little of who is the nearest.
# 3. At four: five back to the copy, and one forward.
#
# </details>
#
# ## What you have now
#
# A trained model small enough to understand as a whole, heads with a job and a name, and two ways to find out: measure
# where they look, and take them away. (For large trained models, look at Transformer Explainer and llm-viz.)
#
# **Next:** [09 Make it fast, and know why](09_fast.ipynb).
