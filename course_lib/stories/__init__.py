"""A language of little stories of which every fact is known, and small models that learn to speak it."""

from .exchange import with_attention
from .forms import FORMS, load_storyteller
from .kept import facts_kept
from .language import KINDS, Fact, Story, joined, stories, words
from .measured import Speed, fact_probabilities, tokens_per_second
from .page import save_page
from .storyteller import Storyteller

__all__ = [
    "FORMS",
    "KINDS",
    "Fact",
    "Speed",
    "Story",
    "Storyteller",
    "fact_probabilities",
    "facts_kept",
    "joined",
    "load_storyteller",
    "save_page",
    "stories",
    "tokens_per_second",
    "with_attention",
    "words",
]
