"""A saved recording in a real browser: every path it shows is true, and everybody can walk it."""

import pytest
import torch
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
)
from course_lib.inputs import dream_big
from course_lib.recorder import record, snapshots
from course_lib.recording_page import page_of, sources

from .site import Complaints, violations

LARGEST = 300_000  # bytes of the page of the split weights
ALL_PATHS = """() => {
    const plain = found => Object.fromEntries([...found].map(([t, set]) => [t, [...set]]));
    const {tensors, back, ahead} = recording;
    const x = Object.keys(tensors).find(t => t.startsWith("in") && tensors[t].name === "x");
    const paths = (t, p) => ({back: plain(back(t, p)), from: recording.sources(t, p)});
    const places = t => [...Array(tensors[t].shape.reduce((a, b) => a * b, 1)).keys()];
    const all = Object.fromEntries(Object.keys(tensors).map(t => [t, places(t).map(p => paths(t, p))]));
    return {...all, x: places(x).map(p => ({ahead: plain(ahead(x, p))})), nameOfX: x};
}"""


class Strange(nn.Module):
    """Heads along an einsum, a flat projection cut by chunk, keys made by cat, an unusual order of axes."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(6, 18)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(x.shape[0], x.shape[1], 3, 2, 3).permute(2, 0, 3, 1, 4)
        k = torch.cat([k[..., 1:], k[..., :1]], dim=-1)
        weights = torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1)
        mixed = torch.einsum("bhqk,bhkd->bqhd", weights, v).flatten(2)
        return x + mixed * torch.sigmoid(x).mean(dim=1, keepdim=True)


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 2)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return out.transpose(1, 2).reshape(x.shape)


SEEING_ALL = {  # without a mask; widths and numbers of tokens that differ from each other
    "wrapper": (lambda: MultiHeadAttentionWrapper(3, 4, 2, causal=False), (1, 5, 3)),
    "weight split": (lambda: MultiHeadAttention(3, 4, 2, causal=False), (2, 4, 3)),
    "multi-query": (lambda: MultiQueryAttention(3, 4, 2, causal=False), (1, 5, 3)),
    "grouped": (lambda: GroupedQueryAttention(3, 8, 4, 2, causal=False), (1, 3, 3)),
    "strange": (Strange, (2, 4, 6)),
    "fused": (Fused, (1, 3, 4)),
}
CAUSAL = {
    "weight split": (lambda: MultiHeadAttention(3, 4, 2), (1, 6, 3)),
    "llama": (lambda: LlamaAttention(8, 2, num_kv_heads=1), (1, 3, 8)),
    "latent": (lambda: LatentAttention(4, 2, latent_dim=3, head_dim=2, rotary_dim=2), (1, 3, 4)),
}


@pytest.fixture(scope="module")
def tab(browser):
    profile = browser.new_context()
    yield profile.new_page()
    profile.close()


def drawn(make, shape):
    torch.manual_seed(0)
    module = make().eval()
    return module, torch.rand(shape) + 0.5


def paths_of(tab, tmp_path, recording):
    """Return every path of a page, as the page's own script finds it."""
    file = recording.save_page(tmp_path / "page.html")
    tab.goto("about:blank")
    tab.goto(file.as_uri())
    return tab.evaluate(ALL_PATHS)


def poisoned(module, x):
    """Return for each step (element of the result, element of x): whether nan in the one puts nan into the other."""
    found = []
    for i in range(x.numel()):
        bad = x.clone()
        bad.view(-1)[i] = torch.nan
        steps = record(module, bad).all_steps
        found.append([step.tensor.isnan().flatten() for step in steps])
    return [torch.stack(of_step, dim=1) for of_step in zip(*found, strict=True)]


def claimed(paths, step, count):
    """Return the same table as the page tells it, back from each number."""
    table = torch.zeros(len(paths[str(step)]), count, dtype=torch.bool)
    for cell, path in enumerate(paths[str(step)]):
        table[cell, path["back"].get(paths["nameOfX"], [])] = True
    return table


def wrong_steps(recording, paths, truth, count):
    """Return the steps of which a path, back or ahead, differs from what nan in the input shows."""
    wrong = []
    for step in recording:
        ahead = torch.zeros_like(truth[step.number])
        for element, path in enumerate(paths["x"]):
            ahead[path["ahead"].get(str(step.number), []), element] = True
        expected = truth[step.number]
        if not torch.equal(claimed(paths, step.number, count), expected) or not torch.equal(ahead, expected):
            wrong.append(step.number)
    return wrong


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", SEEING_ALL)
def test_every_path_is_true(tab, tmp_path, form):
    module, x = drawn(*SEEING_ALL[form])
    recording = record(module, x)
    paths = paths_of(tab, tmp_path, recording)
    assert wrong_steps(recording, paths, poisoned(module, x), x.numel()) == []
    moved_numbers_are_equal(recording, paths)


@pytest.fixture(scope="module")
def truth_of_the_split():
    return poisoned(*drawn(*SEEING_ALL["weight split"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [sources.softmax_sources, sources.elementwise_sources, sources.movement_sources, sources.gradient_sources]
)
def test_a_wrong_rule_is_found(tab, tmp_path, monkeypatch, truth_of_the_split, rule):
    right = rule

    def turned(*given):
        found = right(*given)
        return found and [table if table is None else table.roll(1, dims=-1) for table in found]

    monkeypatch.setattr(sources, "RULES", tuple(turned if rule is right else rule for rule in sources.RULES))
    module, x = drawn(*SEEING_ALL["weight split"])
    recording = record(module, x)
    assert wrong_steps(recording, paths_of(tab, tmp_path, recording), truth_of_the_split, x.numel())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", CAUSAL)
def test_a_hidden_token_is_on_no_path(tab, tmp_path, form):
    module, x = drawn(*CAUSAL[form])
    recording = record(module, x)
    paths, widest = paths_of(tab, tmp_path, recording), poisoned(module, x)
    last = len(recording) - 1
    token = torch.arange(x.shape[1])
    earlier = (token[:, None] >= token[None, :]).repeat_interleave(recording[last].shape[-1], 0)
    assert torch.equal(claimed(paths, last, x.numel()), earlier.repeat_interleave(x.shape[-1], 1))
    moving = moved_by(module, x)
    for step in recording:  # at least where a change shows, at most where nan does
        told = claimed(paths, step.number, x.numel())
        assert not (told & ~widest[step.number]).any(), step
        assert not (moving[step.number] & ~told).any(), step
    moved_numbers_are_equal(recording, paths)


def moved_by(module, x):
    """Return for each step (element of the result, element of x): whether the gradient is not 0."""
    module, sizes = module.double(), []

    def run(given):
        steps = record(module, given).all_steps
        sizes[:] = [step.tensor.numel() for step in steps]
        return torch.cat([step.tensor.double().flatten() for step in steps])

    jacobian = torch.autograd.functional.jacobian(run, x.double())
    return (jacobian.flatten(1).abs() > 1e-9).split(sizes)


def moved_numbers_are_equal(recording, paths):
    """A number that a step moved equals the one that it came from; all numbers of these runs differ."""
    tensors = {str(step.number): step.tensor.flatten() for step in recording}
    moves = [step for step in recording if step.is_layout and step.dtype.is_floating_point]
    assert moves
    for step in moves:
        for cell, path in enumerate(paths[str(step.number)]):
            (source,) = [one for one in path["from"] if one["at"]]
            (place,) = source["at"]
            if source["t"] in tensors:
                assert tensors[str(step.number)][cell] == tensors[source["t"]][place], (step, cell)


# --- the page in a browser ---


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(0)
    words, _, x = dream_big()
    recording = record(MultiHeadAttention(3, 4, 2), x)
    return recording.save_page(tmp_path_factory.mktemp("pages") / "split.html", words=words, title="Split weights")


def test_its_size(saved):
    assert saved.stat().st_size < LARGEST


@pytest.mark.one_in(4)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_everybody_can_read_it(browser, saved, theme, width):
    # Colours that change at once: a half-finished transition has a contrast of its own.
    other = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page, complaints = other.new_page(), Complaints(saved.as_uri())
    complaints.watch(page)
    wide = width > 1000  # whose colours a telephone has, too
    for place in ("", "#step-16", "#step-17.0.1.5.5"):
        page.goto("about:blank")
        page.goto(saved.as_uri() + place)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not violations(page, colors=wide), place
    page.get_by_role("button", name="Dark or light").click()
    assert not violations(page, colors=wide)
    assert not complaints.found
    other.close()


def test_by_keyboard_alone(tab, saved):
    tab.goto("about:blank")
    tab.goto(saved.as_uri())
    press, here = tab.keyboard.press, lambda: tab.evaluate("location.hash")
    assert here() == "#step-0"
    for key, place in (("ArrowRight", 1), ("End", 24), ("ArrowRight", 24), ("ArrowLeft", 23), ("Home", 0)):
        press(key)
        assert here() == f"#step-{place}" and tab.locator("section.step:visible").count() == 1
    for _ in range(30):  # to the first number of the result
        press("Tab")
        if tab.evaluate("!!document.activeElement.closest('.now .result td')"):
            break
    press("ArrowRight")
    press("ArrowDown")
    press("Enter")
    assert here() == "#step-0.0.1.1"
    said = tab.get_by_role("status").inner_text()
    assert "token big, feature 1 is" in said and "It came from 3 numbers of x; 3 numbers of q_proj.weight" in said
    press("Escape")
    assert here() == "#step-0" and tab.get_by_role("status").inner_text() == ""
    assert tab.evaluate("!!document.activeElement.closest('.now .result td')"), "Escape let the number go, and left it"
    press("Escape")
    assert tab.evaluate("!!document.activeElement.closest('#controls')")
    press("ArrowRight")
    assert here() == "#step-1"


def test_a_page_opens_with_few_steps_and_shows_all_steps_on_request(tab, tmp_path):
    torch.manual_seed(0)
    recording = record(MultiHeadAttention(3, 4, 2), dream_big()[2])
    opening = [("queries", "Cut."), ("weights", "Where it looks."), ("weights", "Once more."), ("output", "Joined.")]
    file = tmp_path / "path.html"
    file.write_text(page_of(recording, opening=opening), encoding="utf-8")
    tab.goto(file.as_uri())
    press, here = tab.keyboard.press, lambda: tab.evaluate("location.hash")
    assert here() == "#step-1" and tab.locator(".now .why").inner_text() == "Cut."
    for key, place in (("ArrowRight", 17), ("ArrowRight", 18), ("End", 23), ("ArrowRight", 23), ("ArrowLeft", 18)):
        press(key)
        assert here() == f"#step-{place}"
    assert not tab.locator(".now .words").first.is_visible()
    everything = tab.get_by_role("button", name="All 25 steps")
    everything.click()
    press("ArrowLeft")
    press("ArrowLeft")
    assert here() == "#step-16" and everything.get_attribute("aria-pressed") == "true"
    assert tab.get_by_label("Step", exact=True).locator("option").count() == 25
    everything.click()  # back to the path, to the nearest step before
    assert here() == "#step-1" and tab.get_by_label("Step", exact=True).locator("option").count() == 4
    tab.goto("about:blank")
    tab.goto(f"{file.as_uri()}#step-9")  # an address off the path
    assert here() == "#step-9" and everything.get_attribute("aria-pressed") == "true"


def test_pointing_shows_a_path_and_a_click_keeps_it(tab, saved):
    tab.goto("about:blank")
    tab.goto(saved.as_uri())
    numbers, heading = tab.locator(".now .result td:not(.corner)"), tab.locator("h1")
    marked, said = tab.locator(".now .before td.from"), tab.locator("#said")
    numbers.nth(0).hover()
    assert marked.count() == 6  # a token of three features, and a row of three weights
    assert not said.inner_text() and tab.evaluate("location.hash") == "#step-0"
    heading.hover()
    assert marked.count() == 0
    numbers.nth(0).click()
    kept = tab.locator("td.from").evaluate_all("cells => cells.map(cell => cell.textContent)")
    numbers.nth(9).hover()
    heading.hover()
    assert "It came from" in said.inner_text()
    assert tab.locator("td.from").evaluate_all("cells => cells.map(cell => cell.textContent)") == kept


@pytest.mark.parametrize("width", [390, 1400])
def test_a_chosen_number_stays_where_it_was_and_its_words_can_be_read(browser, saved, width):
    with browser.new_context(viewport={"width": width, "height": 844}) as profile:
        page = profile.new_page()
        for scrolled in (0, 250, 900):
            page.goto("about:blank")
            page.goto(saved.as_uri() + "#step-17")
            page.evaluate("y => scrollTo(0, y)", scrolled)
            above = page.evaluate(BOTTOM_OF_CONTROLS)
            for number in (2, 30, 30):  # the second time it is no longer chosen
                before, after, words = page.evaluate(CHOOSE, number)
                assert after == pytest.approx(max(before, words[1]), abs=1), (scrolled, number)
                assert words[0] >= above - 1 or words[0] == words[1], "the words are under the buttons"


BOTTOM_OF_CONTROLS = 'document.querySelector("#controls").getBoundingClientRect().height'
CHOOSE = """number => new Promise(done => {
    const cell = document.querySelectorAll(".now .result td:not(.corner)")[number];
    const said = document.querySelector("#said");
    const before = cell.getBoundingClientRect().top;
    cell.click();
    requestAnimationFrame(() => requestAnimationFrame(() => {
        const {top, bottom} = said.getBoundingClientRect();
        done([before, cell.getBoundingClientRect().top, [top, bottom]]);
    }));
})"""


def test_a_path_through_numbers_that_are_left_out_is_called_incomplete(tab, tmp_path):
    wide = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512))
    file = record(wide, torch.randn(1, 3, 512)).save_page(tmp_path / "wide.html")
    tab.goto(file.as_uri())
    tab.keyboard.press("End")
    tab.locator(".now .result td:not(.corner)").first.click()
    said = tab.locator("#said").inner_text()
    assert "it is not complete here" in said and "shown numbers of" in said
    assert "No later step reads it." in said


def in_place(x):
    weights = torch.ones(2, 3).tril() / 2
    output = weights @ x
    output += 1.0
    return output


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("3.0.1", "output (step 3) at axis 0: 0, feature 1 is 0.50 (slot 1 of memory"),  # before step 4 wrote there
        ("2.0.2", "weights at [0, 2] is 0.00 (slot 2 of memory 2). It came from torch.ones(2, 3).tril() at [0, 2]."),
        ("2.0.2", "It goes to 2 of output (step 3), 2 of output (step 4)."),  # a weight of 0, which decides
        ("3.0.1", "It came from 3 numbers of weights; x at token 0, feature 1."),  # and not from what the 0 hides
        ("4.0.1", "No later step reads it."),
    ],
)
def test_what_is_said_of_numbers_that_change_add_nothing_or_end_the_run(tab, tmp_path, address, words):
    file = record(in_place, torch.ones(3, 2)).save_page(tmp_path / "in_place.html")
    tab.goto("about:blank")
    tab.goto(f"{file.as_uri()}#step-{address}")
    assert words in " ".join(tab.locator("#said").inner_text().split())


def test_of_memory_that_was_too_large_to_copy_the_page_says_what_it_does_not_know(tab, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "MOST_BYTES", 0)
    file = record(in_place, torch.ones(3, 2)).save_page(tmp_path / "large.html")
    tab.goto("about:blank")
    tab.goto(f"{file.as_uri()}#step-3.0.1")
    said = " ".join(tab.locator("#said").inner_text().split())
    assert "Step 4 wrote into its memory, so it may have been another number at this step." in said


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("0.0", "It may depend on 3 numbers of x: the page does not know which of them this step reads for it."),
        ("0.0", "It goes to 1 of x.unique() * 2."),
        ("1.0", "It came from .unique() at [0]. All the way back: at most 3 of 3 numbers of x. Not all of them"),
        ("1.0", "Not all of them need count: the page does not know which numbers step 0 reads for each result."),
        ("1~in0.1", "It goes at most to 3 of .unique(), 3 of x.unique() * 2. Not all of them need count"),
    ],
)
def test_what_a_page_does_not_know_is_said_of_the_number(tab, tmp_path, address, words):
    file = record(lambda x: x.unique() * 2, torch.tensor([0.0, 3.0, 4.0])).save_page(tmp_path / "unknown.html")
    tab.goto("about:blank")
    tab.goto(f"{file.as_uri()}#step-{address}")
    assert words in " ".join(tab.locator("#said").inner_text().split())


def through_an_expert(x):
    chosen = x.sum(1) > 0
    rows = torch.where(chosen)[0]
    return torch.zeros_like(x).index_add_(0, rows, x[rows])


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("5.2.0", "All the way back: at most 6 of 6 numbers of x. Not all of them need count: a change of the order"),
        ("5.2.0", "a change of the order in which step 2 lists what was found may cancel out."),
        ("2.1", "All the way back: 6 of 6 numbers of x."),
        ("5~in0.0.0", "It goes at most to"),
    ],
)
def test_a_path_through_the_order_of_a_list_leads_to_numbers_that_need_not_count(tab, tmp_path, address, words):
    file = record(through_an_expert, torch.tensor([[1.0, 2.0], [-3.0, 1.0], [2.0, 2.0]])).save_page(tmp_path / "e.html")
    tab.goto("about:blank")
    tab.goto(f"{file.as_uri()}#step-{address}")
    assert words in " ".join(tab.locator("#said").inner_text().split())


@pytest.mark.parametrize(("word", "said"), [("é", 0), ("\U0001e4d0", 1)])
def test_letters_without_a_font_are_named_in_one_sentence(tab, tmp_path, word, said):
    file = record(lambda x: x * 2, torch.ones(1, 2, 3)).save_page(tmp_path / "letters.html", words=[word, "big"])
    tab.goto("about:blank")
    tab.goto(file.as_uri())
    found = tab.get_by_text("This machine has no font with")
    assert found.count() == said
    assert not said or f"no font with {word} (U+1E4D0), so empty boxes stand for such letters" in found.inner_text()


def test_a_word_from_right_to_left_leaves_the_numbers_in_their_places(tab, tmp_path):
    file = record(lambda x: x @ x.mT, torch.ones(1, 2, 3)).save_page(tmp_path / "rtl.html", words=["שלום", "big"])
    tab.goto("about:blank")
    tab.goto(file.as_uri() + "#step-1.0.0.1")
    said = tab.locator("#said")
    assert "query \u2068שלום\u2069, key big is" in said.inner_text()
    assert tab.locator(".now .result th[scope=row]").first.inner_text() == "שלום"


def test_an_address_is_a_moment(tab, saved):
    tab.goto("about:blank")
    tab.goto(saved.as_uri() + "#step-6.0.1.3.0")
    assert tab.locator(".now .result td.sel").count() == 1 and tab.evaluate("scrollY") == 0
    assert tab.locator(".now .before td.from").count() == 1  # a transpose moves one number
    assert tab.locator("#code .now").inner_text().strip().endswith("(b, t, h, d) -> (b, h, t, d)")
    for nonsense in ("#step-99", "#step-6.9.9.9.9", "#nothing"):
        tab.goto("about:blank")
        tab.goto(saved.as_uri() + nonsense)
        assert tab.locator("section.step:visible").count() == 1 and tab.locator("td.sel").count() == 0


def test_without_scripts_all_steps_stand_below_each_other(browser, saved):
    bare = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 900})
    page = bare.new_page()
    page.goto(saved.as_uri())
    assert page.locator("section.step:visible").count() == 25
    assert not page.locator("#controls").is_visible() and not page.locator(".how").locator("visible=true").count()
    assert page.locator("#step-17 .words").inner_text().startswith("Line core.py:")
    bare.close()


@pytest.mark.parametrize("system", ["light", "dark"])
def test_it_prints_dark_on_white_in_each_theme(tab, saved, system):
    tab.goto(saved.as_uri())
    for chosen in ("light", "dark"):
        tab.evaluate("theme => document.documentElement.dataset.theme = theme", chosen)
        tab.emulate_media(media="print", color_scheme=system)
        colours = tab.evaluate(
            "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
        )
        assert colours == ["rgb(31, 35, 40)", "rgb(255, 255, 255)"], (system, chosen)
    tab.emulate_media(media="screen", color_scheme="light")
    tab.evaluate("() => delete document.documentElement.dataset.theme")


def test_it_prints_as_a_sequence(tab, saved):
    tab.goto("about:blank")
    tab.goto(saved.as_uri() + "#step-3")
    tab.emulate_media(media="print")
    assert tab.locator("section.step:visible").count() == 25 and not tab.locator("#controls").is_visible()
    tab.emulate_media(media="screen")
