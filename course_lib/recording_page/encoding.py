"""Write which numbers each number came from in few characters."""

from collections.abc import Iterable, Sequence


def segments(positions: Sequence[int]) -> str:
    """Write sorted positions as runs with a constant step: [0, 1, 2, 10, 20] is "0*3 10,20", [0, 2, 4] is "0*3*2"."""
    texts: list[str] = []
    i = 0
    while i < len(positions):
        step = positions[i + 1] - positions[i] if i + 1 < len(positions) else 1
        j = i + 1
        while j < len(positions) and positions[j] - positions[j - 1] == step:
            j += 1
        if j - i < 3:
            texts.append(str(positions[i]))
            i += 1
            continue
        texts.append(f"{positions[i]}*{j - i}" + (f"*{step}" if step != 1 else ""))
        i = j
    return " ".join(texts)


def encode(rows: Iterable[tuple[Sequence[int], int]]) -> list:
    """Write rows of (positions, how many more aren't shown) as [different texts, the text's place for each row].

    Rows that are 0, 1, 2, ... are written as [].
    """
    texts = [segments(sorted(positions)) + (f" +{hidden}" if hidden else "") for positions, hidden in rows]
    if texts == [str(i) for i in range(len(texts))]:
        return []
    places = {text: position for position, text in enumerate(dict.fromkeys(texts))}
    return [list(places), [places[text] for text in texts]]
