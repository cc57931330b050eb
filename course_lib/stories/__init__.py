"""A language of little stories of which every fact is known, and small models that learn to speak it."""

from .exchange import with_attention, with_selected_keys, with_shared_keys, with_window
from .forms import FORMS, TRAINED, file_of, load_storyteller, new_storyteller, save_weights
from .language import KINDS, Fact, Story, joined, stories, words
from .measured import Speed, facts_kept, read_held_out, sure_by_distance, tokens_per_second
from .page import save_page
from .storyteller import MakeAttention, Storyteller, sinusoids

__all__ = [
    "FORMS", "KINDS", "TRAINED", "Fact", "MakeAttention", "Speed", "Story", "Storyteller", "facts_kept", "file_of",
    "joined", "load_storyteller", "new_storyteller", "read_held_out", "save_page", "save_weights", "sinusoids",
    "stories", "sure_by_distance", "tokens_per_second", "with_attention", "with_selected_keys", "with_shared_keys",
    "with_window", "words",
]  # fmt: skip
