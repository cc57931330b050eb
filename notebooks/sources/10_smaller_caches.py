# %% [markdown]
# # Shrink the cache further
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/10_smaller_caches.ipynb)
#
# Watch a model forget. The first story below sees all its words, and the second only its last 16 tokens, because a
# cache costs memory and somebody wanted to save some. You will make the cache smaller in the ways of published models:
# with fewer bits, a sliding window, one latent vector for all heads, and pages. You write the central function of each,
# and measure what it costs a story.
#
# **You need** lessons [06](06_multi_query.ipynb), [07](07_order.ipynb) and [09](09_llama.ipynb).
# **It takes** about 60 minutes.

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
from torch import nn

from course_lib.attention import (
    BlockPool,
    KVCache,
    LatentAttention,
    LlamaAttention,
    PagedKVCache,
    RollingKVCache,
)
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict
from course_lib.inputs import dream_big
from course_lib.pictures import heatmap
from course_lib.show import show
from course_lib.stories import (
    TRAINED,
    load_storyteller,
    read_held_out,
    stories,
    sure_by_distance,
    tokens_per_second,
    with_window,
)

device = course_device()
words, _, _ = dream_big()
storyteller = load_storyteller("llama").to(device)
short = with_window(storyteller, 16)
print("sees all:      ", fill(storyteller.write("Once there was a"), 74), end="\n\n")
print("sees 16 tokens:", fill(short.write("Once there was a"), 74))

# %% [markdown]
# Most sentences of the second story still sound right. But one has lost its subject, and which duck is this, and who is
# Jack? The model has forgotten what it told more than 16 tokens ago, and makes up something that fits. That is what a
# small cache can cost. Some ways to make it small cost less, and some change no result at all.
#
# ## What a long text costs
#
# In lesson 06 you wrote a function that computes the bytes of a cache. Here it is for a text of 131,072 tokens (128k),
# as if each layer kept the keys and values of all its kv heads and of all tokens:

# %%
cache_bytes = from_earlier("cache_bytes")
models = {  # layers, heads, kv heads, head_dim
    "Llama 3.1 8B": (32, 32, 8, 128),
    "Mistral 7B v0.1": (32, 32, 8, 128),
    "Gemma 3 27B": (62, 32, 16, 128),
    "gpt-oss-120b": (36, 64, 8, 64),
    # keys are 192 wide (64 of these are the same in all heads) and values 128: 160
    "DeepSeek-V3": (61, 128, 128, 160),
}

# %%
num_tokens = 131_072
print(f"{'':16} layers  heads  kv heads  bytes per token  GiB for 128k tokens")
for name, (layers, heads, kv_heads, head_dim) in models.items():
    # 1 token, 2 bytes per number
    per_token = cache_bytes(1, layers, kv_heads, head_dim, 2)
    total = per_token * num_tokens / 2**30
    print(f"{name:16} {layers:6} {heads:6} {kv_heads:9} {per_token:16,} {total:20.1f}")

# %% [markdown]
# The sizes are those of the published configurations and reports ([Llama 3](https://arxiv.org/abs/2407.21783), [Mistral
# 7B](https://arxiv.org/abs/2310.06825), [Gemma 3](https://arxiv.org/abs/2503.19786),
# [gpt-oss](https://arxiv.org/abs/2508.10925),
# [DeepSeek-V3](https://arxiv.org/abs/2412.19437)). The last column is the memory for a single text of a single user,
# and each step of writing reads all of it. With the 62 GiB of one Gemma text you could serve three texts of Llama, and
# one text of DeepSeek-V3 would need several of the largest GPUs. Sharing heads is not enough.
#
# `cache_bytes` multiplies the tokens, the layers, the kv heads, the numbers per head, the bytes per number, and 2 for
# keys and values. This lesson makes the bytes and the tokens fewer. Latent attention then lets all heads share one
# vector, as key and value alike: it has one kv head, no 2, and *more* numbers per head.
#
# ## Fewer bits per number
#
# A key of our storyteller has 16 numbers of 32 bits each, and published models mostly keep 16. How many does a number
# need, if all that attention does is to compare and to mix? In the simplest scheme a vector is stored as small integers
# and one **step**, by which they are multiplied when they are read.
#
# **Write it yourself:** what is read back, if each vector along the last axis is stored in this way. With 4 bits the
# integers go from -7 to 7, and the step is such that the largest absolute value of the vector becomes 7.


# %%
def round_to_bits(x, bits):
    # (..., width), an int -> (..., width), with few different values in each vector
    raise NotImplementedError  # three lines


round_to_bits = filled("round_to_bits", round_to_bits)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def round_to_bits(x, bits):
#     # (..., width), an int -> (..., width), with few different values in each vector
#     largest = 2 ** (bits - 1) - 1  # of the stored integers, such as 7 for 4 bits
#     step = x.abs().amax(dim=-1, keepdim=True) / largest  # (..., 1), one for each vector
#     return (x / step).round() * step
# ```
#
# </details>
#
# Now the storyteller reads with rounded keys and values. (A **hook** is a function that PyTorch calls with what a
# module returns, and whose result takes its place. Ours rounds before the rotation; behind it, where a cache keeps the
# keys, the answer below is the same.) The report says how wrong the model is about the next word (its loss, on 40
# stories that it never read), and how sure it is of the right word where a story comes back to a fact.

# %%
KINDS = {"pronoun": 2, "name": 24, "animal": 14, "home": 10}  # words to choose from


def report(name, model):
    held_out = read_held_out(model, count=40)
    sure = "  ".join(f"{kind} {held_out.sure[kind]:.2f}" for kind in KINDS)
    print(f"{name:21} loss {held_out.loss:.2f}  {sure}")


def with_bits(bits):
    def rounded(module, args, out):  # (b, t, g * d), each head's vector by itself
        return round_to_bits(out.unflatten(2, (-1, 16)), bits).flatten(2)

    model = load_storyteller("llama").to(device)
    for attention in model.attentions:
        attention.k_proj.register_forward_hook(rounded)
        attention.v_proj.register_forward_hook(rounded)
    return model


guesses = "  ".join(f"{kind} {1 / number:.2f}" for kind, number in KINDS.items())
print(f"{'a blind guess':32} {guesses}")
report("as trained, 32 bits", storyteller)
report("8 bits", with_bits(8))
for bits in (5, 4, 3, 2):
    print(f"{bits} bits: off by up to {0.5 / (2 ** (bits - 1) - 1):.0%} of the largest")

# %% [markdown]
# The last lines say how far a number can be off: half a step, in proportion to the vector's largest.
#
# **Predict.** With how few bits is the model still at least 0.9 sure of each of the four kinds?


# %%
read = {bits: read_held_out(with_bits(bits), count=40) for bits in (5, 4, 3, 2)}
least_sure = {bits: min(read[bits].sure[kind] for kind in KINDS) for bits in read}
guess = ...  # 2 to 5
predict(guess, lambda: min(bits for bits in read if least_sure[bits] > 0.9))
if guess is not ...:
    for bits in (4, 3, 2):
        report(f"{bits} bits", with_bits(bits))
    print(fill(with_bits(2).write("Once there was a"), 80))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Three. With 4 bits the model hardly notices. With 2 bits each number is -1, 0 or 1 times the step, and the story goes
# to pieces. A step in 16 bits for each vector of 16 numbers adds one bit to each, so that 4 bits cost 5, in place of
# 16. Larger models need more care: some dimensions of their keys hold numbers much larger than the rest, and such a
# dimension gets a step of its own, over many tokens (Liu et al., [KIVI: A Tuning-Free Asymmetric 2bit Quantization for
# KV Cache](https://arxiv.org/abs/2402.02750), 2024).
#
# </details>
#
# ## Fewer tokens: a sliding window
#
# In the simplest form a token attends only to itself and to the `window - 1` tokens before it. This is **sliding
# window attention** ([Beltagy et al., Longformer: The Long-Document Transformer,
# 2020](https://arxiv.org/abs/2004.05150), there to both sides; [Jiang et al., Mistral 7B,
# 2023](https://arxiv.org/abs/2310.06825)).
#
# **Write it yourself.** You need the causal mask of lesson 02 and one more condition.


# %%
def window_mask(num_tokens, window):  # -> bool (query, key), True = may attend
    raise NotImplementedError  # two or three lines


window_mask = filled("window_mask", window_mask)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def window_mask(num_tokens, window):  # -> bool (query, key), True = may attend
#     position = torch.arange(num_tokens)
#     # (query, key): how far the key is behind the query
#     distance = position[:, None] - position
#     return (distance >= 0) & (distance < window)
# ```
#
# </details>
#
# Here it is on our sentence, in a head whose scores are all equal:

# %%
keep = window_mask(6, 3)
windowed = torch.zeros(6, 6).masked_fill(~keep, -torch.inf).softmax(dim=-1)
heatmap(windowed, words, keep=keep, title="A window of 3")

# %% [markdown]
# The upper hatched corner is the causal mask, and the lower one is what the window adds. The usual slip is a window of
# one token more, which no text shorter than the window shows
# ([window-off-by-one](https://attention-course.github.io/attention-course/mistakes/window-off-by-one.html)).
#
# What does a window cost in stories? Your mask goes into the trained storyteller, and beside it stands a model that was
# *trained* with a window of 16:

# %%
planted = with_window(storyteller, 16, mask=window_mask)
trained = load_storyteller("window").to(device)
report("sees all", storyteller)
report("window 16, trained", trained)
report("window 16, put in", planted)

# %% [markdown]
# "He" and "she" survive best, but there a blind guess is right half the time, too. Homes come up at the beginning and
# then at the end, and there both models are hardly better than a blind guess. But the one that was trained with the
# window is much surer of names, although it sees no more. How does it do that?
#
# ## A cache that does not grow
#
# A key that no later query can reach need not be kept. So the new key may overwrite the one that has just left the
# window, and the cache becomes a ring of `window` slots, a **rolling cache**: token number `position` goes into slot
# `position % window`. With a window of 3:

# %%
window, slots = 3, ["-", "-", "-"]
for position, word in enumerate(words):
    slots[position % window] = word
    print(f"after {position + 1} tokens:", *(f"{one:6}" for one in slots))

# %% [markdown]
# The ring loses the order of the text. That does no harm: softmax and a weighted sum don't depend on the order of the
# keys, and rotary keys were rotated by their positions before they went in. As a proof, a layer with a window computes
# a text of 40 tokens at once, and then token by token with a rolling cache:

# %%
torch.manual_seed(0)
layer = LlamaAttention(3, 5, num_kv_heads=1, head_dim=4, window=3).to(device)
text = 4 * torch.randn(1, 40, 3).to(device)
# one text, one kv head, three slots, keys of 4 numbers
rolling = RollingKVCache(1, 1, 3, 4, device=device)
with torch.no_grad():
    steps = [layer(text[:, [t]], cache=rolling) for t in range(40)]
torch.testing.assert_close(torch.cat(steps, dim=1), layer(text))
print(f"equal; the cache has {rolling.nbytes} bytes, however long the text")

# %% [markdown]
# Exercise 2 of [the sheet](exercises/10_exercises.ipynb) asks for the slot of a token.
#
# Where all keys are kept, a single new query needs no *causal* mask, so some code skips the mask while it decodes, and
# the window with it. **Predict** the first of the 40 positions whose output is then wrong.

# %%
full = LlamaAttention(3, 5, num_kv_heads=1, head_dim=4).to(device)  # without a window
full.load_state_dict(layer.state_dict())
growing = KVCache(1, 1, 40, 4, device=device)
with torch.no_grad():
    decoded = torch.cat([full(text[:, [t]], cache=growing) for t in range(40)], dim=1)
    wrong = (decoded - layer(text)).abs().amax(dim=(0, 2)) > 1e-5  # (position)
guess = ...  # 0 to 39
predict(guess, lambda: int(wrong.nonzero()[0]))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is 3, the first position with more keys than the window allows. A test with a text that fits into the window
# passes, and so does one that runs the whole text at once
# ([window-lost-in-decode](https://attention-course.github.io/attention-course/mistakes/window-lost-in-decode.html)).
#
# </details>
#
# ## How far several layers reach
#
# Is everything before the window lost? In a single block it is. But the tokens that the newest one sees have themselves
# seen earlier tokens, in the block below.
#
# **Predict.** The storyteller that was trained with a window of 16 has two blocks. We rename the hero where a long
# story introduces him. Up to how many tokens later do the model's predictions change?

# %%
long_stories = [story.text for story in stories(300, seed=5) if len(story.text) > 400]
exact = load_storyteller("window").to(device, torch.float64)
tokens = exact.encode(long_stories[0])
other = tokens.clone()
other[0, 9] = exact.numbers["Ben"]  # in place of Jack
with torch.no_grad():
    moved = (exact(tokens) - exact(other)).abs().amax(dim=(0, 2)) > 1e-9  # (position)
guess = ...  # a number of tokens
predict(guess, lambda: int(moved.nonzero()[-1]) - 9)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# 30. Each block moves information `window - 1` = 15 tokens further, so the reach is blocks times (window - 1). Exercise
# 3 of the sheet is about stacks in which some layers attend to everything.
#
# </details>
#
# That is what *may* arrive. How much does? The table is of the names that 150 stories come back to, by how many tokens
# ago the name was said last: within one window, at a distance that only the second block bridges, or beyond.

# %%
bands = {"up to 15": (0, 15), "16 to 30": (16, 30), "over 30": (31, 999)}
print(f"{'sure of names, last said':25}", *(f"{band:>9}" for band in bands))
three = {"sees all": storyteller, "trained": trained, "put in": planted}
for name, model in three.items():
    ago, sure = sure_by_distance(model, "name", count=150).T  # (repeat), (repeat)
    means = [sure[(low <= ago) & (ago <= high)].mean() for low, high in bands.values()]
    print(f"{name:25}", *(f"{mean:9.2f}" for mean in means))

# %% [markdown]
# Within one window both short-sighted models know most names. Beyond the reach neither is better than a blind guess.
# The middle is what separates them. To know a name there, a token on the way has to pick it up in the first block and
# hand it on in the second. The model that was trained with the window has *learned* this relay. The other, which could
# always look back directly, never had to, and a window that is put in afterwards doesn't teach it.
#
# ## Attention sinks: why the first tokens must stay
#
# A large language model that was trained without a window, and gets one, writes nonsense as soon as the first tokens
# leave the window, however little they mean. [Xiao et al., Efficient Streaming Language Models with Attention Sinks,
# 2023](https://arxiv.org/abs/2309.17453) explain this by the softmax. The attention weights of a query sum to 1, even
# if none of the keys is of use to it, so a head learns to put what it doesn't need on the first token, which every
# query can see. They call this token an **attention sink**. Its value is small, so it adds little to the context ([Gu
# et al., When Attention Sink Emerges in Language Models: An Empirical View,
# 2024](https://arxiv.org/abs/2410.10781)). Here is such a head, with made-up numbers, for the query "it":

# %%
sink_scores = torch.tensor([4.0, 0.3, -0.2, 0.5, 0.1, 0.4])
with_first = sink_scores.softmax(dim=0)
show("attention weights of 'it'", with_first, "key", words, digits=3)

# %% [markdown]
# Most of the attention is on "Dream". If its value is 0, the context of "it" is small.
#
# **Predict.** Now "Dream" leaves the window, and softmax runs over the other five keys. By what factor do their
# attention weights grow?

# %%
without_first = sink_scores[1:].softmax(dim=0)
guess = ...  # a factor
predict(guess, lambda: without_first[0] / with_first[1], within=1)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The five weights keep their proportions, but they must now sum to 1 by themselves. Before, they summed to 1 minus the
# weight of "Dream", so each is divided by that small number. The context grows by the same factor: what this head
# passes on is much larger than it was in training.
#
# </details>
#
# The remedy is cheap: keep the first few tokens besides the window (the paper keeps four). Exercise 1 of the sheet asks
# for the mask.
#
# Do our storytellers have a sink? Their stories begin with a token that means nothing. What share of its attention does
# each head spend on it, and how large is its value in each block, if the others' mean is 1?

# %%
split = load_storyteller("weight split").to(device)
for form, model in {"llama": storyteller, "weight split": split}.items():
    spent, value = 0, 0
    for text in long_stories[:60]:
        spent += model.attention_weights(text)[1][:, :, 20:, 0].mean(dim=2) / 60
        inputs = zip(model.attentions, model.attention_inputs(text), strict=True)
        size = torch.stack([block.v_proj(x)[0].norm(dim=1) for block, x in inputs])
        value += size[:, 0] / size[:, 1:].mean(dim=1) / 60  # (block)
    heads = f"share {spent.min():.3f} to {spent.max():.3f}"
    print(f"{form:13} {heads}; value", *(f"{one:.2f}" for one in value.tolist()))

# %% [markdown]
# In the weight split, the form of GPT-2, it is a sink as in the papers: each head spends more on it than any head of
# Llama's form does, and its value is small. So keeping it should help the first and not the second. The bar to beat is
# a window with one token more, which costs the same memory:

# %%
for window, num_sinks in ((16, 0), (17, 0), (16, 1)):
    pair = [with_window(model, window, num_sinks) for model in (storyteller, split)]
    losses = [read_held_out(model, count=40).loss for model in pair]
    kept = f"window {window}, {num_sinks} sinks"
    print(f"{kept}: llama {losses[0]:.2f}, weight split {losses[1]:.2f}")

# %% [markdown]
# In Llama's form a sink is worth about as much as one more token of the window. In the weight split it lowers the loss
# two to three times as much. (For endless text the paper also counts positions within the cache: it stores the keys
# *before* the rotation and rotates them in each step, so that a sink never gets further away.)
#
# ## A sink that is learned
#
# The place for unneeded attention need not be a token. The gpt-oss models ([gpt-oss-120b & gpt-oss-20b Model Card,
# 2025](https://arxiv.org/abs/2508.10925)) give each head one learned number, a logit that takes part in the softmax as
# a score would, but belongs to no key and no value. With $z$ for this logit and $s_k$ for the score of key $k$:
#
# $$
# \mathrm{weight}_k = \frac{e^{s_k}}{e^{z} + \sum_j e^{s_j}}
# $$
#
# **Write it yourself.** The scores have one row per head and query, and there is one logit per head. It should work for
# scores in the thousands, too.


# %%
def sink_weights(scores, sink_logits):
    # (head, query, key), (head,) -> (head, query, key)
    raise NotImplementedError  # two or three lines


sink_weights = filled("sink_weights", sink_weights)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def sink_weights(scores, sink_logits):
#     # (head, query, key), (head,) -> (head, query, key)
#     sinks = sink_logits[:, None, None].expand(-1, scores.shape[1], 1)  # -> (h, q, 1)
#     with_sink = torch.cat([scores, sinks], dim=-1).softmax(dim=-1)  # (h, q, k + 1)
#     return with_sink[:, :, :-1]  # the sink's column is dropped
# ```
#
# </details>
#
# Let all three scores of a query be 0, and the logit of its head as well:

# %%
sink_sum = sink_weights(torch.zeros(1, 1, 3), torch.zeros(1)).sum()
print(f"the attention weights of the three keys sum to {sink_sum:.2f}")

# %% [markdown]
# Four equal logits share the softmax, and one of the four parts goes to no key at all. So a head can attend to almost
# nothing without a first token.
#
# ## One latent vector for all heads
#
# In 2024 DeepSeek published **multi-head latent attention** (MLA): each token is projected *down* to one short vector,
# the **latent**, and only the latent is cached. The keys and values of all heads are projected *up* from it when they
# are needed ([DeepSeek-AI, DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model,
# 2024](https://arxiv.org/abs/2405.04434)). We begin without positions, and in float64 for a strict comparison:

# %%
num_heads, head_dim, latent_dim = 5, 8, 12
exactly = {"bias": False, "dtype": torch.float64, "device": device}
torch.manual_seed(3)
q_proj = nn.Linear(32, num_heads * head_dim, **exactly)
down = nn.Linear(32, latent_dim, **exactly)
key_up = nn.Linear(latent_dim, num_heads * head_dim, **exactly)
value_up = nn.Linear(latent_dim, num_heads * head_dim, **exactly)

# %%
to_heads = from_earlier("to_heads")
both = 5 * torch.randn(2, 6, 32, dtype=torch.float64).to(device)  # (b, t, m)
latents = down(both)  # (b, t, m) -> (b, t, l), all that is cached
queries = to_heads(q_proj(both), num_heads)  # (b, h, t, d)
keys, values = (to_heads(up(latents), num_heads) for up in (key_up, value_up))
mla_scores = queries @ keys.transpose(2, 3)
mla_context = (mla_scores * head_dim**-0.5).softmax(dim=-1) @ values
in_heads = keys[0, :, 0].numel() + values[0, :, 0].numel()
print("numbers per token:", in_heads, "in the heads,", latents.shape[2], "as a latent")

# %% [markdown]
# The keys and values would grow with the number of heads. The latent doesn't, because all heads read the same one.
#
# ## It is multi-query attention
#
# There is a catch: before each step the keys and values of all tokens would have to be computed again. DeepSeek avoids
# this. Write the score of one head as a product, where $q$ and $c$ are rows, $c$ is the latent of the key's token and
# $W$ holds the head's rows of the weight matrix of `key_up`:
#
# $$
# q \, k^{\top} = q \, (c \, W^{\top})^{\top} = q \, (W c^{\top}) = (q \, W) \, c^{\top}
# $$
#
# A product of three matrices can begin with either pair. Instead of projecting every latent up to a key, we project the
# one new query to the width of the latents: the key projection has been **absorbed** into the query.
#
# **Write it yourself**, for one sample. The rows of `key_up` are those of head 0, then those of head 1, and so on.


# %%
def latent_queries(queries, key_up):
    # (head, query, head_dim), (head * head_dim, latent) -> (head, query, latent)
    raise NotImplementedError  # two lines


latent_queries = filled("latent_queries", latent_queries)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def latent_queries(queries, key_up):
#     # (head, query, head_dim), (head * head_dim, latent) -> (head, query, latent)
#     num_heads, _, head_dim = queries.shape
#     key_up_by_head = key_up.view(num_heads, head_dim, -1)  # (h * d, l) -> (h, d, l)
#     return queries @ key_up_by_head  # (h, q, d) @ (h, d, l) -> (h, q, l)
# ```
#
# </details>
#
# The same scores, without any keys:

# %%
# (b, h, q, l)
absorbed = torch.stack([latent_queries(one, key_up.weight) for one in queries])
torch.testing.assert_close(absorbed @ latents[:, None].transpose(2, 3), mla_scores)
print("queries:", tuple(absorbed.shape), " latents:", tuple(latents.shape))

# %% [markdown]
# There are queries for five heads, and one set of vectors with which all of them are compared, as in lesson 06. The
# values can be absorbed as well: to mix the latents and then project the mix is the same as to project all latents and
# then mix them. So the latents are keys *and* values of multi-query attention, and your function from lesson 06
# computes it. It divides by the root of its queries' width, which is now `latent_dim`, so we correct the scale first:

# %%
multi_query = from_earlier("multi_query")
scaled = absorbed * (latent_dim / head_dim) ** 0.5
mix = multi_query(scaled, latents, latents)  # (b, h, q, l): latents, mixed by each head
value_up_by_head = value_up.weight.view(num_heads, head_dim, latent_dim)
torch.testing.assert_close(mix @ value_up_by_head.transpose(1, 2), mla_context)

# %% [markdown]
# The assertion passed: multi-head latent attention is multi-query attention in which the latent is both the key and the
# value of each token. DeepSeek's latent is wider than a head, so each score takes more multiplications, but while a
# model writes, each step has less to read. Exercise 5 absorbs the value projection.
#
# ## Positions need a part of their own
#
# We left out the positions. With rotary positions, the query at position $m$ and the key at position $n$ are rotated
# before the product, and the two rotations together are one rotation, which depends on the distance:
#
# $$
# (q R_m)(k R_n)^{\top} = q \, R_m R_n^{\top} \, W c^{\top}
# $$
#
# It stands between the query and $W$, and it is another one for each key, so that no absorbed query fits all of them.
# DeepSeek therefore **decouples** the positions: a query and a key get a second, short part, and only this part is
# rotated. A score is the sum of two products. The first can be absorbed, and the second is with a short rotary key,
# which all heads share:
#
# $$
# \mathrm{score} = (q \, W) \, c^{\top} + (q^{\mathrm{rot}} R_m)(k^{\mathrm{rot}} R_n)^{\top}
# $$
#
# The library's `LatentAttention` runs in both forms. Its cache holds, of each token, the rotated key in the place of a
# key and the latent in the place of a value:

# %%
torch.manual_seed(4)
widths = {"latent_dim": latent_dim, "head_dim": head_dim, "rotary_dim": 4}
mla = LatentAttention(32, num_heads, **widths).to(device)
samples = torch.randn(2, 6, 32).to(device)
cache = KVCache(2, 1, 6, head_dim=4, value_dim=latent_dim, device=device)
with torch.no_grad():
    steps = [mla(samples[:, [t]], cache=cache, absorb=True) for t in range(6)]
torch.testing.assert_close(torch.cat(steps, dim=1), mla(samples))
print("cached per token:", cache.nbytes // (2 * 6 * 4), "numbers of 4 bytes")

# %% [markdown]
# Token by token, the absorbed form agrees with the multi-head form. Exercise 4 counts its bytes. And on stories? A
# storyteller with latent attention, beside those that you know:

# %%
for form in ("weight split", "llama", "multi-query", "latent"):
    model = load_storyteller(form)
    speed = tokens_per_second(model, num_tokens=2, rounds=1)
    report(f"{form}, {speed.bytes_per_token:.0f} bytes", model)
card = json.loads((TRAINED / "card.json").read_text("utf-8"))
for form in ("multi-query", "latent"):
    losses = [round(run["loss"], 2) for run in card[form]["seeds"]]
    print(f"loss of three trainings, {form}:", losses)

# %% [markdown]
# With a quarter of the bytes of the weight split, the latent form is as sure of these facts. But so is multi-query
# attention, with as few bytes, and it trains more reliably: of three trainings of the latent form, only the stored one
# reached such a loss. (The last two lines are of more stories.)
#
# ## No waste: a cache in pages
#
# The last idea changes no result. A server doesn't know how long an answer will become, and if it reserves memory for
# the longest one possible, much of it stays empty. [Kwon et al., Efficient Memory Management for Large Language Model
# Serving with PagedAttention, 2023](https://arxiv.org/abs/2309.06180) cut the memory into **blocks** of a few tokens,
# as an operating system cuts it into pages. A sequence takes a block when it needs one, and its **block table** lists
# its blocks in their order. Here two sequences take turns to grow by three tokens, and a block has room for four:

# %%
pool = BlockPool(num_blocks=8, block_size=4, num_kv_heads=1, head_dim=2, device=device)
first, second = PagedKVCache(pool), PagedKVCache(pool)
torch.manual_seed(6)
new_keys = torch.randn(2, 1, 9, 2).to(device)  # (sequence, kv head, token, head_dim)
for start in (0, 3, 6):
    new = new_keys[:, :, start : start + 3]
    first.append(new[:1], new[:1])
    second.append(new[1:], new[1:])
print("block tables:", first.block_table, second.block_table)

# %% [markdown]
# **Write it yourself.** Collect the keys of one sequence, in order. (`memory` has no head axis here.)


# %%
def gather_blocks(memory, block_table, length):
    # (block, slot, width), list of ints, int -> (token, width)
    raise NotImplementedError  # one or two lines


gather_blocks = filled("gather_blocks", gather_blocks)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def gather_blocks(memory, block_table, length):
#     # (block, slot, width), list of ints, int -> (token, width)
#     own_blocks = memory[block_table]  # in the order of the sequence
#     # (b, s, d) -> (b * s, d), without the slots that are not filled
#     return own_blocks.flatten(0, 1)[:length]
# ```
#
# </details>
#
# Your function should find the keys of both sequences in the pool:

# %%
for sequence, cache in enumerate((first, second)):
    found = gather_blocks(pool.keys[:, 0], cache.block_table, cache.length)
    torch.testing.assert_close(found, new_keys[sequence, 0])
print("both sequences found, in their order")

# %% [markdown]
# Each sequence can have empty slots in its last block only. And texts that begin alike, such as all those under one
# system prompt, can share their first blocks. The price is a look-up per block: the authors measure about a quarter
# more time in the attention kernel, and win it back by serving more texts at once. Exercise 6 finds the slot of a
# single token.
#
# ## What the five models really keep
#
# Here is the last column of the first table again, now counting only what each model keeps. In Gemma 3 five layers with
# a window are followed by one that attends to everything, and in gpt-oss every second layer has a window.

# %%
# layers with all tokens, with a window, the window, numbers per token in a layer
kept = {
    "Llama 3.1 8B": (32, 0, 0, 2 * 8 * 128),
    "Mistral 7B v0.1": (0, 32, 4096, 2 * 8 * 128),
    "Gemma 3 27B": (10, 52, 1024, 2 * 16 * 128),
    "gpt-oss-120b": (18, 18, 128, 2 * 8 * 64),
    "DeepSeek-V3": (61, 0, 0, 512 + 64),
}

# %%
for name, (full, local, window, numbers) in kept.items():
    kept_bytes = 2 * numbers * (full * num_tokens + local * window)
    print(f"{name:16} {kept_bytes / 2**30:5.1f} GiB")

# %% [markdown]
# DeepSeek-V3 has the most heads and keeps about half of what Llama 3.1 8B keeps. Mistral keeps the least, but what is
# further back than its window arrives, if at all, by relay. (Its successor v0.2 dropped the window.)
#
# No assertion here tells how well a model *learns* in such a form. That has to be measured. In the experiments of
# DeepSeek-V2 (appendix D) multi-head attention did better than sharing heads, and in another comparison latent
# attention better than multi-head. For Gemma 3 the report finds that the windows hardly change how well it predicts
# text.
#
# ## Your turn
#
# 1. Print the table of distances for `"animal"` in place of `"name"`. Does the trained model hand on animals, too?
# 2. Round only the keys to 2 bits, then only the values. Which does the storyteller need more exactly?
#
# <details><summary>Answers</summary>
#
# 1. It hardly does. Of animals that were last said one window ago it is as good as sure, and in the middle it is little
#    better than a blind guess. A relay is learned for one kind of word, and for another it isn't.
# 2. The keys. Rounding them raises the loss about six times as much as rounding the values does.
#
# </details>
#
# ## What you have now
#
# You have fewer bits, a window, a rolling cache, two kinds of sink, a latent vector and pages. gpt-oss combines
# two of them.
#
# **Practise:** [six exercises](exercises/10_exercises.ipynb), about 35 minutes.
#
# **Click through it:** [latent attention](https://attention-course.github.io/attention-course/recordings/latent.html)
# as a recorded run. Choose any number there, and you see where it came from and where it goes.
#
# **Next:** [13 See what heads learn](13_what_heads_learn.ipynb).
