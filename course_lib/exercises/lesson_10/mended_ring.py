"""A rolling cache that gets several tokens at once, with its mistake corrected."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

GIVEN = """\
def broken_ring(ring, length, new):
    # (slot, d), int, (new, d) -> the keys that are needed, (needed, d), and the ring
    window = len(ring)
    ring = ring.clone()
    for index, key in enumerate(new):
        ring[(length + index) % window] = key
    # the first new token needs these besides itself
    earlier = range(max(0, length - window + 1), length)
    needed = [ring[position % window] for position in earlier]
    return torch.stack([*needed, *new]), ring"""


def mended_ring(ring, length, new):
    # (slot, d), int, (new, d) -> the keys that are needed, (needed, d), and the ring
    window = len(ring)
    # the first new token needs these besides itself
    earlier = range(max(0, length - window + 1), length)
    needed = [ring[position % window] for position in earlier]
    ring = ring.clone()
    for index, key in enumerate(new):
        ring[(length + index) % window] = key
    return torch.stack([*needed, *new]), ring


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for window, width, new in rng.size_rows(4, 3, 3, 8):
        for length, count in ((window + rng.integer(9), new), (2 * window + 1, 1), (window - 2, 2)):
            ring = rng.normal(window, width)
            ring[length:] = 0.0  # slots that no token has filled
            cases.append(Case((ring, length, rng.normal(count, width))))
    window, width = rng.sizes(2, 3, 8)
    cases.append(Case((torch.zeros(window, width).double(), 0, rng.normal(2, width)), "the ring is empty"))
    return rng.shuffled(cases[:-1]) + cases[-1:]


EXERCISE = FunctionExercise(
    mended_ring,
    title="Several tokens at once: find the mistake",
    difficulty=3,
    minutes=8,
    given=GIVEN,
    prompt=(
        "Slot `p % window` of `ring` holds the key of the token at position p, and `length` tokens have come so far. "
        "Now `new` tokens come in one piece. `broken_ring` should return the keys that they need, oldest first, which "
        "are the `window - 1` keys before the piece (fewer at the start of a text) and the piece itself, and the ring "
        "after the piece. It was tested with one new token at a time, and passed. Find the mistake, and write "
        "`mended_ring`, without it."
    ),
    hints=(
        "Try a ring of three slots that is full, and a piece of two tokens. Which keys does the first of them need, and "
        "what has happened to these by the time they are read?",
        "The last new token overwrites keys that the first one still needs.",
        "Read `needed` before the loop writes.",
    ),
    draw=_draw,
    least={"length": 0},
    arguments={"ring": "window width", "new": "new width"},
    axes="keys ring",
    fixed="window new",
    wrong="""
window = len(ring); ring = ring.clone(); [ring.__setitem__((length + index) % window, key) for index, key in enumerate(new)]; needed = [ring[position % window] for position in range(max(0, length - window + 1), length)]; return torch.stack([*needed, *new]), ring
    the keys as they are after the piece was written: the last new tokens have overwritten what the first ones need
    ? In which order are the slots read and written?
length - window + 1), length) => length - window), length)
    one key too many: the first new token's window would be window + 1 wide [window-off-by-one]
    ? The new token is one of the keys of its own window. How many others are there?
length - window + 1), length) => length - window + len(new)), length)
    the keys that the last new token needs, not those of the first
    ? Which of the new tokens reaches furthest back?
torch.stack([*needed, *new]) => torch.stack([*needed, *new])[-window:]
    the newest `window` keys alone: the first new tokens need older ones
    ? Which of the new tokens reaches furthest back?
torch.stack([*needed, *new]), ring => ring, ring
    the ring in place of the keys in their order
    ? How many keys do several new tokens need together, and in which order?
ring[(length + index) % window] = key => ring[index % window] = key
    a ring that is written from slot 0 on in each piece [positions-restart-in-cache]
    ? What is the position of the first new token?
""",
)
