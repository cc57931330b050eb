"""Each token's vector, blended with the mean of its sentence."""

from course_lib.exercises.function_exercise import FunctionExercise


def blend_with_mean(embeddings, share):
    # (token, width), a number from 0 to 1 -> (token, width)
    mean = embeddings.mean(dim=0)  # (width), the mean over all tokens
    own = (1 - share) * embeddings
    return own + share * mean


EXERCISE = FunctionExercise(
    blend_with_mean,
    title="Blend each vector with the mean",
    difficulty=1,
    minutes=2,
    prompt=(
        "Each token keeps a part of its own vector and takes the rest, `share`, from the mean of all vectors of the "
        "sentence. With share=0 nothing changes, and with share=1 each row is the mean."
    ),
    hints=(
        "`embeddings.mean(dim=0)` is the mean of all tokens; it has one number per column.",
        "Add (1 - share) times the embeddings and share times the mean. PyTorch adds the one mean to each row.",
    ),
    inputs={"share": [0.2, 0.3, 0.6, 0.9]},
    calls=4,
    arguments={"embeddings": "token width"},
    axes="token width",
    wrong="""
share * embeddings + (1 - share) * embeddings.mean(0)
    the blend with the two parts exchanged
    ? What should be left of a token's own vector with share=1?
(1 - share) * embeddings + share * embeddings.mean(1, keepdim=True)
    a blend with the mean of each token's own numbers
    ? Over which axis is the mean taken, and do the tokens ever meet there?
embeddings.mean(dim=0) => embeddings.mean()
    a blend with one mean of all numbers in the table
    ? `embeddings.mean()` is a single number. Over which `dim` do you get one for each column?
embeddings.mean => embeddings.sum
    a blend with the sum of all vectors instead of their mean
    ? What does a mean divide by?
1 - share => 1
    the whole vector plus a part of the mean
    ? Which part of its own vector does a token keep? The two parts should sum to 1.
(1 - share) * embeddings + share * (embeddings.sum(0) - embeddings) / (len(embeddings) - 1)
    a blend with the mean of the other tokens, without the token itself
    ? How many tokens is the mean taken over?
(embeddings + embeddings.mean(0)) / 2
    half of each, whatever the share is
    ? Where does your code use `share`?
embeddings.mean(0).expand_as(embeddings)
    the mean alone, which is the same for every token
    ? What does a token keep of its own vector?
""",
)
