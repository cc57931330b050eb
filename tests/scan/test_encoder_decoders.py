"""Encoder-decoders: the decoder is causal, the encoder's padding is hidden, and the cache holds both attentions."""

import pytest
import torch
from torch import nn

from course_lib.command import main
from course_lib.scan import scan

pytestmark = pytest.mark.one_in(8)

IDS = torch.randint(3, 40, (2, 9), generator=torch.Generator().manual_seed(1))
SOURCE = torch.randint(3, 40, (2, 11), generator=torch.Generator().manual_seed(2))


class Attention(nn.Module):
    def __init__(self, axis=-1):
        super().__init__()
        self.axis = axis
        self.q_proj, self.kv_proj, self.out_proj = nn.Linear(12, 12), nn.Linear(12, 24), nn.Linear(12, 12)

    def forward(self, x, source, keep, kept=None, *, grows=False):
        """Return the output, and keys and values (2, batch, head, token, head_dim) of the source behind those kept."""
        queries = self.q_proj(x).unflatten(-1, (3, 4)).transpose(1, 2)
        keys = kept
        if kept is None or grows:
            keys = self.kv_proj(source).unflatten(-1, (2, 3, 4)).permute(2, 0, 3, 1, 4)
            keys = keys if kept is None else torch.cat([kept, keys], dim=3)
        scores = (queries @ keys[0].mT / 2).masked_fill(~keep, -1e9)
        return self.out_proj((scores.softmax(self.axis) @ keys[1]).transpose(1, 2).flatten(2)), keys


class Translator(nn.Module):
    """An encoder and a decoder of one block each; `src_mask` is bool (batch, token), True = real.

    Its cache is a dict; `mistake` plants one.
    """

    def __init__(self, mistake: str = "") -> None:
        super().__init__()
        self.embed, self.position, self.head = nn.Embedding(40, 12), nn.Embedding(32, 12), nn.Linear(12, 40)
        self.encoder = Attention(-2 if mistake == "softmax of the encoder" else -1)
        self.decoder, self.cross = Attention(), Attention()
        self.mistake = mistake
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4)

    def embedded(self, ids, before=0):
        return self.embed(ids) + self.position(torch.arange(before, before + ids.shape[1], device=ids.device))

    def forward(self, src, tgt, src_mask=None, cache=None):
        before = cache["self"].shape[3] if cache else 0
        shown = torch.ones_like(src, dtype=torch.bool) if src_mask is None else src_mask
        shown = shown[:, None, None, :]
        memory = self.embedded(src)
        memory = memory + self.encoder(memory, memory, shown)[0]
        x = self.embedded(tgt, before)
        causal = torch.ones(tgt.shape[1], before + tgt.shape[1], dtype=torch.bool, device=tgt.device).tril(before)
        causal = torch.ones_like(causal) if self.mistake == "sees the future" else causal
        context, keys = self.decoder(x, x, causal, cache["self"] if cache else None, grows=True)
        x = x + context
        if self.mistake == "mask unread" or (self.mistake == "cross mask when cached" and before):
            shown = torch.ones_like(shown)
        if self.mistake == "memory mixed":
            memory = memory.mean(0, keepdim=True).expand_as(memory)
        if self.mistake == "no cross-attention":
            return self.head(x)
        context, of_memory = self.cross(x, memory, shown, cache["cross"] if cache else None)
        if cache is not None:
            cache.update({"self": keys, "cross": of_memory * (1.1 if self.mistake == "cross cache" else 1)})
        return self.head(x + context)


class Unmasked(Translator):
    """A Translator that takes a mask of its source and leaves it out."""

    def forward(self, src, tgt, src_mask=None, cache=None):
        return super().forward(src, tgt, None, cache)


def scanned(mistake="", kind=Translator, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return scan(kind(mistake), IDS, context=SOURCE, make_cache=lambda x: {}, **options)


@pytest.mark.slow
def test_a_right_encoder_decoder_agrees_and_its_three_attentions_are_examined():
    report = scanned()
    assert report.ok, report
    agree = {outcome.path for outcome in report.outcomes if outcome.status == "agrees"}
    assert agree >= {"one pass", "context read", "context padded", "in chunks", "token by token", "one sample",
                     "three samples", "float32", "bfloat16", "attention"}  # fmt: skip
    (inside,) = [outcome for outcome in report.outcomes if outcome.path == "attention"]
    said = "2 attentions found, 2 examined: nothing wrong was found; of its encoder 1 attention examined"
    assert inside.detail == said


class Short(Translator):
    """A Translator with a table of few positions."""

    def __init__(self, mistake: str = "", positions: int = 12) -> None:
        super().__init__(mistake)
        self.position = nn.Embedding(positions, 12)
        nn.init.normal_(self.position.weight, std=0.4)


def test_the_encoder_is_examined_with_no_more_positions_than_x_has():
    (inside,) = scanned(kind=Short, paths=["attention"]).outcomes
    assert inside.detail.endswith("of its encoder 1 attention examined"), inside


class Block(nn.Module):
    """One attention, whose weights have a module of their own, of queries and of keys of the source."""

    class Weights(nn.Module):
        def forward(self, queries, keys, keep):
            return (queries @ keys.mT / 2).masked_fill(~keep, -1e9).softmax(-1)

    def __init__(self):
        super().__init__()
        self.q_proj, self.kv_proj, self.weights = nn.Linear(12, 12), nn.Linear(12, 24), self.Weights()

    def forward(self, x, source, keep):
        queries = self.q_proj(x).unflatten(-1, (3, 4)).transpose(1, 2)
        keys, values = self.kv_proj(source).unflatten(-1, (2, 3, 4)).permute(2, 0, 3, 1, 4)
        return x + (self.weights(queries, keys, keep) @ values).transpose(1, 2).flatten(2)


class Deep(Translator):
    """Its second decoder block depends on the source, too, and is none of the encoder's for that."""

    def __init__(self, mistake: str = "") -> None:
        super().__init__(mistake)
        self.blocks = nn.ModuleList(Block() for _ in range(5))

    def forward(self, src, tgt):
        memory, x = self.embedded(src), self.embedded(tgt)
        seen = torch.ones(1, dtype=torch.bool, device=tgt.device)
        causal = torch.ones(2 * [tgt.shape[1]], dtype=torch.bool, device=tgt.device).tril()
        memory = self.blocks[0](memory, memory, seen)
        for own, cross in (self.blocks[1:3], self.blocks[3:]):
            x = cross(own(x, x, causal), memory, seen)
        return self.head(x)


def test_the_decoders_second_block_is_not_taken_for_the_encoders():
    report = scanned(kind=Deep, paths=["attention"])
    (inside,) = report.outcomes
    assert inside.status == "agrees", inside
    assert inside.detail.startswith("4 attentions found, 4 examined: nothing wrong was found"), inside


def test_an_encoder_that_fails_says_why():
    report = scan(Short(positions=8), IDS[:, :7], context=SOURCE[:, :7], paths=["attention"])
    inside = report.outcomes[0]
    assert (inside.status, "IndexError" in inside.detail) == ("not examined", True), inside


@pytest.mark.parametrize(
    ("mistake", "path", "named"),
    [
        ("sees the future", "one pass", "no-causal-mask"),
        ("memory mixed", "one pass", "batch-mixed"),
        ("cross cache", "token by token", "paths-differ"),
        ("softmax of the encoder", "attention", "softmax-wrong-axis"),
        ("cross mask when cached", "context padded", "mask-skipped-when-cached"),
    ],
)
def test_a_mistake_of_one_side_is_found(mistake, path, named):
    report = scanned(mistake)
    assert (path, named) in [(outcome.path, outcome.mistake) for outcome in report.wrong], report


def test_a_mask_of_the_source_that_is_never_read_is_found():
    report = scanned(kind=Unmasked, paths=["context padded"])
    assert [outcome.mistake for outcome in report.wrong] == ["mask-discarded"], report


def test_a_mask_that_only_the_encoder_reads_is_not_cleared():
    report = scanned("mask unread", paths=["context padded"])
    assert report.exit_status == 2
    assert "no usual form of `src_mask` hides the padding" in str(report)


def test_a_context_that_is_not_read_is_said():
    (outcome,) = scanned("no cross-attention", paths=["context read"]).outcomes
    assert (outcome.status, outcome.detail) == ("remark", "another context changes no output")


@pytest.mark.slow
def test_a_module_of_pytorch_takes_its_masks_by_a_call():
    model = nn.Transformer(12, 3, 1, 1, 24, dropout=0.1, batch_first=True)

    def call(model, x, context, src_key_padding_mask=None, memory_key_padding_mask=None):
        causal = torch.ones(2 * [x.shape[1]], dtype=torch.bool, device=x.device).triu(1)
        return model(context, x, tgt_mask=causal, src_key_padding_mask=src_key_padding_mask,
                     memory_key_padding_mask=memory_key_padding_mask)  # fmt: skip

    generator = torch.Generator().manual_seed(0)
    x, context = (torch.randn(2, count, 12, generator=generator) for count in (7, 10))
    report = scan(model, x, context=context, call=call)
    assert not report.wrong, report
    assert "context padded" in {outcome.path for outcome in report.outcomes if outcome.status == "agrees"}, report


def test_the_command_takes_a_context(tmp_path, capsys):
    file = tmp_path / "translate.py"
    file.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Both(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.embed, self.q, self.out = nn.Embedding(40, 12), nn.Linear(12, 12),"
        " nn.Linear(12, 40)\n\n    def forward(self, ids, encoder_ids):\n        x, memory = self.embed(ids), "
        "self.embed(encoder_ids)\n        weights = (self.q(x) @ memory.mT * 12**-0.5).softmax(-1)\n"
        "        return self.out(x + weights @ memory)\n",
        encoding="utf-8",
    )
    source = ["--context", "torch.arange(22).view(2, 11)"]
    assert main(["scan", f"{file}:Both", *source, "--paths", "one pass, context read, one sample"]) == 0
    assert "Both: 3 paths run, all agree." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("context", "error", "words"),
    [
        ([1, 2], TypeError, "context must be a tensor of token ids or numbers, got list"),
        (torch.ones(2, 3, dtype=torch.bool), TypeError, "got torch.bool"),
        (torch.ones(3, 4), ValueError, r"context must have a row for each of the 2 samples of x, got \(3, 4\)"),
    ],
)
def test_a_bad_context_gets_one_sentence(context, error, words):
    with pytest.raises(error, match=words):
        scan(Translator(), IDS, context=context)


@pytest.mark.slow
def test_a_family_with_an_encoder_is_scanned_with_both_sides():
    pytest.importorskip("transformers")
    from course_lib.scan import families, tiny_context, tiny_model

    assert {"t5", "bart", "bart:encoder-decoder", "whisper:encoder-decoder"} <= set(families())
    model = tiny_model("t5")
    context = tiny_context(model, 2)
    assert context is not None and context.shape[0] == 2
    report = scan(model, IDS, context=context)
    assert not report.wrong, report
    assert {"context padded", "token by token", "attention"} <= {
        outcome.path for outcome in report.outcomes if outcome.status in ("agrees", "remark")
    }
