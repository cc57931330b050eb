import torch
from torch import nn


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

    def forward(self, x, past=None):
        queries = self.split_heads(self.q_proj(x))
        keys = self.split_heads(self.k_proj(x))
        values = self.split_heads(self.v_proj(x))
        if past is not None:
            keys = torch.cat([past[0], keys], dim=2)
            values = torch.cat([past[1], values], dim=2)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        place = torch.arange(keys.shape[2], device=x.device)
        distance = place[-x.shape[1] :, None] - place
        window = 3 if past is None else keys.shape[2]  # wrong
        # instead: window = 3
        hidden = (distance < 0) | (distance >= window)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)  # wrong
        # instead: weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.transpose(1, 2).flatten(2)), (keys, values)


# how it is called
def in_pieces(module, x):
    past, rows = None, []
    for piece in (x[:, :4], *x[:, 4:].split(1, dim=1)):
        out, past = module(piece, past)
        rows.append(out)
    return torch.cat(rows, dim=1)


torch.manual_seed(0)
module = Attention(d_in=11, d_out=24, num_heads=3)
x = torch.randn(2, 6, 11)
options = {"num_heads": 3, "window": 3, "call": in_pieces}
