# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exercises: find the mistake
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/exercises/12_exercises.ipynb)
#
# You will write a probe that lists every leak, find the mistakes in three modules that others wrote, and fix two of
# them. All three run, return the right shape and train, and none of the three mistakes was planted in the lesson.
#
# **You need** lessons [05](../05_weight_split.ipynb), [06](../06_multi_query.ipynb) and
# [12](../12_debugging_attention.ipynb). **It takes** about 30 minutes. A mistake is answered by its name in the
# course's catalogue, which the cell below prints.
#
# Any right way passes, with loops, lists or NumPy on the way, unless a task speaks of gradients. What has a shape is
# returned as a tensor, of the dtype of the inputs. A check comes with float64 and with float32, with axes of size 1 and
# with long ones, and with scores of thousands.

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
from textwrap import fill

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import CATALOGUE
from course_lib.exercises import (
    check,
    from_earlier,
    mistake_of_the_day,
    progress,
    review,
)
from course_lib.recorder import record

without_gradient = from_earlier("without_gradient")  # your probe from the lesson
for mistake in CATALOGUE.values():
    print(fill(f"{mistake.id:26} {mistake.title}", 88, subsequent_indent=" " * 27))

# %% [markdown]
# ## Before you begin: three questions from earlier lessons
#
# Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others.

# %%
review("12")

# %%
review("12", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. A probe for the future
#
# Difficulty 3 of 5, about 8 minutes.
#
# `code` is a function or a module that should be causal. Give back the list of all tokens whose output depends on a
# later token, in any sample of the batch: their indices, counted from 0, each once and in any order; a set or a tensor
# will do. If nothing leaks, it is empty. `x` is to stay as it is.

# %% nbgrader={"grade": false, "grade_id": "leaks", "locked": false, "schema_version": 3, "solution": true, "task": false}
def leaks(code, x):
    # code of (batch, token, width), which keeps the shape, x -> list of token indices
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_leaks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("leaks", leaks)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Run the code twice: on x, and on a copy of x, `x.clone()`, in which one token was changed.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# If token t was changed, the outputs of tokens 0 to t - 1 must stay as they were. Those that moved belong on the list.
# Try every t: a leak from token 1 to token 0 can't be seen by changing the last token.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `(code(changed) - before).abs().amax(dim=(0, 2))` is one number per token: how far its output moved. Collect the
# indices below t where it is more than 1e-9, each once.
#
# </details>

# %% [markdown]
# ## 2. Find the mistake: patient A
#
# Difficulty 2 of 5, about 5 minutes.
#
# Build it, switch it to evaluation with `.eval()`, and probe it. What is its mistake called?

# %%
class PatientA(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, self.num_heads, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        scores = queries * self.head_dim**-0.5 @ keys.transpose(2, 3)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = (F.dropout(weights, 0.1) @ values).transpose(1, 2)
        return self.out_proj(context.reshape(batch, num_tokens, -1))

# %% nbgrader={"grade": false, "grade_id": "patient_a", "locked": false, "schema_version": 3, "solution": true, "task": false}
def patient_a():  # -> the name of the mistake, such as "no-softmax"
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_patient_a", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("patient_a", patient_a)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `leaks` lists tokens, but other ones each time. What if you change nothing and call the module twice?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Which line of `forward` draws random numbers, and what switches it off?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A layer such as `nn.Dropout` knows from `eval()` that training is over. What does a function know?
#
# </details>

# %% [markdown]
# ## 3. Find the mistake: patient B
#
# Difficulty 3 of 5, about 3 minutes.
#
# Two calls agree, and all of its parameters are used. What is its mistake called?

# %%
class PatientB(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, self.num_heads, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        scores = queries * self.head_dim**-0.5 @ keys.transpose(2, 3)
        weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
        context = (weights @ values).transpose(1, 2)
        return self.out_proj(context.reshape(batch, num_tokens, -1))

# %% nbgrader={"grade": false, "grade_id": "patient_b", "locked": false, "schema_version": 3, "solution": true, "task": false}
def patient_b():  # -> the name of the mistake
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_patient_b", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("patient_b", patient_b)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `leaks` finds tokens, but nothing lies above the diagonal of `weights`. So where does the future come in?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Print the sum of each row of `weights`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# By what does softmax divide each weight, and which scores are in that sum?
#
# </details>

# %% [markdown]
# ## 4. Find the mistake: patient C
#
# Difficulty 3 of 5, about 6 minutes.
#
# Grouped-query attention, with six query heads and two kv heads for example; the groups have an axis.

# %%
class PatientC(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        batch, num_tokens, _ = x.shape
        share = self.num_heads // self.num_kv_heads
        kv_head = (batch, num_tokens, self.num_kv_heads, 1, self.head_dim)
        # (b, t, g, share, d) -> (b, g, share, t, d)
        queries = self.q_proj(x).view(*kv_head[:3], share, -1).permute(0, 2, 3, 1, 4)
        keys = self.k_proj(x).view(kv_head).permute(0, 2, 3, 1, 4)
        values = self.v_proj(x).view(kv_head).permute(0, 2, 3, 1, 4)
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        scores = queries * self.head_dim**-0.5 @ keys.transpose(3, 4)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=3)
        context = (weights @ values).permute(0, 3, 1, 2, 4)
        return self.out_proj(context.reshape(batch, num_tokens, -1))

# %% nbgrader={"grade": false, "grade_id": "patient_c", "locked": false, "schema_version": 3, "solution": true, "task": false}
def patient_c():  # -> the name of the mistake
    raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_patient_c", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("patient_c", patient_c)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `leaks` finds tokens, but nothing lies above the diagonal. Print the sums of the rows of `weights`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# And the sums of its columns? Write the axes of `scores` down, and count them from 0.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Without the axis of groups this line would be right.
#
# </details>

# %% [markdown]
# ## 5. Fix patient B
#
# Difficulty 2 of 5, about 4 minutes.
#
# Copy patient B and correct its mistake, and nothing else.

# %% nbgrader={"grade": false, "grade_id": "MendedB", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MendedB(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        raise NotImplementedError  # your code goes here

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_MendedB", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("MendedB", MendedB)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Copy the class and change one line.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# What is hidden must be hidden before softmax divides by the sum of the row.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)`.
#
# </details>

# %% [markdown]
# ## 6. Fix patient C
#
# Difficulty 2 of 5, about 4 minutes.
#
# The same with patient C.

# %% nbgrader={"grade": false, "grade_id": "MendedC", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MendedC(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        raise NotImplementedError  # your code goes here

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # your code goes here

# %% nbgrader={"grade": true, "grade_id": "check_MendedC", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("MendedC", MendedC)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Copy the class and change one line.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Softmax runs over the keys of a row, so that each row sums to 1.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The keys are the last axis, however many there are: `softmax(dim=-1)`.
#
# </details>

# %% [markdown]
# ## The mistake of the day
#
# Each number is another module with one mistake, in code that nobody wrote before; without a number it is today's. Read
# it, build it and probe it: `module.build()` makes it, with d_in 7, d_out 24, 6 heads and 2 kv heads, and it takes
# (batch, token, 7). Then name the mistake: `module.answer("no-softmax")`.

# %%
module = mistake_of_the_day(1)
module

# %% [markdown]
# ## Where you stand
#
# Passed them all? Then read your own code with the same eyes.

# %%
progress()
