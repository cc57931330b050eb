# %% [markdown]
# # Llama's attention and its cache
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/08_llama.ipynb)
#
# You will write the attention of Llama from two pieces that you already have: shared heads and rotary positions. You
# will show that it computes what the library `transformers` computes, and write the cache that spares it computing the
# same keys and values again for each new word. At the end a tiny model made of your own code, trained in this notebook,
# writes a few sentences.
#
# **You need** lessons [06](06_multi_query.ipynb) and [07](07_order_and_padding.ipynb). **It takes** about 45 minutes.

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
from time import perf_counter

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import padding_keep
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict
from course_lib.pictures import heatmap

device = course_device()
# products as small as ours are slower when several threads share them
torch.set_num_threads(1)
rotary_table = from_earlier("rotary_table")
rotate = from_earlier("rotate")
real_positions = from_earlier("real_positions")

# %% [markdown]
# ## What is different in Llama
#
# Llama (Touvron et al., [LLaMA: Open and Efficient Foundation Language Models](https://arxiv.org/abs/2302.13971), 2023)
# has the attention of lesson 05, also without biases. Two things changed, not all at once:
#
# - Queries and keys are rotated by their positions, as in lesson 07, in all Llama models.
# - Groups of query heads share a head of keys and values, as in lesson 06 (Ainslie et al., [GQA: Training Generalized
#   Multi-Query Transformer Models from Multi-Head Checkpoints](https://arxiv.org/abs/2305.13245), 2023). The models of
#   the first paper share nothing yet; the large Llama 2 models and all Llama 3 models do.
#
# The base of the rotation is 10000 in Llama 2 and 500000 in Llama 3 (Grattafiori et al., [The Llama 3 Herd of
# Models](https://arxiv.org/abs/2407.21783), 2024, table 3). The slowest pair of a head of 128 elements needs this many
# tokens for a full turn:

# %%
bases = {"Llama 2": 10000.0, "Llama 3": 500000.0}
exponent = 2 * 63 / 128  # of pair 63, the last
print(f"Llama 2: {2 * torch.pi * 10000.0**exponent:,.0f} tokens")

# %% [markdown]
# **Predict** how many times as many tokens it needs in Llama 3.

# %%
guess = ...  # a number with decimals, such as 2.0
predict(guess, lambda: 500000.0**exponent / 10000.0**exponent, within=4)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The base is fifty times as large, and the exponent of the last pair is nearly 1, so the pair needs nearly fifty times
# as many tokens.
#
# </details>
#
# The larger base is not there to keep pairs from coming round: Llama 2's slowest pair doesn't do it either, and most
# pairs do it in both models (lesson 07). What it changes is how fast a score fades with the distance. Take a query and
# a key that point the same way in each pair, so that their score is 1 at distance 0, and put the key far away:

# %%
speeds = [base ** (-torch.arange(64) / 64) for base in bases.values()]
for distance in (10, 100, 1000):
    scores = [(distance * speed).cos().mean() for speed in speeds]
    print(f"distance {distance:4}: Llama 2 {scores[0]:.2f}, Llama 3 {scores[1]:.2f}")

# %% [markdown]
# Slower pairs keep more of the score at a distance of 1000, which is the reason that Xiong et al. ([Effective
# Long-Context Scaling of Foundation Models](https://arxiv.org/abs/2309.16039), 2023) give for a larger base. The
# authors of Llama 3 took 500000 from them.
#
# ## Write it
#
# **Write it yourself.** The stub holds everything that you have written before. (`register_buffer` keeps a tensor that
# `.to(device)` moves with the module and no training changes; `max_len` is the number of positions in the table.) Three
# things are missing. Rotate the queries and keys, before anything else. If there is a cache, hand it the new keys and
# values and take those of all tokens so far. And fold the queries: in lesson 06 the query heads that share a kv head
# became rows of one head, so that no key is copied. Here there are several kv heads. For each of them, put the queries
# of its heads below one another, which makes (heads per kv head) times (tokens) rows.

# %%
class MyLlamaAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads, base=10000.0, max_len=512):
        super().__init__()
        self.num_kv_heads, self.head_dim = num_kv_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        cos, sin = rotary_table(max_len, self.head_dim, base)  # (position, pair)
        self.register_buffer("cos", cos.float(), persistent=False)
        self.register_buffer("sin", sin.float(), persistent=False)

    def forward(self, x, positions=None, keep=None, cache=None):
        # (batch, token, d_in) -> (batch, token, d_out)
        per_head = (*x.shape[:2], -1, self.head_dim)
        # (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)  # (b, g, t, d): g kv heads
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        if positions is None:
            start = 0 if cache is None else cache.length
            positions = torch.arange(start, start + x.shape[1], device=x.device)
        cos, sin = self.cos[positions], self.sin[positions]  # (token, pair)
        # your lines: rotate; keys, values = cache(keys, values) if there is one;
        # folded = the queries as (b, g, h / g * q, d)
        raise NotImplementedError
        # (b, g, h / g * q, d) @ (b, g, d, k) -> (b, g, h / g * q, k)
        scores = (folded * self.head_dim**-0.5) @ keys.transpose(2, 3)
        scores = scores.view(*queries.shape[:3], -1)  # -> (b, h, q, k)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
        # the last query sees all keys
        seen = seen.tril(scores.shape[-1] - scores.shape[-2])
        hidden = ~(seen if keep is None else seen & keep)
        # not -inf: a row of padding, which sees nothing, must not become nan
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
        context = weights.view(*folded.shape[:3], -1) @ values  # (b, g, h / g * q, d)
        # -> (b, h, q, d) -> (b, q, h, d) -> (b, q, h * d)
        return self.out_proj(context.view(queries.shape).transpose(1, 2).flatten(2))


MyLlamaAttention = filled("MyLlamaAttention", MyLlamaAttention)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyLlamaAttention(nn.Module):
#     def __init__(self, d_in, d_out, num_heads, num_kv_heads, base=10000.0, max_len=512):
#         super().__init__()
#         self.num_kv_heads, self.head_dim = num_kv_heads, d_out // num_heads
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
#         self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#         cos, sin = rotary_table(max_len, self.head_dim, base)  # (position, pair)
#         self.register_buffer("cos", cos.float(), persistent=False)
#         self.register_buffer("sin", sin.float(), persistent=False)
#
#     def forward(self, x, positions=None, keep=None, cache=None):
#         # (batch, token, d_in) -> (batch, token, d_out)
#         per_head = (*x.shape[:2], -1, self.head_dim)
#         # (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d)
#         queries = self.q_proj(x).view(per_head).transpose(1, 2)
#         keys = self.k_proj(x).view(per_head).transpose(1, 2)  # (b, g, t, d): g kv heads
#         values = self.v_proj(x).view(per_head).transpose(1, 2)
#         if positions is None:
#             start = 0 if cache is None else cache.length
#             positions = torch.arange(start, start + x.shape[1], device=x.device)
#         cos, sin = self.cos[positions], self.sin[positions]  # (token, pair)
#         queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin)
#         if cache is not None:
#             keys, values = cache(keys, values)  # those of all tokens so far
#         # (b, h, q, d) -> (b, g, h / g * q, d): heads that share keys become rows
#         folded = queries.reshape(len(x), self.num_kv_heads, -1, self.head_dim)
#         # (b, g, h / g * q, d) @ (b, g, d, k) -> (b, g, h / g * q, k)
#         scores = (folded * self.head_dim**-0.5) @ keys.transpose(2, 3)
#         scores = scores.view(*queries.shape[:3], -1)  # -> (b, h, q, k)
#         seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
#         # the last query sees all keys
#         seen = seen.tril(scores.shape[-1] - scores.shape[-2])
#         hidden = ~(seen if keep is None else seen & keep)
#         # not -inf: a row of padding, which sees nothing, must not become nan
#         scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
#         weights = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
#         context = weights.view(*folded.shape[:3], -1) @ values  # (b, g, h / g * q, d)
#         # -> (b, h, q, d) -> (b, q, h, d) -> (b, q, h * d)
#         return self.out_proj(context.view(queries.shape).transpose(1, 2).flatten(2))
# ```
#
# </details>
#
# The keys go into the cache rotated, because a key's position never changes, so it has to be rotated only once. And the
# queries are folded, where much published code repeats each kv head for its query heads with
# `repeat_interleave`. The numbers are the same, but in each step all cached tokens would be copied again, and the time
# that the small cache saves would be lost (lesson 06).
#
# ## Proof: it is the one in transformers
#
# `transformers` is the library in which many open models are run. We build its class with random parameters, so nothing
# is downloaded, and copy them into yours.

# %%
try:
    from transformers.models.llama import modeling_llama as llama
except ImportError:
    print("The comparison is left out, because transformers is not installed:")
    print("pip install transformers brings it.")
    llama = None


# %%
def both(width, num_heads, num_kv_heads, base):  # their module, yours, and their table
    sizes = {"hidden_size": width, "num_attention_heads": num_heads}
    rotation = {"rope_type": "default", "rope_theta": base}
    # "eager" selects the explicit form
    config = llama.LlamaConfig(
        **sizes,
        num_key_value_heads=num_kv_heads,
        rope_parameters=rotation,
        attn_implementation="eager",
    )
    torch.manual_seed(num_kv_heads)
    theirs = llama.LlamaAttention(config, layer_idx=0).to(device, torch.float64)
    with torch.no_grad():  # so that attention is not flat
        theirs.q_proj.weight *= 3
        theirs.k_proj.weight *= 3
    mine = MyLlamaAttention(width, width, num_heads, num_kv_heads, base, 8192)
    state = theirs.state_dict()
    state["out_proj.weight"] = state.pop("o_proj.weight")
    mine.to(device, torch.float64).load_state_dict(state)
    return theirs, mine, llama.LlamaRotaryEmbedding(config).to(device)

# %% [markdown]
# Both get the same two samples. Theirs also wants its cosines and sines and a mask, which it adds to the scores:

# %%
generator = torch.Generator().manual_seed(0)


@torch.no_grad()
def difference(theirs, mine, table, num_tokens=5):
    x = torch.randn(2, num_tokens, mine.q_proj.in_features, generator=generator)
    x = x.to(device, torch.float64)
    angles = table(x, torch.arange(num_tokens, device=device)[None])
    hidden = torch.full((num_tokens, num_tokens), -torch.inf, dtype=x.dtype).triu(1)
    return (mine(x) - theirs(x, angles, hidden.to(device))[0]).abs().max().item()


# %%
for num_kv_heads in (1, 2, 4) if llama else ():
    off = difference(*both(24, 4, num_kv_heads, 10000.0))
    print(f"{num_kv_heads} kv heads: like transformers {off < 1e-5}")

# %% [markdown]
# So far that is five tokens, heads of six numbers and only one base. Now the settings of Llama 3 8B: heads of 128
# numbers, four query heads to a kv head, base 500000, room for 8192 positions, and a text of 520 tokens. (We take a
# quarter of its heads, so that it runs in seconds.) The second line is the same module with Llama 2's base in its
# table:

# %%
if llama:
    theirs, mine, table = both(1024, 8, 2, 500000.0)
    off = difference(theirs, mine, table, 520)
    print(f"Llama 3's settings: like transformers {off < 1e-4}")
    cos, sin = rotary_table(8192, 128, 10000.0)
    mine.cos.copy_(cos)
    mine.sin.copy_(sin)
    print(f"with base 10000: off by {difference(theirs, mine, table, 520):.1f}")

# %% [markdown]
# The proof sees the base. What is left below 1e-4 is rounding: `transformers` computes its angles in float32 and you
# compute them in float64. With their angles in your table the two should agree to the last digits:

# %%
if llama:
    angles = table(torch.empty(1, device=device).double(), torch.arange(520)[None])
    # they repeat the 64 pairs for both halves
    mine.cos[:520], mine.sin[:520] = (one[0, :, :64].to(device) for one in angles)
    print("below 1e-12:", difference(theirs, mine, table, 520) < 1e-12)

# %% [markdown]
# So you have written the attention of Llama 2 and Llama 3. (Llama 3.1 and its successors also slow the slowest pairs
# down, and Llama 4 changes more: some of its layers have no rotation, others see only a part of the text. Softmax in
# float32, as in the code of `transformers`, changes next to nothing where a model computes in half precision, because
# PyTorch's `softmax` then computes in float32 inside and rounds its result once.)
#
# The files that Meta publishes have one more trap: their pairs are neighbours. In exercise 5 of [the
# sheet](exercises/08_exercises.ipynb) you bring such weights into the order of halves.
#
# ## A cache, one token at a time
#
# A model writes one word after the other. It could read the whole text again for each of them, and would write the
# same. But the keys and values of the words so far don't change when a new word comes, because the mask keeps every
# word from looking ahead, so they are kept, and each step computes those of the new word only (lesson 06). The cache, a
# module so that `.to(device)` moves it, reserves room once and fills it.
#
# **Write it yourself:** put the new keys and values behind those that are there, add to the length, and return all
# tokens so far.

# %%
class MyCache(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, head_dim):
        super().__init__()
        room = torch.zeros(batch, num_kv_heads, max_len, head_dim)
        self.register_buffer("keys", room)
        self.register_buffer("values", room.clone())
        self.length = 0  # tokens so far

    def forward(self, keys, values):
        # 2 x (b, g, new, d) -> 2 x (b, g, length, d): all tokens so far
        end = self.length + keys.shape[2]
        if end > self.keys.shape[2]:
            raise ValueError(f"the cache has no room for {end} tokens")
        raise NotImplementedError  # your lines


MyCache = filled("MyCache", MyCache)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyCache(nn.Module):
#     def __init__(self, batch, num_kv_heads, max_len, head_dim):
#         super().__init__()
#         room = torch.zeros(batch, num_kv_heads, max_len, head_dim)
#         self.register_buffer("keys", room)
#         self.register_buffer("values", room.clone())
#         self.length = 0  # tokens so far
#
#     def forward(self, keys, values):
#         # 2 x (b, g, new, d) -> 2 x (b, g, length, d): all tokens so far
#         end = self.length + keys.shape[2]
#         if end > self.keys.shape[2]:
#             raise ValueError(f"the cache has no room for {end} tokens")
#         self.keys[:, :, self.length : end] = keys
#         self.values[:, :, self.length : end] = values
#         self.length = end
#         return self.keys[:, :, :end], self.values[:, :, :end]
# ```
#
# </details>
#
# Now six words, one at a time, and all at once:

# %%
words = ["Dream", "big", "and", "work", "for", "it"]
torch.manual_seed(8)
# 4 query heads, 2 kv heads, 6 elements each
layer = MyLlamaAttention(8, 24, 4, 2).to(device)
sentence = 2 * torch.randn(1, 6, 8, generator=generator).to(device)

# %%
with torch.no_grad():
    at_once = layer(sentence)
    cache = MyCache(1, 2, 8, 6).to(device)  # room for eight tokens
    for at, word in enumerate(words):
        step = layer(sentence[:, at : at + 1], cache=cache)
        torch.testing.assert_close(step[:, 0], at_once[:, at])
        print(f"{word:6} {cache.length} in the cache; equal to row {at} of all at once")

# %% [markdown]
# Each step got one word and gave the row that the whole sentence gives. The word's position came from `cache.length`.
# Without it, each word would be rotated as if it were the first.
#
# And what does it save? Here a wider layer reads a text of 500 tokens, one token more in each step, first the whole
# text again and again, then with a cache:

# %% tags=["timing", "nbval-ignore-output"]
wide = MyLlamaAttention(256, 256, 8, 2).to(device)
text = torch.randn(1, 500, 256, generator=generator).to(device)
cache = MyCache(1, 2, 500, 32).to(device)
with torch.no_grad():
    start = perf_counter()
    for end in range(1, 501):
        again = wide(text[:, :end])
    middle = perf_counter()
    for at in range(500):
        last = wide(text[:, at : at + 1], cache=cache)
    seconds = middle - start, perf_counter() - middle
torch.testing.assert_close(last[:, 0], again[:, -1])
for name, one in zip(("without a cache", "with a cache"), seconds, strict=True):
    print(f"{name:15}: {500 / one:6,.0f} tokens per second")

# %% [markdown]
# Without the cache 125,250 tokens are projected, the sum of 1 to 500, and with it 500. The longer the text, the larger
# the difference. (For the sentences of a few words at the end of this lesson you wouldn't notice it.)

# %%
print(f"{sum(range(1, 501)):,}")

# %% [markdown]
# What if several words come at once, while others are in the cache? To try it, we take two words out of the cache
# again, by making its length smaller, and feed both in one step. **Predict** how many of the 2 times 6 scores of a head
# the causal mask hides.

# %%
guess = ...  # of 12
predict(guess, lambda: int((~torch.ones(2, 6, dtype=torch.bool).tril(6 - 2)).sum()))

# %%
with torch.no_grad():
    cache = MyCache(1, 2, 8, 6).to(device)
    _ = layer(sentence, cache=cache)
    cache.length = 4  # "for" and "it" are forgotten
    two_words = layer(sentence[:, 4:], cache=cache)
torch.testing.assert_close(two_words, at_once[:, 4:])
print("two words in one step: equal to rows 4 and 5 of all at once")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# One is hidden, because "for" must not see "it". All other scores are between a word and itself or words before it. The
# diagonal of the mask ends in the *bottom right* corner, because the last query belongs to the last key.
#
# </details>
#
# PyTorch's `is_causal=True` begins the diagonal in the *top left* corner, which is right only if there are as many
# queries as keys. With zeros as queries the scores are all equal, and with the identity matrix as values the output is
# the table of attention weights:

# %%
queries = torch.zeros(1, 1, 2, 4, device=device)
keys = torch.zeros(1, 1, 6, 4, device=device)
eye = torch.eye(6, device=device)[None, None]
top_left = F.scaled_dot_product_attention(queries, keys, eye, is_causal=True)
title = "is_causal=True, two queries and six keys"
heatmap(top_left[0, 0], words[4:], key_words=words, title=title)

# %% [markdown]
# The newest word, "it", sees only the two *oldest* words, and no error is raised. So with a cache and more than one
# new word you must pass a mask, as your module does with `seen`. (PyTorch has one ready: causal_lower_right in
# torch.nn.attention.bias.) A single new word may see all keys, so it needs no mask, but `is_causal` must stay False.
#
# ## A padded batch with a cache
#
# Sentences of different lengths can be continued together. They are padded on the left, so that their last words are in
# one column. The mask hides the padding, and the positions count only real words. We begin with two prompts of four and
# two words:

# %%
lengths = torch.tensor([4, 2], device=device)  # real words of each sentence so far
padding = torch.zeros_like(sentence[:, :2])
padded = torch.cat([padding, sentence[:, 3:5]], dim=1)
prompts = torch.cat([sentence[:, :4], padded])
# (batch, 1, width): "for" and "it"
new_word = torch.cat([sentence[:, 4:5], sentence[:, 5:]])
with torch.no_grad():
    cache = MyCache(2, 2, 8, 6).to(device)
    keep = padding_keep(lengths, side="left")  # (batch, 1, 1, key)
    # (batch, 1, token), the same for all heads
    positions = real_positions(keep[:, 0, 0])[:, None]
    _ = layer(prompts, positions, keep, cache)
print("positions of the prompts:", positions[:, 0].tolist())

# %% [markdown]
# The second sentence, "work for", has two columns of padding. Its next word, "it", goes into column 4. **Predict** the
# positions of the two new words, as a pair such as (1, 2).

# %%
keep = padding_keep(lengths + 1, side="left")  # for all keys, those in the cache too
# (batch, 1, 1): of the last token
positions = real_positions(keep[:, 0, 0])[:, None, -1:]
guess = ...  # (first sentence, second sentence)
predict(guess, lambda: positions.flatten())

# %%
with torch.no_grad():
    written = layer(new_word, positions, keep, cache)
    torch.testing.assert_close(written[0], layer(sentence[:, :5])[0, -1:])
    torch.testing.assert_close(written[1], layer(sentence[:, 3:])[0, -1:])
print("each new word is what it would be if its sentence were alone")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# They are (4, 2). The words before it are at positions 0 to 3 in the first sentence and at 0 and 1 in the second, so
# the position of the next word is the number of real words so far, and padding isn't counted.
#
# </details>
#
# Now do exercises 1 to 3 of [the sheet](exercises/08_exercises.ipynb), on a cache that grows, on tokens that are taken
# back and on the positions of new tokens.
#
# ## A model that writes
#
# The rest of a Llama is short: an embedding per word, many blocks, and a matrix that turns the vector of each token
# into one number per word of the vocabulary, the **logits**. A block adds to each token what attention collects from it
# and the tokens before it, and then what a network of two layers computes from the token alone (in Llama it has a third
# matrix, as a gate). Before each of the two, `RMSNorm` divides each vector by its root mean square.

# %%
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = MyLlamaAttention(width, width, 4, 2)
        widen, narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.network = nn.Sequential(widen, nn.SiLU(), narrow)

    def forward(self, x, positions=None, keep=None, cache=None):
        x = x + self.attention(self.norm_1(x), positions, keep, cache)
        return x + self.network(self.norm_2(x))

# %%
class TinyLlama(nn.Module):
    def __init__(self, num_words, width=32):
        super().__init__()
        self.embedding = nn.Embedding(num_words, width)
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.norm = nn.RMSNorm(width)
        self.logits = nn.Linear(width, num_words, bias=False)

    def forward(self, ids, positions=None, keep=None, caches=(None, None)):
        # (batch, token) -> (b, t, vocabulary)
        x = self.embedding(ids)
        # each layer has a cache of its own
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, positions, keep, cache)
        return self.logits(self.norm(x))

# %% [markdown]
# Our model learns from twelve sentences, and each of their words gets a number:

# %%
text = """dream big and work for it . dream of small steps and take one .
work for a dream that is yours . work in the morning and rest at night .
big dreams begin with small steps . small steps lead to big dreams .
rest when the work is done . take one step and then the next .
a dream needs work and work needs a dream . the night is for dreams .
the morning is for work . begin small and dream big ."""

# %%
lines = [f"{line.strip()} ." for line in text.split(".")[:-1]]  # one sentence each
vocabulary = sorted(set(text.split()))
numbers = [[vocabulary.index(word) for word in line.split()] for line in lines]
rows = [torch.tensor(one) for one in numbers]
# padded on the right
ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100).to(device)
print(len(vocabulary), "words; a batch of", tuple(ids.shape))

# %% [markdown]
# At each word the model has to predict the next one, so the targets are the same numbers, moved by one place.
# `cross_entropy` is small where the right word gets a high probability, and it leaves out targets of -100, which are
# the padding. In the input `clamp` turns the padding into word 0, which is harmless, because it comes after all real
# words. In each step `backward` computes how the loss depends on each parameter, and the optimizer, here Adam, moves
# all parameters a little so that the loss falls ([lesson 10](10_what_heads_learn.ipynb) says more).

# %% tags=["trained", "nbval-ignore-output"]
torch.manual_seed(1)
model = TinyLlama(len(vocabulary)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(150):
    logits = model(ids[:, :-1].clamp(min=0))  # (sentence, token, vocabulary)
    targets = ids[:, 1:].flatten()
    loss = F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0 or step == 149:
        print(f"step {step:3}: loss {loss.item():.3f}")

# %% [markdown]
# The loss falls from about 3.6 to nearly 0.06. It can't reach 0, because after a first word "the" no model can know
# whether "night" or "morning" comes. Where a first word begins two sentences, the best guess costs $\ln 2$ in each:

# %%
first_words = ids[:, 0].tolist()
undecided = sum(first_words.count(word) == 2 for word in first_words)
lowest = undecided * torch.tensor(2.0).log() / (ids[:, 1:] >= 0).sum()
print(f"the lowest possible loss: {lowest:.3f}")

# %% [markdown]
#
# **Write it yourself:** which word is the most likely after the last one? If a model takes it each time, this is called
# **greedy decoding**.

# %%
def next_word(logits):  # (batch, token, vocabulary) -> (batch), int64
    raise NotImplementedError  # your line


next_word = filled("next_word", next_word)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def next_word(logits):  # (batch, token, vocabulary) -> (batch), int64
#     return logits[:, -1].argmax(dim=-1)  # of the last token: the id of the largest
# ```
#
# </details>

# %%
@torch.no_grad()
def write(prompt, with_cache, most=9):
    numbers = [vocabulary.index(word) for word in prompt.split()]
    ids = torch.tensor([numbers], device=device)
    caches = (None, None)
    if with_cache:
        caches = [MyCache(1, 2, 20, 8).to(device) for _ in model.blocks]
    read = ids  # what the model has to read in this step
    while ids.shape[1] < most and vocabulary[ids[0, -1]] != ".":
        newest = next_word(model(read, caches=caches))[:, None]
        ids = torch.cat([ids, newest], dim=1)
        read = newest if with_cache else ids
    return " ".join(vocabulary[number] for number in ids[0].tolist())

# %%
for prompt in ("the night", "the morning", "small steps", "work in"):
    print(write(prompt, with_cache=True))

# %% [markdown]
# Your code has written four sentences. All four are in the text, so they show only that the model has memorized it. But
# after "the night is for" it writes "dreams", and after "the morning is for" it writes "work". The last two words that
# it has read are the same, so the difference must have come from the second word, and only attention carries anything
# from one word to another.
#
# From their first *two* words the model completes all twelve sentences word for word, with the cache and without it.
# **Predict** how many it completes from their first word alone. (Look at the text.)

# %%
def complete(num_words, with_cache=True):  # all sentences, from their first words
    prompts = [" ".join(line.split()[:num_words]) for line in lines]
    return [write(prompt, with_cache, most=11) for prompt in prompts]


assert complete(2) == complete(2, with_cache=False) == lines
right = [one == line for one, line in zip(complete(1), lines, strict=True)]
guess = ...  # of 12
predict(guess, lambda: sum(right))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Nine. Three words ("dream", "work", "the") begin two sentences each, and greedy decoding always writes the same one of
# the two. No two sentences begin with the same two words, so from two words there is always one right continuation.
#
# </details>
#
# Exercise 4 of [the sheet](exercises/08_exercises.ipynb) is the loop itself, for a whole batch.
#
# ## Your turn
#
# 1. Give `write` a prompt that is in no sentence, such as `write("begin big", with_cache=True)` or
#    `write("dream of work", with_cache=True)`. What does the model do?
# 2. Take the position away: in `write`, pass `positions=torch.zeros(1, dtype=torch.long, device=device)` to the model
#    in each step, with the cache. Does it still find "small steps lead to big dreams"?
# 3. Make the cache too small, with room for 4 tokens. What happens, and what would happen without the `ValueError`?
#
# <details><summary>Answers</summary>
#
# 1. It goes on like a sentence that resembles the prompt, and may cross from one sentence into another: "begin big and
#    work for it ." is in no line of the text.
# 2. It does, and most of the twelve beginnings are still completed (ten of them in our run). Two causal layers can know
#    something about order without being told, as you measured in lesson 07.
# 3. The fifth token raises the error. Without it `self.keys[:, :, 4:5] = keys` would write one token into a slice of
#    size 0, which PyTorch accepts without an error. The token would be lost, and the model would go on without it. (In
#    our run it still wrote ten of the twelve sentences.)
#
# </details>
#
# ## What you have now
#
# You have Llama's attention, equal to the one in `transformers`, its cache, and a model made of both that writes. The
# cache needs room for each token in each layer, and the next lesson makes it smaller.
#
# **Practise:** [five exercises](exercises/08_exercises.ipynb), about twenty-five minutes.
#
# **Click through it:** [Llama's attention](https://attention-course.github.io/attention-course/recordings/llama.html)
# and [a decoding step](https://attention-course.github.io/attention-course/recordings/decoding_step.html)
# as recorded runs. Choose any number there, and you see where it came from and where it goes.
#
# **Next:** [09 Shrink the cache further](09_smaller_caches.ipynb).
