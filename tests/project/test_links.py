"""The repository's address stands in pyproject.toml and is carried everywhere else, there and back without loss."""

import re
import shutil
from pathlib import Path

import pytest

from course_lib.command import main
from course_lib.lessons.address import Address, files_with_addresses, read_address, rewrite_all, set_address

ROOT = Path(__file__).resolve().parents[2]
OURS = Address("attention-course/attention-course", "main")


@pytest.fixture
def copy(tmp_path):
    """A copy of every file that holds an address."""
    for path in [ROOT / "pyproject.toml", *files_with_addresses(ROOT)]:
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    return tmp_path


def contents(root):
    return {path: path.read_bytes() for path in [root / "pyproject.toml", *files_with_addresses(root)]}


def test_every_address_is_right():
    off = [str(path.relative_to(ROOT)) for path in rewrite_all(ROOT, write=False)]
    assert not off, f"`make links` mends these: {off}"


def test_the_readme_has_a_colab_badge_for_each_lesson():
    address, readme = read_address(ROOT), (ROOT / "README.md").read_text(encoding="utf-8")
    lessons = [path.stem for path in sorted((ROOT / "notebooks" / "sources").glob("[0-9][0-9]_*.py"))]
    assert lessons
    sheets = [f"exercises/{path.stem}" for path in (ROOT / "notebooks" / "exercises").glob("*.ipynb")]
    assert [name for name in lessons + sheets if address.colab(name) not in readme] == []


def test_the_readme_can_be_read_in_the_time_that_a_reader_gives_it():
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", (ROOT / "README.md").read_text(encoding="utf-8"))  # no pictures
    words = re.sub(r"\]\([^)]*\)|[|\[-]", " ", text).split()
    assert 500 <= len(words) <= 700


def test_the_readme_adds_its_minutes_up():
    """Lessons take four hours, exercises three, within a quarter of an hour."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lessons = sum(map(int, re.findall(r"\| (\d+) min \|", readme)))
    exercises = sum(map(int, re.findall(r"\[\d+, (\d+) min\]", readme)))
    assert "The lessons take four hours, the 32 exercises three more." in readme
    assert abs(lessons - 240) <= 15 and abs(exercises - 180) <= 15
    assert sum(map(int, re.findall(r"\[(\d+), \d+ min\]", readme))) == 32


def test_there_and_back_is_lossless(copy):
    before, slug = contents(copy), read_address(copy).slug
    set_address(copy, "ada/heads")
    changed = rewrite_all(copy, slug)
    assert {path.name for path in changed} >= {"README.md", "CITATION.cff"}
    leftover = [path for path, text in contents(copy).items() if slug.encode() in text]
    assert leftover == []
    assert rewrite_all(copy, write=False) == []
    set_address(copy, slug)
    rewrite_all(copy, "ada/heads")
    assert contents(copy) == before


def test_a_release_points_at_its_tag(copy):
    pyproject = copy / "pyproject.toml"
    version = read_version(pyproject)
    pyproject.write_text(pyproject.read_text(encoding="utf-8").replace(version, "0.1.0"), encoding="utf-8")
    assert read_address(copy).ref == "v0.1.0"
    assert rewrite_all(copy)
    readme = (copy / "README.md").read_text(encoding="utf-8")
    assert "/blob/v0.1.0/notebooks/" in readme and "/blob/main/notebooks/" not in readme
    doors = (copy / "book" / "doors.md").read_text(encoding="utf-8")
    assert "/archive/refs/tags/v0.1.0.zip" in doors and "/archive/refs/heads/" not in doors


def read_version(pyproject):
    line = next(line for line in pyproject.read_text(encoding="utf-8").splitlines() if line.startswith("version"))
    return line.split('"')[1]


REWRITTEN = [
    (
        "https://colab.research.google.com/github/eve/old/blob/v1/notebooks/00_a.ipynb",
        "https://colab.research.google.com/github/attention-course/attention-course/blob/main/notebooks/00_a.ipynb",
    ),
    ("git+https://github.com/eve/old@v0.1.0", "git+https://github.com/attention-course/attention-course@main"),
    (
        "https://github.com/eve/old/actions/workflows/tests.yml/badge.svg?branch=v1",
        "https://github.com/attention-course/attention-course/actions/workflows/tests.yml/badge.svg?branch=main",
    ),
    (
        "https://mybinder.org/v2/gh/eve/old/v1?urlpath=lab/tree/notebooks/00_a.ipynb",
        "https://mybinder.org/v2/gh/attention-course/attention-course/main?urlpath=lab/tree/notebooks/00_a.ipynb",
    ),
    (
        "https://HUB/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgithub.com%2Feve%2Fold&branch=v1"
        "&urlpath=lab%2Ftree%2Fold%2Fnotebooks%2F00_a.ipynb",
        "https://HUB/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgithub.com%2Fattention-course%2Fattention-course"
        "&branch=main&urlpath=lab%2Ftree%2Fattention-course%2Fnotebooks%2F00_a.ipynb",
    ),
    ("https://github.com/was/mine.git", "https://github.com/attention-course/attention-course.git"),
    ("see https://github.com/was/mine.", "see https://github.com/attention-course/attention-course."),
    ("https://github.com/was/mine/issues", "https://github.com/attention-course/attention-course/issues"),
    (
        "https://github.com/was/mine/archive/refs/tags/v0.1.0.zip",
        "https://github.com/attention-course/attention-course/archive/refs/heads/main.zip",
    ),
    (
        "https://github.com/was/mine/blob/v0/CONTRIBUTING.md",
        "https://github.com/attention-course/attention-course/blob/main/CONTRIBUTING.md",
    ),
]
LEFT_ALONE = [
    "https://github.com/karpathy/nanoGPT",
    "https://github.com/was/mine-too",
    "https://github.com/was/mine.js",
]


@pytest.mark.parametrize(("old", "new"), REWRITTEN)
def test_what_is_rewritten(old, new):
    assert OURS.rewrite(old, "was/mine") == new
    assert OURS.rewrite(new, "was/mine") == new


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_is_left_alone(text):
    assert OURS.rewrite(text, "was/mine") == text


def test_the_command_checks_and_mends(copy, monkeypatch, capsys):
    monkeypatch.chdir(copy / "notebooks")
    assert main(["links", "--check"]) == 0
    readme = copy / "README.md"
    good = readme.read_text(encoding="utf-8")
    readme.write_text(good.replace("/blob/main/notebooks/", "/blob/old/notebooks/"), encoding="utf-8")
    assert main(["links", "--check"]) == 1
    assert "off: README.md" in capsys.readouterr().out
    assert main(["links"]) == 0
    assert readme.read_text(encoding="utf-8") == good
    assert main(["links", "ada/heads"]) == 0
    assert read_address(copy).slug == "ada/heads"
    assert "github.com/ada/heads at main" in capsys.readouterr().out


@pytest.mark.parametrize("slug", ["heads", "a/b/c", "https://github.com/a/b", "a b/c"])
def test_a_wrong_address_is_refused(copy, monkeypatch, capsys, slug):
    monkeypatch.chdir(copy)
    assert main(["links", slug]) == 2
    assert f"{slug!r} is not an address of the form owner/name" in capsys.readouterr().err
    assert main(["links", "a/b", "--check"]) == 2
    assert "takes no address" in capsys.readouterr().err
