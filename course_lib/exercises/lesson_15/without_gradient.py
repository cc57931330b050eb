"""A probe for what is never used."""

from __future__ import annotations

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def without_gradient(module, x, token):
    # a module, its input, int -> a list of names such as "k_proj.weight"
    module(x)[:, token].square().sum().backward()
    parameters = module.named_parameters()
    return [name for name, one in parameters if one.grad is None or not one.grad.any()]


def _as_names(result: object, *_: object) -> object:
    if not isinstance(result, (list, tuple, set, dict)):
        return result
    other = next((type(name).__name__ for name in result if not isinstance(name, str)), None)
    if other:
        raise TypeError(f"it should hold names such as 'k_proj.weight', and holds a {other}")
    return tuple(sorted(str(name) for name in result))


MODULE = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, projections):
        super().__init__()
        for name, weight in projections:
            linear = nn.Linear(*weight.shape, bias=False, device="meta")
            linear.weight = nn.Parameter(weight)
            self.add_module(name, linear)

    def forward(self, x):
        queries, keys, values = {q}, {k}, {v}
        scores = queries @ keys.transpose(1, 2) * queries.shape[-1] ** -0.5
        keep = torch.ones(scores.shape[-2:]).tril().bool()
        x = scores.masked_fill(~keep, -torch.inf).softmax(-1) @ values
        return {out}
"""

# How a projection of x may contribute: it does, it is never called, or its output is multiplied by zero.
USED, UNUSED, ZEROED = "self.{name}(x)", "x", "(x + 0.0 * self.{name}(x))"
PARTLY = "(x + (torch.arange(x.shape[-1]) > 0) * self.{name}(x))"  # row 0 of its weight gets no gradient
EARLY = "(x + (torch.arange(x.shape[1]) < 1)[:, None] * self.{name}(x))"  # it counts at token 0 only
LATE = "(x + (torch.arange(x.shape[1]) == x.shape[1] - 1)[:, None] * self.{name}(x))"  # at the last token only
LATER_SAMPLES = "(x + (torch.arange(len(x)) > 0)[:, None, None] * self.{name}(x))"  # not in the first one
CANCELS = "(x + self.{name}(x)[..., :1] - self.{name}(x)[..., 1:2])"  # the sum over its gradient is exactly 0
TINY = "(x + 1e-9 * self.{name}(x))"  # its gradient is small and not zero


def _draw(rng: InputGenerator) -> list[Case]:
    states = [
        [USED] * 4,
        rng.shuffled([UNUSED, USED, USED, USED]),
        rng.shuffled([ZEROED, USED, USED, USED]),
        rng.shuffled([PARTLY, USED, USED, USED]),
        rng.shuffled([TINY, TINY, ZEROED, USED]),
    ]
    states += [rng.shuffled([UNUSED, ZEROED, USED, rng.choice([USED, UNUSED, ZEROED])]) for _ in range(3)]
    for called in (USED, USED, ZEROED):  # one at least is called: `backward` fails where no parameter contributes
        states.append(rng.shuffled([called, *(rng.choice([USED, USED, UNUSED, ZEROED]) for _ in range(3))]))
    states += [[USED, USED, USED, EARLY], [USED, USED, USED, LATE], [USED, USED, USED, LATER_SAMPLES]]
    states.append([USED, USED, USED, CANCELS])
    cases = []
    for number, state in rng.shuffled(list(enumerate(states))):
        batch, tokens, width = rng.sizes(3, 2, 8)
        names = [f"{rng.choice(['linear', 'projection', 'map', 'mix'])}_{at}" for at in rng.sizes(4, 0, 99)]
        terms = [term.format(name=name) for term, name in zip(state, names, strict=True)]
        source = MODULE.format(**dict(zip(("q", "k", "v", "out"), terms, strict=True)))
        weights = [(name, rng.normal(width, width, std=width**-0.5)) for name in rng.shuffled(names)]
        unused, zeroed = state.count(UNUSED), state.count(ZEROED)
        token = 0 if number == 0 or LATE in state or CANCELS in state else 1 + rng.integer(tokens - 1)
        about = f"{unused} of its 4 layers are never called, {zeroed} are multiplied by zero, "
        about += f"{state.count(TINY)} by 1e-9, and token={token}"
        about += "; of one layer, an output is multiplied by zero" if PARTLY in state else ""
        about += "; an output counts at the first token only" if EARLY in state else ""
        about += "; an output counts at the last token only" if LATE in state else ""
        about += "; an output counts in all samples but the first" if LATER_SAMPLES in state else ""
        x = rng.normal(batch, tokens, width)
        if CANCELS in state:
            about += "; a gradient has elements that add up to 0"
            x = (8 * x).round() / 8  # so that no sum is rounded
            weights = [(name, (8 * weight).round() / 8) for name, weight in weights]
        module = FromSource(source, "Attention", (weights,))
        cases.append(Case((module, x, token), about))
    return cases


EXERCISE = FunctionExercise(
    without_gradient,
    title="A probe for what is never used",
    difficulty=3,
    minutes=3,
    prompt=(
        "The output of a module is (batch, token, width). Which of its parameters get no gradient, or one that is all "
        "zeros, if the loss looks at the output of **one token** only, `module(x)[:, token]`? Give back the list of "
        "their names. A parameter of which only some rows get a gradient is not on the list."
    ),
    hints=(
        "`backward()` needs one number: `module(x)[:, token].square().sum()` makes it of the output of one token.",
        "`module.named_parameters()` gives names and parameters; `parameter.grad` is None where nothing arrived.",
        "A gradient can also be there and be zero: `parameter.grad.any()` says whether it is more than that.",
    ),
    draw=_draw,
    wrong="""
one.grad is None or not one.grad.any() => one.grad is not None and one.grad.any()
    the parameters that do get a gradient
    ? Which of the two lists is the suspicious one?
one.grad is None or not one.grad.any() => one.grad is None
    the parameters whose gradient is None: one that is all zeros teaches nothing, either
    ? What does a gradient of zeros change?
not one.grad.any() => one.grad.sum() == 0
    the parameters whose gradient adds up to zero: its elements may cancel out
    ? What is left of +5 and -5 in a sum?
one.grad.any => one.grad.all
    the parameters of which some rows get no gradient: the other rows are trained
    ? Is a parameter without gradient if a part of it gets one?
[]
    no parameter at all, whatever the module does
    ? Was `backward` called on its output?
one.grad is None or not one.grad.any() => True
    all parameters
    ? Was `backward` called before you looked?
[name for => [name.removesuffix('.weight') for
    the names of the submodules, not of the parameters
    ? What does `named_parameters` call them?
one.grad is None or => one.grad is not None and
    the parameters whose gradient is there and all zeros; None is no gradient, either
    ? What is `parameter.grad` where nothing arrived?
len(result)
    how many there are, not which
    ? What is asked for?
:, token => :
    the parameters that the outputs of all tokens together send no gradient to
    ? Where does your code use `token`?
[:, token] => [:, : token + 1]
    the parameters that the outputs of all tokens up to this one send no gradient to
    ? How many tokens does `[:, :token + 1]` select?
[:, token] => [0, token]
    the parameters that the first sample's output sends no gradient to
    ? Which axis holds the samples?
[:, token] => [:, token:]
    the parameters that the outputs of this and all later tokens send no gradient to
    ? How many tokens does `[:, token:]` select?
""",
    extract=_as_names,
)
