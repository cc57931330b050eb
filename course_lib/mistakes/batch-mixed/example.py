import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.in_proj = nn.Linear(d_in, d_out)
        self.attention = nn.MultiheadAttention(d_out, num_heads)  # wrong
        # instead: self.attention = nn.MultiheadAttention(d_out, num_heads, batch_first=True)

    def forward(self, x):
        x = self.in_proj(x)
        output, _ = self.attention(x, x, x, need_weights=False)
        return output


# how it is called
torch.manual_seed(0)
module = Attention(d_in=11, d_out=21, num_heads=3)
x = torch.randn(2, 5, 11)
options = {"num_heads": 3, "causal": False}
