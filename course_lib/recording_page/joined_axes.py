"""Name the axes after a view: axes that were joined or split, and what they are made of."""

import math
from collections.abc import Sequence

Part = tuple[str, int]  # the name of an axis and its size


def regrouped(shape: Sequence[int], names: Sequence[str], to: Sequence[int]) -> tuple[str, ...]:
    """Name the axes after a view, by what each axis is made of and how large each part is.

    A split feature gives head and feature. Of another axis that is split, "head" say, the pieces are called head group
    and head in group. Joined axes keep all names, and what was joined or split can be taken apart or put together
    again. An axis is called mixed if it runs on from the features of one token to the next token in other pieces.
    """
    parts = [part for name, size in zip(names, shape, strict=True) for part in parts_of(name, size)]
    result: list[str] = []
    i = j = 0
    while j < len(to):
        first, from_part = j, i
        if to[j] == 1:  # no piece of a larger axis, unless there is one head
            j += 1
            if i < len(parts) and parts[i][1] == 1:
                i += 1
                result += _of_group(parts[from_part:i], to[first:j])
            else:
                is_head = parts[i : i + 1] and parts[i][0] == "feature" and "head" not in result and j < len(to)
                result.append("head" if is_head else "")
            continue
        before = after = 1
        while before != after or after == 1:
            if after <= before and j < len(to):
                after *= to[j]
                j += 1
            elif i < len(parts):
                before *= parts[i][1]
                i += 1
            else:
                return ("",) * len(to)
        while i < len(parts) and parts[i][1] == 1 and (j == len(to) or to[j] != 1):
            i += 1  # what has size 1 goes with the axis before it, unless an axis of size 1 follows
        result += _of_group(parts[from_part:i], to[first:j])
    return tuple(result)


def _of_group(parts: Sequence[Part], to: Sequence[int]) -> list[str]:
    """Name the axes that consecutive parts were regrouped into."""
    known = {name for name, _ in parts}
    if len(to) == 1:
        return [joined(parts)]
    if "mixed" in known or {"token", "feature"} <= known:
        return ["mixed" if size > 1 else "" for size in to]
    if len(parts) == 1 and known == {"feature"}:
        return [*[""] * (len(to) - 2), "head", "feature"]
    result, left = [], list(parts)
    for size in to:
        taken: list[Part] = []
        while (need := size // math.prod(factor for _, factor in taken)) > 1 and left:
            name, length = left.pop(0)
            if length > need:
                if length % need or not name or "group" in name or name == "feature":
                    return [""] * len(to)
                left.insert(0, (f"{name} in group", length // need))
                name, length = f"{name} group", need
            elif need % length:
                return [""] * len(to)
            taken.append((name, length))
        result.append(joined(taken))
    return result


class Joined(str):
    """The name of an axis that joins several, which remembers them and their sizes."""

    parts: tuple[Part, ...]


def joined(parts: Sequence[Part]) -> str:
    """Return the name of an axis that some parts were joined to, "" if the name of one is unknown."""
    whole: list[Part] = []
    for name, size in parts:
        if whole and name.endswith(" in group") and whole[-1][0] == name.removesuffix("in group") + "group":
            name, size = name.removesuffix(" in group"), whole.pop()[1] * size
        whole.append((name, size))
    names = [name for name, size in whole if name or size != 1]
    if len(whole) < 2 or not all(names) or len(set(names)) < len(names) or "mixed" in names:
        return names[0] if len(set(names)) == 1 else "mixed" if "mixed" in names else ""
    shown = [name for name, after in zip(names, [*names[1:], ""], strict=True) if (name, after) != ("head", "feature")]
    result = Joined(" and ".join(shown))
    result.parts = tuple(part for part in whole if part[0])
    return result


def parts_of(name: str, size: int) -> tuple[Part, ...]:
    """Return the axes that an axis joins, each with its size; itself if it joins none, or was cut since then."""
    parts = getattr(name, "parts", ())
    return parts if math.prod(factor for _, factor in parts) == size and parts else ((str(name), size),)
