# %% [markdown]
# # Exercises: one attention head
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/solutions/01_exercises.ipynb)
#
# You will write one attention head in six small pieces. Each of them is followed by a check, which runs your code on
# numbers of its own and says what is wrong with it.
#
# **You need** [lesson 01](../01_single_head.ipynb). **It takes** about thirty-five minutes. Any right way is right:
# loops, products, `einsum`, PyTorch's own functions. The hints below each check fold out one at a time and say more and
# more.
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

from course_lib.exercises import check, progress

# %% [markdown]
# ## 1. One token's scores by hand
#
# Difficulty 1 of 5, about 3 minutes.
#
# How well does the query of one token fit each key? Return one number for each key, not yet scaled.

# %% nbgrader={"grade": false, "grade_id": "scores_of_token", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scores_of_token(query, keys):  # (head_dim), (key, head_dim) -> (key)
    ### BEGIN SOLUTION
    return torch.stack([(query * key).sum() for key in keys])
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_scores_of_token", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("scores_of_token", scores_of_token).passed
### END HIDDEN TESTS
check("scores_of_token", scores_of_token)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A score says how well one query fits one key: the sum of their products, number by number.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Go through the keys one at a time and collect `query @ key`; or multiply once.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `keys @ query` does it: (key, head_dim) @ (head_dim) -> (key).
#
# </details>

# %% [markdown]
# ## 2. All scores at once, scaled
#
# Difficulty 1 of 5, about 4 minutes.
#
# The same for all queries in one product, divided by the square root of the width. There may be more keys than queries.

# %% nbgrader={"grade": false, "grade_id": "scaled_scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scaled_scores(queries, keys):  # (query, head_dim), (key, head_dim) -> (query, key)
    ### BEGIN SOLUTION
    head_dim = queries.shape[-1]
    # (query, head_dim) @ (head_dim, key) -> (query, key)
    return (queries * head_dim**-0.5) @ keys.T
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_scaled_scores", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("scaled_scores", scaled_scores).passed
### END HIDDEN TESTS
check("scaled_scores", scaled_scores)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Row q of the table holds the scores of query q.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A product takes rows of the left and columns of the right: the keys have to be transposed.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `head_dim` is the last size of the queries, and the scores are divided by `head_dim**0.5`.
#
# </details>

# %% [markdown]
# ## 3. Softmax in your own words
#
# Difficulty 2 of 5, about 9 minutes.
#
# Scores in, weights out: positive, and each row sums to 1. Try to do without `softmax`; the check also comes with
# scores around 2000. What is exp(2000)? And what changes if the same number is taken from all scores of a row?

# %% nbgrader={"grade": false, "grade_id": "softmax_rows", "locked": false, "schema_version": 3, "solution": true, "task": false}
def softmax_rows(scores):  # (query, key) -> (query, key)
    ### BEGIN SOLUTION
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_softmax_rows", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("softmax_rows", softmax_rows).passed
### END HIDDEN TESTS
check("softmax_rows", softmax_rows)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two steps: `scores.exp()` makes every score positive; then divide each row by its sum.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `exp(2000)` is infinite. Subtracting the same number from all scores of a row leaves its weights as they are, because
# exp(a - c) = exp(a) / exp(c). Take each row's largest: `scores.amax(dim=-1, keepdim=True)`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `sum(dim=-1)` of (query, key) is (query), one number per row, and PyTorch would line these up with the *columns*.
# `sum(dim=-1, keepdim=True)` is (query, 1), a column, and divides row by row.
#
# </details>

# %% [markdown]
# ## 4. Compare, weigh, mix
#
# Difficulty 2 of 5, about 5 minutes.
#
# All three steps in one function, for one head without a mask.

# %% nbgrader={"grade": false, "grade_id": "attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attention(queries, keys, values):
    # (query, head_dim), (key, head_dim), (key, width) -> (query, width)
    ### BEGIN SOLUTION
    weights = softmax_rows(scaled_scores(queries, keys))
    return weights @ values  # (query, key) @ (key, width) -> (query, width)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_attention", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("attention", attention).passed
### END HIDDEN TESTS
check("attention", attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three steps, three tensors: queries meet keys, softmax makes weights, weights mix values.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# You wrote the first two steps above: call your own functions.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The mix is `weights @ values`: (query, key) @ (key, width) -> (query, width).
#
# </details>

# %% [markdown]
# ## 5. A head with gaps
#
# Difficulty 2 of 5, about 5 minutes.
#
# The function becomes a module with three projections, and its input gets a batch axis. Fill in the four gaps, each
# written `...`. Nothing is hidden from any token yet.

# %% nbgrader={"grade": false, "grade_id": "SingleHeadWithGaps", "locked": false, "schema_version": 3, "solution": true, "task": false}
### BEGIN SOLUTION
class SingleHeadWithGaps(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        # (batch, query, key)
        scores = (queries / queries.shape[-1] ** 0.5) @ keys.transpose(1, 2)
        weights = scores.softmax(dim=-1)
        return weights @ values
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_SingleHeadWithGaps", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("SingleHeadWithGaps", SingleHeadWithGaps).passed
### END HIDDEN TESTS
check("SingleHeadWithGaps", SingleHeadWithGaps)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# A module calls its layers like functions: `self.q_proj(x)` gives the queries.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# With a batch axis `.T` would reverse all three axes: `transpose` takes the two that you want to swap.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `keys.transpose(1, 2)` is (batch, head_dim, key).
#
# </details>

# %% [markdown]
# ## 6. A head as a module
#
# Difficulty 3 of 5, about 8 minutes.
#
# Now the whole module, without a template. In the lesson the three projections were equally wide; here the values have
# a width of their own. The input has a batch axis, queries and keys are `head_dim` wide, the values are `d_out` wide,
# and so is the output. Call the projections `q_proj`, `k_proj` and `v_proj`, without bias: then the check can put
# weights of its own into them and compare numbers. No mask yet.

# %% nbgrader={"grade": false, "grade_id": "SingleHead", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SingleHead(nn.Module):
    def __init__(self, d_in, head_dim, d_out):
        super().__init__()
        ### BEGIN SOLUTION
        self.q_proj = nn.Linear(d_in, head_dim, bias=False)
        self.k_proj = nn.Linear(d_in, head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        ### END SOLUTION

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        ### BEGIN SOLUTION
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        # (b, q, d) @ (b, d, k) -> (b, q, k)
        scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(1, 2)
        # (b, q, k) @ (b, k, d_out) -> (b, q, d_out)
        return scores.softmax(dim=-1) @ values
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "check_SingleHead", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
assert check("SingleHead", SingleHead).passed
### END HIDDEN TESTS
check("SingleHead", SingleHead)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Three `nn.Linear` in `__init__`, two of them `head_dim` wide and one `d_out`; your three steps in `forward`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# With a batch axis only the last two axes of the keys are transposed: `keys.transpose(1, 2)`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Scale by the width of the queries, `queries.shape[-1] ** -0.5`, which is `head_dim`.
#
# </details>

# %% [markdown]
# ## Where you stand
#
# Passed them all? [Lesson 02](../02_masks_and_dropout.ipynb) hides what must not be seen.

# %%
progress()
