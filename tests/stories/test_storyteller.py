"""The storyteller: what it computes, how it learns and writes, and other classes of attention with its weights."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    window_keep,
)
from course_lib.mutations import inject
from course_lib.stories import (
    FORMS,
    Storyteller,
    facts_kept,
    forms,
    load_storyteller,
    read_held_out,
    stories,
    sure_by_distance,
    tokens_per_second,
    with_attention,
    with_selected_keys,
    with_shared_keys,
    with_window,
)
from course_lib.stories.described import in_course_form
from course_lib.stories.forms import as_wrapper, new_storyteller
from course_lib.stories.muon import orthogonal

ONE = torch.zeros(1, 3, dtype=torch.long)
BEGINNING = "Once there was an owl named Ida. One morning Ida met"


def small(attention=MultiQueryAttention, **options):
    torch.manual_seed(0)
    return Storyteller(attention, width=24, num_heads=3, num_blocks=2, max_len=40, **options).eval()


class Mine(nn.Module):
    """Multi-query attention with names of one's own, matrices the other way round, and two that are packed."""

    def __init__(self, width, _, num_heads):
        super().__init__()
        self.n, self.d = num_heads, width // num_heads
        self.kv = nn.Linear(width, 2 * self.d, bias=True)
        self.merge = nn.Parameter(torch.randn(width, width))
        self.ask = nn.Parameter(torch.randn(width, width))

    def forward(self, x):
        b, t, _ = x.shape
        queries = (x @ self.ask).view(b, t, self.n, self.d).transpose(1, 2)
        keys, values = self.kv(x)[:, None].chunk(2, dim=-1)
        scores = queries @ keys.mT / self.d**0.5
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
        context = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values
        return context.transpose(1, 2).flatten(2) @ self.merge


class Plain(nn.Module):
    """Multi-query attention, for mistakes to be planted into."""

    def __init__(self, width, _, num_heads):
        super().__init__()
        self.n, self.d = num_heads, width // num_heads
        self.q_proj, self.out_proj = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(width, self.d, bias=False) for _ in range(2))

    def forward(self, x):
        b, t, _ = x.shape
        queries = self.q_proj(x).view(b, t, self.n, self.d).transpose(1, 2)
        keys, values = self.k_proj(x)[:, None], self.v_proj(x)[:, None]
        scores = queries @ keys.transpose(2, 3) / self.d**0.5
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
        weights = scores.softmax(dim=-1)
        context = weights @ values
        return self.out_proj(context.transpose(1, 2).flatten(2))


class HeadByHead(nn.Module):
    """A wrapper of heads whose matrices come in another order."""

    def __init__(self, width, _, num_heads):
        super().__init__()
        sizes = width, width // num_heads
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(*sizes, bias=False) for _ in range(3))  # keys, queries, values
            for _ in range(num_heads)
        )
        self.mix = nn.Linear(width, width, bias=False)

    def forward(self, x):
        projected = [[layer(x) for layer in head] for head in self.heads]
        attended = [F.scaled_dot_product_attention(q, k, v, is_causal=True) for k, q, v in projected]
        return self.mix(torch.cat(attended, dim=-1))


class PackedByHead(nn.Module):
    """Queries, keys and values side by side within each head; returns the attention weights, too."""

    def __init__(self, width, _, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.5)
        self.dense = nn.Linear(width, width)

    def forward(self, x):
        split = self.qkv(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (b, h, t, 3 d)
        q, k, v = split.chunk(3, dim=-1)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = (q @ k.mT / k.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1)
        return self.drop(self.dense((weights @ v).transpose(1, 2).flatten(2))), weights


class ThreeAxes(nn.Module):
    """Parameters with an axis for the heads."""

    def __init__(self, width, _, num_heads):
        super().__init__()
        shape = num_heads, width, width // num_heads
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(shape)) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(num_heads, width // num_heads, width))

    def forward(self, x):
        q, k, v = (torch.einsum("btm,hmd->bhtd", x, each) for each in (self.wq, self.wk, self.wv))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.einsum("bhtd,hdm->btm", context, self.wo)


class ByGroup(nn.Module):
    """For each head of keys its queries, then its key and its value, element by element."""

    def __init__(self, width, _, num_heads):
        super().__init__()
        self.groups, self.d = 3, width // num_heads
        self.wqkv = nn.Parameter(torch.randn(self.d, num_heads + 2 * self.groups, width))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        packed = torch.einsum("btm,dgm->bgtd", x, self.wqkv).unflatten(1, (self.groups, -1))
        q, (k, v) = packed[:, :, :-2].flatten(1, 2), packed[:, :, -2:].unbind(2)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(context.transpose(1, 2).flatten(2))


class Summed(nn.Module):
    """An output matrix for each head, whose products are added, and biases that nn.Linear has by default."""

    def __init__(self, width, _, num_heads):
        super().__init__()
        d = width // num_heads
        self.q, self.k, self.v = (nn.ModuleList(nn.Linear(width, d) for _ in range(num_heads)) for _ in range(3))
        self.out = nn.ModuleList(nn.Linear(d, width) for _ in range(num_heads))

    def forward(self, x):
        heads = zip(self.q, self.k, self.v, self.out, strict=True)
        return sum(out(F.scaled_dot_product_attention(q(x), k(x), v(x), is_causal=True)) for q, k, v, out in heads)


class SummedWithSharedKeys(nn.Module):
    """Keys and values that all heads share; each has queries and an output matrix of its own."""

    def __init__(self, width, _, num_heads):
        super().__init__()
        d = width // num_heads
        self.kv = nn.Linear(width, 2 * d)
        self.heads = nn.ModuleList(
            nn.ModuleDict({"out": nn.Linear(d, width), "q": nn.Linear(width, d)}) for _ in range(num_heads)
        )

    def forward(self, x):
        k, v = self.kv(x).chunk(2, dim=-1)
        return sum(one["out"](F.scaled_dot_product_attention(one["q"](x), k, v, is_causal=True)) for one in self.heads)


class LastToken(MultiHeadAttention):
    """What belongs to the last token alone."""

    def forward(self, x):
        return super().forward(x)[:, -1:]


def test_logits_are_those_of_the_formula():
    model = small().double()
    tokens = model.encode(BEGINNING)
    length = tokens.shape[1]
    x = 24**0.5 / 2 * model.word_table.weight[tokens] + model.position_table[:length]
    for block in model.blocks:
        h = F.layer_norm(x, (24,), block.attention_norm.weight, block.attention_norm.bias)
        a = block.attention
        queries = (h @ a.q_proj.weight.T).view(1, length, 3, 8).transpose(1, 2)
        keys, values = (h @ a.k_proj.weight.T)[:, None], (h @ a.v_proj.weight.T)[:, None]
        context = F.scaled_dot_product_attention(
            queries, keys.expand(1, 3, -1, -1), values.expand(1, 3, -1, -1), is_causal=True
        )
        x = x + context.transpose(1, 2).flatten(2) @ a.out_proj.weight.T
        h = F.layer_norm(x, (24,), block.mlp_norm.weight, block.mlp_norm.bias)
        h = F.gelu(h @ block.mlp[0].weight.T + block.mlp[0].bias)
        x = x + h @ block.mlp[2].weight.T + block.mlp[2].bias
    expected = F.layer_norm(x, (24,), model.norm.weight, model.norm.bias) @ model.word_table.weight.T
    torch.testing.assert_close(model(tokens), expected)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("form", FORMS)
def test_a_cache_changes_no_word(form):
    model = new_storyteller(form, seed=3).eval()
    told = [model.write(BEGINNING, temperature=1.0, seed=5, num_words=25, use_cache=use) for use in (True, False)]
    assert told[0] == told[1]
    assert told[0].startswith(BEGINNING) and len(told[0]) > len(BEGINNING)


@pytest.mark.parametrize("form", ["weight split", "multi-query", "grouped-query", "llama", "latent"])
def test_at_the_start_a_head_writes_the_word_that_it_looks_at(form):
    attention = new_storyteller(form).attentions[0]
    x = torch.eye(64)  # as if each vector were a word
    values = attention.v_proj(attention.latent_proj(x) if form == "latent" else x)  # (m, g * d)
    by_head = values.unflatten(1, (attention.num_kv_heads, -1))
    by_head = by_head.repeat_interleave(attention.num_heads // attention.num_kv_heads, dim=1)
    written = attention.out_proj(by_head.flatten(1))  # (m, m): what is added for each
    torch.testing.assert_close(written, written.T)
    assert torch.linalg.eigvalsh(written.double()).min() > -1e-6
    assert written.diagonal().min() > 0


def test_one_head_without_output_projection_starts_with_the_words_themselves():
    torch.testing.assert_close(new_storyteller("one head").attentions[1].v_proj.weight.data, torch.eye(64))


@pytest.mark.slow
def test_writing_is_seeded_and_ends_with_the_story():
    model = small()
    assert model.write(temperature=1.0, seed=1) == model.write(temperature=1.0, seed=1)
    assert model.write(temperature=1.0, seed=1) != model.write(temperature=1.0, seed=2)
    assert model.write(BEGINNING, num_words=0) == BEGINNING
    with torch.no_grad():
        model.norm.weight.zero_()  # all words are equally likely, and END is the first of them
    assert model.write(BEGINNING) == BEGINNING


@pytest.mark.slow
def test_a_model_learns_and_learns_the_same_twice():
    texts = [story.text for story in stories(50, seed=1)]
    curves = [small().train_on(texts, steps=150, batch=5, seed=seed) for seed in (0, 0, 1)]
    assert curves[0] == curves[1] != curves[2]
    assert curves[0][0] > 5 and curves[0][-1] < 0.75 * curves[0][0]


def test_a_long_text_is_cut_into_pieces_that_lose_no_word():
    model = small()
    text = " ".join(story.text for story in stories(3, seed=2))
    samples = model._samples([text])
    assert samples.shape[1] == 41 and len(samples) > 3
    ones = [row[row >= 0] for row in samples]
    predicted = torch.cat([row[1:] for row in ones])
    assert model.decode(predicted[:-1]) == text


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (7, 7)])
def test_a_step_of_muon_is_nearly_orthogonal(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonal(matrix)
    assert torch.linalg.svdvals(found).sub(1).abs().max() < 0.35
    assert (found - left @ right).norm() < 0.4 * (left @ right).norm()


@pytest.mark.slow
def test_another_class_tells_the_same_story():
    model = small()
    theirs = with_attention(model, Mine)
    tokens = model.encode(BEGINNING)
    torch.testing.assert_close(theirs(tokens), model(tokens))
    assert theirs.write(BEGINNING) == model.write(BEGINNING)
    assert isinstance(model.blocks[0].attention, MultiQueryAttention)


def test_the_wrapper_gets_the_weights_head_by_head():
    split = new_storyteller("weight split", seed=2).eval()
    wrapper = as_wrapper(split)
    tokens = split.encode(BEGINNING)
    torch.testing.assert_close(wrapper(tokens), split(tokens))
    mine = with_attention(wrapper, HeadByHead)
    torch.testing.assert_close(mine(tokens), split(tokens))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("attention", "own"),
    [
        *((MultiHeadAttention, own) for own in (PackedByHead, ByGroup, ThreeAxes, HeadByHead, Summed)),
        (MultiQueryAttention, SummedWithSharedKeys),
    ],
)
def test_matrices_may_be_laid_out_in_any_way(attention, own):
    model = small(attention)
    tokens = model.encode(BEGINNING)
    theirs = with_attention(model, own)
    torch.testing.assert_close(theirs(tokens), model(tokens))
    torch.testing.assert_close(in_course_form(theirs)(tokens), model(tokens))


@pytest.mark.parametrize(
    "mistake", ["missing-scale", "no-causal-mask", "split-without-transpose", "softmax-wrong-axis"]
)
def test_a_class_with_a_mistake_tells_its_own_story(mistake):
    model = small()
    tokens = model.encode(BEGINNING)
    right = with_attention(model, Plain)
    wrong = with_attention(model, inject(Plain, mistake).code)
    torch.testing.assert_close(right(tokens), model(tokens))
    assert (wrong(tokens) - model(tokens)).abs().max() > 1e-3


class Undivided(nn.Module):
    """Multi-query attention without the scale, and with names of one's own."""

    def __init__(self, width, _, num_heads):
        super().__init__()
        self.d = width // num_heads
        self.ask = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, self.d, bias=False) for _ in range(2))
        self.merge = nn.Linear(width, width, bias=False)

    def forward(self, x):
        scores = self.ask(x).unflatten(-1, (-1, self.d)).transpose(1, 2) @ self.key(x)[:, None].mT
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        context = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ self.value(x)[:, None]
        return self.merge(context.transpose(1, 2).flatten(2))


def test_a_wrong_class_with_names_of_its_own_gets_the_matrices_as_they_lie_in_linear_layers():
    model = small()
    wrong, right = with_attention(model, Undivided).attentions[0], model.attentions[0]
    assert all(map(torch.equal, wrong.parameters(), right.parameters()))


def test_an_output_of_another_shape_is_refused():
    said = "LastToken returns (2, 1, 24) for an input of (2, 5, 24): let it return a tensor of the same shape"
    with pytest.raises(ValueError, match=re.escape(said)):
        with_attention(small(MultiHeadAttention), LastToken)


@pytest.mark.parametrize("form", ["multi-query", "llama"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_each_text_of_a_padded_batch_is_scored_as_it_is_alone(form, side):
    model = load_storyteller(form)
    rows = [model.encode(text)[0] for text in ("Once there was a", "This is the story of Ruth the fox.", BEGINNING)]
    longest = max(map(len, rows))
    tokens, real = torch.full((3, longest), 7), torch.zeros(3, longest, dtype=torch.bool)
    for sample, row in enumerate(rows):
        start = longest - len(row) if side == "left" else 0
        tokens[sample, start : start + len(row)], real[sample, start : start + len(row)] = row, True
    positions = (real.cumsum(1) - 1).clamp(min=0)
    logits = model(tokens, positions=positions, keep=real[:, None, None])
    for sample, row in enumerate(rows):
        torch.testing.assert_close(logits[sample, real[sample]], model(row[None])[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("option", "form", "said"),
    [
        ({"positions": ONE}, "no positions", "MultiQueryAttention takes no `positions`: leave it out, or"),
        (
            {"positions": ONE.float()},
            "llama",
            "positions must be a tensor of integers (torch.int64), got torch.fl",
        ),
    ],
)
def test_a_storyteller_refuses_options_that_its_attention_does_not_take(option, form, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        load_storyteller(form)(ONE, **option)


def test_a_class_that_takes_no_mask_is_named():
    with pytest.raises(TypeError, match=re.escape("Mine takes no `keep`: leave it out")):
        small(Mine)(ONE, keep=torch.ones(1, 1, 1, 3, dtype=torch.bool))


def test_weights_that_do_not_fit_are_refused():
    model = small()
    with pytest.raises(ValueError, match=re.escape("don't fit GroupedQueryAttention: it has")) as caught:
        with_attention(model, lambda width, out, heads: GroupedQueryAttention(width, out, heads, num_kv_heads=3))
    assert "k_proj.weight (24, 24)" in str(caught.value) and "k_proj.weight (8, 24)" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.write("Once there was a zebra."), "the model doesn't know 'zebra': use words of its"),
        (lambda model: model.write("owl " * 50), "the model reads 40 tokens at most (max_len), not 51: shorten"),
        (lambda model: model.write(temperature=-1), "temperature is -1: give 0 for the likeliest words, or more"),
        (lambda model: model(ONE, positions=ONE[0]), "positions is (3,), but tokens is (1, 3): give one per"),
        (
            lambda model: model(ONE, positions=ONE + 40),
            "positions holds 40, but the model's go from 0 to 39: count",
        ),
        (lambda model: model(ONE[0]), "tokens must be (batch, token), got the shape (3,): give what `encode` returns"),
        (
            lambda model: model(ONE + 343),
            "tokens holds 343, but the model's words are numbered from 0 to 342: give what",
        ),
        (lambda model: model(ONE - 1), "tokens holds -1, but the model's words are numbered from 0 to 342: give what"),
        (
            lambda model: model.decode(ONE),
            "tokens must be (token,), got the shape (1, 3): give one row of what `encode`",
        ),
        (lambda model: model.decode(ONE[0] - 1), "tokens holds -1, but the model's words are numbered from 0 to 342"),
        (lambda model: model.generate(ONE[..., None], 2), "tokens must be (batch, token), got the shape (1, 3, 1)"),
        (lambda model: model.generate(ONE[:, :0], 2), "tokens is empty, (1, 0): give at least the one of encode('')"),
        (lambda model: model.generate(ONE, -1), "num_new must be at least 0, got -1."),
        (
            lambda model: model.generate(ONE, 2, temperature="hot"),
            "temperature is 'hot': give 0 for the likeliest words",
        ),
        (lambda model: facts_kept("Once.", count=-1), "count is -1, but a text is read alone: leave it out, or give a"),
        (lambda model: facts_kept(model, count=0), "count must be at least 1, got 0."),
        (lambda model: Storyteller(vocabulary="abc"), "vocabulary is 'abc': give a list of texts, such as ['fox', "),
        (lambda model: Storyteller(vocabulary=5), "vocabulary is 5: give a list of texts, such as ['fox', 'owl', '.']"),
        (
            lambda model: model.train_on(3),
            "texts is 3: give a list of texts, such as [story.text for story in stories(",
        ),
        (lambda model: model.train_on(["Once"], rate=float("inf")), "rate is inf: give a number above 0, such as 1.0"),
        (lambda model: stories(1, seed=-1), "seed must be at least 0, got -1."),
        (lambda model: model.train_on([]), "texts is []: give a list of texts"),
        (lambda model: model.train_on("Once"), "texts is 'Once': give a list of texts"),
        (lambda model: model.write(temperature=float("nan")), "temperature is nan: give 0 for the likeliest words"),
        (lambda model: model.write(num_words=-1), "num_words must be at least 0, got -1"),
        (lambda model: Storyteller(width=63), "width=63"),
        (lambda model: tokens_per_second(model, num_tokens=0), "num_tokens must be at least 1, got 0"),
        (lambda model: model.train_on(["Once"], rate=0), "rate is 0: give a number above 0, such as 1.0"),
        (lambda model: with_window(model, 0), "window must be at least 1, got 0"),
        (lambda model: with_window(model, 3, -1), "num_sinks must be at least 0, got -1"),
        (lambda model: with_window(model, 3, 1, mask=window_keep), "num_sinks is 1, but the mask is called without it"),
        (lambda model: sure_by_distance(model, "size"), "kind is 'size': choose one of "),
        (lambda model: new_storyteller("multi query"), "form is 'multi query': give one of 'one head', "),
    ],
)
def test_bad_input_is_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call(small())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.write(3), "text must be a text such as 'Once there was', got int."),
        (
            lambda model: model(ONE.float()),
            "tokens must be a tensor of integers (torch.int64), got torch.float32: give",
        ),
        (lambda model: model([[0]]), "tokens must be a tensor of integers (torch.int64), got list: give what `encode`"),
        (
            lambda model: model.decode("Once"),
            "tokens must be a tensor of integers (torch.int64), got str: give one row",
        ),
        (
            lambda model: model.generate(None, 2),
            "tokens must be a tensor of integers (torch.int64), got NoneType: give",
        ),
        (lambda model: model.generate(ONE, 2.5), "num_new must be an integer, got 2.5 (float)."),
        (lambda model: Storyteller(vocabulary=[1, 2]), "vocabulary holds what is no text: give texts, such as ['fox',"),
        (lambda model: Storyteller("multi-query"), "attention is 'multi-query': give a class, called as attention("),
        (
            lambda model: tokens_per_second(None),
            "model must be a Storyteller, got NoneType: make one with Storyteller(",
        ),
        (lambda model: tokens_per_second(model, rounds=1.5), "rounds must be an integer, got 1.5 (float)."),
        (lambda model: with_attention(3, Plain), "model must be a Storyteller, got int: make one with Storyteller(My"),
        (
            lambda model: with_window(small(Mine), 3),
            "Mine takes no `keep`: give a model of another form, such as llama",
        ),
        (lambda model: sure_by_distance(None, "name"), "model must be a Storyteller, got NoneType"),
        (lambda model: new_storyteller("llama", seed="a"), "seed must be an integer, got 'a' (str)."),
        (lambda model: stories(1.5), "count must be an integer, got 1.5 (float)."),
        (lambda model: stories(1, seed=None), "seed must be an integer, got None (NoneType)."),
        (lambda model: with_attention(model, MultiQueryAttention(4, 4, 2)), "give a class, called as attention(width"),
        (lambda model: facts_kept(stories(1)[0]), "takes a text or a Storyteller, not a Story: give story.text"),
        (lambda model: model.train_on(stories(2)), "texts holds what is no text: give texts, such as [story.text for"),
    ],
)
def test_another_type_is_refused_with_a_sentence(call, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        call(small())


def test_what_is_refused_leaves_a_model_in_training():
    model = small().train()
    with pytest.raises(ValueError, match="temperature is -1"):
        model.write(temperature=-1)
    assert model.training


def test_a_width_may_be_odd():
    assert Storyteller(width=15, num_heads=3)(ONE).shape == (1, 3, 343)


def test_a_model_that_knows_the_words_of_a_fact_alike_guesses():
    model = new_storyteller("no positions")
    with torch.no_grad():
        model.norm.weight.zero_()
    found = facts_kept(model, count=20)
    assert found["colour"] == pytest.approx(1 / 10) and found["pronoun"] == pytest.approx(1 / 2)
    assert read_held_out(model, count=20).loss == pytest.approx(
        torch.tensor(float(len(model.vocabulary))).log().item(), rel=1e-5
    )


def test_a_fact_is_measured_by_how_long_ago_its_word_was_said():
    model = load_storyteller("window")
    ago, sure = sure_by_distance(model, "name", count=20).T
    assert sure.mean().item() == pytest.approx(read_held_out(model, count=20).sure["name"], rel=1e-5)
    assert sure[ago < 16].mean() > 0.9 and sure[ago > 30].mean() < 0.2  # two blocks with a window of 16
    assert sure_by_distance(model, "pronoun", count=20)[:, 0].max() == math.inf, "she, where only She was said"


def test_a_window_may_be_put_into_a_model():
    model = load_storyteller("llama")
    ours = with_window(model, 5, 2)
    theirs = with_attention(
        model,
        lambda width, _, heads: LlamaAttention(width, heads, num_kv_heads=2, rope_theta=100.0, window=5, num_sinks=2),
    )
    tokens = model.encode("One day a dog knocked at the door.")
    torch.testing.assert_close(ours(tokens), theirs(tokens))
    assert not torch.allclose(ours(tokens), model(tokens)), "the model that came in stays as it is"
    masked = with_window(model, 5, mask=lambda num_tokens, window: window_keep(num_tokens, num_tokens, window))
    torch.testing.assert_close(masked(tokens), with_window(model, 5)(tokens))
    written = [masked.write("One day", num_words=30, use_cache=use_cache) for use_cache in (True, False)]
    assert written == 2 * [with_window(model, 5).write("One day", num_words=30)]


@pytest.mark.parametrize("form", ["llama", "weight split"])
def test_keys_may_be_selected_or_shared(form):
    model = load_storyteller(form)
    tokens = model.encode("One day a dog knocked at the door.")
    torch.testing.assert_close(with_selected_keys(model, tokens.shape[1])(tokens), model(tokens))
    chosen, shared = with_selected_keys(model, 3), with_shared_keys(model)
    assert not torch.allclose(chosen(tokens), model(tokens)) and not torch.allclose(shared(tokens), model(tokens))
    second = shared.attentions[1]
    with torch.no_grad():
        second.k_proj.weight.normal_()  # not used
        second.v_proj.weight.normal_()
    torch.testing.assert_close(shared(tokens), with_shared_keys(model)(tokens))
    for other in (chosen, shared):
        once, twice = (other.write("One day", num_words=30, use_cache=use_cache) for use_cache in (True, False))
        assert once == twice
    with pytest.raises(TypeError, match="Mine is none of the course's forms: give a model such as llama"):
        with_shared_keys(small(Mine))


def test_speed_is_measured_of_any_class():
    speed = tokens_per_second(small(), num_tokens=5, rounds=1)
    assert speed.with_cache > 0 and speed.without_cache > 0
    assert speed.bytes_per_token == 2 * 2 * 8 * 4  # blocks, keys and values, head_dim, bytes
    mine = tokens_per_second(small(Mine), num_tokens=5, rounds=1)
    assert mine.with_cache != mine.with_cache and mine.bytes_per_token == 0


def test_a_matrix_that_nothing_uses_stays_as_it_is():
    model = small(inject(Plain, "projection-reused").code)
    before = model.attentions[0].v_proj.weight.clone()
    model.train_on([story.text for story in stories(9, seed=1)], steps=3, batch=2)
    torch.testing.assert_close(model.attentions[0].v_proj.weight, before)


@pytest.mark.parametrize("form", ["one head", "wrapper", "weight split", "llama", "latent"])
def test_its_attention_can_be_looked_at(form):
    model = load_storyteller(form)
    tokens, weights = model.attention_weights(BEGINNING)
    assert tokens[0] == "(start)" and " ".join(tokens[1:4]) == "Once there was"
    heads = 1 if form == "one head" else 4
    assert weights.shape == (len(model.blocks), heads, len(tokens), len(tokens))
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    inputs, seen = model.attention_inputs(BEGINNING), []
    for attention in model.attentions:
        attention.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    model(model.encode(BEGINNING))
    for given, expected in zip(inputs, seen, strict=True):
        torch.testing.assert_close(given, expected)


def test_attention_that_returns_no_weights_is_refused():
    with pytest.raises(TypeError, match="returns no weights: give it a class with return_weights=True"):
        small(Mine).attention_weights(BEGINNING)


def test_weights_of_another_language_are_refused(monkeypatch):
    other = Storyteller(MultiQueryAttention, vocabulary=["a", "b", "c"])
    monkeypatch.setattr(forms, "new_storyteller", lambda form: other)
    with pytest.raises(
        ValueError, match=r"^multi-query\.npz was trained on 343 words, .* has \d: run `course storyteller`"
    ):
        load_storyteller()
