# %% [markdown]
# # Hide what must not be seen
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/02_masks_and_dropout.ipynb)
#
# Three storytellers, trained alike on the same stories. Their code differs in one line, and no error was reported. The
# next cell shows each one's loss at the end of its training, the lower the better, and the beginning of a story that it
# wrote. Look at the losses first, and then at the stories.
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
import json
from textwrap import fill, shorten

import torch
from torch import nn

from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.inputs import dream_big
from course_lib.pictures import heatmap
from course_lib.pictures.live import who_may_look
from course_lib.show import show
from course_lib.stories import TRAINED, load_storyteller, with_attention

measured = json.loads((TRAINED / "consequences.json").read_text("utf-8"))
trained = list(measured.values())  # each with another mistake, one with none
for letter, number in zip("ABC", (0, 6, 7), strict=True):
    run = trained[number]["trained"][0]
    print(f"model {letter}, loss {run['training_loss']:.4f}:")
    print(fill(shorten(run["story"], 180) or "(nothing at all)", 80), end="\n\n")

# %% [markdown]
# B and C, with the splendid losses, can't tell a story to save their lives. One stammers, and the other ends before it
# has begun. By the end of this lesson you'll have written the line in which they differ, you'll have a test that sees
# the difference at once, and you'll never again trust a loss that looks too good.
#
# ## The student who had the answers
#
# A language model learns by predicting the next token. Asking for one at a time would be slow, so the whole story goes
# through the model at once, and *every* position predicts the token that follows it: a hundred questions in one pass.
#
# There's a catch. The answer to question 7 is token 8, and token 8 is sitting right there in the input. Attention looks
# anywhere, so of course it looks there. The model becomes the student who found the answer sheet: full marks all year,
# and lost in the exam, where token 8 hasn't been written yet.
#
# The cure is a rule: *look at yourself and at what came before you.* A head with this rule is called **causal**, the
# table of who may attend to whom a **mask**. Paint one yourself; the figure shows you what leaks.

# %%
who_may_look()

# %% [markdown]
# In code a causal mask is one line. `tril` keeps the lower triangle and the diagonal of a table:

# %%
device = course_device()
words, embeddings, x = dream_big(device=device)
keep = torch.ones(6, 6, dtype=torch.bool, device=device).tril()  # True = may attend
show("keep", keep, "query key", words)

# %% [markdown]
# In this course a mask is called `keep`, and True means *may attend*. It acts on the *scores*, before softmax: a hidden
# score becomes minus infinity, `-torch.inf`, whose exponential is exactly 0.
#
# **Write it yourself.** Return the attention weights under a mask.

# %%
def masked_weights(scores, keep):  # (query, key), (query, key) bool -> (query, key)
    raise NotImplementedError  # two lines; look up Tensor.masked_fill


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

# We try it on your head of lesson 01, with the same random weight matrices:

# %%
MyHead = from_earlier("MyHead")
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
weights = masked_weights(scores[0], keep)
heatmap(weights, words, keep=keep)

# %% [markdown]
# Each row still sums to 1: softmax shares the whole mix among the tokens that are left, and "Dream" has no choice but
# to take everything from itself.
#
# ## Your causal head
#
# **Write it yourself, from an empty class.** It is `MyHead` with a mask. Try it from memory; the old one is a lesson
# away. Build the mask in `forward`, as large as the input has tokens and on the input's device (`device=x.device`), so
# that the head works for any length and on a GPU.

# %%
class MyCausalHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        raise NotImplementedError  # q_proj, k_proj and v_proj

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError


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
# Now give it a job. One of the stored storytellers has a single head per block. We put your class in its place, with
# the weight matrices that were trained:

# %%
storyteller = load_storyteller("one head").to(device)
beginning = "Once there was a"
# called with the width in, the width out and the number of heads, which is 1
mine = with_attention(storyteller, lambda d_in, d_out, _: MyCausalHead(d_in, d_out))
blind = with_attention(storyteller, lambda d_in, d_out, _: MyHead(d_in, d_out))
for name, model in (("MyCausalHead", mine), ("MyHead", blind)):
    print(f"{name}:\n{fill(model.write(beginning), 80)}\n")
same = storyteller.write(beginning) == mine.write(beginning)
print("MyCausalHead tells the stored model's own story:", same)

# %% [markdown]
# With `MyHead`, the same weight matrices and no mask, the story comes apart in the middle: all words but the newest
# have looked ahead, which none did while the model was trained. (Even the right one mixes its animals up at the end.
# The next lesson gives it more heads.)
#
# ## A test that doesn't trust the loss
#
# You can't read a story after every change to your code. So let numbers answer: change the last token of the input. If
# any output *before* it moves, somebody peeked. (Only dropout, which comes below, has to be off for this test.)
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
# Here are five ways to get a causal mask wrong, beside the right one. None of them reports an error.

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

# %%
changed_scores, changed_values = project(changed)


def leak(way):
    before, after = way(scores) @ values, way(changed_scores) @ changed_values
    return earlier_outputs_moved(before, after)


print("mistake                 earlier outputs move by   row sums")
for name, way in ways.items():
    sums = " ".join(f"{total:.2f}" for total in way(scores)[0].sum(dim=-1).tolist())
    print(f"{name:22}  {leak(way):23.4f}   {sums}")

# %% [markdown]
# The test finds all five, while the row sums give away only two.
#
# - **Mask thrown away:** `masked_fill` returns a new tensor. Without an assignment, nothing is hidden.
# - **Filled with zero:** a score of 0 becomes exp(0) = 1 before softmax divides, so the future keeps a share.
# - **Mask after softmax:** too late. Each row was already divided by a sum that contains the future.
# - **One token too far:** each token sees its successor, the very one that it should predict. That was model C
#   at the top; B has no mask at all.
# - **True and False swapped:** each token sees only the future. The last one has none, so its row is `nan`.
#
# **Predict.** Compare "mask thrown away" with the right way, token by token. For how many of the six tokens is the
# output wrong?

# %%
guess = ...  # write a number from 0 to 6 in place of the dots
right, wrong = ways["right"](scores) @ values, thrown_away(scores) @ values
off = (wrong - right)[0].abs().amax(dim=-1) > 1e-6  # (token)
predict(guess, lambda: int(off.sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# For five. The last token may attend to everything anyway, so its output is right.
#
# </details>
#
# Somebody repairs the mask after softmax: each row is divided by its own sum.
#
# **Predict.** In how many of the six rows are the repaired attention weights the right ones?

# %%
late = ways["mask after softmax"](scores)
repaired = late / late.sum(dim=-1, keepdim=True)
guess = ...  # write a number from 0 to 6 in place of the dots
near = torch.isclose(repaired, ways["right"](scores))[0]  # (query, key)
predict(guess, lambda: int(near.all(dim=-1).sum()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# In all six. Softmax had divided exp(score) by the sum over *all* keys, and dividing a row by the sum of its kept
# weights cancels that number. Minus infinity before softmax does the same in one step, and it still works where the
# future scores are so large that all kept weights round to 0 and the repair would divide 0 by 0.
#
# </details>
#
# PyTorch has two conventions for such masks. In `F.scaled_dot_product_attention` True means *may attend*, as here; in
# `nn.MultiheadAttention` (lesson 05) True means *hidden*. Hand one of them the other's mask and no error is reported.
# So give a mask a name that says what True means.
#
# **Now do** exercises 1 and 2 of [the sheet](exercises/02_exercises.ipynb).
#
# ## Padding, and a row that may look at nothing
#
# Sentences have different lengths, but all rows of a tensor have the same one. So short sentences are filled up with
# dummy tokens, called **padding**, and no real token may look at them. Our batch has two sentences: "Dream big and work
# for it" and "for it Dream big", the second filled up with two padding tokens.

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
# The comparison is **broadcast**: the six positions are compared with each of the two lengths. For the scores, which
# are (batch, query, key), `real` needs an axis for the queries, and `real[:, None]` inserts one of size 1. Two masks
# are joined with `&`, because a token may attend only where both masks allow it.
#
# **Predict.** What shape does `keep & real[:, None]` have?

# %%
guess = ...  # write a tuple such as (6, 6) in place of the dots
predict(guess, lambda: (keep & real[:, None]).shape)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It has one table of queries and keys per sample, because the samples have different padding.
#
# </details>
#
# The test of a padding mask: a short sentence must come out as if it had been alone. (`second[None]` is that sentence
# as a batch of one.) No causal mask here, so that only the padding mask protects it:

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
# They are the same. Padding on the right comes after each real token, and the causal mask hides everything that comes
# after.
#
# </details>
#
# A model that continues several sentences at once usually has its padding on the *left*, so that the newest token of
# each stands in the last column. There the causal mask no longer hides the padding, and a new problem appears: it lets
# the padding tokens attend to nothing but padding, and the padding mask forbids just that.

# %%
left_batch = batch.clone()
left_batch[1] = torch.cat([batch[1, 4:], batch[1, :4]])  # the two padding tokens first
left_words = ("(pad)", "(pad)", "for", "it", "Dream", "big")
left_real = torch.arange(6, device=device) >= 6 - lengths  # (batch, key)
left_keep = keep & left_real[:, None]  # (batch, query, key)
show("keep of the second sentence", left_keep[1], "query key", left_words)

# %% [markdown]
# Two rows have no True in them. If every score of a row is minus infinity, softmax has nothing to share out, and the
# row becomes `nan`. No real token looks at those two rows, so is there any harm? In a model, the next block reads them
# as values, and gives them an attention weight of exactly 0:

# %%
first_block = attend(left_batch, left_keep)[1]  # (token, width)
left_scores, _ = project(left_batch)
left_weights = left_scores.masked_fill(~left_keep, -torch.inf).softmax(dim=-1)[1]
of_real = left_weights[2:]  # the rows of the four real tokens, (query, key)
show("attention weights on the padding", of_real[:, :2], "query width", left_words[2:])
show("what the real tokens get", of_real @ first_block, "query width", left_words[2:])

# %% [markdown]
# 0 times `nan` is `nan`. From the second block on, every real token of this sentence is lost. And if there is one block
# only? Then the loss of the real tokens is finite:

# %%
def report(output):  # (batch, token, width)
    head.zero_grad()  # gradients of the call before would be added
    loss = output[left_real].square().sum()  # real tokens only
    loss.backward()
    norms = [projection.weight.grad.norm() for projection in head.children()]
    gradients = " ".join(f"{norm:8.4f}" for norm in norms)
    print(f"loss {loss.item():.4f}, gradients of q, k, v: {gradients}")


report(attend(left_batch, left_keep))

# %% [markdown]
# But the gradient of `v_proj` is not: it is a product with the attention weights. One training step, and `v_proj` is
# `nan` for good. (The other two are spared, because `masked_fill` sends nothing back to a score that it replaced.)
#
# Two ideas: fill with the lowest *finite* number in place of minus infinity, or set the hidden attention weights to 0
# after softmax.
#
# **Predict.** How many of the two are enough for finite gradients, each on its own?

# %%
def attend_safely(x, keep, fill, zeroed):
    scores, values = project(x)
    weights = scores.masked_fill(~keep, fill).softmax(dim=-1)
    if zeroed:
        weights = weights.masked_fill(~keep, 0.0)
    return weights @ values, weights


def has_nan(fill, zeroed):
    head.zero_grad()
    attend_safely(left_batch, left_keep, fill, zeroed)[0][left_real].sum().backward()
    return any(one.weight.grad.isnan().any() for one in head.children())


lowest = torch.finfo(scores.dtype).min
enough = [not has_nan(lowest, False), not has_nan(-torch.inf, True)]
guess = ...  # write 0, 1 or 2 in place of the dots
predict(guess, lambda: sum(enough))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Both, each by itself. They differ in the rows that nobody reads: with a finite number alone, a padding token
# attends equally to every token, hidden or not. With zeros it attends to nothing. The course's library does both.
#
# </details>
#
# **Now do** exercises 3 to 6 of [the sheet](exercises/02_exercises.ipynb).
#
# ## Dropout
#
# **Dropout** (Srivastava et al., [Dropout: A Simple Way to Prevent Neural Networks from
# Overfitting](https://jmlr.org/papers/v15/srivastava14a.html), 2014) sets some of a layer's numbers to 0 at random
# while a model is trained. In attention these are attention weights, *after* softmax. With p = 0.25 a quarter of them
# is dropped on average, and PyTorch multiplies the others by one factor, which leaves the mean as it was.
#
# **Predict.** An attention weight of 0.6 is kept, and p is 0.25. What does dropout make of it?

# %%
many = torch.full((1000,), 0.6)
guess = ...  # write a number with a decimal point in place of the dots
dropped = nn.functional.dropout(many, p=0.25, training=True)
predict(guess, lambda: dropped.max().item(), within=0.01)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It becomes 0.6 divided by 1 - p, because on average the fraction 1 - p of the attention weights is kept.
#
# </details>
#
# In a single draw a row need no longer sum to 1. Dropout belongs to training only: `.eval()` switches off every
# `nn.Dropout` of a module, and `.train()` switches it on. (The function `nn.functional.dropout` knows nothing of that:
# it drops unless you say `training=False`.) If you forget `.eval()`, a model's answers change from call to call.

# %%
dropout = nn.Dropout(0.25)
quarter = torch.full((1, 4), 0.25, device=device)  # a row of attention weights
sums = torch.stack([dropout(quarter).sum() for _ in range(5000)])
print(f"train: sums from {sums.min():.2f} to {sums.max():.2f}, mean {sums.mean():.1f}")
dropout.eval()
print(f"eval:  a row sums to {dropout(quarter).sum():.2f}")

# %% [markdown]
# **Now do** exercise 7 of [the sheet](exercises/02_exercises.ipynb), which asks for dropout by hand.
#
# ## Proof, and how to cheat it
#
# Your causal head against the library's, on sizes that all differ:

# %%
from course_lib.attention import SingleHeadAttention

torch.manual_seed(1)
reference = SingleHeadAttention(d_in=3, d_out=7, causal=True)
with torch.no_grad():
    reference.q_proj.weight *= 4
    reference.k_proj.weight *= 4
reference = reference.to(device)
samples = torch.rand(2, 5, 3).to(device)  # (batch, token, d_in)


def proof(head_class):
    causal = head_class(3, 7).to(device)
    causal.load_state_dict(reference.state_dict())
    torch.testing.assert_close(causal(samples), reference(samples))


proof(MyCausalHead)
print("equal:", tuple(samples.shape), "->", tuple(reference(samples).shape))

# %% [markdown]
# **Now cheat.** Write a causal head in which somebody sees the future, and which passes this proof all the same. Think
# of what the proof never tries.

# %%
Sneaky = ...  # a class like MyCausalHead, with your mistake, in place of the dots
sneak("MyCausalHead", Sneaky, proof)

# %% [markdown]
# <details><summary>Two ways in</summary>
#
# A head that hides the future only if there are at most five tokens; a head that hides it with minus a thousand, which
# larger scores outgrow. So try several lengths, and inputs that are far too large.
#
# </details>
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
# A head that sees the past and nothing else, masks for padding on either side, and a way to test them: change something
# that a token must not see, and check whether its output changes. Ours changes the last token only, and a leak among
# the others escapes it. Lesson 15 changes every token in turn.
#
# **Practise:** [eight exercises](exercises/02_exercises.ipynb), about fifty minutes.
#
# **Next:** [03 Put heads side by side](03_wrapper.ipynb).
