"""`course doctor` and `course scan` give the same exit status for the same thing, as the page's table says."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from course_lib.scan import scan
from tests.diagnosis.cached_code import CONVENTIONS, HEADS, WIDTH, Checked, Objects, Returned

pytestmark = pytest.mark.one_in(5)

X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(3))


class Attention(nn.Module):
    """Causal attention with a scale, a window, or a softmax along a wrong axis."""

    def __init__(self, scale=0.5, window=99, axis=-1, learned=False):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale, self.window, self.axis = scale, window, axis
        self.factor = nn.Parameter(torch.tensor(2.0)) if learned else None

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * (self.scale if self.factor is None else self.factor)
        ones = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        hidden = ones.triu(1) | ones.tril(-self.window)
        weights = scores.masked_fill(hidden, -1e9).softmax(self.axis)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Linear(nn.Module):
    """Attention without weights of tokens."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        states = (k.exp()[..., None] * v[..., None, :]).cumsum(1)
        return (q.softmax(-1)[..., None, :] @ states)[..., 0, :]


class Unread(Attention):
    """A mask that no line reads."""

    def forward(self, x, padding_mask=None):
        return super().forward(x)


class Kept(nn.Module):
    """It keeps its cache in itself, if it is asked to, and begins anew only if it is told."""

    def __init__(self):
        super().__init__()
        self.qkv, self.past = nn.Linear(WIDTH, 3 * WIDTH), None

    def reset(self):
        self.past = None

    def forward(self, x, use_cache=False):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if use_cache:
            if self.past is not None:
                k, v = torch.cat([self.past[0], k], 2), torch.cat([self.past[1], v], 2)
            self.past = k, v
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).triu(k.shape[2] - q.shape[2] + 1)
        weights = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, -torch.inf).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class WholeMask(nn.Module):
    """A mask that is added to the scores takes the place of the causal one."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if attention_mask is None:
            lowest = torch.finfo(x.dtype).min
            attention_mask = torch.full((x.shape[1], x.shape[1]), lowest, dtype=x.dtype, device=x.device).triu(1)
        weights = (q @ k.mT * q.shape[-1] ** -0.5 + attention_mask).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


class Refusing(Returned):
    """It says that it takes one token at a time with its cache."""

    def forward(self, x, state=None):
        if state is not None and x.shape[1] > 1:
            raise ValueError("with a state, give one token at a time")
        return super().forward(x, state)


class Failing(Returned):
    """It is not meant to fail with several tokens and a cache."""

    def forward(self, x, state=None):
        if state is not None:
            x = x.view(len(x), 1, WIDTH)
        return super().forward(x, state)


CASES = {
    "right": (Attention, (), {}, 0),
    "another scale": (Attention, (0.3,), {}, 1),
    "another scale, as meant": (Attention, (0.3,), {"scale": 0.3}, 0),
    "no scale": (Attention, (1.0,), {}, 1),
    "a window, as meant": (Attention, (0.5, 3), {"window": 3}, 0),
    "softmax over the heads": (Attention, (0.5, 99, 1), {}, 1),
    "a learned scale, which is not judged": (Attention, (0.5, 99, -1, True), {}, 0),
    "a mask that no line reads": (Unread, (), {}, 1),
    "no weights that could be examined": (Linear, (), {}, 2),
    "a cache that nobody can make": (Checked, (), {}, 2),
    "a cache that is kept in the module": (Kept, (), {}, 0),
    "a mask in place of the causal one": (WholeMask, (), {}, 0),
    "a cache that refuses several tokens at once": (Refusing, (), {}, 0),
    "a cache that fails with several tokens at once": (Failing, (), {}, 2),
    "a cache that is wrong": (Returned, ("top left",), {}, 1),
    **{f"a right cache, {kind.__name__}": (kind, (), {}, 0) for kind in CONVENTIONS if kind is not Objects},
}


@pytest.mark.parametrize("name", CASES)
def test_the_doctor_and_the_scan_agree(name):
    kind, given, told, status = CASES[name]
    torch.manual_seed(0)
    module = kind(*given)
    assert diagnose(module, X, **told).exit_status == status
    report = scan(module, X, **told)
    assert report.exit_status == status, report


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("mistake", ["", "top left"])
def test_a_cache_that_is_returned_is_handed_to_the_next_piece(mistake, made):
    """Also where the caller makes an empty one for the first piece."""

    def make_cache(x):
        return 2 * (x.new_zeros(len(x), HEADS, 0, WIDTH // HEADS),)

    torch.manual_seed(0)
    report = scan(Returned(mistake), X, make_cache=make_cache if made else None)
    assert [outcome.path for outcome in report.wrong if outcome.mistake == "paths-differ"] == (
        ["in chunks", "token by token"] if mistake else []
    )
    assert report.exit_status == bool(mistake), report


def test_a_cache_that_must_be_made_is_named_with_both_names_of_what_makes_it():
    torch.manual_seed(0)
    (outcome,) = scan(Checked(), X, paths=["token by token"]).outcomes
    assert outcome.status == "not examined"
    assert outcome.detail == "its cache `memory` must be made: give `make_cache`, on the command line `--cache`"


class ComplexTable(nn.Module):
    """Rotary positions of neighbouring pairs, multiplied as complex numbers from a buffer."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        angles = torch.outer(torch.arange(32.0), 10.0 ** -torch.arange(2.0))
        self.register_buffer("table", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def turned(self, x):
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * self.table[: x.shape[2]]).flatten(-2).type_as(x)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return y.transpose(1, 2).flatten(2)


def test_a_complex_table_stays_complex_in_every_dtype():
    torch.manual_seed(0)
    report = scan(ComplexTable(), X)
    assert (report.exit_status, report.findings) == (0, ()), report
    assert all(outcome.status == "agrees" for outcome in report.outcomes if outcome.path in ("float32", "bfloat16"))
