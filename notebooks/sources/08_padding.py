# %% [markdown]
# # Padding and two sequences
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/08_padding.ipynb)
#
# One beginning, told three times by the same storyteller: alone, and twice as in a batch with a beginning that is nine
# words longer, with one mistake each. Why should a story depend on its neighbour?
#
# **You need** lessons [02](02_masks_and_dropout.ipynb) and [07](07_order.ipynb). **It takes** about 50 minutes.

# %% tags=["setup"]
# @title Setup: installs the course where it is missing; elsewhere it does nothing
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("course_lib") is None:
    address = "git+https://github.com/attention-course/attention-course@main"
    install = [sys.executable, "-m", "pip", "install", "-q"]
    if subprocess.run([*install, "attention-course[models] @ " + address]).returncode:
        raise RuntimeError(
            "The course could not be installed: "
            "switch the internet on and run this cell again."
        )

# %%
from textwrap import fill

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict, sneak
from course_lib.pictures import draw_attended_words
from course_lib.show import show
from course_lib.stories import joined, load_storyteller, stories, words

device = course_device()
teller = load_storyteller("multi-query").to(device)

# %%
short = "Once there was a"
tokens = teller.encode(short)
positions = torch.arange(60, device=device)[None]  # (1, token)
ways = {  # F.pad puts nine zeros in front
    "alone": (tokens, positions),
    "behind padding": (F.pad(tokens, (9, 0)), F.pad(positions, (9, 0))),
    "from position 9": (tokens, positions + 9),
}
for name, (table, at) in ways.items():
    for _ in range(40):
        logits = teller(table, positions=at[:, : table.shape[1]])
        table = torch.cat([table, logits[:, -1:].argmax(dim=-1)], dim=1)
    print(fill(f"{name}: {teller.decode(table[0, -44:])}", 80), end="\n\n")

# %% [markdown]
# A batch is one table, so a short text is filled up with dummy tokens, its **padding**. The second story saw them:
# "Jack lived a dog". The third has none, but is counted from the column in which it begins, and becomes another story.
# Here is what the model's first head looks at behind padding, from "a", after which it has to name an animal:

# %%
def embedded(model, tokens, positions):  # as a storyteller with a table does it
    # trained with word vectors that are 4 times as long
    return 4 * model.word_table(tokens) + model.position_table[positions]


# %%
padded, at = ways["behind padding"]
x = embedded(teller, padded, at[:, : padded.shape[1]])
x = teller.blocks[0].attention_norm(x)
weights = teller.attentions[0](x, return_weights=True)[1].detach()  # (b, h, query, key)
shown = ["(pad)"] * 9 + ["(start)", *words(short)]
share = weights[0, 0, -1, :9].sum()
title = f"From the last “a”, in head 0: {share:.2f} goes to the nine (pad) together"
draw_attended_words(shown, weights[0, 0, -1], title=title)

# %% [markdown]
# Most of its attention goes to nothing. The other mistake you know from lesson 07. You are about to repair both, and to
# write twelve stories at once, each of them word for word what it is alone. Then you let one text attend to another,
# and ask three stories a question.
#
# ## One table for all
#
# In training, padding usually stands on the right. A model that writes mostly gets it on the left, so that all texts
# end in the same column.
#
# **Write it yourself.** Put rows of different lengths into one table, and say where the real tokens are.

# %%
def pad_batch(rows, side):
    # list of lists of int, "left" or "right"
    # -> tokens, (batch, token) int64; real, (batch, token) bool
    raise NotImplementedError  # your lines


pad_batch = filled("pad_batch", pad_batch)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def pad_batch(rows, side):
#     # list of lists of int, "left" or "right"
#     # -> tokens, (batch, token) int64; real, (batch, token) bool
#     longest = max(len(row) for row in rows)
#     tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
#     real = torch.zeros(len(rows), longest, dtype=torch.bool)
#     for sample, row in enumerate(rows):
#         start = 0 if side == "right" else longest - len(row)
#         tokens[sample, start : start + len(row)] = torch.tensor(row)
#         real[sample, start : start + len(row)] = True
#     return tokens, real
# ```
#
# </details>

# %%
tokens, real = pad_batch([[5, 6, 7, 8, 9, 10], [5, 6, 7], [5, 6]], "left")
show("tokens", tokens, "sample token")

# %% [markdown]
# Which number fills the gaps doesn't matter, as long as nobody reads it. (Here it is 0, which also stands for the
# start of a story. So don't ask `tokens` where the padding is, ask `real`.)
#
# ## Positions, counted from the first real word
#
# In the second row the first real word is in column 3, and its position should be 0, as if the text were alone.
#
# **Write it yourself:** count the positions from each text's first real word. Padding is hidden, so its positions
# don't matter, but keep them from being negative: -1 would pick the last row of a table. (`cumsum` adds up along an
# axis.)

# %%
def real_positions(real):
    # bool, True = a real word, (batch, token) -> int64, (batch, token)
    raise NotImplementedError  # your lines


real_positions = filled("real_positions", real_positions)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def real_positions(real):
#     # bool, True = a real word, (batch, token) -> int64, (batch, token)
#     count = real.cumsum(dim=-1)  # real words up to here, this one included
#     return (count - 1).clamp(min=0)
# ```
#
# </details>

# %%
show("positions", real_positions(real), "sample token")

# %% [markdown]
# ## The mask
#
# Padding must be hidden as a *key*. A causal model needs both masks at once: look at yourself and at what came before
# you, but never at padding.
#
# **Write it yourself,** for all heads alike. `&` joins two masks.

# %%
def batch_keep(real):
    # bool, (batch, token) -> bool, True = may attend, (batch, 1, query, key)
    raise NotImplementedError  # your lines


batch_keep = filled("batch_keep", batch_keep)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def batch_keep(real):
#     # bool, (batch, token) -> bool, True = may attend, (batch, 1, query, key)
#     num_tokens = real.shape[1]
#     causal = torch.ones(num_tokens, num_tokens, device=real.device).tril().bool()
#     return causal & real[:, None, None]  # (q, k) & (b, 1, 1, k) -> (b, 1, q, k)
# ```
#
# </details>
#
# ## Write them all at once
#
# The model says what comes next in the row of each text's last real word. In a table that is padded on the left this is
# always the last column, and in one that is padded on the right each text has its own.
#
# **Write it yourself,** for padding on either side: score, read the right row of each text, append the likeliest word,
# and again. What you append is real. (Two index tensors side by side, for samples and columns, pick one row of each
# sample.)

# %%
def write_batch(logits_of, tokens, real, num_new):
    # logits_of(tokens, real) -> (batch, token, word); (b, t) int64, (b, t) bool, int
    # -> tokens and real with num_new more columns
    raise NotImplementedError  # your lines


write_batch = filled("write_batch", write_batch)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def write_batch(logits_of, tokens, real, num_new):
#     # logits_of(tokens, real) -> (batch, token, word); (b, t) int64, (b, t) bool, int
#     # -> tokens and real with num_new more columns
#     samples = torch.arange(len(tokens), device=tokens.device)
#     for _ in range(num_new):
#         columns = torch.arange(tokens.shape[1], device=tokens.device)
#         last = (columns * real).argmax(dim=1)  # of the real words of each row, (b)
#         logits = logits_of(tokens, real)[samples, last]  # (b, t, word) -> (b, word)
#         new = logits.argmax(dim=-1, keepdim=True)  # (b, 1)
#         tokens = torch.cat([tokens, new], dim=1)
#         real = torch.cat([real, torch.ones_like(new, dtype=torch.bool)], dim=1)
#     return tokens, real
# ```
#
# </details>
#
# Twelve beginnings, each three words longer than the one before, and two storytellers: one with a table of positions,
# and one whose attention rotates. Each beginning is continued alone, and then all of them at once.

# %%
beginnings = [
    joined(words(story.text)[: 4 + 3 * number])
    for number, story in enumerate(stories(12, seed=21))
]
# %%
tellers = {"table": teller, "rotation": load_storyteller("llama").to(device)}
alone = {
    name: [model.write(beginning, num_words=30) for beginning in beginnings]
    for name, model in tellers.items()
}


# %%
def told(
    name, side="left", positions_of=real_positions, keep_of=batch_keep, last=False
):
    model = tellers[name]

    def logits_of(tokens, real):
        keep = None if keep_of is None else keep_of(real)
        with torch.no_grad():
            logits = model(tokens, positions=positions_of(real), keep=keep)
        if last:  # whichever row is read, it is that of the last column
            logits[:] = logits[:, -1:]
        return logits

    rows = [model.encode(beginning)[0].tolist() for beginning in beginnings]
    table = (one.to(device) for one in pad_batch(rows, side))
    found = write_batch(logits_of, *table, 30)
    return [model.decode(row[kept]) for row, kept in zip(*found, strict=True)]


# %%
def unchanged(name, **way):  # how many stories are, word for word, what they are alone
    return sum(map(str.__eq__, told(name, **way), alone[name]))


for name in tellers:
    left, right = unchanged(name), unchanged(name, side="right")
    print(f"{name}: {left} of 12 as they are alone, and {right} padded on the right")

# %% [markdown]
# The same stories, word for word. Are they the same numbers, too? This is the first text, alone and in the batch:

# %%
def off_by(model):
    rows = [model.encode(beginning)[0].tolist() for beginning in beginnings]
    tokens, real = (one.to(device) for one in pad_batch(rows, "left"))
    with torch.no_grad():
        logits = model(tokens, positions=real_positions(real), keep=batch_keep(real))
        own = model(model.encode(beginnings[0]))
    return (logits[:1][:, real[0]] - own).abs().max().item()


# %%
single, double = off_by(teller), off_by(load_storyteller("multi-query").double())
print("float32, equal to four decimals:  ", single < 0.5e-4)
print("float64, equal to eleven decimals:", double < 0.5e-11)

# %% [markdown]
# They are equal up to rounding. The last bit may differ, because a table of another size may be added up in another
# order, and where two words are almost equally likely, the last bit decides. Answers of large models that change with
# the size of the batch have been traced to this (Horace He and Thinking Machines Lab, [Defeating Nondeterminism in LLM
# Inference](https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/), 2025).
#
# ## Three ways to lose it
#
# Each way has one mistake: the positions are the columns again, the padding mask is missing, or, with padding on the
# right, the last *column* is read. This is the shortest text, told by the storyteller with a table:

# %%
def columns(real):
    return torch.arange(real.shape[1], device=real.device).expand(real.shape)


# %%
ways = {
    "columns": {"positions_of": columns},
    "mask": {"keep_of": None},
    "last": {"side": "right", "last": True},
}
for name, way in ways.items():
    print(fill(f"{name}: {told('table', **way)[0]}", 80), end="\n\n")

# %% [markdown]
# No error is reported. **Predict:** with one of the three mistakes the storyteller with rotation still tells all twelve
# stories as they are alone. With which one?

# %%
guess = ...  # "columns", "mask" or "last"
kept = {name: unchanged("rotation", **way) for name, way in ways.items()}
predict(guess, lambda: max(kept, key=kept.get))
if guess is not ...:
    for name, way in ways.items():
        print(f"{name}: table {unchanged('table', **way)} of 12, rotation {kept[name]}")
    gap = unchanged("rotation", side="right", positions_of=columns)
    print("columns, padded on the right: rotation", gap)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Columns. Padding on the left moves a whole text by one number, and rotated scores depend on distances only. With
# padding on the *right*, counting columns hurts this model, too: between a text and its new words there is a gap.
# (When the library transformers generates text, it counts the real words, wherever a model takes their positions.)
#
# </details>
#
# Now pad on the right, leave out the padding mask, and read each text at its last real word. **Predict** at which new
# word the table's storyteller first goes wrong in any of the twelve stories.

# %%
without_mask = told("table", side="right", keep_of=None)
threes = zip(without_mask, alone["table"], beginnings, strict=True)
texts = [[words(text) for text in three] for three in threes]


def right_until(number):  # how many stories have their first new words right
    ends = [(mine, own, len(start) + number) for mine, own, start in texts]
    return sum(mine[:end] == own[:end] for mine, own, end in ends)


# %%
guess = ...  # 1 for the first new word, 2 for the second, and so on
right = [right_until(number) for number in range(1, 6)]
predict(guess, lambda: 1 + [count < 12 for count in right].index(True))
if guess is not ...:
    print("stories of 12 that are right up to new word 1, 2, ...:", *right)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The second. On the right, the causal mask hides the padding, as in lesson 02, and the first new word is right in all
# twelve. But each new word comes *behind* the padding, and from the second one on the texts that have any see it. A
# test that looks at one step of decoding would have found nothing.
#
# </details>
#
# Now do exercises 1 to 3 of [the sheet](exercises/08_exercises.ipynb); the third is the test that finds all of these.
#
# ## Two sequences: cross-attention
#
# A translator reads one sentence while it writes another. Queries come from the sentence that is written, keys and
# values from the one that is read. This is **cross-attention**, and it was part of the first transformer (Vaswani et
# al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017). The computation is the same, but two of the
# projections have another input, which may have another width and another number of tokens. No causal mask is needed:
# the other sentence is there already. Its padding is, too.
#
# **Write it yourself, from an empty class.** It has the four matrices of lesson 05, without bias; all heads together
# are as wide as `x`. The library's `attend`, called with queries, keys, values and `keep`, returns context and
# attention weights. `to_heads` is yours.

# %%
from course_lib.attention import attend  # noqa: F401  for your class

to_heads = from_earlier("to_heads")


class MyCrossAttention(nn.Module):
    def __init__(self, d_in, d_context, num_heads):
        super().__init__()
        raise NotImplementedError

    def forward(self, x, context, keep=None):
        # (batch, query, d_in), (batch, key, d_context) -> (batch, query, d_in)
        raise NotImplementedError


MyCrossAttention = filled("MyCrossAttention", MyCrossAttention)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyCrossAttention(nn.Module):
#     def __init__(self, d_in, d_context, num_heads):
#         super().__init__()
#         self.num_heads = num_heads
#         self.q_proj = nn.Linear(d_in, d_in, bias=False)
#         self.k_proj = nn.Linear(d_context, d_in, bias=False)
#         self.v_proj = nn.Linear(d_context, d_in, bias=False)
#         self.out_proj = nn.Linear(d_in, d_in, bias=False)
#
#     def forward(self, x, context, keep=None):
#         # (batch, query, d_in), (batch, key, d_context) -> (batch, query, d_in)
#         queries = to_heads(self.q_proj(x), self.num_heads)  # (b, h, q, d)
#         keys = to_heads(self.k_proj(context), self.num_heads)  # (b, h, k, d)
#         values = to_heads(self.v_proj(context), self.num_heads)
#         mixed, _ = attend(queries, keys, values, keep)  # (b, h, q, d)
#         return self.out_proj(mixed.transpose(1, 2).flatten(2))
# ```
#
# </details>
#
# PyTorch's own class takes a context of another width, as `kdim` and `vdim`. In its mask True means *hidden*. Sizes
# that all differ: 5 samples, 2 queries, 7 keys, 4 heads of width 3, and a context of width 10.

# %%
torch.manual_seed(3)
theirs = nn.MultiheadAttention(12, 4, bias=False, kdim=10, vdim=10, batch_first=True)
theirs = theirs.to(device)
with torch.no_grad():  # so that attention isn't flat
    theirs.q_proj_weight *= 4
inputs = torch.randn(5, 2, 12).to(device)
context = torch.randn(5, 7, 10).to(device)
lengths = torch.tensor([[7], [3], [5], [1], [6]], device=device)
padded = torch.arange(7, device=device) >= lengths  # (batch, key)


# %%
def proof(module_class):
    mine, state = module_class(12, 10, 4).to(device), theirs.state_dict()
    renamed = {name.replace("_weight", ".weight"): state[name] for name in state}
    mine.load_state_dict(renamed)
    expected, _ = theirs(inputs, context, context, key_padding_mask=padded)
    found = mine(inputs, context, ~padded[:, None, None])
    torch.testing.assert_close(found, expected)


proof(MyCrossAttention)
print("your class and nn.MultiheadAttention give the same output")

# %% [markdown]
# **Now cheat.** Write a class with a mistake that this proof doesn't see.

# %%
Sneaky = ...  # a class like MyCrossAttention, in place of the dots
sneak("MyCrossAttention", Sneaky, proof)

# %% [markdown]
# <details><summary>A way in</summary>
#
# The proof always gives a mask, and the same one to all queries of a sample.
#
# </details>
#
# ## Ask three stories a question
#
# The first transformer has a layer for its own sentence and another one for the other sentence. Our storyteller has
# never seen two sequences, but a text can be cut in two. Let the *story* be one, read once, and a *question* about it
# the other. The words of the question attend to both: their `context` is the story, and behind it the question. Your
# class does that, with the weights of the storyteller "weight split". Three stories of different lengths, each with
# another kite:

# %%
kites = {
    "green": "Once there was a fox named Ruth. She had a green kite.",
    "black": "Long ago there was a dog whose name was Ben. Ben lived by the mill. "
    "What he loved most was his black kite.",
    "pink": "This is the story of Ida the owl. One day a crow knocked at the door. "
    '"Hello! I am Sam," said the crow. In the grass lay a pink kite. '
    '"This kite is for you, Ida," said Sam.',
}
# %%
reader = load_storyteller("weight split").to(device)
crosses = [MyCrossAttention(64, 64, 4).to(device) for _ in reader.attentions]
for cross, trained in zip(crosses, reader.attentions, strict=True):
    cross.load_state_dict(trained.state_dict())

# %%
rows = [reader.encode(story)[0].tolist() for story in kites.values()]
tokens, real = (one.to(device) for one in pad_batch(rows, "left"))
question = reader.encode("What colour was the kite? It was")[:, 1:].expand(3, -1)
everything = torch.cat([real, torch.ones_like(question).bool()], dim=1)
positions, keep = real_positions(everything), batch_keep(everything)
cut = tokens.shape[1]  # the story before it, the question behind


# %%
@torch.no_grad()
def ask(keep, positions=positions):  # -> logits behind the question, (story, word)
    story = embedded(reader, tokens, positions[:, :cut])
    x = embedded(reader, question, positions[:, cut:])
    for block, cross in zip(reader.blocks, crosses, strict=True):
        story_in, x_in = block.attention_norm(story), block.attention_norm(x)
        x = x + cross(x_in, torch.cat([story_in, x_in], dim=1), keep[:, :, cut:])
        x = x + block.mlp(block.mlp_norm(x))
        story = block(story, keep=batch_keep(real))  # attends to itself
    return (reader.norm(x) @ reader.word_table.weight.T)[:, -1]


# %%
def answers(logits):  # the likeliest word, and how sure it is of the right colour
    for row, colour in zip(logits.softmax(dim=-1), kites, strict=True):
        sure, word = row[reader.numbers[colour]], reader.vocabulary[row.argmax()]
        print(f"{colour}: says {word!r}, sure of {colour} {sure:.2f}")


# %%
at_once = reader(torch.cat([tokens, question], dim=1), positions=positions, keep=keep)
torch.testing.assert_close(ask(keep), at_once[:, -1])
answers(ask(keep))

# %% [markdown]
# Three stories, one question, three right answers, and they are what the model gives when it reads story and question
# as one text. Where does "was", the last word of the question, find the colour? This is the head that looks at it most:

# %%
whole = f"{kites['black']} What colour was the kite? It was"
shown, weights = reader.attention_weights(whole)
last = weights[:, :, -1]  # (block, head, key), from the last word
found = last[:, :, shown.index("black")]  # (block, head)
block, head = (found == found.max()).nonzero()[0].tolist()
draw_attended_words(shown, last[block, head], title=f"Block {block}, head {head}")

# %% [markdown]
# Now hide one of the two sequences from the question: first the story, then the question itself (each of its words sees
# the story alone, and not even itself).

# %%
without_story, without_question = keep.clone(), keep.clone()
without_story[..., cut:, :cut] = False
without_question[..., cut:, cut:] = False
for hidden in (without_story, without_question):
    answers(ask(hidden))

# %% [markdown]
# It has lost the colour in either case. The word "was" alone doesn't say what it is that was asked, and the story alone
# doesn't either. The answer needs both sequences.
#
# And the two mistakes of the first half? Once the padding of the *stories* is seen by the question, and once the
# question's positions begin at 0 again. Either way one of the three stories keeps its answer. **Predict** which it is
# with positions that restart.

# %%
restarted = positions.clone()
restarted[:, cut:] -= restarted[:, cut : cut + 1].clone()
mistakes = {
    "padding seen": ask(batch_keep(torch.ones_like(everything))),
    "positions restart": ask(keep, restarted),
}
right = torch.tensor([reader.numbers[colour] for colour in kites], device=device)
sure = mistakes["positions restart"].softmax(dim=-1)[range(3), right]
guess = ...  # "green", "black" or "pink"
predict(guess, lambda: [*kites][sure.argmax()])
if guess is not ...:
    for name, logits in mistakes.items():
        print(f"{name}:")
        answers(logits)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# Green: the shortest story's question moves the least. With the padding in sight it is the other way round: the two
# shorter stories lose their answer here, and the longest, which has no padding, keeps it. So test with texts of
# several lengths, and always with one that has padding.
#
# </details>
#
# Now do exercises 4 and 5 of [the sheet](exercises/08_exercises.ipynb).
#
# ## Your turn
#
# 1. Fill the padding with another word, `tokens = tokens.masked_fill(~real, 7)`, and ask again. What changes?
# 2. A test for cross-attention that needs no other class: change one token of the context. Which rows of the output may
#    move, and which must not?
#
# <details><summary>Answers</summary>
#
# 1. Nothing: no real word reads it.
# 2. The rows of all queries that may attend to that token may move, in that sample alone. Hide the token with `keep`,
#    and none must.
#
# </details>
#
# ## What you have now
#
# A batch in which each text gets what it would get alone: padding hidden as a key, positions counted from the first
# real word, and the last real word read. And a class whose queries come from one sequence and whose keys and values
# from another, equal to PyTorch's own, with which three stories answered a question.
#
# **Practise:** [five exercises](exercises/08_exercises.ipynb), about 30 minutes.
#
# **Next:** [09 Llama's attention and its cache](09_llama.ipynb).
