"""The repository's address stands in pyproject.toml, and every link, badge and setup cell agrees with it."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from course_lib.exercises import EXERCISES
from tools.book.lesson_table import hours
from tools.notebooks.address import Address, read_address

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "*.cff", "environment.yml", ".devcontainer/*", ".github/**/*.*", "book/**/*.md", "notebooks/**/*.*")
SLUG = r"(?P<slug>[\w.-]+(?:/|%2F)[\w-]+)"
# The addresses that can only be the course's own, whatever they name, each with the git ref that it leads to.
OWN = [
    rf"colab\.research\.google\.com/github/{SLUG}/blob/(?P<ref>[^/]+)/",
    rf"mybinder\.org/v2/gh/{SLUG}/(?P<ref>[^?/\s)]+)",
    rf"git\+https://github\.com/{SLUG}@(?P<ref>[\w./-]+)",
    rf"github\.com%2F{SLUG}&branch=(?P<ref>[\w.-]+)",
    rf"github\.com/{SLUG}/actions/workflows/\w+\.yml/badge\.svg\?branch=(?P<ref>[\w.-]+)",
    rf"github\.com/{SLUG}/archive/refs/(?:heads|tags)/(?P<ref>[\w.-]+)\.zip",
]
PAGE = rf"github\.com/{SLUG}(?:/(?:blob|tree|raw)/(?P<ref>[^/\s)]+))?"
BOOK = r"(?P<owner>[\w-]+)\.github\.io/(?P<name>[\w-]+)"


def wrong_addresses(text: str, address: Address) -> Iterator[str]:
    """Yield each address of the course in a text that has another owner, name or git ref than pyproject.toml."""
    owner, name = address.slug.split("/")
    text = "\n".join(line for line in text.splitlines() if "github" in line or "mybinder" in line)  # or it takes 7 s
    for pattern in OWN:
        for found in re.finditer(pattern, text):
            if (found["slug"].replace("%2F", "/"), found["ref"]) != (address.slug, address.ref):
                yield found[0]
    for found in re.finditer(PAGE, text):
        ours = found["slug"] == address.slug
        if (ours and found["ref"] not in (None, address.ref)) or (not ours and found["slug"].endswith(f"/{name}")):
            yield found[0]
    for found in re.finditer(BOOK, text):
        if found["name"] == name and found["owner"] != owner.lower():
            yield found[0]


def test_every_address_is_that_of_pyproject():
    paths = {path for pattern in PAGES for path in ROOT.glob(pattern) if path.is_file()}
    assert len(paths) > 80
    address = read_address(ROOT)
    wrong = {str(path.relative_to(ROOT)): list(wrong_addresses(path.read_text("utf-8"), address)) for path in paths}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_the_readme_has_a_link_to_colab_for_each_lesson():
    address, readme = read_address(ROOT), (ROOT / "README.md").read_text(encoding="utf-8")
    lessons = [path.stem for path in sorted((ROOT / "notebooks" / "sources").glob("[0-9][0-9]_*.py"))]
    assert lessons
    sheets = [f"exercises/{path.stem}" for path in (ROOT / "notebooks" / "exercises").glob("*.ipynb")]
    assert [name for name in lessons + sheets if address.colab(name) not in readme] == []


def test_the_readme_can_be_read_in_the_time_that_a_reader_gives_it():
    """Its prose, without pictures and without the table of lessons, which grows with them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|^\|.*$", "", readme, flags=re.MULTILINE)

    def words(text):
        return len(re.sub(r"\]\([^)]*\)|[|\[-]", " ", text).split())

    assert 250 <= words(text) <= 400


def test_the_first_screen_of_the_readme_has_something_for_everybody():
    """A student, a teacher and an engineer each find a line of their own, and something to click."""
    first = (ROOT / "README.md").read_text(encoding="utf-8").split("## Start")[0]
    for link in ("/recordings.html)", "(book/teach.md)", "(book/doctor.md)", "00_start_here.ipynb)"):
        assert link in first, link


def test_the_readme_adds_its_minutes_up():
    """The hours are the sums of the minutes in its table, and the table's exercises are those there are."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lessons = sum(map(int, re.findall(r"\| (\d+)&nbsp;min \|", readme)))
    exercises = sum(map(int, re.findall(r"\[\d+, (\d+)&nbsp;min\]", readme)))
    more = hours(exercises).removesuffix(" hours")
    assert f"The lessons take {hours(lessons)}, the {len(EXERCISES)} exercises {more} more." in readme
    assert exercises == sum(exercise.minutes for exercise in EXERCISES.values())
    assert sum(map(int, re.findall(r"\[(\d+), \d+&nbsp;min\]", readme))) == len(EXERCISES)


WRONG = [
    "https://colab.research.google.com/github/eve/course/blob/main/notebooks/00_a.ipynb",
    "https://colab.research.google.com/github/ada/course/blob/v1/notebooks/00_a.ipynb",
    "git+https://github.com/eve/old@main",
    "git+https://github.com/ada/course@v0.1.0",
    "https://github.com/eve/old/actions/workflows/tests.yml/badge.svg?branch=main",
    "https://mybinder.org/v2/gh/ada/course/v1?urlpath=lab/tree/notebooks/00_a.ipynb",
    "https://HUB/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgithub.com%2Feve%2Fold&branch=main&urlpath=lab",
    "https://github.com/ada/course/archive/refs/tags/v0.1.0.zip",
    "https://github.com/ada/course/blob/v0/CONTRIBUTING.md",
    "https://github.com/eve/course/issues",
    "https://eve.github.io/course/mistakes",
]
RIGHT = [
    "https://colab.research.google.com/github/ada/course/blob/main/notebooks/00_a.ipynb",
    "https://github.com/ada/course.git",
    "https://github.com/ada/course/issues",
    "https://ada.github.io/course/mistakes",
    "https://github.com/karpathy/nanoGPT/blob/master/model.py",
    "https://github.com/eve/course-too",
]


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_address_is_found(text):
    assert list(wrong_addresses(f"see {text}.", Address("ada/course", "main")))


@pytest.mark.parametrize("text", RIGHT)
def test_right_and_foreign_addresses_are_left_alone(text):
    assert not list(wrong_addresses(f"see {text}.", Address("ada/course", "main")))


@pytest.mark.parametrize(("version", "ref"), [("0.1.0.dev0", "main"), ("0.1.0", "v0.1.0")])
def test_a_release_leads_to_its_tag(version, ref, tmp_path):
    project = f'[project]\nversion = "{version}"\nurls.Repository = "https://github.com/ada/course"\n'
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    assert read_address(tmp_path) == Address("ada/course", ref)


def perl(name: str) -> list[str]:
    """The options -e of perl that CONTRIBUTING.md gives in the section of this name, with the release v0.1.0."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"## {name}\n")[1].split("\n## ")[0]
    return re.findall(r"-e (?:\\\n +)?'(.*)'", section)


@pytest.mark.skipif(shutil.which("perl") is None, reason="needs perl, as CONTRIBUTING.md does")
@pytest.mark.parametrize(
    ("section", "address"),
    [
        ("Fork", Address("ada/attention-course", "main")),
        ("Release", Address("attention-course/attention-course", "v0.1.0")),
    ],
)
def test_the_line_in_contributing_carries_every_address(section, address, tmp_path):
    options = [word for line in perl(section) for word in ("-e", line)]
    assert options
    for path in (ROOT / "README.md", *(ROOT / "book").glob("*.md"), *(ROOT / "notebooks").rglob("01*.ipynb")):
        copy = tmp_path / path.name
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        subprocess.run(["perl", "-pi", *options, str(copy)], check=True)
        assert list(wrong_addresses(copy.read_text(encoding="utf-8"), address)) == []
