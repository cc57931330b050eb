import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out)
        self.k_proj = nn.Linear(d_in, d_out)
        self.v_proj = nn.Linear(d_in, d_out)
        self.out_proj = nn.Linear(d_out, d_out)

    def split_heads(self, x):
        batch, num_tokens, _ = x.shape
        return x.view(batch, num_tokens, self.num_heads, -1).transpose(1, 2)

    def forward(self, x):
        queries = self.split_heads(self.q_proj(x))
        keys = self.split_heads(self.k_proj(x))
        values = self.split_heads(self.v_proj(x))
        num_tokens = x.shape[1]
        future = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        context = F.scaled_dot_product_attention(queries, keys, values, future)  # wrong
        # instead: context = F.scaled_dot_product_attention(queries, keys, values, ~future)
        return self.out_proj(context.transpose(1, 2).flatten(2))


# how it is called
torch.manual_seed(0)
module = Attention(d_in=11, d_out=21, num_heads=3)
x = torch.randn(2, 5, 11)
options = {"num_heads": 3}
