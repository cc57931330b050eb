"""The pictures of the book's recordings are whole, and a page opens where its attention begins."""

import re
import xml.etree.ElementTree as ElementTree
from html import unescape

import pytest
import torch

from course_lib.pictures.style import HEADS
from course_lib.recording_page import page_of, story_of
from tools.book.recording_openings import OPENINGS
from tools.book.recording_preview import HEIGHT, WIDTH, preview, write_thumbnail
from tools.book.recordings import INTRO, RECORDINGS, RULES, WORDS, tags, write_list


@pytest.fixture(scope="module")
def runs():
    torch.manual_seed(0)
    with torch.no_grad():
        return {entry.name: entry.make() for entry in RECORDINGS}


def test_the_list_shows_the_cards_before_it_tells_the_rules(tmp_path):
    write_list(tmp_path / "recordings.md")
    text = " ".join((tmp_path / "recordings.md").read_text(encoding="utf-8").split())
    assert len(INTRO.split()) < 50 and text.index("</ul>") < text.index(" ".join(RULES.split())[:40])
    assert "Within one step, a number comes from another one if a change of that one alone can change it." in text
    assert "a number whose effects cancel is still marked, such as a bias of the keys" in text
    assert "Of a maximum or a sort only the selected number is shown" in text


@pytest.mark.one_in(9)
@pytest.mark.parametrize("entry", RECORDINGS, ids=lambda entry: entry.name)
def test_nothing_of_a_picture_is_cut(runs, entry, tmp_path):
    figure = preview(runs[entry.name], entry.title, entry.about)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.texts]
    assert all(box.x1 < figure.bbox.x1 and box.x0 > 0 for box in boxes)
    assert boxes[0].y0 > boxes[1].y1  # the title ends above the sentence
    write_thumbnail(tmp_path / "small.svg", runs[entry.name], entry.tag)
    cells = ElementTree.parse(tmp_path / "small.svg").getroot().findall("{*}rect")
    assert cells
    for cell in cells:
        x, y, width, height = (float(cell.get(name)) for name in ("x", "y", "width", "height"))
        assert 0 < x < x + width < WIDTH and 0 < y < y + height < HEIGHT


def test_no_two_cards_look_alike(runs, tmp_path):
    drawn = {}
    for entry in RECORDINGS:
        write_thumbnail(tmp_path / "small.svg", runs[entry.name], entry.tag)
        root = ElementTree.parse(tmp_path / "small.svg").getroot()
        of_heads = {cell.get("style") for cell in root.findall("{*}rect")} & {f"fill:{color}" for color in HEADS}
        drawn[entry.name] = root.find("{*}text").text, len(of_heads)
    assert len({tag for tag, _ in drawn.values()}) == len(RECORDINGS)
    assert {name: heads for name, (_, heads) in drawn.items() if heads != 2} == {"one_head": 1, "grouped_query": 4}


@pytest.mark.slow
@pytest.mark.parametrize("entry", RECORDINGS, ids=lambda entry: entry.name)
def test_every_axis_of_every_step_has_its_name(runs, entry):
    for stage in story_of(runs[entry.name]).stages:
        named = dict(zip(stage.result.axes, stage.result.shape, strict=True))
        assert named.get("", 1) == 1 or set(named) == {""}, stage.result
        assert len(set(stage.result.axes) - {"", "mixed"}) + stage.result.axes.count("") + stage.result.axes.count(
            "mixed"
        ) == len(stage.result.axes)  # none twice
    html = page_of(runs[entry.name], words=WORDS)
    text = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    assert "axis 0:" not in text and "axis 1:" not in text and not re.search(r"[(, ]\?[,)]", text)
    assert html.count("class=h0") > 0 or entry.name in ("one_head", "wrapper")  # the cells of a head have its colour


def test_the_scrambling_view_ends_in_what_its_rows_really_are(runs):
    html = page_of(runs["wrong_view"], words=WORDS)
    assert "10 of its 12 rows belong to another token or another head" in html
    last = html[html.index('id="step-2"') :]
    rows = re.findall(r"<tr><th scope=row>([^<]*)<td class=h(\d)>(\d+)<td class=h(\d)>(\d+)", last)[:12]
    assert [(name, int(number)) for name, _, number, _, _ in rows] == [
        (f"{'' if place in (0, 11) else '✗ '}{WORDS[place // 2]}, head {place % 2}", 2 * place) for place in range(12)
    ]
    assert all(int(first) == int(other) == place % 2 for place, (_, first, _, other, _) in enumerate(rows))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OPENINGS)
def test_a_page_opens_with_at_most_eight_steps_and_says_why(runs, name):
    html = page_of(runs[name], words=WORDS, opening=OPENINGS[name])
    whys = re.findall(r"<p class=why>(.*?)</p>", html)
    assert len(whys) == len(OPENINGS[name]) <= min(8, len(runs[name]))
    assert [re.sub("</?code>", "`", why) for why in whys] == [sentence for _, sentence in OPENINGS[name]]


@pytest.mark.parametrize("entry", RECORDINGS, ids=lambda entry: entry.name)
def test_a_page_says_what_it_is_to_search_engines_and_to_those_who_are_sent_its_address(entry):
    head = tags(entry, "https://x.org/")
    said = dict(re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)">', head))
    assert unescape(said["description"]) == unescape(said["og:description"]) == entry.about
    address = f"https://x.org/recordings/{entry.name}.html"
    assert said["og:url"] == address and f'<link rel="canonical" href="{address}">' in head
