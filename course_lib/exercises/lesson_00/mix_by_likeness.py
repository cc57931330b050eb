"""Attention without anything to learn: each token takes from those that are like it."""

from course_lib.exercises.function_exercise import FunctionExercise


def mix_by_likeness(embeddings, sharpness):
    # (token, width), a number -> (token, width)
    scores = sharpness * embeddings @ embeddings.T  # (query, key)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ embeddings


EXERCISE = FunctionExercise(
    mix_by_likeness,
    title="Mix by likeness",
    difficulty=2,
    minutes=4,
    prompt=(
        "Compare each token with each by a dot product and multiply these scores by `sharpness`; make attention weights "
        "of each row with softmax; mix the embeddings with these weights."
    ),
    hints=(
        "`embeddings @ embeddings.T` has the dot product of each pair of tokens, (query, key).",
        "`scores.softmax(dim=-1)` goes along the rows, and `weights @ embeddings` mixes: (query, key) @ (key, width).",
    ),
    inputs={"sharpness": [0.5, 2.0, 3.0]},
    calls=3,
    arguments={"embeddings": "token width"},
    axes="token width",
    wrong="""
dim=-1 => dim=0
    a mix whose softmax runs over the queries, so that no row has to sum to 1 [softmax-wrong-axis]
sharpness * embeddings => embeddings
    a mix whose scores are not multiplied by the sharpness
    ? Where does your code use `sharpness`?
sharpness * embeddings => embeddings / sharpness
    a mix whose scores are divided by the sharpness
    ? Does a larger sharpness make the weights more different, or less?
scores.softmax(dim=-1) => scores / scores.sum(dim=-1, keepdim=True)
    scores divided by their sum, without the exponential of a softmax [no-softmax]
scores.softmax(dim=-1) => scores
    scores in place of attention weights [no-softmax]
    ? What does each row of your weights sum to?
weights @ embeddings => weights
    the weights, before they are multiplied by the embeddings [weights-not-applied]
scores.softmax(dim=-1) => sharpness * (embeddings @ embeddings.T).softmax(dim=-1)
    weights multiplied by the sharpness after softmax; they no longer sum to 1
    ? Is the sharpness applied before softmax, or after it?
""",
)
