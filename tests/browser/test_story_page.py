"""A storyteller's page in a real browser: it computes what PyTorch does, and everybody can use it."""

import json
import random
import re
from functools import partial
from html import unescape

import pytest
import torch
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
)
from course_lib.stories import FORMS, KINDS, Storyteller, facts_kept, joined, save_page, stories, words
from course_lib.stories.kept import mentions
from course_lib.stories.language import CHOICES, GIRLS

from .site import Complaints, violations

COUNT = 200  # beginnings of each model
TOLERANCE = 1e-4
SMALL = {"width": 24, "num_heads": 4, "max_len": 40}
ROTARY = {"positions": False, "norm": nn.RMSNorm}


def sinking(d_in, d_out, num_heads):
    return LlamaAttention(d_in, num_heads, num_kv_heads=1, window=5, num_sinks=2, rope_theta=500.0)


# The course's forms as they are trained, and others that its classes can have.
MODELS = {name: partial(Storyteller, form.attention, **form.options) for name, form in FORMS.items()} | {
    "wrapper": partial(Storyteller, MultiHeadAttentionWrapper, **SMALL),
    "wrapper without projection": partial(Storyteller, partial(MultiHeadAttentionWrapper, out_proj=False), **SMALL),
    "widths and biases": partial(Storyteller, partial(MultiHeadAttention, d_qk=8, d_v=16, bias=True), **SMALL),
    "three heads a group": partial(
        Storyteller, partial(GroupedQueryAttention, num_kv_heads=2), **SMALL | {"num_heads": 6, "num_blocks": 3}
    ),
    "window and sinks": partial(Storyteller, sinking, **SMALL, **ROTARY),
    "norm without weights": partial(
        Storyteller, MultiQueryAttention, **SMALL, norm=partial(nn.LayerNorm, elementwise_affine=False)
    ),
}
LOGITS = """both => {
    const [beginnings, expected] = JSON.parse(both);
    let most = 0;
    beginnings.forEach((tokens, i) => {
        const caches = storyteller.newCaches();
        let found;
        for (const token of tokens) found = storyteller.read(token, caches);
        found.logits.forEach((logit, j) => { most = Math.max(most, Math.abs(logit - expected[i][j])); });
    });
    return most;
}"""
LOOKS = """tokens => {
    const caches = storyteller.newCaches();
    return tokens.map(token => storyteller.read(token, caches).looks.map(layer => layer.map(row => [...row])));
}"""


def with_large_weights(make):
    """A model with random weights that are large enough for sharp attention and different logits."""
    torch.manual_seed(1)
    model = make()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * (1.5 * weight.shape[-1] ** -0.5 if weight.dim() > 1 else 0.5))
    return model.eval()


def rounded(model):
    return model.half().float()


def random_beginnings(model):
    """Beginnings of many lengths, sorted by length: most are short, some fill the model."""
    rng = random.Random(0)
    lengths = sorted([*rng.choices(range(1, 25), k=COUNT - 4), *[model.max_len] * 4])
    return [[0, *rng.choices(range(1, len(model.vocabulary)), k=length - 1)] for length in lengths]


@torch.no_grad()
def logits_of(model, beginnings):
    return [model(torch.tensor([tokens]))[0, -1].double().tolist() for tokens in beginnings]


@pytest.fixture(scope="module")
def tab(browser):
    profile = browser.new_context()
    yield profile.new_page()
    profile.close()


def opened(tab, model, tmp_path, **options):
    file = save_page(model, tmp_path / "story.html", **options)
    tab.goto("about:blank")
    tab.goto(file.as_uri())
    return file


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", MODELS)
def test_its_logits_are_those_of_pytorch(tab, tmp_path, name):
    model = with_large_weights(MODELS[name])
    opened(tab, model, tmp_path)
    beginnings = random_beginnings(model)
    expected = logits_of(rounded(model), beginnings)
    assert torch.tensor(expected).std() > 0.5
    assert tab.evaluate(LOGITS, json.dumps([beginnings, expected])) < TOLERANCE


READINGS = """texts => texts.map(text => {
    const {spaced, wordsOf, reading} = storyteller;
    const {mentions, kept} = reading(text), again = spaced(wordsOf(text)).join("");
    return [again, mentions.map(one => [one.start, one.name, one.word, one.again, one.right]), kept];
})"""


OTHER = {"he": "she", "she": "he", "his": "her", "her": "his", "He": "She", "She": "He"}


def damaged(texts):
    """Texts in which words are replaced, left out, doubled or moved, so that facts and sentences break."""
    rng = random.Random(1)
    vocabulary = [word for text in texts for word in words(text)]
    for text in texts:
        tokens = [OTHER.get(word, word) if rng.random() < 0.2 else word for word in words(text)]
        for _ in range(rng.choice((1, 1, 3))):
            at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
            tokens[at : at + rng.choice((0, 1, 1, 1))] = [rng.choice((rng.choice(vocabulary), tokens[other]))]
        yield joined(tokens)


def test_it_reads_facts_as_python_does(tab, tmp_path):
    told = [story.text for story in stories(400, seed=11)]
    animal, (name, other) = CHOICES["animal"][0], GIRLS[:2]
    one_animal = f"Once there was a {animal} named {name}. What was the name of the {animal}? It was {other}."
    texts = [*told, *damaged(told), one_animal, "", "Ben. Ben.", '"', '" " "', told[0][:-9]]
    opened(tab, Storyteller(**SMALL), tmp_path)
    verdicts = set()
    for text, (again, found, kept) in zip(texts, tab.evaluate(READINGS, texts), strict=True):
        assert again == joined(words(text))
        assert found == [[each.start, each.name, each.word, each.again, each.right] for each in mentions(text)[0]], text
        assert kept == facts_kept(text), text
        verdicts |= set(kept.items())
    assert {kind for kind, is_kept in verdicts if is_kept} == {kind for kind, is_kept in verdicts if not is_kept}
    assert len(verdicts) == 2 * (len(KINDS) + 1)


@torch.no_grad()
def test_it_shows_the_weights_of_pytorch(tab, tmp_path):
    model = with_large_weights(MODELS["three heads a group"])
    opened(tab, model, tmp_path)
    tokens = random_beginnings(model)[-1]
    found = tab.evaluate(LOOKS, tokens)  # (query, layer, head, key)
    inputs = [[] for _ in model.blocks]
    for block, kept in zip(rounded(model).blocks, inputs, strict=True):
        block.attention.register_forward_pre_hook(lambda _, given, kept=kept: kept.append(given[0]))
    model(torch.tensor([tokens]))
    for layer, (block, kept) in enumerate(zip(model.blocks, inputs, strict=True)):
        weights = block.attention(kept[0], return_weights=True)[1][0]  # (head, query, key)
        for query in range(len(tokens)):
            expected = weights[:, query, : query + 1]
            torch.testing.assert_close(
                torch.tensor(found[query][layer], dtype=torch.float32), expected, atol=1e-5, rtol=0
            )


# --- the page in a browser ---


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The page of a model that has learned a few stories by heart."""
    torch.manual_seed(0)
    model = Storyteller(width=32, num_heads=4, num_blocks=2, max_len=192)
    model.train_on([story.text for story in stories(8, seed=2)], steps=100, batch=8, rate=6.0)
    return save_page(model, tmp_path_factory.mktemp("pages") / "story.html", title="Eight stories")


@pytest.fixture
def page(browser, saved):
    """The page where nothing moves, so that a story is there at once."""
    profile = browser.new_context(reduced_motion="reduce")
    page, complaints = profile.new_page(), Complaints(saved.as_uri())
    complaints.watch(page)
    page.goto(saved.as_uri())
    yield page
    assert not complaints.found
    profile.close()


STORY = """() => {
    const copy = document.querySelector("#story").cloneNode(true);
    copy.querySelectorAll(".tag").forEach(tag => tag.remove());
    return copy.textContent;
}"""


def story_of(page):
    return page.evaluate(STORY)


def test_it_opens_with_a_finished_story_and_a_word_that_is_explained(page, saved):
    bare = re.search(r"<p id=story>(.*?)</p>", saved.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert story_of(page) == unescape(re.sub(r"<[^>]*>", "", bare))  # JavaScript and PyTorch write the same
    shown = page.locator("#shown").inner_text()
    assert re.search(r"To write \w+: head \d of layer \d looked at “[^”]+” \(\d\.\d\d\)\.", shown)
    assert "Layer 0" in shown and "Layer 1" in shown and page.locator(".head").count() == 8
    assert page.locator(".word.lit").count() and page.locator(".word .tag").count()
    assert page.get_by_role("status").inner_text() == ""  # nothing is read out before anybody asks


def test_what_is_said_of_a_word_is_what_the_model_looked_at(page):
    tokens = page.evaluate("() => [...document.querySelectorAll('.word')].map(word => word.textContent)")
    page.locator("#story").press("Home")
    for _ in range(9):
        page.locator("#story").press("ArrowRight")
    said = page.get_by_role("status").inner_text()
    word, head, layer, seen, weight = re.match(
        r"(\w+): head (\d) of layer (\d) looked at “(.+)” \((\d\.\d\d)\)\.", said
    ).groups()
    looks = page.evaluate(
        """() => {
        const {data, newCaches, read, wordsOf, spaced} = storyteller, caches = newCaches();
        const words = [...document.querySelectorAll('.word')].slice(1, 10).map(word => word.firstChild.textContent);
        let last;
        for (const word of [data.end, ...words]) last = read(data.vocabulary.indexOf(word), caches);
        return [last.looks.map(heads => heads.map(row => [...row])), words];
    }"""
    )
    rows, words_before = looks
    row = rows[int(layer)][int(head)]
    most = max(max(each[1:]) for heads in rows for each in heads)
    assert max(row[1:]) == most and f"{most:.2f}" == weight
    assert words_before[row.index(most) - 1] == seen
    assert page.locator(".chosen").inner_text().startswith(word) and len(tokens) > 11


def test_by_keyboard_alone(page):
    press = page.keyboard.press
    for _ in range(12):
        press("Tab")
        if page.evaluate("document.activeElement.id") == "story":
            break
    chosen = page.locator("#story .chosen")
    press("Home")
    assert chosen.get_attribute("data-at") == "1" and "The word was given." in page.locator("#shown").inner_text()
    press("ArrowLeft")
    assert chosen.get_attribute("data-at") == "1"
    press("ArrowRight")
    assert chosen.get_attribute("data-at") == "2"
    press("End")
    last = page.locator(".word").count() - 1
    assert chosen.get_attribute("data-at") == str(last)
    press("Tab")  # to the first head
    press("Enter")
    assert page.evaluate("document.activeElement.matches('.head[aria-pressed=true]')")
    tags = page.locator("#story .tag").all_inner_texts()
    assert all(re.fullmatch(r"[01]\.\d\d", tag) for tag in tags)
    press("Shift+Tab")
    press("Escape")
    assert chosen.count() == 0 and page.locator(".lit").count() == 0
    assert "Choose a word" in page.locator("#shown").inner_text()


def test_a_word_is_chosen_by_a_click_and_let_go_by_another(page):
    word = page.locator(".word").nth(7)
    page.locator(".word").nth(5).click()
    word.click()
    assert page.locator(".chosen").count() == 1 and "chosen" in word.get_attribute("class")
    lit = page.locator(".word.lit").evaluate_all("words => words.map(word => +word.dataset.at)")
    assert lit and max(lit) < 7
    word.click()
    assert page.locator(".chosen").count() == 0


def test_another_story_and_the_same_one_again(page):
    again, number = page.get_by_role("button", name="Tell another story"), page.get_by_label("Story", exact=True)
    first = story_of(page)
    page.get_by_label("Temperature").fill("2")
    told = []
    for _ in range(3):
        again.click()
        told.append(story_of(page))
    assert len({first, *told}) == 4 and number.input_value() == "3"
    assert "Story 3, at temperature 2." in page.locator("#caption").inner_text()
    number.fill("1")
    number.press("Tab")
    assert story_of(page) == told[0]
    number.fill("2")
    number.press("Enter")
    assert story_of(page) == told[1] and number.input_value() == "2"
    page.get_by_label("Temperature").fill("0")
    again.click()
    assert story_of(page) == first
    assert re.search(
        r"The story is finished\. (It keeps all its facts|Not kept: )", page.get_by_role("status").inner_text()
    )


def test_a_beginning_is_picked_or_typed_in_any_letters(page):
    page.get_by_role("button", name="Long ago there was").click()
    assert story_of(page).startswith("Long ago there was a")
    box = page.get_by_label("It begins with")
    box.fill("ONCE there Was an OWL named ida.")
    box.press("Enter")
    assert story_of(page).startswith("Once there was an owl named Ida.")


def test_a_word_that_the_model_does_not_know_is_told(page):
    before, alert = story_of(page), page.locator("#unknown")
    box = page.get_by_label("It begins with")
    box.fill("Once there was a dragon")
    box.press("Enter")
    assert alert.text_content().startswith("The model doesn't know “dragon”.")
    assert story_of(page) == before and box.get_attribute("aria-invalid") == "true"
    assert page.evaluate("document.activeElement.id") == "beginning"
    assert page.get_by_label("Story", exact=True).input_value() == "0"
    box.fill("Once there was a hare " * 60)
    box.press("Enter")
    assert alert.text_content() == "The model reads 191 words at most: shorten the beginning."
    box.fill("Once there was a hare")
    box.press("Enter")
    assert alert.text_content() == "" and story_of(page).startswith("Once there was a hare")


def test_it_writes_word_by_word_stops_steps_and_goes_on(browser, saved):
    with browser.new_context() as profile:
        page = profile.new_page()
        page.goto(saved.as_uri())
        words, go = page.locator(".word"), page.locator("#go")
        assert not go.is_visible()
        page.get_by_role("button", name="Tell another story").click()
        words.nth(6).wait_for()
        go.click()
        count = words.count()
        assert go.inner_text() == "Continue"
        page.wait_for_timeout(300)
        assert words.count() == count
        page.get_by_role("button", name="One word").click()
        assert words.count() == count + 1 and page.locator(".chosen").get_attribute("data-at") == str(count)
        go.click()
        words.nth(count + 2).wait_for()
        words.nth(4).click()  # stops it, too
        count = words.count()
        page.wait_for_timeout(300)
        assert words.count() == count and page.get_by_role("status").inner_text()


def test_facts_are_marked_as_they_are_kept_and_lost(page):
    (animal, other), home, name = CHOICES["animal"][:2], CHOICES["home"][0], GIRLS[0]
    box = page.get_by_label("It begins with")
    box.fill(f"Once there was a {animal} named {name}. {name} lived by the {home}. Who was {name}? She was a {other}.")
    box.press("Enter")
    marks = page.locator(".word:is(.first, .right, .wrong)").evaluate_all(
        "words => words.slice(0, 7).map(word => [word.firstChild.textContent, word.classList[1]])"
    )
    fresh = [[animal, "first"], [name, "first"], [name, "right"], [home, "first"]]
    assert marks == [*fresh, [name, "right"], ["She", "right"], [other, "wrong"]]
    assert re.search(rf"animal\s+{animal}, then {other} not kept", page.locator("#facts").inner_text(), re.IGNORECASE)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_everybody_can_read_it(browser, saved, theme, width):
    profile = browser.new_context(
        color_scheme=theme, viewport={"width": width, "height": 800}, reduced_motion="reduce", has_touch=True
    )
    page, complaints = profile.new_page(), Complaints(saved.as_uri())
    complaints.watch(page)
    page.goto(saved.as_uri())
    for act in ("", "another", "touch"):
        if act == "another":
            page.get_by_role("button", name="Tell another story").tap()
        elif act:
            page.locator(".word").nth(9).tap()
            page.locator(".head").nth(5).tap()
            page.get_by_text("The words that it knows").tap()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not violations(page), act
    assert not complaints.found
    profile.close()


def test_without_scripts_the_story_stands_there(browser, saved):
    bare = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 800})
    page = bare.new_page()
    page.goto(saved.as_uri())
    assert page.locator("#story").inner_text().startswith("Once there was a")
    assert "kept" in page.locator("#facts").inner_text()
    assert not page.locator("button").locator("visible=true").count() and not page.locator("#looks").is_visible()
    bare.close()
