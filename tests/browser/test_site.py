"""What counts as a failed request: a file that does not come, but none that the reader did not wait for."""

import pytest

from .site import Complaints

FONT = "http://127.0.0.1:1/font.woff2"
PAGE = f"<style>@font-face {{ font-family: f; src: url({FONT}) }}</style><p style='font-family: f'>Dream big</p>"


@pytest.fixture
def page(browser):
    page = browser.new_page()
    yield page
    page.close()


def test_a_file_that_was_not_waited_for_is_no_complaint(page):
    complaints = Complaints("http://127.0.0.1:1/")
    complaints.watch(page)
    page.route(FONT, lambda route: None)  # never answered
    with page.expect_request(FONT):
        page.set_content(PAGE, wait_until="commit")
    with page.expect_event("requestfailed"):
        page.goto("about:blank")
    assert complaints.found == []


def test_a_file_that_does_not_come_is_a_complaint(page):
    complaints = Complaints("http://127.0.0.1:1/")
    complaints.watch(page)
    with page.expect_event("requestfailed"):
        page.set_content(PAGE)  # nobody listens at port 1
    assert any(complaint.startswith(f"failed: {FONT}") for complaint in complaints.found)
