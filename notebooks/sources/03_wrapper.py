# %% [markdown]
# # Put heads side by side
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/03_wrapper.ipynb)
#
# You will see what one head cannot do, put two of your own heads side by side, and mix their outputs. At the end you
# have multi-head attention as a class that wraps a list of heads.
#
# **You need** [lesson 02](02_masks_and_dropout.ipynb). **It takes** about 35 minutes.

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

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import MultiHeadAttentionWrapper, causal_keep
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict
from course_lib.inputs import dream_big
from course_lib.pictures import compare, layout_steps
from course_lib.recorder import record
from course_lib.show import show
from course_lib.timing import Case, compare_times

device = course_device()
words, embeddings, x = dream_big(device=device)

# %% [markdown]
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
# We want [2, 2], and no line comes near it. Whatever "it" gains in one column by attending to "Dream", it loses in the
# other: each row of the values adds up to 1, and so does any mix of them.
#
# But a head makes its values itself, with its value matrix $W^V$. Can't it make better ones? For this one text it can:
# half of [4, 0] and half of [0, 4] is [2, 2]. The trouble is that a head has a single $W^V$ for *all* texts, so a word
# has the same value wherever it stands. So let us look at three texts of two words. In each of them "it" needs the
# first number of the first word and the second number of the second word:

# %%
two_words = embeddings[[0, 3]]  # "Dream" and "work"
W_v = torch.linalg.pinv(two_words) @ (4 * torch.eye(2, device=device))
other_values = two_words @ W_v  # [4, 0] and [0, 4]
texts = {"Dream work": (0, 1), "Dream Dream": (0, 0), "work work": (1, 1)}
on_first = torch.linspace(0, 1, 101, device=device)[:, None]  # 101 ways to divide


def least_error(table, first, second):  # of the best of these ways
    wanted = torch.stack([values[first, 0], values[second, 1]])
    mixes = on_first * table[first] + (1 - on_first) * table[second]  # (way, width)
    return (mixes - wanted).norm(dim=-1).min().item()


for text, (first, second) in texts.items():
    errors = [least_error(table, first, second) for table in (values, other_values)]
    print(f"{text:11} misses by {errors[0]:.2f} with the values above", end=", ")
    print(f"by {errors[1]:.2f} with the others")

# %% [markdown]
# The other values help the first text and spoil the two in which a word stands twice. Would a third choice do for all
# three? No: a mix of two equal values is that value, whatever the attention weights. So "Dream Dream" asks for the
# value [2, -1] of "Dream", "work work" asks for [-1, 2] of "work", and with these two "Dream work" can't be had. This
# is what one head cannot do. Its one row of attention weights serves all columns, and its one $W^V$ serves all texts.
#
# The remedy is to let the two columns be mixed by two different rows of attention weights. Each such row, with the
# columns that it mixes, is a **head**.
#
# **Write it yourself.** Head 0 mixes the first half of the columns with `weights_0`, and head 1 mixes the second half
# with `weights_1`. (If you leave the cell as it is, the lesson goes on with the course's version.)

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

# %% [markdown]
# Two heads make all three results from the same values. Vaswani et al. give this reason in [Attention Is All You
# Need](https://arxiv.org/abs/1706.03762) (2017): with a single head, the averaging stands in the way of attending to
# different kinds of information at different positions.
#
# ## What several heads cost
#
# You might expect two heads to cost twice as much as one. But the heads *share* the width: if the output is to have
# eight numbers per token, then one head produces all eight, two heads four each, and eight heads one each. We count
# what the library's wrapper needs, which is like the one that you write below:

# %%
for num_heads in (1, 2, 4, 8):
    wrapper = MultiHeadAttentionWrapper(3, 8, num_heads).to(device)
    parameters = sum(parameter.numel() for parameter in wrapper.parameters())
    # counts multiplications and additions in matrix products
    with FlopCounterMode(display=False) as counter:
        _, weights = wrapper(x, return_weights=True)
    counted = f"{parameters} parameters, {counter.get_total_flops()} operations"
    print(f"heads {num_heads}: {counted}, {weights.numel()} attention weights")

# %% [markdown]
# Parameters and operations stay the same. The attention weights grow, because each head has a table of its own. And the
# time? A list of heads is a loop, with small products and a softmax for each head. This is what a wrapper of width 512
# took for 128 tokens on the machine that made this page:

# %% tags=["timing", "nbval-ignore-output"]
sample = torch.randn(1, 128, 512, device=device)
for num_heads in (1, 2, 8, 64):
    wide = MultiHeadAttentionWrapper(512, 512, num_heads).to(device)
    case = Case(f"heads {num_heads:2}", partial(wide, sample))
    (row,) = compare_times([case], rounds=15)
    print(f"{row.name}: {row.median_ms:6.1f} ms")

# %% [markdown]
# The loop is one price, and lesson 05 gets rid of it. The other is that the heads become narrower. What does a narrow
# head lose? The scores of a head are $x\, W^Q {W^K}^{\top} x^{\top}$ (before
# the division), and the table $W^Q {W^K}^{\top}$ is 3 by 3 for tokens of three numbers, however wide the head. The
# **rank** of a table says how many of its rows are new, that is, no sum of multiples of the rows before. Here it is for
# heads with random matrices:

# %%
def rank(head_dim):
    generator = torch.Generator().manual_seed(0)
    w_q, w_k = torch.randn(2, 3, head_dim, generator=generator)  # (d_in, head_dim) each
    return torch.linalg.matrix_rank(w_q @ w_k.T).item()


print("rank at width 1:", rank(1), " at width 2:", rank(2))

# %% [markdown]
# In a head of width 1 all three rows are multiples of one. A score is the product of two plain numbers, the query and
# the key, so all positive queries put the keys into the same order, and all negative ones into the reverse order.
#
# **Predict.** What is the rank in a head of width 8, for the same tokens of three numbers?

# %%
guess = ...  # write a whole number in place of the dots
predict(guess, lambda: rank(8))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It is 3. The rank can be no larger than the width of the head, and no larger than the table, which has three rows. So
# for our tokens a head of width 3 loses nothing in its scores against one of width 8; only widths 1 and 2 are narrow.
# In real models a token has hundreds or thousands of numbers and a head around a hundred, so heads are narrow there.
#
# </details>
#
# ## Two heads of your own
#
# Now we use heads that are modules. This is the causal head that you wrote in lesson 02:

# %%
MyCausalHead = from_earlier("MyCausalHead")

# %% [markdown]
# Each token enters as three numbers and should leave as eight. Two heads share the work, so each of them produces four.

# %%
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

# %% [markdown]
# As in lesson 01, we multiply the weight matrices of queries and keys by 4, because an untrained head, narrow or
# wide, attends to tokens like ours nearly alike. The pattern is still random, without a meaning.

# %%
context_0, context_1 = head_0(x), head_1(x)  # each (batch, token, head_dim)
show("context_0", context_0, "batch token width", words, digits=2)

# %%
show("context_1", context_1, "batch token width", words, digits=2)

# %% [markdown]
# The two heads read the same six tokens and give different numbers, because each of them has its own three weight
# matrices. To see where they attend, we compute the attention weights of both. (`causal_keep` is the library's function
# for the causal mask of lesson 02.)

# %%
def weights_of(head):  # the attention weights of one causal head: (batch, query, key)
    scores = (head.q_proj(x) * head_dim**-0.5) @ head.k_proj(x).transpose(1, 2)
    keep = causal_keep(6, device=device)
    return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)


weights_0, weights_1 = weights_of(head_0), weights_of(head_1)
compare(weights_0, weights_1, words, names=("head 0", "head 1"))

# %% [markdown]
# The third table is the difference, head 0 minus head 1. Compare the last rows. In head 0 "it" attends mostly to
# itself, and in head 1 it attends mostly to "and" and "Dream". A single head would have to choose, or to blend the two.

# %%
for name, weights in (("head 0", weights_0), ("head 1", weights_1)):
    row = weights[0, words.index("it")]
    print(f"{name}: 'it' attends most to {words[row.argmax()]!r}, with {row.max():.2f}")

# %% [markdown]
# Two different rows for "it": this is what the first section asked for.
#
# ## Join the heads
#
# Now we put the two contexts side by side: columns 0 to 3 come from head 0, and columns 4 to 7 come from head 1.

# %%
# 2 x (batch, token, head_dim) -> (batch, token, d_out)
joined = torch.cat([context_0, context_1], dim=-1)
print(tuple(context_0.shape), "and", tuple(context_1.shape), "->", tuple(joined.shape))

# %%
def join(context_0, context_1):
    return torch.cat([context_0, context_1], dim=-1)


layout_steps(record(join, context_0, context_1), words=words)

# %% [markdown]
# In this picture the cells are numbered, those of head 0 first, so that you can follow each of them. (The small print
# below each table is about memory, and lesson 04 explains it.) The outlined cell begins in head 1 and arrives in the
# right half of its row. Every cell keeps its row, because a row is a token, and no number is changed: joining is not
# yet mixing.
#
# ## What W^O does
#
# Multi-head attention has one more linear layer after the join: the **output projection**, `out_proj` in code and $W^O$
# in the formulas. To see what it does, we switch head 1 off and look at which columns change, at first without the
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
# All eight change. Each output number is a weighted sum of all eight joined numbers, and so each of them depends on
# both heads. Up to the join, each number comes from a single head; the output projection mixes the heads.
#
# </details>
#
# There is a second way to read the output projection. It is the reason why one can speak of what a head adds to the
# output, as Elhage et al. do in [A Mathematical Framework for Transformer
# Circuits](https://transformer-circuits.pub/2021/framework/index.html) (2021). The first `head_dim` rows of $W^O$ meet
# the columns of head 0 in the joined rows, the next ones meet those of head 1, and so on. So we can project each head
# by its own block of rows, and *add* the results:
#
# $$
# \mathrm{concat}(\mathrm{head}_0, \mathrm{head}_1)\, W^O = \mathrm{head}_0\, W^O_0 + \mathrm{head}_1\, W^O_1
# $$
#
# In code you meet $W^O$ lying on its side: `nn.Linear` keeps its matrix as (width out, width in) and multiplies by the
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
# Multi-head attention is a loop over heads, a `cat`, and a projection. We pack it into a class that wraps the heads,
# and this is why it is called a *wrapper*. `nn.ModuleList` is a list that PyTorch knows about. The parameters in it are
# trained and moved to the device together with the model; those in a plain Python list are not.
#
# **Write it yourself.** Fill in `forward`: run each head, join, mix.

# %%
class MyWrapper(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        head_dim = d_out // num_heads
        heads = [MyCausalHead(d_in, head_dim) for _ in range(num_heads)]
        self.heads = nn.ModuleList(heads)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # your three lines


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
# In every class with several heads `d_out` is the width over *all* heads. In a class of one head, such as
# `MyCausalHead`, it is the width of that head. Other code may use the name for either, so look before you compare.

# %%
my_wrapper = MyWrapper(d_in, d_out, num_heads).to(device)
for name, parameter in my_wrapper.named_parameters():
    print(f"{name:22} {tuple(parameter.shape)}")

# %% [markdown]
# You see three small matrices per head, (width out, width in), and the large one that mixes.
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
# The output has the right shape, and it is even causal. Again the gradients reveal the mistake, because a parameter
# that the output doesn't depend on receives none.
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
# The two are `q_proj` and `k_proj` of head 1. They make `scores_1`, and nothing uses `scores_1`. Head 1 still has
# values of its own, which is why the output doesn't look wrong.
#
# </details>
#
# A loop over modules can't forget to replace an index, which is a good reason for the wrapper.
#
# **Now do** exercise 3 of [the sheet](exercises/03_exercises.ipynb), which asks for a wrapper without a mask.
#
# ## Proof: two heads by hand = your wrapper = the library's
#
# We put the two heads from above into your wrapper and copy all parameters into the library's class. For the comparison
# we take random samples, all different, and sizes that all differ, so that a mix-up of samples or of axes
# would show: 5 samples, 7 tokens, 3 numbers in and 8 out, 2 heads of width 4.

# %%
my_wrapper.heads = nn.ModuleList([head_0, head_1])
my_wrapper.out_proj = out_proj
reference = MultiHeadAttentionWrapper(d_in, d_out, num_heads).to(device)
reference.load_state_dict(my_wrapper.state_dict())

generator = torch.Generator().manual_seed(7)
samples = torch.randn(5, 7, d_in, generator=generator).to(device)
by_hand = out_proj(torch.cat([head_0(samples), head_1(samples)], dim=-1))
torch.testing.assert_close(my_wrapper(samples), by_hand)
torch.testing.assert_close(reference(samples), by_hand)
print("all three agree on", tuple(samples.shape), "->", tuple(by_hand.shape))

# %% [markdown]
# Would this proof notice a mistake? We plant three of them in copies of the library's wrapper. (A multiplied `q_proj`
# does what a division by another number would do.)

# %%
def planted(change):
    wrong = copy.deepcopy(reference)
    with torch.no_grad():
        for head in wrong.heads:
            change(head)
        return (wrong(samples) - by_hand).abs().max()


mistakes = {
    "not divided": lambda head: head.q_proj.weight.mul_(4**0.5),
    "divided by the root of the batch":
        lambda head: head.q_proj.weight.mul_((4 / 5) ** 0.5),
    "all heads with the queries of head 0":
        lambda head: head.q_proj.weight.copy_(head_0.q_proj.weight),
}
for name, change in mistakes.items():
    print(f"{name:36} off by up to {planted(change):.2f}")

# %% [markdown]
# All three show in the first or second decimal. It matters that the attention is not flat here: untrained heads attend
# to all tokens nearly alike, and then even a wrong head returns almost the right numbers. In "Your turn" you measure
# how nearly.
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
#    for wrapper in (fresh, my_wrapper):
#        wrong = copy.deepcopy(wrapper)  # the heads of the lesson stay as they are
#        for head in wrong.heads:
#            head.k_proj = head.v_proj
#        print(f"{(wrong(x) - wrapper(x)).abs().max():.4f}")
#    # 0.0045
#    # 0.1057
#    ```
#
#    With the untrained heads the mistake shows only in the third decimal, and with ours in the first. So test with
#    heads whose attention is not flat.
#
# </details>
#
# ## What you have now
#
# You have multi-head attention as a loop over heads, which is easy to read, and you know what the output projection
# adds. To run all heads in a single product, the heads must be cut out of one wide tensor. The next lesson shows how to
# cut.
#
# **Click through it:** this class as [a recorded run](https://attention-course.github.io/attention-course/recordings/wrapper.html).
# Choose any number there, and you see where it came from and where it goes.
#
# **With other numbers:** this class [with untrained heads](https://attention-course.github.io/attention-course/known_numbers.html#two-causal-heads-in-a-list)
# and [on a book's six tokens](https://attention-course.github.io/attention-course/known_numbers.html#a-books-six-tokens),
# [two heads written out by hand](https://attention-course.github.io/attention-course/known_numbers.html#two-heads-written-out-by-hand),
# and [what a stored mask costs](https://attention-course.github.io/attention-course/known_numbers.html#what-a-stored-mask-costs).
#
# **Practise:** [three exercises](exercises/03_exercises.ipynb), about twenty minutes.
#
# **Next:** [04 Reshape and transpose](04_reshape_and_transpose.ipynb).
