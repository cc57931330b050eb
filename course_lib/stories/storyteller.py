"""A small model that tells stories."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from course_lib.attention import KVCache, MultiQueryAttention, check_at_least, check_divisible, check_positive
from course_lib.calling import first_tensor, parameters_of

from .copying import start_by_copying
from .language import VOCABULARY, joined, words
from .muon import Muon

END = "\n"  # the token between two stories
START = "(start)"  # how that token is shown where a story begins
PADDING = -100  # not a token: no loss is taken there
DRAWN_AT_ONCE = 8  # batches
MakeAttention = Callable[[int, int, int], nn.Module]  # (width in, width out, num_heads)


class Block(nn.Module):
    """Attention and an MLP, each after a norm, and each added to what came in.

        x = x + attention(norm(x));  x = x + mlp(norm(x))

    Args:
        attention: Makes the attention from (width, width, num_heads).
        width: Of a token's vector.
        num_heads: Of the attention.
        norm: Makes a norm from the width.
    """

    def __init__(self, attention: MakeAttention, width: int, num_heads: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = norm(width), norm(width)
        self.attention = attention(width, width, num_heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        """Add what attention finds, then what the MLP makes of it: (batch, token, width) in and out."""
        x = x + first_tensor(self.attention(self.attention_norm(x), **options))  # attention weights may come with it
        return x + self.mlp(self.mlp_norm(x))


class Storyteller(nn.Module):
    """A decoder of a few blocks that reads words and predicts the next one.

        x = sqrt(width) / 2 word_table[tokens] + position_table[positions]
        logits = norm(blocks(x)) word_table^T

    Args:
        attention: A class of attention, or a function, called as attention(width, width, num_heads). What it makes maps
            (batch, token, width) to the same shape, and may return a tuple that begins with that.
        width: Of a token's vector.
        num_heads: Of each attention.
        num_blocks: Number of blocks.
        max_len: Tokens that the model can read, the one before a story included.
        positions: Whether each position has a vector that is added to its word's.
        norm: The norm before each attention, each MLP and the last layer.
        vocabulary: The words that it knows; those of `stories` by default.

    Raises:
        ValueError: A size below 1, a width that num_heads does not divide, or a vocabulary that is no list of words.
        TypeError: A size that is not an integer, a word that is not a text, or attention that can't be called.

    Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3.
    """

    def __init__(
        self,
        attention: MakeAttention = MultiQueryAttention,
        *,
        width: int = 64,
        num_heads: int = 4,
        num_blocks: int = 2,
        max_len: int = 192,
        positions: bool = True,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        vocabulary: Sequence[str] = VOCABULARY,
    ) -> None:
        super().__init__()
        check_positive(width=width, num_heads=num_heads, num_blocks=num_blocks, max_len=max_len)
        check_divisible("width", width, "num_heads", num_heads)
        _check_texts("vocabulary", vocabulary, "['fox', 'owl', '.']")
        if isinstance(attention, nn.Module) or not callable(attention):
            raise TypeError(
                f"attention is {attention!r:.60}: give a class, called as attention(width, width, num_heads)"
            )
        self.options = {
            "width": width, "num_heads": num_heads, "num_blocks": num_blocks, "max_len": max_len,
            "positions": positions, "norm": norm, "vocabulary": vocabulary,
        }  # fmt: skip
        self.vocabulary = tuple(dict.fromkeys((END, *vocabulary)))
        self.numbers = {word: number for number, word in enumerate(self.vocabulary)}
        self.max_len = max_len
        self.word_table = nn.Embedding(len(self.vocabulary), width)
        nn.init.normal_(self.word_table.weight, std=width**-0.5)
        self.position_table = nn.Parameter(0.5 * sinusoids(max_len, width)) if positions else None
        self.blocks = nn.ModuleList(Block(attention, width, num_heads, norm) for _ in range(num_blocks))
        self.norm = norm(width)
        for made in self.attentions:
            start_by_copying(made)

    def forward(
        self,
        tokens: Tensor,
        caches: Sequence[KVCache] | None = None,
        *,
        positions: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Tensor:
        """Score each word of the vocabulary as the next one, after each token.

        Args:
            tokens: (batch, token), integers, as `encode` makes them.
            caches: One per block, as `new_caches` makes them: the tokens go on after those in the caches.
            positions: Integers, of the shape of tokens, such as those of a padded batch; if None they go on from those
                in the caches, or begin at 0.
            keep: Bool, True = may attend, broadcasts to (batch, head, query, key), in addition to the causal mask.

        Returns:
            Logits, (batch, token, vocabulary).

        Raises:
            ValueError: More tokens than max_len, another number of axes, a number that stands for no word, or a
                position outside the table.
            TypeError: tokens or positions is no tensor of integers, or the attention takes no positions or no `keep`.
        """
        self._check_tokens(tokens)
        options = {"positions": positions} if self.position_table is None else {}
        options = {name: value for name, value in (options | {"keep": keep}).items() if value is not None}
        self._check_options(options)
        x = self._embedded(tokens, caches[0].length if caches else 0, positions)
        for index, block in enumerate(self.blocks):
            x = block(x, cache=caches[index], **options) if caches else block(x, **options)
        return self.norm(x) @ self.word_table.weight.T  # (b, t, m) @ (m, v) -> (b, t, v)

    def _embedded(self, tokens: Tensor, start: int = 0, positions: Tensor | None = None) -> Tensor:
        """Vectors of tokens and of their positions, which begin at start: (b, t) -> (b, t, m)."""
        end = start + tokens.shape[1]
        self._check_length(end)
        x = self.word_table(tokens) * (self.word_table.embedding_dim**0.5 / 2)
        if positions is not None:
            self._check_positions(positions, tokens)
        if self.position_table is None:
            return x
        # (b, t, m) + (t, m) or (b, t, m)
        return x + (self.position_table[start:end] if positions is None else self.position_table[positions])

    def _check_options(self, options: Mapping[str, Tensor]) -> None:
        """Refuse what the attention of some block doesn't take."""
        for attention in self.attentions:
            taken = {each.name for each in parameters_of(attention)}
            if missing := [name for name in options if name not in taken]:
                raise TypeError(
                    f"{type(attention).__name__} takes no `{missing[0]}`: leave it out, or give a model of another form"
                )

    def _check_positions(self, positions: object, tokens: Tensor) -> None:
        """Refuse positions that don't fit the tokens, or are not in the table."""
        if not isinstance(positions, Tensor) or positions.dtype not in (torch.int64, torch.int32):
            got = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
            raise TypeError(f"positions must be a tensor of integers (torch.int64), got {got}: give one per token")
        if positions.shape != tokens.shape:
            raise ValueError(
                f"positions is {tuple(positions.shape)}, but tokens is {tuple(tokens.shape)}: give one per token"
            )
        outside = positions[(positions < 0) | (positions >= self.max_len)].tolist()
        if outside and self.position_table is not None:
            raise ValueError(
                f"positions holds {outside[0]}, but the model's go from 0 to {self.max_len - 1}: count from 0 in a row"
            )

    @torch.no_grad()
    def attention_inputs(self, text: str) -> list[Tensor]:
        """What the attention of each block is given when the model reads a text: one (1, token, width) per block."""
        x, inputs = self._embedded(self.encode(text)), []
        for block in self.blocks:
            inputs.append(cast(Block, block).attention_norm(x))
            x = block(x)
        return inputs

    @torch.no_grad()
    def attention_weights(self, text: str) -> tuple[list[str], Tensor]:
        """Where the model looks when it reads a text.

        Returns:
            The tokens, of which the first, START, stands before the text; and the attention weights, (block, head,
            query, key).

        Raises:
            ValueError: A word that the model doesn't know, or a text that is too long.
            TypeError: The attention has no return_weights.
        """
        if not all(any(each.name == "return_weights" for each in parameters_of(one)) for one in self.attentions):
            raise TypeError("the attention of this model returns no weights: give it a class with return_weights=True")
        found = [
            attention(x, return_weights=True)[1][0]
            for attention, x in zip(self.attentions, self.attention_inputs(text), strict=True)
        ]
        return [START, *words(text)], torch.stack(found)

    def _check_length(self, length: int) -> None:
        """Refuse more tokens than the model can read."""
        if length > self.max_len:
            raise ValueError(f"the model reads {self.max_len} tokens at most (max_len), not {length}: shorten the text")

    def _check_tokens(self, tokens: object, *, row: bool = False) -> None:
        """Refuse what is no tensor of the model's tokens, (batch, token), or one row of them, (token,)."""
        axes, remedy = ("(token,)", "give one row of") if row else ("(batch, token)", "give")
        remedy += " what `encode` returns"
        if not isinstance(tokens, Tensor) or tokens.dtype not in (torch.int64, torch.int32):
            got = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
            raise TypeError(f"tokens must be a tensor of integers (torch.int64), got {got}: {remedy}")
        if tokens.dim() != 2 - row:
            raise ValueError(f"tokens must be {axes}, got the shape {tuple(tokens.shape)}: {remedy}")
        last = len(self.vocabulary) - 1
        wrong = tokens[(tokens < 0) | (tokens > last)]
        if len(wrong):
            raise ValueError(f"tokens holds {wrong[0]}, but the model's words are numbered from 0 to {last}: {remedy}")

    @property
    def attentions(self) -> list[nn.Module]:
        """The attention of each block."""
        return [cast(Block, block).attention for block in self.blocks]

    def like(self, attention: MakeAttention) -> Storyteller:
        """A new storyteller of the same sizes with another attention, with random weights."""
        weight = self.word_table.weight
        return Storyteller(attention, **self.options).to(weight.device, weight.dtype)

    def encode(self, text: str) -> Tensor:
        """The tokens of a text, (1, token): the one that begins every story, then its words.

        Raises:
            ValueError: A word that the model doesn't know.
            TypeError: text is no text.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a text such as 'Once there was', got {type(text).__name__}.")
        found = words(text)
        if unknown := [word for word in found if word not in self.numbers]:
            raise ValueError(
                f"the model doesn't know {', '.join(map(repr, dict.fromkeys(unknown)))}: use words of its `vocabulary`"
            )
        device = self.word_table.weight.device
        return torch.tensor([[self.numbers[word] for word in (END, *found)]], device=device)

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens, (token,), up to the end of the first story.

        Raises:
            ValueError: Another number of axes, or a number that stands for no word.
            TypeError: tokens is no tensor of integers.
        """
        self._check_tokens(tokens, row=True)
        found = [self.vocabulary[number] for number in tokens.tolist()]
        found = found[1:] if found[:1] == [END] else found
        return joined(found[: found.index(END)] if END in found else found)

    def new_caches(self, batch: int = 1) -> list[KVCache] | None:
        """An empty cache for each block, or None if the attention takes none."""
        weight = self.word_table.weight
        like_weight = {"dtype": weight.dtype, "device": weight.device}
        made: list[KVCache] = []
        for attention in self.attentions:
            sizes = getattr(attention, "cache_sizes", None)
            if sizes is None or all(each.name != "cache" for each in parameters_of(attention)):
                return None
            heads, head_dim, value_dim = sizes
            made.append(KVCache(batch, heads, self.max_len, head_dim, value_dim=value_dim, **like_weight))
        return made

    def train_on(
        self, texts: Sequence[str], *, steps: int = 1500, batch: int = 8, rate: float = 1.0, seed: int = 0
    ) -> list[float]:
        """Learn to predict each word of texts from those before it.

        The matrices within the blocks are trained by Muon, the rest by AdamW. Their learning rates grow for 50 steps
        and then shrink to 0.

        Args:
            texts: Such as the texts of `stories`. A text longer than max_len is cut into pieces.
            steps: How often the parameters are moved.
            batch: Texts in each step.
            rate: Times 0.02, Muon's highest learning rate, and times 0.002, AdamW's.
            seed: Another seed draws the texts in another order.

        Returns:
            The loss at each step: the mean of -log(probability of the right word).

        Raises:
            ValueError: No text, a word that the model doesn't know, or a number out of its range.
            TypeError: What is no text, or no integer.
        """
        check_positive(steps=steps, batch=batch)
        check_at_least(0, seed=seed)
        if not isinstance(rate, (int, float)) or not 0 < rate < math.inf:
            raise ValueError(f"rate is {rate!r}: give a number above 0, such as 1.0")
        samples = self._samples(texts)
        draw = torch.Generator().manual_seed(seed)
        matrices = [one for one in self.blocks.parameters() if one.dim() == 2]
        others = [one for one in self.parameters() if all(one is not matrix for matrix in matrices)]
        adam = torch.optim.AdamW(others, 0.002 * rate, betas=(0.9, 0.95), weight_decay=0.1)
        optimizers = Muon(matrices, 0.02 * rate), adam
        schedules = [
            LambdaLR(optimizer, lambda step: min(1, (step + 1) / 50) * (1 - step / steps)) for optimizer in optimizers
        ]
        self.train()
        losses: list[float] = []
        lengths = (samples != PADDING).sum(1)
        for rows in islice(_batches(lengths, batch, draw), steps):
            chosen = samples[rows, : lengths[rows].max()].to(self.word_table.weight.device)  # (b, t + 1)
            logits = self(chosen[:, :-1].clamp(min=0))  # (b, t, v)
            loss = F.cross_entropy(logits.flatten(0, 1), chosen[:, 1:].flatten(), ignore_index=PADDING)
            self.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)
            for each in (*optimizers, *schedules):
                each.step()
            losses.append(loss.item())
        self.eval()
        return losses

    def _samples(self, texts: Sequence[str]) -> Tensor:
        """The tokens of texts, each between two ENDs, (text, max_len + 1), padded."""
        _check_texts("texts", texts, "[story.text for story in stories(2000)]")
        rows: list[Tensor] = []
        for text in texts:
            tokens = torch.cat([self.encode(text)[0].cpu(), torch.tensor([self.numbers[END]])])
            for start in range(0, len(tokens) - 1, self.max_len):  # the last token of a piece begins the next
                piece = tokens[start : start + self.max_len + 1]
                rows.append(F.pad(piece, (0, self.max_len + 1 - len(piece)), value=PADDING))
        return torch.stack(rows)

    def generate(
        self, tokens: Tensor, num_new: int, *, temperature: float = 0.0, seed: int = 0, use_cache: bool = True
    ) -> Iterator[Tensor]:
        """Yield new tokens, one by one, each (batch, 1).

        Args:
            tokens: (batch, token), what they go on after.
            num_new: How many.
            temperature: What the logits are divided by before a token is drawn; 0 takes the likeliest.
            seed: Another seed draws other tokens.
            use_cache: Whether keys and values are kept from token to token, where the attention takes a cache.

        Raises:
            ValueError: No token, one that stands for no word, another number of axes, or a number out of its range.
            TypeError: tokens is no tensor of integers, or num_new or seed is no integer.
        """
        self._check_tokens(tokens)
        if not tokens.numel():
            raise ValueError(f"tokens is empty, {tuple(tokens.shape)}: give at least the one of encode('')")
        if not isinstance(temperature, (int, float)) or not 0 <= temperature < math.inf:
            raise ValueError(f"temperature is {temperature!r}: give 0 for the likeliest words, or more")
        check_at_least(0, num_new=num_new, seed=seed)
        return self._generated(tokens, num_new, temperature, seed, use_cache)

    @torch.no_grad()
    def _generated(
        self, tokens: Tensor, num_new: int, temperature: float, seed: int, use_cache: bool
    ) -> Iterator[Tensor]:
        draw = torch.Generator().manual_seed(seed)
        caches = self.new_caches(len(tokens)) if use_cache else None
        unread = tokens
        for _ in range(num_new):
            logits = self(unread, caches)[:, -1]  # (b, v)
            if temperature:
                new = torch.multinomial((logits / temperature).softmax(-1).cpu(), 1, generator=draw).to(tokens.device)
            else:
                new = logits.argmax(-1, keepdim=True)
            yield new
            tokens = torch.cat([tokens, new], dim=1)
            unread = new if caches else tokens

    def write(
        self,
        beginning: str = "",
        *,
        temperature: float = 0.0,
        seed: int = 0,
        num_words: int | None = None,
        use_cache: bool = True,
    ) -> str:
        """Go on with a text, word by word, until the story ends.

        Args:
            beginning: What the story begins with.
            temperature: 0 takes the likeliest word; the higher, the more surprising.
            seed: Another seed tells another story.
            num_words: The most words that are written; by default as many as the model can read.
            use_cache: Whether keys and values are kept from word to word, where the attention takes a cache.

        Returns:
            The text, with its beginning.

        Raises:
            ValueError: A temperature below 0, a word that the model doesn't know, a beginning that is too long.
        """
        return self.write_several(
            1, beginning, temperature=temperature, seed=seed, num_words=num_words, use_cache=use_cache
        )[0]

    def write_several(
        self,
        count: int,
        beginning: str = "",
        *,
        temperature: float = 0.7,
        seed: int = 0,
        num_words: int | None = None,
        use_cache: bool = True,
    ) -> list[str]:
        """Write several texts from one beginning at once, as `write` does."""
        check_positive(count=count)
        check_at_least(0, num_words=0 if num_words is None else num_words)
        tokens = self.encode(beginning).repeat(count, 1)
        self._check_length(tokens.shape[1])
        room = self.max_len + 1 - tokens.shape[1]
        num_new = room if num_words is None else min(num_words, room)
        generated = self.generate(tokens, num_new, temperature=temperature, seed=seed, use_cache=use_cache)
        ended = torch.zeros(count, dtype=torch.bool, device=tokens.device)
        was_training = self.training
        self.eval()
        for new in generated:
            tokens = torch.cat([tokens, new], dim=1)
            ended |= new[:, 0] == self.numbers[END]
            if ended.all():
                break
        self.train(was_training)
        return [self.decode(row) for row in tokens]


def check_storyteller(model: object) -> None:
    """Refuse what is no Storyteller."""
    if not isinstance(model, Storyteller):
        raise TypeError(f"model must be a Storyteller, got {type(model).__name__}: make one with Storyteller(MyClass)")


def _check_texts(name: str, texts: object, remedy: str) -> None:
    """Refuse what is no list of texts, or an empty one."""
    if isinstance(texts, str) or not isinstance(texts, Collection) or not texts:
        raise ValueError(f"{name} is {texts!r:.40}: give a list of texts, such as {remedy}")
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} holds what is no text: give texts, such as {remedy}")


def _batches(lengths: Tensor, batch: int, draw: torch.Generator) -> Iterator[Tensor]:
    """Draw the texts of each step, (batch,); those of like length go together, so that little of a batch is padded."""
    while True:
        drawn = torch.randint(len(lengths), (DRAWN_AT_ONCE * batch,), generator=draw)
        by_length = drawn[lengths[drawn].argsort(stable=True)].view(DRAWN_AT_ONCE, batch)
        yield from by_length[torch.randperm(DRAWN_AT_ONCE, generator=draw)]


def sinusoids(max_len: int, width: int) -> Tensor:
    """Sines and cosines of each position, (position, width): rows that are equally far apart differ by one rotation.

        angle[p, i] = p * 10000 ** (-2i / width);  row p = sin(angle[p, 0]), cos(angle[p, 0]), sin(angle[p, 1]), ...

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.5.
    """
    rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(max_len)[:, None] * rates  # (p, 1) * (m / 2,) -> (p, m / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
