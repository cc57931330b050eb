"""The forms compiled, exported, on the meta device, on pretended CUDA tensors, and copied out of the course."""

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.overrides import TorchFunctionMode

import course_lib.attention
from course_lib.attention import (
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    attend,
    attend_fused,
    causal_keep,
    padding_keep,
)
from course_lib.attention.convert import split_to_wrapper, to_torch

from .form_cases import (
    BATCH,
    D_IN,
    D_OUT,
    FAMILY,
    FORMS,
    HEADS,
    KERNELS,
    TOKENS,
    assert_same,
    build,
    build_kernel,
    draw_x,
)
from .test_kv_cache import cache_for

SOME_KERNELS = [
    ("single head", "explicit"),
    ("wrapper", "explicit"),
    ("split, own widths", "explicit"),
    ("multi-query", "explicit"),
    ("grouped 2", "explicit"),
    ("split", "fused"),
    ("multi-query", "fused"),
    ("grouped 3, own widths", "fused"),
]


IN_THE_WILD = [
    ("multi-query", "explicit"),
    ("grouped 3, own widths", "fused"),
    ("llama", "explicit"),
    ("llama", "fused"),
    ("llama, window and sinks", "explicit"),
    ("latent", "explicit"),
    ("latent", "fused"),
]


def first_of(cases):
    """The same cases, of which the compiler and the exporter are asked only about the first of each kernel by default:
    all forms share their code."""
    kernels = [kernel for _, kernel in cases]
    return [
        case if kernels.index(case[1]) == at else pytest.param(*case, marks=pytest.mark.slow)
        for at, case in enumerate(cases)
    ]


def raw(name, **options):
    """A form as its constructor makes it, Llama's and latent attention among them; all take the same x."""
    if name == "llama":
        return LlamaAttention(D_IN, HEADS, num_kv_heads=2, head_dim=4, max_positions=64, **options)
    if name == "llama, window and sinks":
        return raw("llama", window=3, num_sinks=1, learned_sinks=True, **options)
    if name == "latent":
        return LatentAttention(D_IN, HEADS, latent_dim=7, head_dim=5, rotary_dim=4, max_positions=64, **options)
    return FORMS[name].build(**options)


def build_wild(name, kernel):
    """A form that takes a cache, in float64 and eval mode."""
    return raw(name, kernel=kernel).double().eval()


def build_to_compile(name, kernel):
    """As `build_kernel`, but a wrapper has two heads: the compiler goes through each one's code anew."""
    if name == "wrapper":
        return MultiHeadAttentionWrapper(D_IN, D_OUT, 2).double().eval()
    return build_kernel(name, kernel)


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def counter(fresh_compiler):
    from torch._dynamo.testing import CompileCounter  # two seconds that no other test needs

    return CompileCounter()


# --- torch.compile and torch.export ---


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kernel"), first_of(SOME_KERNELS))
def test_compiles_into_one_graph_forward_and_backward(name, kernel, fresh_compiler):
    module, x, keep = build_to_compile(name, kernel), draw_x(), padding_keep([TOKENS, 4], side="left")
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    output, expected = compiled(x, keep=keep), module(x, keep=keep)
    assert_same(output, expected)
    grads = [torch.autograd.grad((each**2).sum(), list(module.parameters())) for each in (output, expected)]
    for grad, expected_grad in zip(*grads, strict=True):
        assert_same(grad, expected_grad)


@pytest.mark.slow
def test_compiles_once_for_every_length(counter):
    module = build("split")
    compiled = torch.compile(module, fullgraph=True, backend=counter, dynamic=True)
    for tokens in (5, 8, 13):
        x = draw_x(batch=3, tokens=tokens)
        assert_same(compiled(x), module(x))
    assert counter.frame_count == 1


@pytest.mark.slow
def test_compiles_with_weights_and_in_training(fresh_compiler):
    module, x = build("grouped 2", dropout=0.5).train(), draw_x()
    output, weights = torch.compile(module, fullgraph=True, backend="eager")(x, return_weights=True)
    assert output.shape == (*x.shape[:2], D_OUT)
    assert (weights[..., causal_keep(TOKENS)] == 0).any()


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "kernel"), first_of(IN_THE_WILD))
def test_compiles_with_a_cache_and_not_anew_for_every_step(name, kernel, counter):
    module, x = build_wild(name, kernel), draw_x()
    compiled, cache = torch.compile(module, fullgraph=True, backend=counter), cache_for(module)
    with torch.no_grad():
        outputs = [compiled(part, cache=cache) for part in x.split([4, *[1] * (TOKENS - 4)], dim=1)]
    assert_same(torch.cat(outputs, dim=1), module(x), 1e-6)
    assert cache.length == TOKENS
    assert counter.frame_count <= 4  # the prompt, the first step, a step of any length; and one to spare


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_llama_compiles_with_positions_forward_and_backward(kernel, fresh_compiler):
    module, x = build_wild("llama", kernel), draw_x()
    keep = padding_keep([TOKENS, 4], side="left")
    positions = (keep[:, 0, 0].long().cumsum(-1) - 1).clamp(min=0)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    output, expected = (each(x, keep=keep, positions=positions) for each in (compiled, module))
    assert_same(output, expected, 1e-6)
    grads = [torch.autograd.grad((each**2).sum(), list(module.parameters())) for each in (output, expected)]
    for grad, expected_grad in zip(*grads, strict=True):
        assert_same(grad, expected_grad, 1e-6)


@pytest.mark.parametrize(
    ("name", "kernel"), [("split", "explicit"), ("multi-query", "fused"), ("grouped 3, own widths", "fused")]
)
def test_cross_attention_compiles(name, kernel, fresh_compiler):
    module, x, context = build_kernel(name, kernel, causal=False), draw_x(tokens=5), draw_x(tokens=8)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert_same(compiled(x, context=context), module(x, context=context))


@pytest.mark.slow
def test_a_full_cache_is_refused_when_compiled_too(fresh_compiler):
    module, x = build("grouped 2"), draw_x()
    cache, compiled = cache_for(module), torch.compile(module, backend="eager")
    with torch.no_grad():
        compiled(x, cache=cache)
        with pytest.raises(ValueError, match="the cache holds 9 of max_len=9 tokens and has no room for 1 more"):
            compiled(x[:, :1], cache=cache)
    assert cache.length == TOKENS


@pytest.mark.slow
def test_a_refusal_stays_a_refusal_when_compiled(fresh_compiler):
    compiled = torch.compile(build("split"), backend="eager")
    with pytest.raises(TypeError, match="keep must be bool with True = may attend"):
        compiled(draw_x(), keep=torch.ones(TOKENS, TOKENS))


def has_cpp_compiler():
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler

        return bool(get_cpp_compiler())
    except Exception:
        return False


@pytest.mark.slow
@pytest.mark.skipif(" " in torch.__file__, reason="torch.compile's own backend does not quote a folder with a space")
def test_compiles_to_machine_code(fresh_compiler):
    if not has_cpp_compiler():
        pytest.skip("torch.compile's own backend needs a C++ compiler, none is here")
    module, x = build("single head", dtype=torch.float32), draw_x(dtype=torch.float32)
    # Neither headers for kernels to come nor trial programs for the processor: most of the compiler's time goes there.
    quick = {"cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}
    with torch.no_grad(), torch._inductor.config.patch(quick):
        assert_same(torch.compile(module, fullgraph=True)(x), module(x), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kernel"), first_of(SOME_KERNELS))
def test_exports_for_every_batch_and_length(name, kernel):
    # Dim.DYNAMIC rather than Dim("token"): of a folded axis PyTorch asks min(t, t * t) == t, and can't prove it.
    module, sizes = build_to_compile(name, kernel), {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    exported = torch.export.export(module, (draw_x(),), dynamic_shapes=(sizes,)).module()
    for batch, tokens in ((2, TOKENS), (3, 4), (7, 33)):
        x = draw_x(batch=batch, tokens=tokens)
        assert_same(exported(x), module(x))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kernel"), [("split", "explicit"), ("multi-query", "fused"), ("wrapper", "explicit")])
def test_exports_with_a_mask(name, kernel):
    module = build_to_compile(name, kernel)
    shapes = {"x": {1: Dim.DYNAMIC}, "keep": {3: Dim.DYNAMIC}}
    options = {"keep": padding_keep([TOKENS, 4])}
    exported = torch.export.export(module, (draw_x(),), options, dynamic_shapes=shapes).module()
    x, keep = draw_x(tokens=6), padding_keep([6, 3])
    assert_same(exported(x, keep=keep), module(x, keep=keep))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kernel"), first_of(IN_THE_WILD[2:]))
def test_forms_with_rotary_positions_export_for_every_batch_and_length(name, kernel):
    module, sizes = build_wild(name, kernel), {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    exported = torch.export.export(module, (draw_x(),), dynamic_shapes=(sizes,)).module()
    for batch, tokens in ((2, TOKENS), (3, 4), (7, 33)):
        x = draw_x(batch=batch, tokens=tokens)
        assert_same(exported(x), module(x), 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kernel"), [("split", "explicit"), ("grouped 2", "fused")])
def test_cross_attention_exports_for_every_pair_of_lengths(name, kernel):
    module = build_kernel(name, kernel, causal=False)
    shapes = {"x": {1: Dim.DYNAMIC}, "context": {1: Dim.DYNAMIC}}
    options = {"context": draw_x(tokens=6)}
    exported = torch.export.export(module, (draw_x(),), options, dynamic_shapes=shapes).module()
    for queries, keys in ((TOKENS, 6), (4, 13), (8, 8)):
        x, context = draw_x(tokens=queries), draw_x(tokens=keys)
        assert_same(exported(x, context=context), module(x, context=context))


# --- devices that are not here ---


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_on_the_meta_device(name, kernel):
    module, x = build_kernel(name, kernel, bias=True).to("meta"), draw_x().to("meta")
    keep = padding_keep(torch.tensor([TOKENS, 4], device="meta"), TOKENS)
    output = module(x, keep=keep)
    assert output.device.type == "meta"
    assert output.shape == (*x.shape[:2], 13 if name == "single head" else D_OUT)


class PretendedCuda(TorchFunctionMode):
    """`~mask`, `x[:, None]` and `x[:3] = y` ask for a CUDA driver even of fake tensors: say it in other words."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__invert__:
            return args[0].logical_not()
        if func is torch.Tensor.__getitem__:
            return self.index(*args)
        if func is torch.Tensor.__setitem__:
            part, value = self.index(*args[:2]), args[2]
            if (part.shape, part.device, part.dtype) != (value.shape, value.device, value.dtype):
                raise RuntimeError(f"{value} does not go into {part}")
            return None  # pretended numbers are not there to be written
        return func(*args, **(kwargs or {}))

    @staticmethod
    def index(tensor, index):
        axis = 0
        for part in index if isinstance(index, tuple) else (index,):
            if part is None:
                tensor = tensor.unsqueeze(axis)
            elif isinstance(part, int):
                tensor = tensor.select(axis, part)
                continue
            elif isinstance(part, slice) and part.step is None:
                start, stop, _ = part.indices(tensor.shape[axis])
                tensor = tensor.narrow(axis, start, stop - start)
            elif isinstance(part, torch.Tensor) and tensor.dim() == 2 and axis == 0:
                tensor = nn.functional.embedding(part, tensor)
            else:
                raise NotImplementedError(f"the index {part!r} has no other words here yet")
            axis += 1
        return tensor


@pytest.fixture
def pretended_cuda():
    with torch.no_grad(), FakeTensorMode(), PretendedCuda():
        try:
            queries = torch.empty(1, 1, 2, 8, device="cuda")
            nn.functional.scaled_dot_product_attention(queries, queries, queries)
        except RuntimeError as error:
            if "driver" not in str(error):
                raise
            pytest.skip("this CUDA build of PyTorch asks for a GPU's driver even when its tensors are pretended")
        yield


def to_fake_cuda(module, dtype=torch.float32):
    """Swap the parameters for pretended CUDA ones, and the buffers, in their own dtype."""
    for each in module.modules():
        for name, parameter in each._parameters.items():
            if parameter is not None:
                fake = torch.empty(parameter.shape, dtype=dtype, device="cuda")
                each._parameters[name] = nn.Parameter(fake, requires_grad=False)
        for name, buffer in each._buffers.items():
            each._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device="cuda")
    return module


def test_the_pretence_notices_a_mask_left_on_the_cpu(pretended_cuda):
    scores = torch.empty(2, 6, 5, 5, device="cuda")
    with pytest.raises(RuntimeError, match=r"same device|different devices"):
        scores.masked_fill(torch.ones(5, 5, dtype=torch.bool), 0.0)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_on_pretended_cuda_every_mask_is_built_where_x_is(name, kernel, dtype, pretended_cuda):
    module = FORMS[name].build(bias=True, **({"kernel": kernel} if kernel == "fused" else {}))
    to_fake_cuda(module, dtype)
    x = torch.empty(2, TOKENS, D_IN, dtype=dtype, device="cuda")
    heads = FORMS[name].num_heads
    masks = [(TOKENS, TOKENS), (2, 1, 1, TOKENS), (heads, 1, TOKENS), (2, heads, TOKENS, TOKENS)]
    for keep in (None, *(torch.ones(shape, dtype=torch.bool, device="cuda") for shape in masks)):
        output = module(x, keep=keep)
        assert output.device.type == "cuda"
        assert output.dtype == dtype
    if kernel == "explicit":
        assert module(x, return_weights=True)[1].device.type == "cuda"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("name", "kernel"), IN_THE_WILD)
def test_on_pretended_cuda_with_a_cache(name, kernel, dtype, pretended_cuda):
    module = to_fake_cuda(raw(name, kernel=kernel), dtype)
    with torch.device("cuda"):
        cache, x = cache_for(module), torch.empty(BATCH, TOKENS, D_IN, dtype=dtype)
        keep = torch.ones(BATCH, 1, 1, TOKENS, dtype=torch.bool)
    for start, end in ((0, 4), (4, 5), (5, 9)):
        options = {"absorb": True} if name == "latent" and end == 5 else {}
        output = module(x[:, start:end], cache=cache, keep=keep[:, :, :, :end], **options)
        assert (output.device.type, output.dtype) == ("cuda", dtype)
    assert {cache.keys.device.type, cache.values.device.type} == {"cuda"}
    on_cpu = cache_for(module, device="cpu")
    sentence = r"^keys are on cuda:0, but the cache is on cpu: build KVCache with device='cuda:0'\.$"
    with pytest.raises(ValueError, match=sentence):
        module(x, cache=on_cpu)


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_on_pretended_cuda_llama_with_positions(kernel, pretended_cuda, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # pretended positions hold no numbers to check
    module = to_fake_cuda(raw("llama", kernel=kernel))
    with torch.device("cuda"):
        x = torch.empty(BATCH, TOKENS, D_IN)
        for positions in (torch.arange(TOKENS), torch.zeros(BATCH, TOKENS, dtype=torch.int64)):
            assert module(x, positions=positions).device.type == "cuda"
        with pytest.raises(ValueError, match=r"^positions are on cpu, but the module is on cuda:0: call positions\.to"):
            module(x, positions=torch.arange(TOKENS, device="cpu"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_on_pretended_cuda_cross_attention(name, kernel, pretended_cuda):
    module = to_fake_cuda(raw(name, kernel=kernel, causal=False))
    with torch.device("cuda"):
        x, context = torch.empty(BATCH, 5, D_IN), torch.empty(BATCH, 8, D_IN)
        keep = torch.ones(BATCH, 1, 1, 8, dtype=torch.bool)
    assert module(x, keep=keep, context=context).device.type == "cuda"
    with pytest.raises(
        ValueError, match=r"^context is on cpu, but the module's weights are on cuda:0: call context\.to"
    ):
        module(x, context=torch.empty(BATCH, 8, D_IN))


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_a_cpu_mask_or_a_cpu_x_beside_cuda_is_refused(name, kernel, pretended_cuda):
    module = FORMS[name].build(**({"kernel": kernel} if kernel == "fused" else {}))
    on_cpu, on_cuda = (torch.empty(2, TOKENS, D_IN, device=device) for device in ("cpu", "cuda"))
    with pytest.raises(ValueError, match=r"^x is on cuda:0, but .* weights are on cpu: call x\.to\('cpu'\)\.$"):
        module(on_cuda)
    to_fake_cuda(module)
    keep = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"^keep is on cpu, but .* on cuda:0: call keep\.to\('cuda:0'\)\.$"):
        module(on_cuda, keep=keep)
    with pytest.raises(ValueError, match=r"^x is on cpu, but .* on cuda:0: call x\.to\('cuda:0'\)\.$"):
        module(on_cpu)


@pytest.mark.parametrize("value_dim", [8, 4])
@pytest.mark.parametrize("query_len", [1, 5])
def test_attend_on_pretended_cuda(query_len, value_dim, pretended_cuda):
    queries, keys = torch.empty(2, 6, query_len, 8, device="cuda"), torch.empty(2, 2, 7, 8, device="cuda")
    values = torch.empty(2, 2, 7, value_dim, device="cuda")
    keep = causal_keep(query_len, 7, device="cuda")
    context, weights = attend(queries, keys, values, keep, 0.1)
    fused = attend_fused(queries, keys, values, keep)
    assert {each.device.type for each in (context, weights, fused)} == {"cuda"}
    assert context.shape == fused.shape == (2, 6, query_len, value_dim)
    with pytest.raises(ValueError, match=r"^keys are on cpu, but queries are on cuda:0: move them\.$"):
        attend(queries, keys.cpu(), values)


@pytest.mark.parametrize("query_len", [1, 5])
def test_on_cuda_shared_heads_are_folded(query_len, pretended_cuda, monkeypatch):
    # There, a mask beside enable_gqa=True leaves only the kernel that copies keys and values for every head.
    kv_heads = []

    def spy(queries, keys, values, *args, enable_gqa=False):
        kv_heads.append((queries.shape[1], keys.shape[1], enable_gqa))
        return original(queries, keys, values, *args, enable_gqa=enable_gqa)

    original = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    queries, keys = torch.empty(2, 6, query_len, 8, device="cuda"), torch.empty(2, 2, 7, 8, device="cuda")
    attend_fused(queries, keys, keys, causal_keep(query_len, 7, device="cuda"))
    assert kv_heads == [(2, 2, False)]


@pytest.mark.parametrize(
    ("queries", "masked", "expected"),
    [
        (7, False, ((2, 6, 7, 8), None, True, True)),  # a prompt: the flash kernel reads shared heads where they are
        (5, False, ((2, 2, 15, 8), (1, 2, 15, 7), False, False)),  # a chunk behind a cache needs a mask
        (7, True, ((2, 2, 21, 8), (2, 2, 21, 7), False, False)),  # so does padding
        (1, False, ((2, 2, 3, 8), None, False, False)),  # a step
    ],
)
def test_on_cuda_shared_heads_go_unfolded_only_where_the_flash_kernel_takes_them(
    queries, masked, expected, pretended_cuda, monkeypatch
):
    calls = []

    def spy(queries, keys, values, mask=None, dropout_p=0.0, is_causal=False, *, enable_gqa=False):
        calls.append((tuple(queries.shape), None if mask is None else tuple(mask.shape), is_causal, enable_gqa))
        return queries

    # As PyTorch answers: its flash kernel takes no mask.
    monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", lambda question: question.attn_mask is None)
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", spy)
    with torch.device("cuda"):
        tensors = torch.empty(2, 6, queries, 8), *torch.empty(2, 2, 2, 7, 8)
        keep = torch.ones(2, 1, 1, 7, dtype=torch.bool) if masked else None
    attend_fused(*tensors, keep, causal=True)
    assert calls == [expected]


@pytest.mark.slow
def test_conversions_stay_on_the_device(pretended_cuda):
    module = to_fake_cuda(MultiHeadAttention(24, 24, HEADS, bias=True, out_proj=False))
    for converted in (split_to_wrapper(module), to_torch(module)):
        assert {parameter.device.type for parameter in converted.parameters()} == {"cuda"}


# --- copied out ---


@pytest.mark.slow
def test_a_copy_of_the_folder_under_another_name_works_with_torch_alone(tmp_path):
    shutil.copytree(Path(course_lib.attention.__file__).parent, tmp_path / "my_attention")
    script = """
        import sys

        BLOCKED = ("course_lib", "matplotlib", "seaborn", "pandas", "IPython", "transformers")

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in BLOCKED:
                    raise ImportError(name + " is blocked")

        sys.meta_path.insert(0, Blocker())
        sys.path.insert(0, sys.argv[1])
        import torch
        from my_attention import GroupedQueryAttention, KVCache, LlamaAttention, MultiHeadAttentionWrapper
        from my_attention import BlockPool, LatentAttention, PagedKVCache, RollingKVCache
        from my_attention.convert import multi_query_to_multi_head, wrapper_to_split

        x = torch.randn(2, 5, 3)
        for module, convert in (
            (MultiHeadAttentionWrapper(3, 8, 4), wrapper_to_split),
            (GroupedQueryAttention(3, 8, 4, 2), multi_query_to_multi_head),
        ):
            torch.testing.assert_close(convert(module)(x), module(x))
        llama, cache, x = LlamaAttention(8, 4, num_kv_heads=2), KVCache(2, 2, 5, 2), torch.randn(2, 5, 8)
        with torch.no_grad():
            cached = torch.cat([llama(token, cache=cache) for token in x.split(1, dim=1)], dim=1)
            torch.testing.assert_close(cached, llama(x))
            llama.window, cache = 2, RollingKVCache(2, 2, 2, 2)
            cached = torch.cat([llama(token, cache=cache) for token in x.split(1, dim=1)], dim=1)
            torch.testing.assert_close(cached, llama(x))
            latent = LatentAttention(8, 4, latent_dim=3, head_dim=2, rotary_dim=2)
            cache = PagedKVCache(BlockPool(2, 4, 1, 2, value_dim=3))
            torch.testing.assert_close(latent(x[:1], cache=cache), latent(x[:1], absorb=True))
        print("works")
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, "works\n"), run.stderr
