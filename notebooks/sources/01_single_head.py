# %% [markdown]
# # Build one attention head
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/01_single_head.ipynb)
#
# In this lesson you write attention. You begin with one word and numbers that you can check by hand, you see queries
# and keys as arrows in the plane, and at the end you have a PyTorch module, `MyHead`, that gives the same numbers as
# the head in the course's own library. The path, from six words with three numbers each to a module, follows chapter 3
# of Sebastian Raschka's book [Build a Large Language Model (From
# Scratch)](https://github.com/rasbt/LLMs-from-scratch) (2024).
#
# **You need** [lesson 00](00_start_here.ipynb). **It takes** about 40 minutes.

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
from course_lib.exercises import filled, predict
from course_lib.inputs import dream_big
from course_lib.pictures import draw_matrix_product, draw_vectors, heatmap
from course_lib.show import show

device = course_device()
words, embeddings, x = dream_big(device=device)
show("embeddings", embeddings, "token width", words, digits=2)

# %% [markdown]
# Each row is one **token**, here a word, and its three numbers are the token's **embedding**. You can think of an
# embedding as a point in space. In a trained model, tokens that are used in similar ways are close to each other; our
# numbers are made up, and small enough to check by hand.
#
# ## A first attempt, without anything to learn
#
# We want each token's vector to depend on the tokens around it. The simplest way to get there is to replace each vector
# by a mix of all vectors, in which some count more than others. How much a token counts is decided by the **dot
# product** of two vectors: we multiply them number by number and add up. It is large when the vectors point in similar
# directions, it is negative when they point in opposite ones, and its size grows with their lengths. Here is the dot
# product of each token with "work", which we call a **score**, and the length of each vector.

# %%
work = words.index("work")
scores_of_work = embeddings @ embeddings[work]  # one dot product per token
show("scores of 'work'", scores_of_work, "key", words, digits=3)
show("lengths", embeddings.norm(dim=-1), "token", words, digits=2)

# %% [markdown]
# The largest score of "work" is the one with itself, 1.205. To mix the tokens we need numbers that are positive and add
# up to 1, because then they say which part of the mix comes from which token. These are the **attention weights**. The
# usual way to get them from scores is called **softmax**: take the exponential of each score, which makes it positive,
# and divide by the sum of them all.
#
# **Write it yourself.** Return the attention weights for one row of scores. If you leave the cell as it is, the
# lesson goes on with the course's version.

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
# **Predict.** The score of "work" with itself is the largest of the six. Will "work" take more than half of the mix
# from itself?

# %%
guess = ...  # write "yes" or "no" in place of the dots
predict(guess, lambda: attention_weights(scores_of_work)[work] > 0.5)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It takes about a fifth from itself, and each of the others gets between a tenth and a fifth, too. Softmax looks at
# the differences between scores, and ours are close together: the largest is not even half a point above the
# smallest.
#
# </details>
#
# Now you mix: multiply the vector of each token by its attention weight and add up. The result is called the
# **context** of "work", because it collects what the tokens of the sentence contribute.
#
# **Write it yourself.** The vectors that are mixed are called `values`. Here they are the embeddings themselves.

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
# The new vector of "work" depends on its neighbours, as we wanted. However, it is nearly the plain mean of the six
# tokens, because the attention weights are so similar. For all six tokens at once, the same computation is one line.
# With $E$ for the table of embeddings, a mathematician would write it as $\mathrm{softmax}(E E^{\top})\, E$:

# %%
# (token, width) @ (width, token) -> (query, key)
first_scores = embeddings @ embeddings.T
first_contexts = first_scores.softmax(dim=-1) @ embeddings  # dim=-1: row by row
same = torch.allclose(first_contexts[work], first_context)
print("row 'work' is the context by hand:", same)
print("the scores are symmetric:", torch.equal(first_scores, first_scores.T))

# %% [markdown]
# The scores are symmetric because a dot product is the same in either order of its two vectors.
#
# **Predict.** "work" has its largest score with itself. Of how many of the six tokens is that true?

# %%
itself = torch.arange(6, device=device)
# where each row has its largest score: (query, key) -> (query)
has_most = first_scores.argmax(dim=-1)
guess = ...  # write a number from 0 to 6 in place of the dots
predict(guess, lambda: int((has_most == itself).sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Of three. "Dream", "big" and "for" have a larger score with "work" than with themselves, because "work" is the longest
# of the six vectors. So a dot product does not simply measure how much two tokens resemble each other. It does so only
# among vectors of the same length; otherwise a long vector has large scores with every vector that points roughly the
# same way.
#
# </details>
#
# **Predict.** Is the table of attention weights symmetric, too? In other words, does "work" take as much from "it" as
# "it" takes from "work"?

# %%
guess = ...  # write "yes" or "no" in place of the dots
first_weights = first_scores.softmax(dim=-1)
predict(guess, lambda: torch.allclose(first_weights, first_weights.T))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It isn't, because each row is divided by a sum of its own. But each pair of tokens still has only one score for both
# directions, and that is too little for language: in "she ate the apple", "ate" has to find what was eaten, while
# "apple" may have no need to find "ate".
#
# </details>
#
# ## Three roles, three projections
#
# In the first attempt the same three numbers of a token did three different jobs. They were what the token looks for,
# what it is found by, and what it passes on. The mixing itself had nothing that a model could learn, either. Real
# attention solves both problems with one idea: each token gets a vector of its own for each job, and each of these
# vectors is computed from the embedding by a matrix that is learned.
#
# - The **query** says what the token is looking for. It is a vector of its own because what a verb needs, such as its
#   object, is seldom another verb.
# - The **key** says what the token can be found by. Because keys differ from queries, the score from "work" to
#   "it" can differ from the score from "it" to "work".
# - The **value** is what the token passes on to tokens that attend to it. What makes a token easy to find need not be
#   what others want to know about it: the key may say no more than *here is a name*, and the value says which name.
#
# Multiplying by a learned matrix is called a **projection**, and in PyTorch it is an `nn.Linear`. Ours take three
# numbers and return two, so that we can draw queries, keys and values in the plane.

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

# %% [markdown]
# Nobody has trained these three **weight matrices**. Their numbers are random, and so is every pattern that follows
# from them. We look at *how* attention computes; what trained heads attend to is the subject of [lesson
# 10](10_what_heads_learn.ipynb).

# %%
# (token, width), each (6, 2)
queries, keys, values = q_proj(embeddings), k_proj(embeddings), v_proj(embeddings)
show("queries", queries, "token width", words, digits=2)

# %% [markdown]
# A query has two numbers, and each of them is a sum of three products. The picture outlines the second number of
# "work". `nn.Linear` keeps its matrix as (width out, width in), so the product is `x @ q_proj.weight.T`, with the
# matrix transposed.

# %%
names = ("x", "q_proj.weight.T", "queries")
draw_matrix_product(
    embeddings, q_proj.weight.T, names=names, words=words, highlight=(work, 1)
)

# %% [markdown]
# Because queries and keys have two numbers, we can draw them as arrows. Here is the query of "work" among the six
# keys:

# %%
title = "Where does the query of 'work' point?"
draw_vectors({"key": keys, "query of 'work'": queries[work]}, words=words, title=title)

# %% [markdown]
# The key of "and" is nearest in direction to the query of "work": the angle between them is 21°. The key of "Dream" is
# almost at a right angle to it, and the four others point away from it. A dot product is positive if the angle is
# smaller than a right angle, 0 at a right angle, and negative beyond it. So "and" should get the largest score and
# "Dream" the second largest.
#
# ## One token by hand
#
# The three steps are those of the first attempt, with the query of "work", the keys and the values in their places.
# **Compare:** the score of a key is its dot product with the query. We divide the scores by the square root of the
# width, for a reason that you will measure in the section "Why divide by the square root of the width?".

# %%
products = torch.stack([queries[work] @ key for key in keys])  # one per key
scores_of_work = products / d_out**0.5
show("scores of 'work'", scores_of_work, "key", words)

# %% [markdown]
# As the arrows promised, only "and" has a positive score, "Dream" is close to 0, and the others are negative.
# **Weigh:** softmax turns the scores into attention weights.

# %%
weights_of_work = attention_weights(scores_of_work)
show("attention weights of 'work'", weights_of_work, "key", words)

# %% [markdown]
# "work" takes 0.5750 of its mix from "and" and 0.2025 from "Dream". A negative score does not mean that a token is
# ignored, because the exponential of any number is positive. (Only that of a number very far below 0 is too small to be
# stored, and becomes 0.) What counts is how far the score is from the others.
#
# **Predict.** Suppose that all six keys were the same vector. How large would each of the attention weights be?

# %%
equal_scores = torch.stack([queries[work] @ keys[0]] * 6)
guess = ...  # write a number such as 0.25 in place of the dots
predict(guess, lambda: attention_weights(equal_scores)[0].item(), within=0.005)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# All scores would be equal, so each of the six attention weights would be one sixth, and the context would be the mean
# of the values.
#
# </details>
#
# **Mix:** the context of "work" is the sum of all values, each multiplied by its attention weight.

# %%
context_of_work = context_of_token(weights_of_work, values)
show("context of 'work'", context_of_work, "width")

# %% [markdown]
# In the next picture each dot is the value of a token, with the attention weight that "work" gives it, and the
# diamond is the context.

# %%
numbers = weights_of_work.tolist()
labels = [f"{word} {weight:.3f}" for word, weight in zip(words, numbers, strict=True)]
vectors = {"value": values, "context of 'work'": context_of_work}
title = "The context is a point among the values"
draw_vectors(vectors, words=labels, points=True, title=title)

# %% [markdown]
# The context is a balance point: each value pulls it with its attention weight. "and" pulls hardest, "Dream" pulls it
# to the lower left, and the others pull a little. Because the attention weights are positive and sum to 1, the
# context can never leave the region that the values enclose (their *convex hull*).
#
# These three steps, **compare, weigh, mix**, are attention, and every class in this course takes them.
#
# ## All tokens at once
#
# The six scores of one query are one row of a matrix product, and six queries give six rows. The rows of the left
# matrix are multiplied by the *columns* of the right one, so the keys have to be transposed: each key becomes a
# column. The picture outlines query "work", key "and" and their dot product, which is not yet divided by anything. (The
# columns of `keys.T` and of the products are the six words in their order: "and" is the third.)

# %%
names = ("queries", "keys.T", "products")
draw_matrix_product(
    queries, keys.T, names=names, words=words, highlight=(work, words.index("and"))
)

# %%
scores = queries @ keys.T / d_out**0.5  # (query, width) @ (width, key) -> (query, key)
weights = scores.softmax(dim=-1)  # over the keys
same = torch.allclose(weights[work], weights_of_work)
print("row 'work' is what you computed by hand:", same)

# %% [markdown]
# `dim=-1` is the last axis, the keys, so each *row* is one token's mix and sums to 1. A *column* collects what the six
# queries take from one key, and need not sum to 1.
#
# **Predict.** If you add the sums of all six columns, what do you get?

# %%
column_sums = weights.sum(dim=0)  # (query, key) -> (key)
guess = ...  # write a number in place of the dots
predict(guess, lambda: column_sums.sum().item(), within=0.01)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# You get 6. All columns together are the whole table, and so are all six rows, each of which sums to 1.
#
# </details>

# %%
heatmap(weights, words)

# %%
show("column sums", column_sums, "key", words, digits=2)

# %% [markdown]
# Read the heatmap row by row: the row is the token that looks, the column is the token it looks at. Four of the six
# tokens take more than half of their mix from "and", whose column collects 2.86 of all that the six have to give. In
# the first attempt a pair of tokens had one score for both directions. Now it has two, because one token asks with its
# query and the other answers with its key:

# %%
and_ = words.index("and")
for query, key in ((work, and_), (and_, work)):
    score, weight = scores[query, key], weights[query, key]
    numbers = f"score {score:5.2f}, attention weight {weight:.2f}"
    print(f"'{words[query]}' looks at '{words[key]}': {numbers}")

# %% [markdown]
# "work" takes more than half of its mix from "and", and "and" takes only 0.05 from "work", less than a third of an
# equal share.
#
# The last product mixes the values, whose six rows are the words in their order. Each row of attention weights is
# multiplied by each column of the values:

# %%
names = ("weights", "values", "context")
draw_matrix_product(weights, values, names=names, words=words, highlight=(work, 0))

# %%
context = weights @ values  # (query, key) @ (key, width) -> (query, width)
same = torch.allclose(context[work], context_of_work)
print("row 'work' is the context by hand:", same)

# %% [markdown]
# Once there are queries, keys and values, two matrix products, a division and a softmax compute for all tokens what you
# computed for one.
#
# **Now do** exercises 1 to 4 of [the sheet](exercises/01_exercises.ipynb). They ask for these steps as functions, and
# exercise 3 shows why a real softmax subtracts the largest score first.
#
# ## Why divide by the square root of the width?
#
# A dot product of two random vectors is a sum with as many terms as the vectors have numbers. The wider the vectors,
# the larger the scores become. We draw 20000 pairs of random queries and keys for several widths, and measure how far
# the scores spread around 0 (their standard deviation):

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
# The last column stays near 1, so the spread grows like the square root of the width. The reason is that the terms of
# the sum are independent and each has a variance of 1, the square of its standard deviation. Variances of independent
# terms add up, so that of the sum is the width, and its square root is the spread.
#
# **Predict.** How far will the scores spread at a width of 2048?

# %%
guess = ...  # write a number with a decimal point in place of the dots
wide_scores = random_scores(5000, 2048)
predict(guess, lambda: wide_scores.std().item(), within=1)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# 2048 is four times 512, so the spread is twice that of the table's last row.
#
# </details>
#
# Large scores are a problem because softmax turns them into all or nothing. The next table takes six random keys per
# query and compares scores that are divided with scores that are not. *Largest* is the largest of a query's six
# attention weights, on average. The other columns are about learning. The **gradient** of a query says how a loss, here
# a random sum of the attention weights, changes with the query. Training follows the gradients, so a query without one
# doesn't teach the head where to look. The table has the lengths of these gradients, as mean and median, and the part
# of them below 0.001.

# %%
generator = torch.Generator().manual_seed(0)
print("width   scores        largest   gradient: mean   median   below 0.001")
for width in (2, 8, 32, 128, 512):
    one_query = torch.randn(4000, 1, width, generator=generator, requires_grad=True)
    six_keys = torch.randn(4000, 6, width, generator=generator)
    factors = torch.randn(4000, 1, 6, generator=generator)  # of the random sums
    products = one_query @ six_keys.transpose(1, 2)  # (sample, 1, key)
    for name, divisor in (("divided", width**0.5), ("not divided", 1.0)):
        mix = (products / divisor).softmax(dim=-1)
        loss = (mix * factors).sum()
        (gradient,) = torch.autograd.grad(loss, one_query, retain_graph=True)
        length = gradient.norm(dim=-1)  # (sample, 1)
        below = (length < 0.001).float().mean()
        print(f"{width:5}   {name:11}   {mix.amax(dim=-1).mean():7.2f}", end="")
        print(f"   {length.mean():14.2f}   {length.median():6.4f}   {below:11.2f}")

# %% [markdown]
# With the division all columns stay about the same from a width of 8 on. Without it, a wide head with queries and keys
# like these takes nearly its whole mix from a single token before it has learned anything. At a width of 512 more than
# half of its queries have next to no gradient. Others, whose largest scores happen to be close together, have such a
# large one that the *mean* is even larger than with the division, because a score that isn't divided changes faster
# with its query. The paper that introduced the division suspected "extremely small gradients" (Vaswani et al.,
# [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017), and at a width of 512 most queries do get them.
#
# In exact arithmetic it does not matter *when* you divide. In half precision (float16), which has no room for large
# numbers, it does:

# %%
row = torch.full((1, 64), 60.0, dtype=torch.float16)  # a query, and its only key
print("largest float16 number:     ", torch.finfo(torch.float16).max)
print("product first, then divided:", (row @ row.T / 8).item())
print("query divided first:        ", ((row / 8) @ row.T).item())
print("softmax of the first:       ", (row @ row.T / 8).softmax(dim=-1).item())

# %% [markdown]
# The product is above 65504, so it overflows to infinity before the division can help, and softmax makes `nan` of it,
# which means *not a number*. That is why the module below and the course's library divide the queries before the
# product. (The cells above divide afterwards, so that you see the products first; their numbers are small.)
#
# ## The formula in the papers
#
# $$
# \mathrm{attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^{\top}}{\sqrt{d}}\right) V
# $$
#
# $Q$, $K$ and $V$ are `queries`, `keys` and `values`, with one row per token, and $d$ is the number of columns of $Q$
# and $K$. $Q K^{\top}$ is `queries @ keys.T`. The formula does not mention that softmax runs over the keys, so you
# have to remember it.
#
# ## Into a module
#
# The three projections become parameters of a module, and the three steps become its `forward`. The input gets one more
# axis in front, the **batch**, so that several sentences are computed at once. `.T` would reverse all three axes (with
# a warning); we need only the last two exchanged, which is `keys.transpose(1, 2)`. The width by whose square root you
# divide is `queries.shape[-1]`.
#
# **Write it yourself.** Compare, weigh and mix. The next lessons go on with your `MyHead`.

# %%
class MyHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        # three lines: scores (batch, query, key), weights, and what you return
        raise NotImplementedError


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
# We give it the three projections from above, so that it must return the same numbers.

# %%
my_head = MyHead(d_in, d_out).to(device)
my_head.q_proj, my_head.k_proj, my_head.v_proj = q_proj, k_proj, v_proj
print("my output:", tuple(my_head(x).shape), "= (batch, token, width)")
print("equals the matrix form:", torch.allclose(my_head(x)[0], context))

# %% [markdown]
# ## A mistake that no one sees
#
# It is easy to write `values` where `keys` should be, because both have the same shape. Then the queries are compared
# with the values, and no error is reported:

# %%
def scored_with_values(x):
    # (token, width) -> context (token, width), attention weights (query, key)
    queries, keys, values = q_proj(x), k_proj(x), v_proj(x)
    scores = (queries / d_out**0.5) @ values.T  # values, not keys
    weights = scores.softmax(dim=-1)
    return weights @ values, weights


wrong_context, wrong_weights = scored_with_values(embeddings)
print("the shape is right: ", wrong_context.shape == context.shape)
row_sums = wrong_weights.sum(dim=-1)
print("the rows sum to 1:  ", torch.allclose(row_sums, torch.ones_like(row_sums)))
print("largest difference: ", f"{(wrong_context - context).abs().max().item():.2f}")

# %% [markdown]
# The shape and the row sums are right and the numbers are wrong, so neither of these two checks proves much. The
# gradients reveal the mistake. A training step changes each parameter by means of its gradient, and `.backward()`
# computes the gradients of all parameters that a loss depends on. We call it once on the wrong version.
#
# **Predict.** One of the three projections gets no gradient at all, so that training would never change it. Which
# one?

# %%
scored_with_values(embeddings)[0].square().sum().backward()
projections = {"q": q_proj, "k": k_proj, "v": v_proj}
without = [name for name in projections if projections[name].weight.grad is None]
guess = ...  # write "q", "k" or "v", with the quotes, in place of the dots
predict(guess, lambda: without[0])

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The keys are computed but never used, so nothing flows back to their projection. A parameter that should learn but
# gets no gradient is always a reason to look twice. [Lesson 12](12_debugging_attention.ipynb) has more tests of this
# kind.
#
# </details>
#
# ## Proof
#
# A comparison with a second implementation finds this mistake, too. We compare your head with the library's,
# `SingleHeadAttention`. Two samples of five tokens, with three numbers in and seven out, will do: because these sizes
# all differ, a head that confuses two of them is found. (`causal=False` leaves out the mask, which is the subject of
# the next lesson.)

# %%
from course_lib.attention import SingleHeadAttention

torch.manual_seed(1)
reference = SingleHeadAttention(d_in=3, d_out=7, causal=False)
with torch.no_grad():
    reference.q_proj.weight *= 4
    reference.k_proj.weight *= 4
reference = reference.to(device)
my_wide_head = MyHead(3, 7).to(device)
my_wide_head.load_state_dict(reference.state_dict())  # the same weight matrices
samples = torch.rand(2, 5, 3).to(device)  # (batch, token, d_in)
torch.testing.assert_close(my_wide_head(samples), reference(samples))
print("equal:", tuple(samples.shape), "->", tuple(reference(samples).shape))

# %% [markdown]
# Would this proof notice a mistake? The best answer is to make some. The next function computes the head with any
# divisor, and with values in place of the keys if you like:

# %%
def slipped(divisor, matched=reference.k_proj):
    queries, values = reference.q_proj(samples), reference.v_proj(samples)
    scores = (queries / divisor) @ matched(samples).transpose(1, 2)
    return scores.softmax(dim=-1) @ values


slips = {
    "right": slipped(7**0.5),
    "values in place of the keys": slipped(7**0.5, reference.v_proj),
    "divided by the root of the batch": slipped(2**0.5),
    "divided by the root of the tokens": slipped(5**0.5),
    "divided by the root of d_in": slipped(3**0.5),
    "not divided": slipped(1),
}
for name, wrong in slips.items():
    print(f"{name:33}  {(wrong - reference(samples)).abs().max().item():.4f} away")

# %% [markdown]
# All five mistakes show. If the width were *two*, like that of `my_head`, the head that divides by the root of the
# batch would have passed, because two samples have the same root.
#
# **Now do** exercises 5 and 6 of [the sheet](exercises/01_exercises.ipynb), which ask for a head as a module.
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
#    07](07_order_and_padding.ipynb) adds positions.
# 2. With 1, all attention weights are close to one sixth, as they are in a head that nobody has trained, with inputs as
#    short as ours. With 10, each row has nearly its whole mix in a single cell. The scores grow with the square of the
#    factor, and softmax turns large differences into all or nothing, as you saw above.
#
# </details>
#
# ## What you have now
#
# You have one attention head, built from its first dot product: it compares, weighs and mixes. Every token can attend
# to every other token, including those that come after it. The next lesson changes that.
#
# **Practise:** [six exercises](exercises/01_exercises.ipynb), about thirty-five minutes.
#
# **Click through it:** this head as [a recorded run](https://attention-course.github.io/attention-course/recordings/one_head.html).
# Choose any number there, and you see where it came from and where it goes.
#
# **Next:** [02 Hide what must not be seen](02_masks_and_dropout.ipynb).
