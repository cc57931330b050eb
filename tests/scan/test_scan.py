"""A scan finds the paths of a model that do not agree, and none in models whose paths do."""

import json
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention

from course_lib.attention import GroupedQueryAttention, KVCache, MultiHeadAttention
from course_lib.diagnosis import diagnose
from course_lib.scan import PATHS, scan

pytestmark = pytest.mark.one_in(5)

X = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(3))


def flexible(queries, keys, values, shown):
    """Run flex_attention on (batch, token, width), with bool (batch, query, key), True = may attend."""

    def hidden_low(score, batch, head, query, key):
        return torch.where(shown[batch, query, key], score, -1e9)

    return flex_attention(queries[:, None], keys[:, None], values[:, None], score_mod=hidden_low)[:, 0]


class Decoder(nn.Module):
    """One causal attention with each path that a scan knows; `mistake` plants one.

    Its cache is a list of keys and values; `mask` is bool (batch, 1, query, key), True = may attend.
    """

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.qkv, self.out, self.position = nn.Linear(12, 36), nn.Linear(12, 12), nn.Embedding(32, 12)
        self.dropout, self.fused, self.use_flex, self.mistake = 0.1, False, False, mistake
        nn.init.normal_(self.qkv.weight, std=0.4)

    def forward(self, x, mask=None, cache=None, return_weights=False):
        _, num_tokens, _ = x.shape
        before = cache[0][0].shape[1] if cache else 0
        first = 0 if self.mistake == "positions restart" else before
        h = x + self.position(torch.arange(first, first + num_tokens, device=x.device))
        queries, keys, values = self.qkv(h).split(12, dim=-1)
        if cache is not None:
            if cache:
                keys, values = torch.cat([cache[0][0], keys], 1), torch.cat([cache[0][1], values], 1)
            kept = slice(0, -1) if self.mistake == "token missing" and num_tokens == 1 else slice(None)
            cache[:] = [(keys[:, kept], values[:, kept])]
        causal = torch.ones(num_tokens, keys.shape[1], dtype=torch.bool, device=x.device)
        causal = causal.tril(keys.shape[1] - num_tokens)
        unmasked = (self.mistake == "fused" and self.fused) or (self.mistake == "weights" and return_weights)
        keep = torch.ones_like(causal) if unmasked or self.mistake == "causal" else causal
        skipped = self.mistake == "mask skipped when cached" and before > 0
        if mask is not None and self.mistake != "mask unread" and not skipped:
            mask = mask[:, 0] if mask.dim() == 4 else mask
            keep = keep & (mask.flip(-1) if self.mistake == "mask flipped" else mask)
        scores = (queries @ keys.mT / 12**0.5).masked_fill(~keep, -1e9)
        weights = scores.softmax(-1)
        weights = nn.functional.dropout(weights, self.dropout, self.training or self.mistake == "dropout")
        if self.use_flex and self.mistake != "switch unread":
            shown = torch.ones_like(keep) if self.mistake == "flex" else keep
            values = flexible(queries, keys, values, shown.expand(len(x), -1, -1))
            output = self.out(values)
        else:
            output = self.out(weights @ values)
        if self.mistake == "float32" and x.dtype == torch.float32:
            output = output / 0
        if self.mistake == "compiled" and torch.compiler.is_compiling():
            output = output + values.flip(1)
        if self.mistake == "state":
            self.runs = getattr(self, "runs", 0) + 1
            output = output * (1 + 0.01 * self.runs)
        if self.mistake == "two samples" and len(x) > 2:
            output = output.flip(0)
        if self.mistake == "samples":
            output = output + output.mean(0)
        return (output, weights) if return_weights else output


def scanned(mistake: str = "", **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return scan(Decoder(mistake), X, make_cache=lambda x: [], **options)


@pytest.mark.parametrize(
    ("mistake", "path", "named"),
    [
        ("causal", "one pass", "no-causal-mask"),
        ("dropout", "one pass", "dropout-at-eval"),
        ("samples", "one pass", "batch-mixed"),
        ("fused", "fused", "paths-differ"),
        ("flex", "flex", "paths-differ"),
        ("weights", "weights returned", "mask-lost-on-option"),
        ("token missing", "token by token", "paths-differ"),
        ("positions restart", "in chunks", "paths-differ"),
        ("mask skipped when cached", "padded, cached", "mask-skipped-when-cached"),
        ("two samples", "three samples", "paths-differ"),
        ("mask unread", "padded left", "mask-discarded"),
        ("mask flipped", "padded right", "paths-differ"),
        ("state", "one pass", "stale-cache"),
        ("float32", "float32", "paths-differ"),
    ],
)
def test_a_planted_mistake_is_found_on_its_path(mistake, path, named):
    report = scanned(mistake)
    assert (path, named) in [(outcome.path, outcome.mistake) for outcome in report.wrong]
    assert not report.ok
    assert report.exit_status == 1
    assert named in report.findings[0].mistake
    assert path in report.findings[0].evidence or path != report.wrong[0].path


def test_all_paths_of_a_right_model_are_run_and_none_is_wrong():
    report = scanned()
    assert report.ok, report
    assert not [outcome.path for outcome in report.outcomes if outcome.status == "not run"]
    assert report.verdict == "17 paths run, none wrong, 1 differs."  # its positions, where padding moves them


def test_a_switch_that_runs_no_flex_attention_is_not_run_by_name():
    (outcome,) = scanned("switch unread", paths=["flex"]).outcomes
    assert (outcome.status, outcome.detail) == ("not run", "its switch for flex_attention does not call it")


class OfKernels(nn.Module):
    """Attention whose kernel is an argument of its call, or a word; `bad` sees the future on flex_attention."""

    def __init__(self, kernel="eager", bad=False):
        super().__init__()
        self.qkv, self.kernel, self.bad = nn.Linear(12, 36), kernel, bad

    def forward(self, x, use_flex=False):
        queries, keys, values = self.qkv(x).chunk(3, dim=-1)
        shown = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        if use_flex or self.kernel == "flex_attention":
            return flexible(queries, keys, values, (shown | self.bad).expand(len(x), -1, -1))
        return (queries @ keys.mT * 12**-0.5).masked_fill(~shown, -1e9).softmax(-1) @ values


@pytest.mark.parametrize("kernel", ["eager", "no word"])
@pytest.mark.parametrize("bad", [False, True])
def test_flex_attention_is_chosen_by_a_word_or_a_flag(kernel, bad):
    (outcome,) = scan(OfKernels(kernel, bad), X, paths=["flex"]).outcomes
    assert outcome.status == ("wrong" if bad else "agrees"), outcome
    assert ("earlier tokens" in outcome.detail) == bad


@pytest.mark.parametrize("mistake", ["dropout", "state"])
def test_what_differs_between_two_plain_passes_is_said_once(mistake):
    report = scanned(mistake)
    assert [outcome.path for outcome in report.wrong] == ["one pass"]
    assert any("two plain passes already differ from each other" in outcome.detail for outcome in report.outcomes)


@pytest.mark.parametrize(("mistake", "status"), [("", "agrees"), ("compiled", "wrong")])
def test_the_compiled_path_is_run_if_it_is_asked_for(mistake, status):
    assert "compiled" not in [outcome.path for outcome in scanned(mistake, paths=["fused"]).outcomes]
    assert [outcome.status for outcome in scanned(mistake, paths=["compiled"]).outcomes] == [status]


def test_a_difference_that_may_be_meant_is_counted_in_the_headline():
    report = scanned(paths=["mask of ones", "padded left"])
    assert report.verdict == "2 paths run, none wrong, 1 differs."


class Unscaled(nn.Module):
    """Attention whose scores are not scaled, as those of T5 are not."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.out(((q @ k.mT).masked_fill(later, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.slow
def test_a_scale_that_is_meant_is_told_as_to_the_doctor():
    report = scan(Unscaled(), X, paths=["attention"])
    assert (report.exit_status, report.findings[0].mistake) == (1, "missing-scale")
    assert str(report.findings[0].where).startswith("test_scan.py:")
    assert report.findings[0].rule == "scale" and pickle.loads(pickle.dumps(report)) == report  # as between processes
    assert scan(Unscaled(), X, scale=1.0, paths=["attention"]).exit_status == 0


class Cosines(Unscaled):
    """Attention whose scores are cosines times a learned number, for which no scale is right or wrong."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(5.0))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT * self.temperature
        return self.out((scores.masked_fill(later, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_a_scale_that_was_not_judged_is_in_the_headline():
    report = scan(Cosines(), X, paths=["attention"])
    assert report.verdict == "1 path run, all agree; the scale of the scores was not judged."
    assert report.exit_status == 0
    doctor = diagnose(Cosines(), X)
    assert doctor.verdict == "this is attention, nothing wrong was found; the scale of the scores was not judged."
    assert doctor.as_dict()["not_judged"] == [
        "the scale of the scores was not judged, because a learned factor multiplies them"
    ]


def test_the_course_s_classes_agree_on_all_their_paths():
    attention = GroupedQueryAttention(12, 12, 4, 2)
    report = scan(attention, X, make_cache=lambda x: KVCache(len(x), 2, 7, 3, dtype=x.dtype))
    assert report.ok, report
    assert {"formula", "fused", "in chunks", "token by token"} <= {
        outcome.path for outcome in report.outcomes if outcome.status == "agrees"
    }


def test_pytorch_s_module_agrees_on_the_paths_that_its_call_offers():
    def call(module, x, key_padding_mask=None, need_weights=False):
        return module(x, x, x, key_padding_mask=key_padding_mask, need_weights=need_weights)[0]

    report = scan(nn.MultiheadAttention(12, 3, batch_first=True), X, causal=False, call=call)
    assert report.ok, report
    agreeing = {outcome.path for outcome in report.outcomes if outcome.status == "agrees"}
    assert {"weights returned", "padded left"} <= agreeing


def test_the_model_is_left_as_it_was():
    model = MultiHeadAttention(12, 12, 3).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    scan(model, X)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_model_that_fails_is_not_examined():
    report = scan(nn.Linear(5, 5), X)
    assert report.exit_status == 2
    assert report.verdict.startswith("it could not be examined: RuntimeError")


def test_later_paths_of_a_model_that_sees_the_future_are_remarks():
    report = scanned("causal")
    assert [outcome.path for outcome in report.wrong] == ["one pass"]
    assert "it can't agree with a plain pass that sees the future" in str(report)


def test_some_paths_only():
    assert [outcome.path for outcome in scanned(paths=["fused", "bfloat16"]).outcomes] == ["fused", "bfloat16"]


def test_the_report_as_data_and_as_html():
    report = scanned("fused")
    data = json.loads(report.as_json())
    assert [path["path"] for path in data["paths"]][:3] == ["one pass", "formula", "fused"]
    assert data["findings"][0]["mistake"] == "paths-differ"
    more = [line for line in report.in_words(verbose=True).splitlines() if line not in repr(report).splitlines()]
    rules = ("fused", "flex", "paths")  # two paths of the scan, and a rule of the doctor on the attention inside
    assert more == [f'   Decided by: rule="{rule}", kind="mistake"' for rule in rules]
    assert "<td>fused</td><td>WRONG</td>" in report._repr_html_()
    assert len({path.name for path in PATHS}) == len(PATHS)


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.randn(1, 7, 12), ValueError, "at least 2 samples of 6 tokens, got the shape (1, 7, 12)"),
        (torch.randn(2, 5, 12), ValueError, "at least 2 samples of 6 tokens"),
        (torch.zeros(2, 7, dtype=torch.bool), TypeError, "token ids or embeddings, got torch.bool"),
        (torch.zeros(2, 7, dtype=torch.long), ValueError, "at least two different token ids"),
        ([1, 2], TypeError, "got list"),
    ],
)
def test_bad_input_gets_one_sentence(x: Tensor, error, words):
    with pytest.raises(error, match=words.replace("(", r"\(").replace(")", r"\)")):
        scan(Decoder(), x)


def test_unknown_paths_and_models_get_one_sentence():
    with pytest.raises(ValueError, match="paths must be among one pass, formula"):
        scanned(paths=["fast"])
    with pytest.raises(TypeError, match="model must be a module, got function"):
        scan(lambda x: x, X)
