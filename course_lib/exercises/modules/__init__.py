"""Judge modules by their outputs and gradients, whatever their parameters are called and however they are laid out."""

from .judge import ModuleJudge
from .sizes import Sizes, construction_sizes, run_sizes

__all__ = ["ModuleJudge", "Sizes", "construction_sizes", "run_sizes"]
