"""One way to cut (token, width) into heads, judged row by row: whose numbers lie where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

LISTED_HEADS, LISTED_TOKENS = 4, 6  # that are read out


@dataclass(eq=False)
class Cut:
    """One sample, cut into heads.

    Attributes:
        code: how the cut is written.
        index: (head, token, head_dim), which number of the sample, counted in reading order, lies in each place.
        wanted: the same as it should be.
        names: labels of the tokens.
        holds: (head, token), whether the row holds what its place says.
        owner: (head, token), the place (head * num_tokens + token) that the row's first number belongs to.
    """

    code: str
    index: Tensor
    wanted: Tensor
    names: Sequence[str]
    holds: Tensor = field(init=False)
    owner: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.holds = (self.index == self.wanted).all(dim=-1)
        place_of = torch.zeros(self.index.numel(), dtype=torch.long)
        place_of[self.wanted] = torch.arange(self.holds.numel()).view(*self.holds.shape, 1)
        self.owner = place_of[self.index[..., 0]]

    @property
    def num_wrong(self) -> int:
        """How many rows don't hold what their place says."""
        return int((~self.holds).sum())

    def owner_of(self, head: int, token: int) -> tuple[int, int]:
        """The (head, token) that the row at a place truly belongs to."""
        return divmod(int(self.owner[head, token]), len(self.names))

    def in_words(self) -> str:
        """How many rows are wrong, one of them, and which tokens a head never sees."""
        if not self.num_wrong:
            return f"Right, {self.code}: all {self.holds.numel()} rows hold what their place says."
        head, token = (~self.holds).nonzero()[0].tolist()
        true_head, true_token = self.owner_of(head, token)
        text = (
            f"Wrong, {self.code}: {self.num_wrong} of {self.holds.numel()} rows do not hold what their place says. "
            f"Head {head}, {self.names[token]} is really head {true_head}, {self.names[true_token]}."
        )
        for head, owners in enumerate(self.owner[:LISTED_HEADS].tolist()):
            seen = {owner % len(self.names) for owner in owners}
            unseen = [name for token, name in enumerate(self.names) if token not in seen]
            more = f" and {len(unseen) - LISTED_TOKENS} more" if len(unseen) > LISTED_TOKENS else ""
            text += f" Head {head} never sees {', '.join(unseen[:LISTED_TOKENS])}{more}." if unseen else ""
        return text
