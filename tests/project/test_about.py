"""The course's version and addresses: of the clone, else of what is installed."""

import pytest

from course_lib import about

PROJECT = '[project]\nname = "attention-course"\nversion = "1.2.0"\n[project.urls]\n'
URLS = {
    'Repository = "https://github.com/Ada/Course.Two"': "https://ada.github.io/Course.Two/mistakes/mask-rank.html",
    'Repository = "https://github.com/a/b"\nDocumentation = "https://a.org/c/"': "https://a.org/c/mistakes/mask-rank.html",
    'Repository = "https://git.example.org/a/b"': None,
    "": None,
}


@pytest.mark.parametrize("urls", URLS)
def test_the_book_follows_the_repository(urls, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(PROJECT + urls, encoding="utf-8")
    monkeypatch.setattr(about, "ROOT", tmp_path)
    assert (about.version(), about.page_of("mask-rank"), about.page_of(None)) == ("1.2.0", URLS[urls], None)


def test_where_only_the_package_is_installed_it_is_asked(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "someone-elses"\n', encoding="utf-8")
    monkeypatch.setattr(about, "ROOT", tmp_path)
    assert about.page_of("mask-rank").endswith("/mistakes/mask-rank.html") and about.version()[0].isdigit()
    assert about.repository_address().startswith("https://")


def test_copied_and_not_installed_it_knows_nothing(tmp_path, monkeypatch):
    def missing(name):
        raise about.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(about, "ROOT", tmp_path)
    monkeypatch.setattr(about.metadata, "metadata", missing)
    assert (about.version(), about.repository_address(), about.page_of("mask-rank")) == ("unknown", None, None)
