"""How wrong a model's predictions are."""

from course_lib.exercises.function_exercise import FunctionExercise


def next_token_loss(scores, tokens):
    # (batch, token, vocabulary), (batch, token) of integers -> a number
    said = scores[:, :-1].log_softmax(dim=-1)  # nothing follows the last token
    right = said.gather(-1, tokens[:, 1:, None])  # (b, t - 1, v) -> (b, t - 1, 1)
    return -right.mean()


EXERCISE = FunctionExercise(
    next_token_loss,
    title="How wrong a prediction is",
    difficulty=2,
    minutes=6,
    prompt=(
        "After each token a model scores all tokens of its vocabulary: `scores` is (batch, token, vocabulary), and "
        "softmax makes probabilities of them. The loss is the mean of -log(probability of the token that really came "
        "next), over all tokens that have a next one. Return it as a tensor with a single number. A model is trained "
        "with it, so gradients must get back to `scores`. Scores of 1000 must not overflow, and a token whose score "
        "lies 1000 below the others adds about 1000, not infinity."
    ),
    hints=(
        "The scores at token t predict the token at t + 1. For which tokens is there nothing to compare with?",
        "Drop the last scores and the first token. `log_softmax(dim=-1)` is safe for large scores.",
        "`F.cross_entropy` wants (n, vocabulary) and (n): `scores[:, :-1].flatten(0, 1)` and "
        "`tokens[:, 1:].flatten()`.",
    ),
    inputs={"tokens": lambda rng, batch, token, vocabulary: rng.integers(vocabulary, batch, token)},
    std=1.5,
    special={
        "the scores are about 1000": {"scores": lambda scores: scores + 1000.0},
        "the scores of a token are thousands apart": {"scores": lambda scores: 1000.0 * scores},
    },
    arguments={"scores": "batch token vocabulary", "tokens": "batch token"},
    axes="loss",
    fixed="token vocabulary",
    gradients=("scores",),
    trained=True,
    wrong="""
[:, :-1] => [:] && [:, 1:, None] => [:, :, None]
    a loss against the token itself, not the next one
    ? Which token do the scores at token 0 predict?
[:, :-1] => [:, 1:] && [:, 1:, None] => [:, :-1, None]
    a loss against the token before
    ? Which token do the scores at token 1 predict?
[:, :-1] => [:] && tokens[:, 1:, None] => tokens.roll(-1, 1)[:, :, None]
    a loss in which the last token of each text predicts the first: `roll` brings it round
    ? Which token has no next one, and what does your code compare its scores with?
right.mean => right.sum
    the sum over the predictions; the mean is asked for
    ? What happens to your loss when the text gets twice as long?
-right.mean() => right.mean()
    the mean log-probability, without the minus: a loss falls as the model gets better
    ? Which sign has the logarithm of a probability?
said. => scores.
    the mean score of the right token with the other sign; softmax is missing
    ? Where do the scores of the other tokens enter?
-scores[:, :-1].softmax(-1).gather(-1, tokens[:, 1:, None]).mean()
    minus the mean probability of the right token; the logarithm is missing
    ? What is asked for after the probability?
-scores[:, :-1].softmax(-1).gather(-1, tokens[:, 1:, None]).log().mean()
    the logarithm of softmax: a probability below 2e-324 is stored as 0, and log(0) is infinite
    ? Which function takes softmax and logarithm in one step?
right(scores.softmax(-1), tokens)
    a loss with softmax taken twice: `cross_entropy` takes it of what it is given [double-softmax]
    ? What does `cross_entropy` take: scores, or probabilities?
result / math.log(2)
    a loss in bits, with the logarithm to base 2
    ? To which base does your logarithm belong?
-scores.log_softmax(1)[:, :-1].gather(-1, tokens[:, 1:, None]).mean()
    a loss with softmax over the tokens, not over the vocabulary
    ? Over which axis do the probabilities have to add up to 1?
""",
)
