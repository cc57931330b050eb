"""Plain data and tensors come out of the sandbox as they went in; a forged message raises ProtocolError."""

import json
import math
import random
import struct

import pytest
import torch
from torch import nn

from course_grader.sandbox.guest.messages import (
    HEADER,
    MAX_DEPTH,
    MAX_FRAME,
    MAX_PARTS,
    MAX_TEXT,
    ModuleState,
    OpaqueValue,
    ProtocolError,
    pack,
    unpack,
)
from course_lib.exercises import FromSource


def through(message):
    """What the other side gets."""
    frame = pack(message)
    text, blob = HEADER.unpack(frame[: HEADER.size])
    assert len(frame) == HEADER.size + text + blob
    return unpack(frame[HEADER.size : HEADER.size + text], frame[HEADER.size + text :])


PLAIN = [
    None, True, 0, -(2**62), 2**63 - 1, 0.1, math.inf, "", "words \U0001f600", [], (), {}, set(), [1, (2, [3.0])],
    {1: "a", (2, 3): {"b": [None]}}, {1, 2}, [True, 1, 1.0], (torch.float32 is None,),
]  # fmt: skip


@pytest.mark.parametrize("message", PLAIN, ids=repr)
def test_plain_data(message):
    got = through(message)
    assert got == message and type(got) is type(message) and repr(got) == repr(message)


def test_what_json_does_not_know():
    assert math.isnan(through(math.nan))
    assert (
        through(2**63) == OpaqueValue("int")
        and through(1j) == OpaqueValue("complex")
        and through(print).kind == "builtin_function_or_method"
    )
    assert through("x\ud800y") == "x?y"  # half a pair can't be written to a page
    assert through({"a": frozenset({1})}) == {"a": {1}}
    assert through([range(3, 9, 2), range(10**9)]) == [range(3, 9, 2), OpaqueValue("range")]
    assert len(through("x" * (MAX_TEXT + 1))) == MAX_TEXT


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (2, 3)], ids=str)
def test_tensors(dtype, shape):
    tensor = (torch.arange(math.prod(shape)) % 2).reshape(shape).to(dtype)
    got = through(tensor)
    assert type(got) is torch.Tensor and got.dtype == dtype and got.shape == shape and torch.equal(got, tensor)


def test_tensors_that_are_views():
    """What is not stored in a row, or shares its memory, comes out as a tensor of its own."""
    x = torch.arange(6.0).view(2, 3)
    wide = torch.arange(3.0).expand(4, 3)
    learned = nn.Parameter(x.clone())
    odd = (learned * 2).transpose(0, 1)
    got = through([x, x.T, x[:, 1:], wide, learned, odd, x])
    for tensor, other in zip(got, [x, x.T, x[:, 1:], wide, learned, odd, x], strict=True):
        assert type(tensor) is torch.Tensor and not tensor.requires_grad and torch.equal(tensor, other)
    got[0].zero_()
    assert torch.equal(got[6], x) and torch.equal(got[1], x.T)


class Sly(torch.Tensor):
    """A tensor that is what it likes."""


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(2, dtype=torch.complex64), torch.zeros(2, device="meta"), torch.eye(2).to_sparse()],
    ids=["complex", "meta", "sparse"],
)
def test_tensors_without_indices(tensor):
    assert isinstance(through(tensor), OpaqueValue) and "tensor on" in through(tensor).kind


@pytest.mark.parametrize("ends", [[0, 10**9, 1], [0, 3.0, 1], ["3"], 3, [1, 2, 0], [1, 2, 3, 4]])
def test_a_forged_range_is_refused(ends):
    refused({"range": ends}, words="a range|can't be read")


def test_things_with_parts():
    linear = nn.Linear(3, 2)
    parts = through([linear])[0]
    assert isinstance(parts, ModuleState) and parts.kind == "Linear" and set(parts.state) == {"weight", "bias"}
    assert torch.equal(parts.state["weight"], linear.weight)
    made = through(FromSource("def make(size): return [size]", "make", (3, torch.ones(2))))
    assert made.build() == [3] if len(made.arguments) == 1 else made.name == "make"
    assert FromSource(made.source, made.name, made.arguments[:1]).build() == [3]
    assert type(through(torch.ones(2).as_subclass(Sly))) is torch.Tensor


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (deep(MAX_DEPTH + 1), "a result with too many levels or parts"),
        ([0] * (MAX_PARTS + 1), "a result with too many parts"),
        (torch.empty(MAX_FRAME + 1, dtype=torch.int8), "a tensor that is larger than a message may be"),
        ([torch.empty(MAX_FRAME // 2, dtype=torch.int8)] * 2, "bytes are more than a message may have"),
        (["x" * MAX_TEXT] * 5, "bytes are more than a message may have"),
    ],
    ids=["deep", "many", "a large tensor", "large tensors", "long"],
)
def test_what_is_too_much(message, words):
    with pytest.raises(ProtocolError, match=words):
        pack(message)


def test_the_deepest_comes_through():
    assert through(deep(MAX_DEPTH)) == deep(MAX_DEPTH)


def refused(text, blob=b"", words="a message"):
    with pytest.raises(ProtocolError, match=words):
        unpack(text if isinstance(text, bytes) else json.dumps(text).encode(), blob)


ONE = {"tensor": ["float32", [1]]}
FOUR = bytes(16)  # room for four elements


@pytest.mark.parametrize(
    ("text", "blob"),
    [
        (b"", b""), (b"{", b""), (b"\xff\xfe", b""), (b"[1]", b""), ({}, b""), ({"list": 1}, b""),
        ({"list": [[1]]}, b""), ({"dict": [[1]]}, b""), ({"dict": [[{"list": []}, 1]]}, b""),
        ({"set": [{"list": []}]}, b""), ({"list": [], "set": []}, b""), ({"eval": "1"}, b""),
        ({"tensor": "0"}, b""), ({"tensor": ["0"]}, b""), ({"tensor": {}}, b""),
        ({"made": ["a"]}, b""), ({"made": ["a", "b", 3]}, b""), ({"module": ["a", []]}, b""),
        (b'{"list": [' * 10**5, b""), (b"9" * 10**5, b""), (b'{"list":[' * 40 + b"1" + b"]}" * 40, b""),
        (ONE, b""), (ONE, b"abc"), (ONE, FOUR * 2), ({"list": [ONE, ONE]}, FOUR), (b"1", FOUR),
        ({"tensor": ["float33", [1]]}, FOUR), ({"tensor": ["Tensor", [1]]}, FOUR), ({"tensor": ["uint16", [1]]}, FOUR),
        ({"tensor": ["float32", [-1]]}, FOUR), ({"tensor": ["float32", [-1, -1]]}, FOUR),
        ({"tensor": ["float32", [2**40, 2**40]]}, FOUR), ({"tensor": ["float32", [True]]}, FOUR),
        ({"tensor": ["float32", [1.0]]}, FOUR), ({"tensor": ["float32", 1]}, FOUR), ({"tensor": ["float32"]}, FOUR),
        ({"tensor": [["float32"], [1]]}, FOUR), ({"tensor": ["float32", [1] * 65]}, FOUR),
        ({"tensor": ["float32", [2**62, 2**62, 0]]}, b""), ({"tensor": ["float32", [5]]}, FOUR),
    ],
)  # fmt: skip
def test_forged_messages(text, blob):
    refused(text, blob)


@pytest.mark.slow
def test_tensors_without_end():
    """A message holds no more tensors than parts: a million empty ones would fill the memory here."""
    empty = {"tensor": ["bool", [0]]}
    assert len(unpack(json.dumps({"list": [empty] * MAX_PARTS}).encode(), b"")) == MAX_PARTS
    refused({"list": [empty] * (MAX_PARTS + 1)})


def test_a_byte_that_is_no_bool():
    """Any byte but 0 is True: PyTorch does not define what a bool of the byte 2 is."""
    got = unpack(json.dumps({"tensor": ["bool", [3]]}).encode(), bytes([0, 1, 2]) + bytes(13))
    assert got.tolist() == [False, True, True] and torch.equal(got, torch.tensor([False, True, True]))


def test_mutated_frames():
    """Frames with bytes changed, cut and put in: a message comes out, or ProtocolError, never anything else."""
    draw = random.Random(7)
    good = [
        pack({"dict": [1, (2.5, "x")], 3: {4}}),
        pack([torch.arange(6.0).view(2, 3), torch.tensor(True)]),
        pack({"result": nn.Linear(2, 2), "made": FromSource("a", "b", (1,))}),
    ]
    outcomes = {"message": 0, "broken": 0}
    for _ in range(3000):
        frame = bytearray(draw.choice(good))
        head, *_ = HEADER.unpack(frame[: HEADER.size])
        text, blob = frame[HEADER.size : HEADER.size + head], frame[HEADER.size + head :]
        for _ in range(draw.randint(1, 3)):
            part = draw.choice([text, blob] if blob else [text])
            at = draw.randrange(len(part)) if part else 0
            change = draw.choice(["set", "cut", "put", "swap"])
            if change == "set" and part:
                part[at] = draw.randrange(256)
            elif change == "cut":
                del part[at : at + draw.randint(1, 4)]
            elif change == "put":
                part[at:at] = draw.choice([b"{", b"]", b'"', b"9", b"\xff\xff", b"null", b'{"tensor":["bool",[1]]}'])
            elif part:
                other = draw.randrange(len(part))
                part[at], part[other] = part[other], part[at]
        try:
            unpack(bytes(text), bytes(blob))
            outcomes["message"] += 1
        except ProtocolError:
            outcomes["broken"] += 1
    assert min(outcomes.values()) > 50, outcomes


def test_a_frame_says_nothing_but_lengths():
    """The format is pinned: both ends may have different versions of Python and torch."""
    frame = pack({"x": torch.full((1,), 1.5)})
    text, blob = HEADER.unpack(frame[:8])
    assert json.loads(frame[8 : 8 + text]) == {"dict": [["x", {"tensor": ["float32", [1]]}]]}
    assert frame[8 + text :] == struct.pack("<f", 1.5) + bytes(12) and blob == 16
