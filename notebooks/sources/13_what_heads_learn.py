# %% [markdown]
# # See what heads learn
#
# [Open in
# Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/13_what_heads_learn.ipynb)
#
# A storyteller reads about a bear named Zoe and a pig named Leo. Asked for the bear's name, it says Zoe. Then it reads
# the same text once more, word for word, with the same weight matrices, and says Leo. All that happened
# in between: sixteen numbers of one word changed places with sixteen numbers of another. Run the two cells below to see
# it. By the end of this lesson you'll find such heads in models that you haven't opened before, and make this exchange
# yourself, and others.
#
# **You need** lessons [05](05_weight_split.ipynb) and [06](06_multi_query.ipynb). **It takes** about 60 minutes.

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
from textwrap import fill

import torch
from torch import nn

from course_lib.device import course_device
from course_lib.exercises import filled, predict
from course_lib.pictures import draw_patch
from course_lib.stories import load_storyteller, stories, with_attention, words

device = course_device()
storyteller = load_storyteller("weight split").to(device)
told = (
    "In a green valley lived a bear named {hero}. One morning {hero} went to the lake. "
    'By the lake she met a pig. "My name is {friend}," said the pig. '
    '"And I am {hero}," said the bear. {hero} and {friend} talked until '
    "the sun went down. What was the name of the bear? It was"
)
story = told.format(hero="Zoe", friend="Leo")
print(fill(story, 80))


def exchanged(module, inputs, keys):  # (b, t, m), in a model that you know already
    keys = keys.clone()
    keys[:, [9, 31], 32:48] = keys[:, [31, 9], 32:48]  # "Zoe" is token 9, "Leo" 31
    return keys


print("as it is: ", storyteller.write(story, num_words=1).split()[-1])
with storyteller.attentions[1].k_proj.register_forward_hook(exchanged):
    told_wrong = storyteller.write(story, num_words=1, use_cache=False)
print("exchanged:", told_wrong.split()[-1])

# %% [markdown]
# `exchanged` is a **hook**: PyTorch calls it with the keys that `k_proj` has just computed, and goes on with those that
# it returns. That is an experiment on a model's inside. To go on you need a measure that *finds* heads worth looking
# at, a way to *remove* one, and a way to *exchange* what it holds.
#
# ## Find the head
#
# In lesson 03 you removed all eight heads of this model (the same matrices, there head by head) to see which matters. A
# large model has thousands, so first measure where each head looks, which takes a single run. A model reads stories
# that it hasn't been trained on, and we ask wherever a fact is said again: how much of its attention does a head give
# to that word, where it stood before?

# %%
chosen = [one for one in stories(4000, seed=2_200_000) if len(words(one.text)) == 85]
tokens = torch.cat([storyteller.encode(one.text) for one in chosen])  # (b, t)
KINDS = ("name", "animal", "thing", "colour", "place")
# kind -> (b, t), True where the next word says such a fact again
repeats = {kind: torch.zeros(tokens.shape, dtype=torch.bool) for kind in KINDS}
for number, one in enumerate(chosen):
    for fact in one.facts:
        if fact.kind in KINDS:
            repeats[fact.kind][number, list(fact.repeats)] = True
repeats = {kind: table.to(device) for kind, table in repeats.items()}
print(len(chosen), "stories; names said again:", repeats["name"].sum().item())

# %% [markdown]
# **Write it yourself.** Which keys hold the word that comes next? For the tokens D R D R, query 1 (the first R, after
# which comes a D) has True at key 0 and nowhere else. A key may not be later than its query.


# %%
def holds_next_word(tokens):
    # (batch, token) of integers -> (batch, query, key) of bool
    # shift the tokens by one, compare, clear what is later: three lines
    raise NotImplementedError


holds_next_word = filled("holds_next_word", holds_next_word)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def holds_next_word(tokens):
#     # (batch, token) of integers -> (batch, query, key) of bool
#     following = torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], -1)], dim=1)
#     # (b, q, 1) == (b, 1, k) -> (b, q, k)
#     found = following[:, :, None] == tokens[:, None]
#     return found.tril()
# ```
#
# </details>
#
# **Write it yourself.** The measure: add up each query's weights on its wanted keys, and take the mean over all queries
# that have one, for each head.


# %%
def mean_weight_on(weights, wanted):
    # (batch, head, query, key), (batch, query, key) of bool -> (head)
    # add up, keep the queries that have a wanted key, mean: three lines
    raise NotImplementedError


mean_weight_on = filled("mean_weight_on", mean_weight_on)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def mean_weight_on(weights, wanted):
#     # (batch, head, query, key), (batch, query, key) of bool -> (head)
#     # (b, h, q, k) * (b, 1, q, k) -> (b, h, q)
#     found = (weights * wanted[:, None]).sum(dim=-1)
#     counts = wanted.any(dim=-1)  # (b, q)
#     return found.transpose(1, 2)[counts].mean(dim=0)  # (query that counts, h) -> (h)
# ```
#
# </details>
#
# Now a model that we haven't looked into yet, the one with shared keys and values:


# %%
def weights_of(model):  # (block, b, h, q, k)
    found = [model.attention_weights(one.text)[1] for one in chosen]
    return torch.stack(found, dim=1)


def looks_up(model, kind):  # (block, head)
    wanted = holds_next_word(tokens) & repeats[kind][:, :, None]
    return torch.stack([mean_weight_on(block, wanted) for block in weights_of(model)])


def show_heads(scores):
    for block, heads in enumerate(scores.tolist()):
        print(f"block {block}:", " ".join(f"{score:.2f}" for score in heads))


stored = load_storyteller("multi-query").to(device)
show_heads(looks_up(stored, "name"))  # where the next word says a name again

# %% [markdown]
# In this model head 0 of block 1 looks where the right name is. Wang et al. found heads that do this in GPT-2, and
# called them **name movers** ([Interpretability in the Wild: a Circuit for Indirect Object Identification in GPT-2
# small](https://arxiv.org/abs/2211.00593), 2022). Other habits are measured by the same function, with other keys
# wanted. Heads that look at the token before the query are **previous-token heads**; heads that look at what came
# *after* an earlier copy of the query are **induction heads** (Elhage et al., [A Mathematical Framework for Transformer
# Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021; Olsson et al., [In-context Learning and
# Induction Heads](https://arxiv.org/abs/2209.11895), 2022). Exercises 1 to 3 of [the
# sheet](exercises/13_exercises.ipynb) are about these two.
#
# And "best", which has three blocks? Four of its heads look for names, two in block 1 and two in block 2:

# %%
show_heads(looks_up(load_storyteller("best").to(device), "name"))

# %% [markdown]
# ## An attention that can be opened
#
# Attention weights say where a head looks. Does anything depend on it? To find out, we have to change what happens
# inside. PyTorch's hooks see all heads side by side; a class with a hook of its own is tidier.
#
# **Write it yourself, from an empty class.** Grouped-query attention, as in lesson 06, that gives each query head its
# own copy of keys and values. It has an attribute `edit`, which is `None` at first. If it is set to a function,
# `forward` calls `edit(queries, keys, values)`, each (batch, head, token, head_dim), and goes on with the three that
# it returns.


# %%
class MyOpenAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        raise NotImplementedError  # q_proj, k_proj, v_proj, out_proj, edit

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError


MyOpenAttention = filled("MyOpenAttention", MyOpenAttention)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyOpenAttention(nn.Module):
#     def __init__(self, d_in, d_out, num_heads, num_kv_heads):
#         super().__init__()
#         self.head_dim = d_out // num_heads
#         self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
#         self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#         self.edit = None  # or a function of queries, keys and values
#
#     def to_heads(self, x):  # (b, t, h * d) -> (b, h, t, d)
#         return x.unflatten(2, (-1, self.head_dim)).transpose(1, 2)
#
#     def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
#         queries = self.to_heads(self.q_proj(x))
#         # a copy for each head, so that one head's can be changed alone
#         shared = self.num_heads // self.num_kv_heads
#         keys = self.to_heads(self.k_proj(x)).repeat_interleave(shared, dim=1)
#         values = self.to_heads(self.v_proj(x)).repeat_interleave(shared, dim=1)
#         if self.edit:
#             queries, keys, values = self.edit(queries, keys, values)
#         # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
#         scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
#         hidden = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
#         context = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values
#         return self.out_proj(context.transpose(1, 2).flatten(2))
# ```
#
# </details>
#
# Now your class goes into the storytellers, with the weights that were trained. From here on, an experiment is a
# dictionary that says which block gets which `edit`. `run_with` runs a model with it, `only` makes an `edit` that
# changes some of the three and leaves the others, and `sure_of` says how much probability, on average, the model gives
# to the right word where a fact is said again:

# %%
PARTS = ("queries", "keys", "values")


def opened(form, num_kv_heads):
    def attention(*sizes):
        return MyOpenAttention(*sizes, num_kv_heads)

    return with_attention(load_storyteller(form), attention).to(device)


@torch.no_grad()
def run_with(model, tokens, edits):  # edits: block -> edit; returns the logits
    for block, edit in edits.items():
        model.attentions[block].edit = edit
    try:
        return model(tokens)
    finally:
        for block in edits:
            model.attentions[block].edit = None


def only(change, *which):  # which: some of PARTS
    def edit(*parts):
        named = zip(PARTS, parts, strict=True)
        return [change(one) if name in which else one for name, one in named]

    return edit


def sure_of(logits):  # kind -> a probability
    right = logits.softmax(-1)[:, :-1].gather(2, tokens[:, 1:, None])[:, :, 0]
    return {kind: right[repeats[kind][:, :-1]].mean().item() for kind in KINDS}


def show_sure(name, logits):
    shown = "  ".join(f"{kind} {sure:.2f}" for kind, sure in sure_of(logits).items())
    print(f"{name:18} {shown}")


# %%
multi_query = opened("multi-query", 1)
as_it_is = run_with(multi_query, tokens, {})
with torch.no_grad():
    torch.testing.assert_close(as_it_is, stored(tokens))
print("your class in the storyteller: the same logits")

# %% [markdown]
# ## Remove it
#
# Zeros are the plainest way to remove a head, but the rest of the model never met zeros there, and might fail for that
# reason alone. So put the *mean* of the head's values everywhere, which says nothing about any word. As the weights of
# a row sum to 1, the head then finds this mean wherever it looks. Such a removal is called **mean ablation**, the one
# with zeros **zero ablation**.
#
# **Write it yourself.** Replace the values of one head by their mean over all samples and tokens.


# %%
def replace_by_mean(values, head):
    # (batch, head, token, d), int -> (batch, head, token, d)
    raise NotImplementedError  # two lines, and the return; values itself stays as it is


replace_by_mean = filled("replace_by_mean", replace_by_mean)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def replace_by_mean(values, head):
#     # (batch, head, token, d), int -> (batch, head, token, d)
#     replaced = values.clone()
#     replaced[:, head] = values[:, head].mean(dim=(0, 1))  # (b, t, d) -> (d)
#     return replaced
# ```
#
# </details>


# %%
def emptied(*heads):  # an edit that puts the mean in the place of their values
    def edit(queries, keys, values):
        for head in heads:
            values = replace_by_mean(values, head)
        return queries, keys, values

    return edit


show_sure("multi-query", as_it_is)
for head in range(4):
    show_sure(f"without (1, {head})", run_with(multi_query, tokens, {1: emptied(head)}))

# %% [markdown]
# The measure named the right head of block 1: without it hardly a fact is left, and without one of the other three
# little changes.
#
# In "best", head 2 of block 2 scored highest, with 0.99 of its attention on the right name. With all heads the model
# gives names a probability of 0.90.
#
# **Predict.** And without head (2, 2)? Look at the other heads of block 2 first. Is it nearest to 90, 50 or 10 percent?

# %%
best = opened("best", 2)
guess = ...  # 90, 50 or 10
without = run_with(best, tokens, {2: emptied(2)})
left = 100 * sure_of(without)["name"]
predict(guess, lambda: min((90, 50, 10), key=lambda percent: abs(percent - left)))

# %%
show_sure("best", run_with(best, tokens, {}))
show_sure("without (2, 2)", without)
show_sure("and (2, 1)", run_with(best, tokens, {2: emptied(1, 2)}))
more = {1: emptied(2, 3), 2: emptied(1, 2)}
show_sure("and (1, 2), (1, 3)", run_with(best, tokens, more))

# %% [markdown]
# Without (2, 2) little is lost. Without both heads that look at the name in block 2, more is. When the two of block 1
# are gone as well, the names are lost, and with them most things: these heads do other work, too. **Where a head looks
# and whether it is needed are two questions.** In GPT-2, Wang et al. found that some *later* heads do more of the work
# when the name movers are gone.
#
# **Now do** exercise 5 of [the sheet](exercises/13_exercises.ipynb).
#
# ## Two stories that differ in one word
#
# Head (1, 2) of "weight split", the model at the top, carries the name: in lesson 03 you removed all eight in turn.
# *How* does it carry it? Take a second story, equal to the first but for the hero's name, Mila. Let the model read
# both, and bring one thing at a time from Mila's run into Zoe's: the queries of this head, its keys, or its values. If
# the model then says Mila, that thing carried the name.
#
# **Write it yourself.** Return what the heads have `here`, with one head taken from `there`.


# %%
def patch(here, there, head):
    # 2 x (batch, head, token, d), int -> (batch, head, token, d)
    raise NotImplementedError  # two lines, and the return; here stays as it is


patch = filled("patch", patch)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def patch(here, there, head):
#     # 2 x (batch, head, token, d), int -> (batch, head, token, d)
#     patched = here.clone()
#     patched[:, head] = there[:, head]
#     return patched
# ```
#
# </details>

# %%
GIRLS = ["Anna", "Clara", "Ella", "Emma", "Lucy", "Maya", "Mila", "Nora", "Rose", "Zoe"]
BOYS = ["Ben", "Finn", "Hugo", "Jack", "Leo", "Max", "Noah", "Paul", "Sam", "Tom"]
others = GIRLS[1:] + GIRLS[:1]  # each girl gets another name in the second story
model = opened("weight split", 4)


def read(heroes):
    texts = [told.format(hero=hero, friend=boy) for hero in heroes for boy in BOYS]
    return torch.cat([model.encode(text) for text in texts])  # (b, t)


def says(logits, names):  # in how many of the stories
    last = logits[:, -1].argmax(dim=-1)  # (b)
    right = torch.tensor([model.numbers[name] for name in names], device=device)
    return (last == right).float().mean().item()


def parts_of(model, tokens, edits):  # in block 1: name -> (b, h, t, d)
    kept = {}

    def keep(*parts):
        kept.update(zip(PARTS, parts, strict=True))
        return parts

    run_with(model, tokens, edits | {1: keep})
    return kept


def with_patch(part, here, there):  # head (1, 2) gets one part from there
    change = only(lambda tensor: patch(tensor, there[part], 2), part)
    return run_with(model, here, {1: change})


here, there = read(GIRLS), parts_of(model, read(others), {})
own = [hero for hero in GIRLS for _ in BOYS]
other = [hero for hero in others for _ in BOYS]
draw_patch("Zoe", "Mila", PARTS, "queries")

# %% [markdown]
# The picture shows it for the queries. We try all three, with a hundred pairs of stories.
#
# **Predict.** Which of the three, brought from the other story, brings the other name: `"queries"`, `"keys"` or
# `"values"`?

# %%
guess = ...  # one of the three, in quotes
patched = {part: with_patch(part, here, there) for part in PARTS}
predict(guess, lambda: max(PARTS, key=lambda part: says(patched[part], other)))

# %%
for part, logits in patched.items():
    said = f"own name {says(logits, own):.2f}, other name {says(logits, other):.2f}"
    print(f"{part:8} {said}")

# %% [markdown]
# The values carry the name, and they alone. With the other story's queries or keys the model still says Zoe. To replace
# a part of one run by that of another is called **activation patching**, and between two ordinary inputs, such as ours,
# an **interchange intervention** (Geiger et al., [Causal Abstractions of Neural
# Networks](https://arxiv.org/abs/2106.02997), 2021).
#
# ## The keys alone
#
# What are the keys for, then? For *where*. You can see it within a single story: exchange the keys of two of its words,
# and leave the values where they are.
#
# **Write it yourself.** Return what the heads have `here`, with two tokens exchanged.


# %%
def exchange(here, one, other):
    # (batch, head, token, d), two positions -> (batch, head, token, d)
    raise NotImplementedError  # three lines, and the return; here stays as it is


exchange = filled("exchange", exchange)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def exchange(here, one, other):
#     # (batch, head, token, d), two positions -> (batch, head, token, d)
#     exchanged = here.clone()
#     exchanged[:, :, one] = here[:, :, other]
#     exchanged[:, :, other] = here[:, :, one]
#     return exchanged
# ```
#
# </details>

# %%
friends = BOYS * len(GIRLS)
zoe, leo = 9, 31  # the tokens at which the two names are introduced


def exchanging(*which):  # the logits, with these of PARTS exchanged in head (1, 2)
    change = only(lambda tensor: patch(tensor, exchange(tensor, zoe, leo), 2), *which)
    return run_with(model, here, {1: change})


for part in ("keys", "values"):
    logits = exchanging(part)
    said = f"hero {says(logits, own):.2f}, friend {says(logits, friends):.2f}"
    print(f"{part:7} {said}")

# %% [markdown]
# The first row is the exchange at the top, in a hundred stories. The keys are labels on boxes, and the values are what
# is in them. Exchange either, and whoever looks for the hero finds the friend.
#
# **Predict.** Now exchange both, the keys and the values. Whose name does the model say?

# %%
guess = ...  # "hero" or "friend"
logits = exchanging("keys", "values")
hero_first = says(logits, own) > says(logits, friends)
predict(guess, lambda: "hero" if hero_first else "friend")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The hero's, in all hundred stories. It has to be so, with any weights: each label is on its own box again, and a sum
# doesn't know the order of its terms.
#
# </details>
#
# ## Who wrote the labels
#
# A key of block 1 is computed from what block 0 left at that word. The name itself is there from the start. That it is
# the *hero's* name must have come from its position or from other words, and attention alone moves things between
# words. So run the model with the attention of block 0 silenced, and bring one thing from that run into an ordinary
# one: the queries, the keys or the values of head (1, 2), "unwritten", without a message of block 0.


# %%
def silent(queries, keys, values):  # every head finds its mean, everywhere
    return queries, keys, values.mean(dim=(0, 2), keepdim=True).expand_as(values)


unwritten = parts_of(model, tokens, {0: silent})
show_sure("weight split", run_with(model, tokens, {}))
for part in PARTS:
    show_sure(f"unwritten {part}", with_patch(part, tokens, unwritten))

# %% [markdown]
# The values hardly need the messages. The queries lose most without them: which kind of word comes next, and for a name
# which of the names, is in what block 0 left there. The keys need them for names and animals, and not for things,
# colours and places. Why for these two?
#
# **Predict.** These stories have one thing at most. Take others, with *two* things, again with unwritten keys. Where
# one of the two is said again, how much probability goes to the *other* one? (How much do names and animals lose?)

# %%
right, wrong = [], []  # probabilities of the two things, where the right one comes next
for one in stories(400, seed=2_300_000):
    things = [fact for fact in one.facts if fact.kind == "thing"]
    both = {fact.word for fact in things}
    if len(both) == 2:
        text = model.encode(one.text)
        logits = with_patch("keys", text, parts_of(model, text, {0: silent}))
        for fact in things:
            sure = logits.softmax(-1)[0, list(fact.repeats)]  # (repeat, word)
            (wrong_one,) = both - {fact.word}
            right += sure[:, model.numbers[fact.word]].tolist()
            wrong += sure[:, model.numbers[wrong_one]].tolist()

guess = ...  # a number from 0 to 1
predict(guess, lambda: sum(wrong) / len(wrong), within=0.15)
if guess is not ...:
    print(f"to the right one: {sum(right) / len(right):.2f}")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The number decides, not the kind. The stories before had one hero and mostly one friend: two names, two animals.
# Where there is one of a kind, any word of that kind is the right one. Where there are two, a key has to say whose it
# is, and without the messages it says so less clearly.
#
# </details>
#
# When a head reads in its queries, keys or values what a head below has written, Elhage et al. call that **Q-, K- or
# V-composition**. To change what goes along one such path alone is **path patching** (Goldowsky-Dill et al.,
# [Localizing Model Behavior with Path Patching](https://arxiv.org/abs/2304.05969), 2023).
#
# **Now do** exercise 6 of [the sheet](exercises/13_exercises.ipynb).
#
# ## Your turn: an unknown model
#
# "no positions" was trained without any positions. Nobody has told you what its heads do. Open it with
# `opened("no positions", 1)`, and find out with your own tools:
#
# 1. Which heads look up the names, which the things, which the animals?
# 2. Remove the heads that you have found, first each alone and then together. What does each carry?
# 3. Does it need the messages of block 0 in its keys, as "weight split" does?
# 4. How much weight goes to the first token, (start), which is no word of the story (exercise 4 of [the
#    sheet](exercises/13_exercises.ipynb))? Set its values to 0, in block 1 and then in block 0. What happens to the
#    loss?
#
# <details><summary>Answers</summary>
#
# 1. Two heads of block 1 share the work. For names both score high, head 0 higher; for things head 0 alone, and for
#    animals head 3 more than head 0:
#
#    ```python
#    unknown = load_storyteller("no positions").to(device)
#    for kind in KINDS:
#        print(kind)
#        show_heads(looks_up(unknown, kind))
#    ```
#
# 2. Without head 0 the things are lost, and most places. Without head 3 about half of the animals are, and some of the
#    colours. Names suffer a little or a good deal, and are lost only without both:
#
#    ```python
#    unknown = opened("no positions", 1)
#    for heads in ((0,), (3,), (0, 3)):
#        show_sure(f"without {heads}", run_with(unknown, tokens, {1: emptied(*heads)}))
#    ```
#
# 3. Yes, and more so. Take both heads from the run with a silent block 0:
#
#    ```python
#    unwritten = parts_of(unknown, tokens, {0: silent})["keys"]
#    both = only(lambda keys: patch(patch(keys, unwritten, 0), unwritten, 3), "keys")
#    show_sure("unwritten keys", run_with(unknown, tokens, {1: both}))
#    ```
#
#    Names and animals fall below half, and things suffer, too. So it tells hero and friend apart by what block 0 has
#    written, which may well include places: the mask reveals them (lesson 07). One task, several solutions: a circuit
#    that you find in one model needn't be in the next.
#
# 4. Every head of block 1 gives it more than any of block 0:
#
#    ```python
#    weights = weights_of(load_storyteller("no positions").to(device))
#    show_heads(weights[:, :, :, 1:, 0].mean(dim=(1, 3)))
#
#    def nothing_at_start(values):
#        changed = values.clone()
#        changed[:, :, 0] = 0
#        return changed
#
#    for edits in ({}, {1: only(nothing_at_start, "values")}, {0: only(nothing_at_start, "values")}):
#        scores = run_with(unknown, tokens, edits)[:, :-1].transpose(1, 2)  # (b, word, t)
#        print(*edits, nn.functional.cross_entropy(scores, tokens[:, 1:]).item())
#    ```
#
#    In block 1 nothing is fetched there: (start) is an **attention sink** (lesson [10](10_smaller_caches.ipynb)), which
#    takes the weight that a softmax has to give away somewhere. In block 0 the column is fainter, and without what
#    is fetched there the loss nearly doubles. A colour tells where a head looks, once more, and not what it needs.
#
# </details>
#
# ## What you have now
#
# A measure that finds heads, ablation, activation patching and path patching, each with a function of yours at its
# heart. You know what each can tell: where a head looks, whether it is needed, and which of its parts carries what. All
# that was found here is about these trained models, not about attention as such. [Transformer
# Explainer](https://poloclub.github.io/transformer-explainer/) shows the heads of a trained GPT-2.
#
# **Practise:** [six exercises](exercises/13_exercises.ipynb), about 25 minutes.
#
# **Next:** [14 Make it fast, and know why](14_fast.ipynb).
