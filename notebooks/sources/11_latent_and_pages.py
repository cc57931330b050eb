# %% [markdown]
# # Latent attention, and pages
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/11_latent_and_pages.ipynb)
#
# DeepSeek-V3 has four times as many heads in each layer as Llama 3.1 8B, in nearly twice as many layers. Yet for each
# token it keeps about half as much. It drops no token and rounds nothing. How? The next picture holds the answer,
# twice: the outlined vector is most of what one layer keeps of a token.
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
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import BlockPool, KVCache, LatentAttention, PagedKVCache
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.pictures import draw_latent, draw_pages
from course_lib.stories import (
    TRAINED,
    load_storyteller,
    read_held_out,
    tokens_per_second,
)
from course_lib.stories import stories as some_stories

device = course_device()
torch.set_num_threads(1)  # products as small as ours are slower on several
to_heads = from_earlier("to_heads")
torch.manual_seed(4)
widths = {"latent_dim": 12, "head_dim": 8, "rotary_dim": 4}
layer = LatentAttention(32, 5, **widths).to(device)  # 32 numbers a token, 5 heads
samples = torch.randn(2, 6, 32).to(device)  # (b, t, m)
draw_latent(layer, samples)

# %% [markdown]
# In 2024 DeepSeek published **multi-head latent attention** (MLA): each token is projected *down* to one
# short vector, the **latent**, and what is cached is the latent and a short key for the position ([DeepSeek-AI,
# DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model,
# 2024](https://arxiv.org/abs/2405.04434)). From it the keys and values of all heads are projected *up* again when they
# are needed, as in the upper half. The lower half never makes them. In this lesson you write the lower half, as a class
# that tells the stories of a trained model, and then you share the memory that is left among several stories.
#
# ## Down, and up again
#
# Begin without positions and without a cache, with the library's layers and in float64 for a strict comparison:

# %%
exact = LatentAttention(32, 5, **widths).to(device, torch.float64)
x = 5 * samples.double()
latents = exact.latent_norm(exact.latent_proj(x))  # (b, t, m) -> (b, t, l), cached
queries = to_heads(exact.q_proj(x), 5)  # (b, h, t, d)
keys, values = (to_heads(up(latents), 5) for up in (exact.k_proj, exact.v_proj))
scores = queries @ keys.transpose(2, 3)
context = (scores * 8**-0.5).softmax(dim=-1) @ values
in_heads = keys[0, :, 0].numel() + values[0, :, 0].numel()
print("numbers per token:", in_heads, "in the heads,", latents.shape[2], "as a latent")

# %% [markdown]
# The keys and values would grow with the number of heads. The latent doesn't, because all heads read the same one.
#
# ## Absorb
#
# There is a catch: before each step the keys and values of *all* tokens would have to be projected up again. Write the
# score of one head as a product, where $q$ and $c$ are rows, $c$ is the latent of the key's token and $W$ holds the
# head's rows of the weight matrix of `k_proj`:
#
# $$
# q \, k^{\top} = q \, (c \, W^{\top})^{\top} = q \, (W c^{\top}) = (q \, W) \, c^{\top}
# $$
#
# A product of three matrices can begin with either pair. Instead of projecting every latent up to a key, project the
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
absorbed = torch.stack([latent_queries(one, exact.k_proj.weight) for one in queries])
torch.testing.assert_close(absorbed @ latents[:, None].transpose(2, 3), scores)
print("queries:", tuple(absorbed.shape), " latents:", tuple(latents.shape))

# %% [markdown]
# There are queries for five heads, and one set of vectors with which all of them are compared. You know that form. The
# values can be absorbed as well: to mix the latents and then project the mix is the same as to project all latents and
# then mix them. So the latents are keys *and* values of multi-query attention, and your function from lesson 06
# computes it. It divides by the root of its queries' width, which is now that of a latent, so we correct the scale
# first:

# %%
multi_query = from_earlier("multi_query")
scaled = absorbed * (12 / 8) ** 0.5
mix = multi_query(scaled, latents, latents)  # (b, h, q, l): latents, mixed by each head
value_up = exact.v_proj.weight.view(5, 8, 12)  # (h * d, l) -> (h, d, l)
torch.testing.assert_close(mix @ value_up.transpose(1, 2), context)

# %% [markdown]
# The assertion passed: latent attention is multi-query attention in which the latent is both the key and the value of
# each token. Is absorbing always the cheaper order? The next cell counts the operations of a larger layer in both
# orders, for a prompt of 400 tokens at once, and for its last token alone.
#
# **Predict.** In which of the two does the absorbed form need fewer: `"prompt"`, `"token"`, `"both"` or `"neither"`?

# %%
large = LatentAttention(256, 16, latent_dim=64, head_dim=16, rotary_dim=8)


@torch.no_grad()
def operations(new, absorb):  # for the last `new` of 400 tokens
    text, cache = torch.randn(1, 400, 256), KVCache(1, 1, 400, 8, value_dim=64)
    if new < 400:
        large(text[:, :-new], cache=cache)
    with FlopCounterMode(display=False) as counter:
        large(text[:, -new:], cache=cache, absorb=absorb)
    return counter.get_total_flops()


counts = {
    kind: (operations(new, absorb=False), operations(new, absorb=True))
    for kind, new in (("prompt", 400), ("token", 1))
}
fewer = [kind for kind, (up, absorb) in counts.items() if absorb < up]
guess = ...  # one of the four, in quotes
predict(guess, lambda: {0: "neither", 1: "".join(fewer), 2: "both"}[len(fewer)])
if guess is not ...:
    for kind, (up, absorb) in counts.items():
        print(f"{kind}: absorbing needs {absorb / up:.2f} times the operations")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The token. Projecting up is work for each *cached* token, absorbing is work for each *new* one, and a latent is wider
# than a head, so that each score costs more multiplications. A single new token saves all the projecting up. A prompt
# would pay for its many scores. That is why the library's class has both orders: a long prompt is better projected up,
# and a single new word better absorbed.
#
# </details>
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
# It stands between the query and $W$, and it differs from key to key. Take the last of our six tokens, rotate
# queries and keys, and compare with scores that were absorbed as above, with no rotation at all.
#
# **Predict.** For how many of the six keys are the absorbed scores of the last token right?

# %%
rotary_table, rotate = from_earlier("rotary_table"), from_earlier("rotate")
cos, sin = (one.to(device) for one in rotary_table(6, 8, 100.0))
rotated = rotate(queries, cos, sin) @ rotate(keys, cos, sin).transpose(2, 3)
plain = absorbed @ latents[:, None].transpose(2, 3)
right = ((rotated - plain)[:, :, -1].abs() < 1e-9).all(dim=0).all(dim=0)  # (key)
guess = ...  # a number from 0 to 6
predict(guess, lambda: int(right.sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# For one: its own, at distance 0, where the two rotations cancel. An absorbed query that fits another key needs that
# key's distance inside it, so a query would have to be absorbed once for each distance. Nothing is saved then.
#
# </details>
#
# DeepSeek therefore **decouples** the positions: a query and a key get a second, short part, and only this part is
# rotated. A score is the sum of two products. The first can be absorbed, and the second is with a short rotary key,
# which all heads share:
#
# $$
# \mathrm{score} = \frac{(q \, W) \, c^{\top} + (q^{\mathrm{rot}} R_m)(k^{\mathrm{rot}} R_n)^{\top}}
# {\sqrt{d + d^{\mathrm{rot}}}}
# $$
#
# ## Write it
#
# These are the parameters of the first picture's layer, under the names that trained weights will have. Each is the
# weight matrix of a `Linear` layer without bias, except the norm's:

# %%
for name, parameter in layer.named_parameters():
    print(f"{name:22} {tuple(parameter.shape)}")

# %% [markdown]
# A cache takes what is new, (batch, 1, new, width), and returns that of all tokens so far; `cache.length` is how many
# there were before. Here the latent takes the place of a value, and the rotary key that of a key:

# %%
cache = KVCache(2, 1, 6, head_dim=4, value_dim=12, device=device)
with torch.no_grad():
    for piece in samples.split([5, 1], dim=1):
        rotary_keys = layer.rotary_k_proj(piece)[:, None]  # (b, t, r) -> (b, 1, t, r)
        latents = layer.latent_norm(layer.latent_proj(piece))[:, None]
        rotary_keys, latents = cache.append(rotary_keys, latents)
        print(cache.length, "tokens:", tuple(rotary_keys.shape), tuple(latents.shape))

# %% [markdown]
# (The rotation is missing here.) **Write it yourself, from an empty class**, in the absorbed form. The norm is
# `nn.RMSNorm` with an epsilon of one millionth, which is added to the mean square before the root. All other steps are
# those of lessons 05 to 09.


# %%
class MyLatentAttention(nn.Module):
    def __init__(self, d_in, num_heads, latent_dim, head_dim, rotary_dim, base=100.0):
        super().__init__()
        raise NotImplementedError

    def forward(self, x, cache=None):  # (batch, token, d_in) -> the same shape
        raise NotImplementedError


MyLatentAttention = filled("MyLatentAttention", MyLatentAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make four things of `x`: queries (b, h, t, d) and rotary queries (b, h, t, r) with `to_heads`; latents (b, 1, t, l)
# and rotary keys (b, 1, t, r), for which `[:, None]` makes the axis. Rotate what is called rotary, with the rows of
# `rotary_table` that begin at the cache's length. Only then comes the cache.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `self.k_proj.weight.unflatten(0, (self.num_heads, -1))` is (h, d, l), which `@` broadcasts over the samples. Add the
# two products of the scores first, then scale, then mask, the last query with the last key.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Let each head mix the latents with its attention weights, (b, h, q, l). Then its rows of `v_proj`, transposed, turn
# the mix into (b, h, q, d), and from there on all is as in lesson 05.
#
# </details>
#
# <details><summary>Solution</summary>
#
# ```python
# class MyLatentAttention(nn.Module):
#     def __init__(self, d_in, num_heads, latent_dim, head_dim, rotary_dim, base=100.0):
#         super().__init__()
#         self.num_heads, self.head_dim, self.rotary_dim = num_heads, head_dim, rotary_dim
#         self.q_proj = nn.Linear(d_in, num_heads * head_dim, bias=False)
#         self.rotary_q_proj = nn.Linear(d_in, num_heads * rotary_dim, bias=False)
#         self.latent_proj = nn.Linear(d_in, latent_dim, bias=False)  # down
#         self.latent_norm = nn.RMSNorm(latent_dim, eps=1e-6)
#         self.rotary_k_proj = nn.Linear(d_in, rotary_dim, bias=False)
#         self.k_proj = nn.Linear(latent_dim, num_heads * head_dim, bias=False)  # up
#         self.v_proj = nn.Linear(latent_dim, num_heads * head_dim, bias=False)
#         self.out_proj = nn.Linear(num_heads * head_dim, d_in, bias=False)
#         self.base = base
#
#     def forward(self, x, cache=None):  # (batch, token, d_in) -> the same shape
#         start = 0 if cache is None else cache.length
#         table = rotary_table(start + x.shape[1], self.rotary_dim, self.base)
#         cos, sin = (one[start:].to(x) for one in table)  # of the new tokens
#         queries = to_heads(self.q_proj(x), self.num_heads)  # (b, h, t, d)
#         rotary_queries = to_heads(self.rotary_q_proj(x), self.num_heads)  # (b, h, t, r)
#         rotary_queries = rotate(rotary_queries, cos, sin)
#         rotary_keys = rotate(self.rotary_k_proj(x)[:, None], cos, sin)  # (b, 1, t, r)
#         latents = self.latent_norm(self.latent_proj(x))[:, None]  # (b, 1, t, l)
#         if cache is not None:
#             rotary_keys, latents = cache.append(rotary_keys, latents)
#         # (h * d, l) -> (h, d, l)
#         key_up = self.k_proj.weight.unflatten(0, (self.num_heads, -1))
#         value_up = self.v_proj.weight.unflatten(0, (self.num_heads, -1))
#         # (b, h, q, d) @ (h, d, l) @ (b, 1, l, k) -> (b, h, q, k)
#         scores = queries @ key_up @ latents.transpose(2, 3)
#         scores = scores + rotary_queries @ rotary_keys.transpose(2, 3)
#         scores = scores * (self.head_dim + self.rotary_dim) ** -0.5
#         seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
#         seen = seen.tril(scores.shape[-1] - scores.shape[-2])
#         weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
#         # (b, h, q, k) @ (b, 1, k, l) @ (h, l, d) -> (b, h, q, d)
#         context = weights @ latents @ value_up.transpose(1, 2)
#         return self.out_proj(context.transpose(1, 2).flatten(2))
# ```
#
# </details>
#
# The proof: two texts of 9 tokens, all sizes differ, the library projects up and yours absorbs; then once more in
# pieces, with a cache.

# %%
@torch.no_grad()
def proof(module_class):
    torch.manual_seed(5)
    sizes = {"latent_dim": 11, "head_dim": 7, "rotary_dim": 6}
    reference = LatentAttention(29, 3, **sizes, rope_theta=100.0).to(device)
    mine = module_class(29, 3, 11, 7, 6).to(device)
    mine.load_state_dict(reference.state_dict())
    text = 4 * torch.randn(2, 9, 29).to(device)
    torch.testing.assert_close(mine(text), reference(text))
    cache = KVCache(2, 1, 9, 6, value_dim=11, device=device)
    pieces = [mine(piece, cache=cache) for piece in text.split([4, 1, 1, 3], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), reference(text))
    return cache.nbytes // (2 * 9 * 4)


print("equal; cached per token:", proof(MyLatentAttention), "numbers of 4 bytes")

# %% [markdown]
# **Now cheat.** Write a class with a mistake that this proof doesn't see.

# %%
Sneaky = ...  # a class like MyLatentAttention, in place of the dots
sneak("MyLatentAttention", Sneaky, proof)

# %% [markdown]
# <details><summary>A way in</summary>
#
# The proof knows one width of a head. A class that always divides by the root of the same number passes.
#
# </details>
#
# ## It writes the same stories
#
# A storyteller was trained with latent attention. Your class gets its weights, twice with a mistake, which we make by
# changing queries. One divides the scores by the root of the width that the absorbed queries really have, as
# `multi_query` would. The other loses the first of the two products. In random order:

# %%
teller = load_storyteller("latent").to(device)


@torch.no_grad()
def told_by(factor, rotary_factor):  # for what the two projections make of queries
    # `like`: the same sizes with another attention, here yours, and random weights
    model = teller.like(lambda *sizes: MyLatentAttention(sizes[0], sizes[2], 24, 16, 8))
    model.load_state_dict(teller.state_dict())
    for attention in model.attentions:
        attention.q_proj.weight *= factor
        attention.rotary_q_proj.weight *= rotary_factor
    return model.eval()


# the root of 24 + 8 in place of that of 16 + 8
wrong_scale = ((16 + 8) / (24 + 8)) ** 0.5
factors = {"yours": (1, 1), "scale": (wrong_scale, wrong_scale), "product": (0, 1)}
tellers = {name: told_by(*both) for name, both in factors.items()}
beginning = "Once there was a"
drawn = torch.randperm(3, generator=torch.Generator().manual_seed(3)).tolist()
texts = [one.write(beginning) for one in tellers.values()]
for letter, at in zip("ABC", drawn, strict=True):
    print(f"{letter}: {fill(texts[at][:300], 80)}")

# %% [markdown]
# **Predict.** One of them is yours. Which one can you rule out?

# %%
kept = {name: read_held_out(model, count=30) for name, model in tellers.items()}
worst = max(kept, key=lambda name: kept[name].loss)
guess = ...  # a letter in quotes
predict(guess, lambda: "ABC"[drawn.index(list(factors).index(worst))])
if guess is not ...:
    print("yours is the stored model's story:", texts[0] == teller.write(beginning))
    for name, one in kept.items():
        facts = (f"{kind} {one.sure[kind]:.2f}" for kind in ("name", "animal", "home"))
        print(f"{name:7} loss {one.loss:.3f}", *facts, sep="  ")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The one with a single product gives itself away: it compares positions alone, and forgets who is who. Between the
# other two nobody can choose: the wrong scale tells a story that is as good as the right one, and its loss differs in
# the third decimal. It is another model than the one that was trained, and only a comparison shows it. The absorbed
# form invites this mistake
# ([wrong-scale](https://attention-course.github.io/attention-course/mistakes/wrong-scale.html)).
#
# </details>
#
# What does it cost, and what does it keep? Here are the storytellers that you know, three training runs each, lowest
# to highest:

# %%
card = json.loads((TRAINED / "card.json").read_text("utf-8"))
print(f"{'':13} bytes per token {'loss':>13} {'name':>13} {'animal':>13}")
for form in ("weight split", "llama", "multi-query", "latent"):
    bytes_per_token = tokens_per_second(
        load_storyteller(form), num_tokens=2, rounds=1
    ).bytes_per_token
    runs = card[form]["seeds"]
    columns = [[run["loss"] for run in runs]]
    columns += [[run["sure"][kind] for run in runs] for kind in ("name", "animal")]
    ranges = (f"{min(one):.2f} to {max(one):.2f}" for one in columns)
    print(f"{form:13} {bytes_per_token:15.0f}", *(f"{one:>13}" for one in ranges))

# %% [markdown]
# The latent form keeps as few bytes as multi-query attention, a quarter of the weight split's. At its best it is as
# sure of the facts, but it was not at its best every time, and multi-query attention was. DeepSeek reports the opposite
# order for far larger models: in appendix D of its paper, multi-head attention did better than sharing heads, and
# latent attention better than multi-head.
#
# ## No waste: a cache in pages
#
# The last idea changes no result. A server doesn't know how long an answer will become, and if it reserves memory for
# the longest one possible, much of it stays empty. [Kwon et al., Efficient Memory Management for Large Language Model
# Serving with PagedAttention, 2023](https://arxiv.org/abs/2309.06180) cut the memory into **blocks** of a few tokens,
# as an operating system cuts it into pages. A sequence takes a block when it needs one, and its **block table** lists
# its blocks in their order. Choose *Pages* in the figure of [lesson 09](09_llama.ipynb) to see it grow.
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
# Texts that begin alike, such as those of all users who get the same instructions first, can share the blocks of their
# beginning. Your latent attention tells two stories from one beginning, whose first 8 tokens are read once. A block has
# 3 slots. One that is full is never written again, so both stories may read it. The last one isn't full, and when the
# cache is *forked*, the second story gets a copy of it.

# %%
mine = tellers["yours"]
pools = [BlockPool(12, 3, 1, 8, value_dim=24, device=device) for _ in mine.blocks]
first = [PagedKVCache(pool) for pool in pools]
start = mine.encode("Once there was a pig named Ben.")
with torch.no_grad():
    mine(start[:, :-1], first)
    second = [cache.fork() for cache in first]
stories = {"first": (first, start), "second": (second, start)}


@torch.no_grad()
def go_on(name, num_new, seed):
    caches, tokens = stories[name]
    draw = torch.Generator().manual_seed(seed)
    for _ in range(num_new):
        logits = mine(tokens[:, -1:], caches)[0, -1].cpu()
        newest = torch.multinomial(logits.softmax(dim=0), 1, generator=draw)
        tokens = torch.cat([tokens, newest[None].to(device)], dim=1)
    stories[name] = caches, tokens


for name, num_new, seed in (("first", 4, 1), ("second", 5, 2), ("first", 5, 3)):
    go_on(name, num_new, seed)
read = {name: tokens[:, :-1] for name, (_, tokens) in stories.items()}
print("tokens read:", {name: tokens.shape[1] for name, tokens in read.items()})

# %% [markdown]
# **Predict.** How many blocks of a pool do the two stories take together?

# %%
guess = ...  # a number of blocks
predict(guess, lambda: len(set(first[0].block_table + second[0].block_table)))

# %%
def words_of(tokens):
    return ["(start)", *(mine.vocabulary[one] for one in tokens[0, 1:].tolist())]


picture = None
if guess is not ...:
    caches = {"first": first[0], "second": second[0]}
    told = {name: words_of(tokens) for name, tokens in read.items()}
    picture = draw_pages(caches, told)
picture

# %% [markdown]
# Does each story still read its own? Your function collects the latents of both from the pool, and they should be those
# of a cache that nobody shares:

# %%
for name, cache in (("first", first[0]), ("second", second[0])):
    alone = [KVCache(1, 1, 192, 8, value_dim=24, device=device) for _ in mine.blocks]
    with torch.no_grad():
        mine(read[name], alone)
    found = gather_blocks(pools[0].values[:, 0], cache.block_table, cache.length)
    torch.testing.assert_close(found, alone[0].values[0, 0], rtol=0, atol=1e-4)
print("both stories read their own tokens, in order")

# %% [markdown]
# And what does a page cost that isn't full? Each sequence can have empty slots in its last block only, so larger blocks
# waste more. These are the slots that 300 stories would take, in blocks of several sizes, in proportion to their
# tokens:

# %%
lengths = [teller.encode(one.text).shape[1] for one in some_stories(300, seed=7)]
for size in (1, 4, 16, 64, 192):
    # -(-length // size): the number of blocks, rounded up
    slots = sum(-(-length // size) * size for length in lengths)
    print(f"blocks of {size:3}: {slots / sum(lengths):.2f} slots per token")

# %% [markdown]
# In the last row each story reserves room for the longest one possible. Why not the first row? Each block is a
# look-up, and each look-up breaks the memory into smaller reads. Paging has a price even with the authors' blocks of
# 16 tokens: they measure about a quarter more time in the attention kernel, and win it back by serving more texts at
# once.
#
# ## What the models really keep
#
# Here are the models of lesson 10 once more, for a text of 131,072 tokens, now counting only what each keeps, and
# DeepSeek-V3 among them:

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
    kept_bytes = 2 * numbers * (full * 131_072 + local * window)
    print(f"{name:16} {kept_bytes / 2**30:5.1f} GiB")

# %% [markdown]
# DeepSeek-V3 has the most heads and keeps about half of what Llama 3.1 8B keeps, for each of its tokens. As multi-head
# attention it would keep $128 \cdot (192 + 128)$ numbers a layer in place of $512 + 64$. (Sizes: [DeepSeek-V3
# report](https://arxiv.org/abs/2412.19437).) Mistral keeps the least, but what is further back than its window arrives,
# if at all, by relay; its successor v0.2 dropped the window.
#
# ## Your turn
#
# 1. Record a step of your class with two texts and a cache, as in lesson 06. What does `@` copy for each head, and what
#    would help?
# 2. Let the second story go on and on. What happens, and does the first story change?
#
# <details><summary>Answers</summary>
#
# 1. It copies the latents and the rotary keys once for each head, because they have an axis of size 1 where the queries
#    have their heads. As in lesson 06, let the heads be rows of one table: `flatten(1, 2)` of the absorbed queries, and
#    back.
# 2. The pool runs out of blocks, and its `ValueError` says what to do: free a sequence that has ended. Until then the
#    first story's blocks stay what they were.
#
# </details>
#
# ## What you have now
#
# You have latent attention in the form in which it is served, with the stories of a trained model, and a memory that
# several stories share. Exercise 2 of the sheet absorbs the last matrix, too.
#
# **Practise:** [six exercises](exercises/11_exercises.ipynb), about 40 minutes.
#
# **Click through it:** [latent attention](https://attention-course.github.io/attention-course/recordings/latent.html)
# as a recorded run. Choose any number there, and you see where it came from and where it goes.
#
# **Next:** [12 The forms of 2026](12_forms_of_2026.ipynb).
