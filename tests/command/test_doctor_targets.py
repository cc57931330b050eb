"""What `course doctor` can be pointed at: code of strangers, in packages, with configurations, behind factories."""

import json
import re
import sys
import textwrap

import pytest
import torch

from course_lib import about
from course_lib.command import main
from course_lib.command.target.example_arguments import example_of
from course_lib.diagnosis import diagnose

GPT = """\
import math
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import nn


@dataclass
class GPTConfig:
    block_size: int = 1024
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.1


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.drop, self.n_head = nn.Dropout(config.dropout), config.n_head
        self.register_buffer("bias", torch.tril(torch.ones(config.block_size, config.block_size)))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.n_head, -1).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=-1))
        att = q @ k.mT / math.sqrt(c)
        att = self.drop(att.masked_fill(self.bias[:t, :t] == 0, -torch.inf).softmax(-1))
        return self.c_proj((att @ v).transpose(1, 2).reshape(b, t, c))


class WholeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attn = nn.Embedding(96, 24), build()

    def forward(self, ids):
        return self.attn(self.embed(ids))


class Duck(CausalSelfAttention):
    def __init__(self, opt):
        nn.Module.__init__(self)
        self.c_attn, self.c_proj = nn.Linear(opt.width, 3 * opt.width), nn.Linear(opt.width, opt.width)
        self.drop, self.n_head = nn.Dropout(opt.p), opt.heads
        self.register_buffer("bias", torch.tril(torch.ones(99, 99)))


@dataclass
class Heads:
    num_heads: int
    head_dim: int


@dataclass
class Whole:
    d_model: int
    heads: Heads
    context_length: int = 512


class Nested(nn.Module):
    def __init__(self, cfg: Whole):
        super().__init__()
        sizes = GPTConfig(n_head=cfg.heads.num_heads, n_embd=cfg.d_model, block_size=cfg.context_length)
        self.inner = CausalSelfAttention(sizes)

    def forward(self, x):
        return self.inner(x), None


def build(n_head=3):
    return CausalSelfAttention(GPTConfig(n_head=n_head, n_embd=24, block_size=64))


def build_of(config: GPTConfig):
    return CausalSelfAttention(config)


def last(module, x):
    return module(x)[0]


tiny = partial(build_of, GPTConfig(n_head=3, n_embd=24, block_size=64))
mine = build()
"""
PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/sizes.py": "HEADS = 4",
    "pkg/model/__init__.py": "",
    "pkg/model/ops.py": "def share(t):\n    return t.repeat(1, 2, 1, 1)",
    "pkg/model/attn.py": """
        import torch
        from torch import nn
        from torch.nn import functional as F

        from ..sizes import HEADS
        from .ops import share

        class Attention(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.q, self.kv = nn.Linear(dim, HEADS * 5), nn.Linear(dim, 20)
                self.o = nn.Linear(HEADS * 5, dim)

            def forward(self, x):
                q = self.q(x).unflatten(-1, (HEADS, 5)).transpose(1, 2)
                k, v = (share(one.unflatten(-1, (2, 5)).transpose(1, 2)) for one in self.kv(x).chunk(2, -1))
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                return self.o(y.transpose(1, 2).flatten(2))
        """,
}
GPU = """\
import torch
from torch import nn


class Pinned(nn.Module):
    def __init__(self, d_in):
        super().__init__()
        self.q, self.k = nn.Linear(d_in, 7, device="cuda"), nn.Linear(d_in, 7).to("cuda:0")
        self.v = nn.Linear(d_in, 7).cuda()
        self.register_buffer("keep", torch.ones(99, 99, device=torch.device("cuda")).tril() > 0)

    def forward(self, x):
        t = x.shape[1]
        weights = (self.q(x) @ self.k(x).mT * 7**-0.5).masked_fill(~self.keep[:t, :t], -torch.inf).softmax(-1)
        return weights @ self.v(x)


class InForward(nn.Module):
    def __init__(self, d_in):
        super().__init__()
        self.proj = nn.Linear(d_in, 21)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1).cuda()
        return (q @ k.mT * 7**-0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v
"""
pytestmark = pytest.mark.usefixtures("imports_are_undone")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="asks what is said where there is no GPU")


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """Run `course doctor` in the test's folder: (status, what it printed, the last it said on the side but for x)."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = main(["doctor", *words])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        said = [line for line in shown.err.splitlines() if "x is torch.randn" not in line]
        return status, shown.out, said[-1]

    return run


@pytest.fixture
def gpt(tmp_path):
    (tmp_path / "gpt.py").write_text(GPT, encoding="utf-8")


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


# --- configurations ---


@pytest.mark.slow
def test_arguments_are_evaluated_in_the_file(doctor, gpt):
    status, shown, _ = doctor("gpt.py:CausalSelfAttention", "--args", "GPTConfig(n_head=3, n_embd=12, block_size=64)")
    assert status == 1 and "[wrong-scale]" in shown and "for head_dim 4 it should be 0.5000" in shown
    whole = "Whole(d_model=24, heads=Heads(3, 8), context_length=64)"
    status, shown, _ = doctor("gpt.py:Nested", "--args", whole, "--call", "last")
    assert status == 1 and "[wrong-scale]" in shown, "--call knows the file's names, too"


GUESSES = {
    "CausalSelfAttention": "GPTConfig(block_size=64, n_head=6, n_embd=24)",
    "Duck": "SimpleNamespace(width=24, p=0.0, heads=6)",
    "Nested": "Whole(d_model=24, heads=Heads(num_heads=6, head_dim=4), context_length=64)",
}


@pytest.mark.parametrize("name", GUESSES)
def test_a_class_that_takes_a_configuration_is_built_with_a_guess_that_is_said(doctor, gpt, name):
    status, shown, said = doctor(f"gpt.py:{name}")
    assert status == 1 and "[wrong-scale]" in shown
    assert said == f"course doctor: built as {name}({GUESSES[name]}), a guess: give --args for your own"
    assert doctor(f"gpt.py:{name}", "--args", GUESSES[name])[:2] == (status, shown)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("options", "guess"),
    [
        (["--num-heads", "3"], "block_size=64, n_head=3, n_embd=12"),
        (["--num-kv-heads", "4"], "block_size=64, n_head=12, n_embd=48"),
    ],
)
def test_a_guess_has_as_many_heads_as_were_said(doctor, gpt, options, guess):
    status, shown, said = doctor("gpt.py:CausalSelfAttention", *options)
    assert f"built as CausalSelfAttention(GPTConfig({guess})), a guess" in said
    assert status == 1 and "[wrong-scale]" in shown and "num_heads=" not in shown


def test_the_sizes_of_an_example_fit_each_other():
    def llama(num_key_value_heads, num_attention_heads, head_dim, hidden_size, max_position_embeddings, layer_idx):
        pass

    assert example_of(llama, sys) == (
        "num_key_value_heads=2, num_attention_heads=6, head_dim=4, hidden_size=24, max_position_embeddings=64, "
        "layer_idx=0"
    )


def test_a_configuration_that_does_not_fit(doctor, gpt):
    _, _, said = doctor("gpt.py:CausalSelfAttention", "--args", "GPTConfig(heads=3)")
    assert said == (
        "course doctor: --args 'GPTConfig(heads=3)' can't be evaluated: TypeError: GPTConfig.__init__() got an "
        "unexpected keyword argument 'heads'."
    )
    _, _, said = doctor("gpt.py:CausalSelfAttention", "--args", "3")
    assert (
        "CausalSelfAttention(3) could not be built: AttributeError: 'int' object has no attribute 'n_embd' (gpt.p"
        in said
    )
    assert said.endswith("(gpt.py:20: self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)); change --args.")


# --- factories and modules ---


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("build",), ("build", "--args", "n_head=6"), ("build_of", "--args", "GPTConfig(64, 3, 24)"), ("tiny",), ("mine",)],
    ids=" ".join,
)
def test_what_gives_back_a_module_and_a_module(doctor, gpt, words):
    status, shown, _ = doctor(f"gpt.py:{words[0]}", *words[1:])
    assert status == 1 and shown.startswith("CausalSelfAttention: one thing is wrong.") and "[wrong-scale]" in shown


def test_a_factory_without_what_it_needs(doctor, gpt):
    status, _, said = doctor("gpt.py:build_of")
    assert status == 2 and said.endswith(
        "--args if it is a function that builds a module, or --x if x has another layout."
    )


def test_a_model_of_token_ids_is_sent_to_its_attention(doctor, gpt):
    status, shown, _ = doctor("gpt.py:WholeModel")
    assert status == 2 and "it takes token ids: give the attention inside it" in shown


# --- packages ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "target"),
    [
        (".", "pkg/model/attn.py"),
        ("pkg/model", "attn.py"),
        ("pkg", "../pkg/model/attn.py"),
        (".", "pkg.model.attn"),
        (".", "{tmp_path}/pkg/model/attn.py"),
    ],
)
def test_a_file_in_a_package_is_a_part_of_it(doctor, tmp_path, monkeypatch, folder, target):
    write(tmp_path, PACKAGE)
    monkeypatch.chdir(tmp_path / folder)
    told = ("--args", "24", "--num-heads", "4", "--num-kv-heads", "2")
    status, shown, _ = doctor(f"{target.format(tmp_path=tmp_path)}:Attention", *told)
    assert status == 1 and "[kv-heads-tiled]" in shown and "Look at ops.py:2:  return t.repeat(1, 2, 1, 1)" in shown
    assert sys.modules["pkg.model.attn"].__package__ == "pkg.model"


@pytest.mark.slow
@pytest.mark.parametrize("root", [".git", None])
def test_absolute_imports_of_folders_without_init(doctor, tmp_path, monkeypatch, root):
    """An archive of a repository has no .git."""
    text = PACKAGE["pkg/model/attn.py"].replace("..sizes", "pkg.sizes").replace(".ops", "pkg.model.ops")
    files = {name: text for name, text in PACKAGE.items() if "__init__" not in name}
    write(tmp_path / "repo", {**files, "pkg/model/attn.py": text})
    if root:
        (tmp_path / "repo" / root).mkdir()
    monkeypatch.chdir(tmp_path)
    assert doctor("repo/pkg/model/attn.py:Attention", "--args", "24")[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("root", [".git", None])
def test_folders_without_init_are_packages_where_imports_say_so(doctor, tmp_path, monkeypatch, root):
    write(tmp_path / "repo", {name: text for name, text in PACKAGE.items() if "__init__" not in name})
    if root:
        (tmp_path / "repo" / root).mkdir()
    monkeypatch.chdir(tmp_path / "repo" / "pkg" / "model")
    assert doctor("attn.py:Attention", "--args", "24")[0] == 1
    assert "pkg.model.attn" in sys.modules


@pytest.mark.slow
def test_absolute_imports_from_the_root_of_the_repository(doctor, tmp_path, monkeypatch):
    text = PACKAGE["pkg/model/attn.py"].replace("..sizes", "pkg.sizes").replace(".ops", "pkg.model.ops")
    write(tmp_path, {**{name: text for name, text in PACKAGE.items() if "__init__" not in name}, "pyproject.toml": ""})
    write(tmp_path, {"pkg/model/attn.py": text})
    monkeypatch.chdir(tmp_path / "pkg" / "model")
    assert doctor("attn.py:Attention", "--args", "24")[0] == 1


def test_a_package_that_can_not_be_imported_does_not_keep_its_file_from_being_examined(doctor, tmp_path):
    text = PACKAGE["pkg/model/attn.py"].replace("..sizes", "sizes").replace(".ops", "ops")
    write(tmp_path, {"pkg/__init__.py": "import no_such_package", "pkg/attn.py": text})
    write(tmp_path, {"pkg/sizes.py": PACKAGE["pkg/sizes.py"], "pkg/ops.py": PACKAGE["pkg/model/ops.py"]})
    assert doctor("pkg/attn.py:Attention", "--args", "24")[0] == 1


def test_another_package_of_the_same_name_is_not_examined_instead(doctor, tmp_path):
    write(
        tmp_path,
        {"json/__init__.py": "", "json/decoder.py": "from . import attn\nJSONDecoder = attn", "json/attn.py": ""},
    )
    status, _, said = doctor("json/decoder.py:JSONDecoder")
    assert status == 2 and f"json.decoder is already the name of a different file, {json.decoder.__file__}" in said
    assert said.endswith("; rename that folder, or copy the file out of its package.")


def test_the_courses_own_files(doctor, tmp_path):
    from course_lib.attention import llama

    status, shown, _ = doctor(f"{llama.__file__}:LlamaAttention", "--args", "24, 6, num_kv_heads=2", "--num-heads", "6")
    assert status == 0 and "6 heads of width 4" in shown
    assert doctor("course_lib.attention.llama:LlamaAttention", "--args", "24, 6")[0] == 0
    _, _, said = doctor("course_lib.attention.lama:LlamaAttention")
    assert said.endswith(
        "No module named 'course_lib.attention.lama'; course_lib is installed, but not this part of it."
    )


# --- devices ---


@pytest.fixture
def gpu(tmp_path):
    (tmp_path / "gpu.py").write_text(GPU, encoding="utf-8")


@without_gpu
def test_code_for_a_gpu_is_told_its_line_and_the_ways_out(doctor, gpu):
    status, shown, said = doctor("gpu.py:Pinned", "--args", "11")
    assert (status, shown) == (2, "")
    line = GPU.splitlines()[7].strip()
    assert said == (
        f"course doctor: gpu.py:8 needs a GPU, and this machine has none ({line}): make the device an argument, or "
        f"give --device cpu to have it built there all the same."
    )
    assert doctor("gpu.py:Pinned", "--args", "11", "--device", "cuda")[2] == (
        "course doctor: --device cuda: this machine has none; give --device cpu."
    )
    (status, shown, _) = doctor("gpu.py:InForward", "--args", "11")
    assert status == 1 and "[device-pinned]" in shown and "A tensor is put on a GPU wherever the input is." in shown
    assert "Look at gpu.py:25:  hidden = torch.ones" in shown and "make the device that of x, or an argument" in shown


def test_code_for_a_gpu_is_built_where_the_user_says(doctor, gpu):
    status, shown, _ = doctor("gpu.py:Pinned", "--args", "11", "--device", "cpu")
    assert status == 0, shown


# --- what is said ---

ENCODER = """\
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(11, 21)

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, dim=-1)
        scores = q @ k.mT * 7**-0.5
        return scores.softmax(
            dim=-1,
        ) @ v
"""
ON_PURPOSE = "If every token may see every other token on purpose, "


@pytest.mark.slow
def test_attention_without_a_mask_may_be_meant(doctor, tmp_path):
    (tmp_path / "encoder.py").write_text(ENCODER, encoding="utf-8")
    status, shown, _ = doctor("encoder.py:Encoder")
    assert status == 1 and f"   {ON_PURPOSE}add --not-causal.\n" in shown
    assert doctor("encoder.py:Encoder", "--not-causal")[0] == 0
    report = diagnose(sys.modules["encoder"].Encoder(), torch.randn(2, 5, 11))
    assert report.mistakes == ("no-causal-mask",) and f"   {ON_PURPOSE}give causal=False." in repr(report)
    assert f"{ON_PURPOSE}give <code>causal=False</code>." in report._repr_html_()


def test_other_mistakes_are_never_meant(doctor, gpt):
    assert ON_PURPOSE not in doctor("gpt.py:build")[1]


@pytest.mark.slow
def test_plain_data_leads_an_editor_to_the_line_and_a_reader_to_the_page(doctor, tmp_path, monkeypatch):
    write(tmp_path, {"src/encoder.py": ENCODER})
    report = json.loads(doctor("src/encoder.py:Encoder", "--json")[1])
    (finding,) = report["findings"]
    place = {"path": "src/encoder.py", "line": 12, "end_line": 14, "column": 9, "where": "encoder.py:12"}
    assert {name: finding[name] for name in place} == place and finding["source"] == "return scores.softmax("
    assert report["version"] == about.version() and re.match(r"\d+\.\d+", report["version"])
    assert finding["url"] == about.page_of("no-causal-mask") and finding["url"].startswith("https://")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (finding,) = json.loads(doctor(f"{tmp_path}/src/encoder.py:Encoder", "--json")[1])["findings"]
    assert finding["path"] == str((tmp_path / "src/encoder.py").resolve())


@pytest.mark.slow
def test_a_report_in_a_notebook_is_set_like_a_page():
    from course_lib.diagnosis import Finding, Report
    from course_lib.pictures import compare

    def draw():
        return compare(torch.eye(2), torch.full((2, 2), 0.5), names=("your head 0", "attention"))

    page = Report("code", (Finding("x", "`a` < 3", draw=draw, hint="Is `b` read?"),), (), ("`c` is",))._repr_html_()
    assert "Seen: <code>a</code> &lt; 3<" in page and "Is <code>b</code> read?" in page and "`" not in page
    assert "<li><code>c</code> is</li>" in page and "<figcaption>Your head 0 and attention differ most" in page
