# %% [markdown]
# # Hide what must not be seen
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/02_masks_and_dropout.ipynb)
#
# You will hide the future with a causal mask and the padding with a padding mask, meet the two opposite meanings of a
# mask, see a row that may look at nothing, and drop weights in training. Four mistakes that no error message reports
# are shown on the way.
#
# **You need** [lesson 01](01_single_head.ipynb). **It takes** twenty minutes.

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
from torch import nn

from course_lib.attention import SingleHeadAttention, causal_keep, padding_keep, to_torch_mask
from course_lib.device import course_device
from course_lib.inputs import dream_big
from course_lib.pictures import heatmap, mask_conventions
from course_lib.recorder import record
from course_lib.show import show

device = course_device()
words, embeddings, x = dream_big(device=device)

torch.manual_seed(5)
head = SingleHeadAttention(d_in=3, d_out=2, causal=False)  # the head of lesson 01
with torch.no_grad():
    head.q_proj.weight *= 5
    head.k_proj.weight *= 5
head = head.to(device)
queries, keys, values = head.q_proj(x), head.k_proj(x), head.v_proj(x)  # (batch, token, width)
scores = (queries * 2**-0.5) @ keys.transpose(1, 2)  # (batch, query, key)
show("scores", scores, "batch query key", words)

# %% [markdown]
# ## The causal mask
#
# A model that predicts the next word must not look at it. So "Dream" may see only itself, "big" may see "Dream" and
# "big", and so on. As a table of who may attend to whom:

# %%
keep = torch.ones(6, 6, dtype=torch.bool, device=device).tril()  # True = may attend
show("keep", keep, "query key", words)

# %% [markdown]
# The mask acts on the *scores*: what is hidden gets minus infinity, and softmax turns that into a weight of exactly 0.

# %%
masked_scores = scores.masked_fill(~keep, -torch.inf)
show("masked_scores", masked_scores, "batch query key", words)

# %%
weights = masked_scores.softmax(dim=-1)
heatmap(weights, words, keep=keep)

# %% [markdown]
# Hatched cells are hidden. Each row still sums to 1: the weight that the future held went to the past. The course
# builds this mask with `causal_keep`:

# %%
print("the same mask:", torch.equal(causal_keep(6, device=device), keep))

# %% [markdown]
# ## Does it work? Change the last token
#
# A causal head must give the first five tokens the same output, whatever the sixth one is. That is easy to test:

# %%
changed = x.clone()
changed[:, -1] = 9.0  # "it" becomes something else entirely


def causal_head(x):
    queries, keys, values = head.q_proj(x), head.k_proj(x), head.v_proj(x)
    scores = (queries * 2**-0.5) @ keys.transpose(1, 2)
    scores = scores.masked_fill(~keep, -torch.inf)
    return scores.softmax(dim=-1) @ values


moved = (causal_head(changed) - causal_head(x)).abs().amax(dim=-1)
show("how far each output moved", moved[0], "token", words)

# %% [markdown]
# Only "it" moved. Remember this test; it finds the next two mistakes.
#
# **Mistake 1: the mask that is thrown away.** `masked_fill` returns a new tensor. A published class calls it and drops
# the result. **Predict:** which tokens move now?

# %%
def mask_thrown_away(x):
    queries, keys, values = head.q_proj(x), head.k_proj(x), head.v_proj(x)
    scores = (queries * 2**-0.5) @ keys.transpose(1, 2)
    scores.masked_fill(~keep, -torch.inf)  # the result goes nowhere
    return scores.softmax(dim=-1) @ values


moved = (mask_thrown_away(changed) - mask_thrown_away(x)).abs().amax(dim=-1)
show("how far each output moved", moved[0], "token", words)

# %% [markdown]
# All of them: the future leaks into every row. And a test of the last row alone would pass, since the last token may
# see everything anyway:

# %%
difference = (mask_thrown_away(x) - causal_head(x)).abs().amax(dim=-1)
show("difference from the causal head", difference[0], "token", words)

# %% [markdown]
# Where does it go wrong? Ask the recorder which results were never used:

# %%
record(mask_thrown_away, x).unused()

# %% [markdown]
# **Mistake 2: masking with zero.** A score of 0 is not "hidden": softmax turns it into exp(0) = 1 before it divides.
# **Mistake 3: masking after softmax.** Then the rows no longer sum to 1.

# %%
with_zero = scores.masked_fill(~keep, 0.0).softmax(dim=-1)
after = scores.softmax(dim=-1).masked_fill(~keep, 0.0)
dream = words.index("Dream")
show("mask with zero, row 'Dream'", with_zero[0, dream], "key", words)
show("mask after softmax, row 'Dream'", after[0, dream], "key", words)
print("sums of the rows, masked after softmax:", [f"{total:.2f}" for total in after[0].sum(dim=-1).tolist()])

# %% [markdown]
# ## Two meanings of one mask
#
# PyTorch itself holds both: in `F.scaled_dot_product_attention` True means **may attend**; in `nn.MultiheadAttention`
# True means **hidden**. Give one the mask of the other, and the model sees only the future. Here is PyTorch's module
# with a mask in each sense; it needs the width 3 everywhere, so it has its own random weights.

# %%
torch.manual_seed(0)
torch_module = nn.MultiheadAttention(3, num_heads=1, batch_first=True).to(device)
_, right = torch_module(x, x, x, attn_mask=to_torch_mask(keep))
_, wrong = torch_module(x, x, x, attn_mask=keep)
show("right: attn_mask=to_torch_mask(keep)", right, "batch query key", words)
show("wrong: attn_mask=keep", wrong, "batch query key", words)

# %% [markdown]
# The wrong one puts all weight above the diagonal, and its last row is `nan`: the last token has no future to look at.
# In this course a mask is always called `keep` and always means *may attend*; `to_torch_mask` is the one door to the
# other meaning.

# %%
show("keep", keep[:3, :3], "query key", words[:3])
show("to_torch_mask(keep)", to_torch_mask(keep)[:3, :3], "query key", words[:3])

# %% [markdown]
# All of it in one picture. The right table is not copied from the others: both functions of PyTorch were run, each with
# its own mask, and what got a weight is drawn.

# %%
mask_conventions(keep, words)

# %% [markdown]
# ## The padding mask
#
# Sentences in a batch have different lengths, a tensor has one. The shorter sentence is filled up with padding, and the
# padding must be hidden, as a *key*, from everyone. A batch of "Dream big and work for it" and "Dream big and work":

# %%
batch = torch.cat([x, x])  # (batch, token, width) = (2, 6, 3)
batch[1, 4:] = 7.0  # two tokens of padding: any numbers
lengths = [6, 4]
pad = padding_keep(lengths, device=device)  # (batch, 1, 1, key): one row a sample, for all heads and queries
print("pad:", tuple(pad.shape), "= (batch, 1, 1, key)")
short_words = (*words[:4], "(pad)", "(pad)")
show("pad of sample 1", pad[1, 0, 0], "key", short_words)

# %% [markdown]
# Two masks are joined with `&`: a token must be allowed by both. The shapes (query, key) and (batch, 1, 1, key)
# broadcast to (batch, head, query, key).

# %%
both = keep & pad
print("keep & pad:", tuple(both.shape))
show("sample 1 may attend", both[1, 0], "query key", short_words)

# %% [markdown]
# The test of a padding mask: the short sentence must come out as if it had been alone. We use a head without a causal
# mask, where only the padding mask protects it:

# %%
padded = head(batch, keep=pad)
alone = head(x[:, :4])
torch.testing.assert_close(padded[1, :4], alone[0])
show("sample 1 in the batch", padded[1, :4], "token width", words[:4])
show("the same sentence alone", alone[0], "token width", words[:4])

# %% [markdown]
# Without the mask, the padding of sevens leaks in:

# %%
difference = (head(batch)[1, :4] - alone[0]).abs().max().item()
print("largest difference without the padding mask:", f"{difference:.2f}")

# %% [markdown]
# ## A row that may look at nothing
#
# Models that generate text put the padding on the *left*. Together with the causal mask, the first tokens of the short
# sentence then have nothing to look at: their past is padding and their future is hidden.

# %%
left_batch = batch.clone()
left_batch[1] = torch.cat([batch[1, 4:], batch[1, :4]])  # the padding first, then the sentence
left_words = ("(pad)", "(pad)", *words[:4])
left = keep & padding_keep(lengths, side="left", device=device)  # (batch, 1, query, key)
show("sample 1 may attend", left[1, 0], "query key", left_words)

# %% [markdown]
# **Mistake 4: minus infinity in the whole row.** softmax divides 0 by 0:

# %%
def with_infinity(x, keep):
    queries, keys, values = head.q_proj(x), head.k_proj(x), head.v_proj(x)
    scores = (queries * 2**-0.5) @ keys.transpose(1, 2)
    weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
    return weights @ values, weights


_, weights = with_infinity(left_batch, left[:, 0])
show("weights of sample 1", weights[1], "query key", left_words)

# %% [markdown]
# You may think that no one reads those two rows. But `nan` spreads through the backward pass, even if the loss looks at
# the real tokens only:

# %%
real = padding_keep(lengths, side="left", device=device)[:, 0, 0]  # (batch, token), True = a real token


def report(output):
    head.zero_grad()
    loss = output[real].square().sum()
    loss.backward()
    finite = {name: bool(p.grad.isfinite().all()) for name, p in head.named_parameters()}
    print(f"loss {loss.item():.4f}, finite gradients: {finite}")


report(with_infinity(left_batch, left[:, 0])[0])
report(head(left_batch, keep=left))

# %% [markdown]
# First minus infinity, then the library. The loss is the same and finite both times, and one training step with the
# first version would have put `nan` into `v_proj` for good. The library fills with the lowest *finite* number and sets
# the hidden weights to 0 after softmax, so that such a row gives zeros and passes no gradient.

# %%
output, weights = head(left_batch, keep=left, return_weights=True)
show("output of sample 1", output[1], "token width", left_words)

# %%
heatmap(weights[1], left_words, keep=left[1, 0], title="two tokens of padding on the left")

# %% [markdown]
# The four real tokens come out as they do alone, and as they did with the padding on the right:

# %%
torch.testing.assert_close(output[1, 2:], head(x[:, :4], keep=keep[:4, :4])[0])
torch.testing.assert_close(output[1, 2:], head(batch, keep=both)[1, :4])
print("equal, alone and with the padding on either side")

# %% [markdown]
# ## Record your own
#
# What does a head do with the mask it is given? Record it, with one mask or the other, and find the steps that deal
# with it. Then record a function of your own, such as `mask_thrown_away` above.

# %%
record(head, batch, keep=both)

# %% [markdown]
# Look for `hidden`: the mask is inverted once, used to fill the scores, and used again to set weights to 0. The steps
# called *view* cost nothing; most of them are there for heads that share keys (lesson 06).
#
# ## Dropout
#
# In training, some weights are set to zero at random, so that a head does not rely on a single token. The others grow
# by 1 / (1 - p), so that the sum stays the same on average. On a million weights of 1:

# %%
torch.manual_seed(0)
dropped = nn.functional.dropout(torch.ones(1000, 1000, device=device), p=0.1)
print("share that became zero: ", f"{(dropped == 0).float().mean().item():.2f}")
print("what the others became: ", f"{dropped.max().item():.4f}", "= 1 / 0.9 =", f"{1 / 0.9:.4f}")
print("mean of all:            ", f"{dropped.mean().item():.2f}")

# %% [markdown]
# Dropout belongs to training only. `model.eval()` switches it off, and a forgotten `eval()` shows as answers that
# change from call to call:

# %%
dropping = SingleHeadAttention(3, 2, dropout=0.5).to(device)
dropping.load_state_dict(head.state_dict())
long_input = x.repeat(1, 10, 1)  # 60 tokens, so that some weight is surely dropped
dropping.train()
print("train: two calls agree:", torch.equal(dropping(long_input), dropping(long_input)))
dropping.eval()
print("eval:  two calls agree:", torch.equal(dropping(long_input), dropping(long_input)))

# %% [markdown]
# And where it is applied matters: to the *weights*, after softmax. The mean of many training passes then comes back to
# the output of `eval`:

# %%
evaluated = dropping(x)
dropping.train()
with torch.no_grad():
    mean = dropping(x.expand(20000, -1, -1)).mean(dim=0, keepdim=True)
print("the mean of 20000 passes is the output of eval, within 0.03:", bool((mean - evaluated).abs().max() < 0.03))
print("a single pass is, too:", bool((dropping(x) - evaluated).abs().max() < 0.03))

# %% [markdown]
# ## Proof
#
# Your causal head against the library's, which does masks and dropout itself:

# %%
reference = SingleHeadAttention(3, 2, causal=True).to(device)
reference.load_state_dict(head.state_dict())
torch.testing.assert_close(causal_head(x), reference(x))
show("causal_head(x)", causal_head(x), "batch token width", words)
show("reference(x)", reference(x), "batch token width", words)

# %% [markdown]
# ## Your turn
#
# 1. Build a mask that lets each token see itself and the *two* tokens before it. (`torch.Tensor.triu` helps.)
# 2. `causal_keep(1, 5)` is a mask for one query and five keys. Which keys does it keep, and why is that right for a
#    model that generates one word at a time?
#
# <details><summary>Answers</summary>
#
# 1. `keep & torch.ones(6, 6, dtype=torch.bool, device=device).triu(-2)`.
# 2. All five. The one query is the newest token, the fifth, and everything else is its past: the mask is aligned to the
#    bottom right. PyTorch's `is_causal=True` aligns to the top left and would show it the first key only.
#
# </details>
#
# ## What you have now
#
# A head that sees the past and nothing else, a batch with padding, and a way to test both: change what must not be
# seen, and look whether anything moves.
#
# **Practise:** [five exercises](exercises/02_exercises.ipynb), half an hour.
#
# **Next:** [03 Put heads side by side](03_wrapper.ipynb).
