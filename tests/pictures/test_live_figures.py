"""Figures that move, before any script runs: their words, their sizes, what they ask for, and what their data says."""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.attention import attend, causal_keep, window_keep
from course_lib.exercises.lesson_14.arithmetic_intensity import arithmetic_intensity
from course_lib.exercises.lesson_16.all_reduce_seconds import all_reduce_seconds
from course_lib.exercises.lesson_16.kv_heads_of_device import kv_heads_of_device
from course_lib.inputs import dream_big
from course_lib.pictures import live
from course_lib.pictures.live.devices import DEGREES, FIRST, WAYS, Network, bytes_on_device, decoding_step
from course_lib.pictures.live.figure import read
from course_lib.pictures.live.roofline import attention_work, matrix_work

from .figure_checks import check_figure, record_figures
from .picture_checks import check_picture, check_svg
from .trained_head import trained_head

WORDS = dream_big().words
SAYS = {  # a phrase of a figure's words
    live.why_transpose: "10 of 12 rows do not hold what their label says",
    live.paste_your_split: "10 of 12 rows do not hold what their label says",
    live.drag_the_query: 'gives 58% of its attention weight to "and"',
    live.devices: "whole step, two levels: 14.5 at 4, 16.0 at 64",
    live.roofline: "decode, grouped: 4.00 operations/byte, memory-bound",
    live.tiles: "sum 1.701, the sums before times 0.135, context 2.986",
    live.own_words: "Most goes to “kite”: 0.96",
    live.who_may_look: "gives 100% of its weight to hidden tokens; 1 of 6 rows is nan",
}
MAKERS = [getattr(live, name) for name in live.__all__ if name != "Figure"]
ROOT = Path(__file__).resolve().parents[2]
BY_MATPLOTLIB = [live.devices, live.roofline]
CORE = ("core.css", "core.js", "strided.js")
SCRIPT, SHARED = 20_000, 60_000  # bytes at most: of a figure's own scripts, of the core and the data
HASHES = """
import hashlib
from course_lib.pictures import live
for name in live.__all__:
    if name != "Figure":
        print(hashlib.sha256(getattr(live, name)()._repr_html_().encode()).hexdigest())
"""


@pytest.fixture(scope="module", params=MAKERS, ids=lambda make: make.__name__)
def make(request):
    return request.param


@pytest.fixture(scope="module")
def figure(make):
    return make()


class Texts(HTMLParser):
    """What an untrusted notebook leaves of HTML: no script, no style, no frame."""

    def __init__(self, html):
        super().__init__()
        self.images, self.within, self.text = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "style", "iframe"):
            self.within.append(tag)
        elif tag == "img" and not self.within:
            self.images.append(dict(attrs))

    def handle_endtag(self, tag):
        if self.within and self.within[-1] == tag:
            self.within.pop()

    def handle_data(self, data):
        self.text += "" if self.within else data


def test_its_words_are_those_of_its_picture(make, figure):
    assert repr(figure) == f"{figure.title}\n{figure.picture!r}"
    assert SAYS.get(make, "") in " ".join(repr(figure).split())
    if make not in BY_MATPLOTLIB:
        check_picture(figure.picture, largest=30_000)


@pytest.mark.parametrize("make", BY_MATPLOTLIB)
def test_what_matplotlib_drew_can_be_read(make, monkeypatch):
    drawn = record_figures(monkeypatch)
    make()
    check_figure(*drawn)


def test_where_no_script_runs_there_is_the_picture_and_nothing_else(figure):
    left = Texts(figure._repr_html_())
    assert left.images[0]["alt"] == figure.picture.description and left.images[0]["src"].startswith("data:image/svg")
    assert figure.picture.caption in left.text and "function" not in left.text and "{" not in left.text


def test_it_is_small(figure):
    own = sum(len(read(name).encode()) for name in {*figure.scripts} - {*CORE})
    data = json.dumps(figure.data, ensure_ascii=False, separators=(",", ":"))
    shared = {"core.css", "core.js", *figure.scripts} & {*CORE}
    assert own < SCRIPT and sum(map(len, (*map(read, shared), data))) < SHARED
    assert len(figure._repr_html_()) < 120_000  # of a notebook, which may have one million bytes


def test_a_page_may_ask_for_nothing(figure):
    page = figure.page()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "http" not in policy
    # A namespace is a name, and a link is followed by the reader alone.
    loaded = re.findall(r"""(?:src|srcset|href)=["']?(?!data:)([^"'\s>]+)|url\(["']?(?!data:)([^)]+)""", page)
    scripts = "".join(map(read, ("core.js", *figure.scripts)))
    assert not loaded and not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|import)\b", scripts)


@pytest.mark.slow
def test_it_is_the_same_from_run_to_run():
    here = [hashlib.sha256(make()._repr_html_().encode()).hexdigest() for make in MAKERS]
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    script = HASHES.format(names=[make.__name__ for make in MAKERS])
    there = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert there.stdout.split() == here


def test_nothing_in_the_data_ends_a_script(figure):
    hostile = live.Figure("</script><b>", figure.scripts, {"words": ["</script><!--"]}, figure.picture)
    assert hostile.page().count("</script>") == 2 and hostile._repr_html_().count("</script>") == 1


def test_it_is_saved_as_a_page_and_nothing_else(figure, tmp_path):
    path = figure.save(tmp_path / "mine.html")
    assert path.read_text(encoding="utf-8") == figure.page()
    with pytest.raises(ValueError, match=r"path must end in \.html, got '.*mine\.png': a browser opens such a file"):
        figure.save(tmp_path / "mine.png")
    with pytest.raises(ValueError, match=r"is in the folder '.*none', which does not exist: make it first"):
        figure.save(tmp_path / "none" / "mine.html")


# --- what the data says ---


def cells_of(step):
    return [[row["cells"] for row in table["rows"]] for table in step["tables"]]


def test_the_steps_are_what_pytorch_makes():
    table, by_word, by_head, scrambled = live.why_transpose().data["steps"]
    x = torch.arange(24).view(1, 6, 4)
    assert cells_of(table) == x.tolist()
    assert cells_of(by_word) == x.view(6, 2, 2).tolist()
    assert cells_of(by_head) == x.view(6, 2, 2).transpose(0, 1).tolist()
    assert cells_of(scrambled) == x.view(2, 6, 2).tolist()
    names = [step["name"].strip("✗ `") for step in (by_word, by_head, scrambled)]
    assert names == [".view(1, 6, 2, 2)", ".transpose(1, 2)", ".view(1, 2, 6, 2)"]


def test_a_row_is_marked_if_somebody_else_owns_it():
    figure = live.why_transpose()
    data = figure.data
    assert "10 of 12 rows do not hold what their label says" in " ".join(repr(figure).split())
    for number, wrong in ((2, 0), (3, 10)):
        marked = 0
        for head, table in enumerate(data["steps"][number]["tables"]):
            for word, row in enumerate(table["rows"]):
                (owner,) = {tuple(data["owners"][element]) for element in row["cells"]}
                true_word, true_head = owner
                right = owner == (word, head)
                assert row["mark"] == ("✓" if right else f"✗ {WORDS[true_word]}, head {true_head}")
                assert row["wrong"] is not right and row["label"] == WORDS[word]
                marked += row["wrong"]
        assert marked == wrong
    assert "10 of 12 rows belong to somebody else" in data["steps"][3]["says"]


def steps_of(data):
    """Every step, wherever in the data it is."""
    if isinstance(data, dict):
        return [data] if "says" in data else [step for part in data.values() for step in steps_of(part)]
    return [step for part in data for step in steps_of(part)] if isinstance(data, list | tuple) else []


def test_each_step_has_one_sentence(figure):
    for step in steps_of(figure.data):
        assert step["says"].endswith(".") and len(re.findall(r"[.!?](?:\s|$)", step["says"])) == 1


def test_the_mistakes_of_the_editor_are_those_of_the_catalogue():
    goals = live.paste_your_split().data["goals"]
    assert [mistake["id"] for goal in goals.values() for mistake in goal["mistakes"]] == [
        "split-without-transpose",
        "merge-without-transpose",
    ]
    assert goals["split"]["mistakes"][0]["elements"] == list(range(24))
    assert goals["join"]["wanted"]["elements"] == list(range(24)) and goals["join"]["shape"] == [1, 2, 6, 2]


def test_the_head_is_that_of_the_lessons():
    """Lesson 01 prints these numbers of "work", and lesson 02 these scores of "it"."""
    data = live.drag_the_query().data
    assert data["words"][data["first"]] == "work"
    assert [round(each, 2) for each in data["planes"][3]["query"]] == [0.44, 2.76]
    assert [round(each, 2) for each in live.who_may_look().data["scores"][5]] == [
        -1.09,
        -1.59,
        0.63,
        -1.59,
        -1.14,
        -0.26,
    ]


def test_undivided_scores_of_wide_vectors_leave_a_gradient_no_way():
    """Other draws than the figure's, by softmax and its Jacobian, come to the same."""
    draw = torch.Generator().manual_seed(99)
    for one in live.drag_the_query().data["random"]:
        queries, keys = (torch.randn(1000, n, one["d"], generator=draw, dtype=torch.float64) for n in (1, 6))
        scores = (queries @ keys.mT)[:, 0]
        for number, each in enumerate((scores, scores / one["d"] ** 0.5)):
            slopes = torch.vmap(torch.func.jacrev(lambda row: row.softmax(0)))(each).diagonal(dim1=1, dim2=2).sum(1)
            largest = each.softmax(1).amax(1).mean().item()
            assert one["spread"][number] == pytest.approx(each.std().item(), rel=0.05)
            assert one["weights"][number][0] == pytest.approx(largest, abs=0.02)
            assert one["slopes"][number] == pytest.approx(slopes.mean().item(), rel=0.1, abs=0.01)


def weights_in_planes(data):
    """The attention weights of each word, from what its plane holds; later words get 0."""
    weights = torch.zeros(len(data["words"]), len(data["words"]), dtype=torch.float64)
    for row, plane in zip(weights, data["planes"], strict=True):
        query, keys = (torch.tensor(plane[name], dtype=torch.float64) for name in ("query", "keys"))
        row[: len(keys)] = (keys @ query / data["width"] ** 0.5).softmax(0)
    return weights


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3, 24])
def test_scores_are_exact_in_a_plane_of_wider_vectors(width, causal):
    draw = torch.Generator().manual_seed(width)
    queries, keys, values = 2 * torch.randn(3, 9, max(width, 2), generator=draw, dtype=torch.float64)
    queries, keys = queries[:, :width], keys[:, :width]
    queries[4], keys[:3] = 0, keys[0]  # a query without a direction, keys that don't differ
    figure = live.drag_the_query(queries, keys, values, causal=causal, first=3)
    labels = re.findall(r"token \d", re.search("key: .*", figure.picture.description)[0])
    assert labels == [f"token {key}" for key in range(4 if causal else 9)]
    data = figure.data
    _, weights = attend(*(table[None, None] for table in (queries, keys, values)), causal=causal)
    torch.testing.assert_close(weights_in_planes(data), weights[0, 0], atol=1e-5, rtol=0)
    drawn = torch.tensor(data["values"], dtype=torch.float64)  # a linear map of the values, as mixing asks for
    made = values @ torch.linalg.lstsq(values, drawn).solution
    torch.testing.assert_close(drawn, made, atol=1e-5, rtol=0)


def test_a_trained_head_looks_where_its_module_looks():
    head = trained_head()
    figure = live.drag_the_query(*head[:3], words=head.words, causal=True)
    torch.testing.assert_close(weights_in_planes(figure.data).float(), head.weights, atol=1e-5, rtol=0)
    assert 'The query of "green" gives 100% of its attention weight to "cup"' in " ".join(repr(figure).split())
    assert "Number 0" not in repr(figure)  # a plane of wide vectors has other axes
    check_svg(figure.picture.svg, 910, 30_000)  # for a narrow screen, 11 labels find no other place


TABLE = torch.ones(3, 4)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((TABLE, None, TABLE), {}, "keys must be a tensor, got NoneType"),
        ((TABLE, TABLE[:2], TABLE), {}, r"keys must be \(3, 4\) beside queries of \(3, 4\), got \(2, 4\)"),
        ((TABLE, TABLE, TABLE[:, :1]), {}, r"values must be \(3, 2\) beside queries of \(3, 4\), got \(3, 1\)"),
        ((TABLE, TABLE * torch.nan, TABLE), {}, "keys holds nan or inf, which has no place in the plane"),
        ((torch.ones(14, 4),) * 3, {}, "queries has 14 tokens: give 13 at most, as more labels don't fit"),
        ((TABLE,) * 3, {"words": "ab"}, "words has 2 labels for 3 tokens"),
        ((TABLE,) * 3, {"first": 3}, "first is 3: give the number of one of the 3 tokens"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(given, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        live.drag_the_query(*given, **options)


def test_the_masks_to_begin_with_are_those_of_the_library():
    masks = {name: torch.tensor(rows).bool() for name, rows in live.who_may_look().data["masks"].items()}
    assert torch.equal(masks["causal"], causal_keep(6)) and masks["nothing hidden"].all()
    assert torch.equal(masks["window of 3"], window_keep(6, 6, 3))
    assert masks["padding"][:, :4].all() and not masks["padding"][:, 4:].any()
    assert masks["causal, padding on the left"].sum(dim=1).tolist() == [0, 0, 1, 2, 3, 4]


def test_work_is_what_pytorch_and_the_lesson_count():
    draw = random.Random(0)
    for _ in range(20):
        batch, kv_heads, bits = draw.choice((1, 3, 8)), draw.choice((1, 4, 32)), draw.choice((8, 16, 32))
        key_len = draw.randint(1, 9000)
        query_len = draw.choice((1, key_len))
        dtype = {8: torch.float8_e4m3fn, 16: torch.bfloat16, 32: torch.float32}[bits]
        q, k = (torch.empty(batch, 32, length, 64, device="meta") for length in (query_len, key_len))
        held = torch.empty(2, batch, kv_heads, key_len, 64, dtype=dtype, device="meta")
        table = torch.empty(batch, 32, query_len, key_len, dtype=dtype, device="meta")
        moved = 2 * q.numel() * dtype.itemsize + held.nbytes
        sizes = batch, query_len, key_len, kv_heads, bits
        here = attention_work(*sizes)
        with FlopCounterMode(display=False) as products:
            q @ k.mT @ k
        assert here == (products.get_total_flops(), moved)
        assert here.intensity == pytest.approx(arithmetic_intensity(query_len, key_len, 32, kv_heads, 64, bits / 8))
        assert attention_work(*sizes, table_moves=True) == (here.operations, moved + 4 * table.nbytes)
        x, weight = (torch.empty(length, 2048, dtype=dtype, device="meta") for length in (batch * query_len, 2048))
        with FlopCounterMode(display=False) as product:
            x.float() @ weight.float()
        assert matrix_work(batch, query_len, bits) == (product.get_total_flops(), 2 * x.nbytes + weight.nbytes)


@pytest.mark.parametrize("seed", range(3))
def test_a_decoding_step_takes_as_long_as_in_lesson_16(seed):
    source = (ROOT / "notebooks" / "sources" / "16_many_devices.py").read_text(encoding="utf-8")
    cells = [cell for cell in source.split("\n# %%") if "llama_70b |= " in cell or "def step_ms" in cell]
    lesson = {"all_reduce_seconds": all_reduce_seconds, "kv_heads_of_device": kv_heads_of_device}
    exec("\n".join(cells), lesson)
    draw, network = random.Random(seed), Network()
    assert (*lesson["WITHIN"], *lesson["BETWEEN"]) == (450e9, 1e-6, 50e9, 5e-6) and network == (1e-6, 5e-6, 450e9, 50e9)
    if seed:  # not only what the lesson assumes
        network = Network(*(draw.random() / 1e5 for _ in "12"), *(draw.random() * 1e12 for _ in "12"))
        lesson["WITHIN"] = network.send_within, network.wait_within
        lesson["BETWEEN"] = network.send_between, network.wait_between
    for n in DEGREES:
        texts = draw.randint(1, 300)
        for way, all_reduce in zip(WAYS, ("one_ring", "two_levels"), strict=False):
            theirs = lesson["step_ms"](lesson["llama_70b"], n, lesson[all_reduce], texts)
            weights, cache, *sums = (1000 * seconds for seconds in decoding_step(n, texts, 8192, way, network))
            assert [weights, cache, sum(sums)] == pytest.approx([*theirs.values()])
        assert bytes_on_device(n, texts, 8192) == (*lesson["bytes_on_device"](lesson["llama_70b"], n, texts).values(),)


def best_of(way, **changed):
    chosen = FIRST | changed
    network = Network(*[chosen[name] for name in ("waitWithin", "waitBetween", "sendWithin", "sendBetween")])
    return min(DEGREES, key=lambda n: sum(decoding_step(n, chosen["texts"], chosen["tokens"], way, network)))


def test_the_numbers_of_devices_that_lesson_16_names_are_the_fastest():
    assert [best_of(way) for way in WAYS] == [8, 16, 16]
    assert best_of(WAYS[1], texts=256, tokens=4096) == 8
    assert [best_of(way, waitWithin=10e-6, waitBetween=10e-6) for way in WAYS] == [4, 4, 8]
