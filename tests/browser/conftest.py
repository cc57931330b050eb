"""One headless Chromium for all browser tests: the machine's own, fresh, and asking nobody but us."""

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

from .site import HTML, Complaints, served

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # a container's is small
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium():
    """The path of a Chromium or Chrome: CHROMIUM names one, else the first on the PATH; None without any."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser():
    path = find_chromium()
    if path is None:
        pytest.fail(
            "No Chromium was found: install one (Debian: apt-get install chromium) or set CHROMIUM to its path."
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def home():
    assert (HTML / "index.html").exists(), "The book has not been built: run `make book` first."
    with served(HTML) as address:
        yield address


@pytest.fixture(scope="session")
def profiles(browser):
    """A browser profile for each theme with one page in it, kept: a new page costs as much as all that is looked at."""
    profiles = {theme: browser.new_context(color_scheme=theme) for theme in ("light", "dark")}
    yield {theme: profile.new_page() for theme, profile in profiles.items()}
    for profile in profiles.values():
        profile.close()


@pytest.fixture
def open_page(profiles, home):
    """A function that opens a page of the book and returns it with the complaints that will come."""
    watching = []

    def open_page(path, *, theme="light", width=1400, at=None):
        page, complaints = profiles[theme], Complaints(at or home)
        page.goto("about:blank")
        page.set_viewport_size({"width": width, "height": 900})
        complaints.watch(page)
        watching.append((complaints, page))
        page.goto((at or home) + path, wait_until="load")
        return page, complaints

    yield open_page
    for complaints, page in watching:
        complaints.leave(page)
        page.emulate_media(media="screen")
