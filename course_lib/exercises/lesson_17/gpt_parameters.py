"""How large a GPT is."""

from course_lib.exercises.function_exercise import FunctionExercise


def gpt_parameters(vocabulary, max_len, width, num_layers, kv_width):
    # five ints -> int
    embeddings = vocabulary * width + max_len * width  # the last layer reuses the first
    # queries and output, keys and values
    attention = 2 * width * width + 2 * width * kv_width
    # two matrices with their biases
    mlp = width * 4 * width + 4 * width + 4 * width * width + width
    norm = 2 * width
    return embeddings + num_layers * (attention + mlp + 2 * norm) + norm


EXERCISE = FunctionExercise(
    gpt_parameters,
    title="How large a GPT is",
    difficulty=3,
    minutes=9,
    prompt=(
        "Count the parameters of a GPT from its sizes. It has an embedding per token of the vocabulary and one per "
        "position (`max_len` of them), each `width` wide. Each of the `num_layers` blocks has attention without "
        "biases, whose keys are `kv_width` wide over all kv heads, and so are its values, while queries and output are "
        "`width` wide; an MLP with biases, from width to 4 * width and back; and two LayerNorms with gain and shift. "
        "A third LayerNorm comes after the last block. The matrix that scores the next token is the embedding of the "
        "vocabulary once more, so it has no parameters of its own (weight tying: Press and Wolf, Using the Output "
        "Embedding to Improve Language Models, 2017)."
    ),
    hints=(
        "Count one block first, then the parts that exist only once.",
        "Attention has four matrices, of which two are width by width and two width by kv_width. The MLP has two "
        "matrices and two biases.",
        "The biases of the MLP are 4 * width and width; a LayerNorm has 2 * width. Everything in a block times the "
        "layers, plus two embeddings and one LayerNorm.",
    ),
    inputs={
        "vocabulary": lambda rng: 500 + rng.integer(500),
        "max_len": lambda rng: 100 + rng.integer(100),
        "width": lambda kv_width, group: kv_width * group,
        "kv_width": lambda heads, head_dim: heads * head_dim,
    },
    calls=4,
    least={"vocabulary": 1, "max_len": 1, "num_layers": 1, "kv_width": 1},
    wrong="""
result + vocabulary * width
    a count with a last matrix of its own: it is tied to the embedding
    ? Which matrix is used twice?
vocabulary * width + max_len * width => vocabulary * width
    a count without the embeddings of the positions
    ? How does the model know where a token stands?
* kv_width => * width
    a count with keys and values as wide as the queries
    ? How wide are all keys of a token together?
2 * width * width + => width * width +
    a count without the output projections of attention
    ? Which four matrices does attention have?
+ 2 * width => + width
    a count with one matrix for keys and values together, only kv_width wide
    ? Which four matrices does attention have?
+ 4 * width + 4 * width * width + width => + 4 * width * width
    a count without the biases of the MLP
    ? How many numbers does `nn.Linear(width, 4 * width)` hold?
2 * norm => norm
    a count with one LayerNorm per block
    ? What is normalized in a block, and how often?
2 * norm) + norm => 2 * norm)
    a count without the last LayerNorm
    ? What comes between the last block and the scores?
norm = 2 => norm = 0
    a count without any LayerNorm
    ? Which parameters does a LayerNorm have?
norm = 2 => norm = 1
    a count of LayerNorms that have a gain and no shift
    ? Which two parameters does a LayerNorm have?
num_layers * (attention + mlp + 2 * norm) => attention + mlp + 2 * norm
    the count of a model with a single block
    ? Which parts exist once per layer?
""",
)
