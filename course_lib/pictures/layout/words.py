"""The layout pictures in words, for who can't see them."""

from __future__ import annotations

from collections.abc import Sequence

from ..wording import listed
from .chains import EFFECTS, Chain, Stage
from .meaning import Meaning

COUNTS = {
    "sample": "samples",
    "token": "tokens",
    "head": "heads",
    "place": "numbers within a head",
    "width": "numbers, head after head",
}


def chain_in_words(chain: Chain, meaning: Meaning, words: Sequence[str], follow: int, name: str) -> str:
    """A whole chain: where it begins, what each step does, where the followed number goes."""
    sentences = [f"{name}. {_source_in_words(chain, meaning, words)}"]
    sentences += [_stage_in_words(stage, meaning) for stage in chain.stages]
    sentences.append(_journey(chain, meaning, words, follow))
    return "\n".join(sentences)


def step_in_words(chain: Chain, meaning: Meaning, words: Sequence[str], follow: int) -> tuple[str, str]:
    """A caption for one step, and the step in words."""
    before, after = chain.sources[0], chain.stages[0]
    change = f"shape {before.shape} to {after.shape}, stride {before.stride} to {after.stride}"
    if len(chain.sources) > 1:
        change = f"{len(chain.sources)} tensors of shape {before.shape} to one of {after.shape}"
    caption = f"{after.code}: {after.effect}; {change}"
    return caption, f"{_stage_in_words(after, meaning)} {_journey(chain, meaning, words, follow)}"


def caption_of(stages: Sequence[Stage], scrambled: bool) -> str:
    """What to see, in a sentence or two: what moved, what did not, and whether the order was lost."""
    views, copies = (
        list(dict.fromkeys(stage.op for stage in stages if stage.effect == EFFECTS[effect]))
        for effect in ("view", "copy")
    )
    text = f"{listed(views)} only change{'s' if len(views) == 1 else ''} how the same memory is read" if views else ""
    if copies:
        text += f"{'; ' if views else ''}{listed(copies)} copies the numbers to new memory"
    text = f"{text}." if copies else f"No number moves: {text}."
    return text + (" ✗ The result is scrambled: no axis counts tokens any more." if scrambled else "")


def _source_in_words(chain: Chain, meaning: Meaning, words: Sequence[str]) -> str:
    first = chain.sources[0]
    count = f"{len(chain.sources)} tensors" if len(chain.sources) > 1 else first.title
    text = f"Begins with {count} of shape {first.shape}, stride {first.stride}: {_axes(meaning.roles(first.numbers))}."
    return text + (f" The tokens are {', '.join(words)}." if words else "")


def _stage_in_words(stage: Stage, meaning: Meaning) -> str:
    roles = meaning.roles(stage.numbers)
    text = f"Then {stage.code}: {stage.effect}. Now shape {stage.shape}, stride {stage.stride}: {_axes(roles)}."
    if "scattered" in roles:
        axes = " and ".join(str(axis) for axis, role in enumerate(roles) if role == "scattered")
        text += f" This is scrambled: tokens change along axes {axes}, so no axis counts tokens."
    return text


def _axes(roles: Sequence[str]) -> str:
    """ "its axes count tokens, heads and numbers within a head": axes of size 1 are passed over."""
    counted = [COUNTS.get(role, "a mixture") for role in roles if role != "one"] or ["nothing"]
    return f"its axes count {'; '.join(counted)}" if len(counted) > 1 else f"its axis counts {counted[0]}"


def _journey(chain: Chain, meaning: Meaning, words: Sequence[str], follow: int) -> str:
    token = int(meaning.token[follow])
    word = words[token] if token < len(words) else f"token {token}"
    stops = []
    for stage in (*chain.sources, *chain.stages):
        found = (stage.numbers == follow).nonzero().tolist()
        if found:
            stops.append(f"{found[0]} of {stage.title} (slot {int(stage.slots[tuple(found[0])])})")
    whose = f"{word}, head {int(meaning.head[follow])}" if meaning.num_heads > 1 else word
    return f"Number {follow} ({whose}) stands at {', then at '.join(stops)}."
