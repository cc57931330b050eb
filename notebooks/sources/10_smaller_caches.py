# %% [markdown]
# # Shrink the cache further
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/10_smaller_caches.ipynb)
#
# Watch a model forget. The first story below sees all its words, and the second only its last 16 tokens, because a
# cache costs memory and somebody wanted to save some. Which of its facts did the saving cost?
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
import torch.nn.functional as F
from torch import nn

from course_lib.attention import LlamaAttention
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.inputs import dream_big
from course_lib.pictures import heatmap
from course_lib.pictures.live import decode
from course_lib.show import show
from course_lib.stories import (
    TRAINED,
    load_storyteller,
    read_held_out,
    stories,
    sure_by_distance,
    with_attention,
    with_window,
)

device = course_device()
torch.set_num_threads(1)  # products as small as ours are slower on several
words, _, _ = dream_big()
storyteller = load_storyteller("llama").to(device)
short = with_window(storyteller, 16)
print("sees all:      ", fill(storyteller.write("Once there was a"), 74), end="\n\n")
print("sees 16 tokens:", fill(short.write("Once there was a"), 74))

# %% [markdown]
# Most sentences of the second story still sound right. But which duck is this, and who is Jack? The model has
# forgotten what it told more than 16 tokens ago, and makes up something that fits. Some ways to make a cache small
# cost less than that, and some change no result at all. You write several, and keep the books: bytes on one side,
# facts on the other.
#
# ## Five factors
#
# In lesson 06 you wrote a function that computes the bytes of a cache. Here it is for a text of 131,072 tokens
# (128k), as if each layer kept the keys and values of all its kv heads and of all tokens:

# %%
cache_bytes = from_earlier("cache_bytes")
models = {  # layers, heads, kv heads, head_dim
    "Llama 3.1 8B": (32, 32, 8, 128),
    "Mistral 7B v0.1": (32, 32, 8, 128),
    "Gemma 3 27B": (62, 32, 16, 128),
    "gpt-oss-120b": (36, 64, 8, 64),
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
# (Sizes from [Llama 3](https://arxiv.org/abs/2407.21783), [Mistral 7B](https://arxiv.org/abs/2310.06825), [Gemma
# 3](https://arxiv.org/abs/2503.19786) and [gpt-oss](https://arxiv.org/abs/2508.10925).) The last column is the memory
# for a single text of a single user, and each step of writing reads all of it.
#
# `cache_bytes` multiplies five factors (and 2, for keys and values). All four models have fewer kv heads than heads:
# that is one factor. This lesson takes the *bytes per number*, the *tokens*, and the *layers* that keep them all.
# Lesson 11 trades the 2 and the kv heads for a larger head_dim.
#
# ## Fewer bits per number
#
# How many bits does a number need, if all that attention does is to compare and to add up? In the simplest scheme a
# vector is stored as small integers and one **step**, by which they are multiplied when they are read.
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
# module returns, and whose result takes its place.) The report is of 40 stories that it never read: its loss, and how
# sure it is of the right word where a story comes back to a fact.

# %%
KINDS = {"pronoun": 2, "name": 24, "animal": 14, "home": 10}  # words to choose from
guesses = "  ".join(f"{kind} {1 / number:.2f}" for kind, number in KINDS.items())


def report(name, model):
    held_out = read_held_out(model, count=40)
    sure = "  ".join(f"{kind} {held_out.sure[kind]:.2f}" for kind in KINDS)
    print(f"{name:21} loss {held_out.loss:.2f}  {sure}")
    return held_out.loss


def with_bits(bits, *projections):
    def rounded(module, args, out):  # each head's vector alone, before it is rotated
        by_head = out.unflatten(2, (-1, 16))  # (b, t, g * d) -> (b, t, g, d), d = 16
        return round_to_bits(by_head, bits).flatten(2)

    model = load_storyteller("llama").to(device)
    for attention in model.attentions:
        for name in projections:
            getattr(attention, name).register_forward_hook(rounded)
    return model


print(f"{'a blind guess':32} {guesses}")
as_trained = report("as trained, 32 bits", storyteller)
for bits in (4, 3, 2):
    report(f"{bits} bits", with_bits(bits, "k_proj", "v_proj"))

# %% [markdown]
# With 4 bits the model hardly notices, and with 3 it is still sure of each kind. With 2 bits each number is -1, 0 or
# 1 times the step, and the facts go.
#
# **Predict.** Round only one of the two to 2 bits. Which raises the loss more, rounding the `"keys"` or the
# `"values"`?

# %%
higher = {
    kind: read_held_out(with_bits(2, projection), count=20).loss
    for kind, projection in (("keys", "k_proj"), ("values", "v_proj"))
}
guess = ...  # one of the two, in quotes
predict(guess, lambda: max(higher, key=higher.get))
if guess is not ...:
    print("  ".join(f"{kind}: loss {one:.2f}" for kind, one in higher.items()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The keys, by far. A key decides to which token a query goes; a value, only what comes back from there. Some
# dimensions of the keys of large models hold numbers much larger than the rest, so each dimension gets a step of its
# own, over many tokens ([KIVI](https://arxiv.org/abs/2402.02750), 2024).
#
# </details>
#
# ## Fewer tokens: a sliding window
#
# In the simplest form a token attends only to itself and to the `window - 1` tokens before it. This is **sliding
# window attention** ([Longformer](https://arxiv.org/abs/2004.05150), 2020, there to both sides; [Mistral
# 7B](https://arxiv.org/abs/2310.06825), 2023).
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
# The upper hatched corner is the causal mask, and the lower one is what the window adds. The usual slip is a window
# of one token more, which no text shorter than the window shows
# ([window-off-by-one](https://attention-course.github.io/attention-course/mistakes/window-off-by-one.html)).
#
# What does a window cost in stories? Your mask goes into the trained storyteller, and beside it stands a model that
# was *trained* with a window of 16. Below are three trainings of both forms, lowest to highest, with the bytes of a
# story of 192 tokens:

# %%
planted = with_window(storyteller, 16, mask=window_mask)
trained = load_storyteller("window").to(device)
report("window 16, put in", planted)
report("window 16, trained", trained)
card = json.loads((TRAINED / "card.json").read_text("utf-8"))
print(f"\n{'':10} {'bytes':>7}", *(f"{kind:>13}" for kind in KINDS))
for form, kept in (("llama", 192), ("window", 16)):
    runs = [run["sure"] for run in card[form]["seeds"]]
    low_high = []
    for kind in KINDS:
        sure = [run[kind] for run in runs]  # of each training
        low_high.append(f"{min(sure):.2f} to {max(sure):.2f}")
    kept_bytes = cache_bytes(kept, 2, 2, 16, 4)
    print(f"{form:10} {kept_bytes:7,}", *(f"{one:>13}" for one in low_high))

# %% [markdown]
# A twelfth of the bytes, and this is the bill. Homes come up at the beginning and then at the end, and are lost in all
# three trainings (and half lost in one of the three that see everything). But look at the names: the model that was
# trained with the window is much surer of them than the one that got it afterwards, although both see 16 tokens. How
# does it do that?
#
# ## How far several layers reach
#
# In a single block everything before the window is lost. But the tokens that the newest one sees have themselves seen
# earlier tokens, in the block below.
#
# **Predict.** A storyteller of two blocks gets a window of 12, and we rename the hero where a long story introduces
# him. How many tokens further on, at most, do the model's predictions still change?

# %%
long_stories = [story.text for story in stories(300, seed=5) if len(story.text) > 400]
exact = with_window(storyteller, 12).to(device, torch.float64)
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
# Each block moves information `window - 1` = 11 tokens further, so the reach is blocks times (window - 1).
#
# </details>
#
# That is what *may* arrive. How much does? Here are the names that 150 stories come back to, by how many tokens ago
# the name was said last: within one window, at a distance that only the second block bridges, or beyond.

# %%
bands = {"up to 15": (0, 15), "16 to 30": (16, 30), "over 30": (31, 999)}
print(f"{'sure of names, last said':25}", *(f"{band:>9}" for band in bands))
three = {"sees all": storyteller, "trained": trained, "put in": planted}
for name, model in three.items():
    ago, sure = sure_by_distance(model, "name", count=150).T  # (repeat), (repeat)
    means = [sure[(low <= ago) & (ago <= high)].mean() for low, high in bands.values()]
    print(f"{name:25}", *(f"{mean:9.2f}" for mean in means))

# %% [markdown]
# Beyond the reach neither is better than a blind guess. The middle separates them most. To know a name there, a token
# on the way has to pick it up in the first block and hand it on in the second. The model that was trained with the
# window has *learned* this relay. The other could always look back directly.
#
# So why not mix the two? In gpt-oss every second layer has a window, of 128 tokens. In Gemma 3 five layers with a
# window of 1,024 are followed by a global one, which keeps everything.
#
# **Predict.** Of our 128k tokens, how many times as many bytes do Gemma's 10 global layers keep as its 52 with a
# window?

# %%
parts = {"window": (1024, 52), "global": (num_tokens, 10)}  # tokens, layers
kept = {name: cache_bytes(*one, 16, 128, 2) / 2**30 for name, one in parts.items()}
guess = ...  # a factor
predict(guess, lambda: kept["global"] / kept["window"], within=3)
if guess is not ...:
    print("  ".join(f"{name} {one:.1f} GiB" for name, one in kept.items()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Nearly 25 times: 128k tokens are 128 windows, so it is 10 times 128 to 52.
#
# </details>
#
# ## Attention sinks: why the first tokens must stay
#
# A large language model that was trained without a window, and gets one, writes nonsense as soon as the first tokens
# leave it, however little they mean. [Xiao et al.](https://arxiv.org/abs/2309.17453) (2023) explain this by the
# softmax. The attention weights of a query sum to 1, even if none of the keys is of use to it, so a head learns to
# put what it doesn't need on the first token, which every query can see: an **attention sink**. Its value is small,
# so it adds little to the context ([Gu et al.](https://arxiv.org/abs/2410.10781), 2024). Here is such a head, with
# made-up numbers, for the query "it":

# %%
sink_scores = torch.tensor([4.0, 0.3, -0.2, 0.5, 0.1, 0.4])
show("scores of 'it'", sink_scores, "key", words)

# %% [markdown]
# **Predict.** Now "Dream" leaves the window, and softmax runs over the other five keys. By what factor do their
# attention weights grow?

# %%
with_first, without_first = sink_scores.softmax(dim=0), sink_scores[1:].softmax(dim=0)
guess = ...  # a factor
predict(guess, lambda: without_first[0] / with_first[1], within=2)
if guess is not ...:
    show("attention weights of 'it'", with_first, "key", words, digits=3)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The five weights keep their proportions, but they must now sum to 1 by themselves. Before, they summed to 1 minus
# the weight of "Dream", so each is divided by that small number. What the head passes on of these five words grows by
# the same factor.
#
# </details>
#
# The remedy is cheap: keep the first few tokens besides the window (the paper keeps four). Exercise 1 asks for the
# mask. Do our storytellers have a sink? Their stories begin with a token that means nothing. What share of its
# attention does each head spend on it, and how large is its value in each block, if the others' mean is 1?

# %%
split = load_storyteller("weight split").to(device)
for form, model in {"llama": storyteller, "weight split": split}.items():
    spent, value = 0, 0
    for text in long_stories[:20]:
        _, weights = model.attention_weights(text)  # (block, head, query, key)
        spent += weights[:, :, 20:, 0].mean(dim=2) / 20  # (block, head)
        inputs = zip(model.attentions, model.attention_inputs(text), strict=True)
        size = torch.stack([block.v_proj(x)[0].norm(dim=1) for block, x in inputs])
        value += size[:, 0] / size[:, 1:].mean(dim=1) / 20  # (block)
    heads = f"share {spent.min():.3f} to {spent.max():.3f}"
    print(f"{form:13} {heads}; value", *(f"{one:.2f}" for one in value.tolist()))

# %% [markdown]
# In the weight split it is a weak sink: each head spends more on it than any head of Llama's form does, and its value
# is small. Does keeping it help? The bar to beat is a window with one token more, which costs the same memory:

# %%
for window, num_sinks in ((16, 0), (17, 0), (16, 1)):
    pair = [with_window(model, window, num_sinks) for model in (storyteller, split)]
    losses = [read_held_out(model, count=25).loss for model in pair]
    kept = f"window {window}, {num_sinks} sinks"
    print(f"{kept}: llama {losses[0]:.2f}, weight split {losses[1]:.2f}")

# %% [markdown]
# In Llama's form a sink is worth about as much as one more token of the window, in the weight split more.
#
# The authors call one detail crucial: they count positions *within the cache*. Keys are stored before the rotation
# and rotated in each step, so that a sink never gets further away than the cache is long. Exercise 3 computes such
# scores.
#
# ## A sink that is learned
#
# The place for unneeded attention need not be a token. The gpt-oss models give each head one learned number, a logit
# that takes part in the softmax as a score would, but belongs to no key and no value. With $z$ for this logit and
# $s_k$ for the score of key $k$:
#
# $$
# \mathrm{weight}_k = \frac{e^{s_k}}{e^{z} + \sum_j e^{s_j}}
# $$
#
# With a large $z$ a head can attend to almost nothing.
#
# **Write it yourself.** The scores have one row per head and query, and there is one logit per head. It should work
# for scores in the thousands, too.

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
# ## A cache that does not grow
#
# A mask saves no memory: the keys that it hides are still there. But a key that no later query can reach need not be
# kept, so the new one may overwrite it. The cache becomes a ring of `window` slots, a **rolling cache**. Choose
# *Window* in the figure and step through it, then *Window and a sink*:

# %%
decode()

# %% [markdown]
# The ring loses the order of the text, and that does no harm: a sum doesn't depend on the order of its terms, and our
# keys were rotated by their positions before they went in.
#
# **Write it yourself.** There are `num_sinks + window` slots, and the first `num_sinks` tokens stay in the first
# ones. In which slot is the token at `position`?

# %%
def rolling_slot(position, window, num_sinks):  # three ints -> int
    raise NotImplementedError  # two or three lines


rolling_slot = filled("rolling_slot", rolling_slot)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def rolling_slot(position, window, num_sinks):  # three ints -> int
#     if position < num_sinks:
#         return position
#     return num_sinks + (position - num_sinks) % window
# ```
#
# </details>
#
# **Write it yourself, from an empty cell:** the cache. It is called with the key and the value of *one* new token, and
# returns all that it keeps, in any order. Its `length` counts all tokens so far, because there the next position
# begins. Reserve the slots once, in two buffers, and write into them.


# %%
class MyRollingCache(nn.Module):
    def __init__(self, batch, num_kv_heads, window, head_dim, num_sinks=0):
        super().__init__()
        raise NotImplementedError

    def forward(self, key, value):
        # 2 x (b, g, 1, d) -> 2 x (b, g, kept, d): the sinks and the window
        raise NotImplementedError


MyRollingCache = filled("MyRollingCache", MyRollingCache)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# The constructor is that of `MyCache` in lesson 09, with `num_sinks + window` slots in place of `max_len`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The new token's position is the length before you count it. An int as an index takes its axis away, so what you write
# into a slot is `key[:, :, 0]`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A slot that no token has filled yet holds zeros, and a key of zeros gets a weight from softmax like any other.
#
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# class MyRollingCache(nn.Module):
#     def __init__(self, batch, num_kv_heads, window, head_dim, num_sinks=0):
#         super().__init__()
#         room = torch.zeros(batch, num_kv_heads, num_sinks + window, head_dim)
#         self.register_buffer("keys", room)
#         self.register_buffer("values", room.clone())
#         self.window, self.num_sinks = window, num_sinks
#         self.length = 0  # tokens so far, those that were overwritten included
#
#     def forward(self, key, value):
#         # 2 x (b, g, 1, d) -> 2 x (b, g, kept, d): the sinks and the window
#         slot = rolling_slot(self.length, self.window, self.num_sinks)
#         self.keys[:, :, slot] = key[:, :, 0]
#         self.values[:, :, slot] = value[:, :, 0]
#         self.length += 1
#         kept = min(self.length, self.num_sinks + self.window)
#         return self.keys[:, :, :kept], self.values[:, :, :kept]
# ```
#
# </details>
#
# As a proof, the library's layer masks a text of 23 tokens at once, and your attention of lesson 09 reads the same text
# token by token, without any mask: what isn't kept can't be seen.

# %%
MyLlamaAttention = from_earlier("MyLlamaAttention")


@torch.no_grad()
def proof(cache_class):
    torch.manual_seed(0)
    sizes = {"num_kv_heads": 3, "head_dim": 4}
    masked = LlamaAttention(24, 6, window=5, num_sinks=7, **sizes).to(device)
    layer = MyLlamaAttention(24, 24, 6, 3).to(device)
    layer.load_state_dict(masked.state_dict())
    text = 4 * torch.randn(2, 23, 24).to(device)
    cache = cache_class(2, 3, 5, 4, num_sinks=7).to(device)
    steps = [layer(text[:, [t]], cache=cache) for t in range(23)]
    torch.testing.assert_close(torch.cat(steps, dim=1), masked(text))
    return sum(buffer.nbytes for buffer in cache.buffers())


print(f"equal; the cache has {proof(MyRollingCache):,} bytes, however long the text")

# %% [markdown]
# **Now cheat.** Write a rolling cache with a mistake that this proof doesn't see.

# %%
Sneaky = ...  # a class like MyRollingCache, in place of the dots
sneak("MyRollingCache", Sneaky, proof)

# %% [markdown]
# <details><summary>A way in</summary>
#
# The proof knows one window. A class into which a window of 5 is written, whatever its argument says, passes.
#
# </details>
#
# Now it tells a story, with the weights that were trained with a window:

# %%
next_word = from_earlier("next_word")
mine = with_attention(
    trained, lambda d_in, d_out, heads: MyLlamaAttention(d_in, d_out, heads, 2, 100.0)
)


@torch.no_grad()
def tell(beginning):
    caches = [MyRollingCache(1, 2, 16, 16).to(device) for _ in mine.blocks]
    tokens = mine.encode(beginning)
    for position in range(120):
        logits = mine(tokens[:, [position]], caches)
        if position + 1 == tokens.shape[1]:
            newest = next_word(logits)[:, None]  # (batch, 1)
            if newest == tokens[:, 0]:  # the token before a story also ends it
                break
            tokens = torch.cat([tokens, newest], dim=1)
    return mine.decode(tokens[0])


told = tell("Once there was a")
print(fill(told, 80))
print("as with a mask, word for word:", told == trained.write("Once there was a"))

# %% [markdown]
# (Code that keeps all keys has another usual slip: it skips the mask while it decodes, and the window with it, see
# [window-lost-in-decode](https://attention-course.github.io/attention-course/mistakes/window-lost-in-decode.html).)
#
# ## A text without end
#
# Three texts of 600 tokens each, several stories in a row. The storyteller was trained on single stories, without a
# window.
#
# **Predict.** In which of two ways is its loss lower in the *last* 200 tokens of each text: if it `"sees all"`, or
# with your cache and a `"window"` of 32?

# %%
reader = with_attention(
    storyteller,
    lambda d_in, d_out, heads: MyLlamaAttention(d_in, d_out, heads, 2, 100.0, 600),
)
reader.max_len = 600  # or else it refuses more than the 192 of its training
rows = [[reader.encode(one.text) for one in stories(9, seed=at)] for at in (31, 32, 33)]
texts = torch.cat([torch.cat(row, dim=1)[:, :600] for row in rows])  # (text, token)


@torch.no_grad()
def losses(caches=None):  # -> (text, token)
    pieces = texts.split(1, dim=1) if caches else [texts]
    logits = torch.cat([reader(piece, caches) for piece in pieces], dim=1)
    return F.cross_entropy(logits[:, :-1].mT, texts[:, 1:], reduction="none")


rolling = [MyRollingCache(3, 2, 32, 16).to(device) for _ in reader.blocks]
by_reader = {"sees all": losses(), "window": losses(rolling)}
last = {name: loss[:, 400:].mean() for name, loss in by_reader.items()}
guess = ...  # one of the two, in quotes
predict(guess, lambda: min(last, key=last.get))
if guess is not ...:
    for name, loss in by_reader.items():
        thirds = [loss[:, at : at + 200].mean(dim=1) for at in (0, 200, 400)]
        ranges = ", ".join(f"{one.min():.2f} to {one.max():.2f}" for one in thirds)
        print(f"{name:8} loss in tokens 1 to 200, to 400, to 600: {ranges}")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The window, in each of the three texts, and by far. It sees less: one story, or the end of one and the beginning of
# the next. The other sees the heroes of all stories so far.
#
# </details>
#
# ## Your turn
#
# In the endless texts, give your cache four sinks and a window that is four tokens shorter. Does the loss fall?
#
# <details><summary>Answer</summary>
#
# A little: on average in each third, though not in each of the texts. It costs no byte.
#
# </details>
#
# ## What you have now
#
# You have fewer bits, a window, two kinds of sink and a cache that doesn't grow, and the habit of putting facts
# beside bytes.
#
# **Practise:** [five exercises](exercises/10_exercises.ipynb), about 35 minutes.
#
# **Next:** [11 Latent attention, and pages](11_latent_and_pages.ipynb).
