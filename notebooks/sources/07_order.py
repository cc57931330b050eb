# %% [markdown]
# # Give it a sense of order
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/07_order.ipynb)
#
# Every story so far began at position 0. What happens to a storyteller that is told to begin at position 64? In this
# lesson one model loses its thread there, and another tells its story word for word. The difference is how each of them
# was told the order of the words. You write the second way, the rotation of Llama, from its formula.
#
# **You need** lessons [02](02_masks_and_dropout.ipynb) and [06](06_multi_query.ipynb). **It takes** about 50 minutes.

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
    LlamaAttention,
    MultiHeadAttention,
    apply_rotary,
    attend,
    causal_keep,
)
from course_lib.attention import rotary_table as reference_table
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.inputs import dream_big
from course_lib.pictures import draw_rotary, head_heatmaps
from course_lib.pictures.live import turn as turning_figure
from course_lib.show import show
from course_lib.stories import (
    TRAINED,
    load_storyteller,
    read_held_out,
    stories,
    with_attention,
)

# %%
device = course_device()


def told_from(first):  # by a model that reads its positions from row `first` on
    model = load_storyteller("multi-query").to(device)
    model.position_table = nn.Parameter(model.position_table.roll(-first, dims=0))
    return model.write("Once there was a", num_words=44)


for first in (0, 16, 64):
    print(fill(f"from position {first}: {told_from(first)}", 80), end="\n\n")

# %% [markdown]
# "What colour was the ball? It was Lucy." Not one weight of attention was changed between these stories. Only the
# positions of the words were read from further down a table that the model was trained with.
#
# Here are both models in one picture. Each reads a text that says nothing but "fox", eight times, and its first head
# compares the "fox" at each position with the "fox" at each other:

# %%
def scores_of_a_fox(form):  # with itself, by the first head -> (query, key)
    model = load_storyteller(form)
    attention = model.attentions[0]
    x = model.attention_inputs("fox fox fox fox fox fox fox fox")[0][0, 1:]  # all "fox"
    projections = attention.q_proj, attention.k_proj
    both = [project(x)[None, None, :, :16] for project in projections]  # head 0
    if form == "llama":  # what you will write below
        both = [apply_rotary(one, attention.cos[:8], attention.sin[:8]) for one in both]
    scores = (both[0] @ both[1].transpose(2, 3))[0, 0].detach()
    return (scores - scores.min()) / (scores.max() - scores.min())


two = torch.stack([scores_of_a_fox(form) for form in ("multi-query", "llama")])
names, everything = ["the model above", "the other one"], torch.ones(8, 8).bool()
measure = "scores, scaled to 0 to 1"
head_heatmaps(two, range(1, 9), keep=everything, titles=names, measure=measure)

# %% [markdown]
# On the right, every diagonal has one colour. How does that come about?
#
# ## Attention does not know the order
#
# Take the simplest attention of lesson 01, which has no weight matrix and no mask, and swap two words:

# %%
words, embeddings, x = dream_big(device=device)


def by_likeness(x):  # (batch, token, width) -> (batch, token, width)
    return (x @ x.transpose(1, 2)).softmax(dim=-1) @ x


for order in ([0, 1], [1, 0]):
    names = [words[i] for i in order]
    show(" ".join(names), by_likeness(x[:, order])[0], "token width", names)

# %% [markdown]
# Both rows of "Dream" hold the same numbers. A score compares two words, whatever their places, and a sum doesn't
# depend on the order of its terms. So swapping the words swaps the output rows and changes nothing else. Weight
# matrices don't help: they treat a word alike wherever it is.
#
# A causal mask may change that. Take your own multi-head attention of lesson 05. **Predict** whether its output for
# the last word, "it", changes if the five words before it are shuffled.

# %%
MyMultiHeadAttention = from_earlier("MyMultiHeadAttention")
torch.manual_seed(5)
layers = [MyMultiHeadAttention(*widths, 2).to(device) for widths in ((3, 6), (6, 6))]
shuffled = x[:, [4, 3, 2, 1, 0, 5]]  # for work and big Dream it


def moved(model):  # how far shuffling moves the output of the last word
    with torch.no_grad():
        return (model(x) - model(shuffled))[0, -1].abs().max().item()


guess = ...  # "yes" or "no"
predict(guess, lambda: moved(layers[0]) > 1e-5)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It doesn't. The last word sees all the others, and their order makes no difference to a sum.
#
# </details>
#
# Now put a second layer on top, with the mask and without it. How far does the output for "it" move then?

# %%
two_layers = nn.Sequential(*layers)  # the second reads what the first returns
print(f"two layers: {moved(two_layers):.3f}")
sizes = (3, 6), (6, 6)
no_mask = [MultiHeadAttention(*widths, 2, causal=False) for widths in sizes]
print(f"without the mask: {moved(nn.Sequential(*no_mask).to(device)):.3f}")

# %% [markdown]
# With the mask it moves, although nobody told the model any position. In the first layer each word saw only itself
# and the words before it, so the rows that the second layer reads depend on the order. Without the mask nothing
# reveals it, however many layers there are.
#
# Is the mask enough to tell a story? One storyteller was trained without any positions, and is otherwise the one
# above. Each of the two was trained three times, and the losses hardly differ. But a loss is a mean over all words.
# In some stories somebody gives something to somebody else, and *who gave?* comes up again. Printed is the share of
# the right name in the probability of all names; a coin that knows the two would get one half. **Predict** in how
# many of its three trainings the one without positions gets more than 0.6.

# %%
card = json.loads((TRAINED / "card.json").read_text("utf-8"))


def trainings(form, kind=None):  # the loss, or how sure of a kind, of three seeds
    runs = card[form]["seeds"]
    return [round(run["sure"][kind] if kind else run["loss"], 2) for run in runs]


forms = "multi-query", "no positions"
print("loss, with positions and without:", *map(trainings, forms))
print("sure who gave, with positions:", trainings("multi-query", "order"))
guess = ...  # 0 to 3
predict(guess, lambda: sum(one > 0.6 for one in trainings("no positions", "order")))
if guess is not ...:
    for kind in ("order", "place", "animal"):
        print(kind, "with and without:", *(trainings(form, kind) for form in forms))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# In one: two toss a coin, and the third is surer than any of those with positions. So the mask was enough once to tell
# who gave; of places, all three are less sure. Much larger models without positions come close to models that have them
# ([Haviv et al.](https://arxiv.org/abs/2203.16634), 2022).
#
# </details>
#
# Nearly all large models are told their positions, mostly in one of two ways. (A third stands further down.)
#
# ## The first way: a vector for each position
#
# The first transformer ([Vaswani et al.](https://arxiv.org/abs/1706.03762), 2017) and GPT-2 **add** to each word's
# vector another one, which depends on the position alone. The first transformer computed it from sines and cosines;
# GPT-2 learns a table with a row per position. Our storytellers begin with sines and cosines and go on learning. This
# is the table that `told_from` rolled. What does the model make of a story that begins a little later?

# %%
model = load_storyteller("multi-query").to(device)
table = model.position_table.detach()


def loss_from(first):  # of 30 stories that no model has read, told to begin at first
    # (roll puts the first rows behind the last, where a few words of long stories get)
    model.position_table = nn.Parameter(table.roll(-first, dims=0))
    return read_held_out(model, count=30).loss


for first in (0, 1, 4, 16, 64):
    print(f"from position {first:2}: loss {loss_from(first):.2f}")

# %% [markdown]
# One position costs little, 16 positions double the loss, and at 64 the thread is lost. In training, every text began
# in row 0, so row 64 has only ever met the middle of a story, never "Once there was". But grammar is the same at the
# top and in the middle of a page: what counts is how far two words are apart. And behind the table's last row this
# model has no vector at all.
#
# ## The second way: rotate
#
# Can queries and keys be changed so that a score depends on the two words and on their *distance*? Rotations do that
# (**rotary positions**, RoPE; [Su et al.](https://arxiv.org/abs/2104.09864), 2021). Each query and each key is
# rotated by an angle that grows with its position. Take two numbers, $a$ and $b$, as an arrow in the plane. Rotating
# it by an angle $t$ gives
#
# $$(a \cos t - b \sin t,\ b \cos t + a \sin t)$$

# %%
turning_figure()

# %% [markdown]
# Move the query and the key together, and then one of them. The next cell moves the query in numbers, at one radian
# (nearly a sixth of a full turn) per position:

# %%
def turn(pair, angle):
    angle = torch.tensor(float(angle))
    a, b = pair
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([a * cos - b * sin, b * cos + a * sin])

# %%
query, key = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 1.5])


def score(query_at, key_at):
    return (turn(query, query_at) @ turn(key, key_at)).item()


for query_at, key_at in ((1, 0), (3, 0), (5, 0)):
    print(f"query at {query_at}, key at {key_at}: score {score(query_at, key_at):7.4f}")

# %% [markdown]
# **Predict** the score if both are at position 100.

# %%
guess = ...
predict(guess, lambda: score(100, 100), within=0.02)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# 3.5, the product of the two as they are: turned by the same angle, they keep the angle between them. Positions go in
# as absolute numbers and act as distances.
#
# </details>
#
# ## The table of rotations
#
# A head has more than two elements. It is therefore cut into pairs, and each pair rotates at a **speed** of its own.
# For a head of `head_dim` elements, pair $i$ of a token at position $p$ is rotated by
#
# $$\text{angle}(p, i) = p \cdot \theta^{-2i / d}, \qquad i = 0, 1, \ldots, d/2 - 1$$
#
# radians, where $d$ is `head_dim` and $\theta$ is a constant, the **base**. Pair 0 always rotates by one radian per
# token, and each later pair more slowly.
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
# Each column is one pair. Pair 0 changes much from one token to the next, but after a little more than six tokens it
# has come round, and then it mistakes a far token for a near one. The slower pairs can tell them apart, and a score
# is the sum over all pairs.
#
# ## Rotate a head
#
# Which two elements form a pair? In Hugging Face's code of Llama and in this course one comes from each *half* of the
# head: with six elements the pairs are 0 and 3, 1 and 4, 2 and 5.
#
# **Write it yourself:** rotate all queries (or keys) of all heads at once, as `turn` rotates one pair. You get the
# two halves with `x.chunk(2, dim=-1)`.

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
# The next cell draws what your function does to one query if it is put at all six positions:

# %%
torch.manual_seed(6)
q, k, v = (torch.randn(2, 2, 6, head_dim).to(device) for _ in range(3))  # (b, h, t, d)
same_query = q[:1, :1, 1:2].expand(-1, -1, 6, -1)  # one query, at six positions
same_key = k[:1, :1, 3:4].expand(-1, -1, 6, -1)
turned_query, turned_key = rotate(same_query, cos, sin), rotate(same_key, cos, sin)
places = [f"at {position}" for position in range(6)]
draw_rotary(same_query[0, 0], turned_query[0, 0], words=places)

# %% [markdown]
# Each dial is one pair, dashed before and solid after the rotation. Along a row the blue angle grows by equal steps,
# large for pair 0 and small for pair 2. Next, this query and one key are each put at all six positions:

# %%
# two samples, two heads: is it the library's rotation?
cos_sin = reference_table(6, head_dim, rope_theta=base, device=device)
torch.testing.assert_close(rotate(q, cos, sin), apply_rotary(q, *cos_sin))
scores = (turned_query @ turned_key.transpose(2, 3))[0, 0]  # (query, key)
show("scores by position", scores, "query key", digits=2)
different = len(set(scores.mul(1e4).round().int().flatten().tolist()))
print(f"{scores.numel()} scores, {different} different ones")

# %% [markdown]
# Look along the diagonals. All scores on one of them are equal, because there the distance is the same, and there are
# eleven distances, from -5 to 5.
#
# Now do exercises 1 and 2 of [the sheet](exercises/07_exercises.ipynb).
#
# ## Into a module
#
# **Write it yourself, from an empty class.** It is your multi-query attention of lesson 06 with two changes. There
# are `num_kv_heads` kv heads, which the library's `attend(queries, keys, values, keep)` shares among the query heads
# (it returns context and attention weights). And queries and keys are rotated, each word by its number in
# `positions`, a range: `rotary_table` has a row for every position from 0 on, and you pick those rows. `to_heads`,
# `rotary_table` and `rotate` are yours.

# %%
to_heads = from_earlier("to_heads")


class MyRotaryAttention(nn.Module):
    def __init__(
        self, d_in, d_out, num_heads, num_kv_heads, base=100.0, positions=range(512)
    ):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError


MyRotaryAttention = filled("MyRotaryAttention", MyRotaryAttention)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyRotaryAttention(nn.Module):
#     def __init__(
#         self, d_in, d_out, num_heads, num_kv_heads, base=100.0, positions=range(512)
#     ):
#         super().__init__()
#         self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
#         self.head_dim, self.base, self.positions = d_out // num_heads, base, positions
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
#         self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#
#     def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
#         queries = to_heads(self.q_proj(x), self.num_heads)  # (b, h, t, d)
#         keys = to_heads(self.k_proj(x), self.num_kv_heads)  # (b, g, t, d): g kv heads
#         values = to_heads(self.v_proj(x), self.num_kv_heads)
#         rows = self.positions[: x.shape[1]]  # a range: one position per token
#         cos, sin = rotary_table(rows[-1] + 1, self.head_dim, self.base)
#         cos, sin = cos[list(rows)].to(x), sin[list(rows)].to(x)  # (token, pair)
#         queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin)
#         keep = causal_keep(x.shape[1], device=x.device)
#         context, _ = attend(queries, keys, values, keep)
#         return self.out_proj(context.transpose(1, 2).flatten(2))
# ```
#
# </details>
#
# One storyteller was trained with such a rotation. It gets your class, with the trained weights, and begins its story
# at position 0, at position 64, and with words two positions apart:

# %%
rotary_model = load_storyteller("llama").to(device)


def with_rotation(**options):  # with_attention calls mine(64, 64, 4): widths and heads
    mine = partial(MyRotaryAttention, num_kv_heads=2, **options)
    return with_attention(rotary_model, mine).to(device)


at_0, at_64, apart = (
    with_rotation(positions=positions).write("Once there was a", num_words=44)
    for positions in (range(192), range(64, 256), range(0, 384, 2))
)
print(fill(at_64, 80))
print("the same story, word for word:", at_0 == at_64)
print(fill("two apart: " + apart, 80))

# %% [markdown]
# Moving the beginning changes nothing; doubling all distances ruins the story.
#
# ## Distances pulled apart
#
# A longer text contains larger *distances*. Let us make some: the first sentence of a story stays where it is, and
# the rest moves away from it. How many stories are long enough for a distance of 100?

# %%
lengths = torch.tensor([rotary_model.encode(one.text).shape[1] for one in stories(200)])
print(f"tokens in a story: median {lengths.median()}, at most {lengths.max()}")
print(f"stories of more than 100 tokens: {(lengths > 100).sum()} of {len(lengths)}")

# %%
def loss_after(gap):  # of 20 stories, from the second sentence on
    losses = []
    for story in stories(20, seed=77):
        tokens = rotary_model.encode(story.text)  # (1, token)
        start = tokens[0].tolist().index(rotary_model.numbers["."]) + 1  # sentence 2
        positions = torch.arange(tokens.shape[1], device=device)[None]
        positions[:, start:] += gap
        with torch.no_grad():
            # one score for each word that may come next
            scores = rotary_model(tokens, positions=positions)[0, start:-1]
        losses.append(nn.functional.cross_entropy(scores, tokens[0, start + 1 :]))
    return torch.stack(losses).mean().item()

# %%
for gap in (0, 10, 100, 1000):
    print(f"a gap of {gap:4}: loss {loss_after(gap):.2f}")

# %% [markdown]
# A gap of 100 about doubles the loss, although many stories contain such distances, only not between neighbouring
# sentences. And 1000, which none contains, costs less than 100. Models for longer texts slow their slow pairs and are
# then trained a little more ([YaRN](https://arxiv.org/abs/2309.00071), 2023).
#
# ## Proof
#
# Your class gets the matrices of the library's `LlamaAttention`, on sizes that all differ: 5 samples, 7 tokens, width
# 24, 6 heads of 4 numbers, 2 kv heads, each for 3 heads.

# %%
torch.manual_seed(3)
reference = LlamaAttention(24, 6, num_kv_heads=2, rope_theta=50.0).to(device)
samples = 2 * torch.randn(5, 7, 24).to(device)


def proof(module_class):
    module = module_class(24, 24, 6, 2, base=50.0).to(device)
    module.load_state_dict(reference.state_dict())
    torch.testing.assert_close(module(samples), reference(samples))


proof(MyRotaryAttention)
print("your module and the library's give the same output")

# %% [markdown]
# **Now cheat.** Write a class with a mistake that this proof doesn't see.

# %%
Sneaky = ...  # a class like MyRotaryAttention, in place of the dots
sneak("MyRotaryAttention", Sneaky, proof)

# %% [markdown]
# <details><summary>A way in</summary>
#
# The proof knows one base, 50. A class that rotates with base 50, whatever it is given, passes. (And it never gives
# `positions`.)
#
# </details>
#
# ## Four mistakes that raise no error
#
# In the first of these a minus has become a plus, in the second the values are rotated, too, in the third the
# exponent has lost its 2, and in the fourth the pairs are neighbours (0 and 1, 2 and 3) instead of halves.

# %%
def without_minus(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos + second * sin, second * cos + first * sin], dim=-1)


# %%
neighbours = [0, 2, 4, 1, 3, 5]  # pairs 0 and 1, 2 and 3, 4 and 5, as halves


# attention of the q, k and v above, in which one thing may be wrong
def run(turned=rotate, values=v, exponent=-2.0, first=0, order=range(6)):
    speed = base ** (exponent * torch.arange(3) / head_dim)
    angle = torch.arange(first, first + 6)[:, None] * speed
    cos, sin = angle.cos().to(device), angle.sin().to(device)
    values = turned(v, cos, sin) if values is None else values
    queries, keys = (turned(one[..., list(order)], cos, sin) for one in (q, k))
    return attend(queries, keys, values, causal_keep(6, device=device))[0]


# %%
mistakes = {
    "plus for minus": {"turned": without_minus},
    "values rotated": {"values": None},
    "exponent -i / d": {"exponent": -1.0},
    "neighbours": {"order": neighbours},
}
for name, mistake in mistakes.items():
    off = (run(**mistake) - run()).abs().max().item()
    print(f"{name:16} the output is off by {off:.3f}")

# %% [markdown]
# A test that needs no reference would help: moving the whole text by 100 positions must not change the output.
# **Predict** how many of the four mistakes this test finds.

# %%
def is_found(mistake):
    return (run(**mistake, first=100) - run(**mistake)).abs().max().item() > 1e-3


guess = ...  # 0 to 4
predict(guess, lambda: sum(is_found(mistake) for mistake in mistakes.values()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It finds the first two. With a plus for the minus the pairs are no longer rotated, and a score depends on the *sum*
# of the two positions, too. And rotated values bring their absolute positions into the output. Each has a page with
# the right code:
# [rotary-wrong-turn](https://attention-course.github.io/attention-course/mistakes/rotary-wrong-turn.html) and
# [rotary-on-values](https://attention-course.github.io/attention-course/mistakes/rotary-on-values.html).
#
# The other two are rotations as well, and a model may be *trained* with them. Meta's files do pair neighbours, and
# the library transformers reorders their projections, as you do in exercise 5 of lesson 09.
#
# </details>
#
# But a model that was trained with one rotation computes other scores with another one. Read what the storyteller
# makes of these two. A lost 2 in the exponent is the same as a base of 10 in place of 100. And rotating neighbours is
# the same as reordering the elements of a head (0, 2, and so on, then 1, 3, and so on) and rotating halves; the cell
# reorders the rows of the matrices:

# %%
lost_two = with_rotation(base=10.0).write("Once there was a")
print(fill(f"exponent: {lost_two}", 80))

# %%
order = torch.arange(16).view(8, 2).T.flatten()  # 0, 2, ... 14, then 1, 3, ... 15
reordered = load_storyteller("llama").to(device)
for attention in reordered.attentions:
    for proj in (attention.q_proj, attention.k_proj):  # rows are elements of a head
        per_head = proj.weight.detach().unflatten(0, (-1, 16))
        proj.weight = nn.Parameter(per_head[:, order].flatten(0, 1))
print(fill("neighbours: " + reordered.write("Once there was a", num_words=60), 80))

# %% [markdown]
# Exercise 3 of [the sheet](exercises/07_exercises.ipynb) asks for the rotation of neighbours, for any head.
#
# ## A bias in place of the rotation
#
# Some models, such as BLOOM, rotate nothing. They *subtract* from each score the distance times a slope (**ALiBi**;
# [Press et al.](https://arxiv.org/abs/2108.12409), 2022). Head $i$ of $h$ heads, counted from 0, has the slope $2^{-8
# (i + 1) / h}$ (if $h$ is a power of two). To see the bias alone, let one word be repeated six times, so that all
# products of queries and keys are equal, say 0:

# %%
distance = 5 - torch.arange(6)  # from the last query to each key
slopes = 2.0 ** -torch.arange(1.0, 9.0)  # of eight heads
print("1 divided by the slopes:", (1 / slopes).int().tolist())
weights = (-slopes[:, None] * distance).softmax(dim=-1)  # (head, key)
print("attention weights of the last word, by the place of the key:")
for head in (0, 1, 7):
    print(f"head {head}:", "  ".join(f"{weight:.4f}" for weight in weights[head]))

# %% [markdown]
# The nearer a word, the more it gets, steeply in head 0 and hardly in head 7. If you *add* distance times slope, the
# most distant word wins. One repeated word shows the mistake: within a row, the attention weights must grow towards the
# last word ([bias-wrong-sign](https://attention-course.github.io/attention-course/mistakes/bias-wrong-sign.html)).
#
# ## Your turn
#
# Write `base = 10000.0` in the cell that makes `cos` and `sin`, and run the cells from there on to the dials. What
# happens to pair 1 and pair 2?
#
# <details><summary>Answer</summary>
#
# Both hardly move any more: pair 1 by less than 3 degrees per token, and pair 2 by about a tenth of a degree. The
# speed of pair 0 is 1 for every base.
#
# </details>
#
# ## What you have now
#
# A single layer of attention doesn't see in which order the words before came; two layers with a mask see something
# of it, and of three storytellers without positions one found out who gave. A model that learned a vector for each
# position loses its thread far from where it learned. One with your rotation tells the same story wherever the text
# begins, because its scores depend on distances. And a test that moves the whole text finds two of four silent
# mistakes without any reference.
#
# **Practise:** [five exercises](exercises/07_exercises.ipynb), about 30 minutes.
#
# **Next:** [08 Padding and two sequences](08_padding.ipynb).
