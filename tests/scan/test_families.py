"""Tiny models of transformers' families, and what a scan says of the releases in which some see the future.

In transformers 5.12.0 to 5.17.0 five families see the future, and in 5.18.0 none of them does, except Doge on
flex_attention, whose block mask it leaves out. To check a release:

    pip install "transformers==5.17.0" "huggingface-hub<2" "tokenizers==0.23.1"
    SCAN_FAMILIES=1 pytest tests/scan/test_families.py
"""

import os

import pytest
import torch

transformers = pytest.importorskip("transformers")

from course_lib.scan import NotBuilt, families, scan, tiny_context, tiny_model  # noqa: E402

RELEASE = tuple(int(part) for part in transformers.__version__.split(".")[:2])
SEE_THE_FUTURE = ["roformer", "big_bird", "rembert", "megatron-bert", "doge"]  # from 5.12 to 5.17
CONTROLS = [
    "apertus", "arcee", "bert", "biogpt", "bitnet", "bloom", "camembert", "codegen", "cohere", "cohere2", "electra",
    "ernie", "ernie4_5", "exaone4", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "gpt2", "gpt_bigcode", "gpt_neo",
    "gpt_neox", "gptj", "granite", "helium", "llama", "mistral", "mixtral", "mpt", "olmo", "olmo2", "opt", "phi",
    "phi3", "qwen2", "qwen3", "roberta", "smollm3", "starcoder2",
]  # fmt: skip
EVERY = bool(os.environ.get("SCAN_FAMILIES"))
IDS = torch.randint(3, 93, (2, 9), generator=torch.Generator().manual_seed(1))


@pytest.mark.slow
@pytest.mark.parametrize("family", CONTROLS if EVERY else ["gpt2", "llama", "gemma2"])
def test_nothing_is_wrong_with_a_control(family):
    report = scan(tiny_model(family), IDS)
    assert report.ok, report
    assert sum(outcome.status == "agrees" for outcome in report.outcomes) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("family", SEE_THE_FUTURE if EVERY else ["doge", "roformer"])
def test_the_families_that_see_the_future_are_found(family):
    report = scan(tiny_model(family), IDS)
    sees = (5, 12) <= RELEASE <= (5, 17)
    wrong = [outcome for outcome in report.wrong if outcome.path != "flex"]
    assert ("one pass" in {outcome.path for outcome in wrong}) == sees
    assert {outcome.path for outcome in wrong} <= {"one pass", "attention"}
    assert {outcome.mistake for outcome in wrong} == ({"no-causal-mask"} if sees else set())
    assert ("flex" in {outcome.path for outcome in report.wrong}) == (family == "doge" and not sees)
    for finding in report.findings[:1]:
        assert finding.where.file.endswith(f"modeling_{family.replace('-', '_')}.py")


@pytest.mark.slow
def test_a_mask_that_is_taken_away_is_found_in_a_family_that_is_right():
    """The scan can fail: without the causal mask, GPT-2 sees the future."""
    model = tiny_model("gpt2")
    from transformers.models.gpt2 import modeling_gpt2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modeling_gpt2, "create_causal_mask", lambda **_: torch.zeros(1, 1, 9, 9, dtype=torch.float64))
        report = scan(model, IDS, paths=["one pass"])
    assert [finding.mistake for finding in report.findings] == ["no-causal-mask"]
    assert report.findings[0].where.file.endswith("modeling_gpt2.py")


@pytest.mark.slow
def test_a_cache_that_is_asked_for_by_a_keyword_is_used():
    report = scan(tiny_model("granitemoe"), IDS, paths=["in chunks", "token by token", "padded, cached"])
    assert [outcome.status for outcome in report.outcomes] == ["agrees"] * 3


@pytest.mark.parametrize("family", ["jamba", "zamba", "bamba"])
def test_hybrid_families_get_few_layers_and_one_of_attention_at_least(family):
    kinds = [type(module).__name__ for module in tiny_model(family).modules()]
    assert 2 <= sum("Layer" in kind for kind in kinds) <= 8
    assert any(kind.endswith("Attention") for kind in kinds)


def test_ids_of_a_model_without_a_table_of_embeddings_are_not_examined_inside():
    class Counted(torch.nn.Module):
        def forward(self, ids):
            return torch.nn.functional.one_hot(ids, 97).cumsum(1).double()

    report = scan(Counted(), IDS, paths=["one pass", "attention"])
    assert [(outcome.path, outcome.status) for outcome in report.outcomes] == [
        ("one pass", "agrees"),
        ("attention", "not examined"),
    ]
    assert "give it embeddings" in report.outcomes[-1].detail


def test_families_are_named_and_refused_in_words():
    assert {"llama", "gpt2"} <= set(families())
    assert "cpmant" not in families()  # which is not causal
    with pytest.raises(ValueError, match="one of transformers' decoder models or encoder-decoders, such as 'llama'"):
        tiny_model("lama")
    with pytest.raises(NotBuilt, match=r"smallest configuration has 1.*parameters|has no attribute"):
        tiny_model("blt")


@pytest.mark.slow
def test_a_family_whose_layers_have_names_of_their_own_is_small_and_of_one_sample():
    model = tiny_model("prophetnet")  # 12 layers if nobody says how many
    assert model.config.num_decoder_layers == 2
    report = scan(model, IDS, paths=["attention"])
    # It does see the future, a little. Its values have the order (batch, head, stream), its keys (batch, stream, head).
    assert {outcome.mistake for outcome in report.wrong} == {"no-causal-mask"}, report


@pytest.mark.skipif(not EVERY, reason="takes long; SCAN_FAMILIES=1 runs it")
def test_blocks_that_overlap_in_an_encoder_are_not_taken_for_samples():
    context = tiny_context(tiny_model("pegasus_x"), 2)
    report = scan(tiny_model("pegasus_x"), IDS, context=context, paths=["attention"])
    assert not report.wrong, report
