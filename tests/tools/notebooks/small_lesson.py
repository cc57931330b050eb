# %% [markdown]
# # A small lesson
#
# [Open in Colab](COLAB_LINK)
#
# It is here to be harmed: the tests plant faults into copies of it.

# %% tags=["setup"]
SETUP_CELL

# %%
import base64
import io

import matplotlib.pyplot as plt
import seaborn as sns
import torch

words = ["Dream", "big", "and", "work"]
queries = torch.tensor([[0.2, 0.9], [0.7, 0.1], [0.4, 0.4], [0.8, 0.6]])
keys = torch.tensor([[0.5, 0.3], [0.1, 0.8], [0.9, 0.2], [0.3, 0.7]])
values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.8]])

# %%
scores = queries @ keys.T
scores.shape

# %%
scores

# %%
keep = torch.ones(4, 4, dtype=torch.bool).tril()
weights = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1)
print(weights)

# %%
weights @ values

# %%
print("row sums:", [f"{total:.4f}" for total in weights.sum(dim=-1).tolist()])

# %%
print(f"the last word looks at n={int(keep[-1].sum())} words, {words[0]} first")

# %%
hidden = scores.masked_fill(~keep, -torch.inf)[0, 1]
print(f"a hidden score is {hidden}, 0 / 0 is {torch.tensor(0.0) / 0}")


# %%
class Shown:
    """A figure as an <img> with words."""

    def __init__(self, weights):
        figure, axes = plt.subplots(figsize=(3, 3))
        labels = {"xticklabels": words, "yticklabels": words}
        sns.heatmap(weights, vmin=0, vmax=1, **labels, ax=axes)
        self.png = io.BytesIO()
        figure.savefig(self.png, format="png")
        plt.close(figure)

    def __repr__(self):
        return "attention of four words"

    def _repr_html_(self):
        data = base64.b64encode(self.png.getvalue()).decode()
        return f'<img alt="attention of four words" src="data:image/png;base64,{data}">'


Shown(weights)

# %% tags=["versions", "nbval-ignore-output"]
torch.__version__
