"""Own words: what one head of a trained storyteller looks at in a text that the reader types."""

from __future__ import annotations

import base64
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from course_lib.pictures.weights.attended_words import draw_attended_words

from .figure import Figure

if TYPE_CHECKING:
    from course_lib.stories import Storyteller

FORM = "one head"  # whose first block has the most readable pattern: a colour looks at the thing that has it
MOST, LONGEST = 225, 19  # words that it knows, and words of a text, so that the page stays small
UNITS = 100_000  # per 1, of what each code of a row is multiplied by
TITLE = "Where does a trained head look in your own words?"
FIRST = "Zoe had a red kite. Zoe found the red"
EXAMPLES = {  # what to read, and what is to see in it
    FIRST: " The next word is the thing that is red.",
    "Ida had a green cup and a blue hat. Ida found the blue": " With two things, it can't tell which of them is blue.",
    "Tom the owl was sad. But the next morning Tom was not": " The next word is the feeling that has passed.",
    "Ben met a pig. The pig was": " It looks at a name, even where it is said of the pig.",
}


def own_words() -> Figure:
    """Return the figure in which a reader types words, and sees from each of them where a trained head looks.

    The head is that of the first block of the storyteller with one head, its numbers rounded to 8 bits each. It takes
    the words that stories use most.

    Example:
        >>> own_words().save("own_words.html")
        PosixPath('own_words.html')
    """
    model, words, codes, steps = rounded()
    norm: Any = model.blocks[0].attention_norm
    tokens, weights = model.attention_weights(FIRST)
    picture = draw_attended_words(tokens, weights[0, 0, -1], title=f"Where “{tokens[-1]}” looks")
    data = {
        "words": [tokens[0], *words],
        "numbers": base64.b64encode(codes.numpy().tobytes()).decode(),
        "steps": steps.tolist(),
        "norm": [[round(number, 4) for number in part.tolist()] for part in norm.parameters()],
        "longest": LONGEST,
        "examples": list(EXAMPLES),
        "notes": list(EXAMPLES.values()),
    }
    return Figure(TITLE, ("own_words.js",), data, picture)


@torch.no_grad()
def rounded() -> tuple[Storyteller, list[str], Tensor, Tensor]:
    """Return the storyteller with what the head needs rounded, the words, and these numbers as int8.

    A number is code * step / UNITS, and each row has a step. Rows, each as wide as the model: START and the words, the
    first positions, and the product of the head's matrices, by which a score is x[query] @ product @ x[key] /
    sqrt(width). In the model the product stands in the place of W_q, and in that of W_k a matrix that changes nothing.
    """
    from course_lib.stories import load_storyteller, stories
    from course_lib.stories import words as words_of

    model = load_storyteller(FORM)
    block: Any = model.blocks[0]
    attention, scale = block.attention, model.word_table.embedding_dim**0.5 / 2
    positions: Any = model.position_table
    positions = positions[: LONGEST + 1]
    counts = Counter(word for story in stories(1000) for word in words_of(story.text))
    words = [word for word, _ in counts.most_common(MOST)]
    rows = [0, *(model.numbers[word] for word in words)]
    product = attention.q_proj.weight.double().T @ attention.k_proj.weight.double()
    table = torch.cat([model.word_table.weight[rows] * scale, positions, product])
    steps = (table.abs().amax(dim=1) * UNITS / 127).ceil().long()
    codes = (table * UNITS / steps[:, None]).round().to(torch.int8)
    parts = (codes * steps[:, None] / UNITS).split([len(rows), len(positions), len(product)])
    model.word_table.weight[rows] = parts[0] / scale
    positions.copy_(parts[1])
    attention.q_proj.weight.copy_(parts[2].T)
    attention.k_proj.weight.copy_(torch.eye(len(product)))
    for parameter in block.attention_norm.parameters():
        parameter.copy_(parameter.mul(1e4).round().div(1e4))
    return model, words, codes, steps
