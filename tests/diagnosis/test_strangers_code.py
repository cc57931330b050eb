"""Designs and lines of published code: what is common there is not accused, and a mistake is pointed at where it is."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(6)

HEADS, HEAD_DIM, D = 3, 4, 12
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    """Projections of queries, keys and values, and of the result of `attend`."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.q_proj, self.k_proj, self.v_proj, self.proj = (nn.Linear(D, D) for _ in range(4))

    def split(self, x):
        parts = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        return [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts]

    def merge(self, heads):
        return self.proj(heads.transpose(1, 2).flatten(2))


# --- designs ---


class FloatNorm(nn.LayerNorm):
    def forward(self, input):
        return super().forward(input.float()).to(input.dtype)


class NormInFloat32(Base):
    def __init__(self):
        super().__init__()
        self.norm = FloatNorm(D)

    def forward(self, x):
        q, k, v = self.split(self.norm(x))
        return x + self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.slow
def test_a_norm_may_keep_its_parameters_in_float32():
    report = diagnose(NormInFloat32(), X, num_heads=HEADS)
    assert report.ok and any("its norms must stay in float32" in one for one in report.remarks), report


class Grid(Base):
    def forward(self, grid):
        q, k, v = self.split(grid.flatten(1, 2))
        heads = (q @ k.mT / 2).softmax(-1) @ v
        return self.merge(heads).view(grid.shape)


def test_a_grid_that_call_makes_is_no_fixed_length():
    x = torch.randn(2, 6, D, generator=torch.Generator().manual_seed(0))
    report = diagnose(Grid(), x, num_heads=HEADS, causal=False, call=lambda m, x: m(x.view(-1, 2, 3, D)).flatten(1, 2))
    assert report.ok, report


# --- lines ---


class Discarded(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        merged = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        self.proj(merged)  # wrong
        merged = merged.contiguous()
        merged = merged * 1.0
        return merged


class Skipped(Base):
    def forward(self, x, past=None):
        q, k, v = self.split(x)
        scores = q @ k.mT / 2
        if past is not None:  # wrong
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        return self.merge(scores.softmax(-1) @ v)


class WrongNumber(Base):
    def forward(self, x):
        scale = HEAD_DIM**-1.0  # wrong
        q, k, v = self.split(x)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (q * math.sqrt(1.0)) @ k.mT
        return self.merge((scores * scale).masked_fill(later, -torch.inf).softmax(-1) @ v)


class NoNumber(Base):
    def forward(self, x):
        scale = 1.0  # wrong
        q, k, v = self.split(x)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.merge((q @ k.mT * scale).masked_fill(later, -torch.inf).softmax(-1) @ v)


def attend(query, key, value):
    scores = query @ key.mT / 2
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ value


class Passed(Base):
    def forward(self, x):
        query, _, value = self.split(x)
        return self.merge(attend(query, value, value))  # wrong


class Renamed(Base):
    def forward(self, x):
        query, key, value = self.split(x)
        value = key  # wrong
        query = query.contiguous()
        return self.merge(attend(query, key, value))


class FusedGroups(nn.Module):
    """One projection of four heads of queries and of two heads of keys and values each, as in Falcon and Phi."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.qkv, self.proj = nn.Linear(D, 8 * HEAD_DIM), nn.Linear(4 * HEAD_DIM, D)

    def forward(self, x):
        parts = self.qkv(x).unflatten(-1, (8, HEAD_DIM)).transpose(1, 2)
        q, k, v = parts.split((4, 2, 2), dim=1)
        k, v = k.repeat_interleave(2, 1), self.of(k, v).repeat_interleave(2, 1)
        return self.proj(attend(q, k, v).transpose(1, 2).flatten(2))

    def of(self, k, v):
        return v


class FusedReused(FusedGroups):
    def of(self, k, v):
        return k


def test_one_projection_of_groups_is_examined_and_its_reused_part_named():
    assert diagnose(FusedGroups(), X, num_heads=4).ok
    report = diagnose(FusedReused(), X, num_heads=4)
    assert report.mistakes[:1] == ("projection-reused",), report


@pytest.mark.parametrize(
    ("code", "mistake"),
    [
        (Discarded(), "output-projection-missing"),
        (Skipped(), "no-causal-mask"),
        (WrongNumber(), "wrong-scale"),
        (NoNumber(), "missing-scale"),
        (Passed(), "scores-from-values"),
        (Renamed(), "projection-reused"),
    ],
)
def test_the_line_is_where_the_mistake_was_made(code, mistake):
    report = diagnose(code, X, num_heads=HEADS)
    assert report.mistakes[:1] == (mistake,), report
    assert report.findings[0].source.endswith("# wrong"), report


class Window(Base):
    def __init__(self, ahead):
        super().__init__()
        self.ahead = ahead

    def forward(self, x):
        q, k, v = self.split(x)
        at = torch.arange(x.shape[1], device=x.device)
        keep = at[None] <= at[:, None] + self.ahead
        keep = keep & (at[None] > at[:, None] - 3)
        return self.merge((q @ k.mT / 2).masked_fill(~keep, -torch.inf).softmax(-1) @ v)


def test_one_step_too_far_is_named_inside_a_window():
    keep = torch.ones(5, 5, dtype=torch.bool).tril().triu(-2)
    assert diagnose(Window(0), X, num_heads=HEADS, keep=keep).ok
    report = diagnose(Window(1), X, num_heads=HEADS, keep=keep)
    assert report.mistakes == ("mask-off-by-one",) and "self.ahead" in report.findings[0].source, report


def checkpointed(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)  # not the author's mistake

    return wrapper


class Wrapped(Discarded):
    @checkpointed
    def forward(self, x):
        q, k, v = self.split(x)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)  # wrong


def test_a_wrapper_is_not_blamed():
    report = diagnose(Wrapped(), X, num_heads=HEADS)
    assert report.mistakes == ("output-projection-missing",) and report.findings[0].source.endswith("# wrong"), report


# --- what a third set of published code showed ---


class OneValue(Base):
    """Heads with queries and keys of their own and one value: their results are averaged, to be interpreted."""

    def __init__(self):
        super().__init__()
        self.v_proj, self.proj = nn.Linear(D, HEAD_DIM), nn.Linear(HEAD_DIM, D)

    def forward(self, x):
        q, k = (p(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj))
        v = self.v_proj(x)[:, None].expand(-1, HEADS, -1, -1)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).mean(1))


def test_heads_with_one_value_may_be_averaged():
    report = diagnose(OneValue(), X, num_heads=HEADS)
    assert report.ok, report
    assert "averaged" in str(report)


class AveragedBeforeNorm(Base):
    """Averaged heads, and a norm over the tokens behind them, which removes what all tokens have in common."""

    def __init__(self):
        super().__init__()
        self.proj, self.norm = nn.Linear(HEAD_DIM, D), nn.InstanceNorm1d(D)

    def forward(self, x):
        q, k, v = self.split(x)
        heads = F.scaled_dot_product_attention(q, k, v)
        return self.norm((x + self.proj(heads.mean(1))).mT).mT  # wrong


def test_averaged_heads_are_found_before_a_norm_over_the_tokens():
    report = diagnose(AveragedBeforeNorm(), X, causal=False, num_heads=HEADS)
    assert report.mistakes == ("heads-averaged",) and report.findings[0].where in marked(AveragedBeforeNorm), report


# --- norms of queries and keys ---


class Factors(Base):
    """Queries and keys of length 1, times learned factors, as in MaskGIT and Muse."""

    def __init__(self):
        super().__init__()
        self.q_scale, self.k_scale = (nn.Parameter(torch.rand(HEAD_DIM) + 1) for _ in range(2))

    def forward(self, x):
        q, k, v = self.split(x)
        q, k = F.normalize(q, dim=-1) * self.q_scale, F.normalize(k, dim=-1) * self.k_scale
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=8.0))


class FactorForgotten(Base):
    def __init__(self):
        super().__init__()
        self.q_scale, self.k_scale = (nn.Parameter(torch.rand(HEAD_DIM) + 1) for _ in range(2))

    def forward(self, x):
        q, k, v = self.split(x)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1) * self.k_scale
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=8.0))


def test_learned_factors_of_queries_or_keys_that_are_never_used_are_named():
    assert diagnose(Factors(), X, num_heads=HEADS, scale=8.0).ok
    report = diagnose(FactorForgotten(), X, num_heads=HEADS, scale=8.0)
    assert report.mistakes == ("dead-parameter",) and "`q_scale` is never used" in report.findings[0].evidence, report


# --- keys and values through one more layer ---


class Pooled(Base):
    """Computes a vector of the first token, as BERT's models do, which the caller does not take."""

    def __init__(self, of_first=True):
        super().__init__()
        self.pooler, self.of_first = nn.Linear(D, D), of_first

    def forward(self, x):
        q, k, v = self.split(x)
        output = self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        pooled = self.pooler(output[:, 0] if self.of_first else output).tanh()
        return (output, pooled) if self.of_first else output


def test_a_pooler_that_nobody_asks_for_is_no_dead_parameter():
    assert diagnose(Pooled(), X, num_heads=HEADS).ok
    assert diagnose(Pooled(of_first=False), X, num_heads=HEADS).mistakes == ("dead-parameter",)


class PlacedValues(Base):
    """Learned positions are added to keys and values, as in models that recommend the next purchase."""

    def __init__(self):
        super().__init__()
        self.of_keys, self.of_values = (nn.Parameter(torch.randn(16, D)) for _ in range(2))

    def forward(self, x):
        tokens = x.shape[1]
        parts = self.q_proj(x), self.k_proj(x) + self.of_keys[:tokens], self.v_proj(x) + self.of_values[:tokens]
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_positions_that_are_added_to_values_are_no_rotation():
    report = diagnose(PlacedValues(), X, num_heads=HEADS)
    assert report.ok, report
    assert "something that differs from position to position is added to the values" in report.remarks


class EdgesInScores(Base):
    """The products of a query's and a key's elements are multiplied with features of the pair before the sum."""

    pinned = False

    def forward(self, x):
        q, k, v = self.split(x)
        places = torch.arange(x.shape[1], device=x.device)
        pairs = torch.cos(places[:, None, None] - places[:, None] + torch.arange(HEAD_DIM, device=x.device))
        pairs = pairs if self.pinned else pairs.to(x.dtype)
        scores = (q[:, :, :, None] * k[:, :, None] * pairs).sum(-1) * HEAD_DIM**-0.5
        return self.merge(scores.softmax(-1) @ v)


def test_the_reason_why_code_was_not_examined_is_given_beside_a_dtype_that_it_forces():
    code = EdgesInScores()
    code.pinned = True
    report = diagnose(code, X, causal=False, num_heads=HEADS)
    assert report.mistakes == ("dtype-pinned", None), report
    assert "its scores are no dot products" in report.findings[1].title


class Biased(Base):
    """A matrix that the constructor makes and fills is added to the queries."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.empty(HEADS, HEAD_DIM))
        nn.init.normal_(self.shift)

    def queries(self, q):
        return q + self.shift[:, None]

    def forward(self, x):
        q, k, v = self.split(x)
        scores = self.queries(q) @ k.mT / math.sqrt(HEAD_DIM)
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        return self.merge(scores.masked_fill(later, -torch.inf).softmax(-1) @ v)


class BiasForgotten(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.shift = nn.Parameter(torch.empty(HEADS, HEAD_DIM))
        nn.init.normal_(self.shift)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        return self.proj((scores.masked_fill(later, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2))


class PreparedByTrain(Biased):
    """What is added to the queries is computed once, when evaluation begins."""

    def train(self, mode=True):
        super().train(mode)
        self.prepared = None if mode else 2 * self.shift
        return self

    def queries(self, q):
        return q + (2 * self.shift if self.training else self.prepared)[:, None]


class PreparedInVain(BiasForgotten):
    def train(self, mode=True):
        super().train(mode)
        self.prepared = None if mode else 2 * self.shift
        return self


def test_a_matrix_that_train_prepares_for_nobody_is_dead():
    assert diagnose(PreparedByTrain().eval(), X, num_heads=HEADS).ok
    assert diagnose(PreparedInVain().eval(), X, num_heads=HEADS).mistakes == ("dead-parameter",)


class Beside(Base):
    """Two attentions beside each other, whose results are added."""

    def __init__(self, scale=0.5):
        super().__init__()
        self.other, self.scale = nn.Linear(D, 3 * D), scale

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.other(x).chunk(3, -1))
        heads = F.scaled_dot_product_attention(*self.split(x), is_causal=True, scale=self.scale)
        return self.merge(heads + F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale))


def test_attentions_whose_results_are_added_each_have_their_heads():
    assert diagnose(Beside(), X, num_heads=HEADS, num_kv_heads=HEADS).ok
    assert diagnose(Beside(), X, num_heads=HEADS - 1).mistakes == (None,)
    assert diagnose(Beside(1.0), X, num_heads=HEADS).mistakes == ("missing-scale",)


# --- what is made in the constructor ---


class TokensFirst(Base):
    """x is (token, batch, width), and a step takes the keys and values of the steps before."""

    def forward(self, x, past=None):
        x = x.transpose(0, 1)
        q, k, v = self.split(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.merge(F.scaled_dot_product_attention(q, k, v)).transpose(0, 1), (k, v)


def steps(module, x):
    past, found = None, []
    for part in x.transpose(0, 1).split(1):
        out, past = module(part, past)
        found.append(out)
    return torch.cat(found).transpose(0, 1)


def test_steps_with_the_tokens_on_the_first_axis_are_not_compared_with_one_pass():
    report = diagnose(TokensFirst(), X, num_heads=HEADS, call=steps)
    assert report.ok and "not compared with one pass" in str(report), report


class OneWidth(nn.Module):
    """Keeps the width of x up to the projection `out`, which makes `width`."""

    def __init__(self, dim, heads=HEADS, bias=True, *, width):
        super().__init__()
        torch.manual_seed(1)
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(dim, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class HalfAsWide(OneWidth):
    def __init__(self, dim, heads=HEADS):
        super().__init__(dim, heads, width=dim // 2)


def test_an_output_projection_of_a_width_that_no_argument_says_is_wrong():
    report = diagnose(HalfAsWide(D), X, num_heads=HEADS)
    assert report.mistakes == ("output-projection-shape",), report
    assert f"come out {D // 2} wide" in report.findings[0].evidence
