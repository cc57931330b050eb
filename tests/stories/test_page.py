"""A storyteller's page: what is in the file, and which models are refused."""

import re
from functools import partial
from html import unescape

import pytest
import torch
from torch import nn

from course_lib.attention import LlamaAttention, MultiQueryAttention
from course_lib.exercises import ALL
from course_lib.mutations import inject
from course_lib.stories import FORMS, Storyteller, facts_kept, save_page, with_attention
from course_lib.stories.described import in_course_form
from course_lib.stories.forms import new_storyteller
from course_lib.stories.page import LARGEST

SMALL = {"width": 16, "num_heads": 4, "num_blocks": 1, "max_len": 64}
PLANTED = (
    "missing-scale", "softmax-wrong-axis", "double-softmax", "no-causal-mask", "mask-off-by-one", "mask-transposed",
    "mask-after-softmax", "weights-transposed", "merge-without-transpose", "projection-reused", "scores-from-values",
    "output-projection-missing",
)  # fmt: skip


class MyAttention(nn.Module):
    """Multi-query attention as a learner writes it."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.values = nn.Linear(d_in, self.head_dim, bias=False)
        self.keys = nn.Linear(d_in, self.head_dim, bias=False)
        self.queries = nn.Linear(d_in, d_out, bias=False)
        self.last = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        batch, num_tokens, _ = x.shape
        queries = self.queries(x).view(batch, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.keys(x)[:, None]
        values = self.values(x)[:, None]
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        context = (weights @ values).transpose(1, 2).reshape(batch, num_tokens, self.num_heads * self.head_dim)
        return self.last(context)


class MyPacked(nn.Module):
    """Multi-head attention with one matrix for queries, keys and values, and biases."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.last = nn.Linear(d_in, 3 * d_out), nn.Linear(d_out, d_out)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.last(out.transpose(1, 2).flatten(2))


class MyHeads(nn.Module):
    """A list of heads, each with matrices of its own that multiply from the right."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        shapes = {f"{role}{head}": (d_in, d_out // num_heads) for head in range(num_heads) for role in "kqv"}
        self.heads = nn.ParameterDict({name: nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()})
        self.num_heads = num_heads

    def forward(self, x):
        parts = []
        for head in range(self.num_heads):
            k, q, v = (x @ self.heads[f"{role}{head}"] for role in "kqv")
            parts.append(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return torch.cat(parts, dim=-1)


class MyLlama(nn.Module):
    """Rotary attention with two kv heads."""

    def __init__(self, d_in, d_out, num_heads, **options):
        super().__init__()
        self.inner = LlamaAttention(d_in, num_heads, num_kv_heads=2, **options)

    def forward(self, x):
        return self.inner(x)


class MySlopes(MyAttention):
    """Attention that prefers what is near, which none of the course's forms does."""

    def forward(self, x):
        num_tokens = x.shape[1]
        queries = self.queries(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = queries @ self.keys(x)[:, None].transpose(2, 3) / self.head_dim**0.5
        token = torch.arange(num_tokens, device=x.device)
        scores = scores - 0.5 * (token[:, None] - token).abs()
        hidden = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        return self.last((weights @ self.values(x)[:, None]).transpose(1, 2).flatten(2))


def small(attention=MultiQueryAttention, **options):
    torch.manual_seed(0)
    model = Storyteller(attention, **SMALL | options).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.4)
    return model


def text_of(html):
    """What a reader without scripts is shown."""
    body = re.sub(r"<script.*?</script>|<style.*?</style>", "", html, flags=re.DOTALL).partition("<body>")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", "", body)).split())


@pytest.fixture
def file(tmp_path):
    return tmp_path / "story.html"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", ["multi-query", "best"])
def test_it_is_one_file_that_asks_nothing_of_the_network(file, form):
    assert save_page(new_storyteller(form), str(file), beginning="Long ago") == file
    html = file.read_text(encoding="utf-8")
    assert file.stat().st_size <= LARGEST
    assert "default-src 'none'" in html
    rest = re.sub(r'<a href="https://[^"]*">', "", html)
    assert rest != html and not re.search("https?:", rest)
    rest = re.sub(r"<script type=text/plain.*?</script>", "", rest)
    assert not re.search(r"//\w+\.|\b(src|href|srcset)=(?!\"data:)|url\(|@import|fetch\(|XMLHttp", rest)
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script>", html)) == 4


def test_without_scripts_there_is_a_finished_story_with_its_facts(file):
    model = small()
    for beginning in ("Once there was a fox named Mila. Mila had a red kite.", ""):
        save_page(model, file, beginning=beginning, title="Foxes & kites")
        text = text_of(file.read_text(encoding="utf-8"))
        story = model.half().float().write(beginning, temperature=0.0)
        assert text.startswith("Foxes & kites A small model") and story in text
        for kind, kept in facts_kept(story).items():
            assert kind == "sentence" or re.search(rf"{kind}[\w, ]*: {'kept' if kept else 'not kept'}", text)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "attention",
    [MyAttention, MyPacked, MyHeads, MyLlama, partial(MyLlama, window=16, rope_theta=100.0)],
)
def test_a_learners_class_is_brought_to_the_course_form_that_computes_the_same(attention):
    model = small(attention, num_blocks=2)
    tokens = torch.randint(len(model.vocabulary), (3, 40))
    with torch.no_grad():
        torch.testing.assert_close(in_course_form(model)(tokens), model(tokens), atol=1e-4, rtol=1e-4)


def test_a_class_with_a_table_of_cosines_is_saved(file):
    def attention(d_in, d_out, num_heads):
        return ALL["MyLlamaAttention"].solution(d_in, d_out, num_heads, 1)  # its table is a buffer

    assert save_page(small(attention, positions=False), file) == file


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", ["multi-query", "weight split", "grouped-query", "one head", "llama", "window"])
def test_a_class_that_got_the_weights_of_a_form_is_recognised(file, form):
    model = new_storyteller(form).eval()
    inner = FORMS[form].attention

    class Mine(nn.Module):
        def __init__(self, d_in, d_out, num_heads):
            super().__init__()
            self.hidden = inner(d_in, d_out, num_heads)

        def forward(self, x):
            return self.hidden(x)

    save_page(with_attention(model, Mine), file)


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("mistake", PLANTED)
def test_a_class_with_a_mistake_is_refused_with_its_name(file, mistake):
    model = with_attention(small(), inject(MyAttention, mistake).code)
    with pytest.raises(ValueError, match=rf"MyAttention has a mistake \({mistake}\)"):
        save_page(model, file)
    assert not file.exists()


def with_sinks(d_in, _, num_heads):
    attention = LlamaAttention(d_in, num_heads, max_positions=SMALL["max_len"], learned_sinks=True)
    nn.init.constant_(attention.sink_logits, 2.0)
    return attention


@pytest.mark.parametrize(("name", "attention"), [("MySlopes", MySlopes), ("LlamaAttention", with_sinks)])
def test_what_no_form_computes_is_refused_though_it_is_no_mistake(file, name, attention):
    with pytest.raises(ValueError, match=f"{name} computes what none of the course's forms does, though the doctor"):
        save_page(small(attention), file)


def test_attention_without_a_mask_is_refused_even_in_a_class_of_the_course(file):
    with pytest.raises(ValueError, match=r"MultiQueryAttention has a mistake \(no-causal-mask\)"):
        save_page(small(partial(MultiQueryAttention, causal=False)), file)


def diverged():
    model = small()
    nn.init.constant_(model.norm.weight, 1e6)
    return model


@pytest.mark.parametrize(
    ("make", "options", "error", "words"),
    [
        (lambda: nn.Linear(2, 2), {}, TypeError, "model must be a Storyteller, got Linear: make one with Storyteller"),
        (small, {"title": 3}, TypeError, "title must be a text, got int"),
        (small, {"beginning": "A dragon"}, ValueError, "the model doesn't know 'A', 'dragon': use words of its"),
        (lambda: small(norm=nn.BatchNorm1d), {}, ValueError, "the norm of the model is BatchNorm1d: use nn.LayerNorm"),
        (diverged, {}, ValueError, "model has weights that aren't finite in half precision: train it again"),
        (
            lambda: small(width=128, num_blocks=2),
            {},
            ValueError,
            r"the page would have 1,\d{3},\d{3} bytes, and 1,000,000 is the limit: 39\d,\d{3} parameters are too many",
        ),
    ],
)
def test_what_is_refused(file, make, options, error, words):
    with pytest.raises(error, match=words):
        save_page(make(), file, **options)
    assert not file.exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("story.txt", "path must end in .html"),
        ("nowhere/story.html", "path is in the folder .*nowhere', which does not exist"),
        ("folder.html", r"path is a folder, .*folder.html': give the name of a file, such as .*mine.html'\."),
    ],
)
def test_a_path_that_is_none_of_a_page_is_refused(tmp_path, name, words):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ValueError, match=words):
        save_page(small(), tmp_path / name)


def test_the_model_stays_as_it_is(file):
    model = small().train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    save_page(model, file)
    assert model.training and all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_a_model_of_another_language_is_offered_no_beginnings_that_it_does_not_know(file):
    save_page(small(vocabulary=("The", "fox", "runs", ".")), file, beginning="The fox")
    html = file.read_text(encoding="utf-8")
    assert 'value="The fox"' in html and 'aria-label="Beginnings to pick"></div>' in html
