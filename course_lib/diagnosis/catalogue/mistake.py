"""What is known of one mistake."""

from enum import Enum, IntEnum
from typing import NamedTuple


class Step(IntEnum):
    """The steps of attention, in the order in which they are computed."""

    INPUT, PROJECTION, HEADS, NORM, POSITION, CACHE, SHARING, PRODUCT = range(8)
    SCALE, CAP, BIAS, MASK, FILL, SOFTMAX, VALUES, MERGE, OUTPUT, ANY = range(8, 18)


class Symptom(Enum):
    """In what a mistake shows."""

    BEHAVIOUR = "what any code does: what it returns, draws, writes into or mixes"
    NUMBERS = "the scores, weights and outputs of one run"
    PIECES = "the same where tokens come in pieces, with a cache"
    PATHS = "another way through the same code, which should agree with the plain one"
    TEXT = "no number: a name that says something else, or what nothing reads"
    ELSEWHERE = "another device, dtype, size or mode, while the numbers of the plain run are right"


Effects = tuple[str | Step | Symptom, ...]
# What is measured from scores, weights and outputs, and so means nothing if they are not those of attention.
MEASURED: Effects = (Symptom.NUMBERS, Symptom.PIECES, Symptom.PATHS, Symptom.TEXT)
# What keys that are missing from a cache, or are not those of this text, look like.
LOST_KEYS: Effects = (
    *(Step.PROJECTION, Step.HEADS, Step.SHARING, Step.PRODUCT, Step.FILL, Step.VALUES, Step.MERGE),
    *("causal-top-left", "mask-off-by-one", "rotary-wrong-turn"),
)
# What code looks like in which no change reaches the output.
UNMOVED: Effects = ("weights-not-applied", "heads-averaged", "output-projection-missing")


class Origin(NamedTuple):
    """What decides which of several findings is the cause.

    Attributes:
        step: where in the computation a mistake is made; `ANY` for what no step makes alone.
        effects: what else is found because of it: ids, or all mistakes of a step or symptom.
        symptom: in what it shows.
    """

    step: Step = Step.ANY
    effects: Effects = ()
    symptom: Symptom = Symptom.NUMBERS


class Mistake(NamedTuple):
    """An entry of the catalogue.

    Attributes:
        id: its name everywhere, such as "mask-discarded".
        title: one sentence that says what is wrong.
        explanation: three sentences: what the code does, what it should do, why nobody notices.
        shows: what one sees of it from outside, after a test that finds it where one is needed.
        seen: where it was met in the wild, or which code invites it.
        hint: a question that leads to it without giving it away.
        lesson: number of the lesson that teaches it.
        origin: what decides whether it is a cause or an effect.
    """

    id: str
    title: str
    explanation: str
    shows: str
    seen: str
    hint: str
    lesson: str
    origin: Origin = Origin()
