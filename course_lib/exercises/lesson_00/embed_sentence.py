"""The embeddings of a sentence."""

from __future__ import annotations

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

WORDS = ("a", "big", "dream", "for", "it", "kid", "mouse", "or", "sees", "smiles", "the", "work")


def embed_sentence(sentence, vocabulary, table):
    # str, list of words, (word, width) -> (token, width)
    tokens = sentence.split()
    rows = [vocabulary.index(token) for token in tokens]
    return table[rows]


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for words, num_tokens, width in rng.size_rows(4, 3, 3, 9):
        vocabulary = rng.shuffled(WORDS)[:words]
        tokens = [rng.choice(vocabulary) for _ in range(num_tokens - 1)]
        sentence = " ".join([*tokens, tokens[0]])  # a word that stands in it twice
        cases.append(Case((sentence, vocabulary, rng.normal(len(vocabulary), width))))
    return cases


EXERCISE = FunctionExercise(
    embed_sentence,
    title="The embeddings of a sentence",
    difficulty=1,
    minutes=2,
    prompt=(
        "A sentence in, the embedding of each of its words out, in the order of the sentence. `vocabulary` lists all "
        "words, and row i of `table` is the embedding of word i of the vocabulary."
    ),
    hints=(
        "Three steps: cut the sentence into words, find the number of each word, take the rows with these numbers.",
        "`sentence.split()` makes a list of its words, and `vocabulary.index(word)` is the number of a word's row.",
        "A table takes a list of row numbers: `table[[2, 0, 2]]` has rows 2, 0 and 2.",
    ),
    draw=_draw,
    draw_edges=lambda rng: [Case(("dream", ["big", "dream"], rng.normal(2, 3)))],
    arguments={"table": "word width"},
    axes="token width",
    fixed="word",
    wrong="""
table[:len(sentence.split())]
    the first rows of the table, as many as the sentence has words
    ? Which row belongs to a word that stands in the vocabulary further back?
in tokens] => in dict.fromkeys(tokens)]
    the embedding of each word once, although a word may stand in the sentence twice
    ? How many rows should a sentence of five words have?
table[rows] => table[sorted(rows)]
    the embeddings in the order of the vocabulary
    ? Which word should the first row belong to?
table[rows] => torch.tensor(rows)
    the numbers of the rows, not the rows themselves
    ? What does `table[...]` give for these numbers?
result.sum(0)
    the sum of the embeddings
    ? How many rows should the result have?
""",
)
