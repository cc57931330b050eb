"""The published book's address follows from the repository's, unless pyproject.toml names another."""

from pathlib import Path

import pytest

from tools.book.site_address import read_site
from tools.notebooks import read_address

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("slug", "documentation", "site"),
    [
        ("Ada/course", None, "https://ada.github.io/course/"),
        ("ada/ada.github.io", None, "https://ada.github.io/"),  # GitHub serves this one at the root
        ("ada/course", "https://attention.example", "https://attention.example/"),
        ("ada/course", "https://ada.example/course/", "https://ada.example/course/"),
    ],
)
def test_the_address_of_the_site(tmp_path, slug, documentation, site):
    write_project(tmp_path, slug, documentation)
    assert read_site(tmp_path) == site


def test_an_address_without_https_is_refused(tmp_path):
    write_project(tmp_path, "ada/course", "ada.example")
    with pytest.raises(ValueError, match=r"Documentation = 'ada\.example': write an address that begins with https://"):
        read_site(tmp_path)


def test_ours_is_the_one_where_github_pages_serves_this_repository():
    owner, name = read_address(ROOT).slug.split("/")
    assert read_site(ROOT) == f"https://{owner.lower()}.github.io/{name}/"


def write_project(folder, slug, documentation):
    lines = ['[project]\nversion = "0.1.0"\n[project.urls]\n', f'Repository = "https://github.com/{slug}"\n']
    if documentation:
        lines.append(f'Documentation = "{documentation}"\n')
    (folder / "pyproject.toml").write_text("".join(lines), encoding="utf-8")
