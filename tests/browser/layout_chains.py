"""Random lines of layout calls, and what PyTorch makes of each: what the figure's small tensor must equal."""

import random
from itertools import chain

import torch

NAMES = {"batch": 1, "t": 6, "num_heads": 2, "head_dim": 3}
SLIPS = [
    ".view(t / 2, -1)",
    ".view()",
    ".transpose(0)",
    ".permute(0, (1,))",
    ".movedim(0, (1,))",
    ".flatten(end=1)",
    ".view(t // 0)",
]
REFUSALS = (RuntimeError, IndexError, TypeError, ZeroDivisionError)


class EinopsError(RuntimeError):
    """What einops raises."""


def groups_of(side):
    """Read one side of a pattern: "b (h d)" as [["b"], ["h", "d"]]; a 1 is a group without names."""
    groups, opened = [], None
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            opened = []
        elif word == ")":
            groups.append(opened)
            opened = None
        else:
            names = [] if word == "1" else [word]
            opened.extend(names) if opened is not None else groups.append(names)
    return groups


def rearrange(tensor, pattern, **given):
    """Do what einops 0.8 does: reshape where axes are split, permute, reshape where axes are joined."""
    left, right = (groups_of(side) for side in pattern.split("->"))
    axes, order = ([*chain(*groups)] for groups in (left, right))
    is_valid = sorted(axes) == sorted(order) and len({*axes}) == len(axes) and {*given} <= {*axes}
    if not is_valid or len(left) != tensor.dim():
        raise EinopsError(pattern)
    sizes = dict(given)
    for group, size in zip(left, tensor.shape, strict=True):
        unknown, known = [name for name in group if name not in given], 1
        for name in group:
            known *= given.get(name, 1)
        if len(unknown) > 1 or known < 1 or size % known or (not unknown and size != known):
            raise EinopsError(pattern)
        sizes |= dict.fromkeys(unknown, size // known)
    if any(len(group) != 1 for group in left):
        tensor = tensor.reshape([sizes[name] for name in axes])
    if axes != order:
        tensor = tensor.permute([axes.index(name) for name in order])
    if any(len(group) != 1 for group in right):
        joined = [torch.Size([sizes[name] for name in group]).numel() for group in right]
        tensor = tensor.reshape(joined)
    return tensor


def written(group):
    """Write one group of a pattern."""
    return group[0] if len(group) == 1 else f"({' '.join(group)})" if group else "1"


class Author:
    """Writes lines of code, most of which PyTorch accepts."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def start(self):
        """Return a tensor whose numbers are their slots: permuted or not, cut out of a longer memory or not."""
        shape = [self.draw.choice([1, 1, 2, 2, 3, 4, 6]) for _ in range(self.draw.randint(1, 4))] + [2]
        longer = [size + self.draw.choice([0, 0, 0, 1]) for size in shape]
        x = torch.arange(torch.Size(longer).numel()).view(longer)
        for axis, size in enumerate(shape):
            x = x.narrow(axis, longer[axis] - size, size)
        return x if self.draw.random() < 0.5 else x.permute(self.draw.sample(range(x.dim()), x.dim()))

    def sizes(self, count):
        """Return sizes whose product is `count`, one of them perhaps -1, and sometimes a size that does not fit."""
        sizes = []
        while count > 1 and len(sizes) < 4:
            size = self.draw.choice([size for size in range(1, count + 1) if count % size == 0])
            sizes.append(size)
            count //= size
        sizes.insert(self.draw.randint(0, len(sizes)), count)
        for chance, other in ((0.25, -1), (0.04, -1), (0.03, 5), (0.02, 0), (0.01, -2)):
            if self.draw.random() < chance:
                sizes[self.draw.randrange(len(sizes))] = other
        return sizes

    def axis(self, x):
        return self.draw.randint(-x.dim() - (self.draw.random() < 0.05), x.dim() - (self.draw.random() > 0.05))

    def number(self, value):
        """Write a size by its number or by what equals it."""
        others = [*(name for name, size in NAMES.items() if size == value), f"{2 * value} // 2", f"({value} + 1) - 1"]
        return self.draw.choice(others) if self.draw.random() < 0.2 else str(value)

    def several(self, values):
        text = ", ".join(map(self.number, values))
        return self.draw.choice([text, text, f"({text},)", f"[{text}]"])

    def pattern(self, x):
        """Write a call of rearrange: most axes kept, some split or joined."""
        names, given = iter("abcdefghijklmnopqrstuvwxyz"), {}
        left = []
        for size in x.shape:
            if size == 1 and self.draw.random() < 0.3:
                left.append([])
            elif self.draw.random() < 0.4:
                group = [next(names), next(names)]
                given[self.draw.choice(group)] = self.draw.choice([1, 2, 3, size])
                left.append(group)
            else:
                left.append([next(names)])
        order = self.draw.sample([*chain(*left)], sum(map(len, left)))
        if self.draw.random() < 0.03:
            order = order[1:]
        right, rest = [], list(order)
        while rest:
            count = self.draw.choice([1, 1, 2])
            right.append(rest[:count])
            rest = rest[count:]
        if self.draw.random() < 0.2:
            right.append([])
        sides = (" ".join(map(written, side)) for side in (left, right))
        return f'"{" -> ".join(sides)}"' + "".join(f", {name}={size}" for name, size in given.items())

    def call(self, x):
        """Write one call on a tensor."""
        axes = self.draw.sample(range(x.dim()), x.dim())
        if self.draw.random() < 0.08:
            axes[0] = axes[-1]
        two = f"{self.axis(x)}, {self.axis(x)}"
        split = self.axis(x)
        size = x.shape[split] if -x.dim() <= split < x.dim() else 2
        return self.draw.choice([
            f".view({self.several(self.sizes(x.numel()))})",
            f".view({self.several(self.sizes(x.numel()))})",
            f".reshape({self.several(self.sizes(x.numel()))})",
            f".permute({self.several(axes)})",
            f".transpose({two})",
            f".swapaxes({two})",
            f".transpose(dim1={self.axis(x)}, dim0={self.axis(x)})",
            f".movedim({two})",
            f".movedim({axes[:2]}, {self.draw.sample(range(x.dim()), min(2, x.dim()))})",
            f".flatten({self.draw.choice(['', str(self.axis(x)), two, f'start_dim={self.axis(x)}'])})",
            f".unflatten({split}, ({', '.join(map(self.number, self.sizes(size)))},))",
            ".contiguous()",
            self.draw.choice([".mT", ".mT", *SLIPS]),
        ])  # fmt: skip

    def line(self, x):
        """Write a line of up to four calls on x; the first that is refused ends it."""
        line = "x"
        for _ in range(self.draw.randint(1, 4)):
            if torch.is_tensor(x):
                pattern = self.draw.random() < 0.12
                form = f"rearrange(%s, {self.pattern(x)})" if pattern else f"%s{self.call(x)}"
                line, x = form % line, answer(form % "x", x)
        return line


def answer(line, x):
    """Return PyTorch's result of a line, or the name of the exception that it raises."""
    try:
        return eval(line, {"x": x, "rearrange": rearrange, **NAMES})
    except REFUSALS as error:
        return type(error).__name__


def chains(count, seed):
    """Return [{line, start, answer}], ready to be given to a page."""
    author, made = Author(seed), []
    for _ in range(count):
        x = author.start()
        line = author.line(x)
        value = answer(line, x)
        layout = {"shape": [*x.shape], "strides": [*x.stride()], "offset": x.storage_offset()}
        start = {**layout, "slots": x.untyped_storage().nbytes() // x.element_size()}
        expected = value
        if torch.is_tensor(value):
            expected = [[*value.shape], [*value.stride()], value.is_contiguous(), value.flatten().tolist()]
        made.append({"line": line, "start": start, "expected": expected})
    return made
