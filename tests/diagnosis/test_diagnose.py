"""What `diagnose` takes and refuses, what it makes of odd code, and how its report reads."""

import functools
import html
import json
import linecache
import math
import re
from html.parser import HTMLParser

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention
from course_lib.diagnosis import Finding, Report, diagnose
from course_lib.mistakes import CATALOGUE
from course_lib.pictures import Picture
from tests.diagnosis.marked_lines import marked

BATCH, TOKENS, D_IN, HEADS, HEAD_DIM = 2, 5, 11, 3, 7
D_OUT = HEADS * HEAD_DIM
X = torch.randn(BATCH, TOKENS, D_IN, generator=torch.Generator().manual_seed(0))
KEEP = torch.ones(TOKENS, TOKENS, dtype=torch.bool)


def right():
    return MultiHeadAttention(D_IN, D_OUT, HEADS)


def later(x):
    """(query, key), True = must not attend."""
    return torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool, device=x.device).triu(1)


class TwoMistakes(nn.Module):
    """A mask that is thrown away and an output projection of the wrong width."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.d_out = num_heads, d_out
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, d_out) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_in)  # width

    def forward(self, x):
        parts = (part(x).unflatten(-1, (self.num_heads, -1)) for part in (self.to_q, self.to_k, self.to_v))
        queries, keys, values = (part.transpose(1, 2) for part in parts)
        scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
        places = torch.arange(x.shape[1], device=x.device)
        scores.masked_fill(places[None, :] > places[:, None], -torch.inf)  # mask
        return self.out_proj((scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(2))


@pytest.fixture(scope="module")
def healthy():
    return diagnose(right(), X, num_heads=HEADS)


@pytest.fixture(scope="module")
def ill():
    return diagnose(TwoMistakes(D_IN, D_OUT, HEADS), X, num_heads=HEADS)


# --- what it refuses ---

REFUSED = [
    ({"code": 3}, TypeError, "module_or_function must be a module or a function, got int."),
    ({"code": None}, TypeError, "module_or_function must be a module or a function, got NoneType."),
    ({"code": "attention.py"}, TypeError, "module_or_function must be a module or a function, got str."),
    ({"x": X.long()}, TypeError, "x must be a floating-point tensor (batch, token, d_in), got torch.int64: give it"),
    ({"x": X.bool()}, TypeError, "x must be a floating-point tensor (batch, token, d_in), got torch.bool"),
    ({"x": X.to(torch.complex64)}, TypeError, "x must be a floating-point tensor"),
    ({"x": X.tolist()}, TypeError, "x must be a floating-point tensor (batch, token, d_in), got list"),
    ({"x": None}, TypeError, "x must be a floating-point tensor (batch, token, d_in), got NoneType"),
    ({"x": X[0, 0]}, ValueError, "x must be (batch, token, d_in) or (token, d_in), got the shape (11,)."),
    ({"x": X[None, :0]}, ValueError, "x must be (batch, token, d_in) or (token, d_in), got the shape (1, 0, 11)."),
    ({"x": X[:, :0]}, ValueError, "x must be (batch, token, d_in) or (token, d_in), got the shape (2, 0, 11)."),
    ({"x": X[:0]}, ValueError, "got the shape (0, 5, 11)."),
    ({"num_heads": 0}, ValueError, "num_heads must be an integer of at least 1, or None, got 0."),
    ({"num_heads": -3}, ValueError, "num_heads must be an integer of at least 1, or None, got -3."),
    ({"num_heads": True}, ValueError, "num_heads must be an integer of at least 1, or None, got True."),
    ({"num_heads": "3"}, ValueError, "num_heads must be an integer of at least 1, or None, got '3'."),
    ({"num_heads": 3.0}, ValueError, "num_heads must be an integer of at least 1, or None, got 3.0."),
    ({"num_kv_heads": 0}, ValueError, "num_kv_heads must be an integer of at least 1, or None, got 0."),
    ({"num_kv_heads": False}, ValueError, "num_kv_heads must be an integer of at least 1, or None, got False."),
    ({"keep": KEEP.float()}, TypeError, "keep must be a bool tensor, True = may attend, got torch.float32."),
    ({"keep": KEEP.tolist()}, TypeError, "keep must be a bool tensor, True = may attend, got list."),
    ({"keep": KEEP[:4, :4]}, ValueError, "keep must broadcast to (batch, head, query, key)"),
    ({"keep": KEEP.expand(13, TOKENS, TOKENS)}, ValueError, "keep must broadcast to (batch, head, query, key)"),
    ({"keep": KEEP.expand(13, 1, TOKENS, TOKENS)}, ValueError, "keep must broadcast to (batch, head, query, key)"),
    ({"keep": KEEP.expand(1, BATCH, 1, TOKENS, TOKENS)}, ValueError, "keep must broadcast to (batch, head, query"),
    ({"causal": 1}, TypeError, "causal must be True or False, got 1."),
    ({"causal": None}, TypeError, "causal must be True or False, got None."),
    ({"call": 3}, TypeError, "call must be a function of (code, x), got int."),
    ({"call": "lambda m, x: m(x)"}, TypeError, "call must be a function of (code, x), got str."),
]


@pytest.mark.parametrize(("wrong", "kind", "words"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_is_refused(wrong, kind, words):
    options = dict(wrong)
    code, x = options.pop("code", right()), options.pop("x", X)
    with pytest.raises(kind) as caught:
        diagnose(code, x, **options)
    assert type(caught.value) is kind and words in str(caught.value)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_options_go_by_name():
    with pytest.raises(TypeError, match="positional argument"):
        diagnose(right(), X, True)


# --- what a report says ---


def test_a_healthy_report(healthy):
    assert healthy.ok and healthy.findings == () and healthy.mistakes == ()
    assert healthy.subject == "MultiHeadAttention"
    words = repr(healthy)
    assert words.startswith("MultiHeadAttention: this is attention, nothing wrong was found.")
    assert "3 heads of width 7" in words and "weights sum to 1" in words
    assert all(one in words for one in healthy.checked)
    assert str(healthy) == words and "None" not in words


@pytest.mark.slow
def test_a_report_of_two_mistakes(ill):
    assert not ill.ok and ill.mistakes == ("mask-discarded", "output-projection-shape")
    first, second = ill.findings
    assert {first.where} == marked(TwoMistakes, "mask") and {second.where} == marked(TwoMistakes, "width")
    assert first.source.startswith("scores.masked_fill(places[None, :] > places[:, None], -torch.inf)")
    assert second.source.startswith("self.out_proj = nn.Linear(d_out, d_in)")
    for finding in ill.findings:
        entry = CATALOGUE[finding.mistake]
        assert (finding.title, finding.hint, finding.lesson) == (entry.title, entry.hint, entry.lesson)
        assert re.search(r"\d", finding.evidence), "what was measured is a number"
    assert "21" in second.evidence and "11" in second.evidence


@pytest.mark.slow
def test_it_reads_like_sentences(ill):
    words = repr(ill)
    lines = words.splitlines()
    assert lines[0] == "TwoMistakes: 2 things are wrong."
    for number, finding in enumerate(ill.findings, 1):
        assert f"{number}. {finding.title} [{finding.mistake}]" in lines
        assert f"   Look at {finding.where}:  {finding.source}" in lines
        assert f"   Seen: {finding.evidence}" in lines
        assert f"   Ask yourself: {finding.hint}" in lines
        assert f"   Lesson {finding.lesson} is about this." in lines
        assert finding.title.endswith(".") and finding.hint.endswith("?")
        assert finding.where in words and finding.source in words
    assert not re.search(r"\bNone$| None ", words) and not any(line.endswith(" ") for line in lines)


def test_one_mistake_is_one_thing():
    report = diagnose(lambda x: F.dropout(right_function(x), 0.5), X)
    assert report.mistakes == ("dropout-at-eval",)
    assert repr(report).startswith("<lambda>: one thing is wrong.")


def test_a_report_without_names_or_places_is_whole():
    finding = Finding(None, "0.5 apart", None, "It differs from attention in this way: it is slow.")
    words = repr(Report("code", (finding,), (), ("it takes a mask",)))
    assert words.splitlines() == [
        "code: one thing is wrong.",
        "",
        "1. It differs from attention in this way: it is slow.",
        "   Seen: 0.5 apart",
        "",
        "Worth knowing: it takes a mask",
    ]
    page = Report("code", (finding,), (), ("it takes a mask",))._repr_html_()
    assert "Look at" not in page and "<details" not in page and "None" not in page and "Worth knowing" in page


def test_a_report_is_plain_data(ill, healthy):
    for report in (ill, healthy):
        data = json.loads(report.as_json())
        assert data == report.as_dict()
        parts = ["version", "subject", "ok", "findings", "checked", "remarks", "not_judged", "attentions", "not_run"]
        assert list(data) == parts
        assert data["ok"] is report.ok and data["subject"] == report.subject
        assert tuple(one["mistake"] for one in data["findings"]) == report.mistakes
    first = ill.as_dict()["findings"][0]
    place = {"path", "line", "end_line", "column", "url"}
    assert first.keys() == {
        *("mistake", "title", "evidence", "where", "source", "hint", "lesson", "kind", "rule", "facts"),
        *place,
    }
    assert first["where"] == ill.findings[0].where and first["source"] == ill.findings[0].source
    values = json.loads(ill.as_json())["findings"][0].values()
    assert all(type(value) in (str, int, dict, type(None)) for value in values)


def test_reports_and_findings_can_not_be_changed(ill):
    with pytest.raises(AttributeError):
        ill.findings = ()
    with pytest.raises(AttributeError):
        ill.findings[0].mistake = None


class Page(HTMLParser):
    """A piece of a page: every tag is closed, and texts and pictures are collected."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.texts, self.tags = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attributes))
        elif tag not in ("br", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_in_a_notebook_it_shows_the_picture_and_folds_the_hint(ill):
    page = Page(ill._repr_html_())
    text = "".join(page.texts)
    assert page.tags.count("li") == 2 and page.tags.count("details") == 2 and page.tags.count("summary") == 2
    for finding in ill.findings:
        for words in (finding.title, finding.mistake, finding.evidence, finding.where, finding.hint):
            assert words.replace("`", "") in text
        assert finding.source in text
    drawn = [finding.picture for finding in ill.findings if finding.picture is not None]
    assert len(page.images) == len(drawn) >= 1
    assert all(image["alt"].strip() and image["src"].startswith("data:image/") for image in page.images)
    assert page.images[0]["alt"] == drawn[0].description


@pytest.mark.slow
def test_what_stands_in_the_code_is_no_markup():
    Sly = type("Sly<b>&", (TwoMistakes,), {})
    page = diagnose(Sly(D_IN, D_OUT, HEADS), X, num_heads=HEADS)._repr_html_()
    assert "Sly&lt;b&gt;&amp;" in page and "<b>" not in page
    assert html.escape("places[None, :] > places[:, None]") in page and "[None, :] > places" not in page


def test_a_healthy_report_has_a_page_too(healthy):
    page = Page(healthy._repr_html_())
    text = "".join(page.texts)
    assert "nothing wrong was found" in text and all(one.replace("`", "") in text for one in healthy.checked)
    assert page.images == [] and "details" not in page.tags


@pytest.mark.slow
def test_a_picture_is_drawn_when_it_is_looked_at(monkeypatch):
    drawn, usual = [], Picture.__init__
    monkeypatch.setattr(
        Picture, "__init__", lambda self, *args, **kwargs: (drawn.append(self), usual(self, *args, **kwargs))[1]
    )
    report = diagnose(TwoMistakes(D_IN, D_OUT, HEADS), X, num_heads=HEADS)
    assert repr(report) and report.as_json() and drawn == [], "nobody has looked yet"
    assert "<img" in report._repr_html_() and len(drawn) >= 1


# --- code of every kind ---


def right_function(x):
    queries, keys, values = (x[..., at : at + HEAD_DIM] for at in (0, 2, 4))
    scores = (queries @ keys.mT / math.sqrt(HEAD_DIM)).masked_fill(later(x), -torch.inf)
    return scores.softmax(dim=-1) @ values


def blind_function(x):
    queries, keys, values = (x[..., at : at + HEAD_DIM] for at in (0, 2, 4))
    scores = queries @ keys.mT / math.sqrt(HEAD_DIM)
    return scores.softmax(dim=-1) @ values  # wrong


WEIGHTS = [torch.randn(D_IN, HEAD_DIM, generator=torch.Generator().manual_seed(at)) / 3 for at in (1, 2, 3)]


def of_weights(x, weights, scale=True):
    queries, keys, values = (x @ weight for weight in weights)
    scores = queries @ keys.mT / (math.sqrt(HEAD_DIM) if scale else 1)
    return scores.masked_fill(later(x), -torch.inf).softmax(dim=-1) @ values


def of_global_weights(x):
    return of_weights(x, WEIGHTS)


class Callable:
    def __call__(self, x):
        return right_function(x)

    def method(self, x):
        return right_function(x)


RIGHT = {
    "a function": right_function,
    "a lambda": lambda x: right_function(x),
    "a partial": functools.partial(of_weights, weights=[weight.double() for weight in WEIGHTS]),
    "an object with __call__": Callable(),
    "a method": Callable().method,
    "one that gives back weights, too": lambda x: (right_function(x), None),
    "one that gives back a list": lambda x: [right_function(x), None],
    "one of queries, keys and values": lambda q, k, v: of_weights(q, [weight.double() for weight in WEIGHTS]),
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT.keys())
def test_right_code_that_is_no_module_is_healthy(code):
    report = diagnose(code, X)
    assert report.ok, report


@pytest.mark.slow
def test_wrong_code_that_is_no_module_is_named():
    report = diagnose(blind_function, X)
    assert report.mistakes == ("no-causal-mask",) and report.subject == "blind_function"
    assert {report.findings[0].where} == marked(blind_function)
    assert diagnose(lambda x: blind_function(x), X).mistakes == ("no-causal-mask",)
    assert diagnose(blind_function, X, causal=False).ok
    assert diagnose(functools.partial(blind_function), X).mistakes == ("no-causal-mask",)


@pytest.mark.slow
def test_tensors_of_32_bits_beside_a_function_are_no_mistake():
    """A cell of a notebook: the weights stand there as tensors, in PyTorch's usual dtype, like x."""
    assert diagnose(of_global_weights, X).ok
    assert diagnose(lambda x: of_weights(x, WEIGHTS), X).ok
    assert diagnose(lambda x: of_weights(x, WEIGHTS, scale=False), X).mistakes == ("missing-scale",)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["lambda", "forward", "partial", "call"])
def test_a_module_of_32_bits_inside_a_function_is_no_mistake(how):
    module = right()
    code = {"lambda": lambda x: module(x), "forward": module.forward, "partial": functools.partial(module)}
    report = diagnose(right(), X, call=lambda m, x: m(x)) if how == "call" else diagnose(code[how], X)
    assert report.ok, report


def test_attention_without_weights_by_the_library_is_healthy():
    by_hand = diagnose(lambda x: right_function(x), X)
    by_library = diagnose(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), X)
    assert by_hand.ok and by_library.ok, by_library


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_dtype_of_module_and_input_does_not_matter(dtype):
    assert diagnose(right().to(dtype), X.to(dtype), num_heads=HEADS).ok
    assert diagnose(right().to(dtype), X, num_heads=HEADS).ok
    assert diagnose(right_function, X.to(dtype)).ok
    report = diagnose(TwoMistakes(D_IN, D_OUT, HEADS).to(dtype), X.to(dtype), num_heads=HEADS)
    assert report.mistakes == ("mask-discarded", "output-projection-shape")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("shape", [(1, TOKENS), (BATCH, 1), (1, 1), (BATCH, 2), (7, 31)], ids=str)
def test_few_and_many_samples_and_tokens(shape):
    x = torch.randn(*shape, D_IN)
    assert diagnose(right(), x, num_heads=HEADS).ok
    assert diagnose(right_function, x).ok
    assert diagnose(TwoMistakes(D_IN, D_OUT, HEADS), x, num_heads=HEADS).mistakes[0] == "mask-discarded"


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "x", [torch.zeros_like(X), torch.ones_like(X), 1000 * X, X / 1000, X[:1].expand(3, -1, -1)], ids=range(5)
)
def test_inputs_that_show_little(x):
    assert diagnose(right(), x, num_heads=HEADS).ok
    assert diagnose(TwoMistakes(D_IN, D_OUT, HEADS), x, num_heads=HEADS).mistakes[0] == "mask-discarded"


def test_one_sample_without_its_axis():
    assert diagnose(right_function, X[0]).ok
    report = diagnose(blind_function, X[0])
    assert report.mistakes == ("no-causal-mask",) and {report.findings[0].where} == marked(blind_function)
    assert diagnose(lambda x: of_weights(x, [weight.double() for weight in WEIGHTS]), X[0]).ok


@pytest.mark.slow
def test_heads_need_not_be_told():
    assert diagnose(right(), X).ok
    assert "3 heads of width 7" in " ".join(diagnose(right(), X).checked)
    assert diagnose(TwoMistakes(D_IN, D_OUT, HEADS), X).mistakes == ("mask-discarded", "output-projection-shape")
    grouped = GroupedQueryAttention(D_IN, 6 * HEAD_DIM, 6, num_kv_heads=2)
    assert diagnose(grouped, X).ok and diagnose(grouped, X, num_heads=6, num_kv_heads=2).ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        (right, {"num_heads": 7}, "it has 3 heads, and num_heads=7 was given"),
        (right, {"num_heads": 1}, "it has 3 heads, and num_heads=1 was given"),
        (
            lambda: GroupedQueryAttention(D_IN, 6 * HEAD_DIM, 6, num_kv_heads=2),
            {"num_kv_heads": 1},
            "it has 2 kv heads",
        ),
    ],
)
def test_heads_that_are_told_are_counted(code, options, said):
    report = diagnose(code(), X, **options)
    (finding,) = report.findings
    assert said in finding.title and not report.ok, report
    assert "a score is a sum of 7 terms" in finding.evidence and "@" in finding.source


class Window(nn.Module):
    """Every token sees itself and the two before it."""

    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        back = places[:, None] - places
        scores = self.to_q(x) @ self.to_k(x).mT / math.sqrt(HEAD_DIM)
        return scores.masked_fill((back < 0) | (back > 2), -torch.inf).softmax(dim=-1) @ self.to_v(x)


@pytest.mark.slow
def test_a_window_is_healthy_when_it_is_told():
    back = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    assert diagnose(Window(), X, keep=back < 3).ok
    assert diagnose(Window(), X, keep=(back < 3)[None, None]).ok
    assert not diagnose(Window(), X, keep=back < 2).ok, "it sees one more than it was told to"
    untold = diagnose(Window(), X)
    assert untold.mistakes == (None,)
    assert untold.findings[0].title == "It differs from attention in this way: tokens that should be seen are not."
    assert "query 3 does not see key 0" in untold.findings[0].evidence


class TakesAMask(nn.Module):
    """In its mask, 1 means hide, and there is none unless it is given."""

    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(D_IN, HEAD_DIM) for _ in range(3))

    def forward(self, x, mask=None):
        scores = self.to_q(x) @ self.to_k(x).mT / math.sqrt(HEAD_DIM)
        if mask is not None:
            scores = scores.masked_fill(mask.reshape(-1, TOKENS, TOKENS) == 1, -torch.inf)
        return scores.softmax(dim=-1) @ self.to_v(x)


class NeedsAMask(TakesAMask):
    def forward(self, x, mask):
        scores = self.to_q(x) @ self.to_k(x).mT / math.sqrt(HEAD_DIM)
        return (scores + mask).softmax(dim=-1) @ self.to_v(x)


@pytest.mark.slow
def test_what_is_told_by_keep_is_given_to_code_that_takes_a_mask():
    back = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    padding = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    padding[1, -2:] = False
    for keep in (back < 3, padding, padding[:, None, None, :]):
        report = diagnose(right(), X, num_heads=HEADS, keep=keep)
        assert report.ok, report
    report = diagnose(TakesAMask(), X, keep=back < 3)
    assert report.ok, report
    report = diagnose(NeedsAMask(), X)  # it can't run without one
    assert report.ok, report


# --- code that can't be examined ---


def breaks(x):
    y = x * 2
    return y.view(7)  # wrong


def test_an_error_is_told_with_its_line():
    report = diagnose(breaks, X)
    (finding,) = report.findings
    assert finding.mistake is None and {finding.where} == marked(breaks)
    assert finding.source == "return y.view(7)  # wrong"
    assert finding.evidence.startswith("RuntimeError: shape '[7]' is invalid for input of size")
    assert finding.title == "It could not be run."
    assert "Traceback" not in repr(report) and "\n" not in finding.evidence


class SaysNothing(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D_IN, HEAD_DIM)

    def forward(self, x):
        x = self.linear(x)
        if x.shape[-1] != 8:
            raise AssertionError  # wrong
        return x


class SaysALot(SaysNothing):
    def forward(self, x):
        raise ValueError("first line\nsecond line")  # wrong


def takes_two(x, y):
    return x + y


def test_errors_of_every_kind_are_told():
    (finding,) = diagnose(SaysNothing(), X).findings
    assert finding.evidence == "AssertionError" and {finding.where} == marked(SaysNothing)
    (finding,) = diagnose(SaysALot(), X).findings
    assert finding.evidence == "ValueError: first line" and {finding.where} == marked(SaysALot)
    (finding,) = diagnose(takes_two, X).findings
    assert finding.evidence.startswith("TypeError: takes_two() missing 1 required positional argument: 'y'")
    (finding,) = diagnose(right(), X[..., :4]).findings
    assert "4" in finding.evidence and str(D_IN) in finding.evidence
    (finding,) = diagnose(right().to("meta"), X).findings
    assert "meta" in finding.evidence
    (finding,) = diagnose(MultiHeadAttention, X).findings
    assert "missing 2 required positional arguments: 'd_out' and 'num_heads'" in finding.evidence


OTHER_RESULTS = {
    "a number": (lambda x: 3, None, "int"),
    "an empty tuple": (lambda x: (), None, "tuple"),
    "None": (lambda x: None, "returns-none", "None"),
    "tokens laid side by side": (lambda x: right_function(x).flatten(1), None, f"(2, {TOKENS * HEAD_DIM})"),
    "one token too few": (lambda x: right_function(x)[:, 1:], None, f"(2, {TOKENS - 1}, {HEAD_DIM})"),
    "a sum over the batch": (lambda x: right_function(x).sum(0), None, f"({TOKENS}, {HEAD_DIM})"),
    "a number in a tensor": (lambda x: right_function(x).sum(), None, "()"),
}


@pytest.mark.parametrize(("code", "mistake", "words"), OTHER_RESULTS.values(), ids=OTHER_RESULTS.keys())
def test_what_comes_out_is_told(code, mistake, words):
    (finding,) = diagnose(code, X).findings
    assert finding.mistake == mistake and words in finding.evidence
    if mistake is None:
        assert finding.title.startswith("It differs from attention in this way: ")


def test_which_of_several_tensors_is_the_output_is_asked():
    (finding,) = diagnose(lambda x: {"first": x, "second": x}, X).findings
    assert finding.title == "It could not be examined: which of its tensors is the output is not known."
    assert not finding.examined and "give `call` to say what of it is the output" in finding.evidence


PARTS = {
    "a tuple": (lambda out: (out, None), "tuple", "a(x)[0]`"),
    "a tuple that begins with weights": (lambda out: (None, out), "tuple", "a(x)[1]`"),
    "a dict": (lambda out: {"steps": 3, "out": out}, "dict", "a(x)['out']`"),
    "a number": (lambda out: 3, "int", "return the output, a tensor"),
}


@pytest.mark.parametrize(("made", "kind", "remedy"), PARTS.values(), ids=PARTS.keys())
def test_a_call_that_gives_back_no_tensor_is_not_the_fault_of_the_code(made, kind, remedy):
    for x in (X, X[0]):
        report = diagnose(lambda x: made(right_function(x.reshape(-1, *X.shape[1:]))), x, call=lambda code, x: code(x))
        (finding,) = report.findings
        assert report.exit_status == 2 and finding.title == "It could not be examined: `call` gave back no tensor."
        assert finding.evidence.startswith(f"it gave back {kind}; let `call`") and finding.evidence.endswith(remedy)


def test_a_call_with_a_context_that_gives_back_a_tuple_is_told_how_to_take_the_output():
    def attend(queries, keys):
        return (queries @ keys.mT).softmax(-1) @ keys, None

    report = diagnose(attend, X, context=X.flip(1), call=lambda code, x, context: code(x, context))
    assert report.exit_status == 2 and report.findings[0].evidence.endswith(
        "`call=lambda a, x, context: a(x, context)[0]`"
    )


def test_what_is_no_attention_is_not_examined():
    for code in (nn.Linear(D_IN, D_IN), lambda x: x, lambda x: x.cumsum(1), torch.relu):
        report = diagnose(code, X)
        assert report.mistakes == (None,) and report.exit_status == 2, report
        assert report.findings[0].title == "It could not be examined: its queries and keys can't be found."
        assert report.findings[0].evidence


def test_code_without_a_text_is_examined_without_lines():
    names = {"torch": torch}
    exec("def blind(x):\n    return (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x", names)  # as `python -c` does
    (finding,) = diagnose(names["blind"], X).findings
    assert finding.mistake == "no-causal-mask" and finding.where is None and finding.source == ""
    assert "Look at" not in repr(diagnose(names["blind"], X))


def test_a_module_that_is_not_ready_yet_is_reported():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.to_q, self.to_k, self.to_v = (nn.LazyLinear(HEAD_DIM) for _ in range(3))

        def forward(self, x):
            scores = self.to_q(x) @ self.to_k(x).mT / math.sqrt(HEAD_DIM)
            return scores.masked_fill(later(x), -torch.inf).softmax(dim=-1) @ self.to_v(x)

    assert isinstance(diagnose(Lazy(), X), Report)  # healthy, or told to be run once: but no traceback
    run_once = Lazy()
    run_once(X)
    assert diagnose(run_once, X).ok


# --- code of a notebook ---

CELL = """\
import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.d_out = num_heads, d_out
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, d_out) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_in)

    def forward(self, x):
        parts = (part(x).unflatten(-1, (self.num_heads, -1)) for part in (self.to_q, self.to_k, self.to_v))
        queries, keys, values = (part.transpose(1, 2) for part in parts)
        scores = queries @ keys.mT / queries.shape[-1] ** 0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores.masked_fill(hidden, -torch.inf)
        return self.out_proj((scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(2))


def blind(x):
    scores = x @ x.mT / x.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ x
"""
FILES = ["/tmp/ipykernel_123/456.py", "<ipython-input-7-0123456789ab>", "C:\\Temp\\ipykernel_9\\12.py"]


@pytest.fixture(params=FILES)
def cell(request):
    """The names of a cell, run as IPython runs it: no file, its text known to linecache alone."""
    file, names = request.param, {"__name__": "__main__"}
    linecache.cache[file] = (len(CELL), None, CELL.splitlines(keepends=True), file)
    exec(compile(CELL, file, "exec"), names)
    yield names
    del linecache.cache[file]


def line_of(words):
    (number,) = [at for at, line in enumerate(CELL.splitlines(), 1) if words in line]
    return f"cell:{number}"


@pytest.mark.slow
def test_a_class_of_a_cell_is_located_in_the_cell(cell):
    report = diagnose(cell["Cell"](D_IN, D_OUT, HEADS), X, num_heads=HEADS)
    assert report.mistakes == ("mask-discarded", "output-projection-shape")
    assert [one.where for one in report.findings] == [line_of("scores.masked_fill"), line_of("self.out_proj =")]
    assert [one.source for one in report.findings] == [
        "scores.masked_fill(hidden, -torch.inf)",
        "self.out_proj = nn.Linear(d_out, d_in)",
    ]
    assert f"Look at {report.findings[0].where}:  scores.masked_fill(hidden, -torch.inf)" in repr(report)


def test_a_function_of_a_cell_is_located_in_the_cell(cell):
    (finding,) = diagnose(cell["blind"], X).findings
    assert finding.mistake == "no-causal-mask" and finding.where == line_of("return scores.softmax")
    assert finding.source == "return scores.softmax(dim=-1) @ x"
