"""Answers to the blanks of lesson 17, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.exercises.written_answers import variant


class Packed(nn.Module):
    """Multi-head attention with one packed projection and PyTorch's fused kernel."""

    scale = None
    causal = True

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads = num_heads
        self.qkv = nn.Linear(d_in, 3 * d_out)
        self.mix = nn.Linear(d_out, d_out)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.merged(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale))

    def merged(self, context):
        return self.mix(context.transpose(1, 2).flatten(2))


class OneByOne(nn.Module):
    """Multi-head attention in a loop over heads that each have their own matrices."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.roles = nn.ModuleList(
            nn.ModuleList(nn.Linear(d_in, d_out // num_heads, bias=False) for _ in range(3)) for _ in range(num_heads)
        )
        self.join = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        found = []
        for role in self.roles:
            q, k, v = (matrix(x) for matrix in role)
            scores = torch.einsum("bqd,bkd->bqk", q, k) / q.shape[-1] ** 0.5
            hidden = torch.full_like(scores, -torch.inf).triu(1)
            found.append((scores + hidden).softmax(-1) @ v)
        return self.join(torch.cat(found, -1))


class ByEinsum(Packed):
    """Scores by einsum, and the mask added."""

    def forward(self, x):
        q, k, v = (role.unflatten(2, (self.heads, -1)) for role in self.qkv(x).unflatten(2, (3, -1)).unbind(2))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        hidden = torch.full(scores.shape[-2:], -torch.inf, dtype=x.dtype).triu(1)
        return self.mix(torch.einsum("bhqk,bkhd->bqhd", (scores + hidden).softmax(-1), v).flatten(2))


class Unscaled(Packed):
    scale = 1.0


class Scrambled(Packed):
    def merged(self, context):
        return self.mix(context.reshape(context.shape[0], context.shape[2], -1))


class Shared(nn.Module):
    """Multi-query attention with a cache."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads, self.width = num_heads, d_out // num_heads
        self.ask = nn.Linear(d_in, d_out, bias=False)
        self.tell = nn.Linear(d_in, 2 * self.width, bias=False)
        self.mix = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        told = self.tell(x) if cache is None else torch.cat([cache, self.tell(x)], 1)  # (b, k, 2 * d)
        q = self.ask(x).unflatten(2, (self.heads, -1))
        keys, values = told.chunk(2, -1)
        scores = torch.einsum("bqhd,bkd->bhqk", q, keys) / self.width**0.5
        weights = scores.masked_fill(~self.keep(x.shape[1], told.shape[1]), -torch.inf).softmax(-1)
        return self.mix(torch.einsum("bhqk,bkd->bqhd", weights, values).flatten(2)), self.remembered(told, x)

    def keep(self, new, all_keys):
        return torch.ones(new, all_keys).tril(all_keys - new).bool()

    def remembered(self, told, x):
        return told


class Folded(Shared):
    """Heads folded into the queries; the cache is a dict."""

    def forward(self, x, cache=None):
        b, n, _ = x.shape
        keys, values = self.tell(x).chunk(2, -1)
        if cache:
            keys, values = torch.cat((cache["k"], keys), 1), torch.cat((cache["v"], values), 1)
        k = keys.shape[1]
        q = self.ask(x).reshape(b, n * self.heads, self.width)
        at = torch.arange(k - n, k).repeat_interleave(self.heads)
        scores = (q * self.width**-0.5) @ keys.mT
        weights = torch.where(torch.arange(k) <= at[:, None], scores, -torch.inf).softmax(-1)
        return self.mix((weights @ values).reshape(b, n, -1)), {"k": keys, "v": values}


class ByHand(Shared):
    """Each step by itself, and a tuple as the cache."""

    def forward(self, x, cache=None):
        keys, values = (self.shared(one[:, None]) for one in self.tell(x).chunk(2, -1))  # (b, 1, n, d)
        if cache is not None:
            keys, values = torch.cat([cache[0], keys], 2), torch.cat([cache[1], values], 2)
        keep = self.keep(x.shape[1], keys.shape[2])
        scores = self.split(self.ask(x)) @ keys.mT * self.width**-0.5
        weights = scores.masked_fill(~keep, -torch.inf).softmax(self.axis)
        return self.mix(self.merge(weights @ values)), (keys, values)

    axis = -1

    def shared(self, one):
        return one

    def split(self, queries):
        return queries.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def merge(self, context):
        return context.transpose(1, 2).flatten(2)


CopyPerHead = variant(ByHand, shared=lambda self, one: one.repeat(1, self.heads, 1, 1))


class HeadsOfTheirOwn(nn.Module):
    """Multi-head attention with a cache, where multi-query attention was asked for."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads = num_heads
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=False)
        self.mix = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x, cache=None):
        q, k, v = (role.unflatten(2, (self.heads, -1)).transpose(1, 2) for role in self.qkv(x).chunk(3, -1))
        if cache:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        keep = torch.ones(q.shape[2], k.shape[2]).tril(k.shape[2] - q.shape[2]).bool()
        return self.mix(F.scaled_dot_product_attention(q, k, v, keep).transpose(1, 2).flatten(2)), (k, v)


def greedy_by_first_call(model, tokens, num_new):
    scores, caches = model(tokens)
    written = [tokens]
    for _ in range(num_new):
        newest = scores[:, -1:].argmax(-1)
        written.append(newest)
        scores, caches = model(newest, caches=caches)
    return torch.cat(written, 1)


def greedy_token_by_token(model, tokens, num_new):
    caches = None
    for t in range(tokens.shape[1]):
        scores, caches = model(tokens[:, t : t + 1], caches)
    for _ in range(num_new - 1):
        tokens = torch.cat([tokens, scores.argmax(-1)], 1)
        scores, caches = model(tokens[:, -1:], caches)
    return torch.cat([tokens, scores.argmax(-1)], 1)


def greedy_with_everything(model, tokens, num_new):
    caches = None
    for _ in range(num_new):
        scores, caches = model(tokens, caches)
        tokens = torch.cat([tokens, scores[:, -1:].argmax(-1)], 1)
    return tokens


def block_in_one_line(x, attention_norm, attention, mlp_norm, mlp, cache):
    found, cache = attention(attention_norm(x), cache)
    return x + found + mlp(mlp_norm(x + found)), cache


def block_by_sums(x, attention_norm, attention, mlp_norm, mlp, cache):
    out = x.clone()
    found, grown = attention(attention_norm(out), cache)
    out += found
    out += mlp(mlp_norm(out))
    return [out, grown]


def block_of_post_norm(x, attention_norm, attention, mlp_norm, mlp, cache):
    found, cache = attention(x, cache)
    x = attention_norm(x + found)
    return mlp_norm(x + mlp(x)), cache


def loop_by_negative_logs(model, batches, make_optimizer):
    optimizer = make_optimizer(model)
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad(set_to_none=False)
        wanted = targets != -100
        chances = model(inputs)[0].log_softmax(-1)
        loss = -chances.gather(-1, (targets * wanted)[..., None])[wanted].mean()
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    return losses


def loop_with_classes_second(model, batches, make_optimizer):
    model.train()
    optimizer = make_optimizer(model)
    steps = [loop_step(model, optimizer, *batch) for batch in batches]
    model.eval()
    return steps


def loop_step(model, optimizer, inputs, targets):
    loss = F.cross_entropy(model(inputs)[0].transpose(1, 2), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def loop_of(loss_of, clear=lambda model, optimizer: optimizer.zero_grad()):
    """A loop with a loss of its own, or its own way to clear the gradients."""

    def loop(model, batches, make_optimizer):
        optimizer, losses = make_optimizer(model), []
        for inputs, targets in batches:
            clear(model, optimizer)
            loss = loss_of(model(inputs)[0], targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    return loop


def loss_of_classes_second(scores, targets):
    return F.cross_entropy(scores.mT, targets, ignore_index=-100)


def loop_that_gathers_all(place):
    return loop_of(lambda scores, targets: -scores.log_softmax(-1).gather(-1, place(targets)[..., None]).mean())


def loop_with_tensors(model, batches, make_optimizer):
    optimizer, losses = make_optimizer(model), []
    for inputs, targets in batches:
        losses.append(loss_of_classes_second(model(inputs)[0], targets))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    return losses


def loop_without_graph(model, batches, make_optimizer):
    optimizer, losses = make_optimizer(model), []
    for inputs, targets in batches:
        with torch.no_grad():
            scores, _ = model(inputs)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def loop_with_last_loss(model, batches, make_optimizer):
    return loop_by_negative_logs(model, batches, make_optimizer)[-1]


def loop_with_wrong_axis(model, batches, make_optimizer):
    optimizer, losses = make_optimizer(model), []
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs)[0], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def loop_after_the_step(model, batches, make_optimizer):
    optimizer, losses = make_optimizer(model), []
    for inputs, targets in batches:
        loop_step(model, optimizer, inputs, targets)
        losses.append(F.cross_entropy(model(inputs)[0].transpose(1, 2), targets).item())
    return losses


class Turning(nn.Module):
    """Rotary multi-query attention by complex numbers."""

    def __init__(self, d_in, d_out, num_heads, base=10000.0):
        super().__init__()
        self.heads, self.width, self.base = num_heads, d_out // num_heads, base
        self.q_proj, self.out_proj = nn.Linear(d_in, d_out, bias=False), nn.Linear(d_out, d_out, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(d_in, self.width, bias=False) for _ in range(2))

    def turned(self, x, past):  # (b, t, h, d)
        half = self.width // 2
        speeds = self.base ** -(torch.arange(half, dtype=x.dtype) / half)
        angles = torch.arange(past, past + x.shape[1], dtype=x.dtype)[:, None] * speeds  # (t, pair)
        pairs = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)[:, None]
        return torch.cat([pairs.real, pairs.imag], -1)

    def forward(self, x, cache=None):
        past = 0 if cache is None else cache["k"].shape[1]
        queries = self.turned(self.q_proj(x).unflatten(2, (self.heads, -1)), self.query_position(past))
        keys, values = self.turned(self.k_proj(x)[:, :, None], past)[:, :, 0], self.v_proj(x)
        if cache is not None:
            keys, values = torch.cat([cache["k"], keys], 1), torch.cat([cache["v"], values], 1)
        scores = torch.einsum("bqhd,bkd->bhqk", queries, keys) / self.width**0.5
        seen = torch.arange(keys.shape[1]) <= torch.arange(past, past + x.shape[1])[:, None]
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return self.out_proj(torch.einsum("bhqk,bkd->bqhd", weights, values).flatten(2)), {"k": keys, "v": values}

    def query_position(self, past):
        return past


class TurnedBackwards(Turning):
    def turned(self, x, past):
        return Turning.turned(self, x.roll(self.width // 2, -1), past).roll(self.width // 2, -1)


class NamedOtherwise(Shared):
    """Layers of other names, biases, and the keys and values in one matrix."""

    def __init__(self, d_in, d_out, num_heads, base=10000.0, bias=False):
        super().__init__(d_in, d_out, num_heads)
        self.base = base
        self.ask, self.tell = nn.Linear(d_in, d_out, bias), nn.Linear(d_in, 2 * self.width, bias)

    def forward(self, x, cache=None):
        keys, values = self.tell(x).chunk(2, -1)
        past = 0 if cache is None else cache.shape[1]
        told = torch.cat([self.turned(keys[:, :, None], past)[:, :, 0], values], -1)
        told = told if cache is None else torch.cat([cache, told], 1)
        q = self.turned(self.ask(x).unflatten(2, (self.heads, -1)), past)
        keys, values = told.chunk(2, -1)
        scores = torch.einsum("bqhd,bkd->bhqk", q, keys) / self.width**0.5
        weights = scores.masked_fill(~self.keep(x.shape[1], told.shape[1]), -torch.inf).softmax(-1)
        return self.mix(torch.einsum("bhqk,bkd->bqhd", weights, values).flatten(2)), told

    turned = Turning.turned


class NamedOtherwiseWithBiases(NamedOtherwise):
    def __init__(self, d_in, d_out, num_heads, base=10000.0):
        super().__init__(d_in, d_out, num_heads, base, bias=True)


NamedOtherwiseFromZero = variant(NamedOtherwise, turned=lambda self, x, past: Turning.turned(self, x, 0))


RIGHT = {
    "through_block": [block_in_one_line, block_by_sums],
    "training_loop": [
        loop_by_negative_logs,
        loop_with_classes_second,
        loop_of(loss_of_classes_second, clear=lambda model, optimizer: model.zero_grad()),
    ],
    "RotaryMultiQuery": [Turning, NamedOtherwise, NamedOtherwiseWithBiases],
    "MultiHeadFromMemory": [Packed, OneByOne, ByEinsum],
    "MultiQueryWithCache": [Shared, Folded, ByHand],
    "write_greedily": [greedy_by_first_call, greedy_token_by_token],
}

WRONG = {
    "through_block": [
        (block_of_post_norm, "post-norm"),
    ],
    "training_loop": [
        (loop_of(loss_of_classes_second, clear=lambda *_: None), "pile up"),
        (loop_without_graph, "stopped", "torch.no_grad()"),
        (loop_that_gathers_all(lambda targets: targets.clamp(min=0)), "0 in place of each target of -100"),
        (loop_that_gathers_all(lambda targets: targets), "stopped", "-100"),
        (
            loop_of(lambda scores, targets: F.cross_entropy(scores.mT, targets, reduction="none").mean()),
            "divided by all targets",
        ),
        (loop_with_last_loss, "it should be a list of floats"),
        (loop_with_tensors, "a list of tensors; it should be a list of floats"),
        (lambda *three: torch.tensor(loop_by_negative_logs(*three)), "a Tensor; it should be a list of floats"),
        (loop_with_wrong_axis, "stopped"),
        (loop_after_the_step, "should be"),
        (loop_of(lambda scores, targets: F.cross_entropy(scores[:, :-1].mT, targets[:, 1:])), "shifted once more"),
        (loop_of(lambda scores, targets: F.nll_loss(scores.mT, targets)), "taken for logarithms"),
    ],
    "RotaryMultiQuery": [
        (variant(NamedOtherwise, turned=lambda self, x, past: x), "rotary-unused"),
        (NamedOtherwiseFromZero, "positions-restart-in-cache"),
        (TurnedBackwards, "should be"),
    ],
    "MultiHeadFromMemory": [
        (variant(Packed, causal=False), "no-causal-mask"),
        (Unscaled, "missing-scale"),
        (Scrambled, "merge-without-transpose"),
        (variant(Packed, merged=lambda self, context: context.transpose(1, 2).flatten(2)), "output-projection-missing"),
        # Sees what is later, and not what was before.
        (variant(Packed, forward=lambda self, x: Packed.forward(self, x.flip(1)).flip(1)), "mask-transposed"),
    ],
    "MultiQueryWithCache": [
        (variant(Shared, keep=lambda self, new, all_keys: torch.ones(new, all_keys).tril().bool()), "causal-top-left"),
        (CopyPerHead, "the cache keeps", "numbers per token; keys and values are"),
        (HeadsOfTheirOwn, "numbers per token"),
    ],
    "write_greedily": [
        (greedy_with_everything, "stopped", "each must go in once"),
        (lambda m, t, n: greedy_by_first_call(m, t, n - 1), "shape"),
    ],
}
