"""The path through torch.compile, which takes seconds and is therefore run only if it is asked for."""

from collections.abc import Iterator

import torch

from .model import Model
from .outcome import Outcome
from .path import compare, path


@path("compiled")
def compiled(model: Model) -> Iterator[Outcome]:
    """Run it as torch.compile captures it, without the code that a compiler would write (backend "aot_eager")."""
    torch.compiler.reset()
    module = model.copy()
    module.compile(backend="aot_eager")
    yield from compare(model, "compiled", module, {})
