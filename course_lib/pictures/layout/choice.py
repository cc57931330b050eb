"""Which of a recording's layout steps are worth a picture."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from course_lib.recorder import Recording
from course_lib.recorder.call import storage_of

from .chains import Chain, chains_of

WEIGHING = {"masked_fill", "masked_fill_", "softmax", "dropout", "where"}  # what is done to scores and weights


def choose(recording: Recording, of: str | Sequence[str] | None, num_tokens: int | None) -> list[Chain]:
    """The chains that are drawn."""
    chains = chains_of(recording)
    if not chains:
        raise ValueError(
            f"recording has no step that changes a layout (it has {len(recording.all_steps)} steps in all): there is "
            "nothing to draw."
        )
    if of is None:
        told = [chain for chain in chains if _is_worth_telling(chain, num_tokens, recording)]
        return told or chains
    wanted = [of] if isinstance(of, str) else list(of)
    found = []
    for name in wanted:
        named = [chain for chain in chains if name in _names(chain)]
        if not named:
            names = ", ".join(dict.fromkeys(name for chain in chains for name in _names(chain)))
            raise ValueError(f"of={name!r} names no tensor whose layout changes: choose from {names}.")
        found += [chain for chain in named if not any(chain is other for other in found)]
    return found


def _names(chain: Chain) -> list[str]:
    return [stage.title for stage in (*chain.sources, *chain.stages)]


def _is_worth_telling(chain: Chain, num_tokens: int | None, recording: Recording) -> bool:
    """Masks, parameters, scores and single numbers are turned about too, but they don't carry heads."""
    given = {storage_of(argument) for argument in recording.arguments}
    for source in chain.sources:
        is_mask = source.step is not None and source.step.dtype == torch.bool
        is_own = source.step is None and source.memory not in given  # a parameter or a buffer
        if len(source.shape) < 2 or is_mask or is_own:
            return False
    stages = (*chain.sources, *chain.stages)
    if not any(stage.shape[-2:] == (num_tokens, num_tokens) for stage in stages):
        return True
    # (query, key), unless the heads happen to be as wide as there are tokens: what is done with it tells.
    after = {recording.all_steps[number].op for number in chain.stages[-1].step.users}
    before = {source.op for source in chain.sources}
    return not (after & WEIGHING or before & WEIGHING)


def title_of(chain: Chain) -> str:
    """What a chain is called: the first name that the code gives to one of its tensors."""
    named = [stage.step.name for stage in chain.stages if stage.step and stage.step.name]
    return named[0] if named else chain.sources[0].title
