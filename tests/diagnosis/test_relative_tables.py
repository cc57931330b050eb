"""A table with an entry for each displacement in a window: two displacements must not share an entry."""

import torch
from torch import nn

from course_lib.diagnosis import diagnose


class Window(nn.Module):
    """Attention in one window with a learned bias for each displacement of the key from the query."""

    def __init__(self, height: int, width: int, factor: int, down_first: bool = True):
        super().__init__()
        self.qkv, self.proj = nn.Linear(12, 36), nn.Linear(12, 12)
        self.table = nn.Parameter(torch.randn((2 * height - 1) * (2 * width - 1), 3))
        at = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")).flatten(1)
        moved = at[:, :, None] - at[:, None] + torch.tensor([height - 1, width - 1])[:, None, None]
        index = moved[0] * factor + moved[1] if down_first else moved[1] * factor + moved[0]
        self.register_buffer("index", index)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 3, 4).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(n, n, 3).permute(2, 0, 1)
        weights = (q @ k.mT / 2 + bias).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, n, c))


def examined(module, tokens):
    torch.manual_seed(5)
    return diagnose(module.eval(), torch.randn(2, tokens, 12), num_heads=3, causal=False, lengths=[tokens])


class TwoAxes(Window):
    """The table has an axis of rows and one of columns, and dtypes are forced, too."""

    def __init__(self, second: int):
        super().__init__(2, 3, 5)
        self.table, self.second = nn.Parameter(torch.randn(3, 5)), second

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 3, 4).permute(2, 0, 3, 1, 4)
        at = self.index // 5, self.index % 5
        weights = (q @ k.mT / 2 + self.table[at[0], at[self.second]]).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, n, -1))


def test_a_row_that_is_read_as_the_column_is_found():
    assert examined(TwoAxes(1), 6).ok
    (finding,) = examined(TwoAxes(0), 6).findings
    assert finding.title.endswith("relative positions are read from the entries of others.")


class Distances(Window):
    """The table has an entry for each distance along both axes, which is looked up in training only."""

    def __init__(self, right: bool):
        super().__init__(2, 2, 3)
        points = [(row, column) for row in range(3) for column in range(3)]
        seen, index = {}, []
        for one in points:
            for other in points:
                offset = abs(one[0] - other[0]), abs(one[1] - other[int(right)])
                index.append(seen.setdefault(offset, len(seen)))
        self.table = nn.Parameter(torch.randn(3, len(seen)))
        self.register_buffer("index", torch.tensor(index).view(9, 9))

    def train(self, mode=True):
        if not mode:
            self.bias = self.table[:, self.index].detach()
        return super().train(mode)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 3, 4).permute(2, 0, 3, 1, 4)
        bias = self.table[:, self.index] if self.training else self.bias
        return self.proj(((q @ k.mT / 2 + bias).softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))


def test_a_distance_of_a_row_from_a_column_is_found():
    assert examined(Distances(right=True), 9).ok
    (finding,) = examined(Distances(right=False), 9).findings
    assert "at different entries for the distances of tokens from themselves" in finding.evidence
    assert "index" in finding.source
