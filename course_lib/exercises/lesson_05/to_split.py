"""From the wrapper to the weight split."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from course_lib.attention import MultiHeadAttention, MultiHeadAttentionWrapper
from course_lib.attention.convert import wrapper_to_split
from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
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
    wrong="""
torch.cat([head.state_dict()[name] for head in wrapper.heads]) => torch.stack([head.state_dict()[name] for head in wrapper.heads], 1).flatten(0, 1)
    a module whose heads' rows are interleaved: a head is a block of rows
    ? After `view(b, t, num_heads, head_dim)`, which columns, and so which rows of the matrix, are head 0?
in wrapper.heads]) => in [wrapper.heads[0]] * wrapper.num_heads])
    a module all of whose heads are head 0 [heads-share-weights]
in wrapper.heads]) => in [wrapper.heads[-1]] * wrapper.num_heads])
    a module all of whose heads are the last one: each turn of the loop writes over the others [heads-share-weights]
torch.cat([head.state_dict()[name] for head in wrapper.heads]) => torch.stack([head.state_dict()[name] for head in wrapper.heads]).mean(0).repeat(wrapper.num_heads, 1)
    a module whose heads are the mean of all [heads-averaged]
split.load_state_dict(state) => state["k_proj.weight"] = state["q_proj.weight"]; split.load_state_dict(state)
    a module whose keys were given the queries' weights [projection-reused]
split.load_state_dict(state) => state["v_proj.weight"] = state["k_proj.weight"]; split.load_state_dict(state)
    a module whose values were given the keys' weights [projection-reused]
split.load_state_dict(state) => state["v_proj.weight"] = state["q_proj.weight"]; split.load_state_dict(state)
    a module whose values were given the queries' weights [projection-reused]
split.load_state_dict(state) => state["q_proj.weight"], state["k_proj.weight"] = state["k_proj.weight"], state["q_proj.weight"]; split.load_state_dict(state)
    a module whose queries and keys are exchanged
    ? Which role goes where?
wrapper.out_proj.weight} => wrapper.out_proj.weight.T}
    a module whose W^O is transposed: both sides are equally wide, so nothing fails
    ? Both modules hold W^O as an `nn.Linear`. Does it need a transpose?
state = {"out_proj.weight": wrapper.out_proj.weight} => state = {} && load_state_dict(state) => load_state_dict(state, strict=False)
    a module whose W^O was forgotten: it is as it was drawn when the module was made
    ? How many matrices does the wrapper have besides those of its heads?
return split => split.causal = False; return split
    a module with the right weights that is not causal [no-causal-mask]
    ? May a token of the wrapper attend to later ones?
d_out, wrapper.num_heads) => d_out, 1)
    a module with the right weights in a single head
    ? How many heads does the wrapper have, and who tells that to the new module?
""",
    extract=_parts,
)
