"""Random programs with an interpreter of their own: what a trace says of a run, found by running it again."""

import copy
import random

import torch

SHAPE = (2, 3)
NEW = {
    "mul": torch.mul,
    "add": torch.add,
    "hypot": torch.hypot,
    "sin": lambda a, b: a.sin(),
    "flip": lambda a, b: a.flip(1),
    "roll": lambda a, b: a.roll(1, 0),
}
SHARED = {
    "view": lambda a, b: a.view(SHAPE),
    "add_": lambda a, b: a.add_(b),
    "mul_": lambda a, b: a.mul_(1.5),
    "copy_": lambda a, b: a.copy_(b),
}


class Program:
    """Instructions (name, first, second) on x, two constants and the results so far; each is one ATen operation.

    Args:
        seed: of the instructions and the constants.
        length: number of instructions.
        in_place: whether instructions may share and change memory, that of x and of the constants too.
    """

    def __init__(self, seed, length=12, *, in_place=False):
        rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self.constants = [torch.rand(SHAPE, dtype=torch.float64, generator=generator) for _ in range(2)]
        names = [*NEW, *(SHARED if in_place else ())]
        numbers = [index + 3 for index in range(length)]
        self.instructions = [(rng.choice(names), rng.randrange(n), rng.randrange(n)) for n in numbers]

    def fresh(self):
        """The same program on constants that no run has changed."""
        return copy.deepcopy(self)

    def __call__(self, x):
        return self.results(x)[-1]

    def results(self, x, *, before=None, after=None):
        """The results; `before[i]` changes the first argument of instruction i, `after[i]` its result."""
        tensors = [x, *self.constants]
        for index, (name, first, second) in enumerate(self.instructions):
            argument = (before or {}).get(index, lambda tensor: tensor)(tensors[first])
            result = (NEW | SHARED)[name](argument, tensors[second])
            tensors.append((after or {}).get(index, lambda tensor: tensor)(result))
        return tensors[3:]
