# %% [markdown]
# # Find what no error reports
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/10_debugging_attention.ipynb)
#
# Wrong attention runs, gives the right shape and even trains. You will write five probes that find out anyway, try them
# on twelve patients whose mistakes were all published by somebody, learn which probe sees which mistake, and meet the
# course's doctor: it names the mistake and points at the line, in these patients and in your own code.
#
# **You need** lessons [01](01_single_head.ipynb) to [06](06_multi_query.ipynb). **It takes** thirty minutes;
# the three wards can be visited one at a time.

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
from torch.nn import functional as F

from course_lib.device import course_device
from course_lib.diagnosis import diagnose
from course_lib.inputs import dream_big, kid_smiles, three_rows
from course_lib.show import show

device = course_device()
words = dream_big().words
generator = torch.Generator().manual_seed(0)
x = torch.randn(2, 6, 7, generator=generator, dtype=torch.float64).to(device)  # (batch, token, d_in)

# %% [markdown]
# Two samples, six words, seven numbers a word, in 64 bits. No two sizes are equal: sizes that agree by chance hide
# mistakes, as you will see.
#
# ## The healthy one
#
# This is the module of lesson 05, cut into methods, so that a patient can be sick in one place and healthy elsewhere:

# %%
class Attention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, bias=False):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=bias)
        self.k_proj = nn.Linear(d_in, d_out, bias=bias)
        self.v_proj = nn.Linear(d_in, d_out, bias=bias)
        self.out_proj = nn.Linear(d_out, d_out, bias=bias)

    def split(self, rows):  # (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d)
        return rows.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def project(self, x):
        return self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))

    def score(self, queries, keys):  # -> (b, h, q, k)
        return (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)

    def hide(self, scores):
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return scores.masked_fill(~keep, -torch.inf)

    def weigh(self, scores):
        return scores.softmax(dim=-1)

    def merge(self, context):  # (b, h, t, d) -> (b, t, h, d) -> (b, t, h * d)
        return context.transpose(1, 2).flatten(2)

    def forward(self, x):
        queries, keys, values = self.project(x)
        weights = self.weigh(self.hide(self.score(queries, keys)))
        return self.out_proj(self.merge(weights @ values))

# %% [markdown]
# Each patient gets the same random weights, those of queries and keys tripled, "as if trained": fresh weights look at
# all words nearly alike (lesson 03).

# %%
d_in, d_out, num_heads = 7, 24, 3  # so head_dim is 8


def admit(kind):
    torch.manual_seed(10)
    module = kind(d_in, d_out, num_heads).to(device, torch.float64).eval()
    with torch.no_grad():
        module.q_proj.weight *= 3
        module.k_proj.weight *= 3
    return module


healthy = admit(Attention)
print("output:", tuple(healthy(x).shape))

# %% [markdown]
# ## Five probes
#
# A probe is a question that can be asked of *any* attention code, without reading it.
#
# **1. The future.** Change one token; whose output moves?

# %%
def moves(code, x):
    """[i, t]: how far output i moves when token t changes."""
    columns = []
    for t in range(x.shape[1]):
        changed = x.clone()
        changed[:, t] = 9.0
        columns.append((code(changed) - code(x)).abs().amax(dim=(0, 2)))
    return torch.stack(columns, dim=1)


def future(code, x):
    """How far each output moves when a later token changes."""
    return moves(code, x).triu(1).amax(dim=1)


show("row: output of, column: change of", moves(healthy, x), "query key", words, digits=2)

# %% [markdown]
# Read it like a mask: zeros above the diagonal, so no output knows a later word.
#
# **2. Row sums.** Each query's weights must sum to 1. You need not get at them: put ones in place of all values, and
# what comes out of a head *is* the sum.

# %%
def row_sums(module, x):
    """The output before out_proj, when all values are 1."""
    ones = module.v_proj.register_forward_hook(lambda _, inputs, output: torch.ones_like(output))
    skip = module.out_proj.register_forward_hook(lambda _, inputs, output: inputs[0])
    try:
        return module(x).detach()
    finally:
        ones.remove()
        skip.remove()


print("all 1:", torch.allclose(row_sums(healthy, x), torch.ones_like(x[:, :, :1])))

# %% [markdown]
# **3. Gradients.** What no gradient reaches does not take part. Count the rows of each weight that get none:

# %%
def without_gradient(module, x):
    """Name of a parameter: how many of its rows get no gradient, or nan. Empty if all is well."""
    module.zero_grad()
    module(x).square().sum().backward()
    found = {}
    for name, parameter in module.named_parameters():
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        missed = ~(grad.abs() > 0).any(dim=-1)
        if missed.any():
            found[name] = f"{missed.sum().item()} of {len(missed)}"
    return found


print(without_gradient(healthy, x))

# %% [markdown]
# **4. Order.** Without positions, the last word sees the others as a bag: reverse them, and its output stays.
#
# **5. Samples.** Another sentence in the batch must change nothing.

# %%
def order(code, x):
    """How far the last output moves when the words before it are reversed."""
    reversed_x = torch.cat([x[:, :-1].flip(1), x[:, -1:]], dim=1)
    return (code(reversed_x) - code(x))[:, -1].abs().max().item()


def neighbour(code, x):
    """How far sample 0 moves when sample 1 changes."""
    changed = torch.cat([x[:1], x[1:].flip(1)])
    return (code(changed) - code(x))[0].abs().max().item()


print(f"order {order(healthy, x):.4f}, neighbour {neighbour(healthy, x):.4f}")

# %% [markdown]
# Two more cost one line each: call twice, and call with another size.

# %%
print("two calls agree:", torch.equal(healthy(x), healthy(x)))
for size in ((2, 6), (1, 6), (2, 4), (2, 1)):
    print(f"{size[0]} samples of {size[1]} tokens:", tuple(healthy(x[: size[0], : size[1]]).shape))

# %% [markdown]
# ## Ward one: computed and never used
#
# **Patient 1**, from a notebook. **Predict:** which of the five probes fires? And for which words?

# %%
class Patient1(Attention):
    def forward(self, x):
        queries, keys, values = self.project(x)
        scores = self.score(queries, keys)
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        scores.masked_fill(hidden, -torch.inf)
        weights = scores.softmax(dim=-1)
        return self.out_proj(self.merge(weights @ values))


patient_1 = admit(Patient1)
show("moved by a later word", future(patient_1, x), "token", words)
print("without gradient:", without_gradient(patient_1, x))

# %% [markdown]
# Every word but the last sees the future: the result of `masked_fill` goes nowhere. Why did nobody see it? Here is what
# the notebook printed, for three rows of toy numbers and fresh weights from seed 123:

# %%
row_words, _, rows = three_rows(device=device)


def published(kind):
    torch.manual_seed(123)
    return kind(6, 6, 2, bias=True).to(device)(rows)[0].detach()


printed, right = published(Patient1), published(Attention)
show("as published", printed, "token width", row_words)
print(f"its rows differ by at most {(printed.amax(dim=0) - printed.amin(dim=0)).max().item():.4f}")
show("distance from the right one", (printed - right).abs().amax(dim=-1), "token", row_words)

# %% [markdown]
# Nothing looks odd, and the last row is *right*: the last word may see everything anyway. A test of the last row, or of
# the shape, passes.
#
# Now the doctor. It runs a copy of the code, asks such questions, and follows which result feeds which:

# %%
diagnose(patient_1, x, num_heads=num_heads)

# %% [markdown]
# `cell:6` is line 6 of the cell that defines the class. For the other patients we print the name of the mistake, and
# that line:

# %%
def doctor(code, x=x, **told):
    report = diagnose(code, x, num_heads=num_heads, **told)
    for finding in report.findings:
        print(f"{finding.mistake or 'no name':26} {finding.source}")
    if report.ok:
        print("nothing was found")


doctor(patient_1)
doctor(healthy)

# %% [markdown]
# **Patient 2**, the same notebook. **Predict:** does the future leak? Do the rows sum to 1?

# %%
class Patient2(Attention):
    def forward(self, x):
        queries, keys, values = self.project(x)
        scores = queries @ values.transpose(2, 3) / keys.shape[-1] ** 0.5
        weights = self.hide(scores).softmax(dim=-1)
        return self.out_proj(self.merge(weights @ values))


patient_2 = admit(Patient2)
print(f"future {future(patient_2, x).max().item():.4f}, order {order(patient_2, x):.4f}")
print("row sums 1:", torch.allclose(row_sums(patient_2, x), torch.ones_like(x[:, :, :1])))
print("without gradient:", without_gradient(patient_2, x))
doctor(patient_2)

# %% [markdown]
# It is causal and its rows sum to 1, but nothing reaches `k_proj`: the queries are compared with the *values*. The keys
# only lend their width. Lesson 03 put the published output beside the right one: they part in the third decimal.
#
# **Patient 3**: a notebook first builds one head, in a variable `attn`, and then several heads. Here all its cells are
# in one `forward`. **Predict:** how large can a head's weight in the second row get?

# %%
class Patient3(Attention):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.first_q = nn.Linear(d_in, self.head_dim, bias=False)
        self.first_k = nn.Linear(d_in, self.head_dim, bias=False)

    def forward(self, x):
        attn = self.first_q(x) @ self.first_k(x).transpose(1, 2) / self.head_dim**0.5  # the first head
        attn = self.hide(attn).softmax(dim=-1)

        queries, keys, values = self.project(x)  # and now all of them
        scores = self.score(queries, keys)
        contexts = []
        for head in range(self.num_heads):
            attn_head = scores[:, head]
            attn_head = self.hide(attn).softmax(dim=-1)
            contexts.append(attn_head @ values[:, head])
        return self.out_proj(torch.cat(contexts, dim=-1))


patient_3 = admit(Patient3)
print(f"future {future(patient_3, x).max().item():.4f}, order {order(patient_3, x):.4f}")
print("without gradient:", without_gradient(patient_3, x))

# %% [markdown]
# All heads read `attn`, which is already a softmax, and never look at their own scores. Taking softmax again of numbers
# between 0 and 1 leaves hardly anything to choose:

# %%
for first in (0.0, 0.5, 1.0):
    once = torch.tensor([first, 1 - first])
    print(f"weights {first:.1f} and {1 - first:.1f} become {once.softmax(0)[0]:.4f} and {once.softmax(0)[1]:.4f}")
doctor(patient_3)

# %% [markdown]
# No weight of the second row leaves 0.2689 to 0.7311, however long you train. The notebook never printed what its heads
# gave, and a test of causality passes, because the stale weights are causal. The gradient says it at once.
#
# **Patient 4** is a page's version of a class from a large model, with rotary positions (lesson 07: each row is turned
# by an angle that grows with its place). **Predict:** how many things are wrong?

# %%
class Rotary(nn.Module):
    def forward(self, rows):  # (b, h, t, d)
        half = rows.shape[-1] // 2
        place = torch.arange(rows.shape[-2], device=rows.device, dtype=rows.dtype)
        speed = 100.0 ** -(torch.arange(half, device=rows.device, dtype=rows.dtype) / half)
        angle = place[:, None] * speed
        left, right = rows.chunk(2, dim=-1)
        return torch.cat([left * angle.cos() - right * angle.sin(), right * angle.cos() + left * angle.sin()], dim=-1)


class Patient4(Attention):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.rotary = Rotary()

    def forward(self, x, attention_mask=None):
        queries, keys, values = self.project(x)
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        weights = scores.softmax(dim=-1)
        context = (weights @ values).transpose(1, 2)
        context = context.flatten(2)


patient_4 = admit(Patient4)
print("output:", patient_4(x))
doctor(patient_4)

# %% [markdown]
# It returns nothing: nobody can have used it, and no probe has anything to hold on to. Give it its `return`:

# %%
class Patient4Returns(Patient4):
    def forward(self, x, attention_mask=None):
        queries, keys, values = self.project(x)
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        weights = scores.softmax(dim=-1)
        context = (weights @ values).transpose(1, 2)
        return context.flatten(2)


patient_4 = admit(Patient4Returns)
show("moved by a later word", future(patient_4, x), "token", words)
print(f"order {order(patient_4, x):.4f}")
print("without gradient:", without_gradient(patient_4, x))

# %% [markdown]
# Three probes, three more mistakes: the mask is never read; the class prepares positions and is still blind to order,
# so it never applies them; nor does it apply `out_proj`. The doctor has a question about each:

# %%
report = diagnose(patient_4, x, num_heads=num_heads)
print(report)

# %% [markdown]
# Mended, the future is gone and the order counts:

# %%
class Mended4(Patient4):
    def forward(self, x):
        queries, keys, values = self.project(x)
        scores = self.score(self.rotary(queries), self.rotary(keys))
        return self.out_proj(self.merge(self.weigh(self.hide(scores)) @ values))


mended_4 = admit(Mended4)
print(f"future {future(mended_4, x).max().item():.4f}, order {order(mended_4, x):.4f}")
doctor(mended_4)

# %% [markdown]
# ## Ward two: it fits by chance
#
# **Patient 5.** The notebook called it with `d_in` = `d_out` = 6. **Predict:** what does our size show?

# %%
class Patient5(Attention):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.out_proj = nn.Linear(d_out, d_in, bias=False)


print("as published:", tuple(Patient5(6, 6, 2)(rows.cpu()).shape))
patient_5 = admit(Patient5)
print("d_in=7, d_out=24:", tuple(patient_5(x).shape))
doctor(patient_5)

# %% [markdown]
# The output is as wide as the input: the two widths of `out_proj` are exchanged. With equal widths that is *the same
# code*, and no test can see it.
#
# **Patient 6** keeps its mask for `context_length` tokens. Too long a sentence should fail. **Predict:** does it, for
# a `context_length` of 6, 5 and 1?

# %%
class Patient6(Attention):
    def __init__(self, d_in, d_out, num_heads, context_length=1):
        super().__init__(d_in, d_out, num_heads)
        self.register_buffer("mask", torch.ones(context_length, context_length).triu(1))

    def hide(self, scores):
        num_tokens = scores.shape[-1]
        return scores.masked_fill(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)


for context_length in (6, 5, 1):
    patient = admit(lambda *sizes, length=context_length: Patient6(*sizes, length))
    try:
        print(f"context_length={context_length}: moved by a later word, {future(patient, x).max().item():.4f}")
    except RuntimeError as error:
        print(f"context_length={context_length}: RuntimeError: {str(error).splitlines()[0]}")

# %% [markdown]
# 5 fails, as it should. 1 is accepted: a mask of one cell is broadcast to all, and it says "not hidden". A size of 1
# fits everywhere. The published examples always passed the exact length.

# %%
doctor(admit(Patient6))

# %% [markdown]
# **Patient 7** takes a mask, 1 = hidden, and gives it the axes of batch and head. But its caller has done so already.
# **Predict:** an error?

# %%
class Patient7(Attention):
    def forward(self, x, mask):
        queries, keys, values = self.project(x)
        scores = self.score(queries, keys)
        mask = mask.unsqueeze(0).unsqueeze(0)
        weights = scores.masked_fill(mask == 1, -torch.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2)
        return self.out_proj(context.reshape(x.shape[0], x.shape[1], -1))


def flat(x):  # (token, token), 1 = hidden: what it was written for
    return torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1)


patient_7 = admit(Patient7)
for extra in (0, 1, 2):
    mask = flat(x)[(None,) * extra]  # (6, 6), (1, 6, 6), (1, 1, 6, 6)
    output = patient_7(x, mask)
    off = (output - healthy(x)).abs().max().item()
    print(f"mask {tuple(mask.shape)!s:12} output {tuple(output.shape)}, off by {off:.2f}")

# %% [markdown]
# No error, and the right shape. A mask of five axes makes *scores* of five axes, `transpose(1, 2)` turns other axes
# than meant, and `reshape` puts the scrambled numbers into the shape it is told. Two probes see it:

# %%
for extra in (1, 2):
    def code(x, extra=extra):
        return patient_7(x, flat(x)[(None,) * extra])

    print(f"extra axes {extra}: future {future(code, x).max().item():.2f}, neighbour {neighbour(code, x):.2f}")
doctor(patient_7, call=lambda module, x: module(x, flat(x)[None]))

# %% [markdown]
# The published test drew no mask but (token, token), and printed only a shape.
#
# **Patient 8** takes a mask too, and asks `mask == 1`. **Predict** what it does with the other three ways to write down
# the same mask:

# %%
class Patient8(Attention):
    def forward(self, x, mask):
        queries, keys, values = self.project(x)
        scores = self.score(queries, keys)
        scores = scores.masked_fill(mask == 1, -torch.inf)
        return self.out_proj(self.merge(scores.softmax(dim=-1) @ values))


patient_8 = admit(Patient8)
hidden = flat(x).bool()
encodings = {
    "1 = hidden": hidden.double(),
    "0 and -inf, to be added": torch.zeros(6, 6, device=device).masked_fill(hidden, -torch.inf),
    "255 = hidden": hidden.byte() * 255,
    "True = may attend": ~hidden,
}
unmasked = patient_8(x, torch.zeros(6, 6, device=device))
for name, mask in encodings.items():
    output = patient_8(x, mask)
    verdicts = {
        "right": torch.allclose(output, healthy(x)),
        "as if there were no mask": torch.allclose(output, unmasked),
        f"nan in {output.isnan().any(dim=-1).any(dim=0).sum().item()} of 6 rows": bool(output.isnan().any()),
    }
    print(f"{name:24}", *(verdict for verdict, holds in verdicts.items() if holds))

# %% [markdown]
# Two are ignored without a word. The doctor can be told how to call code that takes more than x:

# %%
def with_added_mask(module, x):
    return module(x, torch.zeros_like(flat(x)).masked_fill(flat(x) == 1, -torch.inf))


doctor(patient_8, call=with_added_mask)
doctor(patient_8, call=lambda module, x: module(x, flat(x)))

# %% [markdown]
# Wrongly called it is sick, rightly called it is healthy. The cure is to refuse what you don't understand, as the
# course's own modules do: `keep` must be bool.
#
# ## Ward three: right until the numbers change
#
# **Patient 9** comes from a walk through the eleven steps, with numbers after each. **Predict:** which probes fire?

# %%
class Patient9(Attention):
    def weigh(self, scores):
        return F.dropout(scores.softmax(dim=-1), p=0.1)


patient_9 = admit(Patient9)
print("in eval, two calls agree:", torch.equal(patient_9(x), patient_9(x)))
sums = row_sums(patient_9, x)
print("largest row sum:", f"{sums.max().item():.4f}", "= 1 / 0.9 =", f"{1 / 0.9:.4f}")
doctor(patient_9)

# %% [markdown]
# `F.dropout` is on unless it is told `training=self.training`. Any probe that compares two calls fires now, so ask
# first: do two calls agree? The walk hid it by luck: no weight that shows was dropped, so all numbers were just 1.1111
# times too large. How likely is that? Here are its weights again, from lesson 05:

# %%
torch.manual_seed(0)
kid = kid_smiles().batch
W_q, W_k = torch.randn(6, 6), torch.randn(6, 6)
queries, keys = ((kid @ W).view(1, 3, 2, 3).transpose(1, 2) for W in (W_q, W_k))
walk_weights = healthy.hide(queries @ keys.mT / 3**0.5).softmax(dim=-1)
visible = (walk_weights > 0.001).sum().item()
print(f"{visible} weights show; the chance that all of them stay: {0.9**visible:.2f}")

# %% [markdown]
# **Patient 10** fills with minus infinity, as you would. Then comes a sentence with two words of padding on the left.
# **Predict:** the loss below looks at real words only. Is it finite? Are the gradients?

# %%
class Patient10(Attention):
    def forward(self, x, keep):
        queries, keys, values = self.project(x)
        scores = self.score(queries, keys).masked_fill(~keep, -torch.inf)
        return self.out_proj(self.merge(scores.softmax(dim=-1) @ values))


real = torch.ones(2, 6, dtype=torch.bool, device=device)
real[1, :2] = False  # sample 1 begins with padding
keep = ~hidden & real[:, None, None]  # (batch, 1, query, key)

patient_10 = admit(Patient10)
output = patient_10(x, keep)
loss = output[real].square().mean()
loss.backward()
show("rows of sample 1 that are nan", output[1].isnan().any(dim=-1), "token")
print(f"loss {loss.item():.4f}")
print("gradients finite:", {name: bool(p.grad.isfinite().all()) for name, p in patient_10.named_parameters()})

# %% [markdown]
# The loss is fine; one step of the optimizer, and the model is not (lesson 02 showed the cure). The published test
# never passed a padding mask. Tell the doctor which words may be seen:

# %%
doctor(patient_10, keep=keep)

# %% [markdown]
# **Patient 11** divides by the square root of head_dim *after* the product; the formula is the same. **Predict:** is it
# the same number, in 16 bits, for large x?

# %%
class Patient11(Attention):
    def score(self, queries, keys):
        return queries @ keys.transpose(2, 3) / self.head_dim**0.5


print("in 64 bits as the healthy one:", torch.allclose(admit(Patient11)(x), healthy(x)))
large = (60 * x).half()
for kind in (Attention, Patient11):
    output = admit(kind).half()(large)
    print(f"{kind.__name__:10} in 16 bits: nan in {output.isnan().any(dim=-1).sum().item()} of 12 rows")

# %%
queries, keys, _ = healthy.project(60 * x)
largest = (queries @ keys.transpose(2, 3)).abs().max().item()
print(f"largest product {largest:.0f}, divided {largest / 8**0.5:.0f}")
print("largest number in 16 bits:", torch.finfo(torch.float16).max)
doctor(admit(Patient11).half(), large)

# %% [markdown]
# The product is larger than any number of 16 bits, becomes infinity, and softmax turns that into nan. Divided first, it
# fits. Most published classes multiply first; their examples ran in 32 bits, on small numbers.
#
# **Patient 12** makes its scale anew in each call, as a tensor of 32 bits. **Predict:** in a model of 64 bits, how many
# digits survive for a head_dim of 8? And for 64, the published one?

# %%
class Patient12(Attention):
    def score(self, queries, keys):
        root = torch.sqrt(torch.tensor(self.head_dim, dtype=torch.float32))
        return queries @ keys.transpose(2, 3) / root


off = (admit(Patient12)(x) - healthy(x)).abs().max().item()
print(f"head_dim 8: between 1e-9 and 1e-7 off: {1e-9 < off < 1e-7}")
for head_dim in (8, 64):
    root = torch.sqrt(torch.tensor(head_dim, dtype=torch.float32)).item()
    print(f"head_dim {head_dim:2}: sqrt in 32 bits {root:.12f}, in 64 bits {head_dim**0.5:.12f}")
doctor(admit(Patient12))

# %% [markdown]
# With 8, half of the digits are gone; with 64, none, for its square root is a whole number. A comparison to 1e-6 passes
# both: compare in 64 bits, to 1e-9.
#
# ## Which probe sees what?
#
# Now plant sixteen mistakes in the healthy class, a line or two each, and let every probe look at every one. (m is the
# module, s the scores, c the context.)

# %%
def fill(scores, diagonal=1, value=-torch.inf):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(diagonal)
    return scores.masked_fill(hidden, value)


def hide_the_past(module, scores):
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).tril(-1), -torch.inf)


PLANTED = {
    "values as keys": {"project": lambda m, x: [m.split(proj(x)) for proj in (m.q_proj, m.v_proj, m.v_proj)]},
    "mask discarded": {"hide": lambda m, s: (fill(s), s)[1]},
    "head 0 for all heads": {"weigh": lambda m, s: s[:, :1].expand_as(s).softmax(-1)},
    "no scale": {"score": lambda m, q, k: q @ k.mT},
    "scale by d_out": {"score": lambda m, q, k: q @ k.mT * (m.num_heads * m.head_dim) ** -0.5},
    "scale by head_dim": {"score": lambda m, q, k: q @ k.mT / m.head_dim},
    "softmax twice": {"weigh": lambda m, s: fill(s.softmax(-1)).softmax(-1)},
    "masked with zero": {"hide": lambda m, s: fill(s, value=0.0)},
    "diagonal one too high": {"hide": lambda m, s: fill(s, diagonal=2)},
    "diagonal one too low": {"hide": lambda m, s: fill(s, diagonal=0)},
    "mask transposed": {"hide": hide_the_past},
    "masked with -1e9": {"hide": lambda m, s: fill(s, value=-1e9)},
    "views, no transpose": {
        "split": lambda m, rows: rows.view(len(rows), m.num_heads, -1, m.head_dim),
        "merge": lambda m, context: context.reshape(len(context), -1, m.num_heads * m.head_dim),
    },
    "merge, no transpose": {"merge": lambda m, c: c.reshape(len(c), -1, m.num_heads * m.head_dim)},
    "softmax over queries": {"weigh": lambda m, s: s.softmax(-2)},
    "dropout left on": {"weigh": lambda m, s: F.dropout(s.softmax(-1), 0.1)},
}
planted = {name: admit(type("Planted", (Attention,), methods)) for name, methods in PLANTED.items()}
print(len(planted), "planted")

# %% [markdown]
# The comparison is with PyTorch's own function and the patient's own weights; three probes use its first row, its last
# row, all of it. **Predict** before you run: which one of the seven probes is enough?

# %%
def reference(module, x):
    queries, keys, values = (
        proj(x).unflatten(-1, (num_heads, -1)).transpose(1, 2) for proj in (module.q_proj, module.k_proj, module.v_proj)
    )
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return module.out_proj(context.transpose(1, 2).flatten(2))


def far(tensor):
    return not bool((tensor.abs() < 1e-9).all())  # nan is far, too


def looks(module, x):
    difference = module(x) - reference(module, x)
    return {
        "first row": far(difference[:, 0]),
        "last row": far(difference[:, -1]),
        "future": far(future(module, x)),
        "row sums": far(row_sums(module, x) - 1),
        "gradient": bool(without_gradient(module, x)),
        "order": not order(module, x) < 1e-9,
        "all of it": far(difference),
    }


seen = {name: looks(module, x) for name, module in planted.items()}
probes = list(seen["no scale"])
print(f"{'does the probe see it?':26}", *(f"{probe:>9}" for probe in probes))
for name, row in seen.items():
    print(f"{name:26}", *(f"{'yes' if row[probe] else 'no':>9}" for probe in probes))
print(f"{'seen of 16':26}", *(f"{sum(row[probe] for row in seen.values()):9}" for probe in probes))

# %% [markdown]
# Read it by column. *Future* sees masks and merges; wrong keys, wrong scales and even heads cut without a transpose are
# causal. *Row sums*, the check that one meets most often, sees three. The *first row* has one key, so softmax gives 1
# whatever the score is; the *last row* may see everything, so a mask that shows too much spares it. Only the whole
# output against an independent one sees all 15 that are wrong. The sixteenth, -1e9, is no mistake here: it differs from
# minus infinity only in a row that may see nothing.
#
# Then why the others? Because you often have nothing to compare with, and because "different" is no diagnosis: *future*
# and *gradient* say where to look.
#
# And the comparison is only as good as the numbers compared. Here is the largest difference with fresh weights, on the
# toy sentence of the course, and on our patients:

# %%
def fresh(methods):
    torch.manual_seed(123)
    return type("Planted", (Attention,), methods)(3, 4, 2).to(device)


sentence = dream_big(device=device).batch
print(f"{'largest difference':26} {'toy':>9} {'patients':>9}")
for name in ("values as keys", "no scale", "scale by head_dim", "head 0 for all heads", "softmax twice"):
    toy, ours = fresh(PLANTED[name]), planted[name]
    on_toy = (toy(sentence) - fresh({})(sentence)).abs().max().item()
    on_ours = (ours(x) - reference(ours, x)).abs().max().item()
    print(f"{name:26} {on_toy:9.4f} {on_ours:9.4f}")

# %% [markdown]
# Rounded to two decimals, the first column is zeros; weights that attend make all five plain.
#
# And what does the doctor call the sixteen?

# %%
for name, module in planted.items():
    findings = diagnose(module, x, num_heads=num_heads).findings
    print(f"{name:26}", ", ".join(finding.mistake or "no name" for finding in findings) or "healthy")

# %% [markdown]
# ## Your own code
#
# Paste your class here, and an x that it takes: (batch, token, width). The one below is right. Try
# `.view(batch, self.heads, tokens, self.width)` in place of `view` and `transpose`, or a slip you have made yourself.

# %%
class MyAttention(nn.Module):
    def __init__(self, d_in, d_out, heads):
        super().__init__()
        self.heads, self.width = heads, d_out // heads
        self.qkv = nn.Linear(d_in, 3 * d_out)
        self.out = nn.Linear(d_out, d_out)

    def forward(self, x):
        batch, tokens, _ = x.shape
        queries, keys, values = (
            part.view(batch, tokens, self.heads, self.width).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
        )
        context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.out(context.transpose(1, 2).reshape(batch, tokens, -1))


torch.manual_seed(0)
mine = MyAttention(7, 24, 3)
report = diagnose(mine, torch.randn(2, 5, 7), causal=True, num_heads=3)
print("nothing wrong was found:", report.ok)
for finding in report.findings:
    print(finding.title, finding.where, finding.evidence, finding.hint, sep="\n")

# %% [markdown]
# For code in which a token may see later ones, write `causal=False`.
#
# ## A page to keep: reviewing attention code
#
# **Before you read**
# - Sizes that all differ: batch, tokens, heads, head_dim, d_in, d_out. Never test with a size of 1 alone.
# - Weights that attend: queries and keys scaled up by 3 to 6. 64 bits.
#
# **Run**
# - Two calls in eval agree. Another length, one token, one sample: all work.
# - Future: change each token; only it and later ones move. (All rows, not the last one.)
# - Gradient: one backward pass reaches every row of every parameter. (The bias of the keys is the exception: it adds
#   the same to a whole row of scores, and softmax does not care.)
# - Compare the whole output with `F.scaled_dot_product_attention`, to 1e-9 or better.
# - A row that may see nothing: zeros, and finite gradients. Half precision with large numbers: finite.
# - With positions, order counts; without, it does not. Another sample changes nothing.
#
# **Read**
# - Every result is used: `masked_fill` without the underscore gives a new tensor. Every projection is applied.
# - Scores come from queries and *keys*, scaled once, by the square root of head_dim, before the product.
# - The mask: bool, which sense, checked on entry; minus infinity before softmax; sliced to the length at hand.
# - Softmax once, over the keys, the last axis. Dropout after it, and only in training.
# - Heads: view, *then* transpose; on the way back transpose, then reshape.
# - `out_proj` is `d_out` to `d_out`. `forward` returns. Nothing lives on from an earlier cell.
#
# ## Your turn
#
# 1. Which of the sixteen would a falling loss in training reveal?
# 2. Four of the sixteen are wrong and pass *future*, *row sums*, *gradient* and *order*. What have they in common?
#
# <details><summary>Answers</summary>
#
# 1. Hardly any: a model trains around most of them. Those that leak the future even get a *lower* loss.
# 2. No scale, two wrong scales, softmax twice: the right words are mixed, in wrong shares. Only numbers to compare with
#    tell.
#
# </details>
#
# ## What you have now
#
# Probes for code that you can't compare, a comparison for code that you can, and a doctor for the rest. The
# [exercises](exercises/10_exercises.ipynb) bring three patients that you have not seen.
#
# **Next:** [11 Spread heads over many devices](11_many_devices.ipynb), the last lesson.
