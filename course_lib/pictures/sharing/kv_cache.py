"""Draw the keys and values that are kept from step to step while a model generates; queries are not kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import torch
from torch import Tensor, nn

from course_lib.attention import attend
from course_lib.pictures.canvas import DASHED, Canvas
from course_lib.pictures.checks import token_labels
from course_lib.pictures.grid import column, flow, label, row
from course_lib.pictures.picture import Panels, Picture
from course_lib.pictures.style import HEADING, LINE, NOTE, SMALL, SMALL_NOTE, STYLE, WHITE, head_color
from course_lib.pictures.table import Box, Label, Table
from course_lib.wording import counted, listed

from .kv_readers import ModuleCopy, copies_of

MOST_TOKENS, MOST_HEADS = 10, 8
SIMPLE = 12  # the largest denominator that is written in a fraction


@dataclass(frozen=True)
class Kept:
    """What one module keeps in its cache."""

    name: str
    num_heads: int
    num_kv_heads: int
    token_bytes: int
    compared: str  # compared with the first module's cache; "" for the first module itself
    words: Sequence[str]  # labels of the tokens

    @property
    def amount(self) -> str:
        tokens = len(self.words)
        part = [f"the first {MOST_HEADS} heads"] if self.num_kv_heads > MOST_HEADS else []
        part += [f"the first {MOST_TOKENS - 1} tokens and the last"] if tokens > MOST_TOKENS else []
        amount = f"{self.token_bytes:,} bytes per token, {self.token_bytes * tokens:,} bytes for {tokens} tokens"
        return amount + self.compared + (f" (drawn: {listed(part)})" if part else "")

    def describe(self) -> str:
        return f"{self.name} keeps {counted(self.num_kv_heads, 'head')} of keys and values: {self.amount}."

    def draw(self) -> Canvas:
        head = flow([(HEADING.clip(self.name, STYLE.width / 2), HEADING), (self.amount, NOTE)])
        box = Canvas()
        box.outline(0, 0, STYLE.number_cell, STYLE.flat_cell, color=LINE, dashes=DASHED)
        queries = label(f"{self.num_heads} queries of the new token:", SMALL)
        caption = column([queries, label("asked once, then forgotten", SMALL_NOTE)], STYLE.between)
        kept = row([self._table().draw(), row([box, caption], STYLE.near)], STYLE.panels)
        return column([head, kept], STYLE.tight)

    def _table(self) -> Table:
        """Return a table with a row per key head, a row per value head, and a column per token."""
        whole = len(self.words) <= MOST_TOKENS
        shown = [*self.words] if whole else [*self.words[: MOST_TOKENS - 1], "…", self.words[-1]]
        labels = [SMALL.clip(word, STYLE.box) for word in shown]
        width = max(STYLE.number_cell, *(ceil(SMALL.width(text)) + STYLE.between for text in labels))
        rows = [(role, head) for role in ("keys", "values") for head in range(min(self.num_kv_heads, MOST_HEADS))]
        columns, skipped = range(len(shown)), -1 if whole else len(shown) - 2
        return Table(
            [[("", WHITE if column == skipped else head_color(head)) for column in columns] for _, head in rows],
            rows=[f"{role} {head}" for role, head in rows],
            above=[Label(text) for text in labels],
            below=[Label("kept", len(shown) - 1), Label("new")],
            outlined=[Box(0, len(shown) - 1, len(rows))],
            cell=(width, STYLE.flat_cell),
            row_style=SMALL,
        )


def draw_kv_cache(
    modules: Mapping[str, nn.Module],
    x: Tensor,
    *,
    words: Sequence[object] | None = None,
    bytes_per_element: int = 2,
    title: str | None = None,
) -> Picture:
    """Draw the keys and values that each module keeps when the last token of x arrives.

    The cache must not change the result, which is checked first: the last token's output, computed by `attend` from
    kept keys and values with a single query, must equal its output when all tokens are computed at once, in float64.

    Args:
        modules: name -> module of one of the course's forms; the others are compared with the first.
        x: (batch, token, d_in); the last token is the new one. The cache of one sample is drawn.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        bytes_per_element: 2 for float16 or bfloat16.
        title: the title above the drawing.

    Raises:
        ValueError: If no module or only one token is given, words do not fit, bytes_per_element is below 1, or the last
            output of a module isn't what `attend` makes of its queries, keys and values.
        TypeError: If a module isn't one of the course's forms, or bytes_per_element is not an integer.

    Example:
        >>> picture = draw_kv_cache({"shared": MultiQueryAttention(3, 4, num_heads=2)}, dream_big().batch)
        >>> print(picture.description.splitlines()[-1])
        shared keeps 1 head of keys and values: 8 bytes per token, 48 bytes for 6 tokens.
    """
    copies = copies_of(modules, x)
    labels = token_labels(words, x.shape[1])
    if not isinstance(bytes_per_element, int) or isinstance(bytes_per_element, bool):
        raise TypeError(f"bytes_per_element must be an integer, got {bytes_per_element!r}.")
    if bytes_per_element < 1:
        raise ValueError(f"bytes_per_element must be at least 1, got {bytes_per_element}: give 2 for 16-bit floats.")
    first, panels = copies[0], []
    for module in copies:
        _check_that_it_changes_nothing(module, x.detach().double())
        compared = "" if module is first else f", {_ratio(module.kept, first.kept)} {first.name}"
        size = module.kept * bytes_per_element
        panels.append(Kept(module.name, module.num_heads, module.num_kv_heads, size, compared, labels))
    new, before = f"“{labels[-1]}”", counted(len(labels) - 1, "token")
    clipped = NOTE.clip(labels[-1], STYLE.label)
    note = f"“{clipped}” comes in: its keys and values join the others, its queries are used once."
    caption = f"The output of {new} from the kept keys and values equals its output from all tokens at once: "
    begin = f"While {new} is computed, the keys and values of the {before} before it are kept, those of {new} are new. "
    begin += "Its queries are asked once, then forgotten."
    title = title or "What a model keeps while it writes"
    return Picture.of(Panels(panels, title, note, caption + "checked in float64.", begin))


def _check_that_it_changes_nothing(module: ModuleCopy, x: Tensor) -> None:
    keys, values = module.keys_and_values(x)
    with torch.no_grad():
        at_once = module.module(x)[:, -1:]  # (batch, 1, d_out)
        context, _ = attend(module.split(module.q_proj(x[:, -1:]), module.num_heads), keys, values)
        output = context.transpose(1, 2).flatten(2)  # (b, h, 1, d) -> (b, 1, h * d)
        if module.out_proj is not None:
            output = module.out_proj(output)
    try:
        torch.testing.assert_close(output, at_once)
    except AssertionError as error:
        raise ValueError(
            f"module {module.name!r} gives its last token another output than attend() makes of its queries, keys and "
            "values, so a cache of them would change it: give one of the course's forms."
        ) from error


def _ratio(part: int, whole: int) -> str:
    """Compare a cache with the first module's: "1/4 of", "0.317 of", "as much as"."""
    ratio = Fraction(part, whole)
    if ratio == 1:
        return "as much as"
    simple = ratio.numerator == 1 or ratio.denominator <= SIMPLE
    return f"{ratio if simple else format(float(ratio), '.3g')} of"
