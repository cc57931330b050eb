# %% [markdown]
# # See what heads learn
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/10_what_heads_learn.ipynb)
#
# You will train three tiny models from nothing, in seconds, and find out what their heads have learned. You measure
# where each head looks, switch heads off, and exchange what a head passes on, to see whether the story you tell about
# it is true. The third model gets no positions at all, and it has a surprise for you.
#
# **You need** lessons [05](05_weight_split.ipynb) and [06](06_multi_query.ipynb). **It takes** about 45 minutes.

# %% tags=["setup"]
# @title Setup: installs the course where it is missing (Colab, Kaggle, a bare Jupyter); elsewhere it does nothing
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("course_lib") is None:
    course = "attention-course[models] @ git+https://github.com/attention-course/attention-course@main"
    if subprocess.run([sys.executable, "-m", "pip", "install", "-q", course]).returncode:
        raise RuntimeError("The course could not be installed: switch the internet on and run this cell again.")

# %%
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import MultiHeadAttention, MultiQueryAttention
from course_lib.device import course_device
from course_lib.exercises import filled, predict
from course_lib.pictures import head_heatmaps, line_plot

device = course_device()
torch.set_num_threads(1)  # products as small as ours are slower when several threads share them

# %% [markdown]
# ## A task that attention can solve
#
# A head learns something only if there is something to learn. In our task a few random letters, all different, are
# repeated again and again, and the model has to **say the next letter**.

# %%
alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
num_tokens = 16


# %%
def draw(num_samples, generator, shortest=4, longest=12):  # how many letters a round has
    """Letters (sample, token), and which of them can be known."""
    period = torch.randint(shortest, longest + 1, (num_samples, 1), generator=generator)
    order = torch.rand(num_samples, 26, generator=generator).argsort(dim=1)  # all different within a round
    place = torch.arange(num_tokens)
    return order.gather(1, place % period), place >= period


# %%
letters, known = draw(4, torch.Generator().manual_seed(0))
for row, can in zip(letters.tolist(), known.tolist(), strict=True):
    print(" ".join(alphabet[letter] if can else alphabet[letter].lower() for letter, can in zip(row, can, strict=True)))

# %% [markdown]
# Small letters are the first round, which nobody can predict. Capitals can be predicted, if you ask: *where was the
# letter before this one seen earlier, and what came after it?* The rounds have different lengths, so looking back by a
# fixed number of places isn't enough. The first capital of a row is an exception, because the letter before it is new;
# it will matter later.
#
# ## The model
#
# The model is a small transformer (Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762),
# 2017). Its other parts:
#
# - An **embedding** is a table with one learned vector per letter. Here a second table has one per place, and the two
#   vectors are added, so that a token carries both what it is and where it is.
# - **LayerNorm** rescales each token's vector to mean 0 and variance 1, so that every layer gets numbers of a similar
#   size, however much the layers before have added.
# - The **residual addition** `x + found` adds what a layer found to what was there. So layer 1 can read the letters
#   themselves as well as what layer 0 wrote.
# - The last linear layer turns each vector into 26 scores, called **logits**, one per letter.
#
# We take the library's classes, which you have proved equal to yours, because they can return their attention weights.


# %%
class TinyModel(nn.Module):
    def __init__(self, attention, with_places=True, num_layers=2, width=64):
        super().__init__()
        self.with_places = with_places
        self.letters, self.places = nn.Embedding(26, width), nn.Embedding(num_tokens, width)
        self.layers = nn.ModuleList(attention(width, width, num_heads=2) for _ in range(num_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(num_layers + 1))
        self.to_logits = nn.Linear(width, 26, bias=False)
        for embedding in (self.letters, self.places):
            nn.init.normal_(embedding.weight, std=0.2)

    def forward(self, letters):
        x, all_weights = self.letters(letters), []  # (b, t) -> (b, t, m)
        if self.with_places:
            x = x + self.places.weight[: letters.shape[1]]
        for layer, norm in zip(self.layers, self.norms[:-1], strict=True):
            found, weights = layer(norm(x), return_weights=True)
            x = x + found
            all_weights.append(weights)  # (b, h, q, k)
        return self.to_logits(self.norms[-1](x)), torch.stack(all_weights)  # (b, t, 26), (layer, b, h, q, k)


# %% [markdown]
# We test with 500 sequences that no training will use, and count how often the largest logit is the right letter,
# wherever it can be known (exercise 1 of [the sheet](exercises/10_exercises.ipynb) asks for this function).

# %%
test_letters, test_known = draw(500, torch.Generator().manual_seed(12345))


# %%
@torch.no_grad()
def run(model, letters):
    logits, weights = model(letters.to(device))
    return logits.cpu(), weights.cpu()


# %%
def accuracy(model):
    right = run(model, test_letters)[0][:, :-1].argmax(dim=-1) == test_letters[:, 1:]  # place t predicts t + 1
    return right[test_known[:, 1:]].float().mean().item()


# %%
torch.manual_seed(3)
untrained = TinyModel(MultiHeadAttention).to(device)
print(f"untrained: {accuracy(untrained):.2f} right")

# %% [markdown]
# That is about what guessing one of 26 letters gives.
#
# ## Train it
#
# Training repeats four things. Draw 32 sequences. Compute the **cross-entropy**, which is minus the logarithm of the
# probability that the model gives to the right letter, averaged over the letters that can be known: 0 is perfect, and
# guessing costs $\ln 26 = 3.26$. Let autograd find in which direction the loss falls. Move all parameters a little that
# way.
#
# **AdamW** (Loshchilov and Hutter, [Decoupled Weight Decay Regularization](https://arxiv.org/abs/1711.05101), 2019)
# adapts the step of each parameter to its recent gradients. The steps grow during a **warm-up** of 50 steps and shrink
# afterwards, and gradients that are too long are **clipped**.


# %%
def train(model, steps=600, fastest=5e-3):
    generator, history = torch.Generator().manual_seed(3), {}
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.0)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = fastest * min(1.0, (step + 1) / 50) * (1 - step / steps)
        letters, known = (drawn.to(device) for drawn in draw(32, generator))
        logits, _ = model(letters)
        loss = F.cross_entropy(logits[:, :-1][known[:, 1:]], letters[:, 1:][known[:, 1:]])
        if step % 20 == 0:
            history[step] = loss.item()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return history


# %% tags=["trained", "nbval-ignore-output"]
models, losses = {}, {}
for name, attention in {"multi-head": MultiHeadAttention, "multi-query": MultiQueryAttention}.items():
    torch.manual_seed(3)
    models[name] = TinyModel(attention).to(device)
    losses[name] = train(models[name])
assert all(loss[0] - 0.3 > loss[40] > loss[80] > loss[120] > loss[200] for loss in losses.values())
line_plot(losses, title="Both models learn", xlabel="step", ylabel="cross-entropy", logarithmic=False)

# %%
assert all(accuracy(one) > 0.98 for one in models.values())
model = models["multi-head"]

# %% [markdown]
# Both models solve the task: the `assert` makes sure that more than 98 % of the answers are right. The loss falls from
# the beginning, and by step 200 little is left to gain.
#
# The pictures and decimals of trained models are those of one run. Your machine rounds differently and may end with
# other decimals, or with two heads exchanged. What the text claims is checked by an `assert` in your run, too.
#
# ## Look at the heads
#
# We look at one word, DREAM, three times and a D.

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
# It is called a **previous-token head**. Further down the line fades.

# %% tags=["trained", "nbval-ignore-output"]
look(model, layer=1)

# %% [markdown]
# In layer 1 the first five rows are bright in the first column; we come back to them. Then a line begins. The second D
# looks at the first R, the letter that came *after* the first D. In most of these rows, what the letter looks at is the
# answer. Such heads are called **induction heads** (Elhage et al., [A Mathematical Framework for Transformer
# Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021; Olsson et al., [In-context Learning and
# Induction Heads](https://arxiv.org/abs/2209.11895), 2022).
#
# ## Measure the first habit
#
# A picture shows one word. We want a number per head, over many sequences.
#
# **Write it yourself.** The mean weight that a query gives to the token right before it, for each head. Query 0 has no
# token before it, so it doesn't count.


# %%
def previous_token_score(weights):  # (batch, head, query, key) -> (head)
    raise NotImplementedError  # the weights below the diagonal, and their mean: two lines


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
# Why did the line in the picture fade? In DREAM it goes on into the second round and ends there. Either the head goes
# by the round, or it goes by the place. To decide, we let the rounds have five letters, then twelve.

# %% tags=["trained", "nbval-ignore-output"]
weights = run(model, test_letters)[1][0]  # of layer 0
looks_back = previous_token_score(weights[:, :, :6, :6]).argmax().item()  # the number of the head


# %%
def weight_before(period):  # {place: mean weight}
    letters, _ = draw(300, torch.Generator().manual_seed(5), period, period)
    weights = run(model, letters)[1][0, :, looks_back]  # (b, q, k)
    return dict(enumerate(weights.diagonal(-1, 1, 2).mean(dim=0).tolist(), start=1))


# %% tags=["trained", "nbval-ignore-output"]
by_period = {f"{period} letters per round": weight_before(period) for period in (5, 12)}
line_plot(by_period, title="Weight on the letter before", xlabel="place", ylabel="weight", logarithmic=False)

# %%
five, twelve = by_period.values()
assert all(abs(five[place] - twelve[place]) < 0.1 for place in five) and five[1] > 0.7 and five[8] < 0.3

# %% [markdown]
# The curves agree, although place 8 is in the second round of one and in the first round of the other. So the head goes
# by **place**, not by round. But why does it give up at place 8?
#
# **Predict.** Looking back is useful only if a later query needs what was found. With `period` letters in a round,
# places 1 to `period` show for the first time which letter follows which. What a head finds at place `key` is needed
# one round later, after the letter before, at place `key - 1 + period`. The last query is at place 14, and rounds have
# 4 to 12 letters. What is the last place at which looking back is useful?

# %%
guess = ...  # a place from 1 to 15
useful = [key for period in range(4, 13) for key in range(1, period + 1) if key - 1 + period <= num_tokens - 2]
predict(guess, lambda: max(useful))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Seven, in rounds of seven or eight letters. In rounds of eight letters or more, what is found at place 8 would be
# needed after place 14, and in shorter rounds place 8 only repeats a pair of letters that was seen before. So training
# gave the head no reason to look back from place 8 on. **A head learns what its training rewards.**
#
# </details>
#
# Exercise 2 of [the sheet](exercises/10_exercises.ipynb) asks for such a curve.
#
# ## Measure the second habit
#
# **Write it yourself.** Which keys come right after an earlier copy of the query's letter? For D R D R, query 2 (the
# second D) has True at key 1, the first R, and nowhere else. A key may not be later than its query.


# %%
def comes_after_copy(tokens):  # (batch, token) of integers -> (batch, query, key) of bool
    raise NotImplementedError  # compare each token with the token before each key: three lines


comes_after_copy = filled("comes_after_copy", comes_after_copy)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def comes_after_copy(tokens):  # (batch, token) of integers -> (batch, query, key) of bool
#     token_before = F.pad(tokens[:, :-1], (1, 0), value=-1)  # of each key; key 0 has none, and no token is -1
#     found = tokens[:, :, None] == token_before[:, None]  # (b, q, 1) == (b, 1, k) -> (b, q, k)
#     return found.tril()
# ```
#
# </details>
#
# **Write it yourself.** The induction score: add up each query's weights on these keys, then take the mean over all
# queries that have such a key, for each head.


# %%
def induction_score(weights, tokens):  # (batch, head, query, key), (batch, token) of integers -> (head)
    after_copy = comes_after_copy(tokens)  # (b, q, k)
    raise NotImplementedError  # add up the weights on these keys, choose the queries that have one, mean: three lines


induction_score = filled("induction_score", induction_score)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def induction_score(weights, tokens):  # (batch, head, query, key), (batch, token) of integers -> (head)
#     after_copy = comes_after_copy(tokens)  # (b, q, k)
#     found = (weights * after_copy[:, None]).sum(dim=-1)  # (b, h, q, k) * (b, 1, q, k) -> (b, h, q)
#     has_copy = after_copy.any(dim=-1)  # (b, q)
#     return found.transpose(1, 2)[has_copy].mean(dim=0)  # (b, q, h) -> (query with a copy, h) -> (h)
# ```
#
# </details>
#
# Now all heads, by numbers. We measure the first habit on the first six letters, where it is useful.


# %%
def habits(model, letters=test_letters):  # two tables (layer, head)
    _, weights = run(model, letters)
    back = torch.stack([previous_token_score(layer[:, :, :6, :6]) for layer in weights])
    return back, torch.stack([induction_score(layer, letters) for layer in weights])


# %% tags=["trained", "nbval-ignore-output"]
for name, one in {"untrained": untrained, "multi-head": model}.items():
    back, after = habits(one)
    for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1)):
        scores = f"letter before {back[layer, head]:.2f}, after a copy {after[layer, head]:.2f}"
        print(f"{name:10}  layer {layer}, head {head}: {scores}")

# %%
(back, after), (flat_back, flat_after) = habits(model), habits(untrained)
assert back[0].max() > 0.6 and after[1].min() > 0.6 and after[0].max() < 0.3
assert flat_back.max() < 0.45 and flat_after.max() < 0.3

# %% [markdown]
# An untrained head spreads its weight nearly evenly, so the score of an untrained model is what you must compare with.
# Against that, one head of layer 0 and both heads of layer 1 have a clear habit.
#
# ## Switch a head off
#
# Attention weights show where a head looks, but not whether anything depends on it. To find out, remove what the head
# found and measure the accuracy again: an **ablation**. A hook lets us edit what each head found, just before
# `out_proj` mixes the heads.


# %%
def heads_edited(layer, edit):  # edit changes what the heads found, (b, h, t, d), in place
    def before_out_proj(_, inputs):
        by_head = inputs[0].unflatten(2, (2, -1)).transpose(1, 2).clone()  # (b, t, h * d) -> (b, h, t, d)
        edit(by_head)
        return by_head.transpose(1, 2).flatten(2)

    return layer.out_proj.register_forward_pre_hook(before_out_proj)  # `with` removes it at its end


# %%
def accuracy_without(model, layer, head, by_mean=False):
    def replace(by_head):
        by_head[:, head] = by_head[:, head].mean(dim=(0, 1)) if by_mean else 0.0

    with heads_edited(model.layers[layer], replace):
        return accuracy(model)


# %% [markdown]
# **Zero ablation** puts zeros in the head's place. Layer 1 has never met such input, so the model might fail for that
# reason alone. **Mean ablation** puts the head's mean over all samples and tokens there, which is a usual value without
# any information about this token. If both agree, the result is safer.


# %%
def ablations(model):
    for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1)):
        zeros, mean = (accuracy_without(model, layer, head, by_mean) for by_mean in (False, True))
        print(f"without layer {layer}, head {head}: {zeros:.2f} right with zeros, {mean:.2f} with the mean")


# %% tags=["trained", "nbval-ignore-output"]
ablations(model)
for by_mean in (False, True):
    assert accuracy_without(model, 0, looks_back, by_mean) < 0.7
    assert min(accuracy_without(model, 1, head, by_mean) for head in (0, 1)) > 0.9

# %% [markdown]
# Without the head that looks back many answers are wrong, and zeros and mean agree about that. Without one of the
# induction heads hardly anything changes, although both have the habit: the other one is enough. **Where a head looks
# and whether it is needed are two questions.** Now do exercises 3 and 4 of [the sheet](exercises/10_exercises.ipynb),
# which ask for both ablations.
#
# ## Test the story
#
# Here is a story about how the two layers work together. The second D can't search for "the letter after the first D",
# because the first R is just an R. But the head that looks back has written into the R "I come after a D". So in layer
# 1 the second D searches for that message, and copies the R.
#
# We test it. Read the word backwards, MAERD. There R comes after E. Now run DREAMDREAM, but give each letter what the
# head found in MAERDMAERD. The letters are in the old order, and only the messages are in the reverse order. If the
# story is true, the model should say the letter *before*. Replacing a part of one run by that of another is called
# **activation patching** (Meng et al., [Locating and Editing Factual Associations in
# GPT](https://arxiv.org/abs/2202.05262), 2022).


# %%
def backward_messages(model, order, heads):  # order: the letters of one round (b, t)
    def exchange(by_head):  # (2 * b, h, 2 * t, d): first the forward words, then the backward ones
        forward, backward = by_head.chunk(2)
        in_order = backward.unflatten(2, (2, -1)).flip(3).flatten(2, 3)  # of D R E A M D R E A M again
        forward[:, heads] = in_order[:, heads]

    with heads_edited(model.layers[0], exchange):
        logits, _ = run(model, torch.cat([order, order.flip(1)]).repeat(1, 2))
    return logits.chunk(2)[0][:, order.shape[1] :].argmax(dim=-1)  # forward words, second round


# %% [markdown]
# We run it on 300 random words of five letters. How often does the model say the next letter, and how often the one
# before? (The first and last letter of a round are left out, because they have no neighbour on one side.)

# %%
words = draw(300, torch.Generator().manual_seed(9), 5, 5)[0][:, :5]


# %%
def next_or_previous(model, heads):
    said = backward_messages(model, words, heads)[:, 1:-1]
    return [(said == neighbour).float().mean().item() for neighbour in (words[:, 2:], words[:, :-2])]


# %% tags=["trained", "nbval-ignore-output"]
after, before = next_or_previous(model, [looks_back])
print(f"the next letter {after:.2f}, the one before {before:.2f}")
assert after < 0.1 and before > 0.85

# %% [markdown]
# The letters were not moved, and the answers turned around. So layer 1 really reads what this head wrote. The ablation
# showed only that the head matters. Exercise 5 asks for the exchange.
#
# ## Rows that find nothing
#
# Back to the bright first column of layer 1. In the first round no letter has an earlier copy, so an induction head
# finds nothing. Where does its weight go?


# %%
def weight_on_first(model):  # in layer 1: mean of queries in the first round
    to_first = run(model, test_letters)[1][1, :, :, 1:, 0].mean(dim=1)  # (b, h, q) -> (b, q)
    return to_first[~test_known[:, 1:]].mean().item()


# %% tags=["trained", "nbval-ignore-output"]
print(f"on the first letter: {weight_on_first(model):.2f}")
assert weight_on_first(model) > 0.6 and weight_on_first(untrained) < 0.4

# %% [markdown]
# Most of it goes to the first letter. Large language models have such a bright first column, too. There it is an
# **attention sink** (Xiao et al., [Efficient Streaming Language Models with Attention
# Sinks](https://arxiv.org/abs/2309.17453), 2023): softmax must give away a total weight of 1, and the first token takes
# what isn't needed, without adding much (lesson [09](09_smaller_caches.ipynb)). Is it one here, too?
#
# **Predict.** A sink adds nearly nothing to the answer. In the first round, does the model say the first letter of the
# row in more than half of the cases?


# %%
def says_first(model):
    said = run(model, test_letters)[0][:, :-1].argmax(dim=-1)  # (b, t - 1)
    return (said == test_letters[:, :1])[~test_known[:, 1:]].float().mean().item()


guess = ...  # "yes" or "no"
predict(guess, lambda: says_first(model) > 0.5)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Yes, nearly always. So this is no sink: the heads look at the first letter because they copy it. The loss counts the
# capitals only. If the letter before is new, the only capital that can follow is the first one of a row, which is a
# copy of the first letter. So whoever finds no copy does best to say the first letter. Again, training has rewarded it.
#
# </details>
#
# So a bright column alone doesn't tell what it is for. Now do exercise 6 of [the sheet](exercises/10_exercises.ipynb).
#
# ## The same with shared keys
#
# The heads of the multi-query model share one set of keys and values per layer.

# %% tags=["trained", "nbval-ignore-output"]
shared = models["multi-query"]
look(shared, layer=0)

# %%
back, after = habits(shared)
assert back[0].max() > 0.6 and after[1].min() > 0.6 and says_first(model) > 0.9
assert accuracy_without(shared, 0, back[0].argmax().item()) < 0.7

# %% [markdown]
# One head looks back and two look after a copy, as before; the `assert` holds it to the same numbers. In layer 0 the
# two heads look at different places although their keys are the same, because their queries differ.
#
# ## Without positions
#
# Now take the places away and train again.

# %% tags=["trained", "nbval-ignore-output"]
torch.manual_seed(3)
blind = TinyModel(MultiHeadAttention, with_places=False).to(device)
_ = train(blind)
assert habits(blind)[0].max() < 0.45  # on the letter before, as in the untrained model
look(blind, layer=0)

# %% [markdown]
# No line below the diagonal: nothing in layer 0 looks like the head without which the first model failed.
#
# **Predict.** Is the accuracy of this model above 0.75?

# %%
guess = ...  # "yes" or "no"
predict(guess, lambda: accuracy(blind) > 0.75)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Yes: run `accuracy(blind)`. It is only a little lower than with places. The next section finds out how the model does
# it.
#
# </details>
#
# ## What a bag of letters can tell
#
# Without places, layer 0 can't tell in which order the earlier letters came (lesson [07](07_order_and_padding.ipynb)).
# All it can give a letter is a mixture of those before it, a bag. Let us see how it mixes, in rounds of eight letters:
# the mean weights of letter 5, counted from 0.

# %% tags=["trained", "nbval-ignore-output"]
eight, _ = draw(500, torch.Generator().manual_seed(5), 8, 8)
_, weights = run(blind, eight)
by_place = weights.mean(dim=(1, 2))  # (layer, b, h, q, k) -> (layer, q, k)
others, own = by_place[0, 5, :5], by_place[0, 5, 5]
print("layer 0, letter 5: ", " ".join(f"{weight:.2f}" for weight in others), f"and itself {own:.2f}")
assert others.max() - others.min() < 0.05 and own < others.min()

# %% [markdown]
# The letter gets an even mixture of the letters before it, with less of itself. So in DREAM the bag of R holds D only
# (leaving R itself aside), the bag of E holds D and R, half each, and the bag of A holds D, R and E, a third each. So
# the letter that came right after D is the one with the **largest share of D** in its bag, and the letters before D
# have none. Order can be read from bags, because a causal mask makes each bag larger than the one before. Does layer 1
# search for the D in the bags? Letter 11 in rounds of eight is a copy of letter 3, and the answer is letter 4.

# %% tags=["trained", "nbval-ignore-output"]
row = by_place[1, 11]
print("layer 1, letter 11:", " ".join(f"{weight:.2f}" for weight in row[:12]))
assert row[4] > row[5] > row[6] > row[7] and row[4] > 0.3 and row[:4].sum() < 0.1

# %% [markdown]
# Letter 4 gets the largest weight. From there on the weights fall, as the share in the bags does, and letters 0 to 3
# get nearly nothing. This is a different circuit for the same task, which *compares bags*.
#
# If that is right, the answers must turn around when the bags come from the backward word. Both heads of layer 0
# collect the bags, so we exchange both:

# %% tags=["trained", "nbval-ignore-output"]
after, before = next_or_previous(blind, [0, 1])
print(f"the next letter {after:.2f}, the one before {before:.2f}")
assert after < 0.1 and before > 0.8

# %% [markdown]

# %% [markdown]
# The answers turn around, as before. Haviv et al. ([Transformer Language Models without Positional Encodings Still
# Learn Positional Information](https://arxiv.org/abs/2203.16634), 2022) found that language models without positional
# encodings work nearly as well, too. Remember: "this model needs a previous-token head" was true of our first model,
# and it isn't true of the task. A circuit found in one model is one solution, not the only one.
#
# ## Your turn
#
# 1. In `draw`, write `place > period`, so that the first capital of a row no longer counts, and run all cells down to
#    the `assert` of `weight_on_first`, which fails. What is the weight on the first letter now, and why?
# 2. Switch off the heads of `blind` with `ablations(blind)`. What is different from the first model?
#
# <details><summary>Answers</summary>
#
# 1. In the first round it falls to about a fifth. Nothing rewards saying the first letter any more, so the heads no
#    longer look at it.
# 2. With places only one head was needed. Here all four are: without any one of them, only about three quarters of the
#    answers are right, with zeros as with the mean. The two heads of a layer share the work.
#
# </details>
#
# ## What you have now
#
# You have seen three trained models from the inside, and you have three tools that work on large models as well: scores
# of habits, ablation, and activation patching. [Transformer
# Explainer](https://poloclub.github.io/transformer-explainer/) shows the heads of a trained GPT-2 in your browser.
#
# **Practise:** [six exercises](exercises/10_exercises.ipynb), about half an hour.
#
# **Next:** [11 Make it fast, and know why](11_fast.ipynb).
