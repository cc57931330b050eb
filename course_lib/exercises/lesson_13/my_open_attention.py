"""Attention that can be changed from outside."""

# pyright: reportGeneralTypeIssues=false
# whoever sets `edit` to a function does it from outside

import torch
from torch import nn

from course_lib.exercises.answer import Answer
from course_lib.exercises.answering import build_module, run_module
from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.differences import Expected, difference, equal
from course_lib.exercises.input_generator import InputGenerator
from course_lib.exercises.learner_error import LearnerError
from course_lib.exercises.module_exercise import ModuleExercise
from course_lib.exercises.verdict import Verdict, not_passed, stopped

PARTS = ("queries", "keys", "values")
# The factors are (head, token, head_dim): no two heads or tokens get the same change.
EDIT = """
def multiply(part, factors):
    def edit(queries, keys, values, /):
        parts = {"queries": queries, "keys": keys, "values": values}
        for name, tensor in parts.items():
            if tensor.shape[1:] != factors.shape:
                expected = (len(tensor), *factors.shape)
                raise ValueError(f"`edit` got {name} of the shape {tuple(tensor.shape)}; it should be {expected}")
        return [tensor * factors if name == part else tensor for name, tensor in parts.items()]

    return edit
"""


class MyOpenAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.head_dim = d_out // num_heads
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        self.edit = None  # or a function of queries, keys and values

    def to_heads(self, x):  # (b, t, h * d) -> (b, h, t, d)
        return x.unflatten(2, (-1, self.head_dim)).transpose(1, 2)

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        queries = self.to_heads(self.q_proj(x))
        # a copy for each head, so that one head's can be changed alone
        shared = self.num_heads // self.num_kv_heads
        keys = self.to_heads(self.k_proj(x)).repeat_interleave(shared, dim=1)
        values = self.to_heads(self.v_proj(x)).repeat_interleave(shared, dim=1)
        if self.edit:
            queries, keys, values = self.edit(queries, keys, values)
        # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
        scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
        hidden = torch.ones(scores.shape[-2:], device=x.device).triu(1).bool()
        context = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))


class OpenExercise(ModuleExercise):
    """A class that is also run with an `edit`, which changes one part in each head, token and element differently."""

    def _judge(self, answer: Answer, rng: InputGenerator) -> Verdict:
        verdict = super()._judge(answer, rng)
        if not verdict.passed:
            return verdict
        try:
            wrong = self._judge_edits(answer, rng)
            return verdict if wrong is None else wrong
        except LearnerError as error:
            return stopped(error, (self.name, answer.name), {}, ("`edit` was a function of three positions.",))

    def _judge_edits(self, answer: Answer, rng: InputGenerator) -> Verdict | None:
        sizes = (11, 12, 4, 2)  # heads of 3 elements
        module, right = answer.build(sizes, 0), build_module(self.solution, sizes, 0)
        weights = {name: rng.normal(*one.shape, std=0.4) for name, one in right.named_parameters()}
        if module.parameters.keys() != weights.keys():
            return None  # its own names: `filled` says that the lesson can't load weights into it
        x = rng.normal(5, 7, 11)
        plain, unheard, wrong = run_module(right, weights, (x,))["result"], [], {}
        for part in PARTS:
            edit = FromSource(EDIT, "multiply", (part, 1 + rng.normal(4, 7, 3)))
            expected = Expected(run_module(right, weights, (x,), edit=edit)["result"], axes="batch token d_out")
            result, again = module.run(weights, (x,), edit=edit).result, module.run(weights, (x,)).result
            if equal(result, plain):
                unheard.append(part)
            elif found := difference(result, expected):
                wrong[part] = found.sentence
            elif difference(again, expected):
                sentence = "The first call of `forward` uses `edit`, and the second one doesn't."
                return not_passed(sentence, hint="What does `forward` do with `self.edit` besides calling it?")
        if len(unheard) == len(PARTS):
            sentence = "`edit` was set to a function, and your output is what it was without."
            hint = "Does `forward` call `self.edit`, and go on with the three tensors that it returns?"
        elif unheard or wrong:
            part = (unheard or [*wrong])[0]
            does = "is what it was without" if unheard else "isn't what these give"
            sentence = f"`edit` changed the {part}, and your output {does}."
            hint = f"From which line on are the {part} those that `edit` returned?"
        else:
            return None
        return not_passed(sentence, evidence=(*wrong.values(),), hint=hint)


EXERCISE = OpenExercise(
    MyOpenAttention,
    title="Attention that can be changed from outside",
    difficulty=3,
    minutes=6,
    prompt=(
        "Causal grouped-query attention with `q_proj`, `k_proj`, `v_proj` and `out_proj`, without bias; consecutive "
        "query heads share a kv head. It has an attribute `edit`, None at first. If somebody sets it to a function, "
        "forward calls `edit(queries, keys, values)`, each (batch, head, token, head_dim) with as many heads as the "
        "queries have, and goes on with the three that it returns."
    ),
    hints=(
        "It is the class of lesson 06 with a copy of keys and values for each head, and one more line.",
        "`keys.repeat_interleave(num_heads // num_kv_heads, dim=1)` gives each query head its copy.",
        "`if self.edit: queries, keys, values = self.edit(queries, keys, values)`, before the scores.",
    ),
    stub="class MyOpenAttention(nn.Module): ...",
    kv_heads="any",
    wrong="""
masked_fill(hidden, -torch.inf) => masked_fill(hidden, -1e4)
    attention whose mask fills with -10000, which isn't below all scores
    ? Which number is smaller than any score?
masked_fill(hidden, -torch.inf) => masked_fill(hidden, 0.0)
    attention whose mask fills with 0 [mask-with-zero]
keys = self.to_heads(self.k_proj(x)).repeat_interleave(shared, dim=1) => keys = self.to_heads(self.k_proj(x)).repeat(1, shared, 1, 1)
    attention whose heads get the keys of other groups
    ? Which query heads share a kv head: neighbours, or every second one?
(queries * self.head_dim**-0.5) => queries
    attention without the scale [missing-scale]
""",
)
