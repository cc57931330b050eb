"""Every reshape and transpose of a recorded run as a picture: where each number goes, and that it does not move."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from course_lib.recorder import Recording

from ..drawing import QUIET, STEP, Drawing, stack
from ..picture import Picture
from ..wording import listed
from .chains import Chain
from .choice import choose, title_of
from .meaning import Meaning, meaning_of
from .panel import cut_into_blocks
from .panel_drawing import GAP, draw_panel, header_of
from .slots import draw_memory
from .words import caption_of, chain_in_words, step_in_words

WIDTH = 860  # pixels: what a notebook shows without shrinking it
MOST_WAYS = 6  # of the tensors of a run; the others are named
ARROW = 104


def layout_steps(
    recording: Recording,
    words: Sequence[str] | None = None,
    *,
    of: str | Sequence[str] | None = None,
    num_heads: int | None = None,
    follow: int | Sequence[int] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw what a run did to the order of its numbers: each layout step as blocks of cells, heads by colour and name.

    The cells are numbered in the reading order of the tensor that a chain of steps begins with. The numbers are carried
    through the very calls that were recorded, so the picture shows what the code did, not what it was meant to do: an
    axis that runs through tokens and heads at once is marked as mixed. Below stands the memory, slot by slot.
    The steps fold out one by one.

    Args:
        recording: what `course_lib.recorder.record` gave.
        words: labels of the tokens; numbers if None.
        of: names of the tensors whose way is drawn, as the code calls them; every way that starts at a computed tensor
            if None, equal ones once.
        num_heads: how many heads the width holds; read from the shapes of the steps if None.
        follow: which number to outline: its number, or its index in the first tensor, such as (0, 3, 2); one of the
            second head if None.
        title: stands above the drawing.

    Returns:
        Picture.

    Raises:
        ValueError: a recording without a layout step, a name that none of its tensors has, a number to follow that
            there isn't.
        TypeError: something else than a Recording.

    Example:
        >>> recording = record(lambda q: q.view(1, 6, 2, 2).transpose(1, 2), torch.arange(24.0).view(1, 6, 4))
        >>> layout_steps(recording).words.splitlines()[1]
        'Then .view(1, 6, 2, 2): no number moves. Its axes count one sample, tokens, heads and places: shape ...'
    """
    if not isinstance(recording, Recording):
        raise TypeError(
            f"recording must be a Recording, got {type(recording).__name__}: make one with record(module, x)."
        )
    words = tuple(str(word) for word in words or ())
    num_tokens = len(words) or _num_tokens(recording)
    ways: dict[tuple, list[Chain]] = {}
    for chain in choose(recording, of, num_tokens):  # values go the way of queries: drawn once, named both
        ways.setdefault(chain.key, []).append(chain)
    left_out = [] if of else [title_of(same[0]) for same in list(ways.values())[MOST_WAYS:]]
    ways = dict(list(ways.items())[: None if of else MOST_WAYS])
    drawings, texts, steps = [], [], []
    scrambled = False
    for chain, *same in ways.values():
        meaning = meaning_of(chain, num_heads, num_tokens)
        number = _followed(chain, meaning, follow)
        scrambled |= any("scattered" in meaning.roles(stage.numbers) for stage in chain.stages)
        names = " and ".join(dict.fromkeys(title_of(one) for one in (chain, *same)))
        drawings.append(_draw_way(chain, meaning, words, number, names if len(ways) > 1 else ""))
        texts.append(chain_in_words(chain, meaning, words, number, names))
        steps += _fold_outs(chain, meaning, words, number, len(steps))
    first = next(iter(ways.values()))[0]
    drawing = Drawing()
    drawing.text(0, 16, title or _idea(ways), size=16, bold=True)
    how = f"{_origin(first)} Cells are numbered in the order of the first tensor; follow the outlined one."
    drawing.text(0, 36, how, color=QUIET)
    drawing.place(stack(drawings, gap=34), 0, 54)
    if left_out:
        names = list(dict.fromkeys(left_out))
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        texts.append(f"Not drawn: {', '.join(names[:4]) if more else listed(names)}{more}; choose with of=.")
        drawing.text(0, drawing.height + 24, texts[-1], color=QUIET)
    caption = caption_of([stage for chain, *_ in ways.values() for stage in chain.stages], scrambled)
    return Picture(svg=drawing.svg(), words="\n".join(texts), caption=caption, steps=steps if len(steps) > 1 else ())


def _num_tokens(recording: Recording) -> int | None:
    """How many tokens there are, told by the first tensor that went in: (token, width) with axes before it."""
    first = next((tensor for tensor in recording.arguments if tensor.dim() > 1), None)
    return None if first is None else first.shape[-2]


def _followed(chain: Chain, meaning: Meaning, follow: int | Sequence[int] | None) -> int:
    """The number to outline: as asked for, else of the second head and the fourth token, or the nearest there is."""
    first = chain.sources[0]
    if isinstance(follow, Sequence):
        if len(follow) != len(first.shape) or not all(
            0 <= index < size for index, size in zip(follow, first.shape, strict=True)
        ):
            raise ValueError(
                f"follow={tuple(follow)} is no index of the first tensor, {first.shape}: give one an axis."
            )
        return int(first.numbers[tuple(follow)])
    if follow is not None:
        if not 0 <= follow < len(meaning.head):
            raise ValueError(f"follow={follow} is no number of the tensor: choose 0 to {len(meaning.head) - 1}.")
        return follow
    wanted = (meaning.sample == 0) & (meaning.head == min(1, meaning.num_heads - 1)) & (meaning.place == 0)
    candidates = wanted.nonzero().flatten().tolist() or [0]
    return candidates[min(3, len(candidates) - 1)]


def _idea(ways: dict[tuple, list[Chain]]) -> str:
    ops = list(dict.fromkeys(stage.op for chain, *_ in ways.values() for stage in chain.stages))
    return f"What {listed(ops)} {'does' if len(ops) == 1 else 'do'}"


def _origin(chain: Chain) -> str:
    where = chain.stages[-1].step.where
    of_file = "" if where.startswith("cell:") or not where else f" of {where.split(':')[0]}"
    return f"Drawn from a recorded run{of_file}."


def _draw_way(
    chain: Chain, meaning: Meaning, words: Sequence[str], number: int, name: str = "", *, whole: bool = True
) -> Drawing:
    """The panels of a chain with arrows between them, going on in a new line where the width ends; then memory."""
    stages = (*chain.sources, *chain.stages)
    panels = [cut_into_blocks(stage, meaning, words) for stage in stages]
    lines: list[Drawing] = []
    header = header_of(panels)
    for index, (stage, panel) in enumerate(zip(stages, panels, strict=True)):
        drawn = draw_panel(panel, meaning, number, header, with_code=whole)
        arrow = ARROW if index >= len(chain.sources) else 0
        if not lines or lines[-1].width + GAP + arrow + drawn.width > WIDTH:
            lines.append(Drawing())
        line = lines[-1]
        x = ceil(line.width) + GAP if line.width else 0
        if arrow:
            line.arrow(x, header + 2 * STEP, arrow - 14, stage.op, stage.effect)
        line.place(drawn, x + arrow, 0)
    drawing = Drawing()
    if name:
        drawing.text(0, 13, name, size=14, bold=True)
    drawing.place(stack(lines, gap=16), 0, 22 if name else 0)
    memory = draw_memory(chain, meaning, words, number) if whole else Drawing()
    if memory.width:
        drawing.place(memory, 0, drawing.height + 18)
    return drawing


def _fold_outs(chain: Chain, meaning: Meaning, words: Sequence[str], number: int, before: int) -> list[Picture]:
    """One picture a step: the tensor before it, the tensor after it."""
    pictures = []
    stages = [*chain.sources[:1], *chain.stages]
    for index, (one, two) in enumerate(pairwise(stages), start=1):
        sources = chain.sources if index == 1 else (one,)
        part = Chain(sources, (two,))
        caption, text = step_in_words(part, meaning, words, number)
        drawing = _draw_way(part, meaning, words, number, whole=False)
        pictures.append(Picture(svg=drawing.svg(), words=text, caption=f"Step {before + index}: {caption}"))
    return pictures
