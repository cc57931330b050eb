# %% [markdown]
# # Exercises: split the weights
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/solutions/05_exercises.ipynb)
#
# You will write multi-head attention as real models have it, and carry the weights of a wrapper over into it.
#
# **You need** [lesson 05](../05_weight_split.ipynb). **It takes** about half an hour.

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

from course_lib.attention import MultiHeadAttention
from course_lib.exercises import check, progress

# %% [markdown]
# ## 1. Scores of all heads at once
#
# Difficulty 2 of 5, about 4 minutes.
#
# Every query of a head meets every key of the same head. There may be more keys than queries.

# %% nbgrader={"grade": false, "grade_id": "scores_by_head", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scores_by_head(queries, keys):  # (batch, head, query, head_dim), (batch, head, key, head_dim) -> (b, h, q, k)
    ### BEGIN SOLUTION
    head_dim = queries.shape[-1]
    return (queries * head_dim**-0.5) @ keys.transpose(2, 3)  # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_scores_by_head", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("scores_by_head", scores_by_head).passed
### END HIDDEN TESTS
check("scores_by_head", scores_by_head)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# `@` multiplies the last two axes and leaves batch and head alone.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Turn the keys in their last two axes: `keys.transpose(2, 3)`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scale by the width of one head, the last size of the queries.
#
# </details>

# %% [markdown]
# ## 2. Multi-head attention with split weights
#
# Difficulty 4 of 5, about 15 minutes.
#
# The eleven steps of the lesson as one module, causal. Call the projections `q_proj`, `k_proj`, `v_proj` and
# `out_proj`, without bias, and the check compares numbers with weights of its own. (With other names or a packed
# projection it asks the doctor instead.)

# %% nbgrader={"grade": false, "grade_id": "MultiHead", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MultiHead(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        ### BEGIN SOLUTION
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        ### END SOLUTION

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        ### BEGIN SOLUTION
        batch, num_tokens, _ = x.shape
        per_head = (batch, num_tokens, self.num_heads, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, t, m) -> (b, t, h, d) -> (b, h, t, d)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=x.device).tril()
        weights = scores_by_head(queries, keys).masked_fill(~keep, -torch.inf).softmax(dim=-1)  # (b, h, q, k)
        context = (weights @ values).transpose(1, 2)  # (b, h, t, d) -> (b, t, h, d)
        return self.out_proj(context.reshape(batch, num_tokens, -1))  # (b, t, h, d) -> (b, t, h * d)
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_MultiHead", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("MultiHead", MultiHead).passed
### END HIDDEN TESTS
check("MultiHead", MultiHead)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Four `nn.Linear` in `__init__`. In `forward`: project, cut, score, hide, weigh, mix, merge, project.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# You have `split_heads` and `merge_heads` from lesson 04, `causal_mask` from lesson 02.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The mask is made for as many tokens as x has. After the mix: `transpose(1, 2)`, then `reshape`.
#
# </details>

# %% [markdown]
# ## 3. From the wrapper to the weight split
#
# Difficulty 3 of 5, about 10 minutes.
#
# Take the course's wrapper apart and build a `MultiHeadAttention` that gives the same output. The wrapper has `heads`,
# each with `q_proj`, `k_proj` and `v_proj`, and an `out_proj`; no bias anywhere.

# %% nbgrader={"grade": false, "grade_id": "to_split", "locked": false, "schema_version": 3, "solution": true, "task": false}
def to_split(wrapper):  # MultiHeadAttentionWrapper -> MultiHeadAttention
    ### BEGIN SOLUTION
    d_in = wrapper.heads[0].q_proj.in_features
    d_out = wrapper.num_heads * wrapper.head_dim
    split = MultiHeadAttention(d_in, d_out, wrapper.num_heads)
    state = {"out_proj.weight": wrapper.out_proj.weight}
    for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight"):
        state[name] = torch.cat([head.state_dict()[name] for head in wrapper.heads])  # h x (d, m) -> (h * d, m)
    split.load_state_dict(state)
    return split
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_to_split", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("to_split", to_split).passed
### END HIDDEN TESTS
check("to_split", to_split)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Build the module with the right sizes first: the wrapper knows `num_heads` and `head_dim`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `wrapper.heads[i].q_proj.weight` is (head_dim, d_in): in the wide matrix they lie one below the other.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `torch.cat([head.q_proj.weight for head in wrapper.heads])` for each role; W^O is carried over as it is.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? In [lesson 06](../06_multi_query.ipynb) the heads share their keys and values.

# %%
progress()
