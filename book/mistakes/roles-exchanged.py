# you may notice: Pretrained weights give nonsense.
# you may notice: A checkpoint loads without an error and the output is wrong.
# you may notice: Converted weights don't reproduce the original model.
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.qkv_proj = nn.Linear(d_in, 3 * d_out)
        self.out_proj = nn.Linear(d_out, d_out)

    def split_heads(self, x):
        batch, num_tokens, _ = x.shape
        return x.view(batch, num_tokens, self.num_heads, -1).transpose(1, 2)

    def forward(self, x):
        packed = self.qkv_proj(x).chunk(3, dim=-1)
        queries, values, keys = map(self.split_heads, packed)  # wrong
        # instead: queries, keys, values = map(self.split_heads, packed)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))


# how it is called
torch.manual_seed(0)
module = Attention(d_in=11, d_out=21, num_heads=3)
x = torch.randn(2, 5, 11)
options = {"num_heads": 3}
