# %% [markdown]
# # See what heads learn
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/10_what_heads_learn.ipynb)
#
# You will train four tiny models in seconds, and find out what their heads learn, and when. You measure where each
# head looks, switch heads off, and exchange what a head passes on, to test the story that you tell about it. The last
# model gets no positions at all.
#
# **You need** lessons [05](05_weight_split.ipynb) and [06](06_multi_query.ipynb). **It takes** about 45 minutes.

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
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import MultiHeadAttention, MultiQueryAttention
from course_lib.device import course_device
from course_lib.exercises import filled, predict
from course_lib.pictures import head_heatmaps, line_plot

device = course_device()
# products as small as ours are slower when several threads share them
torch.set_num_threads(1)

# %% [markdown]
# ## A task that attention can solve
#
# In our task 4 to 12 random letters, all different, form a round, which is repeated until there are 16 letters (so
# the last round often breaks off). The model has to **say the next letter**.

# %%
alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
num_tokens = 16


# %%
def draw(num_samples, generator, shortest=4, longest=12, later=0):
    """Letters (sample, token) in rounds of this length, and which can be known.

    `later=1` leaves out the first capital of each row.
    """
    period = torch.randint(shortest, longest + 1, (num_samples, 1), generator=generator)
    # all different within a round
    order = torch.rand(num_samples, 26, generator=generator).argsort(dim=1)
    place = torch.arange(num_tokens)
    # in each row the letters at these numbers
    return order.gather(1, place % period), place >= period + later


# %%
letters, known = draw(4, torch.Generator().manual_seed(0))
for numbers, can in zip(letters.tolist(), known.tolist(), strict=True):
    pairs = zip((alphabet[number] for number in numbers), can, strict=True)
    print(" ".join(letter if sure else letter.lower() for letter, sure in pairs))

# %% [markdown]
# Lowercase letters are the first round, which can't be predicted. Capital letters can be predicted if you ask: *where
# was the letter before this one seen earlier, and what came after it?* The rounds have different lengths, so looking
# back by a fixed number of places isn't enough. For the first capital of a row the question has no answer, because the
# letter before it is still a new one, such as the h before the I. That capital is always the row's first letter, which
# will matter later.
#
# ## The model
#
# The model is a small transformer (Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762),
# 2017) without its feed-forward networks. If you skipped lesson 08, these parts are new:
#
# - The **embeddings** of the letters, one learned vector each, are the rows of a table. A second table has one per
#   place, and the two vectors are added, so that a token carries both what it is and where it is.
# - **LayerNorm** rescales each token's vector to mean 0 and variance 1, so that every layer gets numbers of a similar
#   size.
# - The **residual addition** `x + found` keeps what was there. So layer 1 can read the letters themselves as well as
#   what layer 0 wrote.
# - The last linear layer turns each vector into 26 scores, called **logits**, one per letter.
#
# The library's attention is causal, and can return its weights.


# %%
class TinyModel(nn.Module):
    def __init__(self, attention, width=64):
        super().__init__()
        self.letters = nn.Embedding(26, width)
        self.places = nn.Embedding(num_tokens, width)
        layers = [attention(width, width, num_heads=2) for _ in range(2)]
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.to_logits = nn.Linear(width, 26, bias=False)
        for embedding in (self.letters, self.places):
            nn.init.normal_(embedding.weight, std=0.2)

    def forward(self, letters):
        # (b, t) -> (b, t, m)
        x = self.letters(letters) + self.places.weight[: letters.shape[1]]
        all_weights = []
        for layer, norm in zip(self.layers, self.norms[:-1], strict=True):
            found, weights = layer(norm(x), return_weights=True)
            x = x + found
            all_weights.append(weights)  # (b, h, q, k)
        # (b, t, 26), (layer, b, h, q, k)
        return self.to_logits(self.norms[-1](x)), torch.stack(all_weights)


# %% [markdown]
# We test with 500 other sequences, and count how often the largest logit is the right letter, wherever it can be known
# (exercise 1 of [the sheet](exercises/10_exercises.ipynb) asks for this function).

# %%
test_letters, test_known = draw(500, torch.Generator().manual_seed(12345))


# %%
@torch.no_grad()
def run(model, letters):
    logits, weights = model(letters.to(device))
    return logits.cpu(), weights.cpu()


# %%
def accuracy(model):
    logits, _ = run(model, test_letters)
    # place t predicts t + 1
    right = logits[:, :-1].argmax(dim=-1) == test_letters[:, 1:]
    return right[test_known[:, 1:]].float().mean().item()


# %%
torch.manual_seed(3)
untrained = TinyModel(MultiHeadAttention).to(device)
print(f"untrained: {accuracy(untrained):.2f} right")

# %% [markdown]
# Guessing one of 26 letters gives the same.
#
# ## Train it
#
# Each step draws 32 sequences and computes the **cross-entropy**: minus the logarithm of the probability that the model
# gives to the right letter, averaged over the letters that can be known. 0 is perfect, and guessing costs
# $\ln 26 = 3.26$. The gradients say in which direction this loss falls, and all parameters move a little that way.
#
# How far each of them moves, **Adam** (Kingma and Ba, [Adam: A Method for Stochastic
# Optimization](https://arxiv.org/abs/1412.6980), 2015) decides from its recent gradients, and the **learning rate**
# (`"lr"`) scales all moves. It grows during a **warm-up** of 50 steps and shrinks afterwards, and gradients that are
# too long are **clipped**.


# %%
def train(model, steps=600, fastest=5e-3, later=0):
    generator, losses, copies = torch.Generator().manual_seed(3), {}, {}
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        rate = fastest * min(1.0, (step + 1) / 50) * (1 - step / steps)
        optimizer.param_groups[0]["lr"] = rate
        letters, known = draw(32, generator, later=later)
        letters, known = letters.to(device), known.to(device)
        logits, _ = model(letters)
        can = known[:, 1:]
        loss = F.cross_entropy(logits[:, :-1][can], letters[:, 1:][can])
        if step % 20 == 0:
            losses[step], copies[step] = loss.item(), deepcopy(model)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return losses, copies


# %% tags=["trained", "nbval-ignore-output"]
models, losses, copies = {}, {}, {}
kinds = {"multi-head": MultiHeadAttention, "multi-query": MultiQueryAttention}
for name, attention in kinds.items():
    torch.manual_seed(3)
    models[name] = TinyModel(attention).to(device)
    losses[name], copies[name] = train(models[name])
    print(f"{name}: {accuracy(models[name]):.3f} right")
assert min(map(accuracy, models.values())) > 0.98
model = models["multi-head"]

# %% [markdown]
# Both models solve the task. Your machine may end with other decimals, or with two heads exchanged; an `assert` checks
# what the text claims in your run, too.
#
# ## Look at the heads
#
# We look at DREAM three times, and a D.

# %%
dream = ("DREAM" * num_tokens)[:num_tokens]
dream_letters = torch.tensor([[alphabet.index(letter) for letter in dream]])


# %%
def look(model, layer):
    weights = run(model, dream_letters)[1][layer, 0]  # (h, q, k)
    return head_heatmaps(weights, list(dream), title=f"Layer {layer}")


# %% tags=["trained", "nbval-ignore-output"]
look(model, layer=0)

# %% [markdown]
# In one head of layer 0 the cells right below the diagonal are bright: each letter looks at **the letter before it**.
# This is a **previous-token head**. Further down the line fades; "Your turn" asks why.

# %% tags=["trained", "nbval-ignore-output"]
look(model, layer=1)

# %% [markdown]
# In layer 1 the first five rows are bright in the first column (why, we will see later). Then a line begins. The second
# D looks at the first R, the letter that came *after* the first D, which is the answer. (In our run some rows, such as
# those of the second and the third D, leave a part of their weight on the first D, which is no answer there.) Such
# heads are called **induction heads** (Elhage et al., [A Mathematical Framework for Transformer
# Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021; Olsson et al., [In-context Learning and
# Induction Heads](https://arxiv.org/abs/2209.11895), 2022).
#
# ## Measure the first habit
#
# A picture shows one word; one number per head sums up many words. **Write it yourself.** The mean weight that a query
# gives to the token right before it, for each head. Query 0 has no such token, so it doesn't count.


# %%
def previous_token_score(weights):  # (batch, head, query, key) -> (head)
    # weights.diagonal(-1, ...) of queries and keys, and its mean: two lines
    raise NotImplementedError


previous_token_score = filled("previous_token_score", previous_token_score)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def previous_token_score(weights):  # (batch, head, query, key) -> (head)
#     before = weights.diagonal(-1, dim1=2, dim2=3)  # (b, h, q, k) -> (b, h, q - 1)
#     return before.mean(dim=(0, 2))
# ```
#
# </details>
#
# ## Measure the second habit
#
# **Write it yourself.** Which keys come right after an earlier copy of the query's letter? For D R D R, query 2 (the
# second D) has True at key 1, the first R, and nowhere else. A key may not be later than its query.


# %%
def comes_after_copy(tokens):
    # (batch, token) of integers -> (batch, query, key) of bool
    # F.pad shifts the tokens; compare each with the one before each key: three lines
    raise NotImplementedError


comes_after_copy = filled("comes_after_copy", comes_after_copy)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def comes_after_copy(tokens):
#     # (batch, token) of integers -> (batch, query, key) of bool
#     token_before = F.pad(tokens[:, :-1], (1, 0), value=-1)  # key 0 has none: -1
#     # (b, q, 1) == (b, 1, k) -> (b, q, k)
#     found = tokens[:, :, None] == token_before[:, None]
#     return found.tril()
# ```
#
# </details>
#
# **Write it yourself.** The induction score: add up each query's weights on these keys, then take the mean over all
# queries that have such a key, for each head.


# %%
def induction_score(weights, tokens):
    # (batch, head, query, key), (batch, token) of integers -> (head)
    after_copy = comes_after_copy(tokens)  # (b, q, k)
    # add up the weights on these keys, keep queries that have one, mean: three lines
    raise NotImplementedError


induction_score = filled("induction_score", induction_score)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def induction_score(weights, tokens):
#     # (batch, head, query, key), (batch, token) of integers -> (head)
#     after_copy = comes_after_copy(tokens)  # (b, q, k)
#     # (b, h, q, k) * (b, 1, q, k) -> (b, h, q)
#     found = (weights * after_copy[:, None]).sum(dim=-1)
#     has_copy = after_copy.any(dim=-1)  # (b, q)
#     # (b, q, h) -> (query with a copy, h) -> (h)
#     return found.transpose(1, 2)[has_copy].mean(dim=0)
# ```
#
# </details>
#
# We measure the first habit on the first six letters, before the line fades.


# %%
def habits(model, letters=test_letters):  # two tables (layer, head)
    _, weights = run(model, letters)
    back = torch.stack([previous_token_score(layer[:, :, :6, :6]) for layer in weights])
    return back, torch.stack([induction_score(layer, letters) for layer in weights])


# %% tags=["trained", "nbval-ignore-output"]
for name, one in {"untrained": untrained, **models}.items():
    back, after = habits(one)
    for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1)):
        numbers = f"before {back[layer, head]:.2f}, copy {after[layer, head]:.2f}"
        print(f"{name:11} layer {layer}, head {head}: {numbers}")

# %%
for back, after in map(habits, models.values()):
    assert back[0].max() > 0.6 and after[1].min() > 0.6 and after[0].max() < 0.3
looks_back = habits(model)[0][0].argmax().item()  # the number of the head in layer 0

# %% [markdown]
# Untrained heads spread their weight widely. In the trained model one head of layer 0 and both heads of layer 1
# have a clear habit, and so have those of the multi-query model. Its two heads of layer 0 share their keys, and look at
# different places because their queries differ:

# %% tags=["trained", "nbval-ignore-output"]
look(models["multi-query"], layer=0)

# %% [markdown]
# ## When they learn it
#
# Here are both habits in the copies that `train` kept, and the loss, divided by the first one to fit the same axis.

# %% tags=["trained", "nbval-ignore-output"]
loss = losses["multi-head"]
texts = test_letters[:200]
scores = {step: habits(copy, texts) for step, copy in copies["multi-head"].items()}
best_back = {step: back[0].max().item() for step, (back, _) in scores.items()}
mean_after = {step: after[1].mean().item() for step, (_, after) in scores.items()}
curves = {
    "loss, divided by the first": {step: loss[step] / loss[0] for step in loss},
    "letter before, best head of layer 0": best_back,
    "after a copy, mean of layer 1": mean_after,
}
title, ylabel = "Loss and habits", "loss or score"
line_plot(curves, title=title, xlabel="step", ylabel=ylabel, logarithmic=False)

# %%
fallen, before, after = curves.values()
assert fallen[40] < 0.85 and before[40] < 0.6 and after[40] < 0.25
assert min(before[160], after[160]) > 0.6

# %% [markdown]
# The habits grow together, mostly between step 60 and step 140, while the loss falls to a small part of what it was. It
# has fallen before that, too. At step 40 it has lost a quarter to a third, and hardly any weight goes to what comes
# after a copy: the model has learned something that needs neither habit ("Your turn" asks what).
#
# ## Switch a head off
#
# Attention weights show where a head looks, but not whether anything depends on it. An **ablation** removes what the
# head found, and measures the accuracy again. Here a hook (lesson 05) does it, just before `out_proj` mixes the heads.


# %%
def heads_edited(layer, edit):
    # edit changes what the heads found, (b, h, t, d), in place
    def before_out_proj(_, inputs):
        # (b, t, h * d) -> (b, h, t, d)
        by_head = inputs[0].unflatten(2, (2, -1)).transpose(1, 2).clone()
        edit(by_head)
        return by_head.transpose(1, 2).flatten(2)

    # used in a `with`, which removes the hook at its end
    return layer.out_proj.register_forward_pre_hook(before_out_proj)


# %%
def accuracy_without(model, layer, head, by_mean=False):
    def replace(by_head):
        by_head[:, head] = by_head[:, head].mean(dim=(0, 1)) if by_mean else 0.0

    with heads_edited(model.layers[layer], replace):
        return accuracy(model)


# %% [markdown]
# **Zero ablation** puts zeros in the head's place, which the rest of the model has never met, so it might fail for that
# reason alone. **Mean ablation** puts the head's mean over all samples and tokens there, a usual value that says
# nothing about this token. If both agree, the result is safer.


# %%
def ablations(model):
    for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1)):
        zeros = accuracy_without(model, layer, head)
        mean = accuracy_without(model, layer, head, by_mean=True)
        right = f"{zeros:.2f} right with zeros, {mean:.2f} with the mean"
        print(f"without layer {layer}, head {head}: {right}")


# %% tags=["trained", "nbval-ignore-output"]
ablations(model)
for by_mean in (False, True):
    assert accuracy_without(model, 0, looks_back, by_mean) < 0.7
assert min(accuracy_without(model, 1, head) for head in (0, 1)) > 0.9

# %% [markdown]
# Without the head that looks back many answers are wrong, and zeros and mean agree about that. Without one of the
# induction heads hardly anything changes, although both have the habit: the other one is enough. **Where a head looks
# and whether it is needed are two questions.** Exercises 2 to 4 of [the sheet](exercises/10_exercises.ipynb) fit here.
#
# ## Test the story
#
# Here is a story. The first R is just an R, so the second D can't search for "the letter after the first D". But the
# head that looks back has written into the R "I come after a D". In layer 1 the second D searches for that message, and
# copies the R.
#
# We test it. In MAERD, the word read backwards, R comes after E. Now run DREAMDREAM, but give each letter what the head
# found in MAERDMAERD. The letters keep their order, and only the messages are reversed:
#
# | letter | D | R | E | A | M |
# |---|---|---|---|---|---|
# | its own message: I come after | M | D | R | E | A |
# | the message from MAERD: I come after | R | E | A | M | D |
#
# If the story is true, the model should say the letter *before*. To replace a part of one run by that of another is
# called **activation patching**. A swap between two ordinary inputs, such as ours, is an *interchange intervention*
# (Geiger et al., [Causal Abstractions of Neural Networks](https://arxiv.org/abs/2106.02997), 2021). The *causal
# tracing* of Meng et al. ([Locating and Editing Factual Associations in GPT](https://arxiv.org/abs/2202.05262), 2022)
# brings clean states into a run whose input was made noisy. We take 300 random words of five letters, and look at the
# middle letters, which have a neighbour on both sides.


# %%
words = draw(300, torch.Generator().manual_seed(9), 5, 5)[0][:, :5]
both_ways = torch.cat([words, words.flip(1)]).repeat(1, 2)  # forward, then backward


def exchanged(heads):  # gives forward words what these heads found in backward ones
    def exchange(by_head):
        # (2 * b, h, 2 * t, d): first the forward words, then the backward ones
        forward, backward = by_head.chunk(2)
        # turns each round: D R E A M D R E A M again
        in_order = backward.unflatten(2, (2, -1)).flip(3).flatten(2, 3)
        forward[:, heads] = in_order[:, heads]

    return exchange


# %%
def next_or_previous(logits):  # how often the next letter is said, and the one before
    # in forward words, the middle of the second round
    said = logits.chunk(2)[0][:, 6:9].argmax(dim=-1)
    neighbours = words[:, 2:], words[:, :-2]
    return [(said == neighbour).float().mean().item() for neighbour in neighbours]


def with_exchange(model, heads):
    with heads_edited(model.layers[0], exchanged(heads)):
        return next_or_previous(run(model, both_ways)[0])


# %% tags=["trained", "nbval-ignore-output"]
after, before = with_exchange(model, [looks_back])
print(f"the next letter {after:.2f}, the one before {before:.2f}")
assert before > 0.85 and after < 0.1

# %% [markdown]
# The letters were not moved, and the answers are reversed. So layer 1 really reads what this head wrote, where the
# ablation showed only that the head matters. But the story says more: it says *how* layer 1 reads the message. The
# exchange changed all that layer 1 gets, its queries, its keys and its values. So exchange one of these alone, and
# leave the rest of the run as it was:


# %%
def with_exchange_in(model, heads, projection):
    # `projection` of layer 1 gives what it gave with the exchange; all else is clean
    kept = []
    keep = projection.register_forward_hook(lambda *call: kept.append(call[2]))
    with heads_edited(model.layers[0], exchanged(heads)), keep:
        run(model, both_ways)
    with projection.register_forward_hook(lambda *_: kept[0]):
        return next_or_previous(run(model, both_ways)[0])


reversed_by = {
    name: with_exchange_in(model, [looks_back], getattr(model.layers[1], name))
    for name in ("q_proj", "k_proj", "v_proj")
}

# %% [markdown]
# **Predict** which of the three reverses the answers alone: `"q_proj"`, `"k_proj"` or `"v_proj"`.

# %%
guess = ...  # a name
predict(guess, lambda: max(reversed_by, key=lambda name: reversed_by[name][1]))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is the projection to the keys. The second D asks with what it is itself ("who comes after a D?"), and the message
# answers that question in the R's key. What is then copied, the R, is in its value, which doesn't need the message. Run
# `reversed_by` to see the numbers. When a head of one layer gets its keys from a head of the layer below, Elhage et al.
# call it *K-composition*. It came out so with three other seeds and with a smaller learning rate, too. In some of these
# runs both heads of layer 0 look back, and then the messages of both have to be exchanged.
#
# </details>

# %%
*others, (after, before) = sorted(reversed_by.values(), key=lambda pair: pair[1])
assert before > 0.9 and after < 0.1 and all(pair[0] > 0.9 for pair in others)

# %% [markdown]
# ## Rows that find nothing
#
# In the first round no letter has an earlier copy, so an induction head finds nothing. In the picture of layer 1 the
# first column is bright there. In large language models such a column is an **attention sink** (Xiao et al., [Efficient
# Streaming Language Models with Attention Sinks](https://arxiv.org/abs/2309.17453), 2023): softmax must give away a
# total weight of 1, and the first token takes what isn't needed, and adds nearly nothing to the answer (lesson
# [09](09_smaller_caches.ipynb)).
#
# **Predict.** Is it one here, too? Then the model would not copy the first letter, and would say it in less than half
# of the cases.


# %%
def says_first(model):  # in the first round, once there are two letters to choose from
    said = run(model, test_letters)[0][:, 1:-1].argmax(dim=-1)  # (b, t - 2)
    return (said == test_letters[:, :1])[~test_known[:, 2:]].float().mean().item()


guess = ...  # "yes" or "no"
predict(guess, lambda: says_first(model) < 0.5)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# No: it nearly always says the first letter. So this is no sink; the heads look at the first letter and copy it. Could
# the loss be the reason? It counts the capitals only. If the letter before is new, the only capital that can follow is
# the first one of a row, which is a copy of the first letter. So a head that finds no copy does best to say the first
# letter.
#
# </details>
#
# If that is the reason, the column must go away once the first capital no longer counts. So train the same model again
# without it, and compare the weight that the first column gets in the first round, for each head of layer 1:


# %%
def first_column(model):  # the mean weight per head of layer 1, without letter 0 itself
    _, weights = run(model, test_letters)
    new = ~test_known[:, 1:]
    return weights[1, :, :, 1:, 0].transpose(1, 2)[new].mean(dim=0)


# %% tags=["trained", "nbval-ignore-output"]
torch.manual_seed(3)
indifferent = TinyModel(MultiHeadAttention).to(device)
train(indifferent, later=1)
for name, one in {"as before": model, "first one not counted": indifferent}.items():
    shown = " ".join(f"{weight:.2f}" for weight in first_column(one))
    print(f"{name:21}: column {shown}, says the first letter {says_first(one):.2f}")
assert first_column(model).min() > 0.7 and says_first(model) > 0.9
assert first_column(indifferent).max() < 0.4 and says_first(indifferent) < 0.5

# %% [markdown]
# The column gets no more than an even share of the weight, and the habit is gone. **A head learns what its training
# rewards.**
#
# A bright column alone doesn't tell what it is for. Now do exercises 5 and 6 of [the
# sheet](exercises/10_exercises.ipynb).
#
# ## Without positions
#
# Now train one without places.

# %% tags=["trained", "nbval-ignore-output"]
torch.manual_seed(3)
blind = TinyModel(MultiHeadAttention).to(device)
blind.places.requires_grad_(False).weight.zero_()  # and zeros they stay
train(blind)
assert habits(blind)[0].max() < 0.45
look(blind, layer=0)

# %% [markdown]
# There is no line below the diagonal, and so no head like the one that the first model needed.
#
# **Predict** its accuracy, between 0 and 1.

# %%
guess = ...  # such as 0.5
predict(guess, lambda: accuracy(blind), within=0.08)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is lower than with places, where hardly an answer was wrong, but high for a model that lacks the one head that
# seemed indispensable. The next section finds out how it does it.
#
# </details>
#
# ## What a bag of letters can tell
#
# Without places, layer 0 can't tell in which order the earlier letters came (lesson [07](07_order_and_padding.ipynb)).
# All it can give a letter is a mixture of them, a bag. Here are the mean weights of letter 5, counted from 0, in rounds
# of eight letters.

# %% tags=["trained", "nbval-ignore-output"]
_, weights = run(blind, draw(500, torch.Generator().manual_seed(5), 8, 8)[0])
by_place = weights.mean(dim=(1, 2))  # (layer, b, h, q, k) -> (layer, q, k)
others, own = by_place[0, 5, :5], by_place[0, 5, 5]
shown = " ".join(f"{weight:.2f}" for weight in others)
print("layer 0, letter 5: ", shown, f"and itself {own:.2f}")
assert others.max() - others.min() < 0.05 and own < others.min()
assert accuracy(blind) > 0.75

# %% [markdown]
# The letter gets an even mixture of the letters before it, with less of itself. So in DREAM (leaving each letter itself
# aside) the bag of R holds D only, that of E holds D and R, half each, and that of A holds D, R and E, a third each.
# The letter right after D has the **largest share of D** in its bag. E has the largest share of R, and D, which comes
# before R, has none. Order can be read from bags, because a causal mask makes each bag larger than the one before. Does
# layer 1 search the bags? Letter 11 in rounds of eight is a copy of letter 3, and the answer is letter 4.

# %% tags=["trained", "nbval-ignore-output"]
row = by_place[1, 11, :12]
print("layer 1, letter 11:", " ".join(f"{weight:.2f}" for weight in row))
assert row[4] > row[5] > row[6] > row[7] and row[4] > 0.3 and row[:4].sum() < 0.1

# %% [markdown]
# Letter 4 gets the largest weight. From there on the weights fall, as the share in the bags does, and letters 0 to 3
# get nearly nothing: layer 1 *compares bags*. If that is right, the answers must be reversed when the bags, which
# both heads of layer 0 collect, come from the backward word:

# %% tags=["trained", "nbval-ignore-output"]
after, before = with_exchange(blind, [0, 1])
print(f"the next letter {after:.2f}, the one before {before:.2f}")
assert after < 0.1 and before > 0.8

# %% [markdown]
# They do. Language models without positions work nearly as well, too (Haviv et al., [Transformer Language Models
# without Positional Encodings Still Learn Positional Information](https://arxiv.org/abs/2203.16634), 2022). That a
# model needs a previous-token head was true of our first model, and it isn't true of the task. A circuit found in one
# model is one solution, not the only one.
#
# ## Your turn
#
# 1. Does the head that looks back give up when the second round begins, or at a place? Compare its weights in rounds of
#    five letters, `run(model, draw(300, torch.Generator(), 5, 5)[0])[1][0, :, looks_back]`, with those in rounds of
#    twelve. What is special about that place?
# 2. At step 40 no head searches for copies yet. How often is the largest logit of `copies["multi-head"][40]` one of the
#    letters that the row has had so far?
# 3. Switch off the heads of `blind` with `ablations(blind)`. What is different from the first model?
#
# <details><summary>Answers</summary>
#
# 1. Take `.diagonal(-1, 1, 2).mean(dim=0)` of both. They agree, although the second round begins at different places:
#    the head goes by place. It begins to let go at place 6 and gives up at place 8, from which on looking back no
#    longer helps. With `period` letters in a round, what is found at place p is needed one round later, at place p - 1
#    + `period`, and the last query is at `num_tokens - 2`. In rounds of eight letters or more that is too late, and in
#    shorter ones place 8 only repeats a pair seen before.
# 2. In nearly all cases; with the untrained model it is about a quarter. So the model first learns *which* letters can
#    come, and the habits then choose the right one. This measures it:
#
#    ```python
#    said = run(copies["multi-head"][40], test_letters)[0][:, :-1].argmax(dim=-1)
#    seen = (said[:, :, None] == test_letters[:, None, :-1]).tril().any(dim=-1)
#    print(seen[test_known[:, 1:]].float().mean())
#    ```
#
# 3. With places only one head could not be spared (of the two induction heads, either one is enough). Here all four
#    are: without any one of them, only about three quarters of the answers are right, with zeros as with the mean. The
#    two heads of a layer share the work.
#
# </details>
#
# ## What you have now
#
# You have three tools that work on large models as well: scores of habits, ablation, and activation patching.
# [Transformer Explainer](https://poloclub.github.io/transformer-explainer/) shows the heads of a trained GPT-2.
#
# **Practise:** [six exercises](exercises/10_exercises.ipynb), about half an hour.
#
# **Next:** [11 Make it fast, and know why](11_fast.ipynb).
