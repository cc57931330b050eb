# %% [markdown]
# # Write it yourself
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/17_capstone.ipynb)
#
# Can you write a storyteller? You write its attention with a cache, the path through a block, the loop that trains it
# and the loop that lets it speak, each in an empty cell; what joins them is given. Your model learns for about a
# minute, and at the end it is one file that you can send to a friend.
#
# **You need** lessons [02](02_masks_and_dropout.ipynb), [05](05_weight_split.ipynb), [06](06_multi_query.ipynb),
# [07](07_order.ipynb), [09](09_llama.ipynb) and [15](15_debugging_attention.ipynb).
# **It takes** about 60 minutes.

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
from course_lib.diagnosis import diagnose
from course_lib.exercises import filled, from_earlier, hint, predict
from course_lib.pictures import line_plot
from course_lib.show import show
from course_lib.stories import (
    Storyteller,
    facts_kept,
    joined,
    save_page,
    sinusoids,
    stories,
    words,
)

device = course_device()

# %% [markdown]
# ## A table that knows one word
#
# The model learns from stories that the course makes up.

# %%
texts = [story.text for story in stories(6000, seed=1)]
print(fill(texts[8], 80))

# %% [markdown]
# <details><summary>A text of your own</summary>
#
# Put the list of its paragraphs in the place of `texts`:
#
# ```python
# from course_lib.inputs import fables
#
# texts = fables().split("\n\n")
# ```
#
# Take several hundred thousand words: a text as short as these fables of Aesop is learned by heart. The `beginning`
# below may then use only words from your text.
#
# </details>
#
# Each different word or punctuation mark is a token, and one more token stands before each text and after it.

# %%
END = "\n"
vocabulary = sorted({END, *(word for text in texts for word in words(text))})
numbers = {word: number for number, word in enumerate(vocabulary)}
encoded = [[numbers[word] for word in (END, *words(text))] for text in texts]
max_len = 192  # tokens that the model can read
padding = [numbers[END]] * (max_len + 1)  # a sample may reach past the last text
tokens = [token for each in encoded for token in each] + padding
tokens = torch.tensor(tokens, device=device)  # (token,)
lengths = torch.tensor([len(each) for each in encoded], device=device)
starts = lengths.cumsum(0) - lengths  # where each text begins
split = len(texts) * 9 // 10  # the last tenth is held out: no model trains on it
print(f"{len(texts):,} texts, {len(tokens):,} tokens, {len(vocabulary)} different")

# %% [markdown]
# A simple model of a language is a table that counts which word follows which. Each row of counts becomes a row of
# probabilities.

# %%
num_words, known = len(vocabulary), tokens[: starts[split]]
pairs = num_words * known[:-1] + known[1:]  # each pair of words has a number of its own
counts = pairs.bincount(minlength=num_words**2).view(num_words, num_words)
counts = counts + 0.01  # none is 0
log_chances = (counts / counts.sum(dim=1, keepdim=True)).log()  # (first, next)


# %% [markdown]
# Draw the next word with the probabilities in the last one's row, again and again:

# %%
def as_text(tokens):
    found = [vocabulary[token] for token in tokens.tolist()]
    return joined(found[: found.index(END)] if END in found else found)


# %%
generator, drawn = torch.Generator().manual_seed(0), [numbers[END]]
for _ in range(70):
    chances = log_chances[drawn[-1]].exp().cpu()
    drawn.append(torch.multinomial(chances, 1, generator=generator).item())
print(fill(as_text(torch.tensor(drawn[1:])), 80))

# %% [markdown]
# Nearly every pair of neighbours is fine, and the whole is nonsense: the table sees one word.
#
# ## How wrong is it?
#
# The **loss** is minus the logarithm of the probability that a model gave to the word that really came next, averaged
# over all words (**cross-entropy**). With a causal mask a model that reads a text of `length` tokens makes `length`
# predictions in one pass. Its targets are the tokens one place later. What lies beyond the end of a shorter text is no
# target: PyTorch's cross-entropy leaves out a target of -100.

# %%
def text_batch(chosen):
    # (batch,), numbers of texts -> inputs and targets, two of (batch, token)
    length = int(lengths[chosen].clamp(max=max_len).max())
    steps = torch.arange(length + 1, device=device)
    pieces = tokens[starts[chosen][:, None] + steps]  # (b, 1) + (t + 1) -> (b, t + 1)
    beyond = steps[:-1] >= lengths[chosen][:, None]
    return pieces[:, :-1], pieces[:, 1:].masked_fill(beyond, -100)


# %%
def table_of_pairs(tokens, caches=None):  # (b, t) -> (b, t, v), as the models below
    return log_chances[tokens], caches


# %%
@torch.no_grad()
def held_out_loss(model):
    last = len(texts)
    inputs, targets = text_batch(torch.arange(split, last, device=device)[:200])
    return F.cross_entropy(model(inputs)[0].flatten(0, 1), targets.flatten()).item()


# %%
bar = held_out_loss(table_of_pairs)
print(f"loss of the table of pairs: {bar:.2f}")

# %% [markdown]
# That is the bar to beat.
#
# ## Attention, from memory
#
# Close the other lessons. Give the four matrices the names that the cell asks for: later cells read them.
#
# All heads share one head of keys and one of values (multi-query attention), and a cache keeps them from call to call.
# So `forward` returns two things: the output for the new tokens, and the cache, a tuple of all keys and all values so
# far. If five tokens are in the cache and two are new, the first of these two sees six keys. If you get stuck, `hint`
# helps, here and below.

# %%
class MultiQueryWithCache(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()  # then q_proj, k_proj, v_proj and out_proj

    def forward(self, x, cache=None):
        # (batch, token, d_in), keys and values -> (batch, token, d_out), the new cache
        raise NotImplementedError  # your lines, here and above


MultiQueryWithCache = filled("MultiQueryWithCache", MultiQueryWithCache)

# %%
hint("MultiQueryWithCache", 1)  # 2 says more

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MultiQueryWithCache(nn.Module):
#     def __init__(self, d_in, d_out, num_heads):
#         super().__init__()
#         self.num_heads, self.head_dim = num_heads, d_out // num_heads
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, self.head_dim, bias=False)
#         self.v_proj = nn.Linear(d_in, self.head_dim, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#
#     def forward(self, x, cache=None):
#         # (batch, token, d_in), keys and values -> (batch, token, d_out), the new cache
#         batch, num_new, _ = x.shape
#         per_head = (batch, num_new, self.num_heads, self.head_dim)
#         queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, h, n, d)
#         # one head for all: (b, n, d) -> (b, 1, n, d)
#         keys, values = self.k_proj(x)[:, None], self.v_proj(x)[:, None]
#         if cache is not None:
#             # (b, 1, past, d) and (b, 1, n, d) -> (b, 1, past + n, d)
#             keys = torch.cat([cache[0], keys], dim=2)
#             values = torch.cat([cache[1], values], dim=2)
#         num_keys = keys.shape[2]
#         # (b, h, n, d) @ (b, 1, d, k) -> (b, h, n, k)
#         scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
#         keep = torch.ones(num_new, num_keys, dtype=torch.bool, device=x.device)
#         keep = keep.tril(num_keys - num_new)
#         # (b, h, n, d)
#         context = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
#         output = self.out_proj(context.transpose(1, 2).reshape(batch, num_new, -1))
#         return output, (keys, values)
# ```
#
# </details>
#
# **Predict.** How many numbers does your cache keep for each token of a text?

# %%
width, num_heads = 64, 4
torch.manual_seed(0)
x = torch.randn(2, 7, width).to(device)  # (b, t, m): 2 texts of 7 tokens
_, cache = MultiQueryWithCache(width, width, num_heads).to(device)(x)
guess = ...  # an integer
predict(guess, lambda: sum(part.numel() for part in cache) // (2 * 7))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It keeps one key and one value, each as wide as a single head, which is `width // num_heads`. Multi-head attention
# keeps a key and a value for each head, which makes `2 * width` numbers per token.
#
# </details>
#
# ## The block around it
#
# Three more parts make up a block, together with your attention.
#
# - **MLP** (multilayer perceptron). Two linear layers with a nonlinear function (GELU) between them are applied to each
#   token by itself.
# - **LayerNorm** shifts and scales each token's vector to mean 0 and variance 1, and then applies a learned gain and
#   shift ([Ba et al., 2016](https://arxiv.org/abs/1607.06450)). There is one before the attention and one before the
#   MLP.
# - **Residual connection.** What attention and MLP return is added to what came in, and does not replace it ([He et
#   al., 2015](https://arxiv.org/abs/1512.03385)).
#
# **Write it yourself:** the path that `x` takes through a block.

# %%
def through_block(x, attention_norm, attention, mlp_norm, mlp, cache):
    # (batch, token, width), four parts, a cache -> (batch, token, width), the new cache
    raise NotImplementedError  # your lines; attention(..., cache) -> output, new cache


through_block = filled("through_block", through_block)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def through_block(x, attention_norm, attention, mlp_norm, mlp, cache):
#     # (batch, token, width), four parts, a cache -> (batch, token, width), the new cache
#     found, cache = attention(attention_norm(x), cache)
#     x = x + found  # residual: (b, t, m) + (b, t, m)
#     return x + mlp(mlp_norm(x)), cache
# ```
#
# </details>

# %%
class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = attention(width, width, num_heads)
        widen, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(widen, nn.GELU(), narrow)

    def forward(self, x, cache=None):
        parts = self.attention_norm, self.attention, self.mlp_norm, self.mlp
        return through_block(x, *parts, cache)


# %% [markdown]
# Which of these parts can carry a word to another place? Change token 3 of seven:

# %%
block = Block(MultiQueryWithCache).to(device)
changed = x.clone()
changed[:, 3] *= -1.0  # token 3
without = block.mlp(block.mlp_norm(changed)) - block.mlp(block.mlp_norm(x))
whole = block(changed)[0] - block(x)[0]
show("LayerNorm and MLP alone: changed", without.abs().amax(dim=(0, 2)) > 1e-6, "token")
show("the whole block: changed", whole.abs().amax(dim=(0, 2)) > 1e-6, "token")

# %% [markdown]
# Without attention only token 3 changes.
#
# The **embedding** table has a row of learned numbers for each word of the vocabulary, and is also the model's last
# matrix: an output times the vector of a word is the score of that word as the next one ([Press and Wolf,
# 2017](https://arxiv.org/abs/1608.05859)). A second table has a row for each **position**, as in GPT-2 (lesson 07);
# ours begins with sines and cosines.

# %%
class TinyGPT(nn.Module):
    def __init__(self, attention, num_blocks=2, positions=True):
        super().__init__()
        self.word_table = nn.Embedding(len(vocabulary), width)
        nn.init.normal_(self.word_table.weight, std=width**-0.5)
        table = nn.Parameter(0.5 * sinusoids(max_len, width))
        self.position_table = table if positions else None
        self.blocks = nn.ModuleList(Block(attention) for _ in range(num_blocks))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, caches=None):
        # (batch, token) of integers -> (batch, token, vocabulary), the new caches
        # the number of tokens read so far, and the cache of each block
        num_read, caches = caches or (0, [None] * len(self.blocks))
        end = num_read + tokens.shape[1]
        # (b, t, m), multiplied so that words and positions are of similar size
        x = width**0.5 / 2 * self.word_table(tokens)
        if self.position_table is not None:
            if end > max_len:
                raise ValueError(f"the model reads {max_len} tokens, not {end}")
            x = x + self.position_table[num_read:end]  # (b, t, m) + (t, m)
        grown = []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(x, cache)
            grown.append(cache)
        # (b, t, m) @ (m, v) -> (b, t, v)
        return self.norm(x) @ self.word_table.weight.T, (end, grown)


# %%
torch.manual_seed(0)
gpt = TinyGPT(MultiQueryWithCache).to(device)
print(f"{sum(one.numel() for one in gpt.parameters()):,} parameters")

# %% [markdown]
# **Predict.** Which loss does your model have before training? The table of pairs has the one above.

# %%
untrained = held_out_loss(gpt)
guess = ...  # a number with decimals
predict(guess, untrained, within=1.5)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# A model that knows nothing can do no better than to give each of the `len(vocabulary)` words the same probability. The
# loss is then the logarithm of the size of the vocabulary. The untrained model is worse, by about one. Its first table
# is also its last, so that the score of the word just read is the largest: it expects each word again.
#
# </details>
#
# ## The loop that writes
#
# A model writes by reading its own output. **Write it yourself:** the loop for the simplest choice, which always takes
# the word with the largest score (**greedy decoding**). With the cache the model has to read each word once.

# %%
def write_greedily(model, tokens, num_new):
    # (batch, token) of integers -> (batch, token + num_new)
    raise NotImplementedError  # your lines; model(tokens, caches) -> scores, caches


write_greedily = filled("write_greedily", write_greedily)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def write_greedily(model, tokens, num_new):
#     # (batch, token) of integers -> (batch, token + num_new)
#     unread, caches = tokens, None
#     for _ in range(num_new):
#         scores, caches = model(unread, caches)  # (b, t) -> (b, t, v)
#         unread = scores[:, -1].argmax(dim=-1, keepdim=True)  # (b, v) -> (b, 1)
#         tokens = torch.cat([tokens, unread], dim=1)
#     return tokens
# ```
#
# </details>
#
# ## The loop that trains
#
# **Write it yourself:** for each batch the scores, the loss, its gradients, and a step of the optimizer.

# %%
def training_loop(model, batches, make_optimizer):
    # pairs of (batch, token) of integers -> the losses, a list of floats
    raise NotImplementedError  # your lines; make_optimizer(model) -> an optimizer


training_loop = filled("training_loop", training_loop)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def training_loop(model, batches, make_optimizer):
#     # pairs of (batch, token) of integers -> the losses, a list of floats
#     optimizer, losses = make_optimizer(model), []
#     for inputs, targets in batches:
#         scores, _ = model(inputs)  # (b, t, v)
#         loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
#         optimizer.zero_grad()
#         loss.backward()
#         optimizer.step()
#         losses.append(loss.item())
#     return losses
# ```
#
# </details>
#
# The **optimizer** is given. AdamW moves each parameter by a running mean of its gradients, divided by how large they
# usually are (the two `betas` say how long these means remember), and shrinks it slightly (`weight_decay`). The
# matrices of the blocks learn three times as fast as all else. The fraction that is multiplied with these rates grows
# for 150 steps, the **warm-up**, and then falls to 0. A *hook* is a function that the optimizer calls before or after
# each step; here one limits the gradients and one sets the next rate. (`lambda *_:` is a function that ignores what it
# is given.)

# %%
def make_optimizer(model, steps=1500, fastest=6e-3):
    matrices = [one for one in model.blocks.parameters() if one.dim() == 2]
    others = [one for one in model.parameters() if all(one is not m for m in matrices)]
    groups = [{"params": matrices}, {"params": others, "lr": fastest / 3}]
    optimizer = torch.optim.AdamW(groups, fastest, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 150) * (1 - step / steps)
    )
    # a single huge gradient must not dominate AdamW's running means
    clip = nn.utils.clip_grad_norm_
    optimizer.register_step_pre_hook(lambda *_: clip(model.parameters(), 1.0) and None)
    optimizer.register_step_post_hook(lambda *_: schedule.step())
    return optimizer


# %% [markdown]
# A model also needs a **good start**. What a head finds reaches the output through its value matrix and the output
# projection. If the second is the first one transposed, the two together roughly give back the word that the head looks
# at, and the last matrix, the table of words, makes it likelier as the next one. Only *where* to look remains to be
# learned. (A start that looks trained is the idea of [Trockman and Kolter, 2023](https://arxiv.org/abs/2305.09828).)

# %%
@torch.no_grad()
def start_by_copying(model):
    for block in model.blocks:
        values, output = block.attention.v_proj.weight, block.attention.out_proj.weight
        shared_by = output.shape[1] // len(values)  # heads that share a head of values
        output.copy_(values.T.repeat(1, shared_by))  # (d, m) -> (m, h * d)


# %%
start_by_copying(gpt)

# %% [markdown]
# [A test of the
# course](https://github.com/attention-course/attention-course/blob/main/tests/training/test_what_capstone_parts_cost.py)
# trains models as you will train yours, from four random starts. Their losses on texts that they have not read, and how
# many of sixty stories kept the name:
#
# | start | seed 0 | seed 1 | seed 2 | seed 3 |
# |---|---|---|---|---|
# | loss with the good start | 0.39 | 0.37 | 0.38 | 0.36 |
# | without it | 0.71 | 0.67 | 0.43 | 0.65 |
# | names kept with the good start | 58 | 54 | 59 | 57 |
# | without it | 0 | 20 | 49 | 0 |
#
# Each step takes 8 texts of similar length; `yield` hands them over when the loop asks for the next. Five times, first
# with its good start alone, the model goes on with a story:

# %%
beginning = "Once there was an owl named Ida. She had a red kite. One day"
beginning = [numbers[word] for word in (END, *words(beginning))]
prompt = torch.tensor([beginning], device=device)  # (b, t); words from your text


# %%
@torch.no_grad()
def goes_on(model, num_new):
    story = write_greedily(model, prompt, num_new)[0]
    return f"... {as_text(story[len(beginning) :])}"


# %%
def batches(model, steps, told_after=(), seed=0):
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        if step in told_after:
            print(fill(f"After {step} steps: {goes_on(model, 28)}", 80))
        if step % 8 == 0:  # 8 batches at once
            drawn = torch.randint(split, (64,), generator=generator).to(device)
            drawn = drawn[lengths[drawn].argsort()].view(8, 8)
            drawn = drawn[torch.randperm(8, generator=generator).to(device)]
        yield text_batch(drawn[step % 8])


# %% [markdown]
# ## It learns
#
# About a minute on one core:

# %% tags=["trained", "nbval-ignore-output", "long"]
torch.set_num_threads(1)  # products this small are slower on several
told_after = (0, 50, 200, 600)
losses = training_loop(gpt, batches(gpt, 1500, told_after), make_optimizer)
print(fill(f"After 1500 steps: {goes_on(gpt, 60)}", 80))

# %% [markdown]
# Each point is the mean of 50 steps:

# %% tags=["trained", "nbval-ignore-output"]
means = torch.tensor(losses).view(-1, 50).mean(dim=1).tolist()
curve = dict(zip(range(50, 1501, 50), means, strict=True))
curves = {"your model": curve, "table of pairs": {50: bar, 1500: bar}}
line_plot(curves, title="The loss", xlabel="steps", ylabel="loss", logarithmic=False)

# %% tags=["trained", "nbval-ignore-output"]
trained = held_out_loss(gpt)
print(f"loss on texts that it has not read: {trained:.2f}", end=", ")
print(f"as unsure as between {torch.tensor(trained).exp():.1f} words")

# %% [markdown]
# The second number is e to the loss, the **perplexity**: that many equally likely words would leave it as unsure.
#
# ## Does it keep its facts?
#
# For variety, draw each word at random; dividing the scores by a **temperature** below 1 makes the likely words
# likelier still. Sixty stories, of which you see two:

# %%
@torch.no_grad()
def write(model, tokens, num_new, temperature=1.0, seed=0):
    # (batch, token) -> (batch, token + num_new)
    unread, caches = tokens, None
    generator = torch.Generator().manual_seed(seed)
    for _ in range(num_new):
        scores, caches = model(unread, caches)
        chances = (scores[:, -1] / temperature).softmax(dim=-1)  # (b, v)
        unread = torch.multinomial(chances.cpu(), 1, generator=generator).to(device)
        tokens = torch.cat([tokens, unread], dim=1)
    return tokens


# %%
start = torch.tensor([[numbers[END]]], device=device)  # (b, t)


def sixty(model):
    found = write(model, start.repeat(60, 1), max_len - 1, temperature=0.7)
    return [as_text(each[1:]) for each in found]


# %% tags=["trained", "nbval-ignore-output"]
told = sixty(gpt)
for story in told[:2]:
    print(fill(story, 80), end="\n\n")

# %% [markdown]
# `facts_kept` says of each kind of fact in a story, such as the name or the animal, whether it stays what it was, and
# of the sentences whether all are of the language. Here is each kind of fact, in the stories that mention it:

# %%
def show_results(name, model, told):
    print(f"{name}: loss {held_out_loss(model):.2f}")
    kept, results = [facts_kept(story) for story in told], []
    for kind in ("name", "animal", "thing", "colour", "place"):
        said = [each[kind] for each in kept if kind in each]
        results.append(f"{kind} {sum(said)} of {len(said)}")
    print("kept:", ", ".join(results))


# %% tags=["trained", "nbval-ignore-output"]
show_results("with a table", gpt, told)

# %% [markdown]
# **Predict.** In how many of the sixty stories is everything right?

# %%
guess = ...  # an integer
right = sum(all(facts_kept(story).values()) for story in told)
predict(guess, lambda: right, within=6)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# In more than half of them, from each of the four starts of the table above. One fault of any kind spoils a story.
#
# </details>
#
# Only attention carries a name from the first sentence to the last, and where to look for it was learned by predicting
# the next word. (Copying was put in.)
#
# ## Throw the table away
#
# The model can't read more than `max_len` tokens, because its table of positions ends there. Rotary positions ([lesson
# 07](07_order.ipynb)) are computed. Your attention of lesson 09 has them, and with one kv head it is multi-query
# attention. Here it brings its cache along, with room for 512 tokens:

# %%
MyLlamaAttention, MyCache = from_earlier("MyLlamaAttention"), from_earlier("MyCache")


# %%
class RotaryMultiQuery(MyLlamaAttention):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads, num_kv_heads=1)

    def forward(self, x, cache=None):
        if cache is None:
            with x.device:  # tensors are made there
                cache = MyCache(len(x), 1, 512, width // num_heads).to(x)
        return super().forward(x, cache), cache


# %% [markdown]
# Your trained model gets the new attention, keeps its matrices, and loses its table. How much does it still know, and
# how much after 400 more steps?

# %%
def make_short(model):
    return make_optimizer(model, steps=400, fastest=4e-3)


# %% tags=["trained", "nbval-ignore-output"]
torch.manual_seed(0)
rotary = TinyGPT(RotaryMultiQuery, positions=False).to(device)
start_by_copying(rotary)
rotary.load_state_dict(gpt.state_dict(), strict=False)
without_table = held_out_loss(rotary)
print(f"without the table: loss {without_table:.2f}, and that of pairs is {bar:.2f}")
training_loop(rotary, batches(rotary, 400, seed=1), make_short)
rotated = sixty(rotary)
show_results("with a rotation", rotary, rotated)
whole = sum(all(facts_kept(story).values()) for story in rotated)
print(f"everything right: {whole} of 60, and with the table {right}")

# %%
for kind in ("name", "animal"):  # most stories with the table kept them
    assert sum(facts_kept(story).get(kind, False) for story in told) > 36
assert without_table > bar  # it fell behind pairs ...
assert held_out_loss(rotary) < trained + 0.02  # ... and is back
print(write_greedily(rotary, start, 400).shape[1], "tokens, and no error")

# %% [markdown]
# With another source of order the model falls behind the count of pairs, and in a few hundred steps its loss is back.
# Its facts are not, after so few steps: compare the two rows. (Not all of what is back is the rotation's work: the
# third task of "Your turn" leaves it out.) Now nothing in the model ends at `max_len`, but it has never seen what
# follows the end of a story. The second task teaches it.
#
# ## Is it right? Ask the doctor
#
# The doctor of [lesson 15](15_debugging_attention.ipynb) examines the whole model, but it reads each text in one call:
# a class that ignores its cache looks healthy to it. So test the cache, too. Word by word, the scores must be those of
# one pass over the whole beginning.

# %%
report = diagnose(
    rotary.eval(),
    prompt[:, :7].repeat(2, 1),
    num_heads=num_heads,
    num_kv_heads=1,
    call=lambda model, tokens: model(tokens)[0],
)
print("nothing wrong was found:", report.ok)

# %%
scores, caches = [], None
for token in prompt.split(1, dim=1):
    newest, caches = rotary(token, caches)
    scores.append(newest)
torch.testing.assert_close(torch.cat(scores, 1), rotary(prompt)[0], rtol=0, atol=1e-3)
print("word by word from the cache: the same scores as at once")

# %% [markdown]
# ## A page for a friend
#
# The course's `Storyteller` takes your weights and your class as they are, and `save_page` writes both into one file.
# We send the model with the table: in our runs more of its stories were right. Your friend needs neither Python nor a
# network: type a beginning, the model writes on, and each word shows where your heads looked.

# %% tags=["trained", "nbval-ignore-output"]
sizes = {"width": width, "num_heads": num_heads, "max_len": max_len}
mine = Storyteller(MultiQueryWithCache, **sizes, vocabulary=vocabulary)
mine.load_state_dict(gpt.cpu().state_dict())
page = save_page(mine, "my_storyteller.html", title="My storyteller")
print(f"{page.name}: {page.stat().st_size // 1000} kB")

# %% [markdown]
# If you have trained it on a text of your own, give `save_page` a `beginning` of words from your text.
#
# ## Your turn
#
# 1. Take one part away and train a new model: the good start, the positions, the residual additions, LayerNorm, the
#    MLP, or attention itself. Which one raises the held-out loss most when it goes? Guess an order first.
# 2. Let the rotary model read two stories in a row while it trains, and then tell two in a row.
# 3. Train `rotary` once more with `MultiQueryWithCache` and `positions=False`: no table and no rotation. How far does
#    it come?
#
# <details><summary>Answers</summary>
#
# 1. The residual additions, attention and the MLP, from each of three starts. The other parts cost a tenth at most so
#    early, and LayerNorm nothing with seed 0. (After a longer training the good start makes the difference of the table
#    above.) The code below printed these held-out losses without each part:
#
#    ```text
#    seeds:     0    1    2
#    nothing    0.94 0.91 0.92
#    attention  1.70 1.72 1.72
#    MLP        1.66 1.68 1.60
#    positions  0.87 0.96 0.91
#    start      0.96 0.97 0.98
#    LayerNorm  0.84 1.01 1.01
#    residual   2.02 1.99 1.92
#    ```
#
#    ```python
#    class WithoutAdding(Block):
#        def forward(self, x, cache=None):
#            found, cache = self.attention(self.attention_norm(x), cache)
#            return self.mlp(self.mlp_norm(found)), cache
#
#
#    def trained_without(part, fastest, seed=0, steps=600):
#        torch.manual_seed(seed)
#        model = TinyGPT(MultiQueryWithCache).to(device)
#        if part == "residual":
#            blocks = [WithoutAdding(MultiQueryWithCache) for _ in model.blocks]
#            model.blocks = nn.ModuleList(blocks).to(device)
#        if part != "start":
#            start_by_copying(model)
#        if part == "LayerNorm":
#            model.norm = nn.Identity()
#            for block in model.blocks:
#                block.attention_norm = block.mlp_norm = nn.Identity()
#        parts = {"attention": [], "MLP": [], "positions": [model.position_table]}
#        for block in model.blocks:
#            parts["attention"] += block.attention.parameters()
#            parts["MLP"] += block.mlp.parameters()
#        for parameter in parts.get(part, ()):
#            parameter.requires_grad_(False).zero_()  # and zeros they stay
#        rates = lambda model: make_optimizer(model, steps, fastest)
#        training_loop(model, batches(model, steps), rates)
#        return model
#
#
#    weights = ("attention", "MLP", "positions")
#    for part in ("nothing", *weights, "start", "LayerNorm", "residual"):
#        by_seed = [trained_without(part, 6e-3, seed) for seed in (0, 1, 2)]
#        print(f"{part:10}", *(f"{held_out_loss(model):.2f}" for model in by_seed))
#    ```
#
# 2. Two texts in a row are one sample if the second begins where the first ends. Set a larger `max_len`, let `lengths`
#    count both, and train for some hundred steps more. When it writes, the first `END` is the border, and the second
#    one the end.
# 3. It comes most of the way, with each of three seeds, and never as far as with the rotation: the mask reveals some
#    order.
#
# </details>
#
# ## What you can do now
#
# Write each form of attention from an empty cell and prove it right, count what a model costs, name a mistake that no
# error reports, and build a small GPT that writes with a cache.
#
# <details><summary>Where to go from here</summary>
#
# - Andrej Karpathy, [Let's build GPT: from scratch, in code, spelled out](https://www.youtube.com/watch?v=kCc8FmEb1nY),
#   2023: in two hours of video a model like yours grows to ten million parameters.
# - Sebastian Raschka, [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024:
#   a book with code, which goes on to loading GPT-2's weights and to fine-tuning.
# - Stanford University, [CS336: Language Modeling from Scratch](https://cs336.stanford.edu), 2025: tokenizers, kernels,
#   parallel training and data, with assignments.
#
# </details>
#
# **Practise:** [seven exercises](exercises/17_exercises.ipynb), about 40 minutes.
#
# **Next:** this was the last lesson. Change something in your model, and find out what happens.
