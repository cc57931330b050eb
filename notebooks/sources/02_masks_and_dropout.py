# %% [markdown]
# # Hide what must not be seen
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/02_masks_and_dropout.ipynb)
#
# You will write `MyCausalHead`, a head in which no token can attend to a later one, and a test of that. Then you run
# the test on five common mistakes, none of which causes an error. After that you hide padding, meet a row that may
# attend to nothing, and see what dropout does.
#
# **You need** [lesson 01](01_single_head.ipynb). **It takes** about 45 minutes.

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
from course_lib.exercises import filled, from_earlier, predict
from course_lib.inputs import dream_big
from course_lib.pictures import heatmap, mask_conventions
from course_lib.show import show

device = course_device()
words, embeddings, x = dream_big(device=device)
MyHead = from_earlier("MyHead")

# %% [markdown]
# `from_earlier` brings back the head that you wrote in lesson 01, or the course's version if you left it out. We give
# it the same random weight matrices as before, and compute its scores once:

# %%
torch.manual_seed(99)
head = MyHead(3, 2)
with torch.no_grad():
    head.q_proj.weight *= 4
    head.k_proj.weight *= 4
head = head.to(device)


def project(x):
    # (batch, token, width) -> scores (batch, query, key), values (batch, key, width)
    queries, keys, values = head.q_proj(x), head.k_proj(x), head.v_proj(x)
    return (queries / queries.shape[-1] ** 0.5) @ keys.transpose(1, 2), values


scores, values = project(x)
show("scores", scores[0], "query key", words, digits=2)

# %% [markdown]
# ## The causal mask
#
# A language model learns to predict the next token. It would be slow to show it "Dream" and ask for the next token,
# then "Dream big" and ask again, and so on. Instead, the whole sentence goes through the model once, and *every*
# position predicts the token after it, all at the same time.
#
# This works only if no position can see the answer. If "Dream" could attend to "big", it would learn to copy the next
# token instead of predicting it. Later, when the model writes, the next token does not exist yet, and the copying
# would be useless. So each token may attend to itself and to the tokens before it. A head with this rule is called
# **causal**, and the table of who may attend to whom is called a **mask** (Vaswani et al., [Attention Is All You
# Need](https://arxiv.org/abs/1706.03762), 2017):

# %%
keep = torch.ones(6, 6, dtype=torch.bool, device=device).tril()  # True = may attend
show("keep", keep, "query key", words)

# %% [markdown]
# Each row is a query. `tril` keeps the lower triangle and the diagonal, so "Dream" may attend to itself only, and
# "it" may attend to everything. In the masks of this course, most of which are called `keep`, True means *may attend*.
# Where True means something else, the name says so: `real`, `hidden`, `dropped`.
#
# The mask acts on the *scores*, before softmax. A hidden score becomes minus infinity, `-torch.inf`, whose
# exponential is exactly 0. The hidden scores are those where `keep` is False, and `~keep` is True just there.
#
# **Write it yourself.** Return the attention weights under a mask.

# %%
def masked_weights(scores, keep):  # (query, key), (query, key) bool -> (query, key)
    # two lines; scores.masked_fill(a, number) puts number where a is True
    raise NotImplementedError


masked_weights = filled("masked_weights", masked_weights)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def masked_weights(scores, keep):  # (query, key), (query, key) bool -> (query, key)
#     scores = scores.masked_fill(~keep, -torch.inf)
#     return scores.softmax(dim=-1)
# ```
#
# </details>

# %%
weights = masked_weights(scores[0], keep)
heatmap(weights, words, keep=keep)

# %% [markdown]
# The hatched cells are hidden. Each row still sums to 1, because softmax now shares the whole mix among the tokens
# that are left. "Dream" has no choice but to take everything from itself.
#
# ## Your causal head
#
# **Write it yourself.** The class is `MyHead` with a mask. Build the mask in `forward`, as large as the input has
# tokens, and on the device of the input (`device=x.device`), so that the head works for any length and on a GPU. The
# next lesson puts several heads like this one side by side.

# %%
class MyCausalHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        # (batch, query, key)
        scores = (queries / queries.shape[-1] ** 0.5) @ keys.transpose(1, 2)
        num_tokens = x.shape[1]
        raise NotImplementedError  # three lines: keep, weights, and what you return


MyCausalHead = filled("MyCausalHead", MyCausalHead)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyCausalHead(nn.Module):
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
#         num_tokens = x.shape[1]
#         # (query, key)
#         keep = torch.ones(num_tokens, num_tokens, device=x.device).tril().bool()
#         weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
#         return weights @ values
# ```
#
# </details>
#
# A mask on the wrong device causes an error, but not on a machine that has only one device. The check above also tries
# your head on another device. You can do so yourself without a GPU: most such mistakes show on the device `meta`, whose
# tensors have a shape and no numbers:

# %%
try:
    on_meta = MyCausalHead(3, 2).to("meta")(x.to("meta"))
    print("No error on meta:", tuple(on_meta.shape))
except RuntimeError as error:
    print("On a GPU this head would fail:", error)

# %% [markdown]
# ## Does it work? Change the last token
#
# How do you find out that no future leaks into the past? Change something that a token must not see, and check
# whether its output changes. If the last token becomes something else entirely, the outputs of the five tokens before
# it must not move at all.
#
# **Write it yourself.** Given the outputs before and after the change, return how far the outputs of all tokens *but
# the last* moved: the largest difference, without its sign.

# %%
def earlier_outputs_moved(before, after):  # (batch, token, width) twice -> one number
    raise NotImplementedError  # two lines


earlier_outputs_moved = filled("earlier_outputs_moved", earlier_outputs_moved)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def earlier_outputs_moved(before, after):  # (batch, token, width) twice -> one number
#     moved = (after - before).abs()
#     return moved[:, :-1].max()
# ```
#
# </details>

# %%
changed = x.clone()
changed[:, -1] = 9.0  # "it" becomes something else entirely
causal_head = MyCausalHead(3, 2).to(device)
causal_head.load_state_dict(head.state_dict())  # the same three weight matrices
for name, module in (("MyHead:      ", head), ("MyCausalHead:", causal_head)):
    print(name, f"{earlier_outputs_moved(module(x), module(changed)):.4f}")

# %% [markdown]
# In `MyHead` the change reaches the earlier tokens, because nothing is hidden there. In `MyCausalHead` the earlier
# outputs did not move.
#
# Remember this test, because the usual mistakes cause no error. Here are five ways to get a causal mask wrong, next to
# the right one:

# %%
no_future = -torch.inf
too_far = torch.ones(6, 6, dtype=torch.bool, device=device).tril(diagonal=1)


def thrown_away(scores):
    scores.masked_fill(~keep, no_future)  # returns a new tensor, which nobody uses
    return scores.softmax(dim=-1)


ways = {
    "right": lambda s: s.masked_fill(~keep, no_future).softmax(dim=-1),
    "mask thrown away": thrown_away,
    "filled with zero": lambda s: s.masked_fill(~keep, 0.0).softmax(dim=-1),
    "mask after softmax": lambda s: s.softmax(dim=-1).masked_fill(~keep, 0.0),
    "one token too far": lambda s: s.masked_fill(~too_far, no_future).softmax(dim=-1),
    "True and False swapped": lambda s: s.masked_fill(keep, no_future).softmax(dim=-1),
}

# %% [markdown]
# We run the test on each, and print the rows' sums beside the result.

# %%
changed_scores, changed_values = project(changed)
print("mistake                 earlier outputs move by   row sums")
for name, way in ways.items():
    before, after = way(scores) @ values, way(changed_scores) @ changed_values
    moved = earlier_outputs_moved(before, after)
    sums = " ".join(f"{total:.2f}" for total in way(scores)[0].sum(dim=-1).tolist())
    print(f"{name:22}  {moved:23.4f}   {sums}")

# %% [markdown]
# The test finds all five, while the row sums give away only two. What happened in each of them?
#
# - **Mask thrown away:** `masked_fill` does not change its tensor; it returns a new one. Without an assignment,
#   nothing is hidden.
# - **Filled with zero:** a score of 0 is not "hidden". Softmax turns it into exp(0) = 1 before it divides, so the
#   future keeps a share.
# - **Mask after softmax:** the future was set to 0, but too late. Each row had already been divided by a sum that
#   contains the future, and when the future changes, that sum changes. So the future leaks, and no row but
#   the last sums to 1.
# - **One token too far:** with `diagonal=1` each token sees its successor, which is just the one that it should
#   predict.
# - **True and False swapped:** each token sees only the future. The last one has none, so its row is `nan`.
#
# A mask can also be *added* to the scores: 0 for a token that may be seen, a very negative number for one that is
# hidden. Many programs take -1e9. If the sum is divided by the root of the width, as scores are, that number shrinks.
# Here are two equal scores of 0, with -1e9 added to the second, and also with -20:

# %%
print("width   the hidden token's attention weight with -1e9   with -20")
for width in (2, 64, 256):
    shrunk = torch.tensor([[0.0, -1e9], [0.0, -20.0]]) / width**0.5
    large, small = shrunk.softmax(dim=-1)[:, 1].tolist()
    print(f"{width:5}   {large:45.4f}   {small:8.4f}")

# %% [markdown]
# -1e9 hides the token at each of these widths. With -20, nothing shows at a width of 2, and in wider heads the hidden
# token is seen. So add a mask after the division, above all if it also holds small numbers that mean something, such
# as the distances of [lesson 07](07_order_and_padding.ipynb)
# ([mask-scaled](https://attention-course.github.io/attention-course/mistakes/mask-scaled.html)).
#
# It is tempting to test a causal head by comparing its last output with that of a right one.
#
# **Predict.** How far is the last token's output of "mask thrown away" from that of the right way?

# %%
guess = ...  # write a number with a decimal point in place of the dots
right, wrong = ways["right"](scores) @ values, thrown_away(scores) @ values
moved = (wrong - right)[0, -1].abs().max().item()
predict(guess, lambda: moved, within=0.001)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The distance is 0. The last token may attend to everything anyway, so its output is right even where the mask is
# missing. A test has to look at the tokens from which something is hidden.
#
# </details>
#
# Somebody wants to repair the mask after softmax, and divides each row by its own sum.
#
# **Predict.** Are the repaired attention weights equal to the right ones?

# %%
late = ways["mask after softmax"](scores)
repaired = late / late.sum(dim=-1, keepdim=True)
guess = ...  # write "yes" or "no" in place of the dots
predict(guess, lambda: torch.allclose(repaired, ways["right"](scores)))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# They are equal. Softmax had divided exp(score) by the sum over *all* keys, and dividing a row by the sum of its kept
# weights cancels that number, so what remains is exp(score) divided by the sum over the kept keys. Minus infinity
# before softmax does the same in one step. It still works where the future scores are so large that all kept weights
# round to 0 and the repair would divide 0 by 0.
#
# </details>
#
# **Now do** exercises 1 and 2 of [the sheet](exercises/02_exercises.ipynb).
#
# ## Two meanings of one mask
#
# Even within PyTorch two conventions exist. In `F.scaled_dot_product_attention` True means **may attend**, as in this
# course. In `nn.MultiheadAttention` True means **hidden**. If you hand one of them the other's mask, no error is
# reported: each token sees only what it should not see, and the last one, which has no future, sees nothing at all.
# The picture shows the mask in both senses. (`to_torch_mask` is the library's function that translates: it
# returns `~keep`.) The third table is measured: both functions were run, each with its own mask.

# %%
mask_conventions(keep, words=words)

# %% [markdown]
# The red line below the tables reports what happens if you confuse the two. To stay safe, give the mask a name that
# says what True means, such as `keep`, and write `~keep` at the one place where a function wants the opposite.
#
# The rest of this section is for those who use PyTorch's own attention. If you don't, go on with the padding mask.
#
# Both functions also have a flag, `is_causal=True`, for the causal mask. Suppose that you give
# `nn.MultiheadAttention` the flag *and* a mask that hides more: nobody may see "Dream" but "Dream" itself. Which of the
# two does it read? That depends on whether you want the weights as well (`need_weights`):

# %%
theirs = nn.MultiheadAttention(3, 1, batch_first=True).to(device)  # width 3, one head
hidden = ~keep  # in the sense of this module
hidden[1:, 0] = True
for need in (False, True):
    given = {"attn_mask": hidden, "need_weights": need}
    mask_alone = theirs(x, x, x, **given)[0]
    both = theirs(x, x, x, is_causal=True, **given)[0]
    it_reads = "mask" if torch.allclose(both, mask_alone) else "flag"
    print(f"With need_weights={need} it reads the {it_reads}.")
try:
    theirs(x, x, x, is_causal=True)
except RuntimeError as error:
    print("With the flag alone:", str(error).split(".")[0])
two_heads = nn.MultiheadAttention(3 + 1, 2, batch_first=True).to(device).eval()
wide = torch.cat([x, x[..., :1]], dim=-1)  # (batch, token, 4)
with torch.no_grad():
    flag_alone = two_heads(wide, wide, wide, is_causal=True)[0]
    equal = torch.allclose(flag_alone, two_heads(wide, wide, wide)[0])
print("Two heads, evaluation mode, no gradients: no error, hides nothing:", equal)

# %% [markdown]
# For this module the flag is a *hint* that the mask is the causal one and need not be read. Without the weights it
# believes the hint (unless it is given a padding mask, too), so everyone sees "Dream", and no error is raised. With
# `batch_first=True`, an even number of heads, in evaluation mode and without gradients, self-attention with biases
# takes a faster path, which reads the mask in either case. The flag alone is refused everywhere else, but this path
# takes it and hides nothing. So give the module a mask that has the causal one in it, and no flag. For causal attention
# give `F.scaled_dot_product_attention` exactly one of the two: up to PyTorch 2.13 some of its implementations combine
# them and others raise an error, and from PyTorch 2.14 on all of them refuse
# ([is-causal-with-mask](https://attention-course.github.io/attention-course/mistakes/is-causal-with-mask.html)).
#
# ## The padding mask
#
# Sentences have different lengths, but all rows of a tensor have the same one. So the shorter sentences of a batch
# are filled up with dummy tokens, called **padding**, and these must be hidden as *keys* from every query. Our batch
# holds "Dream big and work for it" and a shorter second sentence, "for it Dream big", with two tokens of padding:

# %%
second = embeddings[[4, 5, 0, 1]]  # (token, width) = (4, 3)
# (batch, token, width) = (2, 6, 3), the second all padding
batch = torch.cat([x, torch.full_like(x, 7.0)])
batch[1, :4] = second
lengths = torch.tensor([[6], [4]], device=device)
# (key) < (batch, 1) -> (batch, key), True = a real token
real = torch.arange(6, device=device) < lengths
show("real", real, "batch key")

# %% [markdown]
# The comparison is **broadcast**: the six positions are compared with each of the two lengths, which makes a table of
# two by six. For the scores, which are (batch, query, key), `real` needs an axis for the queries, and `real[:, None]`
# inserts one of size 1. Two masks are joined with `&`, because a token may attend only where both masks allow it.
#
# **Predict.** What shape does `keep & real[:, None]` have?

# %%
guess = ...  # write a tuple such as (6, 6) in place of the dots
predict(guess, lambda: (keep & real[:, None]).shape)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It has one table of queries and keys per sample, because the samples have different padding. With several heads
# there is one more axis, of size 1, so that all heads share the mask.
#
# </details>
#
# The test of a padding mask is that a short sentence comes out as if it had been alone. (`second[None]` is that
# sentence as a batch of one.) We leave out the causal mask here, so that only the padding mask protects it:

# %%
def attend(x, keep):  # keep broadcasts to (batch, query, key) -> (batch, token, width)
    scores, values = project(x)
    return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values


alone = head(second[None])[0]
with_mask, without_mask = attend(batch, real[:, None])[1, :4], head(batch)[1, :4]
near, far = ((rows - alone).abs().max() for rows in (with_mask, without_mask))
print("with the padding mask:   ", f"{near:.4f} away from the sentence alone")
print("without the padding mask:", f"{far:.4f} away from the sentence alone")

# %% [markdown]
# Without the mask the padding leaks into each real token. With it, the sentence is as it is alone.
#
# In the next cell there is padding on the right *and* a causal mask, but the padding mask is left out.
#
# **Predict.** How far are the outputs of the four real tokens from those of the sentence alone, if both run with the
# causal mask?

# %%
guess = ...  # write a number with a decimal point in place of the dots
difference = causal_head(batch)[1, :4] - causal_head(second[None])[0]
predict(guess, lambda: difference.abs().max().item(), within=0.001)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# They are the same up to rounding. Padding on the right comes after each real token, and the causal mask hides
# everything that comes after.
#
# </details>
#
# When a model continues several sentences at once, however, the padding is put on the *left*, because the newest
# token of each sentence is then in the same place, the last column. But on the left the padding comes before every
# real token, and the causal mask no longer hides it.
#
# ## A row that may look at nothing
#
# With the padding on the left, a new problem appears. The causal mask lets the padding tokens attend to nothing but
# padding, and the padding mask forbids just that. We build the same batch with the padding on the left:

# %%
left_batch = batch.clone()
left_batch[1] = torch.cat([batch[1, 4:], batch[1, :4]])  # the two padding tokens first
left_words = ("(pad)", "(pad)", "for", "it", "Dream", "big")
left_real = torch.arange(6, device=device) >= 6 - lengths  # (batch, key)
left_keep = keep & left_real[:, None]  # (batch, query, key)
show("keep of the second sentence", left_keep[1], "query key", left_words)

# %% [markdown]
# The two rows of the padding have no True in them. If every score of a row is minus infinity, softmax has to divide 0
# by 0, and the row becomes `nan`. You may think that this does no harm, because nobody reads those two rows. So we
# take a loss that uses the real tokens only, and compute the gradients:

# %%
def report(output):  # (batch, token, width)
    head.zero_grad()
    loss = output[left_real].square().sum()  # real tokens only
    loss.backward()
    lengths = [projection.weight.grad.norm() for projection in head.children()]
    gradients = " ".join(f"{length:8.4f}" for length in lengths)
    print(f"loss {loss.item():.4f}, gradients of q, k, v: {gradients}")


report(attend(left_batch, left_keep))

# %% [markdown]
# The loss is finite, but the gradient of `v_proj` is not. The output is a product of attention weights and values, so
# the gradient of the values is the attention weights times the gradient of the output. For the rows of the padding the
# latter is 0, but `nan` times 0 is still `nan`. (The gradients of `q_proj` and `k_proj` stay finite: where
# `masked_fill` has put a constant, the score no longer counts, and its gradient is exactly 0.) One training step would
# put `nan` into `v_proj` for good.
#
# Two changes come to mind. Fill with the lowest *finite* number instead of minus infinity, so that softmax never
# divides 0 by 0; or set the hidden attention weights to 0 after softmax. We try each alone, then both:

# %%
def attend_safely(x, keep, fill, zeroed):
    scores, values = project(x)
    weights = scores.masked_fill(~keep, fill).softmax(dim=-1)
    if zeroed:
        weights = weights.masked_fill(~keep, 0.0)
    return weights @ values, weights


lowest = torch.finfo(scores.dtype).min
for fill, zeroed in ((lowest, False), (-torch.inf, True), (lowest, True)):
    output, weights = attend_safely(left_batch, left_keep, fill, zeroed)
    report(output)
    mix = " ".join(f"{weight:.2f}" for weight in weights[1, 0].tolist())
    print(f"    attention weights of the first padding token: {mix}")

# %% [markdown]
# Each of the two is enough for the loss and for all gradients. They differ in the rows that nobody reads: after the
# first alone, a padding token attends equally to every token, hidden or not. We go on with both, so that a hidden
# token has a weight of 0 in every row, and `nan` comes up nowhere.

# %%
title = "two tokens of padding on the left"
heatmap(weights[1], left_words, keep=left_keep[1], title=title)

# %% [markdown]
# In the heatmap, the two rows of the padding see nothing. The real tokens come out as they do alone, and as they did
# with the padding on the right, because this head doesn't know at which position a token is ([lesson
# 07](07_order_and_padding.ipynb) adds positions):

# %%
torch.testing.assert_close(output[1, 2:], causal_head(second[None])[0])
torch.testing.assert_close(output[1, 2:], causal_head(batch)[1, :4])
print("equal: alone, with the padding on the left, and with the padding on the right")

# %% [markdown]
# **Now do** exercises 3 to 6 of [the sheet](exercises/02_exercises.ipynb).
#
# ## Dropout
#
# **Dropout** (Srivastava et al., [Dropout: A Simple Way to Prevent Neural Networks from
# Overfitting](https://jmlr.org/papers/v15/srivastava14a.html), 2014) sets some of a layer's numbers to 0 at random
# while a model is trained. In attention these are attention weights, and a head thereby learns not to rely on a
# single token. With p = 0.25 a quarter of them is dropped on average, and all others are multiplied by one factor, so
# that the mean stays what it was.
#
# **Predict.** An attention weight of 0.6 is kept, and p is 0.25. What does dropout make of it?

# %%
many = torch.full((1000,), 0.6)
guess = ...  # write a number with a decimal point in place of the dots
predict(guess, lambda: nn.functional.dropout(many, p=0.25).max().item(), within=0.01)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It becomes 0.6 divided by 1 - p, because on average the fraction 1 - p of the attention weights is kept. So a kept
# one grows by a third, to make up for those that were dropped.
#
# </details>
#
# Dropout belongs *after* softmax. To see why, we also try the other place, before softmax. We draw a
# million random dropouts and compare the mean with the attention weights of "work", here without the causal mask:

# %%
p = 0.25
generator = torch.Generator().manual_seed(0)
dropped = torch.rand(1000000, 6, generator=generator).to(device) < p
work = words.index("work")
scores_of_work = scores[0, work]
undropped = scores_of_work.softmax(dim=-1)
after = (undropped / (1 - p)).masked_fill(dropped, 0.0)
before = (scores_of_work / (1 - p)).masked_fill(dropped, 0.0).softmax(dim=-1)
means = {
    "no dropout": undropped,
    "mean, after softmax": after.mean(dim=0),
    "mean, before softmax": before.mean(dim=0),
}
print(" " * 20, " ".join(f"{word:>5}" for word in words))
for name, row in means.items():
    print(f"{name:20}", " ".join(f"{weight:.3f}" for weight in row.tolist()))
zero_after, zero_before = ((drawn == 0).float().mean() for drawn in (after, before))
print(f"weights that are 0: after {zero_after:.2f}, before {zero_before:.2f}")
sums = after.sum(dim=-1)  # (draw)
near_one = ((sums - 1).abs() < 0.01).float().mean()
print(f"row sums after: {sums.min():.2f} to {sums.max():.2f}, near 1: {near_one:.2f}")

# %% [markdown]
# After softmax, a quarter of the attention weights is 0, and on average nothing changes. Before softmax, none of the
# attention weights is 0, because a dropped score of 0 still counts as exp(0) = 1, and the mean is a different one: the
# weak tokens get more, and "and" gets 0.536 instead of 0.575.
#
# In a single draw, however, the row of "work" no longer sums to 1. Its sum is anything from 0 to 1.33, and in only 4 %
# of the draws it is within a hundredth of 1. Not every model is trained with dropout: PaLM, for example, was not
# (Chowdhery et al., [PaLM: Scaling Language Modeling with
# Pathways](https://arxiv.org/abs/2204.02311), 2022).
#
# Dropout belongs to training only. Calling `.eval()` on a module switches off every `nn.Dropout` in it, and
# `.train()` switches it on. If you forget `.eval()`, the answers of a model change from call to call:

# %%
dropout = nn.Dropout(p)
many = torch.ones(1000, device=device)
dropout.train()
print("train: two calls agree:", torch.equal(dropout(many), dropout(many)))
dropout.eval()
print("eval:  two calls agree:", torch.equal(dropout(many), dropout(many)))

# %% [markdown]
# **Now do** exercise 7 of [the sheet](exercises/02_exercises.ipynb), which asks for dropout by hand.
#
# ## Proof
#
# We compare your causal head with the library's, again on sizes that all differ: two samples of five tokens, with three
# numbers in and seven out.

# %%
from course_lib.attention import SingleHeadAttention

torch.manual_seed(1)
reference = SingleHeadAttention(d_in=3, d_out=7, causal=True)
with torch.no_grad():
    reference.q_proj.weight *= 4
    reference.k_proj.weight *= 4
reference = reference.to(device)
my_wide_head = MyCausalHead(3, 7).to(device)
my_wide_head.load_state_dict(reference.state_dict())
samples = torch.rand(2, 5, 3).to(device)  # (batch, token, d_in)
torch.testing.assert_close(my_wide_head(samples), reference(samples))
print("equal:", tuple(samples.shape), "->", tuple(reference(samples).shape))

# %% [markdown]
# Would it notice a mistake? We make some, one in the scale and three in the mask:

# %%
def slipped(divisor, keep):
    queries, values = reference.q_proj(samples), reference.v_proj(samples)
    scores = (queries / divisor) @ reference.k_proj(samples).transpose(1, 2)
    return scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values


slips = {
    "right": (7**0.5, keep[:5, :5]),
    "divided by the root of the batch": (2**0.5, keep[:5, :5]),
    "one token too far": (7**0.5, too_far[:5, :5]),
    "no mask": (7**0.5, torch.ones_like(keep[:5, :5])),
    "a mask for six tokens": (7**0.5, keep),
}
for name, slip in slips.items():
    try:
        away = f"{(slipped(*slip) - reference(samples)).abs().max().item():.4f} away"
    except RuntimeError:
        away = "an error"
    print(f"{name:32}  {away}")

# %% [markdown]
# All four show. On two samples of *six* tokens and with a width of *two*, as above, the first and the last would have
# passed.
#
# ## Your turn
#
# 1. Build a mask that lets each token attend to itself and to the *two* tokens before it, as models with a sliding
#    window do. (`torch.Tensor.triu` helps.) Draw it with `heatmap`.
# 2. A model that writes adds one token at a time, so there is one query and, say, five keys. Which mask is right for
#    it? Compare it with `torch.ones(1, 5).tril()`.
#
# <details><summary>Answers</summary>
#
# 1. The lower triangle minus everything further back than two tokens:
#
#    ```python
#    window = keep & torch.ones(6, 6, dtype=torch.bool, device=device).triu(-2)
#    heatmap(masked_weights(scores[0], window), words, keep=window)
#    ```
#
# 2. All five keys, because the one query is the newest token and everything else is its past. `tril` on a table of
#    one row keeps the first key only: it lines up the first query with the first key, and here the *last* query has
#    to be lined up with the last key. Exercise 8 of the sheet asks for such a mask.
#
# </details>
#
# ## What you have now
#
# You have a head that sees the past and nothing else, masks for padding on either side, and a test for all of them:
# change something that a token must not see, and check whether its output changes. (Lesson 12 changes every token in
# turn, because a mask can be wrong for one of them only.)
#
# **Practise:** [eight exercises](exercises/02_exercises.ipynb), about fifty minutes.
#
# **Next:** [03 Put heads side by side](03_wrapper.ipynb).
