"""Attention without anything to learn: each token takes from those that are like it."""

from course_lib.exercises.function_exercise import FunctionExercise


def attend_by_likeness(embeddings, sharpness):
    # (token, width), a number -> (token, width)
    scores = sharpness * embeddings @ embeddings.T  # (query, key)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ embeddings


EXERCISE = FunctionExercise(
    attend_by_likeness,
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
    std=0.4,  # so that exp of a score is a number
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
sharpness * embeddings => 4 * embeddings
    attention with scores multiplied by 4, whatever the sharpness is
    ? Where does your code use `sharpness`?
embeddings.T => embeddings.T / embeddings.shape[1] ** 0.5
    attention with scores divided by the root of the width, which nobody asked for here [wrong-scale]
    ? What are the scores multiplied by here, and by nothing else?
((embeddings / embeddings.norm(dim=1, keepdim=True)) @ (embeddings / embeddings.norm(dim=1, keepdim=True)).T * sharpness).softmax(1) @ embeddings
    attention with the cosine of two tokens in place of their dot product
    ? Are the vectors divided by their lengths somewhere?
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
