# %% [markdown]
# # Exercises: heads side by side
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/solutions/03_exercises.ipynb)
#
# You will run two heads by hand, mix heads with W^O, and write the wrapper.
#
# **You need** [lesson 03](../03_wrapper.ipynb). **It takes** about twenty minutes.
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
import torch
from torch import nn

from course_lib.attention import SingleHeadAttention
from course_lib.exercises import check, progress, review

# %% [markdown]
# ## Before you begin: three questions from earlier lessons
#
# Each asks for one number, one shape such as `(2, 5, 3)`, or one word. Another `seed` asks others.

# %%
review("03")

# %%
review("03", [..., ..., ...])  # your three answers in place of the dots

# %% [markdown]
# ## 1. Two heads by hand
#
# Difficulty 2 of 5, about 7 minutes.
#
# One sentence, two heads, scaled scores, no mask. Each role comes as a pair of matrices, one per head, used as `x @
# q_proj[0]`. Head 0's numbers come first in every row.

# %% nbgrader={"grade": false, "grade_id": "two_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def two_heads(x, q_proj, k_proj, v_proj):
    # (token, d_in), three pairs of (d_in, head_dim) -> (token, 2 * head_dim)
    ### BEGIN SOLUTION
    contexts = []
    for head in (0, 1):
        # (t, m) @ (m, d) -> (t, d)
        queries, keys, values = x @ q_proj[head], x @ k_proj[head], x @ v_proj[head]
        weights = ((queries * queries.shape[-1] ** -0.5) @ keys.T).softmax(dim=-1)
        contexts.append(weights @ values)
    return torch.cat(contexts, dim=-1)  # 2 x (t, d) -> (t, 2 * d)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_two_heads", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("two_heads", two_heads).passed
### END HIDDEN TESTS
check("two_heads", two_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write one head first, with `q_proj[0]`, `k_proj[0]`, `v_proj[0]`, and then the same with 1.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A loop over 0 and 1 can't forget to change an index. Scale by the width of one head.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `torch.cat([context_0, context_1], dim=-1)` puts them side by side.
#
# </details>

# %% [markdown]
# ## 2. What W^O does
#
# Difficulty 2 of 5, about 5 minutes.
#
# You get the contexts of the heads as a list, and W^O as `nn.Linear` keeps it: (width out, width in). Put the heads
# side by side, the first one first, and apply the output projection to each token's row, as `nn.Linear` without bias
# would.

# %% nbgrader={"grade": false, "grade_id": "mix_heads", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mix_heads(contexts, w_o):
    # list of (b, token, head_dim), (d_out, num_heads * head_dim) -> (b, token, d_out)
    ### BEGIN SOLUTION
    joined = torch.cat(contexts, dim=-1)  # num_heads x (b, t, d) -> (b, t, h * d)
    return joined @ w_o.T
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_mix_heads", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("mix_heads", mix_heads).passed
### END HIDDEN TESTS
check("mix_heads", mix_heads)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# There are two ways to write it: join first, or project each head and add.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `nn.Linear` keeps its matrix as (out, in) and computes `x @ weight.T`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Joined: `torch.cat(contexts, dim=-1) @ w_o.T`. Added: the first head_dim columns of `w_o` are head 0's.
#
# </details>

# %% [markdown]
# ## 3. The wrapper
#
# Difficulty 3 of 5, about 8 minutes.
#
# Multi-head attention as a list of heads that hide **nothing**: a token may attend to all tokens, as in a model that
# reads a whole text at once. The course's `SingleHeadAttention(d_in, d_out, causal=False)` is there for you, where
# `d_out` is the width of that head. Call the list `heads` and the output projection `out_proj`, without bias; the
# `d_out` of your class is the width over all heads.

# %% nbgrader={"grade": false, "grade_id": "Wrapper", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Wrapper(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        ### BEGIN SOLUTION
        head_dim = d_out // num_heads
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(SingleHeadAttention(d_in, head_dim, causal=False))
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        ### END SOLUTION

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        ### BEGIN SOLUTION
        joined = torch.cat([head(x) for head in self.heads], dim=-1)  # (b, t, h * d)
        return self.out_proj(joined)
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_Wrapper", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("Wrapper", Wrapper).passed
### END HIDDEN TESTS
check("Wrapper", Wrapper)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `d_out` is the width over all heads: a head is `d_out // num_heads` wide.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `nn.ModuleList([SingleHeadAttention(d_in, head_dim, causal=False) for _ in range(num_heads)])` is a list of heads that
# PyTorch knows of; in a plain list their weights would not be trained.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Join with `torch.cat(..., dim=-1)`, then mix with `nn.Linear(d_out, d_out, bias=False)`.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? [Lesson 04](../04_reshape_and_transpose.ipynb) cuts the heads out of one wide tensor.

# %%
progress()
