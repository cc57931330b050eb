"""Figures that move, in a real browser: they say what PyTorch does, and everybody can use them."""

import ast
import json
import random
import re
from pathlib import Path

import pytest
import torch

from course_lib.attention import (
    BlockPool,
    GroupedQueryAttention,
    KVCache,
    PagedKVCache,
    RollingKVCache,
    apply_rotary,
    attend,
    rotary_table,
)
from course_lib.exercises.lesson_06.cache_bytes import cache_bytes
from course_lib.exercises.lesson_14.bound_by import bound_by
from course_lib.inputs import dream_big
from course_lib.pictures import live, weight_color
from course_lib.pictures.dark import NIGHT, in_the_dark
from course_lib.pictures.live.devices import DEGREES, WAYS, Network, bytes_on_device, decoding_step
from course_lib.pictures.live.devices import SLIDERS as OF_DEVICES
from course_lib.pictures.live.figure import read
from course_lib.pictures.live.own_words import FORM, LONGEST, rounded
from course_lib.pictures.live.roofline import SLIDERS, attention_work, matrix_work
from course_lib.pictures.live.tiles import running
from course_lib.pictures.sharing.kv_readers import copies_of
from course_lib.stories import KINDS, TRAINED, load_storyteller
from tests.pictures.trained_head import trained_head

from .layout_chains import NAMES, chains
from .site import Complaints, violations

MOST_TOUCHED = 300  # elements that a step draws or changes; today at most 237
RUN = """text => JSON.stringify(JSON.parse(text).map(({line, start, names}) => {
    try {
        const given = new Strided(start.shape, start.strides, range(start.slots), start.offset);
        const {shape, strides, isContiguous, elements} = new Line(line, given, names).run();
        return [shape, strides, isContiguous, elements];
    } catch (error) {
        return error instanceof Refusal ? error.kind : String(error);
    }
}))"""
PLACES = """selector => [...document.querySelectorAll(selector)].map(cell => {
    const {x, y} = cell.getBoundingClientRect();
    return [+cell.dataset.element, Math.round(x), Math.round(y + scrollY)];
})"""
FORMS = "weight split", "grouped-query", "multi-query"
ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = {  # layers, heads, kv heads, head_dim, bytes of a number
    "Llama 2 7B": (32, 32, 32, 128, 2),
    "Llama 3 8B": (32, 32, 8, 128, 2),
    "Qwen2.5 7B": (28, 28, 4, 128, 2),
    "PaLM 540B": (118, 48, 1, 256, 2),
}
SPLIT, JOIN = "split", "join"
LINES = {  # what is said of a line
    (SPLIT, "x.view(1, 6, 2, 2).transpose(1, 2)"): "✓ Right: each head has a table of its own, and all 12 rows",
    (
        SPLIT,
        "q = self.q_proj(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, nh, T, hs)",
    ): "✓ Right",
    (SPLIT, 'rearrange(self.to_q(x), "b t (h d) -> b h t d", h=self.heads)'): "✓ Right",
    (SPLIT, "x.view(x.shape[0], x.size(1), 2, -1).permute(0, 2, 1, 3)"): "✓ Right",
    (
        SPLIT,
        'rearrange(x, "b t (h d) -> b h t", h=2)',
    ): "einops refuses this with an EinopsError. d appears on one side",
    (SPLIT, "x.view(1, 2, 6, 2)"): "10 of 12 rows hold something else. The mistake is called split-without-transpose.",
    (SPLIT, "x.reshape(batch, num_heads, -1, head_dim)"): "The mistake is called split-without-transpose.",
    (SPLIT, 'rearrange(x, "b t (d h) -> b h t d", h=2)'): "12 of 12 rows hold something else. This mistake has no name",
    (SPLIT, "x.view(1, 6, 2, 2)"): "Not there yet: the shape is (1, 6, 2, 2), and it should be (1, 2, 6, 2).",
    (SPLIT, "x.view(1, 5, 4)"): "PyTorch refuses this with a RuntimeError. 24 numbers don't fit into (1, 5, 4).",
    (SPLIT, "x.view(-1, -1, 4)"): "a RuntimeError. Only one size may be -1",
    (SPLIT, "x.transpose(1, 3)"): "an IndexError. There is no axis 3: (1, 6, 4) has the axes 0 to 2.",
    (SPLIT, "x.view(1, 6, 2, d_out / 2)"): "a TypeError. / makes a float, and sizes are whole numbers: write //.",
    (SPLIT, "x.permute(0, 1)"): "a RuntimeError. (1, 6, 4) has 3 axes, and the order lists 2.",
    (SPLIT, "x.view(1, 6, 2, 2).tranpose(1, 2)"): "This page can't read the line. .tranpose can't be read here",
    (SPLIT, "x.vew(1, 2, 6, 2)"): "This page can't read the line. .vew can't be read here",
    (SPLIT, "x.view(1, groups, 6, 2)"): "groups is unknown here",
    (SPLIT, "x.view(1, 6, 2, 2"): "Python refuses this with a SyntaxError. ) is missing at the end.",
    (SPLIT, ""): "This page can't read the line. It begins with the name of a tensor, such as x.",
    (SPLIT, "x.view(*x.shape[:2], 2, 2).transpose(1, 2)"): "This page can't read the line. * can't be read here",
    (SPLIT, "x.view(1, 6, 2, 2); x"): "This page can't read the line. ; can't be read after",
    (SPLIT, "x.split(2, dim=-1)"): "This page can't read the line. x.split(…) can't be read here",
    (
        SPLIT,
        "torch.transpose(x.view(1, 6, 2, 2), 1, 2)",
    ): "This page can't read the line. torch.transpose can't be read here",
    (SPLIT, "attn.q_proj(hidden).view(1, 6, 2, 2).transpose(1, 2)"): "✓ Right",
    (
        SPLIT,
        "x.view(2, 6, 2)",
    ): "But for axes of size 1, the shape (2, 6, 2) is right and no error is raised, but 10 of 12",
    (JOIN, "x.transpose(1, 2).reshape(1, 6, 4)"): "✓ Right: each word has its two heads side by side again, in all 6",
    (JOIN, "x.transpose(1, 2).contiguous().view(1, 6, -1)"): "✓ Right",
    (JOIN, "x.transpose(1, 2).view(1, 6, 4)"): "RuntimeError. view moves no number, and no strides lead through this",
    (JOIN, "x.reshape(1, 6, 4)"): "6 of 6 rows hold something else. The mistake is called merge-without-transpose.",
}


STATES = {  # of each figure: what brings it into states to look at
    "why_transpose": [f"steps.go({step})" for step in range(4)],
    "paste_your_split": [
        f"(choose('{goal}'), examples.children[{number}].click())" for goal in (SPLIT, JOIN) for number in (1, 2)
    ],
    "drag_the_query": ["ask([0.5, 2.5], 2)", "ask([9, -9], 1)", "ask([-9, 9], 64)", "ask([0, 0], 2)", "draw(3)"],
    "trained_head": ["take(0)", "take(9)", "ask([9, -9], 1)", "ask([0, 0], 64)"],
    "own_words": [*(f"read(examples[{number}])" for number in range(3)), "read('a dragon')", "read('')"],
    "who_may_look": [
        "show(masks.causal, 'keep')",
        "show(masks.causal, 'hidden')",
        "show(masks['nothing hidden'], 'hidden')",
        "show(masks.padding, 'keep')",
    ],
    "decode": [
        f"(choice.buttons[{cache}].click(), steps.go({token}))" for cache, token in ((0, 11), (1, 4), (2, 6), (3, 8))
    ],
    "share_keys_and_values": [f"choose({model}, {option})" for model, option in ((0, 1), (1, 0), (2, 1), (4, 0))],
    "devices": [
        f"set({{way: {way}, texts: {texts}, tokens: {tokens}, waitWithin: {latency}}})"
        for way, texts, tokens, latency in (
            (0, 16, 8192, 1e-6),
            (1, 256, 131072, 0),
            (2, 64, 8192, 1e-5),
            (0, 1, 1024, 1),
        )
    ],
    "roofline": [
        f"set({{phase: {phase}, table: {phase}, batch: {batch}, kvHeads: {kv_heads}, tokens: {tokens}, flops: {rate}}})"
        for phase, batch, kv_heads, tokens, rate in (
            (0, 1, 32, 1, 989e12),
            (0, 512, 1, 131072, 989e12 / 4),
            (1, 512, 1, 131072, 989e12 * 4),
            (1, 1, 32, 4096, 989e12),
        )
    ],
    "tiles": [f"set({{size: {size}, mistake: {mistake}}}, 9)" for size, mistake in ((3, 0), (2, 1), (4, 2), (6, 3))],
    "turn": [
        f"(set({{base: bases[{base}], length: data.lengths[{length}]}}), move({at}, 3, 'apart'))"
        for base, length, at in ((0, 0, 5), (1, 1, 9), (2, 2, 12), (0, 2, 14))
    ],
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    made = {name: getattr(live, name)() for name in live.__all__ if name != "Figure"}
    made["trained_head"] = live.drag_the_query(*trained_head()[:3], words=trained_head().words, causal=True)
    return {name: figure.save(folder / f"{name}.html") for name, figure in made.items()}


@pytest.fixture(scope="module")
def tab(browser):
    """A page whose cells are where they should be at once."""
    context = browser.new_context(viewport={"width": 900, "height": 800}, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def opened(tab, file, fragment=""):
    tab.goto("about:blank")
    tab.goto(file.as_uri() + fragment)
    return tab


def said(tab):
    return tab.locator("[role=status]").inner_text()


# --- the small tensor ---


@pytest.fixture(scope="module")
def lines():
    return chains(10_000, seed=0)


def differing(tab, lines):
    found = json.loads(tab.evaluate(RUN, json.dumps([{**one, "names": NAMES} for one in lines])))
    return [(one, got) for one, got in zip(lines, found, strict=True) if got != one["expected"]]


def test_ten_thousand_lines_give_what_pytorch_gives(tab, pages, lines):
    refused = [one["expected"] for one in lines if isinstance(one["expected"], str)]
    assert 2_000 < len(refused) < 5_000 and len({*refused}) == 5
    assert len({one["line"] for one in lines}) > 8_000
    assert differing(opened(tab, pages["paste_your_split"]), lines) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        "Strided.prototype.stridesFor = shape => Strided.contiguous(shape).strides",  # a view of what is not contiguous
        "Strided.prototype.reshape = Strided.prototype.view",
        "Object.defineProperty(Strided.prototype, 'isContiguous', {get: () => true})",
        "Strided.prototype.axis = i => i",
    ],
)
def test_a_wrong_rule_is_found(tab, pages, lines, mistake):
    opened(tab, pages["paste_your_split"]).evaluate(f"() => {{ {mistake} }}")
    assert len(differing(tab, lines[:1_000])) > 10
    tab.goto("about:blank")  # nobody else may meet the mistake


# --- the two figures ---


def test_the_cells_lie_in_the_tables_as_the_numbers_in_the_tensors_and_memory_stays(tab, pages):
    opened(tab, pages["why_transpose"])
    memory, sentences, labels = tab.evaluate(PLACES, ".memory .cell"), set(), set()
    assert [element for element, _, _ in memory] == list(range(24)) and len({y for _, _, y in memory}) == 1
    for step in live.why_transpose().data["steps"]:
        places = {element: (x, y) for element, x, y in tab.evaluate(PLACES, ".tables .cell")}
        for table in step["tables"]:
            left, top = places[table["rows"][0]["cells"][0]]
            for down, row in enumerate(table["rows"]):
                assert [places[element] for element in row["cells"]] == [
                    (left + 41 * across, top + 35 * down) for across in range(len(row["cells"]))
                ]
        assert len(set(places.values())) == 24
        assert tab.evaluate(PLACES, ".memory .cell") == memory
        sentences.add(said(tab))
        labels.add(tab.locator(".tables").get_attribute("aria-label"))
        tab.keyboard.press("ArrowRight")
    assert len(sentences) == len(labels) == 4
    assert "10 of 12 rows belong to somebody else" in said(tab)
    assert "big: 2 3 (really Dream, head 1)" in tab.locator(".tables").get_attribute("aria-label")


def test_it_is_walked_with_keys_and_buttons_and_its_address_is_a_moment(tab, pages):
    opened(tab, pages["why_transpose"], "#step-3")
    now = tab.locator("[aria-current=step]")
    assert now.inner_text() == ".transpose(1, 2)"
    tab.keyboard.press("ArrowLeft")
    assert now.inner_text() == ".view(1, 6, 2, 2)"
    tab.wait_for_url("**#step-2")
    tab.get_by_role("button", name="Next").click()
    tab.get_by_role("button", name="Next").click()
    tab.get_by_role("button", name="Next").click(force=True)  # there is no next
    assert now.inner_text() == "✗ .view(1, 2, 6, 2)"
    tab.get_by_role("button", name="Back").click()
    assert now.inner_text() == ".transpose(1, 2)"
    opened(tab, pages["why_transpose"], "#somewhere")
    assert now.inner_text() == "q_proj(x)"


def test_a_number_is_followed_by_click_and_key(tab, pages):
    opened(tab, pages["why_transpose"])
    memory, chosen = tab.get_by_role("slider"), tab.locator(".chosen")
    assert chosen.all_inner_texts() == ["14", "14"]  # in the table and in memory
    tab.locator(".tables .cell", has_text="7").first.click()
    assert chosen.all_inner_texts() == ["7", "7"]
    memory.focus()
    tab.keyboard.press("ArrowRight")
    assert chosen.all_inner_texts() == ["8", "8"] and memory.get_attribute("aria-valuetext") == (
        "8 is a number of and, head 0."
    )
    tab.keyboard.press("End")
    assert memory.get_attribute("aria-valuenow") == "23"
    assert tab.locator("[aria-current=step]").inner_text() == "q_proj(x)"  # keys on the memory turn no page


@pytest.mark.parametrize(("goal", "line"), LINES, ids=lambda text: text)
def test_what_is_said_of_a_line(tab, pages, goal, line):
    if not tab.url.startswith(pages["paste_your_split"].as_uri()):
        opened(tab, pages["paste_your_split"])
    tab.locator(f"[data-goal={goal}]").click()
    tab.get_by_label("Your line").fill(line)
    assert LINES[goal, line] in " ".join(said(tab).split())
    assert len(tab.evaluate(PLACES, ".tables .cell")) == 24
    first = tab.locator(".calls li").first.inner_text() if tab.locator(".calls li").count() else ""
    assert ("taken as a projection" in first) == ("q_proj(" in line or "to_q(" in line)


def test_every_example_runs_and_the_address_holds_the_line(tab, pages):
    opened(tab, pages["paste_your_split"])
    for goal, texts in live.paste_your_split().data["goals"].items():
        tab.locator(f"[data-goal={goal}]").click()
        for name, line in texts["examples"].items():
            tab.locator(".examples").get_by_role("button", name=name, exact=True).click()
            assert tab.get_by_label("Your line").input_value() == line
            assert "can't read" not in said(tab) and "Python refuses" not in said(tab)
    tab.get_by_label("Your line").fill('rearrange(x, "b h t d -> b t (d h)")')
    tab.wait_for_url(lambda url: url.endswith("#join%3Arearrange(x%2C%20%22b%20h%20t%20d%20-%3E%20b%20t%20(d%20h)%22)"))
    opened(tab, pages["paste_your_split"], "#" + tab.url.partition("#")[2])
    assert tab.get_by_label("Your line").input_value() == 'rearrange(x, "b h t d -> b t (d h)")'
    assert "6 of 6 rows hold something else" in said(tab)


def test_shape_strides_and_memory_of_each_call_are_listed(tab, pages):
    opened(tab, pages["paste_your_split"])
    tab.get_by_label("Your line").fill("x.unflatten(2, (2, 2)).transpose(1, 2).flatten(2)")
    calls = [" ".join(text.split()) for text in tab.locator(".calls li").all_inner_texts()]
    assert calls == [
        "x shape (1, 6, 4) strides (24, 4, 1) contiguous",
        ".unflatten(2, (2, 2)) shape (1, 6, 2, 2) strides (24, 4, 2, 1) contiguous same memory",
        ".transpose(1, 2) shape (1, 2, 6, 2) strides (24, 2, 4, 1) not contiguous same memory",
        ".flatten(2) shape (1, 2, 12) strides (24, 12, 1) contiguous copied to new memory",
    ]
    assert "a new row, into which the numbers were copied" in tab.locator(".note").nth(1).inner_text()


# --- drag the query ---


def test_the_context_is_that_of_the_library(tab, pages):
    """Of random queries and divisors, in and far out of the plane."""
    data, generator = live.drag_the_query().data, torch.Generator().manual_seed(0)
    asked = 4 * torch.randn(200, 2, generator=generator, dtype=torch.float64)
    widths = torch.tensor(data["divisors"])[torch.randint(len(data["divisors"]), (200,), generator=generator)]
    run = """posed => posed.map(([query, d]) => {
        const {weights, context} = attend(query, d);
        return [...weights, ...context];
    })"""
    posed = list(zip(asked.tolist(), widths.tolist(), strict=True))
    found = torch.tensor(opened(tab, pages["drag_the_query"]).evaluate(run, posed), dtype=torch.float64)
    tables = data["planes"][0]["keys"], data["values"]
    keys, values = (torch.tensor(table, dtype=torch.float64)[None, None] for table in tables)
    queries = (asked * (2 / widths[:, None]) ** 0.5)[None, None]  # `attend` divides by the root of two
    context, weights = (table[0, 0] for table in attend(queries, keys, values))
    torch.testing.assert_close(found, torch.cat([weights, context], dim=1), atol=1e-6, rtol=0)


def test_each_word_asks_with_its_own_query(tab, pages):
    opened(tab, pages["trained_head"])
    head, number = trained_head(), 9
    found = tab.evaluate("planes.map(({query}, i) => { take(i); return softmax(attend(query, width).scores); })")
    for row, weights in zip(found, head.weights, strict=True):
        torch.testing.assert_close(torch.tensor(row) * 1.0, weights[: len(row)], atol=1e-5, rtol=0)
    tab.locator(".examples button").nth(number).click()
    assert head.words[number] == "the" == tab.locator(".examples [aria-pressed=true]").inner_text()
    assert "“green” gets 90% of the weight" in said(tab) and "hidden" in tab.locator(".weights").inner_text()
    tab.wait_for_url("**%2F24%2F9")


DRAWN = """() => {
    const rows = [...document.querySelectorAll(".weights tbody tr")].map(row => row.innerText.split(/\\s+/));
    return [document.querySelector(".handle").getAttribute("aria-valuetext"), rows];
}"""


def test_the_query_is_dragged_by_pointer_and_moved_by_keys(tab, pages):
    opened(tab, pages["drag_the_query"])
    handle = tab.get_by_role("slider", name="Query")
    (where, rows), box = tab.evaluate(DRAWN), handle.locator("circle").last.bounding_box()
    assert (
        where == "0.44, 2.76"
        and rows[2] == ["and", "1.01", "58%"]
        and "reaches furthest along the query: it gets 58% of the weight" in said(tab)
    )
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + 50, y + 240, steps=5)
    assert tab.locator("[role=status]").get_attribute("aria-busy") == "true"  # nothing is said of the way
    tab.mouse.up()
    tab.mouse.move(x + 55, y + 235, steps=2)  # it has been let go
    (where, rows) = tab.evaluate(DRAWN)
    assert where == "1.26, −1.15" and rows[5][0] == "it"
    assert f"“it” reaches furthest along the query: it gets {rows[5][2]} of the weight" in said(tab)
    tab.locator("[role=status][aria-busy=false]").wait_for()
    handle.focus()
    for key in ("ArrowLeft", "ArrowUp", "Shift+ArrowRight"):
        tab.keyboard.press(key)
    assert tab.evaluate(DRAWN)[0] == "1.66, −1.05"
    for _ in range(3):
        tab.keyboard.press("Shift+ArrowRight")
    assert tab.evaluate(DRAWN)[0] == "2.66, −1.05"  # the edge
    tab.wait_for_url(lambda url: "2.6647%2C-1.05" in url)
    tab.get_by_role("button", name="Dream").click()
    assert (
        tab.evaluate(DRAWN)[0] == "0.30, 1.83" and tab.locator(".examples [aria-pressed=true]").inner_text() == "Dream"
    )


@pytest.mark.parametrize(
    ("query", "sentence"),
    {
        "0.44,2.76/1": "Undivided, the scores lie further apart, and “and” gets 72% of the weight",
        "0.44,2.76/64": "Divided by √64, the scores lie closer together, and “and” gets 22% of the weight",
        "-1.2,-0.8/64": "no word gets more than 18% of the weight: √64 is meant for 64 numbers per vector",
        "0,0/2": "No key stands out for this query: no word gets more than 17% of the weight",
        "-1.2,-0.3/2": "The key of “work” is nearest in direction, but that of “Dream” is longer",
        "2.2,-1.6/1": "“it” gets 8",
        "nonsense": "The key of “and” reaches furthest along the query",
    }.items(),
)
def test_what_is_said_of_a_query(tab, pages, query, sentence):
    assert sentence in said(opened(tab, pages["drag_the_query"], f"#{query}"))


def test_the_slider_names_its_divisor(tab, pages):
    opened(tab, pages["drag_the_query"])
    slider = tab.get_by_role("slider", name="Divide the dot products by")
    slider.focus()
    tab.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "√4 = 2" and said(tab).startswith("Divided by √4, ")
    tab.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext") == "√1 = 1, undivided"


def test_any_width_can_be_tried_and_arrows_need_no_focus(tab, pages):
    opened(tab, pages["drag_the_query"])
    why = tab.locator("[aria-live=polite]").last
    tab.get_by_role("button", name="256", exact=True).click()
    assert "spread of 15.9, about √256" in why.inner_text() and "sum to only 0.08 on average here" in why.inner_text()
    rows = [row.split("\t") for row in tab.locator(".weigh").last.inner_text().splitlines()]
    assert rows[1] == ["largest", "94%", "42%"] and rows[-2:] == [
        ["spread of the scores", "15.9", "1.0"],
        [*rows[-1][:1], "0.08", "0.71"],
    ]
    tab.get_by_role("button", name="2", exact=True).click()
    assert "can still learn" in why.inner_text()
    opened(tab, pages["drag_the_query"]).keyboard.press("ArrowLeft")
    assert tab.evaluate(DRAWN)[0] == "0.34, 2.76"


# --- own words ---


def test_weights_of_own_words_are_those_of_the_storyteller(tab, pages):
    """Of its head with the numbers rounded to 8 bits; those of the head as it was trained differ by 0.02 at most."""
    model, known, *_ = rounded()
    trained, draw = load_storyteller(FORM), random.Random(0)
    texts = [draw.choices(known, k=draw.randint(1, LONGEST)) for _ in range(400)]
    run = "all => all.map(text => attend([0, ...text.map(numberOf)]).map(({weights}) => weights))"
    for text, rows in zip(texts, opened(tab, pages["own_words"]).evaluate(run, texts), strict=True):
        found = torch.tensor([row + [0.0] * (len(rows) - len(row)) for row in rows])
        for head, atol in ((model, 1e-4), (trained, 0.02)):
            torch.testing.assert_close(found, head.attention_weights(" ".join(text))[1][0, 0], atol=atol, rtol=0)


def test_words_are_typed_picked_and_asked(tab, pages):
    opened(tab, pages["own_words"])
    assert (
        said(tab) == "“red” looks most at “kite”: 0.96, and next at “.”: 0.02. The next word is the thing that is red."
    )
    field = tab.get_by_label("Your words")
    field.fill("anna was GLUM. she was")
    assert said(tab).startswith("“was” looks most at “Anna”: 0.5") and field.input_value() == "anna was GLUM. she was"
    tab.get_by_label("A word that it knows").select_option("not")
    tab.get_by_role("button", name="Add this word").press("Enter")
    assert said(tab).startswith("“not” looks most at “glum”: 0.8") and field.input_value().endswith("was not")
    tab.get_by_role("button", name="glum", exact=True).click()
    tab.wait_for_url("**#anna*not%2F3")
    rows = [row.split() for row in tab.locator(".weigh tbody tr").all_inner_texts()]
    assert rows[4][:2] == [".", "hidden"] and sum(float(row[2]) for row in rows[:4]) == pytest.approx(1, abs=0.02)
    again = opened(tab, pages["own_words"], "#" + tab.url.partition("#")[2])
    assert "“glum” looks most at" in said(again)


@pytest.mark.parametrize(
    ("text", "sentence"),
    {
        "Zoe had a red kites": "“kites” is not among the 225 words that this head knows. The nearest are “kite”, ",
        "a " * 20: "20 words are too many: this page holds the positions of 19.",
        "": "“(start)” sees nothing but itself",
    }.items(),
)
def test_what_is_said_of_words_that_it_cannot_read(tab, pages, text, sentence):
    field = opened(tab, pages["own_words"]).get_by_label("Your words")
    field.fill(text)
    assert said(tab).startswith(sentence) and field.get_attribute("aria-invalid") == str(bool(text)).lower()


def test_a_word_that_it_knows_is_put_in_by_key_and_the_table_says_of_what_it_is(tab, pages):
    opened(tab, pages["own_words"]).get_by_label("Your words, 19 at most").fill("Ben had a red kites")
    assert "still of the last text" in tab.locator("caption").inner_text()
    assert tab.locator("legend", has_text="Put in place of “kites”").is_visible()
    tab.get_by_role("button", name="kite", exact=True).press("Enter")
    assert tab.evaluate("field === document.activeElement && field.value") == "Ben had a red kite"
    assert tab.locator("caption").inner_text() == "Where “kite” looks"
    tab.get_by_role("button", name="Ida").click()
    assert "it can't tell which of them is blue" in said(tab)


# --- who may look at whom ---


def test_weights_under_a_mask_are_those_of_the_library(tab, pages):
    """Of random masks in both conventions, with rows that are left with nothing."""
    scores, generator = torch.tensor(live.who_may_look().data["scores"]), torch.Generator().manual_seed(0)
    masks = torch.rand(200, 6, 6, generator=generator) < torch.rand(200, 1, 1, generator=generator)
    run = """masks => masks.map((mask, i) => {
        show(mask, i % 2 ? "hidden" : "keep");
        return attend().map(row => row.map(weight => Number.isNaN(weight) ? -1 : weight));
    })"""
    found = torch.tensor(opened(tab, pages["who_may_look"]).evaluate(run, masks.int().tolist()), dtype=torch.float64)
    keep = masks.clone()
    keep[1::2] = ~masks[1::2]
    weights = scores.double().masked_fill(~keep, -torch.inf).softmax(dim=-1)
    empty = ~keep.any(dim=-1)
    assert torch.equal(weights.isnan().any(dim=-1), empty) and 50 < empty.sum() < 1000
    torch.testing.assert_close(found, weights.nan_to_num(-1.0), atol=1e-6, rtol=0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_weights_have_their_colour_on_every_page(browser, pages, theme):
    rule = re.search(r"(?<=const shade = ).*", read("who_may_look.js"))[0]
    assert rule in (TRAINED.parent / "page.js").read_text(encoding="utf-8")
    page = browser.new_page(color_scheme=theme)
    page.goto(pages["who_may_look"].as_uri())
    colors = page.evaluate("""() => [...document.querySelectorAll(".mask tbody td")].map(cell =>
        getComputedStyle(cell).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number))""")
    weights = [weight for row in page.evaluate("attend()") for weight in row]
    for found, weight in zip(colors, weights, strict=True):
        wanted = weight_color(weight) if theme == "light" else in_the_dark(weight_color(weight))
        assert [255 * part for part in found] == pytest.approx(list(bytes.fromhex(wanted[1:])), abs=6)
    page.close()


def test_a_mask_is_painted_by_pointer_and_by_keys(tab, pages):
    opened(tab, pages["who_may_look"])
    tab.get_by_role("button", name="causal", exact=True).click()
    first, last = (tab.locator(f"[data-query='0'][data-key='{key}']") for key in (1, 3))
    (x, y), (to, _) = (
        (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for box in (first.bounding_box(), last.bounding_box())
    )
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(to, y, steps=6)
    tab.mouse.up()
    tab.mouse.move(to, y + 60)  # it has been let go
    assert said(tab) == (
        "3 of the 15 cells above the diagonal look ahead: “Dream” takes 75% of its mix from words that come after it."
    )
    assert tab.locator(".ahead").count() == 3 and first.get_attribute("aria-label").endswith(", looks ahead")
    tab.keyboard.press("Space")  # where the pointer was pressed
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Space")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")  # there is nothing further left
    assert tab.locator(":focus").get_attribute("aria-label") == "Dream at Dream: True, weight 0.66"
    assert "1 of the 15 cells above the diagonal looks ahead: “Dream” takes 34% of its mix from a word" in said(tab)
    tab.wait_for_url(lambda url: "100100-110000-111000" in url)
    assert tab.locator(".mask [tabindex='0']").count() == 1


@pytest.mark.parametrize(
    ("preset", "reader", "sentence"),
    [
        ("causal", "keep", "No word looks ahead: each sees itself and all the words before it"),
        ("causal", "hidden", "Read as “True = hidden”, “it” may look at nobody, so softmax turns that row into nan"),
        (
            "nothing hidden",
            "hidden",
            "nobody may look at anybody: every score is −∞, and softmax turns all six rows into nan",
        ),
        ("padding", "keep", "Nobody looks at “for” or “it”, and 6 of the 15 cells above the diagonal look ahead"),
        ("window of 3", "keep", "some earlier ones are hidden too: “it” looks only at “work”, “for” and itself."),
        ("causal, padding on the left", "keep", "“Dream” and “big” may look at nobody, so softmax turns"),
    ],
)
def test_what_is_said_of_a_mask(tab, pages, preset, reader, sentence):
    opened(tab, pages["who_may_look"])
    tab.get_by_role("button", name=preset, exact=True).click()
    tab.get_by_role("button", name={"keep": "True = may look", "hidden": "True = hidden"}[reader]).click()
    assert sentence in said(tab)
    tab.get_by_role("button", name="invert").click()
    tab.get_by_role("button", name={"keep": "True = hidden", "hidden": "True = may look"}[reader]).click()
    assert sentence.split("hidden”, ")[-1][1:] in said(tab)  # the opposite table, read the opposite way


def test_a_name_of_a_table_is_true_in_both_conventions(tab, pages):
    opened(tab, pages["who_may_look"]).get_by_role("button", name="True = hidden").click()
    for name, says in (("causal", "no word looks ahead: each sees itself"), ("nothing hidden", "15 of the 15 cells")):
        preset = tab.get_by_role("button", name=name, exact=True)
        preset.click()
        assert says in said(tab) and preset.get_attribute("aria-pressed") == "true"
    assert tab.evaluate("String(mask) === String(mask.map(row => row.map(() => 0)))")
    assert {"query ↓", "key →"} <= set(tab.locator(".mask thead .note").all_inner_texts())


# --- decode ---

SLOTS = """[...document.querySelectorAll(".slots li")].map(slot => {
    return `${slot.querySelector("small").textContent} ${slot.querySelector("b").textContent}`.trim();
})"""


def memory_of(keys):
    """What a cache that got 1, 2, 3 ... as keys has in its slots: 0 where it has nothing."""
    return keys[..., 0].flatten().int().tolist()


def appended(cache, number):
    new = torch.full((1, 1, 1, 4), float(number), dtype=torch.float16)
    cache.append(new, new)


@pytest.fixture(scope="module")
def caches():
    """Name -> what lies in each slot after each token, as the caches of the library hold it; -1: of another text."""
    sizes = {"head_dim": 4, "dtype": torch.float16}
    kinds = {
        "Keep all": KVCache(1, 1, 16, **sizes),
        "Window of 4": RollingKVCache(1, 1, 4, **sizes),
        "Window of 3, and a sink": RollingKVCache(1, 1, 3, **sizes, num_sinks=1),
    }
    found = {name: [] for name in (*kinds, "Pages")}
    pool = BlockPool(4, 4, 1, **sizes)
    ours, other = PagedKVCache(pool), PagedKVCache(pool)
    for number in range(1, 13):
        for name, cache in kinds.items():
            appended(cache, number)
            found[name].append((memory_of(cache._keys), [], cache.nbytes))
        if number == 9:
            other.free()
        appended(ours, number)
        if number < 9:
            appended(other, -1)
        memory = memory_of(pool.keys)
        if number >= 9:  # what the other text has left there is nobody's
            memory = [max(0, number) for number in memory]
        found["Pages"].append((memory, list(ours.block_table), len(ours.block_table) * 4 * 16))
    return found


@pytest.mark.parametrize("name", ["Keep all", "Window of 4", "Window of 3, and a sink", "Pages"])
def test_the_slots_hold_what_the_caches_of_the_library_hold(tab, pages, caches, name):
    words = live.decode().data["words"]
    opened(tab, pages["decode"], f"#{name}:0")
    for now, (memory, table, reserved) in enumerate(caches[name]):
        names = [f"token {position} {word}" for position, word in enumerate(words)]
        names[now] = f"new {words[now]}"
        assert tab.evaluate(SLOTS) == [{0: "", -1: "other"}.get(number, names[number - 1]) for number in memory]
        facts = tab.locator(".facts").inner_text()
        held = sum(number > 0 for number in memory)
        assert f"{16 * held} of {reserved} reserved bytes" in facts
        assert f"{held} key{'s' * (held > 1)} and {held} value" in facts
        if table:
            assert f"{', '.join(map(str, table))}: token {now} is in block {table[-1]}, slot {now % 4}" in facts
        gone = tab.locator("[data-state=forgotten]").all_inner_texts()
        assert gone == [words[position] for position in range(now + 1) if position + 1 not in memory]
        tab.keyboard.press("ArrowRight")


def test_a_token_is_reached_by_slider_key_and_button(tab, pages):
    opened(tab, pages["decode"], "#Window of 4:3")
    slider, new = tab.get_by_role("slider"), tab.locator(".new")
    assert slider.get_attribute("aria-valuetext") == "3, “work”" and "work" in new.inner_text()
    slider.press("ArrowRight")
    assert "for" in new.inner_text() and said(tab).startswith("“for” takes the slot of “Dream”")
    assert tab.get_by_role("button", name="Dream, forgotten").count() == 1
    tab.get_by_role("button", name="Next").click()
    assert "it" in new.inner_text() and slider.input_value() == "5"
    tab.locator(".goals button", has_text="sink").click()
    assert "“it” takes the slot of “and”; “Dream” stays" in said(tab)
    tab.wait_for_url("**#Window*sink%3A5")


def test_pages_save_room_in_a_small_cache_and_in_a_published_one(tab, pages):
    opened(tab, pages["decode"], "#Pages:11")
    whole, *_, paged = tab.locator(".goals small").all_inner_texts()[:4]
    assert (whole, paged) == ("192 of 256 bytes", "192 of 192 bytes") and "block 3 is free for another text" in said(
        tab
    )
    for name, (layers, _, kv_heads, head_dim, width) in PUBLISHED.items():
        tab.get_by_role("button", name=name).click()
        tokens = (5000, 8192), (4096, 4096), (4096, 4096), (5000, 5008)
        expected = [[cache_bytes(n, layers, kv_heads, head_dim, width) for n in pair] for pair in tokens]
        assert tab.evaluate("models[model].after") == expected
        token = cache_bytes(1, layers, kv_heads, head_dim, width)
        assert f"{name} keeps {token // 1024} KiB a token" in tab.locator(".note").last.inner_text()
    tab.get_by_role("button", name="Llama 3 8B").click()
    assert "uses 625 MiB of 626 MiB reserved" in tab.locator(".note").last.inner_text()


# --- turn ---

ROTATED = """states => JSON.stringify(JSON.parse(states).map(({query, key, at: [m, n], base}) => {
    const [turned, other] = [rotated(query, m, base), rotated(key, n, base)];
    return [turned, other, sum(parts(turned, other))];
}))"""


@pytest.mark.parametrize("most", [16, 4096])
def test_vectors_turn_as_in_the_library(tab, pages, most):
    generator, states, expected = torch.Generator().manual_seed(most), [], []
    for base in 10 ** (2 + 4 * torch.rand(500, generator=generator)):
        vectors = torch.randn(2, 8, generator=generator, dtype=torch.float64) / 2
        at = torch.randint(most, (2,), generator=generator).tolist()
        cos, sin = rotary_table(max(at) + 1, 8, rope_theta=float(base))
        turned = apply_rotary(vectors[None, None], cos[at], sin[at])[0, 0]
        expected.append([*turned.tolist(), float(turned[0] @ turned[1])])
        query, key = vectors.tolist()
        states.append({"query": query, "key": key, "at": at, "base": float(base)})
    found = json.loads(opened(tab, pages["turn"]).evaluate(ROTATED, json.dumps(states)))
    rounding = 1e-6 if most == 16 else most * 2**-23  # angles are float32 in the table
    for one, other in zip(found, expected, strict=True):
        for ours, theirs in zip(one, other, strict=True):
            torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), atol=rounding, rtol=0)


def test_the_score_stays_where_both_move_and_changes_where_one_does(tab, pages):
    opened(tab, pages["turn"], "#9,5,100,16")
    score, dial = tab.locator(".scored b"), tab.locator(".dials svg").first
    (query, key, both), before, drawn = tab.get_by_role("slider").all(), score.inner_text(), dial.inner_html()
    for _ in range(3):
        both.press("ArrowRight")
        assert score.inner_text() == before and "so does the score" in said(tab)
    assert dial.inner_html() != drawn and (query.input_value(), key.input_value()) == ("12", "8")
    query.press("ArrowRight")
    assert score.inner_text() != before and "Only one has moved" in said(tab)
    query.press("Home")  # takes the key along, which no query before it reads
    assert key.get_attribute("aria-valuetext") == "position 0" and "At the same position" in said(tab)
    tab.get_by_role("button", name="500,000").click()
    tab.get_by_role("button", name="4,096 tokens").click()
    assert "1 of 4 pairs" not in said(tab) and "2 of 4 pairs can make a full turn" in said(tab)
    tab.wait_for_url("**#0%2C0%2C500000%2C4096")


# --- share keys and values ---

READERS = """[...document.querySelectorAll(".groups > div")].map(group => {
    return [...group.querySelectorAll("span")].map(head => Number(head.textContent));
})"""


@pytest.mark.parametrize("model", live.share_keys_and_values().data["models"], ids=lambda model: model["name"])
def test_heads_share_and_bytes_are_saved_as_in_the_library(tab, pages, model):
    heads, sizes = model["heads"], PUBLISHED.get(model["name"], (2, 4, None, 16, 4))
    opened(tab, pages["share_keys_and_values"], f"#{model['name']}:{heads}")
    for option in model["options"]:
        kv_heads = option["kvHeads"]
        measured = GroupedQueryAttention(5, 2 * heads, heads, kv_heads)
        ((copy),) = copies_of({"": measured}, torch.randn(1, 4, 5))
        keys, values = copy.readers(torch.randn(1, 4, 5, dtype=torch.float64))
        assert tab.evaluate(READERS) == keys == values
        layers, _, own, head_dim, width = sizes
        per_token = cache_bytes(1, layers, kv_heads, head_dim, width)
        facts = tab.locator(".facts").inner_text()
        assert f"{per_token:,} bytes a token" in facts
        assert option["step"] == cache_bytes(model["tokens"], layers, kv_heads, head_dim, width)
        assert ("does this" in said(tab)) is (own == kv_heads)
        tab.get_by_role("slider").press("ArrowRight")


def test_the_sizes_are_those_of_the_lesson():
    source = (ROOT / "notebooks" / "sources" / "06_multi_query.py").read_text(encoding="utf-8")
    of_lesson = ast.literal_eval(re.search(r"^models = ({.*?^})", source, re.DOTALL | re.MULTILINE)[1])
    assert {name.partition(" (")[0]: sizes for name, sizes in of_lesson.items()} == {
        name: sizes[:4] for name, sizes in PUBLISHED.items()
    }


def test_facts_are_those_of_the_card(tab, pages):
    card = json.loads((TRAINED / "card.json").read_text(encoding="utf-8"))
    opened(tab, pages["share_keys_and_values"], "#Storyteller:1")
    counts = {
        form: [[sum(run[of].get(kind, 0) for kind in KINDS) for of in ("kept", "said")] for run in card[form]["seeds"]]
        for form in FORMS
    }
    shares = [sorted(100 * kept / said for kept, said in runs) for runs in counts.values()]
    rows = [row.split("\t") for row in tab.locator(".weigh tbody tr").all_inner_texts()]
    assert [row[1:] for row in rows] == [
        [one, ", ".join(f"{share:.1f}" for share in runs)]
        for one, runs in zip(("1,024", "512", "256"), shares, strict=True)
    ]
    apart, means = max(runs[2] - runs[0] for runs in shares), [sum(runs) / 3 for runs in shares]
    assert max(means) - min(means) < apart and "is lost in that noise here" in tab.locator(".facts").inner_text()
    tab.get_by_role("button", name="PaLM").click()
    facts = tab.locator(".facts").inner_text()
    assert "Not measured here." in facts and "8 kv heads for 32 query heads in Llama 3 8B" in facts
    tab.keyboard.press("ArrowLeft")  # wherever the focus is
    assert tab.get_by_role("slider").get_attribute("aria-valuetext") == "2 for 48 query heads"


# --- for everybody ---


@pytest.mark.one_in(7)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [900, 320])
@pytest.mark.parametrize("name", STATES)
def test_a_page_can_be_read_and_reached(browser, pages, name, width, theme):
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 640}, reduced_motion="reduce")
    page, complaints = context.new_page(), Complaints(pages[name].as_uri())
    complaints.watch(page)
    page.goto(pages[name].as_uri())
    for state in STATES[name]:
        page.evaluate(state)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []
        rights = page.evaluate("[...figure.querySelectorAll('*')].map(it => it.getBoundingClientRect().right)")
        assert max(rights) <= width
    assert not page.locator(".still").is_visible() and complaints.found == []
    context.close()


def test_without_scripts_and_on_paper_there_is_the_picture(browser, tab, pages):
    bare = browser.new_context(java_script_enabled=False)
    page = bare.new_page()
    page.goto(pages["why_transpose"].as_uri())
    assert page.locator(".still img").first.is_visible()
    bare.close()
    opened(tab, pages["why_transpose"]).emulate_media(media="print")
    assert tab.locator(".still img").first.is_visible() and not tab.locator("#stage").is_visible()
    tab.emulate_media(media="screen")


def test_it_has_the_theme_that_was_chosen_in_the_book(tab, pages):
    opened(tab, pages["why_transpose"]).evaluate("localStorage.theme = 'dark'")
    tab.reload()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb{tuple(bytes.fromhex(NIGHT[1:]))}"
    tab.evaluate("localStorage.clear()")


@pytest.mark.parametrize(
    ("name", "first", "by", "now", "after"),
    [
        ("drag_the_query", ".handle circle:last-child", (40, 120), "query.map(Math.round)", [1, 1]),
        ("who_may_look", "[data-query='0'][data-key='1']", (80, 0), "mask[0]", [1, 0, 0, 0, 1, 1]),
    ],
)
def test_a_finger_drags_and_does_not_scroll(browser, pages, name, first, by, now, after):
    context = browser.new_context(viewport={"width": 320, "height": 640}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(pages[name].as_uri())
    box, finger = page.locator(first).bounding_box(), context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind, part in (("touchStart", 0), *(("touchMove", step / 8) for step in range(1, 9))):
        touched = [{"x": x + by[0] * part, "y": y + by[1] * part}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.evaluate(now) == after and page.evaluate("scrollY") == 0
    context.close()


@pytest.mark.parametrize(("motion", "moves"), [("no-preference", True), ("reduce", False)])
def test_cells_move_only_where_the_reader_wants_it(browser, pages, motion, moves):
    context = browser.new_context(reduced_motion=motion)
    page = context.new_page()
    page.goto(pages["why_transpose"].as_uri())
    page.locator(".moving").wait_for(state="attached")
    assert not page.evaluate("document.getAnimations().length")  # they begin where they should be
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.getAnimations().length > 0") is moves
    on_the_way = page.evaluate(PLACES, ".tables .cell")
    page.evaluate("() => Promise.all(document.getAnimations().map(it => it.finished)).then(() => null)")
    assert (page.evaluate(PLACES, ".tables .cell") != on_the_way) is moves
    context.close()


@pytest.mark.parametrize("name", STATES)
def test_a_step_touches_few_elements(tab, pages, name):
    """Counted, not timed: what a step costs the browser is what it must lay out and paint again."""
    acts = ", ".join(f"() => {act}" for act in STATES[name])
    touched = opened(tab, pages[name]).evaluate(f"""async () => {{
        const touched = [];
        for (const act of [{acts}, {acts}]) {{
            const observer = new MutationObserver(() => {{}});
            observer.observe(document, {{subtree: true, childList: true, attributes: true, characterData: true}});
            act();
            const count = node => 1 + (node.querySelectorAll?.("*").length ?? 0);
            const drawn = ({{addedNodes}}) => Math.max(1, [...addedNodes].reduce((sum, node) => sum + count(node), 0));
            touched.push(observer.takeRecords().reduce((sum, record) => sum + drawn(record), 0));
            observer.disconnect();
        }}
        return touched;
    }}""")
    assert max(touched) < MOST_TOUCHED, touched


def notebook_page(figure, ground="#fff", scripts=True):
    """A page that shows a cell's output as a notebook does."""
    html = figure._repr_html_()
    return f"<!doctype html><body style='background:{ground}'><h1>{'Trusted' if scripts else 'Not'}</h1>{html}"


@pytest.mark.parametrize(("ground", "theme"), [("#fff", "light"), ("#111", "dark")])
def test_in_a_notebook_it_stands_in_a_frame_as_dark_as_the_notebook(browser, tmp_path, ground, theme):
    (tmp_path / "cell.html").write_text(notebook_page(live.why_transpose(), ground), encoding="utf-8")
    page, complaints = browser.new_page(), Complaints(tmp_path.as_uri())
    complaints.watch(page)
    page.goto((tmp_path / "cell.html").as_uri())
    page.locator(".moves").wait_for()
    frame = page.frame_locator("iframe")
    assert not page.locator(".still").is_visible() and frame.locator(f"html[data-theme={theme}]").count() == 1
    frame.get_by_role("button", name="Next").click()
    assert frame.locator("[aria-current=step]").inner_text() == ".view(1, 6, 2, 2)"
    inner = frame.locator("html").bounding_box()["height"]
    assert abs(page.locator("iframe").bounding_box()["height"] - inner) < 2
    assert dream_big().words[0] in frame.locator(".labels").inner_text()
    page.emulate_media(media="print")
    assert page.locator(".still img").first.is_visible() and not page.locator("iframe").is_visible()
    assert complaints.found == []
    page.close()


# --- tiles ---


def test_the_running_numbers_are_those_of_the_library_and_of_softmax(tab, pages):
    generator, drawn = torch.Generator().manual_seed(0), []
    for count in torch.randint(1, 30, (300,), generator=generator).tolist():
        scores, values = 6 * torch.randn(2, count, generator=generator, dtype=torch.float64)
        drawn.append((scores, values, int(torch.randint(1, count + 1, (1,), generator=generator))))
    asked = [[scores.tolist(), values.tolist(), size] for scores, values, size in drawn]
    script = """all => JSON.stringify(JSON.parse(all).map(one => running(...one).map(
        ({largest, total, weighted, factor}) => [largest, total, weighted, factor])))"""
    found = json.loads(opened(tab, pages["tiles"]).evaluate(script, json.dumps(asked)))
    for one, (scores, values, size) in zip(found, drawn, strict=True):
        theirs = [[step.largest, step.total, step.weighted, step.factor] for step in running(scores, values, size)]
        torch.testing.assert_close(torch.tensor(one), torch.tensor(theirs), rtol=1e-6, atol=1e-9)
        assert one[-1][2] / one[-1][1] == pytest.approx(float(scores.softmax(0) @ values), rel=1e-9, abs=1e-9)


def test_tiles_are_turned_by_keys_and_a_mistake_shows_in_the_context(tab, pages):
    opened(tab, pages["tiles"])
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    assert said(tab).startswith("All keys have passed, and the context is what softmax over all scores gives: 3.045")
    assert tab.locator(".slots .new").count() == 3
    tab.get_by_role("button", name="sum not corrected").click()
    wrong = said(tab)
    assert "instead of 3.045: the sum kept the powers of the tiles before as they were" in wrong
    tab.get_by_role("button", name="12", exact=True).click()
    assert "the context is right by luck" in said(tab)  # nothing was before
    tab.get_by_role("button", name="2", exact=True).click()
    tab.keyboard.press("ArrowRight")
    assert tab.locator("[aria-current=step]").inner_text() == "Tile 1"  # one step for one key, after other sizes
    tab.wait_for_url("**#2%2C2%2C1")


# --- roofline ---

COUNTED = """all => JSON.stringify(JSON.parse(all).map(([change, queries]) => {
    set(change);
    const {batch, tokens, kvHeads, bits, table} = state;
    return [attentionWork(batch, queries, tokens, kvHeads, bits, table), matrixWork(batch, queries, bits)].map(one =>
        [one.operations, one.moved, boundBy(one), bestSeconds(one)]);
}))"""


def test_work_and_what_it_waits_for_are_those_of_the_library_and_the_lesson(tab, pages):
    draw, asked, expected = random.Random(0), [], []
    for _ in range(500):
        chosen = {name: draw.choice(values) for name, values in SLIDERS.items()}
        phase, table, tokens = draw.randint(0, 1), draw.randint(0, 1), draw.randint(1, 200_000)
        queries, batch, bits = tokens if phase else 1, chosen["batch"], chosen["bits"]
        asked.append([chosen | {"phase": phase, "table": table, "tokens": tokens}, queries])
        attention = attention_work(batch, queries, tokens, chosen["kvHeads"], bits, table_moves=bool(table))
        limits = chosen["flops"], chosen["speed"]
        for work in (attention, matrix_work(batch, queries, bits)):
            seconds = max(work.operations / limits[0], work.moved / limits[1])
            expected.append([*work, bound_by(*work, *limits), pytest.approx(seconds)])
    counts = opened(tab, pages["roofline"]).evaluate(COUNTED, json.dumps(asked))
    found = json.loads(counts, parse_int=float)  # more than 2**53 operations
    assert [one for both in found for one in both] == expected
    assert {bound for _, _, bound, _ in expected} == {"memory", "compute"}


def test_sliders_move_the_points_and_the_sentence_says_what_each_waits_for(tab, pages):
    opened(tab, pages["roofline"])
    assert said(tab).startswith("Both wait for memory: attention does 1 operation for each byte and the matrix 0.999")
    batch, _, kv_heads, bits, rate, _ = tab.get_by_role("slider").all()
    before = tab.evaluate("[...plane.querySelectorAll('i')].map(dot => dot.style.left)")
    batch.press("End")
    assert batch.get_attribute("aria-valuetext") == "512 texts"
    assert "512 texts share one reading of the matrix" in said(tab) and "attention still waits for memory" in said(tab)
    matrix, attention = tab.evaluate("[...plane.querySelectorAll('i')].map(dot => dot.style.left)")
    assert matrix != before[0] and attention == before[1]  # each text brings a cache
    kv_heads.press("End")
    bits.press("Home")
    rate.press("Home")
    assert said(tab).startswith("Both wait for arithmetic, because many query heads share each key")
    rate.press("ArrowRight")
    assert rate.get_attribute("aria-valuetext") == "495 trillion/s"
    tab.wait_for_url("**#0%2C0%2C9%2C12%2C5%2C0%2C1%2C2")
    opened(tab, pages["roofline"], "#1,1,9,12")
    assert "the table of scores is written and read back, and so attention waits for memory" in said(tab)
    assert "memory-bound" in tab.locator(".curve").get_attribute("aria-label").partition("Matrix")[0]
    tab.get_by_role("button", name="stays on the chip").click()
    assert said(tab).startswith("Both wait for arithmetic, because all tokens are read at once")


# --- devices ---

STEPS = """all => JSON.stringify(JSON.parse(all).map(([n, change]) => {
    set(change);
    return [...decodingStep(n, state), ...bytesOnDevice(n, state)];
}))"""


def test_the_parts_of_a_decoding_step_are_those_of_the_library(tab, pages):
    draw, asked, expected = random.Random(0), [], []
    for _ in range(500):
        chosen, way, n = (
            {name: draw.choice(values) for name, values in OF_DEVICES.items()},
            draw.randint(0, 2),
            2 ** draw.randint(2, 8),
        )
        asked.append([n, chosen | {"way": way}])
        texts, tokens, *network = chosen.values()
        expected += [*decoding_step(n, texts, tokens, WAYS[way], Network(*network)), *bytes_on_device(n, texts, tokens)]
    found = json.loads(opened(tab, pages["devices"]).evaluate(STEPS, json.dumps(asked)))
    assert [number for one in found for number in one] == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_sentence_names_the_fastest_number_that_fits(tab, pages):
    opened(tab, pages["devices"])
    assert said(tab).startswith("8 devices are fastest: a ring of 16 leaves the machine")
    rows = tab.locator(".facts dd").all_inner_texts()
    assert len(rows) == len(DEGREES) and "14.5 ms: weights 10.2 cache 3.2 sending 0.1 waiting 1.0" in rows[0]
    tab.get_by_role("button", name="two levels", exact=True).click()
    assert "16 devices are fastest: 32 would save 1.3 ms of reading, but spend 3.3 ms more" in said(tab)
    texts, tokens, *_ = tab.get_by_role("slider").all()
    texts.press("End")
    assert said(tab).startswith(
        "This does not fit: on 64 devices each would hold 89 GB, more than the 80 GB of an H100"
    )
    tokens.press("ArrowLeft")
    assert tokens.get_attribute("aria-valuetext") == "4,096 in each cache"
    assert (
        said(tab).startswith("8 devices are fastest")
        and "✗ 121 GB on each" in tab.locator(".facts dd").first.inner_text()
    )
    tab.wait_for_url("**#1%2C8%2C2%2C3%2C3%2C3%2C2")
