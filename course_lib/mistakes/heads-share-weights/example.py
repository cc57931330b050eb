import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, d_in, head_dim):
        super().__init__()
        self.q_proj = nn.Linear(d_in, head_dim)
        self.k_proj = nn.Linear(d_in, head_dim)
        self.v_proj = nn.Linear(d_in, head_dim)

    def forward(self, x):
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(1, 2)
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        return weights @ values


class Attention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        head_dim = d_out // num_heads
        self.heads = nn.ModuleList([Head(d_in, head_dim)] * num_heads)  # wrong
        # instead: self.heads = nn.ModuleList(Head(d_in, head_dim) for _ in range(num_heads))
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        return self.out_proj(torch.cat([head(x) for head in self.heads], dim=-1))


# how it is called
torch.manual_seed(0)
module = Attention(d_in=11, d_out=21, num_heads=3)
x = torch.randn(2, 5, 11)
options = {"num_heads": 3}
