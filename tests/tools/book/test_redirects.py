"""Old addresses of lessons lead to the new ones."""

import pytest

from tools.book.redirects import MOVED, write_moved


def test_each_old_address_opens_the_new_one(tmp_path):
    (tmp_path / "notebooks").mkdir()
    for new in MOVED.values():
        (tmp_path / "notebooks" / f"{new}.html").write_text("the lesson")
    write_moved(tmp_path, "https://ada.example/")
    for old, new in MOVED.items():
        page = (tmp_path / "notebooks" / f"{old}.html").read_text()
        assert f'content="0; url={new}.html"' in page and f'<a href="{new}.html">' in page
        assert f'<link rel="canonical" href="https://ada.example/notebooks/{new}.html">' in page
        assert (tmp_path / "notebooks" / f"{new}.html").read_text() == "the lesson"


def test_an_address_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "notebooks").mkdir()
    with pytest.raises(ValueError, match="07_in_the_wild should lead to 09_llama, which is not in the book"):
        write_moved(tmp_path, "https://ada.example/")
