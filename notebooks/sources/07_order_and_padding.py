# %% [markdown]
# # Order, padding, and two sequences
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/07_order_and_padding.ipynb)
#
# "The dog bites the man" and "the man bites the dog" are the same words in another order, and attention by itself does
# not notice the difference. In this lesson you measure that, and you fix it with the rotary positions of Llama, which
# you write from their formula. Then you put sentences of different lengths into one batch, and let one sentence attend
# to another.
#
# **You need** lessons [02](02_masks_and_dropout.ipynb) and [05](05_weight_split.ipynb). **It takes** about 45 minutes.

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
import torch
import torch.nn.functional as F

from course_lib.attention import (
    MultiHeadAttention,
    apply_rotary,
    causal_keep,
    padding_keep,
)
from course_lib.attention import rotary_table as reference_table
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict
from course_lib.pictures import draw_rotary, head_heatmaps
from course_lib.show import show

device = course_device()

# %% [markdown]
# ## Attention does not know the order
#
# Each word of a small vocabulary gets eight random numbers. The patterns below therefore mean nothing about English.

# %%
vocabulary = ("Dream", "big", "and", "work", "for", "it", "(pad)")
# eight per word
numbers = torch.randn(7, 8, generator=torch.Generator().manual_seed(2)).to(device)


def embed(*sentences):  # -> (batch, token, 8)
    ids = [[vocabulary.index(word) for word in one.split()] for one in sentences]
    return numbers[torch.tensor(ids, device=device)]


sentence = embed("Dream big and work for it")
shuffled = embed("for work and big Dream it")

# %% [markdown]
# Take the simplest attention of lesson 01, which has no weight matrix and no mask, and swap two words:

# %%
def mix(x):  # (batch, token, width) -> (batch, token, width)
    return (x @ x.transpose(1, 2)).softmax(dim=-1) @ x


show("Dream big", mix(embed("Dream big"))[0, :, :4], "token width", ("Dream", "big"))
show("big Dream", mix(embed("big Dream"))[0, :, :4], "token width", ("big", "Dream"))

# %% [markdown]
# Both rows of "Dream" hold the same numbers. A score compares two words, whatever their places, and the order in
# which the weighted vectors are added doesn't matter, so swapping the words swaps the output rows and changes nothing
# else. Weight matrices don't help, because they treat a word alike wherever it is.
#
# A causal mask may change that. Take your own multi-head attention of lesson 05, with doubled parameters, so that each
# head clearly prefers some of the words. **Predict** whether its output for the last word, "it", changes if the five
# words before it are shuffled.

# %%
MyMultiHeadAttention = from_earlier("MyMultiHeadAttention")
torch.manual_seed(5)
layers = [MyMultiHeadAttention(8, 8, 2).to(device) for _ in range(2)]
with torch.no_grad():
    for parameter in [*layers[0].parameters(), *layers[1].parameters()]:
        parameter *= 2


def moved(model):  # how far shuffling the first five words moves the output of the last
    return (model(sentence) - model(shuffled))[0, -1].abs().max().item()


guess = ...  # "yes" or "no"
predict(guess, lambda: moved(layers[0]) > 1e-5)

# %% [markdown]
# **Predict** again, for a second layer on top of the first, as in every real model: does the output for "it" change?

# %%
two_layers = torch.nn.Sequential(*layers)  # the second reads what the first returns
guess = ...  # "yes" or "no"
predict(guess, lambda: moved(two_layers) > 1e-5)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# With one layer it doesn't. The last word sees all others, and their order makes no difference to a sum.
#
# With two layers it does, although nobody told the model any position. In the first layer each word saw only itself and
# the words before it, so that the rows after that layer depend on the order. The causal mask therefore carries some
# information about order, and language models without positions do learn to use it (Haviv et al., [Transformer Language
# Models without Positional Encodings Still Learn Positional Information](https://arxiv.org/abs/2203.16634), 2022). Run
# `moved(two_layers)` to see how far the output moves.
#
# </details>
#
# Almost all models are told the positions explicitly. Many, such as GPT-2, add a vector for each position to the
# embeddings, and then a score depends on *where* two words are and not only on how far they are apart. But grammar is
# the same at the beginning and in the middle of a text: what counts is the distance. So we want to change the queries
# and keys in such a way that their score depends on the two words and on the difference of their positions. Rotations
# have this property.
#
# ## Rotate two numbers
#
# The idea of **rotary positions** (RoPE; Su et al., [RoFormer: Enhanced Transformer with Rotary Position
# Embedding](https://arxiv.org/abs/2104.09864), 2021) is to *rotate* each query and each key by an angle that grows with
# its position. Take two numbers, $a$ and $b$, as an arrow in the plane. Rotating it by an angle $t$ gives
#
# $$(a \cos t - b \sin t,\ b \cos t + a \sin t)$$
#
# The word at position 0 is not rotated, the word at position 1 is rotated by one radian (nearly a
# sixth of a full turn), and the word at position 2 by two radians:

# %%
def turn(pair, angle):
    angle = torch.tensor(float(angle))
    a, b = pair
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([a * cos - b * sin, b * cos + a * sin])


query, key = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 1.5])
for position in range(4):
    a, b = turn(query, position).tolist()
    length = (a * a + b * b) ** 0.5
    print(f"position {position}: the query is ({a:7.4f}, {b:7.4f})", end=", ")
    print(f"its length {length:.4f}")

# %% [markdown]
# A rotation changes the direction, and the length stays 2.2361. Next the query is compared with a key, each rotated by
# its own position:

# %%
def score(query_at, key_at):
    return (turn(query, query_at) @ turn(key, key_at)).item()


for query_at, key_at in ((1, 1), (3, 0), (5, 0)):
    print(f"query at {query_at}, key at {key_at}: score {score(query_at, key_at):7.4f}")

# %% [markdown]
# **Predict** the score if the query is at position 100 and the key at position 97.

# %%
guess = ...
predict(guess, lambda: score(100, 97), within=0.02)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is the score of the query at 3 and the key at 0. If both arrows are turned by the same additional angle, the angle
# between them stays as it is, and so only the *difference* of the positions counts: positions go in as absolute numbers
# and act as distances.
#
# </details>
#
# ## The table of rotations
#
# A head has more than two elements. It is therefore cut into pairs, and each pair rotates at a **speed** of its own, in
# radians per token. For a head of `head_dim` elements, pair $i$ of a token at position $p$ is rotated by
#
# $$\text{angle}(p, i) = p \cdot \theta^{-2i / d}, \qquad i = 0, 1, \ldots, d/2 - 1$$
#
# radians, where $d$ is `head_dim` and $\theta$ is a constant, the **base**. Pair 0 always rotates by one radian per
# token, and each later pair more slowly. The fast pairs tell neighbouring tokens apart, and the slow ones tell near
# from far.
#
# **Write it yourself:** return the cosine and the sine of all angles. A column of positions multiplied by a row of
# speeds broadcasts to a table.

# %%
def rotary_table(num_tokens, head_dim, base):
    # two ints, float -> (token, pair), (token, pair)
    raise NotImplementedError  # your lines


rotary_table = filled("rotary_table", rotary_table)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def rotary_table(num_tokens, head_dim, base):
#     # two ints, float -> (token, pair), (token, pair)
#     pair = torch.arange(head_dim // 2, dtype=torch.float64)
#     speed = base ** (-2 * pair / head_dim)  # (pair)
#     # (token, 1) * (pair) -> (token, pair)
#     angle = torch.arange(num_tokens)[:, None] * speed
#     return angle.cos(), angle.sin()
# ```
#
# </details>

# %%
head_dim, base = 6, 100.0
cos, sin = (one.to(device, torch.float32) for one in rotary_table(6, head_dim, base))
show("angles in degrees", torch.atan2(sin, cos).rad2deg() % 360, "token pair", digits=1)

# %% [markdown]
# Each column is one pair. Pair 0 gains 57.3 degrees per token, pair 1 12.3 and pair 2 only 2.7. (Llama 2 has a base of
# 10000; with 100 all three can be seen to move.)
#
# **Predict.** A head of Llama 2 has 128 elements, the base is 10000, and its texts have up to 4096 tokens. Does the
# slowest pair make a full turn within such a text?

# %%
# tokens * speed of pair 63, in full turns
turns = 4096 * 10000 ** (-2 * 63 / 128) / (2 * torch.pi)
guess = ...  # "yes" or "no"
predict(guess, lambda: turns >= 1)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It doesn't, because it covers less than a tenth of a turn.
#
# </details>
#
# Most of the other pairs do come round. Such a pair can't tell a distance from that distance plus one turn, but a score
# is the sum over all pairs, and at short distances the others can tell. Take a query and a key that point the same way
# in each of the 64 pairs, so that their score is 1 at distance 0, and compare two short distances with the same
# distances plus a full turn of the slowest pair:

# %%
speed = 10000.0 ** (-torch.arange(64, dtype=torch.float64) / 64)
come_round = (4096 * speed >= 2 * torch.pi).sum()
print(f"{come_round} of 64 pairs come round within 4096 tokens")
full_turn = round((2 * torch.pi / speed[-1]).item())  # of the slowest pair, in tokens
for distance in (1, 10):
    near, far = ((one * speed).cos().mean() for one in (distance, distance + full_turn))
    print(f"distance {distance}: {near:.2f}; {full_turn:,} tokens further: {far:.2f}")

# %% [markdown]
# So this is hardly why models for longer texts slow their rotations. Two reasons that are given: in a text longer than
# those of training, the slow pairs turn by angles that the model has never met (Peng et al., [YaRN: Efficient Context
# Window Extension of Large Language Models](https://arxiv.org/abs/2309.00071), 2023), and scores at such distances can
# become very large (Chen et al., [Extending Context Window of Large Language Models via Positional
# Interpolation](https://arxiv.org/abs/2306.15595), 2023). Lesson 08 measures another.
#
# ## Rotate a head
#
# You still need to know which two elements form a pair. In Hugging Face's code of Llama and in this course one comes
# from each *half* of the head: with six elements the pairs are 0 and 3, 1 and 4, 2 and 5.
#
# **Write it yourself:** rotate all queries (or keys) of all heads at once, as `turn` rotates one pair. You get the two
# halves with `x.chunk(2, dim=-1)`.

# %%
def rotate(x, cos, sin):
    # (b, h, token, head_dim), 2 x (token, pair) -> (b, h, token, head_dim)
    raise NotImplementedError  # your lines


rotate = filled("rotate", rotate)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def rotate(x, cos, sin):
#     # (b, h, token, head_dim), 2 x (token, pair) -> (b, h, token, head_dim)
#     first, second = x.chunk(2, dim=-1)  # the halves, each (b, h, t, pair)
#     return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
# ```
#
# </details>
#
# The next cell makes queries, keys and values of two heads, and draws what your function does to one query of head 0,
# if it is put at all six positions:

# %%
torch.manual_seed(6)
# (head, width, head_dim)
w_q, w_k, w_v = (0.5 * torch.randn(2, 8, head_dim).to(device) for _ in range(3))


def project(x, weight):  # (b, t, m), (h, m, d) -> (b, h, t, d)
    return x[:, None] @ weight  # (b, 1, t, m) @ (h, m, d), for all heads at once


queries, keys, values = (project(sentence, weight) for weight in (w_q, w_k, w_v))
words = vocabulary[:6]
# the query of "big", at six positions
same = queries[:1, :1, 1:2].expand(-1, -1, 6, -1)
places = [f"big at {position}" for position in range(6)]
draw_rotary(same[0, 0], rotate(same, cos, sin)[0, 0], words=places)

# %% [markdown]
# Each dial is one pair of the query of "big", dashed before and solid after the rotation, at one of six positions.
# Along a row the blue angle grows by the same step, which is large for pair 0 and small for pair 2.
#
# Compare your two functions with the library's, on queries of two samples:

# %%
both = project(torch.cat([sentence, shuffled]), w_q)  # two different samples
table = reference_table(6, head_dim, rope_theta=base, device=device)
expected = apply_rotary(both, *table)
torch.testing.assert_close(rotate(both, cos, sin), expected, check_dtype=False)
print("your rotation equals the library's")

# %% [markdown]
# Next, *one* query and *one* key are each put at all six positions, which gives 36 scores. Four of them are printed:

# %%
one_query = queries[:, :1, 1:2].expand(-1, -1, 6, -1)  # "big" at all six positions
one_key = keys[:, :1, 3:4].expand(-1, -1, 6, -1)  # "work" at all six positions
turned_query, turned_key = rotate(one_query, cos, sin), rotate(one_key, cos, sin)
table = (turned_query @ turned_key.transpose(2, 3))[0, 0]  # (query, key)
for query_at, key_at in ((3, 0), (4, 1), (5, 2), (0, 3)):
    score = table[query_at, key_at]
    print(f"'big' at {query_at}, 'work' at {key_at}: score {score:7.4f}")

# %% [markdown]
# The score is the same wherever the query comes three positions after the key, and another one where it comes three
# positions *before* it. **Predict** how many different numbers are in the whole table, rounded to four decimals.

# %%
guess = ...  # of the 36 scores
predict(guess, lambda: len(set(table.mul(1e4).round().int().flatten().tolist())))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# There is one number per diagonal of the table. The distances go from -5 to 5, which makes eleven. Without the rotation
# all scores would be one number.
#
# </details>
#
# Now do exercises 1 and 2 of [the sheet](exercises/07_exercises.ipynb).
#
# ## Four mistakes that raise no error
#
# Rotary code is short, and wrong versions of it run just as well. In the first of these a minus has become a plus, in
# the second the values are rotated, too, in the third the exponent has lost its 2, and in the fourth the pairs are
# neighbours (0 and 1, 2 and 3) instead of halves. To make halves of neighbours, the code slices with a **step**:
# `x[..., 0::2]` begins at element 0 and takes every second one (0, 2, 4), and `x[..., 1::2]` takes the others.

# %%
def attention(queries, keys, values, keep):  # keep broadcasts to (b, h, query, key)
    scores = queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5
    # -1e30: a row of padding must not become nan
    return scores.masked_fill(~keep, -1e30).softmax(dim=-1) @ values


def without_minus(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos + second * sin, second * cos + first * sin], dim=-1)


def by_neighbours(x, cos, sin):
    # of elements 0, 2, 4, 1, 3, 5
    rotated = rotate(torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1), cos, sin)
    return rotated[..., [0, 3, 1, 4, 2, 5]]  # and back: element 1 is now in place 3


def run(rotation=rotate, with_values=False, exponent=-2.0, first=0):
    # the words are at first, first + 1, ...
    speed = base ** (exponent * torch.arange(3) / head_dim)
    angle = torch.arange(first, first + 6)[:, None] * speed
    cos, sin = angle.cos().to(device), angle.sin().to(device)
    rotated = rotation(queries, cos, sin), rotation(keys, cos, sin)
    mixed = rotation(values, cos, sin) if with_values else values
    return attention(*rotated, mixed, causal_keep(6, device=device))


mistakes = {
    "plus for minus": {"rotation": without_minus},
    "values rotated": {"with_values": True},
    "exponent -i / d": {"exponent": -1.0},
    "neighbours": {"rotation": by_neighbours},
}
for name, mistake in mistakes.items():
    off = (run(**mistake) - run()).abs().max().item()
    print(f"{name:16} the output is off by {off:.3f}")

# %% [markdown]
# All four are far off, and no error is raised. A test that needs no reference would help: moving the whole text by 100
# positions must not change the output, because only distances count. **Predict** how many of the four mistakes this
# test finds.

# %%
def is_found(mistake):
    return (run(**mistake, first=100) - run(**mistake)).abs().max().item() > 1e-3


guess = ...  # 0 to 4
predict(guess, lambda: sum(is_found(mistake) for mistake in mistakes.values()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It finds the first two. With a plus for the minus the pairs are no longer rotated, and a score depends on the *sum* of
# the two positions, too. (If the keys alone are rotated by the negative angles, it depends on nothing but the sum.)
# Values are added up into the output, and rotated values bring their absolute positions into it. Each has a page with
# the right code:
# [rotary-wrong-turn](https://attention-course.github.io/attention-course/mistakes/rotary-wrong-turn.html) and
# [rotary-on-values](https://attention-course.github.io/attention-course/mistakes/rotary-on-values.html).
#
# The other two are rotations as well, and a model may be *trained* with them. But a model that was trained with one
# rotation computes other scores with another one, so you find these mistakes only if you compare with the model's own
# code or outputs. Meta's files do pair neighbours, and the library transformers reorders their projections of queries
# and keys when it converts them. In exercise 5 of lesson 08 you do the same.
#
# </details>
#
# Exercise 3 of [the sheet](exercises/07_exercises.ipynb) asks for the rotation of neighbours, for any head.
#
# ## A bias in place of the rotation
#
# Some models, such as BLOOM, rotate nothing. They *subtract* from each score the distance times a slope (**ALiBi**;
# Press et al., [Train Short, Test Long: Attention with Linear Biases Enables Input Length
# Extrapolation](https://arxiv.org/abs/2108.12409), 2022). Head $i$ of $h$ heads, counted from 0, has the slope
# $2^{-8 (i + 1) / h}$ (if $h$ is a power of two). With eight heads these are 1/2, 1/4 and so on to 1/256, so some heads
# look close by and others far. To see the bias alone, let one word be repeated six times, so that all products of
# queries and keys are equal, say 0:

# %%
distance = 5 - torch.arange(6)  # from the last query to each key
slopes = 2.0 ** -torch.arange(1.0, 9.0)  # of eight heads
print("1 divided by the slopes:", (1 / slopes).int().tolist())


def alibi(sign):  # -> (head, key): the attention weights of the last word
    return (sign * slopes[:, None] * distance).softmax(dim=-1)


names = ("head 0", "head 1", "head 7")
show("attention weights of the last word", alibi(-1)[[0, 1, 7]], "head key", names)

# %% [markdown]
# **Predict** the place (0 to 5) that the last word attends to most in head 0 if someone *adds* the bias.

# %%
guess = ...  # 0 to 5
predict(guess, lambda: int(alibi(+1)[0].argmax()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is 0, the place that is furthest away: the weights are those of the right bias in reverse. The test repeats one
# word: within a row, the attention weights must fall with the distance
# ([bias-wrong-sign](https://attention-course.github.io/attention-course/mistakes/bias-wrong-sign.html)).
#
# </details>
#
# ## A batch of different lengths
#
# A batch is one tensor, so shorter sentences are filled up with **padding**. In training it is usually on the right. In
# generation it is on the left, so that all sentences end in the same column, after which the next word goes. The
# padding mask of lesson 02 hides it from all queries:

# %%
texts, lengths = ("Dream big and work for it", "work for it", "Dream big"), [6, 3, 2]
batch = embed(
    texts[0], "(pad) (pad) (pad) work for it", "(pad) (pad) (pad) (pad) Dream big"
)
keep = padding_keep(lengths, side="left", device=device)  # (batch, 1, 1, key)
real = keep[:, 0, 0]  # (batch, token)
show("real words", real.int(), "sample token")

# %% [markdown]
# In the second row "work" is in column 3, but it is the first word of its sentence. Its position should therefore be 0,
# as it would be if the sentence were alone.
#
# **Write it yourself:** count the positions from each sentence's first real word. Padding is hidden, so its positions
# don't matter, but keep them from being negative: -1 would pick the last row of the table of rotations. (`cumsum` adds
# up along an axis.)

# %%
def real_positions(real):
    # bool, True = a real word, (batch, token) -> int64, (batch, token)
    raise NotImplementedError  # your lines


real_positions = filled("real_positions", real_positions)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def real_positions(real):
#     # bool, True = a real word, (batch, token) -> int64, (batch, token)
#     count = real.cumsum(dim=-1)  # real words up to here, this one included
#     return (count - 1).clamp(min=0)
# ```
#
# </details>

# %%
positions = real_positions(real)
show("positions", positions, "sample token")

# %% [markdown]
# Indexing the table with these positions gives each sample angles of its own, which its heads share:

# %%
def attend_batch(x, keep, positions):
    # (b, t, pair) -> (b, 1, t, pair)
    cos_here, sin_here = cos[positions][:, None], sin[positions][:, None]
    queries = rotate(project(x, w_q), cos_here, sin_here)
    keys = rotate(project(x, w_k), cos_here, sin_here)
    earlier = causal_keep(x.shape[1], device=device)
    return attention(queries, keys, project(x, w_v), earlier & keep)


together = attend_batch(batch, keep, positions)  # (batch, head, token, head_dim)
for sample, (text, length) in enumerate(zip(texts, lengths, strict=True)):
    own = torch.arange(length, device=device)[None]
    all_real = torch.ones(1, 1, 1, length, dtype=torch.bool, device=device)
    alone = attend_batch(embed(text), all_real, own)
    torch.testing.assert_close(together[sample, :, -length:], alone[0])
    print(f"{text!r} comes out of the batch as if it were alone")

# %% [markdown]
# This is the test for any padded batch: run each sentence alone and compare.
#
# Suppose that you forget `real_positions` and count the columns. **Predict** whether the outputs of the real words
# change.

# %%
columns = torch.arange(6, device=device).expand(3, 6)
by_column = attend_batch(batch, keep, columns)
# real words only
difference = (by_column - together).transpose(1, 2)[real].abs().max().item()
guess = ...  # "yes" or "no"
predict(guess, lambda: difference > 1e-4)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# They don't, because all words of a sentence are moved by the same number, and the score depends on distances only.
# With rotary positions a constant shift is harmless. In a model that *adds* a vector per position to the embeddings, as
# GPT-2 does, it is a mistake. When the library transformers *generates* text, it counts from the first real word in
# both kinds of model, because then one rule serves for both, and the rows of the table are spent on real words only. If
# you call its GPT-2 yourself, it counts the columns unless you give it the positions.
#
# </details>
#
# Exercise 4 of [the sheet](exercises/07_exercises.ipynb) asks for the last real word of each sentence of a batch that
# is padded on the right.
#
# ## Two sentences: cross-attention
#
# A translator reads one sentence while it writes another. The queries come from the sentence that is written, and the
# keys and values from the sentence that is read. This is **cross-attention**, and it was part of the first transformer
# (Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017). The computation is the same,
# but two of the projections have another input. There is no causal mask, because the whole other sentence is there
# already, and no rotation, because a distance between positions of two different sentences means nothing.

# %%
target = embed("work for it", "Dream big it")
source = embed("Dream big and work for", "for work and big it")
q, k, v = project(target, w_q), project(source, w_k), project(source, w_v)
weights = (q @ k.transpose(2, 3) / head_dim**0.5).softmax(dim=-1)
head_heatmaps(weights[:1], words[3:], key_words=words[:5])

# %% [markdown]
# This is the first of two samples, with a row per query word and a column per key word. The table need not be square,
# but each row still sums to 1. The proof uses both samples and PyTorch's own function:

# %%
torch.testing.assert_close(weights @ v, F.scaled_dot_product_attention(q, k, v))
shape = tuple((weights @ v).shape)
print("equal to F.scaled_dot_product_attention, in the shape", shape)

# %% [markdown]
# There are three output tokens, one per query word; the five words of the other sentence have been summed over.
# Exercise 5 of [the sheet](exercises/07_exercises.ipynb) lets you write it for one head.
#
# ## Widths that differ
#
# Lengths may differ, and so may widths. A query and a key must be equally wide, because their dot product is the score.
# A value is only multiplied by an attention weight and may have any width.
# ([DeepSeek-V2](https://arxiv.org/abs/2405.04434), 2024, uses that: its queries and keys are wider than its values,
# because they carry a rotary part; lesson 09 comes to it.) Here is the library's class with eight heads and four
# different widths:

# %%
big = MultiHeadAttention(1024, 2048, num_heads=8, d_qk=512, d_v=888, bias=True)
print(f"per head: {512 // 8} numbers in queries and keys, {888 // 8} in values")

# %% [markdown]
# The mistake of lesson 01, values in place of keys, can't go unnoticed at these widths, because a dot product of 64
# numbers with 111 raises an error.
#
# ## Your turn
#
# 1. Write `base = 10000.0` in the cell that makes `cos` and `sin`, and run the cells from there on to the dials. What
#    happens to pair 1 and pair 2?
# 2. Pad on the right: `batch = embed(texts[0], "work for it (pad) (pad) (pad)", "Dream big (pad) (pad) (pad) (pad)")`
#    and `side="right"`. Which line of the proof has to change, and does `real_positions` have to?
# 3. In `attention`, write `-torch.inf` in place of `-1e30` and run the batch again. Which rows of `together` become
#    nan, and does the proof notice?
#
# <details><summary>Answers</summary>
#
# 1. Pair 0 stays as it was, because its speed is 1 for every base. The others hardly move any more: pair 1 by
#    less than 3 degrees per token, and pair 2 by about a tenth of a degree.
# 2. `together[sample, :, -length:]` becomes `together[sample, :, :length]`. `real_positions` stays as it is, because it
#    counts real words and doesn't ask on which side the padding is.
# 3. The rows of the padding itself become nan, three in the second sample and four in the third. Nothing is left for
#    them to attend to, and softmax divides 0 by 0. The proof doesn't notice, because it compares real words only. In
#    training, though, the gradients become nan (lesson 02).
#
# </details>
#
# ## What you have now
#
# In its output for the last word, a single layer of attention doesn't see the order of the words before. Rotary
# positions, which you wrote from their formula, make a score depend on two words and their distance. A padded batch
# gives each sentence what it would get alone, and queries may come from one sentence while keys and values come from
# another.
#
# **Practise:** [five exercises](exercises/07_exercises.ipynb), about 30 minutes.
#
# **Next:** [08 Llama's attention and its cache](08_llama.ipynb).
