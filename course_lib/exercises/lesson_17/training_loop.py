"""The loop that trains a model."""

import torch.nn.functional as F

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.function_exercise import FunctionExercise


def training_loop(model, batches, make_optimizer):
    # pairs of (batch, token) of integers -> the losses, a list of floats
    optimizer, losses = make_optimizer(model), []
    for inputs, targets in batches:
        scores, _ = model(inputs)  # (b, t, v)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


MODEL = """
import torch

def model_of(table, before):  # a stand-in for a GPT: a word's scores depend on it and on the one before
    parameters = [table.requires_grad_(), before.requires_grad_()]

    def model(tokens, caches=None):
        return table[tokens] + before[tokens.roll(1, 1)], None

    def zero_grad(set_to_none=True):
        table.grad = before.grad = None

    model.parameters, model.zero_grad = lambda: parameters, zero_grad
    model.train = model.eval = lambda *mode: model
    return model
"""
OPTIMIZER = """
import torch

def optimizer_of(rate):
    def make_optimizer(model):
        return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.5)

    make_optimizer(torch.nn.Linear(1, 1))  # the first in a process imports for seconds: before the clock runs
    return make_optimizer
"""
WORDS = 5


def _batches(rng, batch, token):
    pieces = [rng.integers(WORDS, batch, token + 1) for _ in range(4)]
    for at, each in enumerate(pieces):
        each[:at, -1] = -100  # each batch with another number of them
    return [(each[:, :-1], each[:, 1:]) for each in pieces]


EXERCISE = FunctionExercise(
    training_loop,
    title="The loop that trains a model",
    difficulty=3,
    minutes=4,
    prompt=(
        "`make_optimizer(model)` makes an optimizer. For each pair of `inputs` and `targets` in `batches`, which come "
        "once and in their order, compute the scores of the model (`scores, caches = model(inputs)`, with scores of "
        "(batch, token, vocabulary)), the mean cross-entropy with the targets and its gradients, and let the "
        "optimizer take one step. A target of -100 counts neither in the sum nor in the number of the mean. Return the "
        "losses as a list of floats, each from before its step."
    ),
    hints=(
        "For each batch: forward, loss, old gradients to zero, backward, step.",
        "`F.cross_entropy` wants a row of scores for each prediction: `scores.flatten(0, 1)` and `targets.flatten()`.",
        "`optimizer.zero_grad()`, `loss.backward()`, `optimizer.step()`, in this order; `loss.item()` is a float.",
    ),
    inputs={
        "model": lambda rng: FromSource(MODEL, "model_of", (rng.normal(WORDS, WORDS), rng.normal(WORDS, WORDS))),
        "batches": _batches,
        "make_optimizer": lambda: FromSource(OPTIMIZER, "optimizer_of", (0.9,)),
    },
    calls=3,
    axes="loss",
    wrong="""
optimizer.zero_grad() => pass
    the losses of a model whose gradients pile up from batch to batch
    ? What do the gradients of the last batch do in this one?
optimizer.step() => pass
    the losses of a model that never changes
    ? Which line moves the parameters, and are there gradients when it is their turn?
F.cross_entropy(scores.flatten(0, 1), targets.flatten()) => F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")
    the losses as a sum over the predictions
    ? Is the loss a sum or a mean?
F.cross_entropy(scores.flatten(0, 1), targets.flatten()) => F.cross_entropy(scores.flatten(0, 1), inputs.flatten())
    the losses of a model that learns to repeat the word that it reads
    ? Which of the two are the words to be predicted?
F.cross_entropy(scores.flatten(0, 1), targets.flatten()) => F.cross_entropy(scores.flatten(0, 1).softmax(-1), targets.flatten())
    the losses after softmax was applied twice
    ? `F.cross_entropy` takes scores. What has it done to them already?
targets.flatten()) => targets.flatten().clamp(min=0))
    the losses with 0 in place of each target of -100
    ? What does a target of -100 mean, and what does `F.cross_entropy` do with it by itself?
targets.flatten()) => targets.flatten(), reduction="sum") / targets.numel()
    the sum of the losses divided by all targets, although those of -100 add nothing to it
    ? By how many predictions is the sum divided?
optimizer, losses = make_optimizer(model), [] => losses = [] && scores, _ = model(inputs) => optimizer = make_optimizer(model); scores, _ = model(inputs)
    the losses with a new optimizer for each batch, which has forgotten its momentum
    ? How often is the optimizer made?
F.cross_entropy(scores.flatten(0, 1), targets.flatten()) => F.cross_entropy(scores[:, :-1].flatten(0, 1), targets[:, 1:].flatten())
    the losses with targets that are shifted once more
    ? The targets come one place later than the inputs already. Which score is compared with which of them?
F.cross_entropy(scores.flatten(0, 1), targets.flatten()) => F.nll_loss(scores.flatten(0, 1), targets.flatten())
    the losses with scores taken for logarithms of probabilities
    ? Of what does `F.nll_loss` take the mean, and which function makes that of scores?
F.cross_entropy(scores.flatten(0, 1), targets.flatten()) => F.cross_entropy(scores[:, -1], targets[:, -1])
    the losses of the last word of each text alone
    ? How many predictions does the model make in one pass?
""",
)
