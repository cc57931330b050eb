# %% [markdown]
# # Start here
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/00_start_here.ipynb)
#
# You will check that your kernel works, draw a first picture of attention and learn to read it. After that the walk
# begins: from one attention head to multi-query attention, with code that you write yourself and prove right.
#
# **You need** Python, and a rough idea of what a matrix product is. **It takes** five minutes.

# %% tags=["setup"]
# @title Setup: installs the course where it is missing (Colab, Kaggle, a bare Jupyter); elsewhere it does nothing
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("course_lib") is None:
    course = "attention-course[models] @ git+https://github.com/attention-course/attention-course@main"
    if subprocess.run([sys.executable, "-m", "pip", "install", "-q", course]).returncode:
        raise RuntimeError("The course could not be installed: switch the internet on and run this cell again.")

# %% [markdown]
# ## Is everything here?
#
# Click into a cell and press **Shift + Enter** to run it. The next cell prints the versions you have; yours may differ
# from the ones stored here, and that is fine.

# %% tags=["versions", "nbval-ignore-output"]
import platform

import matplotlib
import seaborn
import torch

from course_lib.device import course_device

device = course_device()
print("Python", platform.python_version())
print("torch", torch.__version__, "on", device)
print("matplotlib", matplotlib.__version__, "and seaborn", seaborn.__version__)

# %% [markdown]
# The last word of the second line is the **device** that this kernel teaches on. A notebook opens on the kernel
# "Python 3", which teaches on the CPU. Where PyTorch sees a GPU, the menu *Kernel > Change Kernel* also offers
# "Attention (CUDA)"; every lesson gives the same numbers there.
#
# ## The sentence
#
# The whole course runs on one small input: the sentence "Dream big and work for it", six tokens of three numbers each.
# Real models use hundreds of numbers a token; three fit on a line.

# %%
from course_lib.inputs import dream_big
from course_lib.show import show

words, embeddings, x = dream_big(device=device)
show("embeddings", embeddings, "token width", words)

# %% [markdown]
# `show` is the course's way to print a tensor: a name for each axis, a word for each row. What a module takes is
# always a **batch** of such sentences, so `x` has one axis more:

# %%
print("x:", tuple(x.shape), "= (batch, token, width)")

# %% [markdown]
# ## A first picture
#
# An attention layer lets every token look at the others and take a mix of what it finds there. How much it takes from
# each is a **weight**. Here is such a layer, called with our sentence:

# %%
from course_lib.attention import SingleHeadAttention

torch.manual_seed(5)
head = SingleHeadAttention(d_in=3, d_out=2, causal=False)
with torch.no_grad():
    head.q_proj.weight *= 5  # as if trained: a fresh head looks at everything alike
    head.k_proj.weight *= 5
head = head.to(device)
output, weights = head(x, return_weights=True)
print("output: ", tuple(output.shape), "= (batch, token, width)")
print("weights:", tuple(weights.shape), "= (batch, head, query, key)")

# %% [markdown]
# Six tokens went in and six came out, two numbers wide now. The weights say who looked at whom:

# %%
from course_lib.pictures import heatmap

heatmap(weights, words)

# %% [markdown]
# ## How to read it
#
# - A **row** is the token that looks: the *query*. A **column** is the token it looks at: the *key*.
# - The number in a cell is the weight, from 0 to 1; the colour says the same once more.
# - Each row sums to 1, because it is a mix:

# %%
for word, total in zip(words, weights[0, 0].sum(dim=-1).tolist(), strict=True):
    print(f"{word:>5}: {total:.4f}")

# %% [markdown]
# Find the row "for" and its brightest cell. Does the next cell agree with you?

# %%
row = weights[0, 0, words.index("for")]
print("'for' looks most at", repr(words[row.argmax().item()]), "with a weight of", f"{row.max().item():.2f}")

# %% [markdown]
# Rows and columns are not interchangeable: "for" takes much from "and", but what does "and" take from "for"?

# %%
pattern = weights[0, 0]
print("'for' takes from 'and':", f"{pattern[words.index('for'), words.index('and')].item():.2f}")
print("'and' takes from 'for':", f"{pattern[words.index('and'), words.index('for')].item():.2f}")

# %% [markdown]
# ## How the lessons work
#
# - **Small cells.** Each does one thing; the sentence below it reads the result. Change a number and run it again:
#   nothing breaks, and *Kernel > Restart Kernel and Run All Cells* puts everything back.
# - **Predict.** Where a cell says so, guess before you run. Being wrong there is where learning happens.
# - **Your turn.** A question at the end, with a folded answer. After it come exercises, whose checks name the mistake;
#   at the end of the walk a doctor reads your own attention code and points at the line.
# - **Proof.** Each lesson ends with a cell that compares your tensors with the library's, number by number:

# %%
import torch.nn.functional as F

by_pytorch = F.scaled_dot_product_attention(head.q_proj(x), head.k_proj(x), head.v_proj(x))
torch.testing.assert_close(output, by_pytorch)
print("the course's head and PyTorch's own attention agree")

# %% [markdown]
# ## The walk
#
# | lesson | you end up with |
# |---|---|
# | [01 Build one attention head](01_single_head.ipynb) | one token by hand, then the matrix form, then a module |
# | [02 Hide what must not be seen](02_masks_and_dropout.ipynb) | causal and padding masks, and dropout |
# | [03 Put heads side by side](03_wrapper.ipynb) | multi-head attention as a list of heads |
# | [04 Reshape and transpose](04_reshape_and_transpose.ipynb) | what `view` and `transpose` do to memory |
# | [05 Split the weights](05_weight_split.ipynb) | multi-head attention as it is really written |
# | [06 Share keys and values](06_multi_query.ipynb) | multi-query and grouped-query attention |
# | [07 Meet attention in the wild](07_in_the_wild.ipynb) | padding, rotary positions, Llama's attention and its cache |
# | [08 See what heads learn](08_what_heads_learn.ipynb) | two tiny models trained, and what each head does |
# | [09 Make it fast, and know why](09_fast.ipynb) | fused kernels, prefill and decode, the limits of a machine |
# | [10 Find what no error reports](10_debugging_attention.ipynb) | mistakes found by probes, and by the doctor |
# | [11 Spread heads over many devices](11_many_devices.ipynb) | attention on two processes, and on many GPUs |
#
# **Next:** [01 Build one attention head](01_single_head.ipynb).
