# %% [markdown]
# # Write it yourself
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/14_capstone.ipynb)
#
# You will write multi-head attention, and then multi-query attention with a cache, from empty cells and without looking
# anything up. Then you build a tiny GPT around the second of them, train it on little stories for less than a minute,
# and let it tell stories of its own.
#
# **You need** lessons [02](02_masks_and_dropout.ipynb), [05](05_weight_split.ipynb), [06](06_multi_query.ipynb),
# [07](07_order_and_padding.ipynb) and [10](10_what_heads_learn.ipynb). **It takes** about 45 minutes.

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
from course_lib.exercises import filled, predict
from course_lib.pictures import line_plot
from course_lib.show import show
from course_lib.stories import (
    facts_kept,
    joined,
    load_storyteller,
    sinusoids,
    stories,
    words,
)

device = course_device()

# %% [markdown]
# ## Multi-head attention, from memory
#
# Close the other lessons. Names and layout of the weight matrices are up to you, because the check compares what your
# class computes.
#
# <details><summary>A hint, if you get stuck</summary>
#
# Write the steps as comments first, each with its shape: project, split into heads, score, hide what is later, softmax,
# mix the values, merge the heads, project.
#
# </details>

# %%
class MultiHeadFromMemory(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()

    def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
        raise NotImplementedError  # your lines, here and above


MultiHeadFromMemory = filled("MultiHeadFromMemory", MultiHeadFromMemory)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MultiHeadFromMemory(nn.Module):
#     def __init__(self, d_in, d_out, num_heads):
#         super().__init__()
#         self.num_heads, self.head_dim = num_heads, d_out // num_heads
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, d_out, bias=False)
#         self.v_proj = nn.Linear(d_in, d_out, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#
#     def forward(self, x):  # (batch, token, d_in) -> (batch, token, d_out)
#         batch, num_tokens, _ = x.shape
#         per_head = (batch, num_tokens, self.num_heads, self.head_dim)
#         # (b, t, m) -> (b, t, h, d) -> (b, h, t, d)
#         queries = self.q_proj(x).view(per_head).transpose(1, 2)
#         keys = self.k_proj(x).view(per_head).transpose(1, 2)
#         values = self.v_proj(x).view(per_head).transpose(1, 2)
#         # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
#         scores = (queries * self.head_dim**-0.5) @ keys.transpose(2, 3)
#         later = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
#         # (b, h, t, d)
#         context = scores.masked_fill(later, -torch.inf).softmax(dim=-1) @ values
#         return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))
# ```
#
# </details>
#
# **Predict.** The model below is 64 wide and has 4 heads. How many parameters does your class have at this size?

# %%
width, num_heads = 64, 4
from_memory = MultiHeadFromMemory(width, width, num_heads)
guess = ...  # an integer
predict(guess, lambda: sum(one.numel() for one in from_memory.parameters()))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# There are four matrices of `width * width` numbers: for the queries, the keys, the values and the output. The number
# of heads does not appear in the count, because the heads divide the width among them. If your layers have biases, each
# of the four adds another `width` numbers.
#
# </details>
#
# ## Multi-query attention with a cache, from memory
#
# In multi-query attention all heads share one head of keys and one of values (Shazeer, [Fast Transformer Decoding: One
# Write-Head is All You Need](https://arxiv.org/abs/1911.02150), 2019). The cache keeps them from call to call. Here
# `forward` returns two things: the output for the new tokens, and the cache, a tuple of all keys and all values so far.
# The mask needs some care: if five tokens are in the cache and two are new, the first of these two sees six keys.

# %%
class MultiQueryWithCache(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()

    def forward(self, x, cache=None):
        # (batch, token, d_in), keys and values -> (batch, token, d_out), the new cache
        raise NotImplementedError  # your lines, here and above


MultiQueryWithCache = filled("MultiQueryWithCache", MultiQueryWithCache)

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
# A cache must not change any output. Test it with seven tokens in one call and in two pieces:

# %%
torch.manual_seed(0)
attention = MultiQueryWithCache(width, width, num_heads).to(device)
x = torch.randn(2, 7, width).to(device)  # (b, t, m)
at_once, cache = attention(x)
first, grown = attention(x[:, :5])
second, _ = attention(x[:, 5:], grown)
torch.testing.assert_close(torch.cat([first, second], dim=1), at_once)
print("seven tokens at once, and five and then two: the same output")

# %% [markdown]
# So the two tokens of the second piece have seen the five of the first.
#
# **Predict.** How many numbers does your cache keep for each token of a text?

# %%
guess = ...  # an integer
# 2 texts of 7 tokens
predict(guess, lambda: sum(part.numel() for part in cache) // (2 * 7))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# It keeps one key and one value, each as wide as a single head, which is `width // num_heads`. Multi-head attention
# keeps a key and a value for each head, which makes `2 * width` numbers per token.
#
# </details>
#
# ## Stories to learn from
#
# The model learns from stories that the course makes up, in a little language of about three hundred words. Each story
# has facts that come back later: names, animals, things, colours, places. To get them right, a model has to look back.

# %%
texts = [story.text for story in stories(6000, seed=1)]
# from course_lib.inputs import fables
# texts = fables().split("\n\n")  # or the paragraphs of any other text
print(fill(texts[8], 80))

# %% [markdown]
# A text of yours goes the same way: put the list of its paragraphs in the place of `texts`. If you have none at hand,
# take the fables of Aesop. The more different words a text has, the longer a model takes to learn it.
#
# Each different word or punctuation mark is a token of our vocabulary. (Larger models use pieces of words.) One more
# token stands before each text and after it.

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
count = int(lengths.sum())
print(f"{len(texts):,} texts, {count:,} tokens, {len(vocabulary)} different")

# %% [markdown]
# The last tenth of the texts is **held out**: the model never trains on it, so the loss on it tells you how well it
# predicts text that it has not read. From the rest we cut training samples. On a sample of `length` tokens the model
# makes `length` predictions in one pass, because the causal mask keeps each of them from seeing what comes next.
#
# **Write it yourself:** cut one sample at each of the `starts`, and its targets, which are the tokens one place later.
# (If you index `tokens` with a table of integers, you get a table of the same shape.)

# %%
def cut_batch(tokens, starts, length):
    # (text,) and (batch,) of integers, an int -> two of (batch, length)
    raise NotImplementedError  # your lines: the inputs and the targets


cut_batch = filled("cut_batch", cut_batch)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def cut_batch(tokens, starts, length):
#     # (text,) and (batch,) of integers, an int -> two of (batch, length)
#     steps = torch.arange(length + 1, device=starts.device)
#     places = starts[:, None] + steps  # (b, 1) + (t + 1) -> (b, t + 1)
#     pieces = tokens[places]
#     return pieces[:, :-1], pieces[:, 1:]
# ```
#
# </details>

# %%
def as_text(tokens):
    found = [vocabulary[token] for token in tokens.tolist()]
    return joined(found[: found.index(END)] if END in found else found)


inputs, targets = cut_batch(tokens, starts[:2] + 1, 9)
for row in range(2):
    print(repr(as_text(inputs[row])), "->", repr(as_text(targets[row])))

# %% [markdown]
# Each word on the right is what the model should predict after it has read the left text up to that place.
#
# The texts of a batch differ in length. The samples are as long as the longest of them, and what lies beyond the end of
# a shorter one is no target: with the number -100 in its place, PyTorch's cross-entropy leaves it out.

# %%
def text_batch(chosen):
    # (batch,), numbers of texts -> two of (batch, token)
    length = int(lengths[chosen].clamp(max=max_len).max())
    inputs, targets = cut_batch(tokens, starts[chosen], length)
    beyond = torch.arange(length, device=device) >= lengths[chosen][:, None]
    return inputs, targets.masked_fill(beyond, -100)


# %% [markdown]
# ## What surrounds attention
#
# Besides attention, a GPT has five more parts.
#
# **Embedding.** A table with one row of learned numbers per token of the vocabulary turns the integers into vectors,
# because attention compares and mixes vectors. The same table is the model's last matrix: the product of an output with
# the vector of a word is the score of that word as the next one (Press and Wolf, [Using the Output Embedding to Improve
# Language Models](https://arxiv.org/abs/1608.05859), 2017).
#
# **Positions.** Attention ignores the order of the tokens that a query sees (lesson 07), so a second table has one
# learned row per position, which is added to the embedding. GPT-2 did it in this way (Radford et al., [Language Models
# are Unsupervised Multitask Learners](https://openai.com/index/better-language-models/), 2019). Ours begins with sines
# and cosines, which the first transformer had in this place. The price of a table is that the model can't read a text
# that is longer than the table.
#
# **Residual connection.** A layer's output is added to its input and does not replace it. Each layer therefore needs to
# learn only what to add, and during training the gradient reaches the first layer through the sums, which pass it on
# unchanged (He et al., [Deep Residual Learning for Image Recognition](https://arxiv.org/abs/1512.03385), 2015).
#
# **LayerNorm.** It shifts and scales each token's vector to mean 0 and variance 1, so that what a layer reads has the
# same size however much was added before, and then it applies a learned gain and shift (Ba, Kiros and Hinton, [Layer
# Normalization](https://arxiv.org/abs/1607.06450), 2016). You write it in exercise 2 of [the
# sheet](exercises/14_exercises.ipynb).
#
# **MLP** (multilayer perceptron, or feedforward part). Two linear layers with a nonlinear function (GELU) between them
# are applied to each token by itself. Attention gathers what a token should know of the others, and the MLP computes
# with what was gathered.
#
# <details><summary>What other models do differently</summary>
#
# - The first transformer normalized *after* each addition. Here, as in GPT-2 and nearly all models since, LayerNorm
#   stands before the layer, so that the sums run undisturbed from the first block to the last; without this, training
#   needs a careful warm-up (Xiong et al., [On Layer Normalization in the Transformer
#   Architecture](https://arxiv.org/abs/2002.04745), 2020).
# - GPT-2 trains with **dropout** (lesson 02) on the attention weights and on what each layer adds. Many large models,
#   Llama's among them, have a last matrix of its own in place of the table of embeddings.
# - Llama has RMSNorm in place of LayerNorm (lesson 08), rotary positions in place of the second table (lesson 07), and
#   a third matrix in the MLP.
# - A translation model has a second stack of blocks without a causal mask, the **encoder**, which reads the other
#   sentence and which the decoder queries by cross-attention (lesson 07). Ours is a **decoder** alone.
#
# </details>
#
# The last three make up a block, together with your attention:

# %%
class Block(nn.Module):
    def __init__(self, attention, width, num_heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = attention(width, width, num_heads)
        widen, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(widen, nn.GELU(), narrow)

    def forward(self, x, cache=None):
        found, cache = self.attention(self.norms[0](x), cache)
        x = x + found  # residual: (b, t, m) + (b, t, m)
        return x + self.mlp(self.norms[1](x)), cache


# %% [markdown]
# To test that LayerNorm and the MLP work on each token by itself, we change token 3 of seven and see which outputs
# change, first without attention and then with it:

# %%
block = Block(MultiQueryWithCache, width, num_heads).to(device)
changed = x.clone()
changed[:, 3] *= -1.0  # token 3
without = block.mlp(block.norms[1](changed)) - block.mlp(block.norms[1](x))
whole = block(changed)[0] - block(x)[0]
show("LayerNorm and MLP alone: changed", without.abs().amax(dim=(0, 2)) > 1e-6, "token")
show("the whole block: changed", whole.abs().amax(dim=(0, 2)) > 1e-6, "token")

# %% [markdown]
# Without attention only token 3 changes. In the whole block the tokens after it change, too, because they attend to it.
# So only the class that you wrote moves anything from one word to another.
#
# The model consists of the two tables, two blocks and one more LayerNorm. Each block has a cache of its own. Beside the
# caches we keep the number of tokens read so far, which is the position of the next one.

# %%
class TinyGPT(nn.Module):
    def __init__(self, attention, num_layers=2):
        super().__init__()
        self.words = nn.Embedding(len(vocabulary), width)
        nn.init.normal_(self.words.weight, std=width**-0.5)
        self.positions = nn.Parameter(0.5 * sinusoids(max_len, width))
        blocks = [Block(attention, width, num_heads) for _ in range(num_layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, caches=None):
        # (batch, token) of integers -> (batch, token, vocabulary), the new caches
        num_read, caches = caches or (0, [None] * len(self.blocks))
        end = num_read + tokens.shape[1]
        if end > max_len:
            raise ValueError(f"the model reads {max_len} tokens at most, not {end}")
        # (b, t, m) + (t, m)
        x = width**0.5 / 2 * self.words(tokens) + self.positions[num_read:end]
        grown = []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(x, cache)
            grown.append(cache)
        # (b, t, m) @ (m, v) -> (b, t, v)
        return self.norm(x) @ self.words.weight.T, (end, grown)


# %%
torch.manual_seed(0)
gpt = TinyGPT(MultiQueryWithCache).to(device)
counts = {name: one.numel() for name, one in gpt.named_parameters()}
in_mlps = sum(count for name, count in counts.items() if ".mlp." in name)
print(f"{sum(counts.values()):,} parameters, {in_mlps:,} of them in the MLPs")

# %% [markdown]
# So more than half of them are in the MLPs. (Biases in your class add a few.) In exercise 5 of [the
# sheet](exercises/14_exercises.ipynb) you count the parameters of a GPT from its sizes.
#
# ## How wrong is it?
#
# Softmax turns the scores into a probability for each word. The **loss** is minus the logarithm of the probability that
# the model gave to the word that really came next, averaged over all predictions (**cross-entropy**). You
# write it in exercise 1 of [the sheet](exercises/14_exercises.ipynb).

# %%
split = len(texts) * 9 // 10
seen = torch.arange(split, device=device)
held_out = torch.arange(split, len(texts), device=device)[:200]


@torch.no_grad()
def held_out_loss(model):
    inputs, targets = text_batch(held_out)
    return F.cross_entropy(model(inputs)[0].flatten(0, 1), targets.flatten()).item()

# %% [markdown]
# **Predict.** Which loss does the model have before training?

# %%
untrained = held_out_loss(gpt)
guess = ...  # a number with decimals
predict(guess, untrained, within=0.3)

# %% [markdown]
# <details><summary>After your guess</summary>
#
# A model that knows nothing can do no better than to give each of the `len(vocabulary)` words the same probability. The
# loss is then the logarithm of the size of the vocabulary. The untrained model is slightly worse than that, because its
# random weights prefer some words for no reason.
#
# </details>
#
# ## Train it
#
# **A good start.** What a head finds reaches the output through its value matrix and the output projection. While these
# two are random, looking at the right word is of little use, so little teaches the queries and keys where to look.
# Begin with an output projection that turns the values back, and what a head reads from a word is added along the
# word's own direction. Since the last matrix is the table of words, a word that is looked at becomes likelier as the
# next one, and only *where* to look remains to be learned (after Trockman and Kolter, [Mimetic Initialization of
# Self-Attention Layers](https://arxiv.org/abs/2305.09828), 2023). If your layers have other names than these two,
# change the line.

# %%
@torch.no_grad()
def start_by_copying(model):
    for block in model.blocks:
        values, output = block.attention.v_proj.weight, block.attention.out_proj.weight
        shared_by = output.shape[1] // len(values)  # heads that share a head of values
        output.copy_(values.T.repeat(1, shared_by))  # (d, m) -> (m, h * d)


start_by_copying(gpt)

# %% [markdown]
# Each step takes 8 texts, computes the loss, and lets AdamW move all parameters a little so that the loss falls. Texts
# of like length go together, because what is beyond the end of a text is computed for nothing. AdamW is the Adam of
# lesson 10 that also shrinks the parameters slightly. Its learning rate first grows, because the optimizer has seen few
# gradients and can be misled by them. Then it shrinks to 0, because with large steps the parameters keep jumping around
# the values at which the loss is smallest. The tables and the norms move a third as far as the matrices of the blocks.

# %%
def train(model, steps=1500, fastest=6e-3):
    generator = torch.Generator().manual_seed(0)
    matrices = [one for one in model.blocks.parameters() if one.dim() == 2]
    others = [one for one in model.parameters() if all(one is not m for m in matrices)]
    groups = [{"params": matrices}, {"params": others}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    for step in range(steps):
        rate = fastest * min(1.0, (step + 1) / 50) * (1 - step / steps)
        for group, share in zip(optimizer.param_groups, (1, 1 / 3), strict=True):
            group["lr"] = share * rate
        if step % 8 == 0:  # 8 batches at once, each of texts of like length
            drawn = seen[torch.randint(len(seen), (64,), generator=generator)]
            batches = drawn[lengths[drawn].argsort()].view(8, 8)
            batches = batches[torch.randperm(8, generator=generator)]
        inputs, targets = text_batch(batches[step % 8])
        loss = F.cross_entropy(model(inputs)[0].flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        # a single huge gradient must not dominate AdamW's running means
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    means = torch.tensor(losses).view(-1, 50).mean(dim=1).tolist()  # of 50 steps each
    return dict(zip(range(50, steps + 1, 50), means, strict=True))


# %% [markdown]
# Training takes about 40 seconds on one core.

# %% tags=["trained", "nbval-ignore-output"]
torch.set_num_threads(1)  # products this small are slower when they are shared out
curve = train(gpt)
title = "The loss on the text it trains on"
line_plot(
    {"loss": curve}, title=title, xlabel="steps", ylabel="loss", logarithmic=False
)

# %% [markdown]
# Each point is the mean loss of 50 steps.

# %% tags=["trained", "nbval-ignore-output"]
trained = held_out_loss(gpt)
e_to_the_loss = torch.tensor(trained).exp()
print(f"loss on text that it has not read: {trained:.2f}", end=", ")
print(f"e to the loss: {e_to_the_loss:.1f}")

# %% [markdown]
# The second number is called **perplexity**: the model is as uncertain as if it had to choose among that many equally
# likely words. (Your digits may differ. The next cell prints two results that should hold anyway.)

# %%
print("less than a tenth of the untrained loss:", trained < 0.1 * untrained)
more = untrained - curve[100] > curve[100] - curve[1500]
print("the first 100 steps did more than the 1,400 after them:", more)

# %% [markdown]
# ## It writes
#
# A model writes by reading its own output. It gives each word a score, one of them is chosen, and the model reads this
# word next. With the cache it has to read only this one.
#
# **Write it yourself:** the loop for the simplest choice, which always takes the word with the largest score (**greedy
# decoding**). Give the model each word only once.

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

# %% tags=["trained", "nbval-ignore-output"]
start = torch.tensor([encoded[split][:6]], device=device)  # (b, t): of a text not read
with torch.no_grad():
    story = write_greedily(gpt, start, max_len - start.shape[1])[0]
print(fill(as_text(story[1:]), 80))  # without the token that begins it

# %% [markdown]
# Greedy texts are all alike, and those of large models tend to repeat themselves ([Holtzman et al., The Curious Case of
# Neural Text Degeneration, 2019](https://arxiv.org/abs/1904.09751)). One remedy is to draw the next word at random,
# with the model's probabilities. Dividing the scores by a **temperature** below 1 makes the likely words likelier
# still.

# %%
@torch.no_grad()
def write(model, tokens, num_new, temperature, generator):
    # (batch, token) -> (batch, token + num_new)
    unread, caches = tokens, None
    for _ in range(num_new):
        scores, caches = model(unread, caches)
        probabilities = (scores[:, -1] / temperature).softmax(dim=-1)  # (b, v)
        unread = torch.multinomial(probabilities.cpu(), 1, generator=generator)
        unread = unread.to(device)  # drawn on the CPU
        tokens = torch.cat([tokens, unread], dim=1)
    return tokens


# %% tags=["trained", "nbval-ignore-output"]
temperature, generator = 0.7, torch.Generator().manual_seed(0)
start = torch.tensor([[numbers[END]]], device=device)
told = write(gpt, start.repeat(60, 1), max_len - 1, temperature, generator)
told = [as_text(each[1:]) for each in told]
for story in told[:3]:
    print(fill(story, 80), end="\n\n")

# %% [markdown]
# Read them. Is the animal still the same one at the end, and is the thing? `facts_kept` reads a story of this language
# and tells of each kind of fact whether it stays what it was and comes back at least once. Over all sixty stories:

# %% tags=["trained", "nbval-ignore-output"]
kept = [facts_kept(story) for story in told]
shares = {}
for kind in ("name", "animal", "thing", "colour"):
    found = [each[kind] for each in kept if kind in each]
    shares[kind] = sum(found) / max(1, len(found))  # a text of yours has none
    print(f"{kind}: kept in {sum(found)} of the {len(found)} stories that have one")

# %%
print("most names, animals, things and colours are kept:", min(shares.values()) > 0.6)

# %% [markdown]
# Nothing but attention can do that, because every other part works on each word by itself. All of it was learned from
# the one task of predicting the next word. A large language model is made of the same kinds of parts. Exercises 3 and 4
# of [the sheet](exercises/14_exercises.ipynb) go on with choosing the next token.
#
# The model can't read more than `max_len` tokens, because its table of positions ends there. It can write one more,
# because it never reads the last one:

# %%
longest = write_greedily(gpt, start, max_len + 1 - start.shape[1])
print(longest.shape[1], "tokens are written")
try:
    gpt(longest)
except ValueError as error:
    print(error)

# %% [markdown]
# Rotary positions ([lesson 07](07_order_and_padding.ipynb)) need no such table, and a rolling cache ([lesson
# 09](09_smaller_caches.ipynb)) doesn't grow with the text.
#
# The course carries a model of the same parts that was trained for some minutes more. It has three blocks, and two
# heads of keys and values in each:

# %%
best = load_storyteller("best").to(device)
print(fill(best.write("Once there was an owl named Ida. She had a red kite."), 80))

# %% [markdown]
# ## Your turn
#
# 1. Write with `temperature = 0.1`, and then with `temperature = 1.5`. What changes?
# 2. Take one part away and train a new model: the good start, the positions, the residual additions, LayerNorm, the
#    MLP, or attention itself. Which part costs the held-out loss most? Guess an order first.
# 3. Train a model with your multi-head class. Is its loss lower than with shared keys and values?
# 4. Let the doctor of [lesson 12](12_debugging_attention.ipynb) examine your two classes.
# 5. Put your multi-query class into a trained storyteller, and save it as a page that you can send to a friend.
#
# <details><summary>Answers</summary>
#
# 1. At the low temperature the stories resemble each other and the greedy one: they use the likeliest sentences again
#    and again. At the high one words come up that fit no sentence.
# 2. Each line of the output is one part, with its losses at two learning rates. An order that was found at one learning
#    rate, or after so short a training, may not hold at another.
#
#    ```python
#    class WithoutAdding(Block):
#        def forward(self, x, cache=None):
#            found, cache = self.attention(self.norms[0](x), cache)
#            return self.mlp(self.norms[1](found)), cache
#
#
#    def loss_without(part, fastest, seed=0, steps=600):
#        torch.manual_seed(seed)
#        model = TinyGPT(MultiQueryWithCache).to(device)
#        if part == "residual":
#            sizes = MultiQueryWithCache, width, num_heads
#            blocks = [WithoutAdding(*sizes) for _ in model.blocks]
#            model.blocks = nn.ModuleList(blocks).to(device)
#        if part != "start":
#            start_by_copying(model)
#        if part == "LayerNorm":
#            model.norm = nn.Identity()
#            for block in model.blocks:
#                block.norms = nn.ModuleList([nn.Identity(), nn.Identity()])
#        parts = {"attention": [], "MLP": [], "positions": [model.positions]}
#        for block in model.blocks:
#            parts["attention"] += block.attention.parameters()
#            parts["MLP"] += block.mlp.parameters()
#        for parameter in parts.get(part, ()):
#            parameter.requires_grad_(False).zero_()  # and zeros they stay
#        train(model, steps, fastest)
#        return held_out_loss(model)
#
#
#    weights = ("attention", "MLP", "positions")
#    for part in ("nothing", *weights, "start", "LayerNorm", "residual"):
#        losses = [loss_without(part, fastest) for fastest in (6e-3, 2e-3)]
#        print(f"without {part}: {losses[0]:.2f} and {losses[1]:.2f}")
#    ```
#
# 3. The course's own storytellers, trained with either, hardly differ on stories as simple as these. Measurements on
#    large models find that sharing one key and value costs some quality, and grouped queries were invented to avoid
#    most of that (Ainslie et al., [GQA](https://arxiv.org/abs/2305.13245), 2023). Your multi-head class takes no cache,
#    so a small subclass adds the argument that a block expects:
#
#    ```python
#    class WithoutCache(MultiHeadFromMemory):
#        def forward(self, x, cache=None):
#            return super().forward(x), None
#
#
#    torch.manual_seed(0)
#    model = TinyGPT(WithoutCache).to(device)
#    start_by_copying(model)
#    train(model)
#    print(held_out_loss(model))
#    ```
#
# 4. It finds no mistake in the course's versions, and it lists what it has confirmed. Your second class returns two
#    things, so the last argument tells the doctor which of them is the output.
#
#    ```python
#    from course_lib.diagnosis import diagnose
#
#    sample = torch.randn(2, 5, 12)
#    print(diagnose(MultiHeadFromMemory(12, 12, 3), sample, num_heads=3).ok)
#    mine = MultiQueryWithCache(12, 12, 3)
#    diagnose(
#        mine,
#        sample,
#        num_heads=3,
#        num_kv_heads=1,
#        call=lambda module, x: module(x)[0],
#    )
#    ```
#
# 5. Your class gets the trained weights, whatever its layers are called. If it computed anything else than the form
#    with which the model was trained, it would be refused. On the page every word shows where it looked.
#
#    ```python
#    from course_lib.stories import save_page, with_attention
#
#    mine = with_attention(load_storyteller("multi-query"), MultiQueryWithCache)
#    save_page(mine, "my_storyteller.html")
#    ```
#
# </details>
#
# ## What you can do now
#
# - Write a head, multi-head, multi-query and grouped-query attention from an empty cell, and prove that they are right.
# - Say on which axis each step works, and which steps copy memory.
# - Count what a model costs: its parameters, its products, and the bytes of its cache.
# - Read the attention code of others, find what no error reports, and name it.
# - Build a small GPT around your attention, train it, and let it write with a cache.
#
# <details><summary>Where to go from here</summary>
#
# - Andrej Karpathy, [Let's build GPT: from scratch, in code, spelled out](https://www.youtube.com/watch?v=kCc8FmEb1nY),
#   2023: two hours of video in which a model like yours grows to ten million parameters.
# - Sebastian Raschka, [Build a Large Language Model (From Scratch)](https://github.com/rasbt/LLMs-from-scratch), 2024:
#   a whole book with code, which goes on to loading GPT-2's weights and to fine-tuning.
# - Stanford University, [CS336: Language Modeling from Scratch](https://cs336.stanford.edu), 2025: tokenizers, kernels,
#   parallel training and data, with assignments.
# - Elhage et al., [A Mathematical Framework for Transformer
#   Circuits](https://transformer-circuits.pub/2021/framework/index.html), 2021: how to read what a trained model
#   computes.
# - Austin et al., [How to Scale Your Model](https://jax-ml.github.io/scaling-book/), 2025: what decides the speed of
#   large models on many devices.
#
# </details>
#
# **Practise:** [five exercises](exercises/14_exercises.ipynb), about half an hour.
#
# **Next:** this was the last lesson. Change something in your model, and find out what happens.
