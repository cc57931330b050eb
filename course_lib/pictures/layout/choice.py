"""Choose the layout steps of a recording that are drawn."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import Recording
from course_lib.tracing import storage_of

from .path import LayoutPath, path_of_tensor, paths_of

WEIGHING = {"masked_fill", "masked_fill_", "softmax", "dropout", "where"}  # operations on scores and weights


def origins_of(came_from: Tensor | Recording | Sequence[Tensor | Recording]) -> list[LayoutPath]:
    """Return the paths that a recording may continue, from the tensor or the recordings before it, in their order."""
    paths: list[LayoutPath] = []
    for origin in came_from if isinstance(came_from, (list, tuple)) else [came_from]:
        if isinstance(origin, Tensor):
            paths.append(path_of_tensor(origin))
        elif isinstance(origin, Recording):
            paths += paths_of(origin, paths)
        else:
            raise TypeError(
                f"origin must be a tensor, a Recording or several of them, got {type(origin).__name__}: give the "
                "tensor that the elements came from, or the recordings before this one."
            )
    return paths


def choose(
    recording: Recording, of: str | Sequence[str] | None, num_tokens: int | None, origins: Sequence[LayoutPath] = ()
) -> list[LayoutPath]:
    """Return the paths to draw; ValueError if there are none, a name is unknown, or none continues an origin."""
    paths = paths_of(recording, origins)
    if not paths:
        raise ValueError(
            f"recording has no step that changes a layout (it has {len(recording.all_steps)} steps in all): there is "
            "nothing to draw."
        )
    chosen = [path for path in paths if _is_worth_drawing(path, num_tokens, recording)] or paths
    if of is not None:
        chosen = _named([of] if isinstance(of, str) else of, paths)
    if origins and not any(path.origin for path in chosen):
        raise ValueError(
            "origin holds none of the elements whose layout changes here, or they can't be told apart: record on a "
            "tensor that came out of it, and give the recordings in between as well."
        )
    return chosen


def _named(wanted: Sequence[str], paths: Sequence[LayoutPath]) -> list[LayoutPath]:
    selected: list[LayoutPath] = []
    for name in wanted:
        named = [path for path in paths if name in (state.title for state in path.all_states)]
        if not named:
            names = ", ".join(dict.fromkeys(state.title for path in paths for state in path.all_states))
            raise ValueError(f"of={name!r} names no tensor whose layout changes: choose from {names}.")
        selected += [path for path in named if not any(path is other for other in selected)]
    return selected


def _is_worth_drawing(path: LayoutPath, num_tokens: int | None, recording: Recording) -> bool:
    """Exclude masks, parameters, scores and single elements, whose layout changes too but which carry no heads."""
    inputs = {storage_of(argument) for argument in recording.arguments}
    for source in path.sources:
        is_mask = source.step is not None and source.step.dtype == torch.bool
        is_parameter = source.step is None and source.memory not in inputs  # a parameter or a buffer
        if len(source.shape) < 2 or is_mask or is_parameter:
            return False
    if not any(state.shape[-2:] == (num_tokens, num_tokens) for state in path.all_states):
        return True
    # (query, key), unless the heads happen to be as wide as there are tokens: the operations on it decide.
    last = path.states[-1].step
    after = {recording.all_steps[number].op for number in last.users} if last else set()
    return not (WEIGHING & after or WEIGHING & {source.op for source in path.sources})


def title_of(path: LayoutPath) -> str:
    """Return the first name that the code gives to one of a path's tensors."""
    named = [state.step.name for state in path.states if state.step and state.step.name]
    return named[0] if named else path.sources[0].title
