import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim)
        self.out_proj = nn.Linear(d_out, d_out)

    def split_heads(self, x):
        batch, num_tokens, _ = x.shape
        return x.view(batch, num_tokens, -1, self.head_dim).transpose(1, 2)

    def forward(self, x):
        queries = self.split_heads(self.q_proj(x))
        keys = self.split_heads(self.k_proj(x))
        values = self.split_heads(self.v_proj(x))
        group = self.num_heads // self.num_kv_heads
        keys = keys.repeat(1, group, 1, 1)  # wrong
        # instead: keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat(1, group, 1, 1)  # wrong
        # instead: values = values.repeat_interleave(group, dim=1)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))


# how it is called
torch.manual_seed(0)
module = Attention(d_in=11, d_out=28, num_heads=4, num_kv_heads=2)
x = torch.randn(3, 5, 11)
options = {"num_heads": 4, "num_kv_heads": 2}
