"""Every refusal of course_lib.attention: what is called, which exception comes, and its whole sentence.

Run as a script (`python -O error_cases.py`) it prints the cases that are not refused so, and exits with their number.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import torch

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
    attend,
    attend_fused,
    causal_keep,
    padding_keep,
    to_torch_mask,
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
            add(form, {size: 2.0}, TypeError, f"{size} must be a whole number, got 2.0 (float).")
            add(form, {size: True}, TypeError, f"{size} must be a whole number, got True (bool).")
            add(form, {size: "2"}, TypeError, f"{size} must be a whole number, got '2' (str).")
        add(form, {"d_in": None}, TypeError, "d_in must be a whole number, got None (NoneType).")
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
        both = f"d_out=10 {cut}: choose d_out=8 or 12, or give d_qk and d_v."
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


# --- calls of a module ---

BATCH, TOKENS, HEADS = 5, 7, 3
MODULES = {
    "single head": lambda: SingleHeadAttention(6, 4),
    "wrapper": lambda: MultiHeadAttentionWrapper(6, 12, HEADS),
    "split": lambda: MultiHeadAttention(6, 12, HEADS),
    "fused": lambda: MultiHeadAttention(6, 12, HEADS, kernel="fused"),
    "multi-query": lambda: MultiQueryAttention(6, 12, HEADS),
    "grouped": lambda: GroupedQueryAttention(6, 12, HEADS, 1),
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

        def add(name, kind, sentence, x=x, *, form=form, make=make, **options):
            found.append(Refusal(f"{form}, {name}", lambda: make()(x, **options), kind, sentence))

        add("x a list", TypeError, "x must be a tensor, got list: wrap it with torch.tensor(x).", [[1.0]])
        axes = "x must be (batch, token, width), got the shape {}: {}."
        add("x of 2 axes", ValueError, axes.format((7, 6), "add the batch axis with x[None]"), x[0])
        add("x of 1 axis", ValueError, axes.format((6,), "bring it to three axes"), x[0, 0])
        add("x of 4 axes", ValueError, axes.format((1, 5, 7, 6), "bring it to three axes"), x[None])
        add(
            "x of another width",
            ValueError,
            "x has the width 7 (shape (5, 6, 7)), but the module was built with d_in=6: build it with d_in=7, or "
            "check the order of x's axes.",
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
            (5, 7): ": it looks like one row a sample, so write keep[:, None, None]",
            (5, 7, 7): ": it looks like one mask a sample, so write keep[:, None]",
            (5, 1, 7): ": it looks like one mask a sample, so write keep[:, None]",
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
                "keep of shape (3, 7, 7) could be one mask a sample or one a head, since batch and heads are both 3: "
                "write keep[:, None] for samples or keep[None] for heads.",
                x[:3],
                keep=keep.expand(3, 7, 7),
            )
    found.append(
        Refusal(
            "weights of the fused kernel",
            lambda: MODULES["fused"]()(x, return_weights=True),
            ValueError,
            "return_weights=True needs kernel='explicit': the fused kernel never forms the weights.",
        )
    )
    return found


# --- attend and attend_fused ---


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
                dtype = f"{name} are torch.float64, but queries are torch.float32: bring them to one dtype."
                add(f"{name} float64", TypeError, dtype, *given(own.double()))
                device = f"{name} are on meta, but queries are on cpu: move them."
                add(f"{name} on meta", ValueError, device, *given(own.to("meta")))
        dtype = "keys are torch.float32, but queries are torch.float64: bring them to one dtype."
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
        share = "{} query heads can't share {} key and value heads evenly: the number of query heads must be a "
        share += "multiple of it."
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
            (2, 7): ": it looks like one row a sample, so write keep[:, None, None]",
            (2, 4, 7): ": it looks like one mask a sample, so write keep[:, None]",
            (2, 1, 7): ": it looks like one mask a sample, so write keep[:, None]",
            (2, 3, 4, 7): "",
            (0, 7): "",
        }.items():
            add_mask(f"keep {shape}", ValueError, wrong.format(shape, remedy), ones.bool().expand(shape))
        rank = "keep has 5 axes, shape (1, 2, 6, 4, 7): it must broadcast to (batch, head, query, key) = (2, 6, 4, 7)."
        add_mask("keep of 5 axes", ValueError, rank, ones.bool().expand(1, 2, 6, 4, 7))
        both = "keep of shape (2, 4, 7) could be one mask a sample or one a head, since batch and heads are both 2: "
        both += "write keep[:, None] for samples or keep[None] for heads."
        two_heads = (queries[:, :2], keys[:, :1], values[:, :1], ones.bool().expand(2, 4, 7))
        add("batch == heads", ValueError, both, *two_heads)
        for dropout in (1.0, -0.5):
            sentence = f"dropout_p must be at least 0 and less than 1, got {dropout}."
            add(f"dropout_p {dropout}", ValueError, sentence, queries, keys, values, None, dropout)
        text = "dropout_p must be a number, got 'half' (str)."
        add("dropout_p a word", TypeError, text, queries, keys, values, None, "half")
    return found


# --- masks ---


def mask_refusals() -> list[Refusal]:
    """Arguments that no mask can be made from."""
    meta = torch.tensor([1, 2], device="meta")
    keep = torch.ones(1, dtype=torch.bool)
    whole = "lengths must be whole numbers, got {}: from a 0/1 mask of real tokens they are mask.sum(-1)."
    axis = "lengths must be (batch,), one number a sample, got the shape {}."
    between = "lengths must lie between 0 and num_tokens={}, got {}."
    keep_axes = "keep must be (query, key) or (batch, head, query, key), got the shape {}: add the missing axes with "
    keep_axes += "None, as in keep[:, None]."
    cases = [
        (lambda: causal_keep(-1), ValueError, "query_len must be at least 0, got -1."),
        (lambda: causal_keep(2, -3), ValueError, "key_len must be at least 0, got -3."),
        (lambda: causal_keep(2.0), TypeError, "query_len must be a whole number, got 2.0 (float)."),
        (lambda: causal_keep(2, "3"), TypeError, "key_len must be a whole number, got '3' (str)."),
        (lambda: causal_keep(True), TypeError, "query_len must be a whole number, got True (bool)."),
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
        (lambda: padding_keep([1], 2.0), TypeError, "num_tokens must be a whole number, got 2.0 (float)."),
        (lambda: padding_keep(meta), ValueError, "lengths on the meta device hold no numbers: give num_tokens."),
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
            "keep of shape (2, 1, 3, 3) serves all heads of a sample: give num_heads.",
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
            "num_heads must be a whole number, got 2.0 (float).",
        ),
    ]
    return [Refusal(f"masks {number}", *case) for number, case in enumerate(cases)]


REFUSALS = constructor_refusals() + call_refusals() + core_refusals() + mask_refusals()


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
