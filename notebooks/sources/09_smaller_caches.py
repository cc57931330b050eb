# %% [markdown]
# # Shrink the cache further
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/09_smaller_caches.ipynb)
#
# Watch a model forget. The first story below sees all its words, and the second only its last 16 tokens, because a
# cache costs memory and somebody wanted to save some. You will make the cache smaller in the ways of published models:
# with fewer bits, a sliding window, one latent vector for all heads, and a memory in pages. You write the central
# function of each, and measure what it costs a story.
#
# **You need** lessons [06](06_multi_query.ipynb), [07](07_order_and_padding.ipynb) and [08](08_llama.ipynb).
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
from functools import partial
from textwrap import fill

import torch
from torch import nn

from course_lib.attention import (
    KVCache,
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    RollingKVCache,
    apply_rotary,
    rotary_table,
    window_keep,
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
    tokens_per_second,
    with_attention,
)

device = course_device()
words, embeddings, x = dream_big(device=device)
storyteller = load_storyteller("llama").to(device)


def with_window(window, num_sinks=0):  # put into the trained model, which had none
    options = {"num_kv_heads": 2, "rope_theta": 100.0}
    options |= {"window": window, "num_sinks": num_sinks}
    return with_attention(storyteller, lambda m, _, h: LlamaAttention(m, h, **options))


print("sees all:      ", fill(storyteller.write("Once there was a"), 74), end="\n\n")
short_sighted = with_window(16).to(device)
print("sees 16 tokens:", fill(short_sighted.write("Once there was a"), 74))

# %% [markdown]
# Most sentences of the second story still sound right. But one has lost its subject, and which duck is this, and who is
# Jack? The model has forgotten what it told more than 16 tokens ago, and makes up something that fits. That is what a
# small cache can cost. Some ways to make it small cost less, and one costs nothing.
#
# ## What a long text costs
#
# In lesson 06 you wrote a function that computes the bytes of a cache. We apply it to six models and a text of 131,072
# tokens (128k), as if each layer kept the keys and values of all its kv heads and of all tokens:

# %%
cache_bytes = from_earlier("cache_bytes")
models = {  # layers, heads, kv heads, head_dim
    "Llama 3.1 8B": (32, 32, 8, 128),
    "Mistral 7B v0.1": (32, 32, 8, 128),
    "Qwen3 8B": (36, 32, 8, 128),
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
# 7B](https://arxiv.org/abs/2310.06825), [Qwen3](https://arxiv.org/abs/2505.09388), [Gemma
# 3](https://arxiv.org/abs/2503.19786), [gpt-oss](https://arxiv.org/abs/2508.10925),
# [DeepSeek-V3](https://arxiv.org/abs/2412.19437)). The last column is the memory for a single text of a single user.
# With the 62 GiB of one Gemma text you could serve three texts of Llama, and one text of DeepSeek-V3 would need several
# of the largest GPUs. Sharing heads is not enough. `cache_bytes` multiplies six factors, and each can be made smaller:
# the bytes per number, the tokens, the numbers per head, the kv heads, the layers with a cache of their own
# (neighbouring layers may share one), and the 2 for keys and values. This lesson is about the first three, and at its
# end the 2 is gone as well.
#
# ## Fewer bits per number
#
# A key of 16 numbers takes 32 bytes in bfloat16. How many bits does a number need, if all that attention does is to
# compare and to mix? In the simplest scheme a vector is stored as small integers and one **step**, by which they are
# multiplied when they are read.
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
# Now the storyteller reads with rounded keys and values: a hook rounds what its two projections return. The report says
# how wrong the model is about the next word (its loss, on 40 stories that it never read), and how sure it is of the
# right word where a story comes back to a fact.

# %%
KINDS = {"pronoun": 2, "name": 24, "animal": 14, "home": 10}  # words to choose from


def report(name, model):
    held_out = read_held_out(model.to(device), count=40)
    sure = "  ".join(f"{kind} {held_out.sure[kind]:.2f}" for kind in KINDS)
    print(f"{name:21} loss {held_out.loss:.2f}  {sure}")


def with_bits(bits):
    def rounded(module, args, out):  # (b, t, g * d), each head's vector by itself
        return round_to_bits(out.unflatten(2, (-1, 16)), bits).flatten(2)

    model = load_storyteller("llama")
    for attention in model.attentions:
        attention.k_proj.register_forward_hook(rounded)
        attention.v_proj.register_forward_hook(rounded)
    return model


guesses = "  ".join(f"{kind} {1 / number:.2f}" for kind, number in KINDS.items())
print(f"{'a blind guess':32} {guesses}")
report("as trained, 32 bits", storyteller)
report("8 bits", with_bits(8))

# %% [markdown]
# **Predict.** With how few bits is the model still at least 0.9 sure of each of the four kinds?

# %%
def least_sure(bits):  # of the four kinds
    sure = read_held_out(with_bits(bits).to(device), count=40).sure
    return min(sure[kind] for kind in KINDS)


guess = ...  # 2 to 8
predict(guess, lambda: next(bits for bits in range(2, 9) if least_sure(bits) > 0.9))
if guess is not ...:
    for bits in (4, 3, 2):
        report(f"{bits} bits", with_bits(bits))
    print(fill(with_bits(2).to(device).write("Once there was a"), 80))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Three. With 4 bits the model hardly notices. With 2 bits only -1, 0 and 1 are left of each number, and the story goes
# to pieces. A step in 16 bits for each vector of 16 numbers adds one bit to each number, so that 4 bits cost 5, in
# place of 16. Larger models need more care, because a few of their columns hold numbers much larger than the rest (Liu
# et al., [KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache](https://arxiv.org/abs/2402.02750), 2024, take
# the steps of the keys by column).
#
# </details>
#
# ## Fewer tokens: a sliding window
#
# In the simplest form a token attends only to itself and to the `window - 1` tokens before it. This is **sliding window
# attention** ([Beltagy et al., Longformer: The Long-Document Transformer, 2020](https://arxiv.org/abs/2004.05150);
# [Jiang et al., Mistral 7B, 2023](https://arxiv.org/abs/2310.06825)).
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
# Here is the mask in one head, on our sentence:

# %%
torch.manual_seed(5)
q_proj, k_proj = (nn.Linear(3, 4, bias=False).to(device) for _ in range(2))
# (query, key); 6 makes them differ more
scores = 6 * (q_proj(x) @ k_proj(x).transpose(1, 2))[0].detach()
keep = window_mask(6, 3).to(device)
windowed = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
heatmap(windowed, words, keep=keep, title="A window of 3")

# %% [markdown]
# The upper hatched corner is the causal mask, and the lower one is what the window adds. So the number of scores
# that are needed grows with `window` times the number of tokens, and no longer with the square of the number of tokens.
#
# **Predict.** A window can be written with two triangles. How many of the six words does the last one see here?

# %%
def by_triangles(num_tokens, window):  # -> bool (query, key), True = may attend
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril().triu(-window)


guess = ...  # 0 to 6
predict(guess, lambda: int(by_triangles(6, 3)[-1].sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It sees four, because `triu(-window)` keeps the diagonal at distance `window`, too; `triu(1 - window)` is right. A
# test of this mistake needs a text that is longer than the window
# ([window-off-by-one](https://attention-course.github.io/attention-course/mistakes/window-off-by-one.html)).
#
# </details>

# %%
for tokens in (2, 3, 4):
    equal = torch.equal(by_triangles(tokens, 3), window_mask(tokens, 3))
    print(f"{tokens} tokens: equal to yours {equal}")

# %% [markdown]
# What does a window cost in stories? Your mask goes into the trained storyteller, and beside it stands a model that was
# *trained* with a window of 16:


# %%
class Windowed(LlamaAttention):  # the library's attention with your mask
    def forward(self, x, **options):
        keep = window_mask(x.shape[1], 16).to(x.device)
        return super().forward(x, keep=keep, **options)


mine = partial(Windowed, num_kv_heads=2, rope_theta=100.0)
planted = with_attention(storyteller, lambda m, _, h: mine(m, h))
report("sees all", storyteller)
report("window 16, trained", load_storyteller("window"))
report("window 16, put in", planted)

# %% [markdown]
# "He" and "she" survive best, but there a blind guess is right half the time, too. Homes come up at the beginning and
# then at the end, and there both models are no better than a blind guess. The one that was trained with the window is
# surer of names. Many large models with windows keep some layers that see everything, as you will see below.
#
# ## A cache that does not grow
#
# A key that no later query can reach need not be kept. So the new key may overwrite the one that has just left the
# window, and the cache becomes a ring of `window` slots, a **rolling cache**: token number `position` goes into slot
# `position % window`.
#
# Here are the words in the slots for a window of 3, after each of the six tokens:


# %%
window, slots = 3, ["-", "-", "-"]
for position, word in enumerate(words):
    slots[position % window] = word
    print(f"after {position + 1} tokens:", *(f"{one:6}" for one in slots))

# %% [markdown]
# From the fourth token on, each new word takes the place of the word that is three before it. So the tokens in the ring
# are not in their order. That does no harm, because softmax and a weighted sum don't depend on the order of the keys,
# and rotary keys have been rotated by their positions before. For the proof, a layer with a window computes a text of
# 40 tokens at once, and then token by token with a rolling cache:

# %%
torch.manual_seed(0)
layer = LlamaAttention(3, 5, num_kv_heads=1, head_dim=4, window=3).to(device)
text = 4 * torch.randn(1, 40, 3).to(device)
# one text, one kv head, three slots, keys of 4 numbers
rolling = RollingKVCache(1, 1, 3, 4, device=device)
with torch.no_grad():
    steps = [layer(text[:, [t]], cache=rolling) for t in range(40)]
torch.testing.assert_close(torch.cat(steps, dim=1), layer(text))
whole = KVCache(1, 1, 40, 4)
print(f"all tokens: {whole.nbytes} bytes, the rolling cache: {rolling.nbytes} bytes")

# %% [markdown]
# Both ways give the same outputs. The cache of all tokens grows with the text, while the ring always has three slots.
# Exercise 2 of [the sheet](exercises/09_exercises.ipynb) asks for the slot of a token.
#
# A single new query needs no *causal* mask, so some code skips the mask while it decodes, and the window with it.
# **Predict** the first of the 40 positions whose output is then wrong.

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
# Is everything before the window lost? In a single layer it is, but the tokens that "it" can see have themselves seen
# earlier tokens in the layer below. To measure how far this goes, we change token 0 and list the outputs that change:

# %%
torch.manual_seed(1)
layers = nn.ModuleList(LlamaAttention(3, 2, head_dim=4, window=3) for _ in range(3))
layers.to(device, torch.float64)
two_texts = torch.randn(1, 12, 3, dtype=torch.float64).to(device).repeat(2, 1, 1)
two_texts[1, 0] += 1  # the second text has another token 0


def changed(num_layers):  # the positions whose outputs differ
    outputs = two_texts
    for layer in layers[:num_layers]:
        outputs = layer(outputs)
    difference = (outputs[0] - outputs[1]).abs().amax(dim=1)
    return (difference > 1e-9).nonzero().flatten().tolist()


print("one layer:", changed(1))

# %% [markdown]
# **Predict.** Through one layer with a window of 3, token 0 reaches position 2. What is the last position that it
# reaches through three such layers?

# %%
guess = ...  # a position
predict(guess, lambda: changed(3)[-1])

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Each layer moves information `window - 1` = 2 tokens further, so the reach is layers times (window - 1). That is what
# *may* arrive. How much of it does arrive is another question: through two blocks the storyteller's window reaches
# nearly twice as far, and you have seen what it knows of homes. Many models put layers that attend to everything
# between those with a window, and exercise 3 of the sheet is about them.
#
# </details>
#
# ## Attention sinks: why the first tokens must stay
#
# When a window is put into a large language model that was trained without one, its text turns to nonsense as soon as
# the first tokens leave the window, even if they mean nothing. [Xiao et al., Efficient Streaming Language Models with
# Attention Sinks, 2023](https://arxiv.org/abs/2309.17453) explain this by the softmax. The attention weights of a query
# sum to 1, even if none of the keys is of use to it, so a head learns to put what it doesn't need on the first token,
# which every query can see. They call this token an **attention sink**. It adds little to the context, because its
# value is small ([Gu et al., When Attention Sink Emerges in Language Models: An Empirical View,
# 2024](https://arxiv.org/abs/2410.10781)). Here is such a head, with made-up numbers, for the query "it":

# %%
sink_scores = torch.tensor([4.0, 0.3, -0.2, 0.5, 0.1, 0.4])
rows = [[0.0, 0.0], [0.9, 0.4], [0.6, 1.0], [1.1, 0.7], [0.5, 0.8], [1.0, 0.6]]
sink_values = torch.tensor(rows)
with_first = sink_scores.softmax(dim=0)
show("attention weights of 'it'", with_first, "key", words, digits=3)
show("context", with_first @ sink_values, "width", digits=3)

# %% [markdown]
# Most of the attention is on "Dream", whose value is 0, so the context is small.
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
# weight of "Dream". So each is divided by that small number. The context grows by the same factor, because the value of
# "Dream" added nothing to it. What this head passes on is much larger than it was in training.
#
# </details>
#
# The remedy is cheap. You keep the first few tokens besides the window (the paper keeps four). In the library's mask
# and in its rolling cache these are the `num_sinks`; exercise 1 of the sheet asks for the mask.
#
# Do our storytellers lean on their first token? Here is what each head's later words spend on it, in sixty long
# stories, beside an equal share:

# %%
long_stories = [story.text for story in stories(300, seed=5) if len(story.text) > 400]


def on_first(model):  # (block, head)
    looks = [model.attention_weights(text)[1] for text in long_stories[:60]]
    return torch.stack([one[..., 20:, 0].mean(dim=-1) for one in looks]).mean(dim=0)


split = load_storyteller("weight split").to(device)
sizes = [storyteller.encode(text).shape[1] for text in long_stories[:60]]
shares = [1 / (query + 1) for size in sizes for query in range(20, size)]
print(f"an equal share: {sum(shares) / len(shares):.3f}")
for form, model in {"llama": storyteller, "weight split": split}.items():
    found = on_first(model).flatten().sort().values
    print(f"{form:13}", *(f"{one:.3f}" for one in found))

# %% [markdown]
# In the weight split, the form of GPT-2, each head spends two to seven times an equal share on the token before the
# story; in Llama's form none does. So a sink should help the first and not the second. The bar to beat is a window with
# one token more, which costs the same memory:

# %%
class SplitWithSinks(MultiHeadAttention):
    def __init__(self, *sizes, window, num_sinks):
        super().__init__(*sizes)
        self.window, self.num_sinks = window, num_sinks

    def forward(self, x, **options):
        size = x.shape[1]
        sinks = {"num_sinks": self.num_sinks, "device": x.device}
        keep = window_keep(size, size, self.window, **sinks)
        return super().forward(x, keep=keep, **options)


def split_with(window, num_sinks):
    sizes = {"window": window, "num_sinks": num_sinks}
    return with_attention(split, partial(SplitWithSinks, **sizes))


kept = {"window 16": (16, 0), "17": (17, 0), "16 and a sink": (16, 1)}
for name, sizes in kept.items():
    report(f"llama, {name}", with_window(*sizes))
    report(f"split, {name}", split_with(*sizes))

# %% [markdown]
# In Llama's form a sink is worth about as much as one more token of the window. In the weight split it lowers the loss
# two to three times as much. It doesn't bring back the facts: those left with the window.
#
# With rotary positions the mask is only half of the remedy. The paper stores the keys *before* the rotation, and
# rotates them in each step by their positions *within the cache*, which it calls crucial: after a window of four keys a
# sink is always four positions behind the query, however long the text. The library rotates each key once, by its
# position in the text, and so a sink falls further and further behind. Here is the score of one query and one sink in
# both forms:

# %%
query, key = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
cos, sin = rotary_table(100_001, 8)


def sink_score(distance):  # of the query and a key that is so far behind it
    turned = apply_rotary(query[None, None, None], cos[[distance]], sin[[distance]])
    return (turned @ key).item()


for position in (4, 100, 10_000, 100_000):
    in_text, in_cache = sink_score(position), sink_score(min(position, 4))
    both_forms = f"in the text {in_text:5.2f}, in the cache {in_cache:5.2f}"
    print(f"token {position:7,}: {both_forms}")

# %% [markdown]
# In the paper's form the score stays what it was. In the library's it changes with every token, as any rotary score
# does; beyond the length of the training texts a head meets distances for which it was never trained. So for endless
# text take the paper's form.
#
# ## A sink that is learned
#
# The place for unneeded attention need not be a token. The gpt-oss models ([gpt-oss-120b & gpt-oss-20b Model Card,
# 2025](https://arxiv.org/abs/2508.10925)) give each head one learned number, a logit that takes part in the softmax as
# a score would, but belongs to no key and no value:
#
# $$
# \mathrm{weight}_k = \frac{e^{s_k}}{e^{z} + \sum_j e^{s_j}}
# $$
#
# where $z$ is the sink's logit and $s_k$ the score of key $k$.
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
# Four equal logits share the softmax, and one of the four parts goes to no key at all. With a larger logit even less is
# left for the keys, so that a head can attend to almost nothing without a first token.
#
# ## Fewer numbers: one latent vector per token
#
# The other way to a smaller cache is to keep every token, but with fewer numbers. In 2024 DeepSeek published
# **multi-head latent attention** (MLA): each token is projected *down* to one short vector, the **latent**, and only
# the latent is cached. The keys and values of all heads are projected *up* from it when they are needed ([DeepSeek-AI,
# DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model,
# 2024](https://arxiv.org/abs/2405.04434)).
#
# We begin without positions, and in float64 for a strict comparison:

# %%
num_heads, head_dim, latent_dim = 5, 8, 12
torch.manual_seed(3)
both = torch.randn(2, 6, 32, dtype=torch.float64).to(device)  # (b, t, m)
width = num_heads * head_dim
q_proj = nn.Linear(32, width, bias=False)
down = nn.Linear(32, latent_dim, bias=False)
key_up, value_up = (nn.Linear(latent_dim, width, bias=False) for _ in range(2))
for projection in (q_proj, down, key_up, value_up):
    # so that attention is not flat
    projection.to(device, torch.float64).weight.data *= 3


# %%
def by_head(tensor):
    # (b, t, h * d) -> (b, h, t, d)
    return tensor.unflatten(2, (num_heads, head_dim)).transpose(1, 2)


latents = down(both)  # (b, t, m) -> (b, t, l), all that is cached
queries = by_head(q_proj(both))
keys, values = by_head(key_up(latents)), by_head(value_up(latents))
mla_scores = queries @ keys.transpose(2, 3)
mla_weights = (mla_scores * head_dim**-0.5).softmax(dim=-1)
mla_context = mla_weights @ values
kept, cached = 2 * num_heads * head_dim, latents.shape[-1]
print(f"numbers per token: {kept} as keys and values, {cached} as a latent")

# %% [markdown]
# The keys and values would grow with the number of heads. The latent doesn't, because all heads read the same one. The
# weight matrices do grow with the heads, but they are stored only once.
#
# ## It is multi-query attention
#
# There is a catch, because before each step the keys and values of all tokens would have to be computed again. DeepSeek
# avoids this. Write the score of one head as a product, where $q$ and $c$ are rows, $c$ is the latent of the key's
# token and $W$ holds the head's rows of the weight matrix of `key_up`:
#
# $$
# q \, k^{\top} = q \, (c \, W^{\top})^{\top} = q \, (W c^{\top}) = (q \, W) \, c^{\top}
# $$
#
# A product of three matrices can begin with either pair. Instead of projecting every latent up to a key, we project the
# one new query to the width of the latents. The key projection has been **absorbed** into the query.
#
# **Write it yourself**, for one sample. The weight matrix of `key_up` has its rows in the order head 0, head 1, and so
# on.


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
# values can be absorbed as well, because mixing the latents and then projecting the mix gives the same as projecting
# all latents and then mixing them. So the latents are keys *and* values of multi-query attention, and your function
# from lesson 06 computes it. That function divides by the root of its queries' width, which is now `latent_dim`, so we
# correct the scale first:

# %%
multi_query = from_earlier("multi_query")
scaled = absorbed * (latent_dim / head_dim) ** 0.5
mix = multi_query(scaled, latents, latents)  # (b, h, q, l): latents, mixed by each head
value_up_by_head = value_up.weight.view(num_heads, head_dim, latent_dim)
torch.testing.assert_close(mix @ value_up_by_head.transpose(1, 2), mla_context)

# %% [markdown]
# The assertion passed, so multi-head latent attention is multi-query attention in which the latent is both the key and
# the value of each token. In DeepSeek's models it is wider than a head, so that it can hold more than the one key of
# plain multi-query attention, and each score takes more multiplications. While a model writes, this is worth it,
# because otherwise each step would have to make the keys and values of all heads again, or read them from a larger
# cache. When the model reads a long prompt, the keys are computed after all. Exercise 5 absorbs the value projection.
#
# ## Positions need a part of their own
#
# We left out the positions. With rotary positions, the query at position $m$ and the key at position $n$ are rotated
# before the product, and the two rotations together are one rotation $R_{m-n}$, which depends on the distance:
#
# $$
# (q R_m)(k R_n)^{\top} = q \, R_m R_n^{\top} \, W c^{\top}
# $$
#
# The rotation is now between the query and $W$. Could we still absorb? For head 0, we compute the matrix between $q$
# and the latent, $R_m R_n^{\top} W$, for the query at position 5 and keys at several distances. (A rotation is a
# matrix, and rotating the rows of the identity gives its rows.)

# %%
cos, sin = (one.to(device, torch.float64) for one in rotary_table(6, head_dim))
identity = torch.eye(head_dim, dtype=torch.float64, device=device)


def rotation(position):  # R: the rows of the identity, all rotated by this position
    at = [position] * head_dim
    return apply_rotary(identity[None, None], cos[at], sin[at])[0, 0]


# %%
for distance in (0, 1, 3):
    between = rotation(5) @ rotation(5 - distance).T @ key_up.weight[:head_dim]
    a, b = between[0, :2].tolist()
    print(f"distance {distance}, first row: [{a:6.3f}, {b:6.3f}, ...]")

# %% [markdown]
# The matrix is different at every distance, so an absorbed query would fit the keys at one distance only. DeepSeek
# therefore **decouples** the positions: a query and a key get a second, short part, and only this part is rotated. A
# score is the sum of two products, one with the latent, which can be absorbed, and one with a short rotary key, which
# all heads share:
#
# $$
# \mathrm{score} = (q \, W) \, c^{\top} + (q^{\mathrm{rot}} R_m)(k^{\mathrm{rot}} R_n)^{\top}
# $$
#
# The sum is divided by the root of both widths together. The cache holds the latent and the rotated key. (DeepSeek also
# makes the queries from a latent of their own, which saves memory in training and changes nothing here.) The library's
# `LatentAttention` can run in both forms:

# %%
rotary_dim = 4
torch.manual_seed(4)
widths = {"latent_dim": latent_dim, "head_dim": head_dim, "rotary_dim": rotary_dim}
mla = LatentAttention(32, num_heads, **widths).to(device)
samples = both.float()
torch.testing.assert_close(mla(samples, absorb=True), mla(samples))

# %%
# the rotary key is stored as key; the latent, key and value in one, as value
cache = KVCache(2, 1, 6, rotary_dim, value_dim=latent_dim, device=device)
with torch.no_grad():
    steps = [mla(samples[:, [t]], cache=cache, absorb=True) for t in range(6)]
torch.testing.assert_close(torch.cat(steps, dim=1), mla(samples))
print("cached per token:", rotary_dim + latent_dim, "numbers")
# the rotary key is the same in all heads
print("as keys and values:", num_heads * (head_dim + head_dim) + rotary_dim, "numbers")

# %% [markdown]
# Token by token, the absorbed form with its small cache agrees with the multi-head form on two different samples.
# Exercise 4 counts its bytes. How does it do on stories? Here is a storyteller with latent attention, beside those that
# you know:

# %%
for form in ("weight split", "llama", "multi-query", "latent"):
    model = load_storyteller(form)
    speed = tokens_per_second(model, num_tokens=2, rounds=1)
    report(f"{form}, {speed.bytes_per_token:.0f} bytes", model)
card = json.loads((TRAINED / "card.json").read_text("utf-8"))
for form in ("multi-query", "latent"):
    trained = [round(run["loss"], 2) for run in card[form]["seeds"]]
    print(f"loss of three trainings, {form}:", trained)

# %% [markdown]
# A quarter of the bytes of the weight split, and the model is as sure of these facts. But multi-query attention does it
# with as few bytes, and more reliably: of three trainings of the latent form, only the stored one reached that loss.
# (The last two lines are of more stories than the report.) In a model this small, latent attention has nothing to show.
# The authors of DeepSeek-V2 report it to be better than multi-head attention in their much larger models.
#
# ## No waste: a cache in pages
#
# The last idea changes no result. A server doesn't know how long an answer will become, and if it reserves memory for
# the longest one possible, much of it stays empty. [Kwon et al., Efficient Memory Management for Large Language Model
# Serving with PagedAttention, 2023](https://arxiv.org/abs/2309.06180) cut the memory into **blocks** of a few tokens,
# as an operating system cuts it into pages. A sequence takes a block when it needs one, and its **block table** lists
# its blocks in their order. Here two sequences take turns to grow by three tokens, and a block has room for four:

# %%
from course_lib.attention import BlockPool, PagedKVCache

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
# Each sequence has every second block, and its block table and its length are enough to find its tokens.
#
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
# Take three sequences that have 6, 9 and 1 tokens so far and that may grow to 16 tokens:

# %%
print("empty slots, if 16 are reserved for each:", 3 * 16 - (6 + 9 + 1))
print("empty slots, with blocks of 4:", sum(-length % 4 for length in (6, 9, 1)))

# %% [markdown]
# Only the last block of a sequence can have empty slots, so each sequence wastes less than one block. Exercise 6 finds
# the slot of a single token.
#
# ## What the six models really keep
#
# Here is the last column of the first table again, now with what each model leaves out. In Gemma 3 five layers with a
# window are followed by one that attends to everything, and in gpt-oss every second layer has a window.

# %%
# layers with all tokens, with a window, the window, numbers per token in a layer
kept = {
    "Llama 3.1 8B": (32, 0, 0, 2 * 8 * 128),
    "Mistral 7B v0.1": (0, 32, 4096, 2 * 8 * 128),
    "Qwen3 8B": (36, 0, 0, 2 * 8 * 128),
    "Gemma 3 27B": (10, 52, 1024, 2 * 16 * 128),
    "gpt-oss-120b": (18, 18, 128, 2 * 8 * 64),
    "DeepSeek-V3": (61, 0, 0, 512 + 64),
}

# %%
for name, (full, local, window, numbers) in kept.items():
    kept_bytes = 2 * numbers * (full * num_tokens + local * window)
    print(f"{name:16} {kept_bytes / 2**30:5.1f} GiB")
print(f"Mistral's reach: 32 * (4096 - 1) = {32 * (4096 - 1):,} tokens")

# %% [markdown]
# DeepSeek-V3 has the most heads and keeps about half of what Llama 3.1 8B keeps, because each layer caches one latent
# and one short rotary key per token. Mistral keeps the least, but a token that is further back than its window arrives
# only through several layers. (By the formula for the reach, all of them together reach almost the whole text; its
# successor v0.2 dropped the window.) In Gemma 3 and gpt-oss almost all of the memory belongs to the layers that
# see everything.
#
# A small cache is not a goal in itself, and nothing proved here tells how well a model *learns* in such a form. That
# has to be measured. In the experiments of DeepSeek-V2 (appendix D) multi-head attention did better than sharing heads,
# and in a second comparison latent attention did better than multi-head; for Gemma 3 the report finds that the windows
# hardly change how well it predicts text.
#
# Newer models go further than this lesson: some replace most attention layers by linear attention, whose memory doesn't
# grow with the text, others let each query choose the few keys that it reads.
#
# ## Your turn
#
# 1. Give `sink_weights` a logit of `-torch.inf`. What do the rows sum to?
# 2. Set `window=1` where the three `layers` are made and run `changed(3)`. Which tokens does a token see now?
#
# <details><summary>Answers</summary>
#
# 1. They sum to 1. e to the power of minus infinity is 0, so the sink takes nothing, and this is softmax again.
# 2. It sees only itself. The result is `[0]`, because a window of 1 leaves nothing but the token's own key.
#
# </details>
#
# ## What you have now
#
# You have fewer bits, a window, a rolling cache, two kinds of sink, a latent vector and pages. They can be combined, as
# gpt-oss does with windows and sinks.
#
# **Practise:** [six exercises](exercises/09_exercises.ipynb), about 35 minutes.
#
# **Click through it:** [latent attention](https://attention-course.github.io/attention-course/recordings/latent.html)
# as a recorded run. Choose any number there, and you see where it came from and where it goes.
#
# **Next:** [10 See what heads learn](10_what_heads_learn.ipynb).
