"""The class of lesson 09 is Llama 3's attention at its settings, and a decoding step of it copies no key."""

import pytest
import torch

from course_lib.attention import LlamaAttention
from course_lib.exercises import ALL
from course_lib.exercises.wrong_answers import EditedSolution
from course_lib.recorder import record

MyLlamaAttention, MyCache = ALL["MyLlamaAttention"].solution, ALL["MyCache"].solution
Repeating = EditedSolution(
    MyLlamaAttention,
    "folded = queries.reshape(len(x), self.num_kv_heads, -1, self.head_dim) => folded = queries; keys, values = "
    "(x.repeat_interleave(queries.shape[1] // self.num_kv_heads, dim=1) for x in (keys, values))",
)


@pytest.mark.slow
def test_its_base_and_its_length_are_those_of_llama_3():
    """Base 500000, two kv heads, more tokens than the table of 512; with base 10000 the outputs are far off."""
    x = torch.randn(2, 530, 96, dtype=torch.float64)
    reference = LlamaAttention(96, 6, num_kv_heads=2, rope_theta=500000.0).double()
    with torch.no_grad():
        reference.q_proj.weight *= 4
        outputs = {}
        for base in (500000.0, 10000.0):
            own = MyLlamaAttention(96, 96, 6, 2, base, 1024).double()
            own.load_state_dict(reference.state_dict())
            outputs[base] = (own(x) - reference(x)).abs().max().item()
    assert outputs[500000.0] < 1e-4 < 0.05 < outputs[10000.0]


@pytest.mark.parametrize(("layer_class", "copies"), [(MyLlamaAttention, False), (Repeating, True)])
def test_a_decoding_step_copies_no_key_for_the_query_heads(layer_class, copies):
    batch, heads, kv_heads, cached, width = 3, 8, 2, 40, 6
    layer, cache = layer_class(5, heads * width, heads, kv_heads), MyCache(batch, kv_heads, 64, width)
    with torch.no_grad():
        layer(torch.randn(batch, cached, 5), cache=cache)
        recording = record(layer, torch.randn(batch, 1, 5), cache=cache)
    written = [op for step in recording.all_steps for op in step.aten_ops if op.effect in ("copy", "compute")]
    assert any("bmm" in op.op for op in written)
    keys_of_all_heads = batch * heads * (cached + 1) * width
    assert (max(torch.Size(op.shape).numel() for op in written) >= keys_of_all_heads) == copies
