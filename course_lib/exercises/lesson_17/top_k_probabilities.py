"""Only the k best."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def top_k_probabilities(scores, k):
    # (batch, vocabulary), an int -> (batch, vocabulary), rows sum to 1
    worst_kept = scores.topk(k, dim=-1).values[:, -1:]  # (b, v) -> (b, k) -> (b, 1)
    return scores.masked_fill(scores < worst_kept, -torch.inf).softmax(dim=-1)


EXERCISE = FunctionExercise(
    top_k_probabilities,
    title="Only the k best",
    difficulty=2,
    minutes=6,
    prompt=(
        "A bad token has a small probability, but there are many of them. Give back probabilities in which, in each "
        "row, only the `k` tokens with the largest scores have a chance: all others get 0, and what remains sums to 1 "
        "and keeps its proportions. `torch.topk` finds the largest of each row. (Fan, Lewis and Dauphin, "
        "Hierarchical Neural Story Generation, 2018.)"
    ),
    hints=(
        "It is a mask, as in attention: what shall get probability 0 gets the score -inf before softmax.",
        "`scores.topk(k, dim=-1).values[:, -1:]` is the smallest score that stays, (batch, 1).",
        "`scores.masked_fill(scores < worst_kept, -torch.inf).softmax(dim=-1)`.",
    ),
    inputs={"k": lambda rng, vocabulary: 2 + rng.integer(vocabulary - 3)},
    sizes=(4, 11),
    std=1.5,
    special={
        "k is 1": {"k": 1},
        "k is the vocabulary": {"k": lambda vocabulary: vocabulary},
        "the scores are about -30000": {"scores": lambda scores: scores - 30000.0},
    },
    draw_edges=({"vocabulary": 1, "k": 1},),
    least={"k": 1},
    arguments={"scores": "batch vocabulary"},
    axes="batch vocabulary",
    fixed="vocabulary",
    wrong="""
scores.masked_fill(scores < worst_kept, -torch.inf).softmax(dim=-1) => scores.softmax(dim=-1) * (scores >= worst_kept)
    probabilities of the k best that were not made to sum to 1
    ? What is the sum of each of your rows?
-torch.inf => 0.0
    scores of 0 for the others: the exponential of 0 is 1
    ? Which score gets the probability 0?
-torch.inf => -10.0
    scores for the others that are not below all that there may be
    ? Which number is below every score, however low?
-torch.inf => -20.0
    scores for the others that are not below all that there may be
    ? Which number is below every score, however low?
-torch.inf => -100.0
    scores for the others that are not below all that there may be
    ? Which number is below every score, however low?
-torch.inf => -1e3
    scores for the others that are not below all that there may be
    ? Which number is below every score, however low?
-torch.inf => -1e4
    scores for the others that are not below all that there may be
    ? Which number is below every score, however low?
scores.masked_fill(scores > (-scores).topk(k).values.neg()[:, -1:], -torch.inf).softmax(-1)
    the k worst
    ? Which tokens should keep a chance?
scores < worst_kept => scores <= worst_kept
    one token too few: the k-th best was hidden, too
    ? Is the k-th best among those that stay?
topk(k, => topk(min(k + 1, scores.shape[1]),
    one token too many
    ? From what number are the places counted?
scores.topk(k).values.softmax(-1)
    only k numbers per row; the others should be there, as zeros
    ? How would you know which token a probability belongs to?
scores.masked_fill(scores < scores.topk(min(k, len(scores)), 0).values[-1:], -torch.inf).softmax(-1)
    the k best samples for each token, not the k best tokens for each sample
    ? Along which axis do you look for the largest?
scores.masked_fill(scores < worst_kept, -torch.inf) => scores
    probabilities of all tokens, whatever k is
    ? Where does `k` enter?
""",
)
