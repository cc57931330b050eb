"""Little stories in a language of our own, of which every fact is known."""

from .kept import facts_kept
from .language import KINDS, Fact, Story, joined, stories, words

__all__ = ["KINDS", "Fact", "Story", "facts_kept", "joined", "stories", "words"]
