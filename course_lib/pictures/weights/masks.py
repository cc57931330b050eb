"""Draw a mask in both of PyTorch's conventions, and what each token attends to, as measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import to_torch_mask
from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import token_labels
from course_lib.pictures.grid import card, label, row
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import ALERT, HEADS, HIDDEN, INK, PLAIN, STYLE
from course_lib.pictures.table import Label, Table

OPPOSITE = "The tables are opposite, what the tokens look at is the same."
MOST = 8  # tokens; three such tables fit side by side


def mask_conventions(keep: Tensor, *, words: Sequence[object] | None = None, title: str | None = None) -> Picture:
    """Draw a mask as two functions of PyTorch expect it, and what the tokens then attend to.

    The attention is measured: `F.scaled_dot_product_attention` runs with keep and `nn.MultiheadAttention` with
    `to_torch_mask(keep)`, on random input, and weights above zero are marked. The effect of passing either function
    the other's mask is measured too.

    Args:
        keep: bool, (query, key), True = may attend; as many queries as keys, 8 at most.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        title: the title above the drawing.

    Raises:
        ValueError: If keep has a different shape or is on the meta device, or words do not fit.
        TypeError: If keep isn't a bool tensor.
        RuntimeError: If the two functions disagree, so that there is no single result to draw.

    Example:
        >>> print(mask_conventions(causal_keep(2), words=("a", "b")).description.splitlines()[-1])
        Mixed up, with keep itself, nn.MultiheadAttention gives 100% of its weight to hidden tokens; 1 of 2 rows is nan.
    """
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
        kind = keep.dtype if isinstance(keep, Tensor) else type(keep).__name__
        raise TypeError(f"keep must be a bool tensor with True = may attend, got {kind}.")
    if keep.dim() != 2 or keep.shape[0] != keep.shape[1] or not 0 < len(keep) <= MOST:
        raise ValueError(
            f"keep must be (query, key) with as many queries as keys, {MOST} at most, got "
            f"{tuple(keep.shape)}: give a corner of it, such as keep[:6, :6]."
        )
    if keep.is_meta:
        raise ValueError("keep is on the meta device and holds no values: give a mask with values.")
    keep = keep.cpu()
    labels = token_labels(words, len(keep))
    scene = MaskScene(keep, labels, *_measure(keep), title=title or "One mask, two senses")
    if not torch.equal(scene.looks, scene.by_module > 0):  # a row of nan attends to nothing, like a row of zeros
        raise RuntimeError("F.scaled_dot_product_attention and nn.MultiheadAttention don't look at the same tokens.")
    return Picture.of(scene)


@dataclass(frozen=True, eq=False)
class MaskScene:
    """A mask and the attention weights measured with it, all (query, key)."""

    keep: Tensor  # bool, True = may attend
    words: Sequence[str]
    by_function: Tensor  # weights computed by the function with keep
    by_module: Tensor  # weights computed by the module with its own mask
    mistaken: Tensor  # weights computed by the module with keep
    title: str

    @property
    def looks(self) -> Tensor:
        """Where the weight is above 0, bool, (query, key)."""
        return self.by_function > 0

    @property
    def caption(self) -> str:
        return f"{OPPOSITE} {self._blind_rows()}{self._confusion()}"

    def describe(self) -> str:
        """Describe what each token attends to, and the effect of confusing the two conventions."""
        seen = [", ".join(compress(self.words, looks)) for looks in self.looks.tolist()]
        rows = [f"{query} looks at {keys or 'nothing'}" for query, keys in zip(self.words, seen, strict=True)]
        first = f"The same mask, as keep (True = may attend) and as to_torch_mask(keep) (True = hidden). {OPPOSITE}"
        return "\n".join([first, f"Measured: {'; '.join(rows)}.", self._confusion()])

    def draw(self) -> Canvas:
        keep, opposite = (
            [[("FT"[true], PLAIN) for true in line] for line in mask.tolist()]
            for mask in (self.keep, to_torch_mask(self.keep))
        )
        looks = self.looks.tolist()
        seen = [[("✓", HEADS[1]) if look else ("", HIDDEN) for look in line] for line in looks]
        marks = [("" if any(line) else "sees nothing", INK) for line in looks]
        table = partial(Table, above=[Label(word) for word in self.words])
        tables = (
            table(keep, "keep", self.words, notes=("F.scaled_dot_product_attention", "T = may attend")),
            table(opposite, "to_torch_mask(keep)", notes=("nn.MultiheadAttention", "T = hidden")),
            table(seen, "both, measured", marks=marks, notes=("weights above 0", "✓ = looks, grey = 0")),
        )
        confusion = label(f"✗ {self._confusion()}", ALERT)
        return card(self.title, [OPPOSITE], row([table.draw() for table in tables]), confusion, gap=STYLE.gap)

    def _confusion(self) -> str:
        """Describe what the module did with the mask of the other convention."""
        blind = int(self.mistaken.isnan().any(dim=-1).sum())
        rows = f"{blind} of {len(self.keep)} rows {'is' if blind == 1 else 'are'} nan"
        finite = self.mistaken.nan_to_num()
        share = finite[~self.keep].sum() / finite.sum()
        summary = f"gives {share.item():.0%} of its weight to hidden tokens" + (f"; {rows}" if blind else "")
        result = f"gives no weights at all: {rows}" if blind == len(self.keep) else summary
        return f"Mixed up, with keep itself, nn.MultiheadAttention {result}."

    def _blind_rows(self) -> str:
        """Describe a row in which everything is hidden; "" if there is none."""
        blind = ~self.looks.any(dim=-1)
        if not blind.any():
            return ""
        tables = self.by_function[blind], self.by_module[blind]
        first, second = ("nan" if table.isnan().all() else "zeros" for table in tables)
        what = f"{first} from both" if first == second else f"{first} from the function, {second} from the module"
        return f"A token that sees nothing gets {what}. "


def _measure(keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Measure weights (query, key): the function with keep, the module with its own mask, the module with keep."""
    num_tokens, width = len(keep), 4
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, num_tokens, width, generator=generator, dtype=torch.float64, device="cpu")
    identity = torch.eye(num_tokens, dtype=torch.float64, device="cpu")[None]  # values whose output is the weights
    with torch.random.fork_rng(devices=[]):  # building a module uses the global generator
        module = nn.MultiheadAttention(width, num_heads=1, batch_first=True, dtype=torch.float64, device="cpu").eval()
    with torch.no_grad():
        for parameter in module.parameters():
            random = torch.randn(parameter.shape, generator=generator, dtype=torch.float64, device="cpu")
            parameter.copy_(random / 2)
        by_function = F.scaled_dot_product_attention(x, x, identity, attn_mask=keep)[0]
        by_module, mistaken = (module(x, x, x, attn_mask=mask)[1][0] for mask in (to_torch_mask(keep), keep))
    return by_function, by_module, mistaken
