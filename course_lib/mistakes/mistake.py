"""What is known of one mistake."""

from collections.abc import Mapping
from enum import Enum, IntEnum
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent


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


class Family(Enum):
    """The tables of the book's list of mistakes, in their order: a heading, and what it is about."""

    MASKS = "Mistakes with masks: who may look at whom."
    SCORES = "Mistakes between queries and weights: what is compared, how it is scaled, where softmax runs."
    HEADS = "Mistakes with heads: cutting, keeping apart, sharing, merging."
    OUTPUTS = "Mistakes at the way out: the output projection, and what is returned."
    RUNNING = (
        "Mistakes that show only in other circumstances: training, other sizes, devices and types, positions, caches."
    )
    POSITIONS = "Mistakes around the product of queries and keys: rotations, biases, norms and caps."
    PATHS = "Mistakes that show on one path of several: with an option, a cache, a window or another kernel."


Effect = str | Step | Symptom
# What is measured from scores, weights and outputs, and so means nothing if they are not those of attention.
MEASURED: tuple[Effect, ...] = (Symptom.NUMBERS, Symptom.PIECES, Symptom.PATHS, Symptom.TEXT)
# What keys that are missing from a cache, or are not those of this text, look like.
LOST_KEYS: tuple[Effect, ...] = (
    *(Step.PROJECTION, Step.HEADS, Step.SHARING, Step.PRODUCT, Step.FILL, Step.VALUES, Step.MERGE),
    *("causal-top-left", "mask-off-by-one", "rotary-wrong-turn"),
)


class Origin(NamedTuple):
    """What decides which of several findings is the cause.

    Attributes:
        step: where in the computation a mistake is made; `ANY` for what no step makes alone.
        symptom: in what it shows.
        effects: what else is found because of it, each with the reason: ids, or all mistakes of a step or symptom.
    """

    step: Step = Step.ANY
    symptom: Symptom = Symptom.NUMBERS
    effects: Mapping[Effect, str] = {}


class ExceptionalCase(NamedTuple):
    """A case of the doctor's bank that holds the mistake and is not named, or not located, as the others are.

    Attributes:
        case: its name in tests/diagnosis/bank.
        said: the mistakes that the doctor names instead, None for a finding without a name; None if it names this one
            and points at another line.
        because: the reason.
    """

    case: str
    said: tuple[str | None, ...] | None
    because: str


class Mistake(NamedTuple):
    """An entry of the catalogue.

    Attributes:
        id: its name everywhere, such as "mask-discarded".
        title: one sentence that says what is wrong.
        explanation: three sentences: what the code does, what it should do, why nobody notices.
        shows: what one sees of it from outside, after a test that finds it where one is needed.
        seen: where it was met in the wild, or which code invites it.
        hint: a question that leads to it without giving it away.
        notices: what its author notices first, as one would type it into a search box.
        search: other words by which the book's search finds it.
        family: where the book lists it.
        lesson: number of the lesson that teaches it.
        section: the heading in that lesson, or None.
        origin: what decides whether it is a cause or an effect.
        exceptions: cases of the bank in which the doctor does not name or locate it.
    """

    id: str
    title: str
    explanation: str
    shows: str
    seen: str
    hint: str
    notices: tuple[str, ...]
    search: tuple[str, ...]
    family: Family
    lesson: str
    section: str | None
    origin: Origin
    exceptions: tuple[ExceptionalCase, ...]

    @property
    def example(self) -> Path:
        """The file with code that makes the mistake, and the lines to write instead."""
        return FOLDER / self.id / "example.py"
