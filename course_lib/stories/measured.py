"""How likely a model makes the facts of stories that it has never read, and how fast it writes."""

import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import KVCache, check_positive

from .kept import facts_kept_by
from .language import CHOICES, KINDS, PRONOUNS, Story, stories
from .storyteller import Storyteller, check_storyteller

HELD_OUT_SEED = 2_000_000  # of stories that no model is trained on
HELD_OUT = 500


class HeldOut(NamedTuple):
    """What a model makes of stories that it was not trained on.

    Attributes:
        loss: The mean of -log(probability of the right word).
        sure: Kind of fact -> how sure it is of the right word, see `facts_kept`.
    """

    loss: float
    sure: dict[str, float]


class Speed(NamedTuple):
    """How fast a model writes.

    Attributes:
        with_cache: Tokens per second; nan if its attention takes no cache.
        without_cache: Tokens per second, where each token is computed from all before it.
        bytes_per_token: Of keys and values that its caches keep of a token.
    """

    with_cache: float
    without_cache: float
    bytes_per_token: float


@overload
def facts_kept(subject: str) -> dict[str, bool]: ...


@overload
def facts_kept(subject: Storyteller, *, count: int = ...) -> dict[str, float]: ...


def facts_kept(subject: str | Storyteller, *, count: int | None = None) -> dict[str, bool] | dict[str, float]:
    """Measure which kinds of facts a text keeps, or how surely a model keeps them.

    A text keeps a kind if whatever it says of its facts is what it said first, and if it comes back to one of them at
    least once: to say nothing more of a fact is to lose it.

    A model reads stories that it was not trained on. Wherever they say a fact again, the probability that it gives to
    the right word is divided by that of all words that could stand there: of all animals, say, or of "she" and "he".

    Args:
        subject: A text in the course's language, or a storyteller.
        count: How many stories a model reads, 500 by default; a text is read alone.

    Returns:
        Of a text: kind -> whether it is kept, for the kinds of which it says something, and "sentence" -> whether every
        sentence is one of the language. Of a model: kind -> the mean over all such words.

    Raises:
        ValueError: A count below 1, or the count of a text.
        TypeError: What is no text and no storyteller, or a count that is no integer.
    """
    if isinstance(subject, str):
        if count is not None:
            raise ValueError(f"count is {count!r}, but a text is read alone: leave it out, or give a Storyteller")
        return facts_kept_by(subject)
    if not isinstance(subject, Storyteller):
        raise TypeError(f"facts_kept takes a text or a Storyteller, not a {type(subject).__name__}: give story.text")
    return read_held_out(subject, count=HELD_OUT if count is None else count).sure


@torch.no_grad()
def read_held_out(model: Storyteller, *, count: int = HELD_OUT) -> HeldOut:
    """Let a storyteller of the course's language read stories that it was not trained on."""
    found: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
    losses: list[Tensor] = []
    for story, logs, right in _read(model, count):
        losses.append(-logs[:-1].gather(1, right[:, None])[:, 0])
        for fact in story.facts:
            found[fact.kind] += [_sure(model, fact.kind, logs[at], int(right[at])) for at in fact.repeats]
    sure = {kind: float(torch.stack(values).mean()) for kind, values in found.items() if values}
    return HeldOut(float(torch.cat(losses).mean()), sure)


@torch.no_grad()
def sure_by_distance(model: Storyteller, kind: str, *, count: int = HELD_OUT) -> Tensor:
    """Measure how sure a model is of each fact that a held-out story comes back to, see `facts_kept`.

    Args:
        model: A storyteller of the course's language.
        kind: Of fact, such as "name".
        count: How many stories it reads.

    Returns:
        (repeat, 2): how many tokens before the last token that is read the right word was said last (infinity: never in
        this spelling), and the probability that the model gives to it.

    Raises:
        ValueError: A kind that there is not, or a count below 1.
        TypeError: What is no storyteller, or a count that is no integer.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}: choose one of {', '.join(KINDS)}")
    rows: list[list[float]] = []
    for story, logs, right in _read(model, count):
        for at in [at for fact in story.facts if fact.kind == kind for at in fact.repeats]:
            said = (right[:at] == right[at]).nonzero()  # right[i] is token i + 1; token `at` is the last that is read
            ago = at - 1 - int(said[-1]) if len(said) else math.inf
            rows.append([ago, float(_sure(model, kind, logs[at], int(right[at])))])
    return torch.tensor(rows).view(-1, 2)


def _read(model: Storyteller, count: int) -> Iterator[tuple[Story, Tensor, Tensor]]:
    """Yield held-out stories, log-probabilities, (t, v), of which row i predicts token i + 1, and tokens 1 to t - 1."""
    check_storyteller(model)
    check_positive(count=count)
    for story in stories(count, seed=HELD_OUT_SEED):
        tokens = model.encode(story.text)
        yield story, F.log_softmax(model(tokens)[0].float(), dim=-1).cpu(), tokens[0, 1:].cpu()


def _sure(model: Storyteller, kind: str, logs: Tensor, right: int) -> Tensor:
    among = torch.tensor([model.numbers[each] for each in alternatives(kind, model.vocabulary[right])])
    return (logs[right] - logs[among].logsumexp(0)).exp()


def alternatives(kind: str, word: str) -> Sequence[str]:
    """The words, itself among them, of which one is right where a fact says this word."""
    if kind != "pronoun":
        return CHOICES[KINDS[kind][0]]
    found = next(pair for pair in PRONOUNS.values() if word.lower() in pair)
    return [each.capitalize() if word[0].isupper() else each for each in found]


def tokens_per_second(model: Storyteller, *, num_tokens: int = 100, rounds: int = 3) -> Speed:
    """Measure how fast a storyteller writes, with a cache and without.

    Args:
        model: A storyteller, with any attention.
        num_tokens: How many tokens are written in a round, max_len at most.
        rounds: The median round counts.

    Raises:
        ValueError: A number below 1.
        TypeError: A number that is no integer, or a model that is no Storyteller.
    """
    check_storyteller(model)
    check_positive(num_tokens=num_tokens, rounds=rounds)
    caches = model.new_caches()
    num_tokens = min(num_tokens, model.max_len)

    def speed(use_cache: bool) -> float:
        times: list[float] = []
        for _ in range(rounds):
            start = time.perf_counter()
            list(model.generate(model.encode(""), num_tokens, use_cache=use_cache))
            times.append(time.perf_counter() - start)
        return num_tokens / sorted(times)[rounds // 2]

    return Speed(
        speed(True) if caches else float("nan"),
        speed(False),
        sum(map(_nbytes, caches)) / model.max_len if caches else 0.0,
    )


def _nbytes(cache: KVCache | nn.Module) -> int:
    """Bytes of a cache's memory: of the course's, or of a learner's, which is a module with buffers."""
    return sum(one.nbytes for one in cache.buffers()) if isinstance(cache, nn.Module) else cache.nbytes
