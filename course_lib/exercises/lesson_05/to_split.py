"""From the wrapper to the weight split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.attention import MultiHeadAttention, MultiHeadAttentionWrapper
from course_lib.attention.convert import wrapper_to_split
from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def to_split(wrapper):  # MultiHeadAttentionWrapper -> MultiHeadAttention
    d_in = wrapper.heads[0].q_proj.in_features
    d_out = wrapper.num_heads * wrapper.head_dim
    split = MultiHeadAttention(d_in, d_out, wrapper.num_heads)
    state = {"out_proj.weight": wrapper.out_proj.weight}
    for name in ("q_proj.weight", "k_proj.weight", "v_proj.weight"):
        # h x (d, m) -> (h * d, m)
        state[name] = torch.cat([head.state_dict()[name] for head in wrapper.heads])
    split.load_state_dict(state)
    return split


ROLES = ("q_proj", "k_proj", "v_proj")
SETTINGS = ("num_heads", "causal", "dropout")  # with the weights they decide the output


def _changed(change: Callable[[dict[str, Tensor]], object]) -> Callable[..., MultiHeadAttention]:
    """Return a wrong conversion, which changes the weights after the right one."""

    def convert(wrapper: MultiHeadAttentionWrapper) -> MultiHeadAttention:
        split = wrapper_to_split(wrapper)
        with torch.no_grad():
            change(dict(split.named_parameters()))
        return split

    return convert


def _restack(stack: Callable[[list[Tensor]], Tensor]) -> Callable[..., MultiHeadAttention]:
    """Return a conversion that stacks the heads' matrices, each (head_dim, d_in), in another way."""

    def convert(wrapper: MultiHeadAttentionWrapper) -> MultiHeadAttention:
        split = wrapper_to_split(wrapper)
        with torch.no_grad():
            for role in ROLES:
                matrix = split.get_parameter(f"{role}.weight")
                matrix.copy_(stack([getattr(head, role).weight for head in wrapper.heads]))
        return split

    return convert


def _overwrite(target: str, source: str) -> Callable[..., MultiHeadAttention]:
    return _changed(lambda weights: weights[f"{target}.weight"].copy_(weights[f"{source}.weight"]))


def _exchange(weights: dict[str, Tensor]) -> None:
    queries = weights["q_proj.weight"].clone()
    weights["q_proj.weight"].copy_(weights["k_proj.weight"])
    weights["k_proj.weight"].copy_(queries)


def _transpose_output(weights: dict[str, Tensor]) -> None:
    matrix = weights["out_proj.weight"]
    matrix.copy_(matrix.T.clone())


def _built(wrapper: MultiHeadAttentionWrapper, num_heads: int | None = None) -> MultiHeadAttention:
    """Return a new module of the wrapper's sizes."""
    right = wrapper_to_split(wrapper)
    d_in, d_out = right.q_proj.in_features, right.num_heads * right.head_dim
    return MultiHeadAttention(d_in, d_out, num_heads or right.num_heads)


def _roles_alone(wrapper: MultiHeadAttentionWrapper) -> MultiHeadAttention:
    split = _built(wrapper)
    right = wrapper_to_split(wrapper).state_dict()
    split.load_state_dict(right | {"out_proj.weight": split.state_dict()["out_proj.weight"]})
    return split


def _not_causal(wrapper: MultiHeadAttentionWrapper) -> MultiHeadAttention:
    split = wrapper_to_split(wrapper)
    split.causal = False
    return split


def _one_head(wrapper: MultiHeadAttentionWrapper) -> MultiHeadAttention:
    split = _built(wrapper, num_heads=1)
    split.load_state_dict(wrapper_to_split(wrapper).state_dict())
    return split


def _parts(result: Any, wrapper: MultiHeadAttentionWrapper) -> tuple[Any, ...]:
    """Return all that a module's output depends on; what comes from the sandbox holds its state and its settings."""
    kind = "dict" if isinstance(result, dict) else getattr(result, "kind", type(result).__name__)
    if kind != MultiHeadAttention.__name__:
        raise TypeError(f"it should give back a MultiHeadAttention, and gives back a {kind}")
    module: Any = result
    sent = hasattr(module, "settings")
    state = module.state if sent else module.state_dict()
    settings = module.settings if sent else vars(module)
    names = [f"{role}.weight" for role in (*ROLES, "out_proj")]
    if missing := [name for name in names if name not in state]:
        raise TypeError(f"its module has no `{missing[0]}`")
    if more := [name for name in state if name not in names]:
        raise TypeError(f"its module has `{more[0]}`, and should be without bias, as the wrapper is")
    weights = _in_order([state[name].detach() for name in names], wrapper)
    return (*weights, *(settings[name] for name in SETTINGS))


def _in_order(weights: list[Tensor], wrapper: MultiHeadAttentionWrapper) -> list[Tensor]:
    """Return the right weights if these are, but for the order of the heads, W^O's columns with them; else these."""
    right = wrapper_to_split(wrapper)
    wanted = [right.get_parameter(f"{role}.weight").detach() for role in (*ROLES, "out_proj")]
    if [one.shape for one in weights] != [one.shape for one in wanted]:
        return weights
    own, other = (_by_queries(one, wrapper.num_heads) for one in (weights, wanted))
    return wanted if all(map(torch.equal, own, other)) else weights


def _by_queries(weights: list[Tensor], num_heads: int) -> list[Tensor]:
    """Sort the heads by their queries' weights."""
    heads = [one.unflatten(0, (num_heads, -1)) for one in (*weights[:3], weights[3].T)]  # (h, d, m)
    return [one[heads[0].sum((1, 2)).argsort()] for one in heads]


WRAPPER = """
import torch
from course_lib.attention import MultiHeadAttentionWrapper

def wrapper(d_in, d_out, num_heads, *weights):
    made = MultiHeadAttentionWrapper(d_in, d_out, num_heads)
    with torch.no_grad():
        for parameter, weight in zip(made.parameters(), weights, strict=True):
            parameter.copy_(weight)
    return made
"""


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    *rows, (many, width, narrow) = rng.size_rows(4, 3, 2, 7)
    for heads, head_dim, d_in in [*rows, (1, width, narrow), (many, 1, narrow)]:
        d_out = heads * head_dim
        shapes = [*[(head_dim, d_in)] * (3 * heads), (d_out, d_out)]
        weights = [rng.normal(*shape).float() for shape in shapes]
        about = f"the wrapper has {heads} heads of {head_dim} and d_in={d_in}"
        cases.append(Case((FromSource(WRAPPER, "wrapper", (d_in, d_out, heads, *weights)),), about))
    return cases


EXERCISE = FunctionExercise(
    to_split,
    title="From the wrapper to the weight split",
    difficulty=3,
    minutes=15,
    prompt=(
        "Take the course's wrapper apart and build a `MultiHeadAttention` that gives the same output. The "
        "wrapper has `heads`, each with `q_proj`, `k_proj` and `v_proj`, and an `out_proj`; it is causal and has no "
        "bias. `MultiHeadAttention(d_in, d_out, num_heads)` is causal and without bias, too; its matrices are "
        "`q_proj.weight`, `k_proj.weight`, `v_proj.weight` and `out_proj.weight`."
    ),
    hints=(
        "Build `MultiHeadAttention(d_in, d_out, num_heads)` with the right sizes first. The wrapper knows `num_heads` "
        "and `head_dim`, and an `nn.Linear` knows its sizes: `wrapper.heads[0].q_proj.in_features` is `d_in`.",
        "`wrapper.heads[i].q_proj.weight` is (head_dim, d_in): in the wide matrix they lie one below the other, "
        "`torch.cat([head.q_proj.weight for head in wrapper.heads])`. W^O is carried over as it is.",
        'Collect the four matrices in a dict with the names of the parameters as keys, `"q_proj.weight"` and so on to '
        '`"out_proj.weight"`, and give it to `split.load_state_dict(...)`. (Or, under `torch.no_grad()`, one by one: '
        "`split.q_proj.weight.copy_(matrix)`.)",
    ),
    draw=_draw,
    axes="q_proj.weight k_proj.weight v_proj.weight out_proj.weight num_heads causal dropout",
    wrong=(
        Wrong(
            "a module whose heads' rows are interleaved: a head is a block of rows",
            _restack(lambda rows: torch.stack(rows, 1).flatten(0, 1)),
            hint="After `view(b, t, num_heads, head_dim)`, which columns, and so which rows of the matrix, are head 0?",
        ),
        Wrong(
            "a module all of whose heads are head 0",
            _restack(lambda rows: torch.cat(rows[:1] * len(rows))),
            "heads-share-weights",
        ),
        Wrong(
            "a module all of whose heads are the last one: each turn of the loop writes over the others",
            _restack(lambda rows: torch.cat(rows[-1:] * len(rows))),
            "heads-share-weights",
        ),
        Wrong("a module with its heads in reverse order", _restack(lambda rows: torch.cat(rows[::-1]))),
        Wrong(
            "a module whose heads are the mean of all",
            _restack(lambda rows: torch.cat([torch.stack(rows).mean(0)] * len(rows))),
            "heads-averaged",
        ),
        Wrong(
            "a module whose keys were given the queries' weights", _overwrite("k_proj", "q_proj"), "projection-reused"
        ),
        Wrong(
            "a module whose values were given the keys' weights", _overwrite("v_proj", "k_proj"), "projection-reused"
        ),
        Wrong(
            "a module whose values were given the queries' weights", _overwrite("v_proj", "q_proj"), "projection-reused"
        ),
        Wrong("a module whose queries and keys are exchanged", _changed(_exchange), hint="Which role goes where?"),
        Wrong(
            "a module whose W^O is transposed: both sides are equally wide, so nothing fails",
            _changed(_transpose_output),
            hint="Both modules hold W^O as an `nn.Linear`. Does it need a transpose?",
        ),
        Wrong(
            "a module whose W^O was forgotten: it is as it was drawn when the module was made",
            _roles_alone,
            hint="How many matrices does the wrapper have besides those of its heads?",
        ),
        Wrong(
            "a module with the right weights that is not causal",
            _not_causal,
            "no-causal-mask",
            hint="May a token of the wrapper attend to later ones?",
        ),
        Wrong(
            "a module with the right weights in a single head",
            _one_head,
            hint="How many heads does the wrapper have, and who tells that to the new module?",
        ),
    ),
    extract=_parts,
)
