"""Every reshape and transpose of a recorded run as a picture."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.pictures.checks import check_highlight
from course_lib.pictures.coordinates import Coordinates, Legend
from course_lib.pictures.picture import Picture
from course_lib.recorder import Recording
from course_lib.wording import listed

from .choice import choose, origins_of, title_of
from .panel import Panel
from .path import LayoutPath
from .path_coordinates import coordinates_of
from .scene import LayoutScene, PathScene

MOST_PATHS = 6  # tensors that are drawn; the others are named
HIGHLIGHTED_TOKEN = 3


def layout_steps(
    recording: Recording,
    *,
    words: Sequence[object] | None = None,
    of: str | Sequence[str] | None = None,
    num_heads: int | None = None,
    highlight: Sequence[int] | None = None,
    origin: Tensor | Recording | Sequence[Tensor | Recording] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw what a run did to the order of elements: each layout step as tables of cells, heads by colour and name.

    Cells are numbered in the reading order of the tensor with which a path of steps begins. The numbers pass
    through the very calls that were recorded, so the picture shows what the code did, not what it was meant to do: an
    axis that runs through tokens and heads at once is marked as mixed. Below is the memory, slot by slot.
    The steps fold out one by one.

    Args:
        recording: a result of `course_lib.recorder.record`.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        of: names, as in the code, of the tensors whose paths are drawn; if None, every path that starts at a computed
            tensor, equal paths once.
        num_heads: how many heads the width holds; read from the shapes of the steps if None.
        highlight: index of the element to outline in the tensor with which its path begins, such as (0, 3, 2); an
            element of the second head if None.
        origin: what the recording continues, so that each element keeps its number: the tensor in whose order the
            elements are numbered, or the earlier recordings in their order. An element is recognized by its slot of a
            shared memory, or by its value if the values are all different.
        title: the title above the drawing.

    Raises:
        ValueError: If recording has no layout step, none of its tensors has a name in of, highlight is not an index of
            the first tensor, or none of the drawn elements came from origin.
        TypeError: If recording isn't a Recording, or origin is neither a Recording nor a tensor.

    Example:
        >>> recording = record(lambda q: q.view(1, 6, 2, 2).transpose(1, 2), torch.arange(24.0).view(1, 6, 4))
        >>> layout_steps(recording).description.splitlines()[1]
        'Then .view(1, 6, 2, 2): no element moves. Now shape (1, 6, 2, 2), stride (24, 4, 2, 1): its axes count ...'
    """
    if not isinstance(recording, Recording):
        raise TypeError(
            f"recording must be a Recording, got {type(recording).__name__}: make one with record(module, x)."
        )
    labels = tuple(str(word) for word in words or ())
    origins = [] if origin is None else origins_of(origin)
    num_tokens = len(labels) or _num_tokens(recording if origin is None else origin)
    same: dict[tuple, list[LayoutPath]] = {}  # queries and values often follow the same path, drawn once
    for layout_path in choose(recording, of, num_tokens, origins):
        same.setdefault(layout_path.key, []).append(layout_path)
    alike = list(same.values())
    drawn = alike if of else alike[:MOST_PATHS]
    paths = []
    for group in drawn:
        path, name = group[0], listed(dict.fromkeys(map(title_of, group)))
        coordinates = coordinates_of(path, num_heads, num_tokens)
        legend = Legend(coordinates, labels, _highlighted(path, coordinates, highlight))
        sources, states = ([Panel.of(state, legend) for state in part] for part in (path.sources, path.states))
        paths.append(PathScene(path, legend, name, sources, states))
    left_out = list(dict.fromkeys(title_of(group[0]) for group in alike[len(drawn) :]))
    scene = LayoutScene(paths, left_out, _file(drawn[0][0]), title or _title(paths))
    return Picture.of(scene, scene.steps())


def _highlighted(path: LayoutPath, coordinates: Coordinates, highlight: Sequence[int] | None) -> int:
    """Return the element at an index of the first tensor; if None, one near the second head and the fourth token."""
    if highlight is not None:
        first = path.sources[0]
        return int(first.elements[check_highlight(highlight, first.shape, "the first tensor")])
    elements = torch.cat([source.elements.flatten() for source in path.sources]).unique()
    second = coordinates.head[elements] == min(1, coordinates.num_heads - 1)
    wanted = elements[second & (coordinates.sample[elements] == 0) & (coordinates.column[elements] == 0)].tolist()
    return wanted[min(HIGHLIGHTED_TOKEN, len(wanted) - 1)] if wanted else 0


def _num_tokens(begun_with: Tensor | Recording | Sequence[Tensor | Recording]) -> int | None:
    """Return the number of tokens in the first tensor with several axes, as the size of axis -2."""
    first = begun_with if isinstance(begun_with, (Tensor, Recording)) else begun_with[0]
    tensors = first.arguments if isinstance(first, Recording) else (first,)
    return next((tensor.shape[-2] for tensor in tensors if tensor.dim() > 1), None)


def _title(paths: Sequence[PathScene]) -> str:
    ops = list(dict.fromkeys(panel.state.op for path in paths for panel in path.states))
    return f"What {listed(ops)} {'does' if len(ops) == 1 else 'do'}"


def _file(path: LayoutPath) -> str:
    step = path.states[-1].step
    where = step.where if step else ""
    return "" if where.startswith("cell:") else where.split(":")[0]
