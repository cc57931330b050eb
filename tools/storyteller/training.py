"""Train one storyteller and measure it."""

from collections import Counter
from typing import NamedTuple

import torch

from course_lib.stories import FORMS, MakeAttention, Storyteller, facts_kept, read_held_out, stories

SEEDS = (0, 1, 2)
NUM_STORIES = 20_000  # that a model is trained on
TRAINING_SEED = 1
WRITTEN = 100  # stories that are read for the facts that they keep
TEMPERATURE = 0.7
LAST = 50  # steps of which the training loss is the mean


class Measured(NamedTuple):
    """What is said of a model.

    Attributes:
        training_loss: The mean of the last steps; None if it was not trained.
        loss: On stories that it has not read.
        sure: Kind of fact -> how sure it is of the right word, see `facts_kept`.
        kept: Kind of fact -> stories that keep it, of those that it wrote which say something of it.
        said: Kind of fact -> those stories.
        story: One of them.
    """

    training_loss: float | None
    loss: float
    sure: dict[str, float]
    kept: dict[str, int]
    said: dict[str, int]
    story: str


def trained(
    form: str, *, seed: int, attention: MakeAttention | None = None, rate: float = 1.0, steps: int | None = None
) -> tuple[Storyteller, float]:
    """A storyteller of a form, trained, and its training loss."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = Storyteller(attention or FORMS[form].attention, **FORMS[form].options)
    texts = [story.text for story in stories(NUM_STORIES, seed=TRAINING_SEED)]
    losses = model.train_on(texts, steps=steps or FORMS[form].steps, seed=seed, rate=rate)
    return model, sum(losses[-LAST:]) / LAST


def measured(
    model: Storyteller, training_loss: float | None = None, *, count: int = WRITTEN, use_cache: bool = True
) -> Measured:
    """Let a model write stories, and read them and what it says of others."""
    written = model.write_several(count, temperature=TEMPERATURE, seed=0, use_cache=use_cache)
    kept, said = Counter[str](), Counter[str]()
    for text in written:
        found: dict[str, bool] = facts_kept(text)
        kept += Counter({kind: int(is_kept) for kind, is_kept in found.items()})
        said += Counter(found.keys())
    return Measured(training_loss, *read_held_out(model), dict(kept), dict(said), written[0])
