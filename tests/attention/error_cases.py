"""Every refusal of course_lib.attention: what is called, which exception comes, and its whole sentence.

Run as a script (`python -O error_cases.py`) it prints the cases that are not refused so, and exits with their number.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import torch

from course_lib.attention import (
    BlockPool,
    GroupedQueryAttention,
    KVCache,
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    RollingKVCache,
    SingleHeadAttention,
    apply_rotary,
    attend,
    attend_fused,
    causal_keep,
    padding_keep,
    rotary_table,
    to_torch_mask,
    window_keep,
)


class Refusal(NamedTuple):
    """A call that must be refused."""

    name: str
    call: Callable[[], object]
    kind: type[Exception]
    sentence: str


# --- constructors ---

FORMS = {
    "single head": lambda d_in=3, d_out=4, **o: SingleHeadAttention(d_in, d_out, **o),
    "wrapper": lambda d_in=3, d_out=4, num_heads=2, **o: MultiHeadAttentionWrapper(d_in, d_out, num_heads, **o),
    "split": lambda d_in=3, d_out=4, num_heads=2, **o: MultiHeadAttention(d_in, d_out, num_heads, **o),
    "multi-query": lambda d_in=3, d_out=4, num_heads=2, **o: MultiQueryAttention(d_in, d_out, num_heads, **o),
    "grouped": lambda d_in=3, d_out=4, num_heads=2, num_kv_heads=2, **o: GroupedQueryAttention(
        d_in, d_out, num_heads, num_kv_heads, **o
    ),
}
WITH_WIDTHS = ("split", "multi-query", "grouped")


def constructor_refusals() -> list[Refusal]:
    """Sizes and options that no module can be built with."""
    found = []

    def add(form, options, kind, sentence):
        found.append(Refusal(f"{form} {options}", lambda: FORMS[form](**options), kind, sentence))

    for form in FORMS:
        sizes = ["d_in", "d_out"] + ["num_heads"] * (form != "single head") + ["num_kv_heads"] * (form == "grouped")
        for size in sizes + ["d_qk", "d_v"] * (form in WITH_WIDTHS):
            add(form, {size: 0}, ValueError, f"{size} must be at least 1, got 0.")
            add(form, {size: -4}, ValueError, f"{size} must be at least 1, got -4.")
            add(form, {size: 2.0}, TypeError, f"{size} must be an integer, got 2.0 (float).")
            add(form, {size: True}, TypeError, f"{size} must be an integer, got True (bool).")
            add(form, {size: "2"}, TypeError, f"{size} must be an integer, got '2' (str).")
        add(form, {"d_in": None}, TypeError, "d_in must be an integer, got None (NoneType).")
        for dropout in (1.0, 1, -0.1, 2.5):
            sentence = f"dropout must be at least 0 and less than 1, got {dropout}."
            add(form, {"dropout": dropout}, ValueError, sentence)
        add(form, {"dropout": float("nan")}, ValueError, "dropout must be at least 0 and less than 1, got nan.")
        add(form, {"dropout": "0.1"}, TypeError, "dropout must be a number, got '0.1' (str).")
        add(form, {"dropout": False}, TypeError, "dropout must be a number, got False (bool).")
        add(form, {"causal": 1}, TypeError, "causal must be True or False, got 1.")
        add(form, {"causal": None}, TypeError, "causal must be True or False, got None.")

    cut = "can't be cut into num_heads=4 equal parts"
    wrapper = f"d_out=10 {cut}: choose d_out=8 or 12."
    add("wrapper", {"d_out": 10, "num_heads": 4}, ValueError, wrapper)
    add("wrapper", {"d_out": 3, "num_heads": 4}, ValueError, f"d_out=3 {cut}: choose d_out=4.")
    for form in WITH_WIDTHS:
        sizes = {"d_out": 10, "num_heads": 4}
        both = f"d_out=10 {cut}: choose d_out=8 or 12, or pass d_qk and d_v."
        add(form, sizes, ValueError, both)
        add(form, sizes | {"d_qk": 8}, ValueError, both.replace("d_qk and d_v", "d_v"))
        add(form, sizes | {"d_v": 8}, ValueError, both.replace("d_qk and d_v", "d_qk"))
        add(form, sizes | {"d_qk": 6, "d_v": 8}, ValueError, f"d_qk=6 {cut}: choose d_qk=4 or 8.")
        add(form, sizes | {"d_qk": 8, "d_v": 6}, ValueError, f"d_v=6 {cut}: choose d_v=4 or 8.")
        add(form, {"kernel": "flash"}, ValueError, "kernel must be 'explicit' or 'fused', got 'flash'.")
        add(form, {"kernel": None}, ValueError, "kernel must be 'explicit' or 'fused', got None.")
        no_mix = "out_proj=False gives an output of width d_v=6, not d_out=4: choose d_out=6 or out_proj=True."
        add(form, {"d_v": 6, "out_proj": False}, ValueError, no_mix)
    add(
        "grouped",
        {"d_out": 12, "num_heads": 6, "num_kv_heads": 4},
        ValueError,
        "num_heads=6 can't be cut into num_kv_heads=4 equal parts: choose num_heads=4 or 8, or a num_kv_heads that "
        "divides it.",
    )
    add(
        "grouped",
        {"num_heads": 2, "num_kv_heads": 4},
        ValueError,
        "num_heads=2 can't be cut into num_kv_heads=4 equal parts: choose num_heads=4, or a num_kv_heads that divides "
        "it.",
    )
    return found


def llama_constructor_refusals() -> list[Refusal]:
    """The same for Llama's attention, its cache and its table of angles."""
    found = []
    calls = {
        "llama": lambda d_model=24, num_heads=6, **o: LlamaAttention(d_model, num_heads, **o),
        "cache": lambda batch=2, num_kv_heads=3, max_len=7, head_dim=4, **o: KVCache(
            batch, num_kv_heads, max_len, head_dim, **o
        ),
        "table": lambda num_positions=5, head_dim=4, **o: rotary_table(num_positions, head_dim, **o),
        "rolling": lambda batch=2, num_kv_heads=3, window=7, head_dim=4, **o: RollingKVCache(
            batch, num_kv_heads, window, head_dim, **o
        ),
        "pool": lambda num_blocks=2, block_size=3, num_kv_heads=5, head_dim=4, **o: BlockPool(
            num_blocks, block_size, num_kv_heads, head_dim, **o
        ),
        "latent": lambda d_model=24, num_heads=6, **o: LatentAttention(
            d_model, num_heads, **({"latent_dim": 5, "head_dim": 3, "rotary_dim": 4} | o)
        ),
    }

    def add(name, options, kind, sentence):
        found.append(Refusal(f"{name} {options}", lambda: calls[name](**options), kind, sentence))

    sizes = {
        "llama": ("d_model", "num_heads", "num_kv_heads", "head_dim", "max_positions", "window"),
        "cache": ("batch", "num_kv_heads", "max_len", "head_dim", "value_dim"),
        "table": ("num_positions", "head_dim"),
        "rolling": ("batch", "num_kv_heads", "window", "head_dim", "value_dim"),
        "pool": ("num_blocks", "block_size", "num_kv_heads", "head_dim", "value_dim"),
        "latent": ("d_model", "num_heads", "latent_dim", "head_dim", "rotary_dim", "value_dim", "max_positions"),
    }
    for name in calls:
        for size in sizes[name]:
            add(name, {size: 0}, ValueError, f"{size} must be at least 1, got 0.")
            add(name, {size: 2.0}, TypeError, f"{size} must be an integer, got 2.0 (float).")
            add(name, {size: True}, TypeError, f"{size} must be an integer, got True (bool).")
    for name in ("llama", "rolling"):
        add(name, {"num_sinks": -1}, ValueError, "num_sinks must be at least 0, got -1.")
        add(name, {"num_sinks": 2.0}, TypeError, "num_sinks must be an integer, got 2.0 (float).")
    for name in ("llama", "table"):
        even = "head_dim must be even, got 5: rotary positions rotate its elements in pairs, so choose head_dim=6."
        add(name, {"head_dim": 5}, ValueError, even)
        above = "rope_theta must be above 0, got {}: Llama 2 uses 10000.0."
        add(name, {"rope_theta": 0}, ValueError, above.format(0))
        add(name, {"rope_theta": -2.5}, ValueError, above.format(-2.5))
        add(name, {"rope_theta": float("nan")}, ValueError, above.format("nan"))
        add(name, {"rope_theta": "10000"}, TypeError, "rope_theta must be a number, got '10000' (str).")
        add(name, {"rope_theta": True}, TypeError, "rope_theta must be a number, got True (bool).")
    add("llama", {"d_model": 30}, ValueError, even)
    add("latent", {"rotary_dim": 5}, ValueError, even.replace("head_dim", "rotary_dim"))
    add("latent", {"rope_theta": 0}, ValueError, above.format(0))
    add("latent", {"kernel": "flash"}, ValueError, "kernel must be 'explicit' or 'fused', got 'flash'.")
    sinks = "num_sinks=2 needs a window: without one, every query attends to the first tokens."
    add("llama", {"num_sinks": 2}, ValueError, sinks)
    add("llama", {"learned_sinks": 1}, TypeError, "learned_sinks must be True or False, got 1.")
    fused = "learned_sinks=True needs kernel='explicit': PyTorch's kernel takes no sink logits."
    add("llama", {"learned_sinks": True, "kernel": "fused"}, ValueError, fused)
    cut = "can't be cut into num_heads=6 equal parts"
    add("llama", {"d_model": 27}, ValueError, f"d_model=27 {cut}: choose d_model=24 or 30, or pass head_dim.")
    add(
        "llama",
        {"num_kv_heads": 4},
        ValueError,
        "num_heads=6 can't be cut into num_kv_heads=4 equal parts: choose num_heads=4 or 8, or a num_kv_heads that "
        "divides it.",
    )
    add("llama", {"kernel": "flash"}, ValueError, "kernel must be 'explicit' or 'fused', got 'flash'.")
    floating = "dtype must be a floating-point dtype such as torch.float32, got {}."
    for name in ("cache", "rolling", "pool"):
        add(name, {"dtype": torch.int64}, TypeError, floating.format("torch.int64"))
    add("cache", {"dtype": "float32"}, TypeError, floating.format("'float32'"))
    return found


# --- calls of a module ---

BATCH, TOKENS, HEADS = 5, 7, 3
MODULES = {
    "single head": lambda: SingleHeadAttention(6, 4),
    "wrapper": lambda: MultiHeadAttentionWrapper(6, 12, HEADS),
    "split": lambda: MultiHeadAttention(6, 12, HEADS),
    "fused": lambda: MultiHeadAttention(6, 12, HEADS, kernel="fused"),
    "multi-query": lambda: MultiQueryAttention(6, 12, HEADS),
    "grouped": lambda: GroupedQueryAttention(6, 12, HEADS, 1),
    "llama": lambda: LlamaAttention(6, HEADS),
    "llama, fused": lambda: LlamaAttention(6, HEADS, kernel="fused"),
    "latent": lambda: LatentAttention(6, HEADS, latent_dim=5, head_dim=4, rotary_dim=2),
}
NOT_BOOL = (
    "keep must be bool with True = may attend, got {}: for a 0/1 mask in that sense use keep.bool(), for an additive "
    "mask (0 and -inf) use mask == 0."
)


def call_refusals() -> list[Refusal]:
    """Inputs and masks that no module takes."""
    found = []
    x = torch.zeros(BATCH, TOKENS, 6)
    square = torch.ones(TOKENS, TOKENS)
    for form, make in MODULES.items():
        heads = 1 if form == "single head" else HEADS
        width = "d_model" if form.startswith(("llama", "latent")) else "d_in"

        def add(name, kind, sentence, x=x, *, form=form, make=make, **options):
            found.append(Refusal(f"{form}, {name}", lambda: make()(x, **options), kind, sentence))

        add("x a list", TypeError, "x must be a tensor, got list: wrap it with torch.tensor(x).", [[1.0]])
        axes = "x must be (batch, token, width), got the shape {}: {}."
        add("x of 2 axes", ValueError, axes.format((7, 6), "add the batch axis with x[None]"), x[0])
        add("x of 1 axis", ValueError, axes.format((6,), "reshape it to three axes"), x[0, 0])
        add("x of 4 axes", ValueError, axes.format((1, 5, 7, 6), "reshape it to three axes"), x[None])
        add(
            "x of another width",
            ValueError,
            f"x has the width 7 (shape (5, 6, 7)), but the module was built with {width}=6: build it with {width}=7, "
            "or check the order of x's axes.",
            x.transpose(1, 2),
        )
        tokens = "x must be floating point, got {}: embed the token ids first, or call x.float()."
        add("x of token ids", TypeError, tokens.format("torch.int64"), x.long())
        add("x bool", TypeError, tokens.format("torch.bool"), x.bool())
        add("x complex", TypeError, tokens.format("torch.complex64"), x.to(torch.complex64))
        dtype = "x is {}, but the module's weights are torch.float32: call module.to(x.dtype)."
        add("x float64", TypeError, dtype.format("torch.float64"), x.double())
        add("x float16", TypeError, dtype.format("torch.float16"), x.half())
        device = "x is on meta, but the module's weights are on cpu: call x.to('cpu')."
        add("x on meta", ValueError, device, x.to("meta"))
        add("x float16 on meta", TypeError, dtype.format("torch.float16"), x.half().to("meta"))

        for mask in (square, square.long(), square.to(torch.uint8) * 255, square.log(), square.half()):
            add(f"keep {mask.dtype} {mask.max()}", TypeError, NOT_BOOL.format(mask.dtype), keep=mask)
        add("keep a list", TypeError, "keep must be a bool tensor, got list.", keep=[[True]])
        keep = torch.ones(1, dtype=torch.bool)
        full = f"(batch, head, query, key) = (5, {heads}, 7, 7)"
        add(
            "keep on meta",
            ValueError,
            "keep is on meta, but the tensors it masks are on cpu: call keep.to('cpu').",
            keep=keep.expand(7, 7).to("meta"),
        )
        rank = f"keep has 5 axes, shape (1, 1, 1, 7, 7): it must broadcast to {full}."
        add("keep of 5 axes", ValueError, rank, keep=keep.expand(1, 1, 1, 7, 7))
        wrong = f"keep of shape {{}} does not broadcast to {full}{{}}."
        for shape, remedy in {
            (5, 7): ": it looks like one row per sample, so write keep[:, None, None]",
            (5, 7, 7): ": it looks like one mask per sample, so write keep[:, None]",
            (5, 1, 7): ": it looks like one mask per sample, so write keep[:, None]",
            (6, 6): "",
            (8,): "",
            (4, 1, 7, 7): "",
            (5, 2, 7, 7): "",
        }.items():
            add(f"keep {shape}", ValueError, wrong.format(shape, remedy), keep=keep.expand(shape))
        if heads > 1:
            add(
                "batch == heads",
                ValueError,
                "keep of shape (3, 7, 7) could be one mask per sample or one per head, since batch and heads are both "
                "3: write keep[:, None] for samples or keep[None] for heads.",
                x[:3],
                keep=keep.expand(3, 7, 7),
            )
    sentence = "return_weights=True needs kernel='explicit': the fused kernel never forms the weights."
    for form in ("fused", "llama, fused"):
        call = lambda form=form: MODULES[form]()(x, return_weights=True)  # noqa: E731
        found.append(Refusal(f"weights of {form}", call, ValueError, sentence))
    return found


def position_refusals() -> list[Refusal]:
    """Positions that Llama's attention has no angles for, or can't lay beside the tokens."""
    found = []
    x = torch.zeros(2, 3, 6)
    positions = torch.arange(3)

    def add(name, kind, sentence, positions=positions, x=x):
        call = lambda: LlamaAttention(6, HEADS, max_positions=4)(x, positions=positions)  # noqa: E731
        found.append(Refusal(f"positions, {name}", call, kind, sentence))

    whole = "positions must be a tensor of integers (torch.int64), got {}."
    add("a list", TypeError, whole.format("list"), [0, 1, 2])
    add("a number", TypeError, whole.format("int"), 3)
    for dtype in (torch.float32, torch.bool, torch.uint8):
        add(str(dtype), TypeError, whole.format(dtype), positions.to(dtype))
    shape = "positions must be (token,) = (3,) or (batch, token) = (2, 3), got the shape {}."
    for wrong in ((4,), (), (1, 3), (3, 2), (2, 1, 3), (3, 1)):
        add(f"of shape {wrong}", ValueError, shape.format(wrong), torch.zeros(wrong, dtype=torch.int64))
    meta = "positions are on meta, but the module is on cpu: call positions.to('cpu')."
    add("on meta", ValueError, meta, positions.to("meta"))
    negative = "positions must be at least 0, got -2: padding may have any position, such as 0."
    add("negative", ValueError, negative, torch.tensor([-2, -1, 0]))
    beyond = "position {} is beyond the table of max_positions=4: build the module with max_positions={} or more."
    add("beyond the table", ValueError, beyond.format(4, 5), positions + 2)
    add("beyond the table in one sample", ValueError, beyond.format(11, 12), torch.tensor([[0, 1, 2], [9, 10, 11]]))
    add("of a long x, beyond the table", ValueError, beyond.format(5, 6), None, torch.zeros(2, 6, 6))
    return found


def context_refusals() -> list[Refusal]:
    """Contexts that do not go with x or with the module."""
    found = []
    x, context = torch.zeros(2, 5, 6), torch.zeros(2, 7, 6)
    causal = (
        "context needs a module built with causal=False: a position in x says nothing about positions in context; to "
        "hide keys, pass keep."
    )
    makes = {
        "split": lambda **o: MultiHeadAttention(6, 12, HEADS, **o),
        "multi-query": lambda **o: MultiQueryAttention(6, 12, HEADS, **o),
        "grouped, fused": lambda **o: GroupedQueryAttention(6, 12, HEADS, 1, kernel="fused", **o),
    }
    for form, make in makes.items():

        def add(name, kind, sentence, context=context, *, form=form, make=make, causal=False, **options):
            call = lambda: make(causal=causal)(x, context=context, **options)  # noqa: E731
            found.append(Refusal(f"{form}, {name}", call, kind, sentence))

        add("context of a causal module", ValueError, causal, causal=True)
        grows = (
            "context and cache can't be given together: a cache grows with x, whereas the keys and values of a context "
            "stay the same."
        )
        add("context and cache", ValueError, grows, cache=KVCache(2, HEADS if form == "split" else 1, 9, 4))
        samples = "context has 3 samples and x has 2: there is one context for each sample."
        add("context of another batch", ValueError, samples, torch.zeros(3, 7, 6))
        add(
            "context a list",
            TypeError,
            "context must be a tensor, got list: wrap it with torch.tensor(context).",
            [1.0],
        )
        axes = "context must be (batch, token, width), got the shape (7, 6): add the batch axis with context[None]."
        add("context of 2 axes", ValueError, axes, context[0])
        add(
            "context of another width",
            ValueError,
            "context has the width 4 (shape (2, 7, 4)), but the module was built with d_in=6: build it with d_in=4, "
            "or check the order of context's axes.",
            context[..., :4],
        )
        tokens = "context must be floating point, got torch.int64: embed the token ids first, or call context.float()."
        add("context of token ids", TypeError, tokens, context.long())
        dtype = "context is torch.float64, but the module's weights are torch.float32: call module.to(context.dtype)."
        add("context float64", TypeError, dtype, context.double())
        device = "context is on meta, but the module's weights are on cpu: call context.to('cpu')."
        add("context on meta", ValueError, device, context.to("meta"))
        wrong = "keep of shape {} does not broadcast to (batch, head, query, key) = (2, 3, 5, 7){}."
        ones = torch.ones(1, dtype=torch.bool)
        for shape, remedy in {
            (5, 5): ": its last axis must fit the 7 keys (with a cache, those in it too), not the queries",
            (7, 5): ": its last two axes look swapped, so write keep.transpose(-2, -1)",
            (2, 7): ": it looks like one row per sample, so write keep[:, None, None]",
            (2, 1, 4, 7): "",
        }.items():
            add(f"context, keep {shape}", ValueError, wrong.format(shape, remedy), keep=ones.expand(shape))
    return found


# --- what can't be appended to a cache: called with a cache that is half full, of which nothing may change ---


def filled_cache(value_dim: int = 5) -> KVCache:
    """A cache with four of seven tokens: 2 samples, 3 kv heads, keys 4 wide; a module of six heads goes with it."""
    generator = torch.Generator().manual_seed(4)
    cache = KVCache(2, 3, 7, 4, value_dim=value_dim)
    cache.append(*(torch.randn(2, 3, 4, width, generator=generator) for width in (4, value_dim)))
    return cache


class CacheRefusal(NamedTuple):
    """A call with a half-full cache that must be refused, and must leave the cache as it is."""

    name: str
    call: Callable[[KVCache], object]
    kind: type[Exception]
    sentence: str
    value_dim: int = 5


def append_refusals() -> list[CacheRefusal]:
    """Keys and values that `KVCache.append` does not take, and lengths that `rewind` does not."""
    found = []
    keys, values = torch.ones(2, 3, 2, 4), torch.ones(2, 3, 2, 5)

    def add(name, kind, sentence, keys=keys, values=values):
        found.append(CacheRefusal(f"append, {name}", lambda cache: cache.append(keys, values), kind, sentence))

    add("keys a list", TypeError, "keys must be a tensor, got list.", [1.0])
    add("values None", TypeError, "values must be a tensor, got NoneType.", values=None)
    axes = "{} must be (batch, kv head, new token, width), got the shape {}."
    add("keys of 3 axes", ValueError, axes.format("keys", (3, 2, 4)), keys[0])
    add("values of 3 axes", ValueError, axes.format("values", (2, 3, 5)), values=values[:, :, 0])
    batch = (
        "the new keys have batch={}, but the cache was built with batch=2: a cache belongs to one batch, so build a "
        "new KVCache for a different batch."
    )
    add("one sample", ValueError, batch.format(1), keys[:1], values[:1])
    add("three samples", ValueError, batch.format(3), *(each[:1].expand(3, -1, -1, -1) for each in (keys, values)))
    size = (
        "the new keys and values have {0}={1}, but the cache was built with {0}={2}: build KVCache(batch, "
        "num_kv_heads, max_len, head_dim) with {0}={1}."
    )
    add("one head", ValueError, size.format("num_kv_heads", 1, 3), keys[:, :1], values[:, :1])
    add("head_dim", ValueError, size.format("head_dim", 3, 4), keys[..., :3])
    add("value_dim", ValueError, size.format("value_dim", 4, 5), values=values[..., :4])
    room = (
        "the cache holds 4 of max_len=7 tokens and has no room for {} more: build it with max_len={} or more, or "
        "start again with cache.rewind()."
    )
    add("too many", ValueError, room.format(4, 8), torch.ones(2, 3, 4, 4), torch.ones(2, 3, 4, 5))
    agree = (
        "keys (2, 3, 2, 4) and values {} must agree in batch, heads and tokens (axes 0 to 2): there is one value for "
        "each key."
    )
    add("one value less", ValueError, agree.format((2, 3, 1, 5)), values=values[:, :, :1])
    add("one head of values", ValueError, agree.format((2, 1, 2, 5)), values=values[:, :1])
    add("one sample of values", ValueError, agree.format((1, 3, 2, 5)), values=values[:1])
    dtype = "{} are torch.float64, but the cache holds torch.float32: build KVCache with dtype=torch.float64."
    add("keys float64", TypeError, dtype.format("keys"), keys.double())
    add("values float64", TypeError, dtype.format("values"), values=values.double())
    device = "{} are on meta, but the cache is on cpu: build KVCache with device='meta'."
    add("keys on meta", ValueError, device.format("keys"), keys.to("meta"))
    add("values on meta", ValueError, device.format("values"), values=values.to("meta"))
    gradients = "{} carry gradients, which a cache can't keep: call the module under torch.no_grad()."
    add("keys with gradients", ValueError, gradients.format("keys"), keys.clone().requires_grad_())
    add("values with gradients", ValueError, gradients.format("values"), values=values.clone().requires_grad_())

    def add_rewind(length, kind, sentence):
        found.append(CacheRefusal(f"rewind {length!r}", lambda cache: cache.rewind(length), kind, sentence))

    add_rewind(5, ValueError, "length=5 is more than the 4 tokens in the cache: rewind can only shorten it.")
    add_rewind(-1, ValueError, "length must be at least 0, got -1.")
    for length in (0.0, False, True, None, "3"):
        kind = type(length).__name__
        add_rewind(length, TypeError, f"length must be an integer, got {length!r} ({kind}).")
    return found


BUILT_WITH = ("num_kv_heads", "head_dim", "d_qk", "d_v", "kernel", "max_positions")  # the rest goes to forward


def module_and_cache_refusals() -> list[CacheRefusal]:
    """Calls of a module with a cache that does not go with it, or with anything else that does not fit."""
    found = []
    x = torch.ones(2, 3, 6)
    makes = {
        "grouped": lambda **o: GroupedQueryAttention(6, 9, 6, **({"num_kv_heads": 3, "d_qk": 24, "d_v": 30} | o)),
        "llama": lambda **o: LlamaAttention(6, 6, **({"num_kv_heads": 3, "head_dim": 4} | o)),
    }
    for form, make in makes.items():
        is_llama = form == "llama"
        value_dim, width = (4, "d_model") if is_llama else (5, "d_in")
        full = "(batch, head, query, key) = (2, 6, 3, 7)"

        def add(name, kind, sentence, x=x, *, form=form, value_dim=value_dim, make=make, grad=False, **options):
            built_with = {key: value for key, value in options.items() if key in BUILT_WITH}
            given = {key: value for key, value in options.items() if key not in BUILT_WITH}

            def call(cache):
                with torch.set_grad_enabled(grad):
                    return make(**built_with)(x, **({"cache": cache} | given))

            found.append(CacheRefusal(f"{form}, {name}", call, kind, sentence, value_dim))

        add("cache a list", TypeError, "cache must be a KVCache, got list.", cache=[])
        add("cache a tuple of tensors", TypeError, "cache must be a KVCache, got tuple.", cache=(x, x))
        batch = (
            "the new keys have batch=1, but the cache was built with batch=2: a cache belongs to one batch, so build "
            "a new KVCache for a different batch."
        )
        add("another batch", ValueError, batch, x[:1])
        size = (
            "the new keys and values have {0}={1}, but the cache was built with {0}={2}: build KVCache(batch, "
            "num_kv_heads, max_len, head_dim) with {0}={1}."
        )
        add("other kv heads", ValueError, size.format("num_kv_heads", 2, 3), num_kv_heads=2)
        add(
            "another head_dim",
            ValueError,
            size.format("head_dim", 8, 4),
            **({"head_dim": 8} if is_llama else {"d_qk": 48}),
        )
        if not is_llama:
            add("another value_dim", ValueError, size.format("value_dim", 6, 5), d_v=36)
        room = (
            "the cache holds 4 of max_len=7 tokens and has no room for 4 more: build it with max_len=8 or more, or "
            "start again with cache.rewind()."
        )
        add("too many tokens", ValueError, room, torch.ones(2, 4, 6))
        gradients = "keys carry gradients, which a cache can't keep: call the module under torch.no_grad()."
        add("gradients", ValueError, gradients, grad=True)
        add(
            "x of another width",
            ValueError,
            f"x has the width 5 (shape (2, 3, 5)), but the module was built with {width}=6: build it with {width}=5, "
            "or check the order of x's axes.",
            x[..., :5],
        )
        weights = "return_weights=True needs kernel='explicit': the fused kernel never forms the weights."
        add("weights of the fused kernel", ValueError, weights, kernel="fused", return_weights=True)
        add("keep float", TypeError, NOT_BOOL.format("torch.float32"), keep=torch.ones(3, 7))
        ones = torch.ones(1, dtype=torch.bool)
        new_only = ": its last axis must fit the 7 keys (with a cache, those in it too), not the queries"
        for shape, remedy in {
            (3, 3): new_only,
            (2, 1, 1, 3): new_only,
            (7, 3): ": its last two axes look swapped, so write keep.transpose(-2, -1)",
            (2, 1, 1, 4): "",
            (2, 7): ": it looks like one row per sample, so write keep[:, None, None]",
        }.items():
            wrong = f"keep of shape {shape} does not broadcast to {full}{remedy}."
            add(f"keep {shape}", ValueError, wrong, keep=ones.expand(shape))
        if is_llama:
            beyond = (
                "position {} is beyond the table of max_positions=6: build the module with max_positions={} or more."
            )
            add("table that ends before the cache", ValueError, beyond.format(6, 7), max_positions=6)
            positions = torch.tensor([4, 5, 8])
            add("positions beyond", ValueError, beyond.format(8, 9), max_positions=6, positions=positions)
            shape = "positions must be (token,) = (3,) or (batch, token) = (2, 3), got the shape (7,)."
            add("positions of all keys", ValueError, shape, positions=torch.arange(7))
    return found


# --- attend and attend_fused ---


def rotary_refusals() -> list[Refusal]:
    """Tensors and tables that do not fit each other."""
    found = []
    x, (cos, sin) = torch.zeros(2, 3, 5, 4), rotary_table(5, 4)

    def add(name, kind, sentence, x=x, cos=cos, sin=sin):
        found.append(Refusal(f"rotary, {name}", lambda: apply_rotary(x, cos, sin), kind, sentence))

    floating = "{} must be a floating-point tensor, got {}."
    add("x a list", TypeError, floating.format("x", "list"), [1.0])
    add("x integers", TypeError, floating.format("x", "torch.int64"), x.long())
    add("cos None", TypeError, floating.format("cos", "NoneType"), cos=None)
    add("sin integers", TypeError, floating.format("sin", "torch.int64"), sin=sin.long())
    meta = "cos is on meta, but x is on cpu: call rotary_table with device='cpu'."
    add("cos on meta", ValueError, meta, cos=cos.to("meta"))
    axes = "x must be (batch, head, token, head_dim), got the shape (3, 5, 4): split the heads first with view and "
    add("x of 3 axes", ValueError, axes + "transpose(1, 2).", x[0])
    even = "head_dim must be even, got 3: rotary positions rotate its elements in pairs, so choose head_dim=4."
    add("odd head_dim", ValueError, even, x[..., :3])
    fit = (
        "cos and sin must both be (token, head_dim / 2) = (5, 2) or (batch, token, head_dim / 2) = (2, 5, 2) for x of "
        "shape (2, 3, 5, 4), got {} and {}: take the rows of rotary_table at the tokens' positions."
    )
    wrong = {
        "the whole table": rotary_table(8, 4),
        "angles for a whole head": (cos.repeat(1, 2), sin.repeat(1, 2)),
        "other widths": rotary_table(5, 6),
        "one row": (cos[0], sin[0]),
        "a sample less": (cos[None], sin[None]),
        "an axis for heads": (cos[None, None], sin[None, None]),
        "cos for all, sin for each sample": (cos, sin.expand(2, 5, 2)),
        "sin for all, cos for each sample": (cos.expand(2, 5, 2), sin),
    }
    for name, (cos, sin) in wrong.items():
        add(name, ValueError, fit.format(tuple(cos.shape), tuple(sin.shape)), cos=cos, sin=sin)
    return found


def core_refusals() -> list[Refusal]:
    """Queries, keys and values that do not fit each other."""
    found = []
    queries, keys, values = torch.zeros(2, 6, 4, 5), torch.zeros(2, 3, 7, 5), torch.zeros(2, 3, 7, 8)
    for function in (attend, attend_fused):

        def add(name, kind, sentence, *arguments, function=function):
            found.append(Refusal(f"{function.__name__}, {name}", lambda: function(*arguments), kind, sentence))

        for index, name in enumerate(("queries", "keys", "values")):

            def given(tensor, index=index):
                return [tensor if each == index else other for each, other in enumerate((queries, keys, values))]

            own = (queries, keys, values)[index]
            add(f"{name} a list", TypeError, f"{name} must be a tensor, got list.", *given([1.0]))
            shape = tuple(own[0].shape)
            axes = f"{name} must be (batch, head, token, head_dim), got the shape {shape}: split the heads first with "
            add(f"{name} of 3 axes", ValueError, axes + "view and transpose(1, 2).", *given(own[0]))
            integers = f"{name} must be floating point, got torch.int64: call {name}.float()."
            add(f"{name} integers", TypeError, integers, *given(own.long()))
            if name != "queries":
                dtype = f"{name} are torch.float64, but queries are torch.float32: convert them to one dtype."
                add(f"{name} float64", TypeError, dtype, *given(own.double()))
                device = f"{name} are on meta, but queries are on cpu: move them."
                add(f"{name} on meta", ValueError, device, *given(own.to("meta")))
        dtype = "keys are torch.float32, but queries are torch.float64: convert them to one dtype."
        add("on meta, dtypes that differ", TypeError, dtype, *(t.to("meta") for t in (queries.double(), keys, values)))
        batch = "queries, keys and values differ in batch size ({}): axis 0 must be equal."
        add("batch", ValueError, batch.format("1, 2, 2"), queries[:1], keys, values)
        add("batch of values", ValueError, batch.format("2, 2, 1"), queries, keys, values[:1])
        agree = "keys (2, 3, 7, 5) and values {} must agree in heads and tokens (axes 1 and 2): there is one value "
        agree += "for each key."
        add("one value less", ValueError, agree.format((2, 3, 6, 8)), queries, keys, values[:, :, 1:])
        add("one head of values", ValueError, agree.format((2, 1, 7, 8)), queries, keys, values[:, :1])
        width = "queries have head_dim {} and keys {}: a score is their dot product, so both must be the same and at "
        width += "least 1."
        add("head_dim", ValueError, width.format(5, 4), queries, keys[..., 1:], values)
        add("head_dim 0", ValueError, width.format(0, 0), queries[..., :0], keys[..., :0], values)
        share = "{} query heads can't share {} kv heads evenly: the number of query heads must be a multiple of the "
        share += "number of kv heads."
        add("5 heads, 3 kv heads", ValueError, share.format(5, 3), queries[:, 1:], keys, values)
        add("2 heads, 3 kv heads", ValueError, share.format(2, 3), queries[:, :2], keys, values)
        add("no kv head", ValueError, share.format(6, 0), queries, keys[:, :0], values[:, :0])
        add("no head", ValueError, share.format(0, 3), queries[:, :0], keys, values)

        def add_mask(name, kind, sentence, keep, *, add=add):
            add(name, kind, sentence, queries, keys, values, keep)

        ones = torch.ones(1)
        add_mask("keep float", TypeError, NOT_BOOL.format("torch.float32"), ones.expand(4, 7))
        add_mask("keep uint8", TypeError, NOT_BOOL.format("torch.uint8"), (ones * 255).to(torch.uint8).expand(4, 7))
        wrong = "keep of shape {} does not broadcast to (batch, head, query, key) = (2, 6, 4, 7){}."
        swapped = ": its last two axes look swapped, so write keep.transpose(-2, -1)"
        for shape, remedy in {
            (7, 4): swapped,
            (2, 6, 7, 4): swapped,
            (2, 7): ": it looks like one row per sample, so write keep[:, None, None]",
            (2, 4, 7): ": it looks like one mask per sample, so write keep[:, None]",
            (2, 1, 7): ": it looks like one mask per sample, so write keep[:, None]",
            (2, 3, 4, 7): "",
            (0, 7): "",
            (4, 4): ": its last axis must fit the 7 keys (with a cache, those in it too), not the queries",
        }.items():
            add_mask(f"keep {shape}", ValueError, wrong.format(shape, remedy), ones.bool().expand(shape))
        rank = "keep has 5 axes, shape (1, 2, 6, 4, 7): it must broadcast to (batch, head, query, key) = (2, 6, 4, 7)."
        add_mask("keep of 5 axes", ValueError, rank, ones.bool().expand(1, 2, 6, 4, 7))
        both = (
            "keep of shape (2, 4, 7) could be one mask per sample or one per head, since batch and heads are both 2: "
        )
        both += "write keep[:, None] for samples or keep[None] for heads."
        two_heads = (queries[:, :2], keys[:, :1], values[:, :1], ones.bool().expand(2, 4, 7))
        add("batch == heads", ValueError, both, *two_heads)
        for dropout in (1.0, -0.5):
            sentence = f"dropout_p must be at least 0 and less than 1, got {dropout}."
            add(f"dropout_p {dropout}", ValueError, sentence, queries, keys, values, None, dropout)
        text = "dropout_p must be a number, got 'half' (str)."
        add("dropout_p a word", TypeError, text, queries, keys, values, None, "half")
    return found


def sink_refusals() -> list[Refusal]:
    """Sink logits that do not fit the queries."""
    queries, keys, values = torch.zeros(2, 6, 4, 5), torch.zeros(2, 3, 7, 5), torch.zeros(2, 3, 7, 8)
    shape = "sink_logits must be (head,) = (6,), one per query head, got the shape {}."
    kind = "sink_logits must be a floating-point tensor, got {}."
    meta = "sink_logits are on meta, but the queries are on cpu: call sink_logits.to('cpu')."
    cases = [
        (torch.zeros(3), ValueError, shape.format((3,))),
        (torch.zeros(6, 1), ValueError, shape.format((6, 1))),
        (torch.zeros(()), ValueError, shape.format(())),
        (0.0, TypeError, kind.format("float")),
        (torch.zeros(6).long(), TypeError, kind.format("torch.int64")),
        (torch.zeros(6, device="meta"), ValueError, meta),
    ]
    return [
        Refusal(f"sink_logits {number}", lambda sinks=sinks: attend(queries, keys, values, sink_logits=sinks), *rest)
        for number, (sinks, *rest) in enumerate(cases)
    ]


# --- masks ---


def mask_refusals() -> list[Refusal]:
    """Arguments that no mask can be made from."""
    meta = torch.tensor([1, 2], device="meta")
    keep = torch.ones(1, dtype=torch.bool)
    whole = "lengths must be integers, got {}: from a 0/1 mask of real tokens they are mask.sum(-1)."
    axis = "lengths must be (batch,), one integer per sample, got the shape {}."
    between = "lengths must lie between 0 and num_tokens={}, got {}."
    keep_axes = "keep must be (query, key) or (batch, head, query, key), got the shape {}: add the missing axes with "
    keep_axes += "None, as in keep[:, None]."
    cases = [
        (lambda: causal_keep(-1), ValueError, "query_len must be at least 0, got -1."),
        (lambda: causal_keep(2, -3), ValueError, "key_len must be at least 0, got -3."),
        (lambda: causal_keep(2.0), TypeError, "query_len must be an integer, got 2.0 (float)."),
        (lambda: causal_keep(2, "3"), TypeError, "key_len must be an integer, got '3' (str)."),
        (lambda: causal_keep(True), TypeError, "query_len must be an integer, got True (bool)."),
        (lambda: window_keep(-1, 2, 1), ValueError, "query_len must be at least 0, got -1."),
        (lambda: window_keep(2, 2.0, 1), TypeError, "key_len must be an integer, got 2.0 (float)."),
        (lambda: window_keep(2, 2, 0), ValueError, "window must be at least 1, got 0."),
        (lambda: window_keep(2, 2, None), TypeError, "window must be an integer, got None (NoneType)."),
        (lambda: window_keep(2, 2, 1, num_sinks=-1), ValueError, "num_sinks must be at least 0, got -1."),
        (lambda: padding_keep([1], side="top"), ValueError, "side must be 'right' or 'left', got 'top'."),
        (lambda: padding_keep([[1, 2]]), ValueError, axis.format((1, 2))),
        (lambda: padding_keep(3), ValueError, axis.format(())),
        (lambda: padding_keep([]), ValueError, axis.format((0,))),
        (lambda: padding_keep([1.0, 2.0]), TypeError, whole.format("torch.float32")),
        (lambda: padding_keep([True, False]), TypeError, whole.format("torch.bool")),
        (lambda: padding_keep([1j]), TypeError, whole.format("torch.complex64")),
        (lambda: padding_keep([4, 1], 3), ValueError, between.format(3, [4, 1])),
        (lambda: padding_keep([-1, 1], 3), ValueError, between.format(3, [-1, 1])),
        (lambda: padding_keep([-1, 1]), ValueError, between.format(1, [-1, 1])),
        (lambda: padding_keep([0], 0), ValueError, "num_tokens must be at least 1, got 0."),
        (lambda: padding_keep([1], 2.0), TypeError, "num_tokens must be an integer, got 2.0 (float)."),
        (lambda: padding_keep(meta), ValueError, "lengths on the meta device hold no values: pass num_tokens."),
        (
            lambda: to_torch_mask(torch.ones(2, 2)),
            TypeError,
            "keep must be a bool tensor with True = may attend, got torch.float32.",
        ),
        (lambda: to_torch_mask([]), TypeError, "keep must be a bool tensor with True = may attend, got list."),
        (lambda: to_torch_mask(keep.expand(2, 3, 3)), ValueError, keep_axes.format((2, 3, 3))),
        (lambda: to_torch_mask(keep), ValueError, keep_axes.format((1,))),
        (
            lambda: to_torch_mask(keep.expand(2, 1, 3, 3)),
            ValueError,
            "keep of shape (2, 1, 3, 3) serves all heads of a sample: pass num_heads.",
        ),
        (
            lambda: to_torch_mask(keep.expand(2, 4, 3, 3), num_heads=5),
            ValueError,
            "keep of shape (2, 4, 3, 3) has 4 heads, but num_heads=5.",
        ),
        (
            lambda: to_torch_mask(keep.expand(2, 1, 3, 3), num_heads=0),
            ValueError,
            "num_heads must be at least 1, got 0.",
        ),
        (
            lambda: to_torch_mask(keep.expand(2, 1, 3, 3), num_heads=2.0),
            TypeError,
            "num_heads must be an integer, got 2.0 (float).",
        ),
    ]
    return [Refusal(f"masks {number}", *case) for number, case in enumerate(cases)]


CACHE_REFUSALS = append_refusals() + module_and_cache_refusals()
REFUSALS = [
    *constructor_refusals(),
    *llama_constructor_refusals(),
    *call_refusals(),
    *position_refusals(),
    *context_refusals(),
    *core_refusals(),
    *sink_refusals(),
    *rotary_refusals(),
    *mask_refusals(),
    *(
        Refusal(each.name, lambda each=each: each.call(filled_cache(each.value_dim)), each.kind, each.sentence)
        for each in CACHE_REFUSALS
    ),
]


def difference(refusal: Refusal) -> str:
    """What came instead of the refusal; empty if it came word for word."""
    try:
        refusal.call()
    except Exception as error:
        if type(error) is refusal.kind and str(error) == refusal.sentence:
            return ""
        return f"{refusal.name}: expected {refusal.kind.__name__}: {refusal.sentence}\n  got {error!r}"
    return f"{refusal.name}: not refused"


if __name__ == "__main__":
    differences = [text for text in map(difference, REFUSALS) if text]
    print(f"{len(REFUSALS)} cases, __debug__ is {__debug__}", *differences, sep="\n")
    sys.exit(len(differences))
