# %% [markdown]
# # Llama's attention and its cache
#
# [Open in Colab](https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/08_llama.ipynb)
#
# You write the attention of Llama from two pieces that you already have: shared heads and rotary positions. You show
# that it computes what the library `transformers` computes, you write the cache that lets it produce one word at a
# time, and at the end a tiny model made of your own code, trained in this notebook, writes a few sentences.
#
# **You need** lessons [06](06_multi_query.ipynb) and [07](07_order_and_padding.ipynb). **It takes** about 45 minutes.

# %% tags=["setup"]
# @title Setup: installs the course where it is missing (Colab, Kaggle, a bare Jupyter); elsewhere it does nothing
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("course_lib") is None:
    course = "attention-course[models] @ git+https://github.com/attention-course/attention-course@main"
    if subprocess.run([sys.executable, "-m", "pip", "install", "-q", course]).returncode:
        raise RuntimeError("The course could not be installed: switch the internet on and run this cell again.")

# %%
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import LlamaAttention, padding_keep
from course_lib.device import course_device
from course_lib.exercises import filled, from_earlier, predict
from course_lib.pictures import heatmap

device = course_device()
rotary_table = from_earlier("rotary_table")
rotate = from_earlier("rotate")
real_positions = from_earlier("real_positions")

# %% [markdown]
# ## What is different in Llama
#
# Llama (Touvron et al., [LLaMA: Open and Efficient Foundation Language Models](https://arxiv.org/abs/2302.13971), 2023)
# has the attention of lesson 05 with these changes:
#
# - Queries and keys are rotated by their positions, as in lesson 07.
# - Groups of query heads share a head of keys and values, as in lesson 06 (Ainslie et al.,
#   [GQA](https://arxiv.org/abs/2305.13245), 2023). The large Llama 2 models and all Llama 3 models do this.
# - No projection has a bias, and softmax runs in float32 even if the model computes in half precision, because a sum of
#   many small numbers loses digits there.
#
# The base of the rotation is 10000 in Llama 2 and 500000 in Llama 3 (Grattafiori et al., [The Llama 3 Herd of
# Models](https://arxiv.org/abs/2407.21783), 2024, table 3). The slowest pair of a head of 128 elements needs this many
# tokens for a full turn:

# %%
def tokens_for_a_turn(base, pair=63, head_dim=128):
    return 2 * torch.pi * base ** (2 * pair / head_dim)


print(f"Llama 2: {tokens_for_a_turn(10000.0):,.0f} tokens")

# %% [markdown]
# **Predict** how many times as many tokens it needs in Llama 3. (An answer within a tenth counts.)

# %%
guess = ...  # a number with decimals, such as 2.0
predict(guess, lambda: tokens_for_a_turn(500000.0) / tokens_for_a_turn(10000.0))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# The base is fifty times as large, and the exponent of the last pair is nearly 1, so the pair needs nearly fifty times
# as many tokens. Longer texts need slower pairs, because a pair that comes round again can't tell two distances apart.
#
# </details>
#
# ## Write it
#
# The stub holds everything that you have written before. Three things are missing, and their order matters: rotate the
# queries and keys; if there is a cache, hand it the new keys and values and get back those of all tokens so far; and
# repeat each kv head for the query heads that share it.

# %%
class MyLlamaAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        cos, sin = rotary_table(512, self.head_dim, 10000.0)  # (position, pair)
        self.register_buffer("cos", cos.float(), persistent=False)
        self.register_buffer("sin", sin.float(), persistent=False)

    def forward(self, x, positions=None, keep=None, cache=None):  # (batch, token, d_in) -> (batch, token, d_out)
        per_head = (*x.shape[:2], -1, self.head_dim)
        queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d)
        keys = self.k_proj(x).view(per_head).transpose(1, 2)  # (b, g, t, d): g kv heads
        values = self.v_proj(x).view(per_head).transpose(1, 2)
        if positions is None:
            start = 0 if cache is None else cache.length
            positions = torch.arange(start, start + x.shape[1], device=x.device)
        cos, sin = self.cos[positions], self.sin[positions]  # (token, pair)
        raise NotImplementedError  # your lines: rotate; keys, values = cache(keys, values) if there is one; repeat
        scores = queries @ keys.transpose(2, 3) * self.head_dim**-0.5  # (b, h, q, k)
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
        seen = seen.tril(scores.shape[-1] - scores.shape[-2])  # the last query sees all keys
        scores = scores.masked_fill(~(seen if keep is None else seen & keep), -1e30)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
        return self.out_proj((weights @ values).transpose(1, 2).flatten(2))  # (b, h, t, d) -> (b, t, h * d)


MyLlamaAttention = filled("MyLlamaAttention", MyLlamaAttention)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyLlamaAttention(nn.Module):
#     def __init__(self, d_in, d_out, num_heads, num_kv_heads):
#         super().__init__()
#         self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_out // num_heads
#         self.q_proj = nn.Linear(d_in, d_out, bias=False)
#         self.k_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
#         self.v_proj = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
#         self.out_proj = nn.Linear(d_out, d_out, bias=False)
#         cos, sin = rotary_table(512, self.head_dim, 10000.0)  # (position, pair)
#         self.register_buffer("cos", cos.float(), persistent=False)
#         self.register_buffer("sin", sin.float(), persistent=False)
#
#     def forward(self, x, positions=None, keep=None, cache=None):  # (batch, token, d_in) -> (batch, token, d_out)
#         per_head = (*x.shape[:2], -1, self.head_dim)
#         queries = self.q_proj(x).view(per_head).transpose(1, 2)  # (b, t, h * d) -> (b, t, h, d) -> (b, h, t, d)
#         keys = self.k_proj(x).view(per_head).transpose(1, 2)  # (b, g, t, d): g kv heads
#         values = self.v_proj(x).view(per_head).transpose(1, 2)
#         if positions is None:
#             start = 0 if cache is None else cache.length
#             positions = torch.arange(start, start + x.shape[1], device=x.device)
#         cos, sin = self.cos[positions], self.sin[positions]  # (token, pair)
#         queries, keys = rotate(queries, cos, sin), rotate(keys, cos, sin)
#         if cache is not None:
#             keys, values = cache(keys, values)  # those of all tokens so far
#         group = self.num_heads // self.num_kv_heads
#         keys, values = keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1)  # (b, h, k, d)
#         scores = queries @ keys.transpose(2, 3) * self.head_dim**-0.5  # (b, h, q, k)
#         seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device)
#         seen = seen.tril(scores.shape[-1] - scores.shape[-2])  # the last query sees all keys
#         scores = scores.masked_fill(~(seen if keep is None else seen & keep), -1e30)
#         weights = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
#         return self.out_proj((weights @ values).transpose(1, 2).flatten(2))  # (b, h, t, d) -> (b, t, h * d)
# ```
#
# </details>
#
# Why this order? The keys go into the cache rotated, because a key's position never changes, so it has to be rotated
# only once. And they go in before they are repeated, because the copies would make the cache as large as that of
# multi-head attention.
#
# ## Proof: it is the one in transformers
#
# `transformers` is the library in which many open models are run. We build its class with random weights, so nothing is
# downloaded, and copy the weights into yours. The library computes its angles in float32, so we hand its angles to your
# module, which would otherwise round them differently. Softmax runs in float32 on both sides, so the two can agree to
# twelve digits, although neither is exact to twelve digits.

# %%
try:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention as Theirs
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
except ImportError:
    print("transformers is not installed, so the comparison is left out: pip install transformers brings it.")
    Theirs = None

# %%
generator = torch.Generator().manual_seed(0)
tokens = torch.randn(2, 5, 24, generator=generator, dtype=torch.float64).to(device)  # two different samples

# %% [markdown]
# The function builds both modules and the library's, gives them the same weights, and returns three outputs:

# %%
def three_outputs(num_kv_heads):
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": num_kv_heads}
    config = LlamaConfig(**sizes, attn_implementation="eager")
    torch.manual_seed(num_kv_heads)
    theirs = Theirs(config, layer_idx=0).to(device, torch.float64).eval()
    with torch.no_grad():
        theirs.q_proj.weight *= 10  # so that attention is neither flat nor one-hot
        theirs.k_proj.weight *= 10
    cos, sin = LlamaRotaryEmbedding(config).to(device)(tokens, torch.arange(5, device=device)[None])
    mine = MyLlamaAttention(24, 24, 4, num_kv_heads).to(device, torch.float64)
    mine.load_state_dict({name.replace("o_proj", "out_proj"): one for name, one in theirs.state_dict().items()})
    mine.cos[:5], mine.sin[:5] = cos[0, :, :3], sin[0, :, :3]  # they repeat the three pairs for both halves
    hidden = torch.full((5, 5), -torch.inf, dtype=torch.float64, device=device).triu(1)
    return mine(tokens), theirs(tokens, (cos, sin), hidden)[0], LlamaAttention.from_transformers(theirs)(tokens)

# %%
for num_kv_heads in (1, 2, 4) if Theirs else ():
    mine, theirs, library = three_outputs(num_kv_heads)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)
    off, off_library = (mine - theirs).abs().max().item(), (mine - library).abs().max().item()
    print(f"{num_kv_heads} kv heads: like transformers {off < 1e-12}, like the course's library {off_library < 1e-12}")

# %% [markdown]
# `True` means that no element differs by more than 1e-12, and this holds with one kv head (multi-query attention), with
# two, and with as many as there are query heads (multi-head attention). So you have written the attention that runs
# when somebody loads a Llama.
#
# The files that Meta publishes have one more trap: their pairs are neighbours. In exercise 5 of [the
# sheet](exercises/08_exercises.ipynb) you bring such weights into the order of halves.
#
# ## A cache, one token at a time
#
# A model writes one word after the other. The keys and values of the words so far don't change when a new word comes,
# because the mask keeps every word from looking ahead, so they are kept, and each step computes those of the new word
# only (lesson 06). The cache reserves room once and fills it. (It is a module, so that `.to(device)` moves it, too.)
#
# **Write it yourself:** put the new keys and values behind those that are there, add to the length, and return all
# tokens so far.

# %%
class MyCache(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, head_dim):
        super().__init__()
        room = torch.zeros(batch, num_kv_heads, max_len, head_dim)
        self.register_buffer("keys", room)
        self.register_buffer("values", room.clone())
        self.length = 0  # tokens so far

    def forward(self, keys, values):  # 2 x (b, g, new, d) -> 2 x (b, g, length, d): all tokens so far
        end = self.length + keys.shape[2]
        if end > self.keys.shape[2]:
            raise ValueError(f"the cache has no room for {end} tokens")
        raise NotImplementedError  # your lines


MyCache = filled("MyCache", MyCache)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# class MyCache(nn.Module):
#     def __init__(self, batch, num_kv_heads, max_len, head_dim):
#         super().__init__()
#         room = torch.zeros(batch, num_kv_heads, max_len, head_dim)
#         self.register_buffer("keys", room)
#         self.register_buffer("values", room.clone())
#         self.length = 0  # tokens so far
#
#     def forward(self, keys, values):  # 2 x (b, g, new, d) -> 2 x (b, g, length, d): all tokens so far
#         end = self.length + keys.shape[2]
#         if end > self.keys.shape[2]:
#             raise ValueError(f"the cache has no room for {end} tokens")
#         self.keys[:, :, self.length : end] = keys
#         self.values[:, :, self.length : end] = values
#         self.length = end
#         return self.keys[:, :, :end], self.values[:, :, :end]
# ```
#
# </details>
#
# Now six words, one at a time, against all six at once:

# %%
words = ["Dream", "big", "and", "work", "for", "it"]
torch.manual_seed(8)
layer = MyLlamaAttention(8, 24, 4, 2).to(device)  # 4 query heads, 2 kv heads, 6 elements each
sentence = 2 * torch.randn(1, 6, 8, generator=generator).to(device)

# %%
with torch.no_grad():
    at_once = layer(sentence)
    cache = MyCache(1, 2, 8, 6).to(device)  # room for eight tokens
    for number, word in enumerate(words):
        step = layer(sentence[:, number : number + 1], cache=cache)
        torch.testing.assert_close(step[:, 0], at_once[:, number])
        print(f"{word:6} {cache.length} in the cache; equal to row {number} of all at once")

# %% [markdown]
# Each step got one word and gave the row that the whole sentence gives. The position of the new word came from
# `cache.length`: without it, each word would be rotated as if it were the first.
#
# What if several words come at once, while others are in the cache? To find out, we take two words back, for which it
# is enough to make the length smaller, and then hand in both in one step. **Predict** how many of the 2 x 6 scores of a
# head are hidden.

# %%
def hidden_scores(num_new, num_keys):
    seen = torch.ones(num_new, num_keys, dtype=torch.bool).tril(num_keys - num_new)
    return int((~seen).sum())


guess = ...  # of 12
predict(guess, lambda: hidden_scores(2, 6))

# %%
with torch.no_grad():
    cache.length = 4  # "for" and "it" are forgotten
    both = layer(sentence[:, 4:], cache=cache)
torch.testing.assert_close(both, at_once[:, 4:])
print("two words in one step: equal to rows 4 and 5 of all at once")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# One: "for" must not see "it". All other scores are between a word and itself or words before it. The diagonal of the
# mask ends in the *bottom right* corner, because the last query belongs to the last key.
#
# </details>
#
# PyTorch's `is_causal=True` begins the diagonal in the *top left* corner instead, which is right only if there are as
# many queries as keys. With zeros as queries the scores are all equal, and with the identity matrix as values the
# output is the table of attention weights:

# %%
queries, keys = torch.zeros(1, 1, 2, 4, device=device), torch.zeros(1, 1, 6, 4, device=device)
top_left = F.scaled_dot_product_attention(queries, keys, torch.eye(6, device=device)[None, None], is_causal=True)
heatmap(top_left[0, 0], words[4:], key_words=words, title="is_causal=True, two queries and six keys")

# %% [markdown]
# The newest word sees the two *oldest* words and nothing else, itself included. No error is raised, so with a cache the
# mask has to be passed explicitly, as your `seen` does.
#
# ## A padded batch with a cache
#
# Sentences of different lengths can be continued together. They are padded on the left, so that their last words are in
# one column, and three things are counted from real words: the mask, the positions, and the position of each new word.
# We begin with two prompts of four and two words:

# %%
lengths = torch.tensor([4, 2], device=device)  # real words of each sentence so far
prompts = torch.cat([sentence[:, :4], torch.cat([torch.zeros_like(sentence[:, :2]), sentence[:, 3:5]], dim=1)])
new_word = torch.cat([sentence[:, 4:5], sentence[:, 5:]])  # (batch, 1, width): "for" and "it"
with torch.no_grad():
    cache = MyCache(2, 2, 8, 6).to(device)
    keep = padding_keep(lengths, side="left")  # (batch, 1, 1, key)
    positions = real_positions(keep[:, 0, 0])[:, None]  # (batch, 1, token)
    _ = layer(prompts, positions, keep, cache)
print("positions of the prompts:", positions[:, 0].tolist())

# %% [markdown]
# The second sentence, "work for", has two columns of padding. Its next word, "it", goes into column 4. **Predict** the
# positions of the two new words, as a pair such as (1, 2).

# %%
keep = padding_keep(lengths + 1, side="left")  # for all keys, those in the cache as well
positions = real_positions(keep[:, 0, 0])[:, None, -1:]  # (batch, 1, 1): of the last token
guess = ...  # (first sentence, second sentence)
predict(guess, lambda: positions.flatten())

# %%
with torch.no_grad():
    written = layer(new_word, positions, keep, cache)
    torch.testing.assert_close(written[0], layer(sentence[:, :5])[0, -1:])
    torch.testing.assert_close(written[1], layer(sentence[:, 3:])[0, -1:])
print("each new word is what it would be if its sentence were alone")

# %% [markdown]
# <details><summary>After your guess</summary>
#
# (4, 2). The words before it are at positions 0 to 3 in the first sentence and at 0 and 1 in the second, so the
# position of the next word is the number of real words so far, and padding isn't counted.
#
# </details>
#
# Exercises 1 to 3 of [the sheet](exercises/08_exercises.ipynb) go on with this: a cache that grows, tokens that are
# taken back, the positions of new tokens.
#
# ## A model that writes
#
# The rest of a Llama is short: an embedding per word, a few blocks, and a matrix that turns each last vector into one
# number per word of the vocabulary, the **logits**. A block adds to each token what attention collected from the
# others, and then what a small network computes from the token itself (in Llama it has a third matrix, as a gate). A
# norm before each of the two keeps the numbers at one scale.

# %%
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = MyLlamaAttention(width, width, 4, 2)
        self.network = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x, *options):
        x = x + self.attention(self.norm_1(x), *options)
        return x + self.network(self.norm_2(x))

# %%
class TinyLlama(nn.Module):
    def __init__(self, num_words, width=32):
        super().__init__()
        self.embedding = nn.Embedding(num_words, width)
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.norm, self.logits = nn.RMSNorm(width), nn.Linear(width, num_words, bias=False)

    def forward(self, ids, positions=None, keep=None, caches=(None, None)):  # (batch, token) -> (b, t, vocabulary)
        x = self.embedding(ids)
        for block, cache in zip(self.blocks, caches, strict=True):  # each layer has a cache of its own
            x = block(x, positions, keep, cache)
        return self.logits(self.norm(x))

# %% [markdown]
# It learns from twelve sentences. (A real model has a tokenizer and trillions of words; ours has one number per word.)

# %%
text = """dream big and work for it .
dream of small steps and take one .
work for a dream that is yours .
work in the morning and rest at night .
big dreams begin with small steps .
small steps lead to big dreams .
rest when the work is done .
take one step and then the next .
a dream needs work and work needs a dream .
the night is for dreams .
the morning is for work .
begin small and dream big ."""

# %%
vocabulary = sorted(set(text.split()))
rows = [torch.tensor([vocabulary.index(word) for word in line.split()]) for line in text.splitlines()]
ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100).to(device)  # padded on the right
print(len(vocabulary), "words; a batch of", tuple(ids.shape))

# %% [markdown]
# Each word has to predict the next one, so the targets are the same numbers, moved by one place. `cross_entropy` is
# small where the right word gets a high probability, and it leaves out targets of -100, which are the padding. In the
# input the padding becomes word 0 (`clamp`), which is harmless, because it comes after all real words.

# %% tags=["trained", "nbval-ignore-output"]
torch.manual_seed(1)
model = TinyLlama(len(vocabulary)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(150):
    logits = model(ids[:, :-1].clamp(min=0))  # (sentence, token, vocabulary)
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0 or step == 149:
        print(f"step {step:3}: loss {loss.item():.3f}")

# %% [markdown]
# The loss falls from about 3.6 to nearly 0.06. It can't reach 0, because after a first word "the" no model can know
# whether "night" or "morning" comes.
#
# To write, we need one more line. **Write it yourself:** which word is the most likely after the last one? Taking it
# each time is called **greedy decoding**.

# %%
def next_word(logits):  # (batch, token, vocabulary) -> (batch), int64
    raise NotImplementedError  # your line


next_word = filled("next_word", next_word)

# %% [markdown]
# <details><summary>Solution</summary>
#
# ```python
# def next_word(logits):  # (batch, token, vocabulary) -> (batch), int64
#     return logits[:, -1].argmax(dim=-1)  # the last token's logits; the id of the largest
# ```
#
# </details>

# %%
@torch.no_grad()
def write(prompt, with_cache, most=9):
    ids = torch.tensor([[vocabulary.index(word) for word in prompt.split()]], device=device)
    caches = [MyCache(1, 2, 20, 8).to(device) if with_cache else None for _ in model.blocks]
    read = ids  # what the model has to read in this step
    while ids.shape[1] < most and vocabulary[ids[0, -1]] != ".":
        newest = next_word(model(read, caches=caches))[:, None]
        ids = torch.cat([ids, newest], dim=1)
        read = newest if with_cache else ids
    return " ".join(vocabulary[number] for number in ids[0].tolist())

# %%
for prompt in ("the night", "the morning", "small steps", "work in"):
    print(write(prompt, with_cache=True))

# %% [markdown]
# Your attention, your rotation and your cache have written four sentences. The model has seen all four of them, so they
# show that it has a good memory. But look at two of them more closely. When it has read "the night is for" it chooses
# "dreams", and after "the morning is for" it chooses "work". The last two words it has read are the same, so attention
# must have reached back to the second word.
#
# The proof for the cache: for all twelve beginnings, writing with it gives what writing without it gives. **Predict**
# how many of the twelve sentences the model completes word for word from their first *two* words.

# %%
lines = text.splitlines()
beginnings = [" ".join(line.split()[:2]) for line in lines]
written = [write(beginning, with_cache=True, most=11) for beginning in beginnings]
assert written == [write(beginning, with_cache=False, most=11) for beginning in beginnings]
print("with the cache and without it: the same", len(written), "sentences")
guess = ...  # of 12
predict(guess, lambda: sum(one == line for one, line in zip(written, lines, strict=True)))

# %% [markdown]
# <details><summary>After your guess</summary>
#
# All twelve: no two sentences begin with the same two words, so there is always one right continuation. From the first
# word alone only some can be completed, because three words ("dream", "work", "the") begin two sentences each.
#
# </details>
#
# Exercise 4 of [the sheet](exercises/08_exercises.ipynb) is the loop itself, for a whole batch.
#
# ## Your turn
#
# 1. Give `write` a prompt that is in no sentence, such as `write("begin big", with_cache=True)` or `write("dream of
#    work", with_cache=True)`. What does the model do?
# 2. Take the position away: in `write`, pass `positions=torch.zeros(1, dtype=torch.long, device=device)` to the model
#    in each step, with the cache. Does it still find "small steps lead to big dreams"?
# 3. Make the cache too small, with room for 4 tokens. What happens, and what would happen without the `ValueError`?
#
# <details><summary>Answers</summary>
#
# 1. It goes on like a sentence that resembles the prompt, and may cross from one sentence into another: "begin big and
#    work for it ." is in no line of the text.
# 2. It does, and most of the twelve beginnings are still completed (ten of them in our run). In so small a text the
#    last words nearly decide what comes next, and two causal layers know something about order without being told, as
#    you measured in lesson 07.
# 3. The fifth token raises the error. Without it `self.keys[:, :, 4:5] = keys` would write one token into a slice of
#    size 0, which PyTorch accepts without a word: the token would be lost, and the model would go on without it. (In
#    our run it even wrote the same sentence.)
#
# </details>
#
# ## What you have now
#
# You have written Llama's attention and its cache, equal to those in use, and a model made of them that writes. The
# cache needs room for each token in each layer; the next lesson makes it smaller.
#
# **Practise:** [five exercises](exercises/08_exercises.ipynb), about twenty-five minutes.
#
# **Next:** [09 Shrink the cache further](09_smaller_caches.ipynb).
