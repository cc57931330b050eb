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


class Wide(nn.Module):
    """Heads that are wider together than x, with a width of the output that need not be given."""

    def __init__(self, dim, dim_head=5, dim_out=None):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.out = nn.Linear(dim, 3 * HEADS * dim_head), nn.Linear(HEADS * dim_head, dim_out or dim)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def test_heads_may_be_wider_than_x():
    assert diagnose(Wide(D), X, num_heads=HEADS).ok


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


def test_a_norm_may_keep_its_parameters_in_float32():
    report = diagnose(NormInFloat32(), X, num_heads=HEADS)
    assert report.ok and any("its norms must stay in float32" in one for one in report.remarks), report


class Reduced(Base):
    """Keys and values are made of two neighbours each; queries of one token or, as in CvT, of the same two."""

    def __init__(self, queries):
        super().__init__()
        self.queries = queries

    def forward(self, x):
        fewer = x.unflatten(1, (-1, 2)).mean(2)
        q = self.split(fewer if self.queries else x)[0]
        _, k, v = self.split(fewer)
        heads = (q @ k.mT / 2).softmax(-1) @ v
        return self.merge(heads.repeat_interleave(2, 2) if self.queries else heads)


@pytest.mark.parametrize("queries", [False, True], ids=["keys", "queries and keys"])
def test_reduced_tokens_are_examined_or_named_and_not_accused(queries):
    report = diagnose(Reduced(queries), torch.cat([X, X[:, :3]], 1), num_heads=HEADS, causal=False)
    if queries:
        assert report.exit_status == 2 and "reduced tokens" in report.findings[0].title, report
    else:
        assert report.ok and "8 tokens and a context of 4" in str(report), report


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


class Returning(Base):
    """Overrides `train` without returning itself, and makes a table anew for evaluation."""

    def train(self, mode=True):
        super().train(mode)
        self.table = self.proj.weight[:1, :1].detach().clone()

    def forward(self, x):
        q, k, v = self.split(x)
        return self.merge(F.scaled_dot_product_attention(q, k, v) * self.table.abs().clamp(1, 1))


def test_code_whose_train_returns_nothing_is_examined():
    report = diagnose(Returning(), X, num_heads=HEADS, causal=False)
    assert report.ok, report


ANGLES = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))
POSITIONS = torch.polar(torch.ones_like(ANGLES), ANGLES)


def rotated(q, k, positions):
    pairs = [torch.view_as_complex(t.float().unflatten(-1, (-1, 2))) for t in (q, k)]
    return [torch.view_as_real(t * positions[: t.shape[-2]]).flatten(-2).type_as(q) for t in pairs]


class ComplexPositions(Base):
    apply = True

    def forward(self, x, positions):
        q, k, v = self.split(x)
        if self.apply:
            q, k = rotated(q, k, positions)
        else:
            rotated(q, k, positions)  # wrong
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class PositionsThrownAway(ComplexPositions):
    apply = False


def test_given_complex_positions_that_are_thrown_away():
    call = lambda m, x: m(x, POSITIONS)  # noqa: E731
    assert diagnose(ComplexPositions(), X, num_heads=HEADS, call=call, lengths=[5]).ok
    report = diagnose(PositionsThrownAway(), X, num_heads=HEADS, call=call, lengths=[5])
    assert report.mistakes == ("rotary-unused",), report
    assert report.findings[0].where in marked(ComplexPositions), report


class EmptyRest(Base):
    """Rotates all of each head, so that the part that passes as it is has no elements; wrongly the values, too."""

    def rotate(self, t):
        first, rest = t[..., :HEAD_DIM], t[..., HEAD_DIM:]
        angles = torch.outer(torch.arange(t.shape[-2], dtype=t.dtype), torch.tensor([1.0, 0.1], dtype=t.dtype))
        angles = torch.cat((angles, angles), dim=-1)
        a, b = first.chunk(2, dim=-1)
        return torch.cat((first * angles.cos() + torch.cat((-b, a), dim=-1) * angles.sin(), rest), dim=-1)

    def forward(self, x):
        q, k, v = map(self.rotate, self.split(x))
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_rotated_values_are_found_beside_an_empty_rest():
    assert "rotary-on-values" in diagnose(EmptyRest(), X, num_heads=HEADS).mistakes


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


class WithNorms(Base):
    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = nn.LayerNorm(HEAD_DIM), nn.LayerNorm(HEAD_DIM)

    def attended(self, q, k, v):
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class Normed(WithNorms):
    def forward(self, x):
        q, k, v = self.split(x)
        return self.attended(self.q_norm(q), self.k_norm(k), v)


class KeysNormTwice(WithNorms):
    def forward(self, x):
        q, k, v = self.split(x)
        q = self.k_norm(q)  # wrong
        k = self.k_norm(k)
        return self.attended(q, k, v)


class QueriesNormTwice(WithNorms):
    def forward(self, x):
        q, k, v = self.split(x)
        q = self.q_norm(q)
        k = self.q_norm(k)  # wrong
        return self.attended(q, k, v)


class WithoutKeysNorm(WithNorms):
    def forward(self, x):
        q, k, v = self.split(x)
        return self.attended(self.q_norm(q), k, v)


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


def test_a_norm_of_queries_or_keys_that_is_never_called_is_named():
    assert diagnose(Normed(), X, num_heads=HEADS).ok
    for code in (KeysNormTwice(), QueriesNormTwice()):
        report = diagnose(code, X, num_heads=HEADS)
        assert report.mistakes == ("dead-parameter",) and report.findings[0].source.endswith("# wrong"), report
    report = diagnose(WithoutKeysNorm(), X, num_heads=HEADS)
    assert "`k_norm.weight` is never used, and `q_norm.weight` is used once" in report.findings[0].evidence, report


# --- keys and values through one more layer ---


class Compressed(nn.Module):
    """Keys and values that go through one more layer, each after its own projection."""

    def __init__(self, reused=False):
        super().__init__()
        torch.manual_seed(3)
        self.qkv, self.shorter, self.proj = nn.Linear(D, 3 * D), nn.Conv1d(D, D, 1), nn.Linear(D, D)
        self.reused = reused

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        v = k if self.reused else v
        k, v = (self.shorter(part.mT).mT for part in (k, v))
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (q, k, v))
        return self.proj(attend(q, k, v).transpose(1, 2).flatten(2))


def test_one_more_layer_for_keys_and_values_is_no_reused_projection():
    assert diagnose(Compressed(), X, num_heads=HEADS).ok
    assert diagnose(Compressed(reused=True), X, num_heads=HEADS).mistakes == ("projection-reused",)


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


class BatchNormed(Base):
    """Queries, keys and values after a BatchNorm, whose statistics are as new."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm1d(D, eps=1e-3) for _ in range(3))

    def forward(self, x):
        parts = zip((self.q_proj(x), self.k_proj(x), self.v_proj(x)), self.norms, strict=True)
        q, k, v = (norm(part.mT).mT.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part, norm in parts)
        return self.merge((q @ k.mT * self.scale).softmax(-1) @ v)

    scale = HEAD_DIM**-0.5


class BatchNormedUnscaled(BatchNormed):
    scale = 1.0


def test_the_eps_of_a_batch_norm_is_no_wrong_scale():
    assert diagnose(BatchNormed(), X, causal=False, num_heads=HEADS).ok
    assert diagnose(BatchNormedUnscaled(), X, causal=False, num_heads=HEADS).mistakes == ("missing-scale",)


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


class TwoOutputs(nn.Module):
    """Two gated attentions on the same tokens, one for each of two tasks."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = (nn.ModuleList([nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, 7)]) for _ in "ab")

    def one(self, x, layers):
        qkv, gate, out = layers
        q, k, v = qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        merged = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return out(merged * gate(x).sigmoid())

    def forward(self, x):
        return self.one(x, self.first), self.one(x, self.second)


class SecondThrownAway(TwoOutputs):
    def forward(self, x):
        return super().forward(x)[0]


@pytest.mark.parametrize("which", [0, 1])
def test_the_weights_of_an_output_that_call_leaves_out_are_used(which):
    report = diagnose(TwoOutputs(), X, num_heads=HEADS, call=lambda m, x: m(x)[which])
    assert report.ok, report


def test_the_weights_of_an_output_that_is_thrown_away_are_unused():
    report = diagnose(SecondThrownAway(), X, num_heads=HEADS)
    assert report.mistakes and set(report.mistakes) <= {"gate-unused", "dead-parameter"}, report


class OfAWindow(Base):
    """Cross-attention of a window of four tokens with a context."""

    def forward(self, x, context):
        batch, tokens, _ = x.shape
        q = self.q_proj(x).reshape(batch, tokens, HEADS, -1).transpose(1, 2)
        k, v = (project(context).view(batch, 4, HEADS, -1).transpose(1, 2) for project in (self.k_proj, self.v_proj))
        return self.merge(F.scaled_dot_product_attention(q, k, v)[:, :, :4])


def test_lengths_are_those_of_x_beside_a_context():
    options = {"num_heads": HEADS, "context": torch.randn(2, 4, D, generator=torch.Generator().manual_seed(3))}
    assert diagnose(OfAWindow(), X[:, :4], lengths=[4], **options).ok
    assert diagnose(OfAWindow(), X[:, :4], **options).mistakes == ("fixed-length",)


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


def test_elements_that_are_changed_before_the_sum_are_not_called_channel_attention():
    report = diagnose(EdgesInScores(), X, causal=False, num_heads=HEADS)
    assert report.exit_status == 2, report
    assert "its scores are no dot products" in report.findings[0].title


def test_the_reason_why_code_was_not_examined_is_given_beside_a_dtype_that_it_forces():
    code = EdgesInScores()
    code.pinned = True
    report = diagnose(code, X, causal=False, num_heads=HEADS)
    assert report.mistakes == ("dtype-pinned", None), report
    assert "its scores are no dot products" in report.findings[1].title


class Rectified(Base):
    """A ReLU behind some projections, whose zeros hide which tokens they come from."""

    def __init__(self, roles):
        super().__init__()
        self.roles = roles

    def forward(self, x):
        parts = {"q": self.q_proj(x), "k": self.k_proj(x), "v": self.v_proj(x)}
        parts = [F.relu(part) if role in self.roles else part for role, part in parts.items()]
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        return self.merge((q @ k.mT / 2).softmax(-1) @ v)


@pytest.mark.parametrize("roles", ["v", "q", "qk", "qkv"])
def test_projections_behind_a_relu_are_examined(roles):
    report = diagnose(Rectified(roles), X, causal=False, num_heads=HEADS)
    assert report.ok and "3 heads of width 4" in str(report), report


class Float32Inside(Base):
    """A norm in float32, so that the run is widened, and a cache that `.to(x)` brings to the dtype of x."""

    def forward(self, x):
        normed = F.layer_norm(x.float(), (D,)).to(x)
        q, k, v = self.split(normed)
        cache = torch.zeros(2, *k.shape).to(x)
        cache[0].index_copy_(2, torch.arange(k.shape[2], device=x.device), k)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.merge((q @ cache[0].mT / 2).masked_fill(hidden, -torch.inf).softmax(-1) @ v)


def test_a_cache_that_is_brought_to_the_dtype_of_x_is_examined_in_float64():
    report = diagnose(Float32Inside(), X, num_heads=HEADS)
    assert report.ok and "3 heads of width 4" in str(report), report


class ViewsOfBoth(Base):
    def forward(self, x, context):
        q = self.q_proj(x.view(-1, D)).view(*x.shape[:2], HEADS, -1).transpose(1, 2)
        k, v = (
            project(context.view(-1, D)).view(*context.shape[:2], HEADS, -1).transpose(1, 2)
            for project in (self.k_proj, self.v_proj)
        )
        return self.merge(F.scaled_dot_product_attention(q, k, v))


def test_x_and_context_may_be_viewed():
    context = torch.randn(2, 7, D, generator=torch.Generator().manual_seed(3))
    assert diagnose(ViewsOfBoth(), X, context=context, num_heads=HEADS).ok


class NormedOverTokens(Base):
    """An InstanceNorm behind attention, as in models that plan tours."""

    def forward(self, x):
        q, k, v = self.split(x)
        return F.instance_norm((x + self.merge(F.scaled_dot_product_attention(q, k, v))).mT).mT


class MergedBeforeNorm(NormedOverTokens):
    def merge(self, heads):
        return self.proj(heads.reshape(len(heads), -1, D))  # wrong


def test_a_norm_over_the_tokens_is_no_wrong_merge():
    report = diagnose(NormedOverTokens(), X, causal=False, num_heads=HEADS)
    assert report.ok and "normalises over the tokens, so that each output depends on all queries" in str(report), report
    wrong = diagnose(MergedBeforeNorm(), X, causal=False, num_heads=HEADS)
    assert wrong.mistakes == ("merge-without-transpose",) and wrong.findings[0].where in marked(MergedBeforeNorm), wrong


class OwnMaskAndGiven(Base):
    """A causal mask of its own, one step too far, and another that may be given."""

    def forward(self, x, mask=None):
        q, k, v = self.split(x)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(2)  # wrong
        scores = (q @ k.mT / 2).masked_fill(hidden, -torch.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return self.merge(scores.softmax(-1) @ v)


def test_a_mask_that_may_be_given_does_not_hide_the_own_one():
    report = diagnose(OwnMaskAndGiven(), X, num_heads=HEADS)
    assert report.mistakes == ("mask-off-by-one",) and report.findings[0].where in marked(OwnMaskAndGiven), report


class FromTheCPU(Base):
    """Scores that go through an FFT, where they can't be followed, and a tensor that is always made on the CPU."""

    def forward(self, x):
        q, k, v = self.split(x)
        scores = torch.fft.irfft(torch.fft.rfft(q @ k.mT / 2), n=x.shape[1])
        return self.merge((scores + torch.zeros(x.shape[1], dtype=x.dtype)).softmax(-1) @ v)


def test_what_is_wrong_elsewhere_does_not_hide_that_attention_was_not_examined():
    report = diagnose(FromTheCPU(), X, causal=False)
    assert "device-pinned" in report.mistakes and report.exit_status == 1, report
    assert report.verdict == "2 things are wrong, and its attention could not be examined."
    assert report.findings[-1].title.startswith("It could not be examined"), report


class KeysOfThree(Base):
    """Keys and queries from convolutions along the tokens."""

    def __init__(self):
        super().__init__()
        self.conv_q, self.conv_k = (nn.Conv1d(D, D, 3, padding=1) for _ in range(2))
        del self.q_proj, self.k_proj

    def forward(self, x):
        parts = self.conv_q(x.mT).mT, self.conv_k(x.mT).mT, self.v_proj(x)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        return self.merge((q @ k.mT / 2).softmax(-1) @ v)


def test_keys_and_queries_of_several_tokens_are_examined():
    assert diagnose(KeysOfThree(), X, causal=False, num_heads=HEADS).ok


class Turned(Base):
    def forward(self, x, turns):
        q, k, v = self.split(x)
        return self.merge(F.scaled_dot_product_attention(q * turns, k * turns, v))


def test_tensors_that_functions_of_the_call_make_are_on_its_device():
    made_before = nn.Linear(1, HEAD_DIM)

    def turns(x):
        places = torch.arange(float(x.shape[1]))[:, None]
        return made_before(places).cos().to(x)

    report = diagnose(Turned(), X, causal=False, num_heads=HEADS, call=lambda m, x: m(x, turns(x)))
    assert "device-pinned" not in report.mistakes, report


def test_heads_that_serve_several_groups_of_tokens_are_counted_once():
    """One module attends in three rows of a grid at once; only one row goes on."""
    module = Rectified("")
    call = lambda m, x: m(torch.cat([x, x.flip(-1), -x]))[: len(x)]  # noqa: E731
    assert diagnose(module, X, causal=False, num_heads=HEADS, call=call).ok


class SharedQueriesAndKeys(nn.Module):
    """One layer makes queries and keys, as in LightGlue, whose two images attend to each other."""

    def __init__(self, name="to_qk"):
        super().__init__()
        torch.manual_seed(1)
        self.name, self.to_v, self.proj = name, nn.Linear(D, D), nn.Linear(D, D)
        self.add_module(name, nn.Linear(D, D))

    def forward(self, x):
        layer = getattr(self, self.name)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (layer(x), layer(x), self.to_v(x)))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def test_a_layer_whose_name_says_queries_and_keys_is_shared_on_purpose():
    assert diagnose(SharedQueriesAndKeys(), X, causal=False, num_heads=HEADS).ok
    report = diagnose(SharedQueriesAndKeys("to_q"), X, causal=False, num_heads=HEADS)
    assert report.mistakes == ("projection-reused",), report


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


def test_a_matrix_that_only_the_constructor_reads_is_dead():
    assert diagnose(Biased(), X, num_heads=HEADS).ok
    assert diagnose(BiasForgotten(), X, num_heads=HEADS).mistakes == ("dead-parameter",)


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


class Turning(nn.Module):
    """Frequencies that only the constructor reads, for a table of which `used` says whether anything reads it."""

    def __init__(self, used):
        super().__init__()
        self.used = used
        self.register_buffer("theta", 100 ** -(torch.arange(0, HEAD_DIM, 2) / HEAD_DIM), persistent=False)
        turns = torch.outer(torch.arange(16.0), self.theta)
        self.register_buffer("cache", torch.stack([turns.cos(), turns.sin()], -1), persistent=False)

    def forward(self, part):
        cos, sin = self.cache[: part.shape[2]].to(part).unbind(-1)
        one, other = part.chunk(2, -1)
        turned = torch.cat([one * cos - other * sin, one * sin + other * cos], -1)
        return turned if self.used else part


class WithTable(Base):
    def __init__(self, used):
        super().__init__()
        self.rope = Turning(used)

    def forward(self, x):
        q, k, v = self.split(x)
        return self.merge(F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True))


@pytest.mark.parametrize("used", [True, False])
def test_frequencies_of_a_table_that_is_read_are_used(used):
    report = diagnose(WithTable(used), X, num_heads=HEADS)
    assert report.mistakes == (() if used else ("rotary-unused",)), report


class HeadsInParameters(nn.Module):
    """A matrix for each head leads from its result to the output; the width of a head is an argument."""

    def __init__(self, d_in, num_heads, c, out_dim):
        super().__init__()
        torch.manual_seed(1)
        self.c, self.num_heads = c, num_heads
        self.qkv = nn.Parameter(torch.randn(d_in, 3, num_heads, c) / 3)
        self.last = nn.Parameter(torch.randn(num_heads, c, out_dim) / 3)

    def forward(self, x):
        q, k, v = torch.einsum("btd,dshc->sbhtc", x, self.qkv)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.einsum("bhtc,hco->bto", heads, self.last)


class WidthsExchanged(nn.Module):
    def __init__(self, d_in, num_heads, out_dim):
        super().__init__()
        torch.manual_seed(1)
        self.num_heads = num_heads
        self.qkv, self.last = nn.Linear(d_in, 3 * out_dim), nn.Linear(out_dim, d_in)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.last(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def test_an_output_as_wide_as_x_is_right_where_the_width_of_a_head_is_given():
    assert diagnose(HeadsInParameters(D, HEADS, 5, D), X, num_heads=HEADS).ok
    assert diagnose(WidthsExchanged(D, HEADS, 15), X, num_heads=HEADS).mistakes == ("output-projection-shape",)


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


def dot_by_dot(x):
    rows = []
    for tokens in x:
        scores = [[torch.dot(query, key) / math.sqrt(D) for key in tokens[: at + 1]] for at, query in enumerate(tokens)]
        rows.append([torch.stack(row).softmax(0) @ tokens[: len(row)] for row in scores])
    return torch.stack([torch.stack(row) for row in rows])


def test_every_rule_reads_scores_that_are_computed_one_by_one():
    report = diagnose(dot_by_dot, X)
    assert report.ok and not any("not checked" in one for one in report.remarks)


class OnlyFuture(Base):
    def forward(self, x):
        return self.merge(F.scaled_dot_product_attention(*self.split(x), is_causal=True))


def test_code_that_takes_no_mask_has_none_beside_the_flag():
    report = diagnose(OnlyFuture(), X, keep=(torch.arange(5) < 3).expand(2, 5))
    assert report.mistakes == (None,) and "tokens are seen that `keep` hides" in report.in_words()


class ValuesTiled(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.q, self.kv, self.out = nn.Linear(D, 4 * HEAD_DIM), nn.Linear(D, 4 * HEAD_DIM), nn.Linear(4 * HEAD_DIM, D)

    def forward(self, x):
        q, kv = (made(x).unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2) for made in (self.q, self.kv))
        k, v = kv.chunk(2, dim=1)
        k, v = k.repeat_interleave(2, dim=1), v.repeat(1, 2, 1, 1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def test_what_is_tiled_is_said():
    finding = diagnose(ValuesTiled(), X, num_heads=4).findings[0]
    assert finding.mistake == "kv-heads-tiled"
    assert "read the values of the kv heads [0, 1, 0, 1] instead of [0, 0, 1, 1]" in finding.evidence


class PaddingDropped(Base):
    """Padding sees nothing, so a finite number makes its weights equal; its output is multiplied by 0 afterwards."""

    def __init__(self, dropped):
        super().__init__()
        self.dropped = dropped

    def forward(self, x, m):
        q, k, v = self.split(x)
        hidden = (m[:, None] * m[..., None])[:, None] == 0
        weights = (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(hidden, torch.finfo(x.dtype).min).softmax(-1)
        output = self.merge(weights @ v)
        return output * m[..., None] if self.dropped else output


@pytest.mark.parametrize("dropped", [True, False])
def test_weights_of_padding_that_reach_no_output_are_no_leak(dropped):
    kept = torch.arange(5) < torch.tensor([[3], [5]])
    options = {"causal": False, "keep": kept[:, None, None], "call": lambda module, x: module(x, kept.to(x))}
    assert diagnose(PaddingDropped(dropped), X, **options).ok == dropped


class PartWithoutReturn(Base):
    class Merge(nn.Module):
        def forward(self, heads):
            heads.transpose(1, 2).flatten(2)  # wrong

    def __init__(self):
        super().__init__()
        self.part = self.Merge()

    def forward(self, x):
        return self.proj(self.part(F.scaled_dot_product_attention(*self.split(x), is_causal=True)))


def test_a_part_that_returns_nothing_is_named():
    finding = diagnose(PartWithoutReturn(), X).findings[0]
    assert finding.mistake == "returns-none" and {finding.where} == marked(PartWithoutReturn)
    assert "a module inside it gave back None: TypeError: linear()" in finding.evidence


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


class OfClasses(OneWidth):
    def __init__(self, dim, num_classes):
        super().__init__(dim, width=num_classes)


class OfTwoWidths(OneWidth):
    def __init__(self, dim, hidden_size):
        super().__init__(dim, width=hidden_size)


def test_an_output_projection_of_a_width_that_no_argument_says_is_wrong():
    report = diagnose(HalfAsWide(D), X, num_heads=HEADS)
    assert report.mistakes == ("output-projection-shape",), report
    assert f"come out {D // 2} wide" in report.findings[0].evidence


@pytest.mark.parametrize("module", [HalfAsWide, OfClasses, OfTwoWidths])
def test_an_output_projection_of_a_width_that_is_given_is_right(module):
    code = module(D, HEADS) if module is HalfAsWide else module(D, 5)
    code.out = nn.Linear(D, D) if module is HalfAsWide else code.out
    assert diagnose(code, X, num_heads=HEADS).ok
