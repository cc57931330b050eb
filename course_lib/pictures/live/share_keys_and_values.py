"""Share keys and values: from a kv head for each query head to one for all, and what that saves and costs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from course_lib.attention import GroupedQueryAttention, KVCache
from course_lib.pictures.picture import Picture
from course_lib.pictures.sharing.kv_sharing import draw_kv_sharing

from .figure import Figure

TITLE = "Why share keys and values?"
WIDTH = 64  # of the storyteller, for the picture
FORMS = {"multi-head": 4, "grouped-query": 2, "multi-query": 1}  # kv heads of the picture
SHARING = "weight split", "grouped-query", "multi-query"  # forms of the trained storyteller
COUNTS = "kept", "said"  # of facts, in the stories that it writes
MEASURED = (  # of models like the published ones, by others
    "Ainslie et al. (2023) write that one set of keys and values “can lead to quality degradation”, and that groups "
    "come close to multi-head attention."
)


class Model(NamedTuple):
    """The sizes of a model's attention.

    Attributes:
        name: What it is called.
        layers: Layers with a cache of their own.
        heads: Query heads.
        kv_heads: Its own number of kv heads; None if it comes with several.
        head_dim: Width of a key or value.
        dtype: Of the cache.
        tokens: Length of a text.
    """

    name: str
    layers: int
    heads: int
    kv_heads: int | None
    head_dim: int
    dtype: torch.dtype = torch.bfloat16
    tokens: int = 4096


PUBLISHED = (
    Model("Llama 2 7B", 32, 32, 32, 128),
    Model("Llama 3 8B", 32, 32, 8, 128),
    Model("Qwen2.5 7B", 28, 28, 4, 128),
    Model("PaLM 540B", 118, 48, 1, 256),
)


def share_keys_and_values() -> Figure:
    """Return the figure in which a reader chooses the number of kv heads, of our storyteller or of a published model.

    It shows which query heads read which kv head, the bytes that are kept and read, beside them the facts that the
    trained storytellers keep in each of three trainings, and what published models chose.

    Example:
        >>> share_keys_and_values().save("share_keys_and_values.html")
        PosixPath('share_keys_and_values.html')
    """
    storyteller, facts = _storyteller()
    models = [_options(storyteller, facts), *(_options(model, {}) for model in PUBLISHED)]
    return Figure(TITLE, ("share_keys_and_values.js",), {"models": models, "measured": MEASURED}, _picture())


def cache_bytes(model: Model, kv_heads: int, tokens: int) -> int:
    """Return the bytes of a model's caches, if it had this number of kv heads."""
    cache = KVCache(1, kv_heads, tokens, model.head_dim, dtype=model.dtype, device="meta")
    return model.layers * cache.nbytes


def _options(model: Model, facts: Mapping[int, Sequence[float]]) -> dict[str, Any]:
    """Return a model with the numbers for each count of kv heads that divides its heads."""
    counts = [count for count in range(model.heads, 0, -1) if model.heads % count == 0]
    options = [
        {
            "kvHeads": count,
            "token": cache_bytes(model, count, 1),
            "step": cache_bytes(model, count, model.tokens),
            "facts": facts.get(count, []),
        }
        for count in counts
    ]
    return {"name": model.name, "heads": model.heads, "own": model.kv_heads, "tokens": model.tokens, "options": options}


def _storyteller() -> tuple[Model, dict[int, list[float]]]:
    """Return our small model, and by kv heads the percentage of facts that its stories keep in each training."""
    from course_lib.stories import KINDS, TRAINED, new_storyteller  # it draws with these pictures, too

    card = json.loads((TRAINED / "card.json").read_text(encoding="utf-8"))
    models = {form: new_storyteller(form) for form in SHARING}
    caches = {form: (model.new_caches() or [])[0] for form, model in models.items()}
    facts: dict[int, list[float]] = {}
    for form, cache in caches.items():
        runs = [[sum(run[of].get(kind, 0) for kind in KINDS) for of in COUNTS] for run in card[form]["seeds"]]
        facts[cache.keys.shape[1]] = sorted(round(100 * kept / said, 1) for kept, said in runs)
    model, keys = models[SHARING[0]], caches[SHARING[0]].keys
    sizes = (len(model.blocks), model.options["num_heads"], None, keys.shape[-1], keys.dtype)
    return Model("Storyteller", *sizes, tokens=100), facts


def _picture() -> Picture:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        heads = FORMS["multi-head"]
        modules = {form: GroupedQueryAttention(WIDTH, WIDTH, heads, kv_heads) for form, kv_heads in FORMS.items()}
        return draw_kv_sharing(modules, torch.randn(1, 6, WIDTH))
