"""Heads spread over devices: shards against the loop reference, and DTensor on one and on two real processes."""

import os
import re
import signal
import subprocess
import sys
import time
from math import prod

import pytest
import torch
import torch.distributed as dist

from course_lib.attention import KVCache, LatentAttention, LlamaAttention, MultiHeadAttention, SingleHeadAttention
from course_lib.attention.convert import split_to_wrapper
from course_lib.distributed import assign_heads, comparison, launch, launcher, shard, tensor_parallel
from course_lib.distributed.manual_shards import count_heads
from tests.attention.form_cases import FORMS, assert_same, build, draw_x, reference

SPLITTABLE = ["split", "split, own widths", "multi-query", "multi-query, own widths", "grouped 2", "grouped 6"]


# Which heads go where


@pytest.mark.parametrize(
    ("num_devices", "num_heads", "num_kv_heads"),
    [(1, 6, 3), (2, 6, 6), (2, 12, 4), (3, 6, 1), (4, 8, 2), (6, 12, 3), (5, 20, 10), (8, 8, 1)],
)
def test_every_head_goes_to_one_device_with_the_kv_heads_it_reads(num_devices, num_heads, num_kv_heads):
    assigned = [assign_heads(device, num_devices, num_heads, num_kv_heads) for device in range(num_devices)]
    assert [head for own in assigned for head in own.heads] == list(range(num_heads))
    for own in assigned:
        assert {head * num_kv_heads // num_heads for head in own.heads} == set(own.kv_heads)
        assert len(own.heads) == num_heads // num_devices
        assert len(own.heads) % len(own.kv_heads) == 0


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ((0, 0, 4, 2), ValueError, "num_devices must be at least 1, got 0."),
        ((0, 2, 4, 0), ValueError, "num_kv_heads must be at least 1, got 0."),
        ((0, 2, 4.0, 2), TypeError, "num_heads must be an integer, got 4.0 (float)."),
        (("0", 2, 4, 2), TypeError, "device must be an integer, got '0' (str)."),
        ((True, 2, 4, 2), TypeError, "device must be an integer, got True (bool)."),
        ((2, 2, 4, 2), ValueError, "device must be at least 0 and less than num_devices=2, got 2."),
        ((-1, 2, 4, 2), ValueError, "device must be at least 0 and less than num_devices=2, got -1."),
        (
            (0, 2, 9, 3),
            ValueError,
            "num_heads=9 can't be cut into num_devices=2 equal parts: choose num_heads=8 or 10, or a num_devices that "
            "divides it.",
        ),
        (
            (0, 4, 12, 6),
            ValueError,
            "num_kv_heads=6 can't be cut into num_devices=4 equal parts: choose num_kv_heads=4 or 8, or a num_devices "
            "that divides it or is a multiple of it.",
        ),
    ],
)
def test_heads_that_can_not_be_assigned(arguments, kind, words):
    with pytest.raises(kind) as error:
        assign_heads(*arguments)
    assert str(error.value) == words


# Cut by hand


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("name", "num_devices"),
    [(name, count) for name in SPLITTABLE for count in (1, 2, 3, 6) if (name, count) != ("grouped 2", 3)],
)
def test_shards_add_up_to_the_loop_reference(name, bias, num_devices):
    whole, x = build(name, bias=bias), draw_x()
    parts = [shard(whole, device, num_devices) for device in range(num_devices)]
    output, weights = reference(whole, name, x)
    assert_same(sum(part(x) for part in parts), output)
    by_device = [part(x, return_weights=True)[1] for part in parts]
    assert_same(torch.cat(by_device, dim=1), weights)
    held = [sum(parameter.numel() for parameter in part.q_proj.parameters()) for part in parts]
    assert held == [sum(parameter.numel() for parameter in whole.q_proj.parameters()) // num_devices] * num_devices


@pytest.mark.parametrize("learned_sinks", [False, True])
def test_shards_of_llama_add_up_and_keep_a_cache_each(learned_sinks):
    whole = LlamaAttention(20, 6, num_kv_heads=3, head_dim=4, learned_sinks=learned_sinks).double()
    if learned_sinks:
        torch.nn.init.normal_(whole.sink_logits)
    x = torch.randn(2, 7, 20, dtype=torch.float64)
    expected = whole(x)
    parts = [shard(whole, device, 3) for device in range(3)]
    assert_same(sum(part(x) for part in parts), expected, 1e-6)  # its softmax runs in float32
    caches = [KVCache(2, part.num_kv_heads, 7, 4, dtype=torch.float64) for part in parts]
    with torch.no_grad():
        steps = [
            sum(part(x[:, t : t + 1], cache=cache) for part, cache in zip(parts, caches, strict=True)) for t in range(7)
        ]
    assert_same(torch.cat(steps, dim=1), expected, 1e-6)
    assert sum(cache.nbytes for cache in caches) == KVCache(2, 3, 7, 4, dtype=torch.float64).nbytes


@pytest.mark.parametrize(("name", "swapped"), [("split", "k_proj"), ("grouped 2", "v_proj"), ("split", "out_proj")])
def test_a_shard_that_gets_the_weights_of_another_is_seen(name, swapped):
    whole, x = build(name), draw_x()
    parts = [shard(whole, device, 2) for device in range(2)]
    first, second = (getattr(part, swapped) for part in parts)
    setattr(parts[0], swapped, second)
    setattr(parts[1], swapped, first)
    assert (sum(part(x) for part in parts) - whole(x)).abs().max() > 1e-3


def test_the_bias_of_out_proj_is_added_once():
    whole = build("split", bias=True)
    parts = [shard(whole, device, 3) for device in range(3)]
    assert torch.equal(parts[0].out_proj.bias, whole.out_proj.bias)
    assert parts[0].out_proj.bias.requires_grad
    for part in parts[1:]:
        assert not part.out_proj.bias.any() and not part.out_proj.bias.requires_grad


def test_a_shard_is_a_copy_in_the_same_mode():
    whole = build("grouped 3, own widths", bias=True).train().requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
    part = shard(whole, 1, 3)
    assert part.training and all(module.training for module in part.modules())
    assert not any(parameter.requires_grad for parameter in part.parameters())
    for parameter in part.parameters():
        parameter.fill_(7.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in whole.state_dict().items())
    assert (whole.num_heads, whole.num_kv_heads, part.num_heads, part.num_kv_heads) == (6, 3, 2, 1)
    assert repr(part.k_proj) == "Linear(in_features=11, out_features=4, bias=True)"


def test_heads_are_counted_for_every_form():
    assert [count_heads(build(name)) for name in SPLITTABLE] == [
        (FORMS[name].num_heads, FORMS[name].num_kv_heads) for name in SPLITTABLE
    ]


@pytest.mark.parametrize(
    ("module", "kind", "words"),
    [
        (
            split_to_wrapper(MultiHeadAttention(3, 4, 2)),
            TypeError,
            "module must have all heads in one q_proj, k_proj and v_proj, got MultiHeadAttentionWrapper: carry a "
            "wrapper's weights over with wrapper_to_split.",
        ),
        (
            SingleHeadAttention(3, 4),
            TypeError,
            "module must have all heads in one q_proj, k_proj and v_proj, got SingleHeadAttention: carry a wrapper's "
            "weights over with wrapper_to_split.",
        ),
        (
            MultiHeadAttention(3, 4, 2, out_proj=False),
            ValueError,
            "module has out_proj=None, so the devices' outputs could not be added up: build it with out_proj=True.",
        ),
        (
            LatentAttention(3, 2, latent_dim=5, head_dim=4, rotary_dim=2),
            TypeError,
            "module is LatentAttention, and its latent serves all heads, so that each device would have to keep all of "
            "it: split the texts over the devices instead.",
        ),
    ],
)
def test_modules_whose_heads_cannot_be_split(module, kind, words):
    with pytest.raises(kind) as error:
        shard(module, 0, 2)
    assert str(error.value) == words


# The script in one process: a group of one


@pytest.fixture
def alone(monkeypatch):
    """No torchrun around this process, no GPU, and no group left behind."""
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COURSE_DEVICE", "cpu")
    yield
    left = dist.is_initialized()
    if left:
        dist.destroy_process_group()
    assert not left


def test_one_process_holds_everything(alone, capsys):
    sizes = ["--num-heads", "6", "--num-kv-heads", "3", "--d-in", "7", "--d-out", "30", "--batch", "3", "--tokens", "4"]
    assert tensor_parallel.main(["--form", *tensor_parallel.FORMS, *sizes]) == 0
    printed, said = capsys.readouterr()
    assert said == "1 processes, gloo on cpu\n"
    blocks = re.split(r"^(?=\S)", printed, flags=re.MULTILINE)[1:]
    heads = {"multi-head": "kv heads 0 to 5", "grouped-query": "kv heads 0 to 2", "multi-query": "kv head 0"}
    rows = {"multi-head": 30, "grouped-query": 15, "multi-query": 5}
    for block, form in zip(blocks, tensor_parallel.FORMS, strict=True):
        lines = block.splitlines()
        keys = f"({rows[form]}, 7)"
        assert lines[:4] == [
            f"{form}, 6 heads of width 5, on 1 device",
            f"  device 0: query heads 0 to 5, {heads[form]}",
            f"    holds              q_proj (30, 7), k_proj {keys}, v_proj {keys}, out_proj (30, 30)",
            "    as cut by hand     True",
        ]
        assert lines[-1] == f"    caches per token   {2 * rows[form] * 8} bytes"
        assert "False" not in block and block.count("True") == 5


def only_alone(module, given):
    """A token that comes alone is changed: decoding goes wrong, the rest stays."""
    return (given[0] * 1.001,) if given[0].shape[1] == 1 else None


MISTAKES = {
    "as cut by hand     ": lambda part: part.q_proj.weight.data.mul_(-1),
    "output ": lambda part: part.out_proj.register_forward_hook(lambda module, given, output: output + 1e-9),
    "gradient of x ": lambda part: part.q_proj.register_forward_pre_hook(lambda module, given: (given[0].detach(),)),
    "gradients of weights ": lambda part: part.v_proj.weight.register_hook(lambda gradient: gradient * 2),
    "cached decoding ": lambda part: part.register_forward_pre_hook(only_alone),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # CommDebugMode's, where x gets no gradient
@pytest.mark.parametrize("what", MISTAKES)
def test_a_planted_mistake_is_said_and_gives_status_1(alone, monkeypatch, capsys, what):
    place_on_mesh = comparison.place_on_mesh

    def spoiled(module, mesh):
        part = place_on_mesh(module, mesh)
        MISTAKES[what](part)
        return part

    monkeypatch.setattr(comparison, "place_on_mesh", spoiled)
    assert tensor_parallel.main([]) == 1
    printed = capsys.readouterr().out
    assert f"{what}False" in printed
    if what in ("gradient of x ", "gradients of weights ", "cached decoding "):
        assert printed.count("False") == 1 and printed.count("True") == 4


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--form", "flash"],
            "argument --form: invalid choice: 'flash' (choose from multi-head, grouped-query, multi-query).",
        ),
        (["--num-heads", "many"], "argument --num-heads: invalid int value: 'many'."),
        (["--heads", "8"], "unrecognized arguments: --heads 8."),
        (["--tokens", "0"], "--tokens must be at least 1, got 0."),
        (["--batch", "-2"], "--batch must be at least 1, got -2."),
        (["--d-in", "0"], "d_in must be at least 1, got 0."),
        (
            ["--num-heads", "7"],
            "d_out=24 can't be cut into num_heads=7 equal parts: choose d_out=21 or 28, or pass d_qk and d_v.",
        ),
    ],
)
def test_arguments_that_are_refused(alone, capsys, arguments, words):
    assert tensor_parallel.main(arguments) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.replace("'", "") == f"refused: {words}\n".replace("'", "")  # Python's argparse quotes or doesn't


def test_other_processes_are_silent(alone, monkeypatch, capsys):
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(tensor_parallel, "compare", lambda module, x, mesh: (["  device 1"], True))
    assert tensor_parallel.main([]) == 0
    assert tensor_parallel.main(["--form", "flash"]) == 2
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "num_devices", "words"),
    [
        (9, 9, 2, "num_heads=9 can't be cut into num_devices=2 equal parts: choose num_heads=8 or 10, or a num_devices "
         "that divides it."),
        (8, 2, 4, "num_kv_heads=2 can't be cut into num_devices=4 equal parts: choose num_kv_heads=4, or 1, which each "
         "device keeps whole."),
    ],
)  # fmt: skip
def test_heads_that_processes_cannot_share(num_heads, num_kv_heads, num_devices, words):
    options = ["--form", "grouped-query", "--d-out", "72", "--num-heads", f"{num_heads}", "--num-kv-heads"]
    with pytest.raises(ValueError) as error:
        tensor_parallel.read([*options, f"{num_kv_heads}"], num_devices)
    assert str(error.value) == words
    tensor_parallel.read(["--form", "multi-query"], 8)  # one kv head goes everywhere


# What a process computes on


@pytest.mark.parametrize(
    ("course_device", "gpus", "here", "expected"),
    [
        (None, 2, 2, "cuda:1"),
        ("cuda", 4, 2, "cuda:1"),
        ("cuda:0", 2, 2, "cuda:1"),
        ("cuda", 1, 2, "cpu"),
        ("cpu", 8, 2, "cpu"),
        (None, 0, 2, "cpu"),
    ],
)
def test_each_process_has_a_gpu_or_none_has(monkeypatch, course_device, gpus, here, expected):
    monkeypatch.delenv("COURSE_DEVICE", raising=False)
    if course_device is not None:
        monkeypatch.setenv("COURSE_DEVICE", course_device)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    assert tensor_parallel.device_of_process() == torch.device(expected)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: False)
    assert tensor_parallel.device_of_process() == torch.device("cpu")


def test_on_gpus_the_group_is_made_with_nccl(monkeypatch):
    calls = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(tensor_parallel, "device_of_process", lambda: torch.device("cuda", 1))
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(("gpu", device)))
    monkeypatch.setattr(dist, "init_process_group", lambda name, **options: calls.append((name, options)))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append("end"))
    with tensor_parallel.process_group(timeout=7) as device:
        assert calls[0] == ("gpu", device)
    name, options = calls[1]
    assert (name, options["device_id"], options["timeout"].seconds, len(options)) == ("nccl", device, 7, 2)
    assert calls[2:] == ["end"]


# Two real processes


def by_device(printed):
    """{(form, device): {what: the rest of its line}}"""
    found, form, device = {}, None, None
    for line in printed.splitlines():
        if not line.startswith(" "):
            form = line.partition(",")[0]
        elif not line.startswith("    "):
            device, _, heads = line.strip().partition(": ")
            found[form, int(device.removeprefix("device "))] = {"heads": heads}
        else:
            what, _, rest = line.strip().partition("   ")
            found[form, int(device.removeprefix("device "))][what] = rest.strip()
    return found


SIZES = {"batch": 3, "tokens": 4, "d-in": 7, "d-out": 30, "num-heads": 6}
OTHERS = """
import contextlib, copy, sys, torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from course_lib.attention import LlamaAttention, MultiHeadAttention, MultiQueryAttention
from course_lib.distributed import place_on_mesh, tensor_parallel
from course_lib.distributed.tensor_parallel import process_group
from course_lib.distributed.comparison import compare

def off(whole, x, mesh):
    part = place_on_mesh(copy.deepcopy(whole), mesh)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [module(each) for module, each in zip((whole, part), inputs)]
    for output in outputs:
        output.square().sum().backward()
    pairs = [outputs, [each.grad for each in inputs]]
    for one, two in zip(whole.parameters(), part.parameters()):
        own = one.grad if one.shape == two.shape else one.grad.chunk(2)[dist.get_rank()]
        pairs.append([own, two.grad.full_tensor() if hasattr(two.grad, "full_tensor") else two.grad])
    return max((one - two).abs().max().item() for one, two in pairs)

with process_group() as device:
    tensor_parallel.process_group = lambda: contextlib.nullcontext(device)
    status = tensor_parallel.main()
    if dist.get_rank() == 0:
        print("-- status", status)
    mesh = init_device_mesh(device.type, (2,))
    torch.manual_seed(0)
    x = torch.randn(2, 5, 12, dtype=torch.float64).to(device)
    found = {}
    for name, module in {
        "bias, own widths": MultiHeadAttention(12, 9, 4, bias=True, d_qk=8, d_v=20, causal=False),
        "fused": MultiHeadAttention(12, 8, 4, kernel="fused"),
        "llama": LlamaAttention(12, 4, num_kv_heads=2, head_dim=6),
        "learned sinks": LlamaAttention(12, 4, num_kv_heads=2, head_dim=6, learned_sinks=True),
        "one kv head, bias": MultiQueryAttention(12, 8, 4, bias=True),
    }.items():
        if name == "learned sinks":
            torch.nn.init.normal_(module.sink_logits)
        found[name] = off(module.double().to(device), x, mesh)
    torch.Tensor.register_hook = lambda *given: None
    lines, same = compare(MultiQueryAttention(12, 8, 4).double().to(device), x, mesh)
    if dist.get_rank() == 0:
        for name, difference in found.items():
            print(name, difference < 1e-9)
        print("forgotten:", same, lines[3].strip())
"""


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What the script printed, and what was tried after it: both in one launch, for starting takes most of the time."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "others.py").write_text(OTHERS, encoding="utf-8")
    sizes = [word for name, size in SIZES.items() for word in (f"--{name}", str(size))]
    printed = launch(2, "--form", *tensor_parallel.FORMS, *sizes, script=str(folder / "others.py"))
    said, _, rest = printed.partition("-- status ")
    return said, rest.splitlines()


@pytest.mark.slow
def test_two_processes_agree_with_one(two_processes):
    batch, tokens, d_in, d_out = (SIZES[name] for name in ("batch", "tokens", "d-in", "d-out"))
    printed, _ = two_processes
    found = by_device(printed)
    assert list(found) == [(form, device) for form in tensor_parallel.FORMS for device in (0, 1)]

    def once(*shapes):
        said = ", ".join(f"{shape} = {8 * prod(shape):,} bytes" for shape in shapes)
        return f"{len(shapes)} all_reduce: {said}"

    for (form, device), lines in found.items():
        kept = {"multi-head": 3, "grouped-query": 1, "multi-query": 1}[form]
        kv_heads = {"multi-head": ("kv heads 0 to 2", "kv heads 3 to 5")}.get(form, ("kv head 0", "kv head 1"))
        where = 0 if form == "multi-query" else device
        keys = (5 * kept, d_in)
        x_gradient = (batch, tokens, d_in)
        assert lines == {
            "heads": f"query heads {3 * device} to {3 * device + 2}, {kv_heads[where]}",
            "holds": f"q_proj (15, 7), k_proj {keys}, v_proj {keys}, out_proj (30, 15)",
            "as cut by hand": "True",
            "as one process": "output True, gradient of x True, gradients of weights True, cached decoding True",
            "sends forward": once((batch, tokens, d_out)),
            "sends backward": once(keys, keys, x_gradient) if form == "multi-query" else once(x_gradient),
            "sends per token": once((batch, 1, d_out)),
            "caches per token": f"{2 * 5 * kept * 8} bytes",
        }


@pytest.mark.slow
def test_two_processes_with_other_modules_and_a_forgotten_sum(two_processes):
    _, found = two_processes
    assert found == [
        "0",
        "bias, own widths True",
        "fused True",
        "llama True",
        "learned sinks True",
        "one kv head, bias True",
        "forgotten: False as one process     output True, gradient of x True, gradients of weights False, "
        "cached decoding True",
    ]


@pytest.mark.slow
def test_two_processes_refuse_with_one_sentence():
    with pytest.raises(ValueError) as error:
        launch(2, "--num-heads", "3")
    assert str(error.value) == (
        "num_heads=3 can't be cut into num_devices=2 equal parts: choose num_heads=2 or 4, or a num_devices that "
        "divides it."
    )


@pytest.mark.slow
def test_stopping_leaves_no_process(tmp_path):
    code = "import os, sys, time; open(f'{sys.argv[1]}/{os.getpid()}', 'w').close(); time.sleep(600)"
    (tmp_path / "sleeper.py").write_text(code, encoding="utf-8")
    pids = tmp_path / "pids"
    pids.mkdir()
    environment = launcher.process_environment() | {"PYTHONPATH": str(tmp_path)}
    command = [*launcher.torchrun_command(2), "-m", "sleeper", str(pids)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while len(list(pids.iterdir())) < 2:
            assert process.poll() is None
            time.sleep(0.1)
        launcher.stop(process)
    for pid in pids.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.name), 0)


# Starting processes, with a stand-in for torchrun


def stand_in(monkeypatch, code):
    monkeypatch.setattr(launcher, "torchrun_command", lambda num_processes: [sys.executable, "-c", code])


def test_what_is_printed_comes_back_and_the_rest_is_dropped(monkeypatch):
    stand_in(monkeypatch, "import sys; print('é', *sys.argv[1:]); print(); print('W1 quiet', file=sys.stderr)")
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    assert launch(2, "--form", "x") == "é -m course_lib.distributed.tensor_parallel --form x"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "3 processes failed; the last error: none was written"),
        ("Traceback\\n  File\\nKeyError: 5\\nE1121 failed\\nx.ChildFailedError: \\n===", "the last error: KeyError: 5"),
        ("python: No module named nothing\\n====", "the last error: python: No module named nothing"),
    ],
)
def test_a_failure_ends_with_its_last_error(monkeypatch, said, words):
    stand_in(monkeypatch, f"import sys; sys.stderr.write('{said}'); sys.exit(1)")
    with pytest.raises(RuntimeError) as error:
        launch(3)
    assert str(error.value).endswith(words) and str(error.value).startswith("3 processes failed; ")


def test_a_refusal_is_found_among_what_torchrun_says(monkeypatch):
    stand_in(monkeypatch, "import sys; sys.stderr.write('W1\\nrefused: no such form.\\nKeyError: 1\\n'); sys.exit(1)")
    with pytest.raises(ValueError, match=r"^no such form\.$"):
        launch(2)


@pytest.fixture
def stopped(monkeypatch):
    """The processes that were stopped."""
    seen, stop = [], launcher.stop
    monkeypatch.setattr(launcher, "stop", lambda process: (stop(process), seen.append(process)))
    return seen


def test_after_the_timeout_nothing_runs(monkeypatch, stopped):
    stand_in(monkeypatch, "import time; time.sleep(600)")
    with pytest.raises(RuntimeError) as error:
        launch(2, timeout=0.5)
    assert str(error.value) == (
        "2 processes gave no answer within 0.5 seconds and were stopped: close other programs, or give launch() a "
        "longer timeout."
    )
    assert stopped[0].returncode == -signal.SIGTERM


def test_who_does_not_listen_is_stopped_by_force(monkeypatch):
    monkeypatch.setattr(launcher, "STOP_SECONDS", 0.5)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); "
    command = [sys.executable, "-c", f"{code}time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        launcher.stop(process)
    assert process.returncode == -signal.SIGKILL


def test_an_interrupt_stops_the_processes(monkeypatch, stopped):
    def interrupted(process, timeout):
        raise KeyboardInterrupt

    stand_in(monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        launch(2)
    assert stopped[0].returncode == -signal.SIGTERM


def test_a_machine_without_a_loopback_is_refused_at_once(monkeypatch):
    def unreachable(address):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(launcher.socket, "create_server", unreachable)
    with pytest.raises(RuntimeError) as error:
        launch(2)
    assert str(error.value) == (
        "processes can't talk to each other through 127.0.0.1 here (Network is unreachable): in a sandbox without any "
        "network, switch its loopback interface on."
    )


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (0, ValueError, "num_processes must be at least 1, got 0."),
        ("2", TypeError, "num_processes must be an integer, got '2' (str)."),
    ],
)
def test_numbers_of_processes_that_are_refused(number, kind, words):
    with pytest.raises(kind) as error:
        launch(number)
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("interfaces", "chosen"), [(["lo", "eth0"], "lo"), (["en0", "lo0"], "lo0"), (["loopback_0"], None)]
)
def test_gloo_is_told_to_stay_on_this_machine(monkeypatch, interfaces, chosen):
    monkeypatch.setattr(launcher.socket, "if_nameindex", lambda: list(enumerate(interfaces)))
    for name in ("GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    variables = launcher.process_environment()
    assert variables.get("GLOO_SOCKET_IFNAME") == chosen
    assert (variables["OMP_NUM_THREADS"], os.pathsep in variables["PYTHONPATH"]) == ("1", False)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    variables = launcher.process_environment()
    assert (variables["GLOO_SOCKET_IFNAME"], variables["OMP_NUM_THREADS"]) == ("eth7", "3")
    assert variables["PYTHONPATH"].endswith(f"{os.pathsep}elsewhere")
