"""Exchange what one head found by that of another run."""

from course_lib.exercises.function_exercise import FunctionExercise

from .ablate_head import LAYER, with_means


def patch_head(contexts, others, w_o, head):
    # 2 x (batch, head, token, d), (d_out, head * d), int -> (b, t, d_out)
    patched = contexts.clone()
    patched[:, head] = others[:, head]
    merged = patched.transpose(1, 2).flatten(2)  # (b, h, t, d) -> (b, t, h * d)
    return merged @ w_o.T


EXERCISE = FunctionExercise(
    patch_head,
    title="Exchange what one head found",
    difficulty=2,
    minutes=5,
    prompt=(
        "Activation patching: `contexts` is what the heads of a layer found in one run, `others` what they found in "
        "another, both (batch, head, token, head_dim). Give back the layer's output, (batch, token, d_out), for the "
        "first run, but with head number `head` taken from the other one. `w_o` is (d_out, head * head_dim). Leave "
        "`contexts` as it is."
    ),
    hints=(
        "Nearly everything is the first run. Which slice comes from the other?",
        "`others[:, head]` is (batch, token, head_dim). Write it into a copy of `contexts`, not into the argument.",
        "`patched = contexts.clone()`, `patched[:, head] = others[:, head]`, then merge the heads and multiply by "
        "`w_o.T`.",
    ),
    inputs={**LAYER, "contexts": with_means, "others": "batch num_heads token head_dim"},
    also=({"head": 0}, {"head": lambda num_heads: num_heads - 1}),
    least={"head": 0},
    arguments={
        "contexts": "batch head token head_dim",
        "others": "batch head token head_dim",
        "w_o": "d_out head*head_dim",
    },
    axes="batch token d_out",
    wrong="""
patched[:, head] = others[:, head] => pass
    the output of the first run: nothing was exchanged
    ? Where does `others` enter?
patched. => others.
    the output of the other run: all heads were exchanged
    ? Which heads stay as they were?
right(others, contexts, w_o, head)
    the other run with one head of the first: the two runs are exchanged
    ? Which run gives one head, and which gives the rest?
= others[:, head] => += others[:, head]
    the output with the head of both runs added
    ? What is left of the first run's head?
= others[:, head] => = (contexts[:, head] + others[:, head]) / 2
    the output with the mean of both runs in the head's place
    ? What is left of the first run's head?
others[:, head] => 0.0
    the output with zeros in the head's place: that is an ablation
    ? Where does `others` enter?
others[:, head] => others[:, head].mean(dim=(0, 1))
    the output with the other run's mean in the head's place
    ? Which token of the other run belongs to which token of this one?
right(contexts, others, w_o, (head + 1) % contexts.shape[1])
    the output with the next head exchanged
    ? From what number are the heads counted?
others[:, head] @ w_o[:, head * contexts.shape[-1]:(head + 1) * contexts.shape[-1]].T
    what the exchanged head alone gives to the output
    ? What became of the other heads?
""",
)
