# %% [markdown]
# # The forms of 2026
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/12_forms_of_2026.ipynb)
#
# One trained storyteller writes both stories below, and both times it has to save. First it sees its last 16 tokens,
# then only 8, but for every new word it *chooses* which. In which of the two does it still know whom it is about?
#
# **You need** lessons [07](07_order.ipynb), [09](09_llama.ipynb) and [10](10_smaller_caches.ipynb).
# **It takes** about 55 minutes.

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
from textwrap import fill

import torch

from course_lib.attention import LlamaAttention, attend, causal_keep, packed_positions
from course_lib.device import course_device
from course_lib.exercises import filled, predict, sneak
from course_lib.pictures import heatmap
from course_lib.stories import (
    TRAINED,
    load_storyteller,
    read_held_out,
    stories,
    with_selected_keys,
    with_shared_keys,
    with_window,
)

device = course_device()
llama = load_storyteller("llama").to(device)
beginning = "Once there was a"
print("the last 16:", fill(with_window(llama, 16).write(beginning), 76))
print("\n8 chosen:", fill(with_selected_keys(llama, 8).write(beginning), 78))

# %% [markdown]
# No weight was changed. (One story proves little; further down we count.) Choosing keys is one of seven changes that
# you meet in the code of 2026. Most have a **known case**, in which they must equal what you had before: a single text,
# an infinite cap, no cache. Code that breaks it raises no error. You write five of the seven, and one of the proofs.
#
# ## Many texts in one row
#
# Training on texts of different lengths wastes work on padding. **Packing** needs none: the texts stand one after the
# other in one row, and a mask keeps them apart (Krell et al., [Efficient Sequence Packing without Cross-contamination:
# Accelerating Large Language Models without Impacting Performance](https://arxiv.org/abs/2107.02027), 2021). What the
# mask hides costs nothing only where a kernel skips it.
#
# **Write it yourself**, from the lengths of the texts.


# %%
def packed_mask(lengths):  # list of ints -> bool (query, key), True = may attend
    raise NotImplementedError  # two or three lines; look up Tensor.repeat_interleave


packed_mask = filled("packed_mask", packed_mask)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def packed_mask(lengths):  # list of ints -> bool (query, key), True = may attend
#     # (token): the number of its text
#     text = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
#     return (text[:, None] == text).tril()
# ```
#
# </details>

# %%
keep = packed_mask([3, 1, 2])
equal = torch.zeros(6, 6).masked_fill(~keep, -torch.inf).softmax(dim=-1)
words = ["A1", "A2", "A3", "B1", "C1", "C2"]
heatmap(equal, words, keep=keep, title="Three texts in one row")

# %% [markdown]
# The known case: each text must come out as if it had been alone, where `layer(text)` takes it alone and
# `layer(row, keep=keep, positions=positions)` takes the row.
#
# **Write the proof yourself, from an empty cell.** How far is the farthest output of the row from that of the same
# token in its text alone?


# %%
def packed_gap(layer, row, lengths, keep, positions): ...


# layer, (batch, token, width), ints, (query, key) bool, (token) ints -> one number

packed_gap = filled("packed_gap", packed_gap)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def packed_gap(layer, row, lengths, keep, positions):
#     # layer, (batch, token, width), ints, (query, key) bool, (token) ints -> one number
#     alone = torch.cat([layer(text) for text in row.split(lengths, dim=1)], dim=1)
#     packed = layer(row, keep=keep, positions=positions)
#     return (packed - alone).abs().max()
# ```
#
# </details>

# %%
torch.manual_seed(0)
small = {"num_kv_heads": 1, "head_dim": 4}
layer = LlamaAttention(7, 5, **small).to(device, torch.float64)
lengths = [3, 1, 5]
row = 3 * torch.randn(2, sum(lengths), 7, dtype=torch.float64).to(device)
mask = packed_mask(lengths).to(device)
restarted = packed_positions(lengths, device=device)  # 0, 1, 2, 0, 0, 1, ...
for name, keep in (("your mask", mask), ("causal mask", causal_keep(9, device=device))):
    print(f"{name}: off by {packed_gap(layer, row, lengths, keep, restarted):.4f}")

# %% [markdown]
# Somebody forgets the positions: they run on from 0 to 8. **Predict.** The queries and keys of this layer are rotated
# by them. What does your proof measure under your mask?

# %%
guess = ...  # a number with a decimal point
ran_on = torch.arange(9, device=device)
gap = packed_gap(layer, row, lengths, mask, ran_on)
predict(guess, lambda: float(gap), within=0.001)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Zero, up to rounding. A rotary score depends on the *distance* of query and key only, and within one text all
# distances are right. A model with a table of positions has no such luck. The next cell shows what both forgotten
# things cost.
#
# </details>
#
# And in a trained model? Two stories go into one row, and we look at the loss of the second. "Weight split" adds
# a position to each word.

# %%
one, two = (story.text for story in stories(2, seed=8))


@torch.no_grad()
def loss_of_last(model, *texts):
    row = torch.cat([model.encode(text) for text in texts], dim=1)
    right = model.encode(texts[-1])[0, 1:]
    logs = model(row)[0, -len(right) - 1 : -1].log_softmax(dim=-1)
    return -logs.gather(1, right[:, None]).mean()


sizes = [llama.encode(text).shape[1] for text in (one, two)]
for form in ("llama", "weight split"):
    model = load_storyteller(form).to(device)
    # your mask in place of a window's, whatever the window
    masked = with_window(model, 1, mask=lambda num_tokens, window: packed_mask(sizes))
    alone = loss_of_last(model, two)
    rows = [loss_of_last(each, one, two) for each in (masked, model)]
    losses = f"alone {alone:.2f}, masked {rows[0]:.2f}, not masked {rows[1]:.2f}"
    print(f"{form:13} {losses}")

# %% [markdown]
# With rotary positions your mask is all it takes. With a table of positions it isn't enough: exercise 1 of [the
# sheet](exercises/12_exercises.ipynb) begins each text at 0 again. And without a mask, the second story is told by a
# model that believes it is still in the first.
#
# ## Scores that can't grow
#
# Softmax turns a lead of 20 into certainty, and in large models scores have grown until training failed (Dehghani et
# al., [2023](https://arxiv.org/abs/2302.05442), for a vision transformer). Two remedies are common. Gemma 2 bends each
# score, $\mathrm{cap} \cdot \tanh(s / \mathrm{cap})$, so that none exceeds the cap of 50 ([Gemma 2: Improving Open
# Language Models at a Practical Size](https://arxiv.org/abs/2408.00118), 2024).
#
# **Write it yourself:** the attention weights of one head. Mind the order.


# %%
def capped_weights(queries, keys, keep, cap):
    # (query, head_dim), (key, head_dim), (query, key) bool, a number -> (query, key)
    raise NotImplementedError  # scale, cap, mask, softmax: three lines


capped_weights = filled("capped_weights", capped_weights)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def capped_weights(queries, keys, keep, cap):
#     # (query, head_dim), (key, head_dim), (query, key) bool, a number -> (query, key)
#     scores = (queries * queries.shape[-1] ** -0.5) @ keys.T
#     capped = cap * torch.tanh(scores / cap)
#     return capped.masked_fill(~keep, -torch.inf).softmax(dim=-1)
# ```
#
# </details>
#
# The known case: an infinite cap is none. Ours is 10,000, and the other side has no cap at all.

# %%
queries, keys = (4 * torch.randn(size, 16, dtype=torch.float64) for size in (3, 5))
scores, seen = queries @ keys.T / 4, causal_keep(3, 5)  # 4 is the root of head_dim
uncapped = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
capped = capped_weights(queries, keys, seen, 1e4)
torch.testing.assert_close(capped, uncapped, atol=1e-4, rtol=0)
print(f"equal; the largest score is {scores.max():.1f}")

# %% [markdown]
# **Predict.** Somebody caps at 20 first, and divides by the root of head_dim, 4, afterwards. Which cap at the right
# place gives the same attention weights?

# %%
early = 20 * torch.tanh(queries @ keys.T / 20) / 4
early = early.masked_fill(~seen, -torch.inf).softmax(dim=-1)
guess = ...  # a number


def is_same(cap):
    return torch.allclose(capped_weights(queries, keys, seen, cap), early)


predict(guess, lambda: next(cap for cap in range(1, 101) if is_same(cap)))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# 5: the cap is divided by 4 together with the score.
#
# </details>
#
# What does that cost? The trained storyteller never had a cap. Here are its loss, and how sure it is of the right name,
# animal and home where a story comes back to one, and of who gave (`order`, lesson 07):

# %%
KINDS = ("name", "order", "animal", "home")


def report(name, model):
    read = read_held_out(model, count=40)
    sure = "  ".join(f"{kind} {read.sure[kind]:.2f}" for kind in KINDS)
    print(f"{name:18} loss {read.loss:.2f}  {sure}")


for cap in (torch.inf, 20.0, 5.0):
    with_cap = load_storyteller("llama").to(device)
    for attention in with_cap.attentions:
        attention.softcap = cap
    report(f"cap {cap}", with_cap)

# %% [markdown]
# A cap of 20 is as good as none here, and one of 5 costs all four. The second slip in the order is quieter. A
# mask *before* the cap is bent, too: minus infinity becomes -cap, and the future is back.

# %%
for cap in (5, 50):
    late = cap * torch.tanh(scores.masked_fill(~seen, -torch.inf) / cap)
    print(f"cap {cap}: the future gets up to {late.softmax(dim=-1)[~seen].max():.0e}")

# %% [markdown]
# With 50 hardly a test would notice. But it is the other scores of the row that drown the future, and nobody promises
# that they are high.
#
# The second remedy normalizes queries and keys, head by head (**QK norm**). Gemma 3 takes it in place of the cap
# ([Gemma 3 Technical Report](https://arxiv.org/abs/2503.19786), 2025).
#
# **Write it yourself:** divide the vector of each head by its root mean square. (Learned factors come after that; the
# small number that published code adds under the root changes nothing here.)


# %%
def norm_heads(x, num_heads):
    # (batch, token, head * head_dim), int -> (batch, head, token, head_dim)
    raise NotImplementedError  # split, mean of the squares, divide: three lines


norm_heads = filled("norm_heads", norm_heads)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def norm_heads(x, num_heads):
#     # (batch, token, head * head_dim), int -> (batch, head, token, head_dim)
#     by_head = x.unflatten(2, (num_heads, -1)).transpose(1, 2)
#     mean_square = by_head.square().mean(dim=-1, keepdim=True)  # (b, h, t, 1)
#     return by_head / mean_square.sqrt()
# ```
#
# </details>
#
# **Predict.** Queries and keys are normed by your function, head_dim is 64, and the scores are divided by 8, as always.
# How large can a score become, whatever the input?

# %%
wide = 1000 * torch.randn(2, 9, 3 * 64, dtype=torch.float64)
normed = norm_heads(wide, 3)
guess = ...  # a number
predict(guess, lambda: (normed @ normed.transpose(2, 3) / 8).max().item(), within=0.1)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# 8. A vector of 64 numbers whose squares have the mean 1 is 8 long. The product of two such vectors is at most 64,
# where they point the same way, and 64 / 8 is 8. The learned factors move this bound (factors of 3 make it nine times
# as large); the input can't.
#
# </details>
#
# OLMo 2 has one norm over all heads together.
#
# ## A gate, and layers without positions
#
# A head with nothing to say can spend its row on a sink (lesson 10). A **gate** can quiet it without one: the context
# is multiplied by $\sigma(x W_G)$, a number between 0 and 1 for each of its elements, as in Qwen3-Next (Qiu et al.,
# [Gated Attention for Large Language Models: Non-linearity, Sparsity, and
# Attention-Sink-Free](https://arxiv.org/abs/2505.06708), 2025). The other change *removes* something: a **NoPE** layer
# rotates nothing. In the library both are options, and both have a known case:

# %%
gated = LlamaAttention(7, 5, **small, gate=True).to(device, torch.float64)
gated.load_state_dict(layer.state_dict(), strict=False)  # it has no gate
gated.gate_proj.weight.data.zero_()  # sigmoid(0) is one half
torch.testing.assert_close(2 * gated(row), layer(row))
nope = LlamaAttention(7, 5, **small, rotary=False).to(device, torch.float64)
nope.load_state_dict(layer.state_dict())
at_zero = torch.zeros(9, dtype=torch.int64, device=device)
torch.testing.assert_close(nope(row), layer(row, positions=at_zero))
print("a gate half open halves; without rotation, all tokens are at position 0")

# %% [markdown]
# One storyteller was trained without positions. But *taking* the rotation from a trained model is another thing.
#
# **Predict.** The storyteller has two layers of attention. Each loses its rotation once, while the other keeps it. In
# how many of the two cases does the loss rise by more than 0.5?

# %%
for form in ("llama", "multi-query", "no positions"):  # the last is multi-query, too
    report(form, load_storyteller(form).to(device))


def without_rotation(layer):
    model = load_storyteller("llama").to(device)
    model.attentions[layer].rotary = False
    return read_held_out(model, count=40).loss


guess = ...  # 0, 1 or 2
without = [without_rotation(layer) for layer in range(2)]
usual = read_held_out(llama, count=40).loss
predict(guess, lambda: sum(loss > usual + 0.5 for loss in without))
if guess is not ...:
    print("loss without the first, the second:", [round(loss, 2) for loss in without])

# %% [markdown]
# <details><summary>After your guess</summary>
#
# In both. What costs little in training can cost a lot afterwards: a multi-query model that was trained without any
# positions has nearly the same loss as one with them, and what it lacks is who gave. (Of three such trainings in lesson
# 07, one found that out.)
#
# </details>
#
# ## Keys from another layer
#
# Layers can share keys and values as heads did in lesson 06 (Brandon et al., [Reducing Transformer Key-Value Cache Size
# with Cross-Layer Attention](https://arxiv.org/abs/2405.12981), 2024); a layer without its own has nothing to cache.
#
# **Write it yourself:** a stack of layers, one head each, that share one set, made from the `x` that comes into the
# first layer. What earlier tokens left comes as `past_keys` and `past_values`; without a cache these
# hold no token.


# %%
def shared_layers(x, q_weights, k_weight, v_weight, past_keys, past_values):
    # x (new, m); (layer, m, d), (m, d), (m, m); (past, d), (past, m)
    # -> x (new, m), and all keys and values, (past + new, d) and (past + new, m)
    # m is the width of x, d that of a key
    raise NotImplementedError  # each layer adds its context to x: eight or nine lines


shared_layers = filled("shared_layers", shared_layers)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def shared_layers(x, q_weights, k_weight, v_weight, past_keys, past_values):
#     # x (new, m); (layer, m, d), (m, d), (m, m); (past, d), (past, m)
#     # -> x (new, m), and all keys and values, (past + new, d) and (past + new, m)
#     keys = torch.cat([past_keys, x @ k_weight])
#     values = torch.cat([past_values, x @ v_weight])
#     seen = torch.ones(len(x), len(keys), dtype=torch.bool, device=x.device)
#     seen = seen.tril(len(keys) - len(x))  # the last new token sees all keys
#     for q_weight in q_weights:
#         scores = (x @ q_weight * keys.shape[1] ** -0.5) @ keys.T  # (new, past + new)
#         weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
#         x = x + weights @ values
#     return x, keys, values
# ```
#
# </details>
#
# Published code of this kind shared only where a cache was given, because the keys of the other layer were looked up
# there; without one, as in training, each layer quietly made its own ([mlx-lm
# #1674](https://github.com/ml-explore/mlx-lm/issues/1674)). So the proof of this form reads a text token by token with
# a cache, and all at once without one.

# %%
sizes = (5, 4), (3, 4, 2), (4, 2), (4, 4)  # x; queries of three layers; keys; values
x, *weights = (torch.randn(*size, dtype=torch.float64) for size in sizes)
none = x.new_zeros(0, 2), x.new_zeros(0, 4)
at_once, _, _ = shared_layers(x, *weights, *none)
steps, cache = [], none
for token in range(5):
    step, *cache = shared_layers(x[[token]], *weights, *cache)  # x[[token]] is (1, m)
    steps.append(step)
torch.testing.assert_close(torch.cat(steps), at_once)
print("equal; cached for three layers:", [tuple(one.shape) for one in cache])

# %% [markdown]
# What does it cost? In the first row below the storyteller is as trained; in the second its second layer reads the keys
# and values of the first; and the other three were trained like that, under three seeds, and measured on more stories.

# %%
report("as trained", llama)
report("sharing, put in", with_shared_keys(llama))
for run in json.loads((TRAINED / "sharing.json").read_text("utf-8"))["seeds"]:
    sure = "  ".join(f"{kind} {run['sure'][kind]:.2f}" for kind in KINDS)
    print(f"{'trained with it':18} loss {run['loss']:.2f}  {sure}")

# %% [markdown]
# Put into a trained model it destroys what the model knew. Trained with it, half the cache does nearly as well; only
# who gave suffers a little.
#
# ## Choose the keys
#
# Back to the two stories. A window drops keys by their age. DeepSeek-V3.2 asks instead: a small **indexer** gives each
# query and key a score, and the query attends to the `k` keys with the highest ones (DeepSeek-AI, [DeepSeek-V3.2:
# Pushing the Frontier of Open Large Language Models](https://arxiv.org/abs/2512.02556), 2025). What a query costs the
# main attention no longer grows with the text. The indexer still looks at every key, but it is narrow. It is trained
# to imitate the attention weights, summed over the heads. Our storyteller has no indexer, so `with_selected_keys` uses
# this sum itself. That saves nothing, and shows what a perfect indexer would choose.
#
# **Write it yourself, from an empty cell.** Causal attention to at most `k` keys per query: of those that it may see,
# the ones with the highest index scores, the same for all heads. There may be more keys than queries, as with a cache.


# %%
def selected_attention(queries, keys, values, index_scores, k): ...


# (b, h, query, d), 2 x (b, h, key, d), (b, query, key), int -> (b, h, query, d)


selected_attention = filled("selected_attention", selected_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Four parts: the causal mask, (query, key); the selection among what it allows; both joined; attention under that mask.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Later keys are hidden *before* the selection: fill their index scores with minus infinity. `topk`, of `k` keys or of
# all if there are fewer, has the highest as `.indices`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `torch.zeros_like(index_scores).scatter(-1, indices, 1.0) > 0` makes a mask of them. Where fewer than `k` keys are
# allowed, `topk` has filled up with hidden ones, so join it with the causal mask once more.
#
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# def selected_attention(queries, keys, values, index_scores, k):
#     # (b, h, query, d), 2 x (b, h, key, d), (b, query, key), int -> (b, h, query, d)
#     num_queries, num_keys = index_scores.shape[1:]
#     seen = torch.ones(num_queries, num_keys, dtype=torch.bool, device=queries.device)
#     seen = seen.tril(num_keys - num_queries)  # the last query sees all keys
#     allowed = index_scores.masked_fill(~seen, -torch.inf)
#     highest = allowed.topk(min(k, num_keys), dim=-1).indices  # (b, query, k)
#     selected = torch.zeros_like(allowed).scatter(-1, highest, 1.0) > 0
#     keep = (selected & seen)[:, None]  # the same for all heads
#     scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(2, 3)
#     return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
# ```
#
# </details>
#
# Its known case: where `k` is at least the number of keys, it is dense causal attention. And the last three queries
# alone must get what they get among all:

# %%
sizes = (2, 3, 7, 4), (2, 3, 7, 4), (2, 3, 7, 5), (2, 7, 7)
tensors = [torch.randn(*size, dtype=torch.float64) for size in sizes]


def proof(attention):
    queries, keys, values, index_scores = tensors
    dense, _ = attend(queries, keys, values, causal=True)
    for k in (7, 8, 1000):
        torch.testing.assert_close(attention(*tensors, k), dense)
    last = attention(queries[:, :, 4:], keys, values, index_scores[:, 4:], 2)
    torch.testing.assert_close(last, attention(*tensors, 2)[:, :, 4:])


proof(selected_attention)
print("equal to dense attention, and the same with a cache")

# %% [markdown]
# Now it goes into three trained storytellers. **Predict.** How many chosen keys are enough to be surer of names than
# with the last 16 tokens, in all three: 2, 3, 8, or none of these (write 0)?

# %%
forms = "llama", "weight split", "grouped-query"
counts = (2, 3, 8)
by_window, by_choice = {}, {}
for form in forms:
    model = load_storyteller(form).to(device)
    by_window[form] = read_held_out(with_window(model, 16), count=40)
    models = [with_selected_keys(model, k, selected_attention) for k in counts]
    by_choice[form] = [read_held_out(each, count=40) for each in models]


def surer(at):
    pairs = [(by_choice[form][at].sure, by_window[form].sure) for form in forms]
    return all(chosen["name"] > last["name"] for chosen, last in pairs)


guess = ...  # a number of keys
predict(guess, lambda: next((k for at, k in enumerate(counts) if surer(at)), 0))
if guess is not ...:
    for form in forms:
        last, chosen = by_window[form], by_choice[form]
        names = " ".join(f"{each.sure['name']:.2f}" for each in chosen)
        print(f"{form:13} last 16: {last.sure['name']:.2f}; 2, 3, 8 chosen: {names}")
        print(f"loss, last 16: {last.loss:.2f}; 8 chosen: {chosen[-1].loss:.2f}")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Three. With two, only `llama` is surer of names than with the last 16.
#
# </details>
#
# With eight keys of its own choice each model also has a lower loss than with the last 16. None was trained for either.
#
# ## When there is nothing to select
#
# A text of `k` tokens or fewer needs no selection. It is tempting to skip it there, and with it goes the only mask:

# %%
def skipping(queries, keys, values, index_scores, k):
    if keys.shape[2] <= k:  # nothing to select
        return attend(queries, keys, values)[0]
    return selected_attention(queries, keys, values, index_scores, k)


# %% [markdown]
# **Predict.** For how many of `k` = 16, 64 and 200 does the loss on 40 held-out stories give this away?

# %%
def both(k):
    ways = selected_attention, skipping
    return [with_selected_keys(llama, k, way) for way in ways]


losses = {}
for k in (16, 64, 200):
    losses[k] = [round(read_held_out(model, count=40).loss, 2) for model in both(k)]
guess = ...  # 0 to 3
predict(guess, lambda: sum(abs(bug - right) > 0.001 for right, bug in losses.values()))
if guess is not ...:
    print("right and with the bug:", losses)

# %%
print("tokens in the beginning of the next story:", llama.encode(beginning).shape[1])
for model in both(16):
    print(fill(model.write(beginning), 80), end="\n\n")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# For two. Each of the 40 stories is longer than 16 tokens, so with `k` = 16 the shortcut is never taken.
#
# </details>
#
# But the beginning that we write from is shorter, and the story becomes another one (the second above). A test needs
# lengths on both sides of `k`.
#
# **Now cheat.** Plant a mistake in `selected_attention` that the proof misses.

# %%
Sneaky = ...  # a function with your mistake, in place of the dots
sneak("selected_attention", Sneaky, proof)

# %% [markdown]
# <details><summary>A way in</summary>
#
# The proof never asks *which* keys are chosen: take the lowest, or choose before later keys are hidden. Only a
# comparison at a small `k` tells.
#
# </details>
#
# ## Who uses what
#
# The defaults of the configurations in the library transformers, version 5:
#
# | model | form |
# |---|---|
# | Gemma 2 | scores capped at 50, and the logits at 30 |
# | Gemma 3n | the last 15 of 35 layers read the keys and values of earlier ones |
# | Gemma 4 | norm of each head's queries, keys and values; no cap |
# | Qwen3 | norm of each head's queries and keys |
# | Qwen3-Next, Qwen3.5 | the same and a gate, in every fourth layer; the others keep no keys (linear attention) |
# | gpt-oss | a learned score per head that joins each softmax, as a sink without a key |
# | SmolLM3 | 9 of 36 layers without positions |
# | DeepSeek-V3.2 | 2,048 selected keys; an indexer of 64 heads, 128 wide |
#
# ## Your turn
#
# Put your selection with `k` = 4 into `llama` and let it write. What goes wrong, and what comes back all the same?
#
# <details><summary>Answer</summary>
#
# `with_selected_keys(llama, 4, selected_attention).write(beginning)`: grammar goes wrong from the second sentence on;
# the names come back.
#
# </details>
#
# ## What you have now
#
# Seven forms, five of which you wrote, and for most a case in which they equal what you knew before: a single text, an
# infinite cap, positions that are all 0, no cache, a `k` beyond the text. Try that first on the form that you meet next
# year.
#
# **Practise:** [five exercises](exercises/12_exercises.ipynb), about 25 minutes.
#
# **Next:** [13 See what heads learn](13_what_heads_learn.ipynb).
