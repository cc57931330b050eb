"""Attention in tiles, as a class."""

import torch
from torch import nn

from course_lib.exercises.module_exercise import ModuleExercise


class MyTiledAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, size=16):
        super().__init__()
        self.num_heads, self.size = num_heads, size
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def blocks(self, x):  # (b, t, h * d) -> blocks of tokens, each (b, h, size, d)
        by_head = x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        return by_head.split(self.size, dim=2)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries = self.blocks(self.q_proj(x))
        keys, values = self.blocks(self.k_proj(x)), self.blocks(self.v_proj(x))
        contexts = []
        for row, block in enumerate(queries):
            block = block * block.shape[-1] ** -0.5
            context, total = torch.zeros_like(block), torch.zeros_like(block[..., 0])
            largest = torch.full_like(total, -torch.inf)  # (b, h, q)
            for column in range(row + 1):  # later tiles are hidden as a whole
                # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
                scores = block @ keys[column].transpose(2, 3)
                if column == row:  # on the diagonal
                    hidden = torch.ones_like(scores[0, 0]).triu(1).bool()
                    scores = scores.masked_fill(hidden, -torch.inf)
                new_largest = torch.maximum(largest, scores.amax(dim=-1))
                shrink = (largest - new_largest).exp()
                weights = (scores - new_largest[..., None]).exp()
                total = total * shrink + weights.sum(dim=-1)
                context = context * shrink[..., None] + weights @ values[column]
                largest = new_largest
            contexts.append(context / total[..., None])
        merged = torch.cat(contexts, dim=2).transpose(1, 2).flatten(2)  # (b, t, h * d)
        return self.out_proj(merged)


EXERCISE = ModuleExercise(
    MyTiledAttention,
    title="Attention in tiles",
    difficulty=4,
    minutes=10,
    prompt=(
        "Causal multi-head attention with `q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias, that never holds "
        "more scores than a tile of `size` queries and `size` keys, for each head. The last tiles may be smaller, and "
        "tiles that are hidden as a whole are not computed. The check leaves `size` at 16 and compares numbers only; "
        "the lesson's proof looks at the tensors, too."
    ),
    hints=(
        "Split queries, keys and values into heads first, then into blocks of tokens: `split(size, dim=2)`.",
        "Two loops, queries outside and keys inside. Each block of queries starts anew with -inf, 0 and 0, and divides "
        "its context by its total after its last block of keys.",
        "The inside of the inner loop is `online_step` with the axes of batch and head in front: `[:, None]` becomes "
        "`[..., None]`. Only the tile on the diagonal needs a mask.",
    ),
    in_tiles=True,
    stub="class MyTiledAttention(nn.Module): ...",
    wrong="""
context * shrink[..., None] => context
    attention whose context keeps the old largest score when a larger one comes
    ? To which largest score does the old context refer?
total * shrink => total
    attention whose total keeps the old largest score when a larger one comes
    ? To which largest score does the old total refer?
torch.maximum(largest, scores.amax(dim=-1)) => scores.amax(dim=-1)
    attention that forgets the largest score so far: where a later tile's are far below it, its factor is infinite
    ? What is the largest score of all tiles so far?
(scores - new_largest[..., None]) => (scores - largest[..., None])
    attention whose new weights refer to the old largest score, which is -inf before the first tile
    ? To which largest score do the new weights refer?
context * shrink[..., None] + weights @ values[column] => (context * shrink[..., None] + weights @ values[column]) / total[..., None]
    attention that divides by the total after each tile
    ? When is the sum over all keys known?
range(row + 1) => range(len(keys))
    attention that also computes the tiles above the diagonal, and masks only those on it
    ? Which tiles does a causal mask hide as a whole?
context / total[..., None] => context
    attention that is never divided by its total
    ? What is left to do after the last block of keys?
column == row => False
    attention in which tiles are hidden, and no single score within a tile
    ? In the tile on the diagonal, what does the first query see?
range(row + 1) => range(row, row + 1)
    attention in which a query sees the keys of its own block alone
    ? Which blocks of keys come before a block of queries?
range(row + 1) => range(max(1, row + 1 - 1))
    attention that leaves out the tile on the diagonal
    ? May a token attend to itself?
block * block.shape[-1] ** -0.5 => block
    attention without the scale [missing-scale]
""",
)
