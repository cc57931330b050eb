"""A checkpoint that `save_pretrained` wrote, with another attention in its layers, against transformers' own model."""

import json
import re
import socket
import sys

import pytest
import torch
from torch import nn

from course_lib.attention import LlamaAttention
from course_lib.checkpoint import load_checkpoint
from course_lib.exercises import ALL
from course_lib.mutations import inject

transformers = pytest.importorskip("transformers", minversion="5")
SIZES = {"hidden_size": 42, "num_attention_heads": 6, "head_dim": 10, "num_key_value_heads": 2, "vocab_size": 97}
SIZES |= {"intermediate_size": 50, "num_hidden_layers": 3}
MODELS = {
    "two kv heads": {},
    "three": {"num_key_value_heads": 3},
    "six": {"num_key_value_heads": 6},
    "one": {"num_key_value_heads": 1},
    "head_dim not given": {"hidden_size": 48, "head_dim": None},
    "tied embeddings": {"tie_word_embeddings": True},
    "Llama 3's base": {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
    "stored in bfloat16": {"dtype": torch.bfloat16},
    "biases in the MLP": {"mlp_bias": True},
    "Mistral's": {"family": "Mistral", "sliding_window": None},
}
SLIPS = ["missing-scale", "mask-off-by-one", "mask-with-zero", "no-causal-mask", "output-projection-missing"]
SLIPS += ["merge-without-transpose", "scores-from-values", "projection-reused", "heads-averaged"]
MyLlamaAttention = ALL["MyLlamaAttention"].solution


def my_class(kind=MyLlamaAttention):
    """The class of lesson 09, called as load_checkpoint calls it."""
    return lambda d_model, num_heads, *, num_kv_heads, head_dim, rope_theta: kind(
        d_model, num_heads * head_dim, num_heads, num_kv_heads, rope_theta
    )


class Wrapped(nn.Module):
    """`LlamaAttention` with o_proj for a name, and neither cache, nor positions, nor keep."""

    def __init__(self, *sizes, **options):
        super().__init__()
        inner = LlamaAttention(*sizes, **options)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = inner.q_proj, inner.k_proj, inner.v_proj, inner.out_proj
        self.inner = [inner]  # its parameters are those above

    def forward(self, x):
        return self.inner[0](x), None


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Return a function that saves a model with random weights, and returns its folder; no connection can be made."""

    def refuse(*_):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)

    def written(*, family="Llama", dtype=torch.float32, head="ForCausalLM", **options):
        config = getattr(transformers, f"{family}Config")(**{**SIZES, "initializer_range": 0.3, **options})
        getattr(transformers, family + head)(config).to(dtype).save_pretrained(tmp_path)
        return tmp_path

    return written


def draw_ids(*shape):
    return torch.randint(3, 97, shape)


def edit(folder, **settings):
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value != "drop"}))


def assert_writes_the_same(checkpoint, folder, ids, **options):
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None} | options
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert torch.equal(checkpoint.model.generate(ids, **options), theirs.generate(ids, **options))


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("model", MODELS)
def test_logits_and_written_tokens_are_those_of_transformers(model, save):
    folder, ids, mask = save(**MODELS[model]), draw_ids(2, 11), torch.ones(2, 11, dtype=torch.long)
    mask[1, :4] = 0
    state = torch.get_rng_state()
    checkpoint = load_checkpoint(folder)
    assert torch.equal(torch.get_rng_state(), state)
    for found in (checkpoint.compare(ids), checkpoint.compare(ids, attention_mask=mask)):
        assert found.first is None and found.with_cache and found.logits < 1e-4 and len(found.layers) == 3
    assert [type(each) for each in checkpoint.layers] == [LlamaAttention] * 3
    assert not any(module.training for module in checkpoint.model.modules())
    for options in ({}, {"use_cache": False}, {"num_beams": 3}, {"cache_implementation": "static"}):
        assert_writes_the_same(checkpoint, folder, ids, attention_mask=mask, **options)


def test_a_configuration_as_it_was_written_before_version_5(save):
    folder = save(rope_parameters={"rope_type": "default", "rope_theta": 700.0})
    edit(folder, rope_parameters="drop", rope_theta=700.0, rope_scaling=None, dtype="drop", torch_dtype="float32")
    checkpoint = load_checkpoint(str(folder))
    assert checkpoint.layers[0].rope_theta == 700.0 and checkpoint.compare(draw_ids(2, 11)).first is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_in_another_dtype(dtype, save):
    checkpoint = load_checkpoint(save(), dtype=dtype)
    assert {each.dtype for each in checkpoint.model.parameters()} == {dtype}
    assert checkpoint.compare(draw_ids(2, 11)).first is None
    checkpoint.model.float()
    assert checkpoint.compare(draw_ids(2, 11)).first is None


def test_the_class_of_lesson_08(save):
    folder = save(hidden_size=48, head_dim=8, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    checkpoint, ids = load_checkpoint(folder, attention=my_class()), draw_ids(2, 11)
    found = checkpoint.compare(ids)
    assert repr(found) == (
        f"MyLlamaAttention computes what transformers computes: the logits differ by at most {found.logits:.1e}."
    )
    assert_writes_the_same(checkpoint, folder, ids)


def test_a_class_that_takes_x_alone_writes_the_same_without_a_cache(save):
    folder, ids = save(), draw_ids(2, 11)
    checkpoint = load_checkpoint(folder, attention=Wrapped)
    found = checkpoint.compare(ids)
    assert found.first is None and not found.with_cache
    assert_writes_the_same(checkpoint, folder, ids)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    for options, words in (
        ({"use_cache": True}, "takes no cache=, but transformers' cache needs it: add it, or pass use_cache=False."),
        ({"attention_mask": mask.flip(1)}, "takes no keep=, but padding needs it: add it, or pass texts of one length"),
        ({"attention_mask": mask, "position_ids": draw_ids(2, 11)}, "takes no positions=, but padding on the left"),
    ):
        with pytest.raises(TypeError, match=re.escape(f"the forward of Wrapped {words}")):
            checkpoint.model(ids, **options)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_seen_in_the_first_layer(slip, save):
    folder = save(hidden_size=48, head_dim=8)
    wrong = my_class(inject(MyLlamaAttention, slip).code)
    found = load_checkpoint(folder, attention=wrong).compare(draw_ids(2, 11))
    assert found.first == 0 and not found.with_cache and found.logits > 1e-2
    assert repr(found) == (
        "MyLlamaAttention computes something else than transformers, first in layer 0: its output differs by up to "
        f"{found.layers[0]:.1e} there, and the logits by up to {found.logits:.1e}."
    )


class Restarting(LlamaAttention):
    """Positions begin at 0 in every call."""

    def forward(self, x, **options):
        return super().forward(x, **options | {"positions": torch.arange(x.shape[1])})


class WithNan(LlamaAttention):
    def forward(self, x, **options):
        return super().forward(x, **options) * torch.nan


def test_a_slip_in_decoding_is_seen_with_the_cache(save):
    found = load_checkpoint(save(), attention=Restarting).compare(draw_ids(2, 11))
    assert found.first == 0 and found.with_cache and found.logits > 1e-2
    assert repr(found).startswith("Restarting with a cache, and only then, computes something else")


class Doubling(LlamaAttention):
    def forward(self, x, positions=None, **options):
        return super().forward(x, positions=None if positions is None else 2 * positions, **options)


def test_a_slip_with_padding_is_seen_with_a_mask(save):
    checkpoint, ids, mask = load_checkpoint(save(), attention=Doubling), draw_ids(2, 11), torch.ones(2, 11)
    mask[1, :4] = 0
    assert checkpoint.compare(ids).first is None
    assert checkpoint.compare(ids, attention_mask=mask).first == 0


def test_nan_is_a_difference(save):
    assert load_checkpoint(save(), attention=WithNan).compare(draw_ids(2, 11)).first == 0


def test_one_wrong_layer_is_named(save):
    kinds = iter([LlamaAttention, LlamaAttention, WithNan])
    checkpoint = load_checkpoint(save(), attention=lambda *sizes, **options: next(kinds)(*sizes, **options))
    assert checkpoint.compare(draw_ids(2, 11)).first == 2


LLAMA_3_1 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "original_max_position_embeddings": 64}
REFUSED = {
    "another family": (
        {"model_type": "gpt2"},
        "model_type='gpt2', but only 'llama' or 'mistral' can be taken: choose a",
    ),
    "biases": ({"attention_bias": True}, "attention_bias=True, but only False can be taken: choose a model whose"),
    "dropout": ({"attention_dropout": 0.1}, "attention_dropout=0.1, but only 0.0 can be taken: write 0.0 into config"),
    "Llama 3.1's positions": (
        {"rope_parameters": LLAMA_3_1 | {"low_freq_factor": 1.0, "high_freq_factor": 4.0}},
        "rope_type='llama3', but only 'default' can be taken: choose a model whose positions are not scaled.",
    ),
    "positions scaled in the old way": (
        {"rope_parameters": "drop", "rope_scaling": {"type": "linear", "factor": 2.0}},
        "rope_type='linear', but only",
    ),
    "a window": (
        {"model_type": "mistral", "sliding_window": 64},
        "sliding_window=64, but only None can be taken: choo",
    ),
    "quantised weights": (
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        "quant_method='gptq', but only None can be taken: choose weights that are not quantised.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_that_the_course_does_not_have_are_refused(name, save):
    folder, (settings, words) = save(), REFUSED[name]
    edit(folder, **settings)
    with pytest.raises(ValueError, match=re.escape(f"{str(folder)!r} has {words}")):
        load_checkpoint(folder)


def test_folders_that_are_none_or_lack_a_file_are_refused(save, tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", None)  # no way to the hub
    for folder, online in ((tmp_path / "typo", True), ("some/model", False)):
        with pytest.raises(ValueError) as caught:
            load_checkpoint(folder, online=online)
        assert str(caught.value) == (
            f"there is no folder {str(folder)!r}: check its path, or, if it is a name on the Hugging Face hub, from "
            "which transformers may download, pass it as a string and online=True."
        )
    for file in ("model.safetensors", "config.json"):
        pattern = file.replace("model", "*")
        (save() / file).unlink()
        with pytest.raises(
            ValueError, match=re.escape(f" has no {pattern}: give one that model.save_pretrained wrote")
        ):
            load_checkpoint(tmp_path)


UNFIT_WEIGHTS = {
    "lack lm_head.weight": ({"head": "Model"}, {}),
    "have other sizes than config.json for model.layers.0.self_attn.k_proj.weight, model.lay": ({}, {"head_dim": 14}),
    "have what config.json has not, such as model.layers.2.input_layernorm.weight, mod": ({}, {"num_hidden_layers": 2}),
}


@pytest.mark.parametrize("words", UNFIT_WEIGHTS)
def test_weights_that_are_not_those_of_the_configuration_are_refused(words, save):
    written, edited = UNFIT_WEIGHTS[words]
    folder = save(**written)
    edit(folder, **edited)
    with pytest.raises(ValueError, match=re.escape(f"the weights in {str(folder)!r} {words}")):
        load_checkpoint(folder)


def test_what_transformers_says_of_a_broken_file_is_passed_on(save, tmp_path):
    (save() / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"^transformers can't open '.*': \w+: .+$"):
        load_checkpoint(tmp_path)


def test_only_whoever_is_online_and_says_so_asks_the_hub(save, monkeypatch):
    folder, asked = save(), []

    def ask(source, **options):
        asked.append((source, options["local_files_only"]))
        raise OSError("not found")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", ask)
    for source in ("some/model", str(folder)):
        with pytest.raises(ValueError) as caught:
            load_checkpoint(source, online=True)
        assert str(caught.value) == f"transformers can't open {source!r}: OSError: not found"
    assert asked == [("some/model", False), (str(folder), True)]


class Biased(LlamaAttention):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.q_proj = nn.Linear(42, 60)


class Narrow(LlamaAttention):
    def __init__(self, *sizes, head_dim, **options):
        super().__init__(*sizes, head_dim=head_dim - 2, **options)


class Unnamed(Wrapped):
    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.query = self.__dict__["_modules"].pop("q_proj")


SETTING = "build it for d_model=42, num_heads=6, num_kv_heads=2, head_dim=10, rope_theta=10000.0."
UNFIT = [
    ({}, TypeError, "attention must be a class or a function that builds a module, got a dict object."),
    (nn.Linear(2, 2), TypeError, "attention must be a class or a function that builds a module, got a Linear object."),
    (
        nn.MultiheadAttention,
        TypeError,
        "MultiheadAttention(d_model, num_heads, num_kv_heads=..., head_dim=..., rope_theta=...) can't be called (got "
        "an unexpected keyword argument 'num_kv_heads'): pass a function of these that calls MultiheadAttention.",
    ),
    (lambda *_, **__: None, TypeError, "attention must build a module, but <lambda> returned a NoneType object."),
    (Narrow, ValueError, f"q_proj.weight of Narrow is (48, 42), but the checkpoint's is (60, 42): {SETTING}"),
    (Unnamed, ValueError, f"q_proj.weight of Unnamed does not exist, but the checkpoint's is (60, 42): {SETTING}"),
    (Biased, ValueError, "the checkpoint has no weights for q_proj.bias of Biased: build it without."),
]


@pytest.mark.parametrize(("attention", "kind", "words"), UNFIT)
def test_an_attention_that_does_not_fit_is_refused(attention, kind, words, save):
    with pytest.raises(kind) as caught:
        load_checkpoint(save(), attention=attention)
    assert str(caught.value) == words


def test_an_output_of_another_shape_is_refused(save):
    checkpoint = load_checkpoint(save())
    checkpoint.layers[0].forward = lambda x, **options: x[:, 1:]
    with pytest.raises(
        ValueError, match=r"^LlamaAttention must return \(2, 11, 42\), torch\.float32, as it was given; go"
    ):
        checkpoint.model(draw_ids(2, 11))


IDS = [([1, 2], "list"), (torch.ones(2, 9), "torch.float32 of the shape (2, 9)"), (torch.full((1, 5), 97), "97 to 97")]
IDS += [
    (torch.arange(9), "torch.int64 of the shape (9,)"),
    (torch.ones(2, 3).long(), "torch.int64 of the shape (2, 3)"),
]


@pytest.mark.parametrize(("ids", "got"), IDS)
def test_ids_that_the_model_can_not_take_are_refused(ids, got, save):
    with pytest.raises(ValueError) as caught:
        load_checkpoint(save()).compare(ids)
    assert str(caught.value) == (
        "token_ids must be a tensor of integers, (batch, token), with at least 4 tokens, all below vocab_size=97, got "
        f"{got}: encode a text with the checkpoint's own tokenizer."
    )


@pytest.mark.parametrize(("mask", "got"), [((2, 5), r"\(2, 5\) with 10 tokens"), ((2, 9), r"\(2, 9\) with 0 tokens")])
def test_a_mask_of_another_shape_or_without_a_token_is_refused(mask, got, save):
    mask = torch.full(mask, int(mask[1] == 5))
    with pytest.raises(
        ValueError, match=rf"^attention_mask must be \(2, 9\), as token_ids are, .* got the shape {got}\.$"
    ):
        load_checkpoint(save()).compare(draw_ids(2, 9), attention_mask=mask)


def test_without_transformers_a_sentence_says_what_to_do(save, monkeypatch):
    folder = save()
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        ImportError, match=r"^load_checkpoint needs the package transformers, version 5 or later: pip inst"
    ):
        load_checkpoint(folder)
