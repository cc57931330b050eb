# %% [markdown]
# # Put heads side by side
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/03_wrapper.ipynb)
#
# A storyteller with one head in each block mixes its animals up. One with four heads in each block doesn't, although it
# is no wider and was trained on the same stories for as long. Run the first cell and read both. In this lesson you find
# out what one head cannot do, you write the class that puts several side by side, and then you remove heads, one at a
# time, to see what each is good for.
#
# **You need** [lesson 02](02_masks_and_dropout.ipynb). **It takes** about 45 minutes.

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
import copy
from functools import partial
from textwrap import fill

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import MultiHeadAttentionWrapper, causal_keep
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.inputs import dream_big
from course_lib.pictures import compare
from course_lib.show import show
from course_lib.stories import facts_kept, load_storyteller, with_attention
from course_lib.timing import Case, compare_times

device = course_device()
words, embeddings, x = dream_big(device=device)
KINDS = ("name", "animal", "thing", "colour")


def sure_of(model):  # of the right word, in 100 stories that it has not read
    kept = facts_kept(model, count=100)
    return "  ".join(f"{kind} {kept[kind]:.2f}" for kind in KINDS)


for heads, form in ((1, "one head"), (4, "wrapper")):
    model = load_storyteller(form).to(device)
    print(f"heads per block: {heads}, {sure_of(model)}")
    print(fill(model.write("This is the story of"), 80), end="\n\n")

# %% [markdown]
# Where a story comes back to a fact, the numbers say how sure a model is of the right word among all of its kind, such
# as all names. With one head it's often the wrong animal. (That model also lacks the output projection, which you meet
# below. A fairer pair is on the book's [page on the
# storyteller](https://attention-course.github.io/attention-course/storyteller.html#what-a-mistake-does): four heads
# that are made to share one row of attention weights lose more than half of their facts, four with rows of their own a
# fifth.)
#
# ## Why more than one head
#
# A head gives each query one row of attention weights, and every column of the values is mixed with that same row.
# Suppose that "it" looks at two words and needs the first number of one and the second number of the other. Here are
# values in which the numbers are easy to recognise, and several ways to divide the attention between the two words:

# %%
# (word, width): of "Dream", of "work"
values = torch.tensor([[2.0, -1.0], [-1.0, 2.0]], device=device)
for on_dream in (1.0, 0.75, 0.5, 0.25, 0.0):
    weights_of_it = torch.tensor([on_dream, 1 - on_dream], device=device)
    shares = f"{on_dream:.2f} on 'Dream', {1 - on_dream:.2f} on 'work':"
    print(shares, (weights_of_it @ values).tolist())

# %% [markdown]
# We want [2, 2], and no line comes near it. But a head makes its values itself, with its value matrix $W^V$. Can't it
# make better ones? For this one text it can: half of [4, 0] and half of [0, 4] is [2, 2]. The trouble is that a head
# has a single $W^V$ for *all* texts. So take four texts of two words, and in each of them "it" needs the first number
# of the first word and the second number of the second:

# %%
texts = {"Dream Dream": (0, 0), "work work": (1, 1)}
texts |= {"Dream work": (0, 1), "work Dream": (1, 0)}
for text, (first, second) in texts.items():
    wanted = [values[first, 0].item(), values[second, 1].item()]
    print(f"{text:11} wants {wanted}, whose sum is {sum(wanted):.0f}")

# %% [markdown]
# No other values suit all four. In the first two texts a word is mixed with itself, which leaves its value as it is. So
# "Dream" must have the value [2, -1] and "work" the value [-1, 2], whatever the attention weights. But the sum of each
# of the two is 1, and so is the sum of every mix of them; the other texts ask for sums of 4 and -2. One row of
# attention weights serves all columns, and one $W^V$ serves all texts. (Positions, which the words here don't have,
# come in lesson 07.)
#
# So let the two columns be mixed by two different rows of attention weights. Each such row, with the columns that it
# mixes, is a **head**.
#
# **Write it yourself.** Head 0 mixes the first half of the columns with `weights_0`, head 1 the second half with
# `weights_1`.

# %%
def two_mixes(weights_0, weights_1, values):  # (key,), (key,), (key, width) -> (width,)
    half = values.shape[1] // 2
    raise NotImplementedError  # your three lines: two mixes, then join them


two_mixes = filled("two_mixes", two_mixes)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def two_mixes(weights_0, weights_1, values):  # (key,), (key,), (key, width) -> (width,)
#     half = values.shape[1] // 2
#     context_0 = weights_0 @ values[:, :half]
#     context_1 = weights_1 @ values[:, half:]
#     return torch.cat([context_0, context_1])
# ```
#
# </details>

# %%
# each head looks at one word alone: head 0 at the first, head 1 at the second
on_dream, on_work = torch.eye(2, device=device)
print("Dream work: ", two_mixes(on_dream, on_work, values).tolist())
print("Dream Dream:", two_mixes(on_dream, on_dream, values).tolist())
print("work work:  ", two_mixes(on_work, on_work, values).tolist())
print("work Dream: ", two_mixes(on_work, on_dream, values).tolist())

# %% [markdown]
# Two heads make all four results from the same values. The paper gives this reason, too: with a single head, averaging
# stands in the way (Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017).
#
# ## Two heads of your own
#
# Each token enters as three numbers and should leave as eight. Two of the causal heads that you wrote in lesson 02
# share the work, so each of them produces four. Their weight matrices are random, multiplied by 4 so that a pattern
# shows.

# %%
MyCausalHead = from_earlier("MyCausalHead")
d_in, d_out, num_heads = 3, 8, 2
head_dim = d_out // num_heads
torch.manual_seed(4)
head_0 = MyCausalHead(d_in, head_dim)
head_1 = MyCausalHead(d_in, head_dim)
with torch.no_grad():
    for head in (head_0, head_1):
        head.to(device)
        head.q_proj.weight *= 4
        head.k_proj.weight *= 4

# %%
context_0, context_1 = head_0(x), head_1(x)  # each (batch, token, head_dim)


def weights_of(head):  # the attention weights of one causal head: (batch, query, key)
    scores = (head.q_proj(x) * head_dim**-0.5) @ head.k_proj(x).transpose(1, 2)
    keep = causal_keep(6, device=device)
    return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)


weights_0, weights_1 = weights_of(head_0), weights_of(head_1)
compare(weights_0, weights_1, words, names=("head 0", "head 1"))

# %% [markdown]
# The third table is the difference, head 0 minus head 1. Compare the last rows. In head 0 "it" attends mostly to
# itself, in head 1 mostly to "and" and "Dream". A single head would have to choose, or to blend the two.
#
# ## Join the heads
#
# Now we put the two contexts side by side: columns 0 to 3 come from head 0, and columns 4 to 7 come from head 1.

# %%
# 2 x (batch, token, head_dim) -> (batch, token, d_out)
joined = torch.cat([context_0, context_1], dim=-1)
print(tuple(context_0.shape), "and", tuple(context_1.shape), "->", tuple(joined.shape))

# %% [markdown]
# ## What W^O does
#
# Multi-head attention has one more linear layer at its end, the **output projection**, `out_proj` in code and $W^O$ in
# the formulas. To see what it does, we switch head 1 off and look at which columns change, at first without the
# projection:

# %%
torch.manual_seed(6)
out_proj = nn.Linear(d_out, d_out, bias=False).to(device)
head_1_off = torch.cat([context_0, torch.zeros_like(context_1)], dim=-1)
change = (joined - head_1_off).abs().amax(dim=(0, 1))  # largest change in each column
show("largest change without W^O", change, "width", digits=2)

# %% [markdown]
# Columns 0 to 3 belong to head 0, and they don't change.
#
# **Predict.** How many of the eight columns change if the output projection comes after the join?

# %%
difference = (out_proj(joined) - out_proj(head_1_off)).abs().amax(dim=(0, 1))
guess = ...  # write a number from 0 to 8 in place of the dots
predict(guess, lambda: int((difference > 1e-6).sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# All eight: each output number is a weighted sum of all eight joined numbers.
#
# </details>
#
# There is a second way to read it, as a sum of what each head *adds* (Elhage et al., [A Mathematical Framework
# for Transformer Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021). The first `head_dim`
# rows of $W^O$ meet the columns of head 0, the next ones those of head 1, and so on. So we can project each head by its
# own block of rows, and add the results:
#
# $$
# \mathrm{concat}(\mathrm{head}_0, \mathrm{head}_1)\, W^O = \mathrm{head}_0\, W^O_0 + \mathrm{head}_1\, W^O_1
# $$
#
# In code you meet $W^O$ transposed: `nn.Linear` keeps its matrix as (width out, width in) and multiplies by the
# transpose. A head's rows of $W^O$ are therefore its *columns* of `out_proj.weight`, which is `w_o` below.
#
# **Write it yourself.** Project the context of one head by that head's block of columns.

# %%
def output_of_head(context, w_o, head):
    # (b, token, head_dim), (d_out, d_out), int -> (b, token, d_out)
    head_dim = context.shape[-1]
    raise NotImplementedError  # your two lines: cut the block out of w_o, then multiply


output_of_head = filled("output_of_head", output_of_head)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def output_of_head(context, w_o, head):
#     # (b, token, head_dim), (d_out, d_out), int -> (b, token, d_out)
#     head_dim = context.shape[-1]
#     w_o_of_head = w_o[:, head * head_dim : (head + 1) * head_dim]  # (d_out, head_dim)
#     return context @ w_o_of_head.T
# ```
#
# </details>

# %%
w_o = out_proj.weight
summed = output_of_head(context_0, w_o, 0) + output_of_head(context_1, w_o, 1)
torch.testing.assert_close(summed, out_proj(joined))
print("projected and added = joined and projected")

# %% [markdown]
# **Now do** exercises 1 and 2 of [the sheet](exercises/03_exercises.ipynb). Exercise 2 asks for the output projection
# with any number of heads.
#
# ## The wrapper
#
# Multi-head attention is a loop over heads, a `cat`, and a projection. A *wrapper* just holds the heads and calls each
# of them. Put them into an `nn.ModuleList`, a list that PyTorch knows about: the parameters in it are trained and moved
# to the device together with the model, those in a plain Python list are not.
#
# **Write it yourself, from an empty class.** Call the list `heads` and the output projection `out_proj`, without bias.
# `d_out` is the width over *all* heads.

# %%
class MyWrapper(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        raise NotImplementedError  # the heads, and the output projection

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # run each head, join, mix


MyWrapper = filled("MyWrapper", MyWrapper)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyWrapper(nn.Module):
#     def __init__(self, d_in, d_out, num_heads):
#         super().__init__()
#         head_dim = d_out // num_heads
#         heads = [MyCausalHead(d_in, head_dim) for _ in range(num_heads)]
#         self.heads = nn.ModuleList(heads)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#
#     def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
#         contexts = [head(x) for head in self.heads]  # num_heads x (b, token, head_dim)
#         joined = torch.cat(contexts, dim=-1)  # (batch, token, d_out)
#         return self.out_proj(joined)
# ```
#
# </details>
#
# ## What each head is good for
#
# The second storyteller at the top has a wrapper of four heads in each of its two blocks. We put yours in their place,
# with the weights that were trained, so that it tells the same story.

# %%
storyteller = load_storyteller("wrapper").to(device)
mine = with_attention(storyteller, MyWrapper)
beginning = "This is the story of"
print("the same story:", mine.write(beginning) == storyteller.write(beginning))


def without_head(block, head):  # your storyteller, with what one head adds set to 0
    model = copy.deepcopy(mine)
    columns = slice(16 * head, 16 * (head + 1))  # heads of width 16
    with torch.no_grad():
        model.attentions[block].out_proj.weight[:, columns] = 0
    return model


# %% [markdown]
# In each of the two blocks there are four heads. **Predict.** We remove one of the eight. In how many of the eight
# cases does the model lose the names, so that it is less than half sure of them?

# %%
removed = {
    (block, head): facts_kept(without_head(block, head), count=100)["name"]
    for block in (0, 1)
    for head in range(4)
}
guess = ...  # write a number from 0 to 8 in place of the dots
predict(guess, lambda: sum(sure < 0.5 for sure in removed.values()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# In one. It is the head that you have met in lessons 00 and 01.
#
# </details>

# %%
remembers = min(removed, key=removed.get)
print("without the head that remembers:", sure_of(without_head(*remembers)))
print(fill(without_head(*remembers).write(beginning), 80), end="\n\n")
rest = copy.deepcopy(mine)
with torch.no_grad():
    others = [column for column in range(64) if column // 16 != remembers[1]]
    rest.attentions[remembers[0]].out_proj.weight[:, others] = 0
print("without the three others of its block:", sure_of(rest))
print(fill(rest.write(beginning), 80), end="\n\n")
for head in range(4):
    print(f"without head {head} of the first block:  {sure_of(without_head(0, head))}")

# %% [markdown]
# One head of the second block looks up nearly every fact, not the names alone. Without the three beside it the model
# still finds its facts, and its sentences come apart. Take away a head of the first block, and it gets less sure of
# something: the head that remembers reads what they wrote. All this is what *this* training led to, not a law. [Lesson
# 13](13_what_heads_learn.ipynb) comes back to that.
#
# ## A mistake: copy, paste, forget
#
# Before there was a class, you might have copied the cell of head 0, pasted it, and replaced each 0 by a 1. Here is
# such a copy in which one 0 was forgotten:

# %%
def pasted(x):
    hidden = ~causal_keep(6, device=device)
    scores_0 = (head_0.q_proj(x) * head_dim**-0.5) @ head_0.k_proj(x).transpose(1, 2)
    weights_0 = scores_0.masked_fill(hidden, -torch.inf).softmax(dim=-1)
    scores_1 = (head_1.q_proj(x) * head_dim**-0.5) @ head_1.k_proj(x).transpose(1, 2)
    weights_1 = scores_0.masked_fill(hidden, -torch.inf).softmax(dim=-1)
    contexts = weights_0 @ head_0.v_proj(x), weights_1 @ head_1.v_proj(x)
    return torch.cat(contexts, dim=-1)


print("shape right:  ", pasted(x).shape == joined.shape)
other_ending = torch.cat([x[:, :-1], x[:, :1]], dim=1)  # another last token
print("causal:       ", torch.allclose(pasted(other_ending)[:, :-1], pasted(x)[:, :-1]))
print("numbers right:", torch.allclose(pasted(x), joined))

# %% [markdown]
# The right shape, and even causal. Again the gradients reveal the mistake.
#
# **Predict.** How many of the six weight matrices receive no gradient here?

# %%
matrices = [*head_0.parameters(), *head_1.parameters()]
# one per matrix, or None
gradients = torch.autograd.grad(pasted(x).square().sum(), matrices, allow_unused=True)
guess = ...  # write a number from 0 to 6 in place of the dots
predict(guess, lambda: sum(gradient is None for gradient in gradients))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Two: `q_proj` and `k_proj` of head 1. They make `scores_1`, and nothing uses `scores_1`. A loop over modules can't
# forget to replace an index, which is a good reason for the wrapper.
#
# </details>
#
# **Now do** exercise 3 of [the sheet](exercises/03_exercises.ipynb), which asks for a wrapper without a mask.
#
# ## What several heads cost
#
# The heads *share* the width: if the output is to have eight numbers per token, one head makes all eight, two heads
# four each, eight heads one each. We count what the library's wrapper needs, which is like yours:

# %%
for heads in (1, 2, 4, 8):
    wrapper = MultiHeadAttentionWrapper(3, 8, heads).to(device)
    parameters = sum(parameter.numel() for parameter in wrapper.parameters())
    # counts multiplications and additions in matrix products
    with FlopCounterMode(display=False) as counter:
        _, weights = wrapper(x, return_weights=True)
    counted = f"{parameters} parameters, {counter.get_total_flops()} operations"
    print(f"heads {heads}: {counted}, {weights.numel()} attention weights")

# %% [markdown]
# Parameters and the operations of matrix products stay the same; the attention weights grow, because each head has a
# table of its own. And the time? A list of heads is a loop. This is what a wrapper of width 512 took for 128 tokens on
# the machine that made this page:

# %% tags=["timing", "nbval-ignore-output"]
sample = torch.randn(1, 128, 512, device=device)
for heads in (1, 2, 8, 64):
    wide = MultiHeadAttentionWrapper(512, 512, heads).to(device)
    case = Case(f"heads {heads:2}", partial(wide, sample))
    (row,) = compare_times([case], rounds=15)
    print(f"{row.name}: {row.median_ms:6.1f} ms")

# %% [markdown]
# The loop is a part of that, and lesson 05 gets rid of it; the many tables of attention weights are another. And the
# heads become narrower. The scores of a head are $x\, W^Q {W^K}^{\top} x^{\top}$ before the division, and the **rank**
# of the table $W^Q {W^K}^{\top}$ says how many of its rows can't be built from the rows above. Here it is for heads
# with random matrices:

# %%
def rank(head_dim):
    generator = torch.Generator().manual_seed(0)
    w_q, w_k = torch.randn(2, 3, head_dim, generator=generator)  # (d_in, head_dim) each
    return torch.linalg.matrix_rank(w_q @ w_k.T).item()


print("rank at width 1:", rank(1), " at width 2:", rank(2))

# %% [markdown]
# In a head of width 1 a score is the product of two plain numbers, so all positive queries put the keys into the same
# order, and all negative ones into the reverse.
#
# **Predict.** What is the rank in a head of width 8, for the same tokens of three numbers?

# %%
guess = ...  # write a whole number in place of the dots
predict(guess, lambda: rank(8))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is 3, because the table is 3 by 3 for tokens of three numbers, however wide the head. For our tokens only widths 1
# and 2 are narrow. In real models a token has hundreds or thousands of numbers and a head around a hundred, so heads
# are narrow there.
#
# </details>
#
# ## Proof, and how to cheat it
#
# Two heads by hand = your wrapper = the library's, on sizes that all differ: 5 samples, 7 tokens, 3 numbers in and 8
# out, 2 heads of width 4.

# %%
reference = MultiHeadAttentionWrapper(d_in, d_out, num_heads).to(device)
reference.heads.load_state_dict(nn.ModuleList([head_0, head_1]).state_dict())
reference.out_proj.load_state_dict(out_proj.state_dict())

generator = torch.Generator().manual_seed(7)
samples = torch.randn(5, 7, d_in, generator=generator).to(device)
by_hand = out_proj(torch.cat([head_0(samples), head_1(samples)], dim=-1))


def proof(wrapper_class):
    wrapper = wrapper_class(d_in, d_out, num_heads).to(device)
    wrapper.load_state_dict(reference.state_dict())
    torch.testing.assert_close(wrapper(samples), by_hand)


proof(MyWrapper)
torch.testing.assert_close(reference(samples), by_hand)
print("all three agree on", tuple(samples.shape), "->", tuple(by_hand.shape))

# %% [markdown]
# **Now cheat.** Write a wrapper with a mistake that this proof doesn't see. What is the same in every run of it?

# %%
Sneaky = ...  # a class like MyWrapper, with your mistake, in place of the dots
sneak("MyWrapper", Sneaky, proof)

# %% [markdown]
# <details><summary>Ways in</summary>
#
# The proof has two heads. A wrapper that joins its heads in reverse for three and more passes, and so does one whose
# number of heads is always 2.
#
# </details>
#
# ## Your turn
#
# 1. With `num_heads=1`, what is left of the wrapper?
# 2. How many matrix products does a wrapper of twelve heads run to make its queries, keys and values? How many would be
#    enough?
# 3. Make the library's wrapper after `torch.manual_seed(123)`, without scaling anything up. Let each head compute its
#    scores with the values in place of the keys. How much does the output change? How much does it change for our two
#    heads?
#
# <details><summary>Answers</summary>
#
# 1. One head, as wide as the output, followed by the output projection.
# 2. Three per head, thirty-six in all. One would be enough: stack the matrices of all heads and all three roles into a
#    single tall matrix. Lesson 05 does this step by step.
# 3. Here is the code, with what it prints in comments:
#
#    ```python
#    torch.manual_seed(123)
#    fresh = MultiHeadAttentionWrapper(3, 4, num_heads=2, out_proj=False).to(device)
#    show("fresh", fresh(x), "batch token width", words)
#    # fresh: batch 1, token 6, width 4
#    #              0        1        2        3
#    # Dream  -0.5762  -0.1627   0.5569   0.3635
#    # big    -0.5650  -0.0630   0.5599   0.3006
#    # and    -0.5472  -0.1226   0.5285   0.3435
#    # work   -0.5787  -0.0943   0.5621   0.3388
#    # for    -0.5593  -0.0436   0.5509   0.3046
#    # it     -0.5287  -0.0033   0.5277   0.2743
#
#    for wrapper in (fresh, reference):
#        wrong = copy.deepcopy(wrapper)  # the heads of the lesson stay as they are
#        for head in wrong.heads:
#            head.k_proj = head.v_proj
#        print(f"{(wrong(x) - wrapper(x)).abs().max():.4f}")
#    # 0.0045
#    # 0.1057
#    ```
#
#    With these untrained heads the mistake shows only in the third decimal, and with ours in the first; undo the factor
#    of 4 in ours, and it is back in the third. So test with heads whose attention is not flat.
#
# </details>
#
# ## What you have now
#
# You have multi-head attention as a loop over heads, which is easy to read, and you know what the output projection
# adds. To run all heads in a single product, the heads must be cut out of one wide tensor. The next lesson shows how to
# cut.
#
# **Click through it:** this class as [a recorded
# run](https://attention-course.github.io/attention-course/recordings/wrapper.html). Choose any number there, and you
# see where it came from and where it goes.
#
# **With other numbers:** this class [with untrained
# heads](https://attention-course.github.io/attention-course/known_numbers.html#two-causal-heads-in-a-list) and [on a
# book's six tokens](https://attention-course.github.io/attention-course/known_numbers.html#a-books-six-tokens), [two
# heads written out by
# hand](https://attention-course.github.io/attention-course/known_numbers.html#two-heads-written-out-by-hand), and [what
# a stored mask costs](https://attention-course.github.io/attention-course/known_numbers.html#what-a-stored-mask-costs).
#
# **Practise:** [three exercises](exercises/03_exercises.ipynb), about twenty minutes.
#
# **Next:** [04 Reshape and transpose](04_reshape_and_transpose.ipynb).
