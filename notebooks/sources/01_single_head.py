# %% [markdown]
# # Build one attention head
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/01_single_head.ipynb)
#
# In lesson 00 a head was asked for a name, and found it. Here is the story again, with the attention weights of that
# head. In this lesson you write such a head, line by line. Then you give it the weight matrices that this one has
# learned, and it will find the name with *your* lines.
#
# **You need** [lesson 00](00_start_here.ipynb). **It takes** about 45 minutes.

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
from torch import nn

from course_lib.device import course_device
from course_lib.exercises import filled, predict, sneak
from course_lib.inputs import dream_big
from course_lib.pictures import draw_attended_words, draw_matrix_product, heatmap
from course_lib.pictures.live import drag_the_query, own_words
from course_lib.show import show
from course_lib.stories import load_storyteller

device = course_device()
storyteller = load_storyteller("weight split").to(device)
told = (
    "In a green valley lived a bear named Zoe. One morning Zoe went to the lake. "
    'By the lake she met a pig. "My name is Leo," said the pig. "And I am Zoe," said '
    "the bear. Zoe and Leo talked until the sun went down."
)
text = f"{told} What was the name of the bear? It was"
tokens, trained_weights = storyteller.attention_weights(text)
draw_attended_words(tokens, trained_weights[1, 2, -1], title="Which word comes next?")

# %% [markdown]
# ## Compare, weigh, mix
#
# To follow every step by hand, we take a shorter sentence: six tokens with three made-up numbers each. (By hand, then
# as matrices, then as a module: that path is from chapter 3 of Sebastian Raschka's book [Build a Large Language Model
# (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024.)

# %%
words, embeddings, x = dream_big(device=device)
show("embeddings", embeddings, "token width", words, digits=2)

# %% [markdown]
# You met the three steps in lesson 00. **Compare:** a dot product of two tokens is their *score*. Here are the scores
# of "work" with all six tokens, and the lengths of their vectors:

# %%
work = words.index("work")
scores_of_work = embeddings @ embeddings[work]  # one dot product per token
show("scores of 'work'", scores_of_work, "key", words, digits=3)
show("lengths", embeddings.norm(dim=-1), "token", words, digits=2)

# %% [markdown]
# **Weigh:** softmax turns the scores into attention weights. Take the exponential of each score, which makes it
# positive, and divide by the sum of them all.
#
# **Write it yourself**, this time without calling `softmax`.

# %%
def attention_weights(scores):  # (key) -> (key), all positive, sum 1
    raise NotImplementedError  # one or two lines


attention_weights = filled("attention_weights", attention_weights)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def attention_weights(scores):  # (key) -> (key), all positive, sum 1
#     exponentials = scores.exp()
#     return exponentials / exponentials.sum()
# ```
#
# `scores.softmax(dim=0)` does the same in one call.
#
# </details>
#
# **Predict.** "work" has its largest score with itself, 1.205. How much of the mix will it take from itself?

# %%
guess = ...  # write a number from 0 to 1 in place of the dots
predict(guess, lambda: attention_weights(scores_of_work)[work].item(), within=0.1)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# About a fifth, hardly more than the sixth that equal scores would give. Softmax looks at the *differences* between
# scores, and our largest is not even half a point above the smallest.
#
# </details>
#
# **Mix:** multiply the vector of each token by its attention weight, and add up. The result is the **context** of
# "work". The vectors that are mixed are called `values`; for now they are the embeddings themselves.
#
# **Write it yourself.**

# %%
def context_of_token(weights, values):  # (key), (key, width) -> (width)
    raise NotImplementedError  # up to four lines, with a loop or without


context_of_token = filled("context_of_token", context_of_token)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def context_of_token(weights, values):  # (key), (key, width) -> (width)
#     context = torch.zeros_like(values[0])
#     for key in range(len(weights)):
#         context = context + weights[key] * values[key]
#     return context
# ```
#
# `weights @ values` does the same in one product.
#
# </details>

# %%
first_context = context_of_token(attention_weights(scores_of_work), embeddings)
show("context of 'work'", first_context, "width", digits=3)
show("mean of all tokens", embeddings.mean(dim=0), "width", digits=3)

# %% [markdown]
# That's almost the plain mean. And there's a second weakness.
#
# **Predict.** "work" has its largest score with itself. Of how many of the six tokens is that true?

# %%
first_scores = embeddings @ embeddings.T  # (query, key)
has_most = first_scores.argmax(dim=-1)  # where each row has its largest score
itself = torch.arange(6, device=device)
guess = ...  # write a number from 0 to 6 in place of the dots
predict(guess, lambda: int((has_most == itself).sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Of three. "Dream", "big" and "for" score higher with "work" than with themselves: it points much the same way as they
# do, and it is longer. A dot product compares directions only among vectors of the same length.
#
# </details>
#
# ## Three roles, three projections
#
# So far the same three numbers did three jobs: they were what a token looks for, what it is found by, and what it hands
# over. And each pair of tokens had one score for both directions, although a pronoun has to find its name while the
# name couldn't care less. Attention gives each token a vector of its own for each job:
#
# - The **query** is what the token looks for: *somebody asked for a name, so a name comes next.*
# - The **key** is what it can be found by: *here is a name.*
# - The **value** is what it hands over to those who find it: *Zoe.*
#
# Each of them is the embedding times a matrix that is learned, which is called a **projection**. In PyTorch it is an
# `nn.Linear`. Ours take three numbers and return two, which can be drawn. Nobody has trained them: their numbers are
# random, and so is every pattern on these six words.

# %%
d_in, d_out = 3, 2
torch.manual_seed(99)
q_proj = nn.Linear(d_in, d_out, bias=False)
k_proj = nn.Linear(d_in, d_out, bias=False)
v_proj = nn.Linear(d_in, d_out, bias=False)
with torch.no_grad():
    q_proj.weight *= 4  # larger than untrained weights, so that a pattern shows
    k_proj.weight *= 4
q_proj, k_proj, v_proj = q_proj.to(device), k_proj.to(device), v_proj.to(device)

# %%
# (token, width), each (6, 2)
queries, keys, values = q_proj(embeddings), k_proj(embeddings), v_proj(embeddings)
drag_the_query()

# %% [markdown]
# Drag the arrow of the query, or choose another word. Each key gets a score, and the context is the balance point of
# the values: each pulls with its weight. Try to drag it out of the shaded region, the *convex hull* of the values. You
# can't, since the weights are positive and sum to 1.
#
# Now the same in numbers, for the query of "work". We divide its scores by the square root of the width; you'll measure
# why.

# %%
products = torch.stack([queries[work] @ key for key in keys])  # one per key
scores_of_work = products / d_out**0.5
weights_of_work = attention_weights(scores_of_work)
show("scores of 'work'", scores_of_work, "key", words)
show("attention weights of 'work'", weights_of_work, "key", words)

# %% [markdown]
# Only "and" has a positive score, and gets more than half of the mix. A negative score doesn't mean that a token is
# ignored: the exponential of any number is positive.
#
# **Predict.** Suppose that somebody adds 100 to each of the six scores. How large will the attention weight of "and"
# be?

# %%
guess = ...  # write a number such as 0.25 in place of the dots
shifted = (scores_of_work + 100).softmax(dim=0)
predict(guess, lambda: shifted[words.index("and")].item(), within=0.005)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# As large as before. Adding 100 to the scores multiplies each exponential by the same number, and the division cancels
# it.
#
# </details>
#
# That is mathematics. Now the function of the blank above, which is not PyTorch's:

# %%
show("weights of scores + 100", attention_weights(scores_of_work + 100), "key", words)

# %% [markdown]
# If yours is the textbook's formula, you see `nan`, *not a number*: a float32 has no room for the exponential of 101,
# which becomes infinity, and infinity divided by infinity is nothing at all. A real softmax subtracts the largest score
# first, which changes no weight. Exercise 3 of the sheet lets you write it.

# %%
context_of_work = context_of_token(weights_of_work, values)
show("context of 'work'", context_of_work, "width")

# %% [markdown]
# ## All tokens at once
#
# The six scores of one query are one row of a matrix product, and six queries give six rows. Rows of the left matrix
# meet *columns* of the right one, so each key has to become a column. The picture outlines query "work", key "and" and
# their product, not yet divided.

# %%
names = ("queries", "keys.T", "products")
draw_matrix_product(
    queries, keys.T, names=names, words=words, highlight=(work, words.index("and"))
)

# %%
scores = queries @ keys.T / d_out**0.5  # (query, width) @ (width, key) -> (query, key)
weights = scores.softmax(dim=-1)  # dim=-1 is over the keys: each row is one token's mix
context = weights @ values  # (query, key) @ (key, width) -> (query, width)
print("weights by hand:", torch.allclose(weights[work], weights_of_work))
print("context by hand:", torch.allclose(context[work], context_of_work))
and_ = words.index("and")
print(f"'work' asks 'and': {scores[work, and_]:.2f}", end=", ")
print(f"'and' asks 'work': {scores[and_, work]:.2f}")
heatmap(weights, words)

# %% [markdown]
# Two products, a division and a softmax compute for all tokens what you did for one. Each row sums to 1. A column
# needn't: four tokens take more than half of their mix from "and".
#
# In the papers this is one line. $Q$, $K$ and $V$ are `queries`, `keys` and `values`, and $d$ is the number of columns
# of $Q$ and $K$. What the formula doesn't say is that softmax runs over the keys.
#
# $$
# \mathrm{attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^{\top}}{\sqrt{d}}\right) V
# $$
#
# "work" and "and" now have two scores, one for each direction: the one asks with its query, the other answers with its
# key.
#
# **Now do** exercises 1 to 4 of [the sheet](exercises/01_exercises.ipynb).
#
# ## Why divide by the square root of the width?
#
# A dot product is a sum with as many terms as the vectors have numbers. We draw pairs of random queries and keys, whose
# numbers have a spread (a standard deviation) of 1, and measure the spread of their scores:

# %%
def random_scores(pairs, width):  # two ints -> (pair), one dot product each
    # unpacking cuts the first axis: queries and keys are each (pair, width)
    some_queries, some_keys = torch.randn(2, pairs, width, generator=generator)
    return (some_queries * some_keys).sum(dim=-1)


generator = torch.Generator().manual_seed(0)
print("width   spread of the scores   spread / sqrt(width)")
for width in (2, 8, 32, 128, 512):
    spread = random_scores(20000, width).std().item()
    print(f"{width:5}   {spread:20.1f}   {spread / width**0.5:20.2f}")

# %% [markdown]
# The last column stays near 1: the spread grows like the square root of the width. (The variances of independent terms
# add up, each of ours is 1, and the spread is the root of the sum.)
#
# **Predict.** How far will the scores spread at a width of 2048?

# %%
guess = ...  # write a number with a decimal point in place of the dots
generator = torch.Generator().manual_seed(1)
wide_scores = random_scores(5000, 2048)
predict(guess, lambda: wide_scores.std().item(), within=1)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# 2048 is four times 512, and four times the width is twice the spread.
#
# </details>
#
# Large scores make softmax choose all or nothing. That can be bad for learning, which follows the gradients. We take
# six random keys per query and a random sum of the attention weights as the loss, and look at the gradient of each
# query. *Largest* is the largest of the six attention weights, on average; *stuck* is the fraction of queries whose
# gradient is shorter than 0.001.

# %%
generator = torch.Generator().manual_seed(0)
print("width   scores        largest   stuck")
for width in (8, 64, 512):
    one_query = torch.randn(4000, 1, width, generator=generator, requires_grad=True)
    six_keys = torch.randn(4000, 6, width, generator=generator)
    factors = torch.randn(4000, 1, 6, generator=generator)  # of the random sums
    products = one_query @ six_keys.transpose(1, 2)  # (sample, 1, key)
    for name, divisor in (("divided", width**0.5), ("not divided", 1.0)):
        mix = (products / divisor).softmax(dim=-1)
        loss = (mix * factors).sum()
        (gradient,) = torch.autograd.grad(loss, one_query, retain_graph=True)
        stuck = (gradient.norm(dim=-1) < 0.001).float().mean()
        print(f"{width:5}   {name:11}   {mix.amax(dim=-1).mean():7.2f}   {stuck:5.2f}")

# %% [markdown]
# With the division every width looks alike. Without it, such a query takes nearly everything from a single key in a
# wide head, and at a width of 512 more than half of these queries are stuck. The paper that introduced the division
# suspected "extremely small gradients" (Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762),
# 2017), and for queries and keys like these, with a spread of 1, it is right. (Narrow heads get by without it:
# storytellers [trained without the
# division](https://attention-course.github.io/attention-course/storyteller.html#what-a-mistake-does) keep as many
# facts.)
#
# *When* you divide doesn't matter in exact arithmetic. In float16, which has no room for large numbers, it does:

# %%
row = torch.full((1, 64), 60.0, dtype=torch.float16)  # a query, and its only key
print("largest float16 number:     ", torch.finfo(torch.float16).max)
print("product first, then divided:", (row @ row.T / 8).item())
print("query divided first:        ", ((row / 8) @ row.T).item())
print("softmax of the first:       ", (row @ row.T / 8).softmax(dim=-1).item())

# %% [markdown]
# The product overflows to infinity before the division can help, and softmax makes `nan` of it. So the module below
# divides the queries first.
#
# ## Into a module
#
# A module has the three projections as parameters, and its `forward` takes a **batch**, several sentences at once: `x`
# is (batch, token, width). Transpose only the last two axes of the keys; `.T` would reverse all three.
#
# **Write it yourself, from an empty class.** Call the projections `q_proj`, `k_proj` and `v_proj`, each an `nn.Linear`
# without bias. The next lessons go on with your `MyHead`.

# %%
class MyHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        raise NotImplementedError  # three lines

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # project, compare, weigh, mix


MyHead = filled("MyHead", MyHead)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyHead(nn.Module):
#     def __init__(self, d_in, d_out):
#         super().__init__()
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, d_out, bias=False)
#         self.v_proj = nn.Linear(d_in, d_out, bias=False)
#
#     def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
#         queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
#         # (batch, query, key)
#         scores = (queries / queries.shape[-1] ** 0.5) @ keys.transpose(1, 2)
#         weights = scores.softmax(dim=-1)
#         return weights @ values
# ```
#
# </details>
#
# %%
my_head = MyHead(d_in, d_out).to(device)
my_head.q_proj, my_head.k_proj, my_head.v_proj = q_proj, k_proj, v_proj
print("output:", tuple(my_head(x).shape), "= (batch, token, width)")
print("equals the matrix form:", torch.allclose(my_head(x)[0], context))

# %% [markdown]
# ## Your head reads the story
#
# The head of the picture at the top takes vectors of 64 numbers, and has queries, keys and values of 16. Its matrices
# are 16 rows of larger ones, which hold four heads (lesson 05 takes them apart). Your `MyHead` gets these rows, and
# then the vectors that the model makes of the story. We read the output of the last token, which may see the whole
# text.

# %%
attention = storyteller.attentions[1]
rows = slice(32, 48)  # those of head 2
reader = MyHead(64, 16).to(device)
with torch.no_grad():
    reader.q_proj.weight.copy_(attention.q_proj.weight[rows])
    reader.k_proj.weight.copy_(attention.k_proj.weight[rows])
    reader.v_proj.weight.copy_(attention.v_proj.weight[rows])


def read_aloud(head, text):  # a head, a story up to a word -> three words
    found = head(storyteller.attention_inputs(text)[1])[0, -1]  # of the last token
    back = attention.out_proj.weight[:, rows] @ found  # 16 -> 64 numbers
    likeness = storyteller.word_table.weight @ back  # with each word's embedding
    return [storyteller.vocabulary[word] for word in likeness.topk(3).indices.tolist()]


questions = ["What was the name of the bear? It was", "Who was Zoe? She was a"]
for question in questions:
    print(question, "...", read_aloud(reader, f"{told} {question}"))

# %% [markdown]
# Sixteen numbers come out of your head for the last token. The model's own output matrix (lesson 03) turns them into
# 64, which we compare with the embedding of every word that the model knows, and print the three that fit best. The
# first one answers the question. (The model has more than this head. Ask "Where did they meet? By the", where the head
# alone isn't enough, or for the pig's name: as in lesson 00, it gives the bear's.)
#
# Now words of your own. The figure below holds another trained head, that of the first block of a storyteller with one
# head per block. Type a sentence and ask with any of its words: a colour looks at the thing that has it, and "was" at a
# name, even in "Ben met a pig. The pig was". Then give it two things with two colours. Does it know which is which?

# %%
own_words()

# %% [markdown]
# <details><summary>Does it?</summary>
#
# No: it often looks at the other thing.
#
# </details>
#
# ## A mistake that no one sees
#
# Here is a head with one wrong word. Its shapes are right, and no error is reported:

# %%
class ScoredWithValues(MyHead):
    def forward(self, x):
        queries, values = self.q_proj(x), self.v_proj(x)
        scores = queries / queries.shape[-1] ** 0.5 @ values.transpose(1, 2)
        return scores.softmax(dim=-1) @ values


wrong_reader = ScoredWithValues(64, 16).to(device)
wrong_reader.load_state_dict(reader.state_dict())
for question in questions:
    print(question, "...", read_aloud(wrong_reader, f"{told} {question}"))

# %% [markdown]
# Each row of attention weights still sums to 1, and the answers are wrong. There's a way to see it without a story. A
# training step changes each parameter by means of its gradient, and `.backward()` computes the gradients of all
# parameters that a loss depends on. Here is such a head from three numbers to two.
#
# **Predict.** How many of the numbers in its three weight matrices get no gradient at all?

# %%
trial = ScoredWithValues(3, 2).to(device)
trial(x).square().sum().backward()
without = [weight.numel() for weight in trial.parameters() if weight.grad is None]
guess = ...  # write a number in place of the dots
predict(guess, lambda: sum(without))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# All six of the keys' matrix. The scores are made with the values, so nothing reads the keys, and nothing flows back to
# their projection. A parameter that should learn but gets no gradient is a reason to look twice.
#
# </details>
#
# ## Proof, and how to cheat it
#
# A comparison with a second implementation finds this mistake, too. Here is the library's head against yours, on sizes
# that all differ: two samples of five tokens, three numbers in and seven out. (`causal=False` leaves out the mask,
# which comes in the next lesson.)

# %%
from course_lib.attention import SingleHeadAttention

torch.manual_seed(1)
reference = SingleHeadAttention(d_in=3, d_out=7, causal=False)
with torch.no_grad():
    reference.q_proj.weight *= 4
    reference.k_proj.weight *= 4
reference = reference.to(device)
samples = torch.rand(2, 5, 3).to(device)  # (batch, token, d_in)


def proof(head_class):
    head = head_class(3, 7).to(device)
    head.load_state_dict(reference.state_dict())  # the same weight matrices
    torch.testing.assert_close(head(samples), reference(samples))


proof(MyHead)
print("equal:", tuple(samples.shape), "->", tuple(reference(samples).shape))

# %% [markdown]
# No two sizes are equal, so a division by the root of the batch, of the tokens or of `d_in` would show. But no proof
# sees everything.
#
# **Now cheat.** Write a head with a mistake in it that this proof doesn't see. Look at what the proof never tries.

# %%
Sneaky = ...  # a class like MyHead, with your mistake, in place of the dots
sneak("MyHead", Sneaky, proof)

# %% [markdown]
# <details><summary>Ways in</summary>
#
# The proof tries one length and one scale of input. A head that divides by `7 ** 0.5` whatever its width passes, and so
# does one that lets no score be larger than a thousand, or that reads only the first five tokens.
#
# </details>
#
# **Now do** exercises 5 and 6 of [the sheet](exercises/01_exercises.ipynb).
#
# ## Your turn
#
# 1. The tokens carry no position. How does the output of `my_head` change if you reverse the order of the tokens?
# 2. In the section "Three roles, three projections", change the factor 4 of the two weight matrices to 1, and then to
#    10, and run all cells again. What happens to the heatmap?
#
# <details><summary>Answers</summary>
#
# 1. The rows of the output are reversed in the same way, and nothing else changes. This is True:
#
#    ```python
#    torch.allclose(my_head(x.flip(1)), my_head(x).flip(1), atol=1e-6)
#    ```
#
#    So attention in which no token is hidden can't tell "Dream big" from "big Dream". [Lesson
#    07](07_order.ipynb) adds positions.
# 2. With 1, all attention weights are close to one sixth. With 10, each row has nearly its whole mix in a single cell,
#    because the scores grow with the square of the factor.
#
# </details>
#
# ## What you have now
#
# One attention head, from its first dot product to a module that reads a trained model's story. Its tokens may look at
# all others. A model that writes must not look ahead, and the next lesson sees to it.
#
# **Practise:** [six exercises](exercises/01_exercises.ipynb), about thirty-five minutes.
#
# **Click through it:** this head as [a recorded
# run](https://attention-course.github.io/attention-course/recordings/one_head.html). Choose any number there, and you
# see where it came from and where it goes.
#
# **Next:** [02 Hide what must not be seen](02_masks_and_dropout.ipynb).
