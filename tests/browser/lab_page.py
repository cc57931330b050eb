"""One notebook in JupyterLab, driven as a learner does: by its menus, its toolbar and the keyboard."""

import os
from pathlib import Path

from playwright.sync_api import TimeoutError as PlaywrightTimeout

READY = """([kernel, number]) => {
    const bar = [...document.querySelectorAll('#jp-main-statusbar .jp-StatusBar-TextItem')];
    const cells = [...document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell')];
    const words = cells.filter(one => one.matches('.jp-MarkdownCell.jp-mod-rendered'));
    return bar.some(one => one.textContent === kernel + ' | Idle') && cells.length === number
        && words.every(one => one.querySelector('.jp-MarkdownOutput')?.textContent);
}"""
# A cell that has run shows its count, one that waits or runs an asterisk. An error ends the
# run; JupyterLab shows it, like a warning, as text of the kind stderr.
RUN_ENDED = """last => {
    const panel = document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden)');
    const prompts = [...panel.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(one => one.textContent);
    const idle = panel.querySelector('.jp-Notebook-ExecutionIndicator').dataset.status === 'idle';
    const failed = panel.querySelector('[data-mime-type="application/vnd.jupyter.stderr"]') !== null;
    return idle && !prompts.includes('[*]:') && (failed || prompts.includes(`[${last}]:`));
}"""
PICTURES = """images => Promise.all(images.map(async image => {
    await image.decode().catch(() => null);
    const own = image.currentSrc === image.src;  // and not a source beside it
    return {alt: image.alt, width: image.naturalWidth, source: image.src.slice(0, 60), own};
}))"""


class LabPage:
    """A page of JupyterLab with the notebook that is open in it, and all that the page asked for and complained of."""

    def __init__(self, page, server):
        self.page, self.server, self.complaints, self.asked = page, server, [], []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", lambda socket: self.asked.append(socket.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))

    @property
    def notebook(self):
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def open(self, path, workspace):
        """Open a notebook, in a workspace of its own: JupyterLab opens again what a workspace had open."""
        self.page.goto(f"{self.server.address}/lab/workspaces/{workspace}/tree/{self.server.path(path)}")
        self.wait_until_ready(path)

    def wait_until_ready(self, path, kernel="Python 3 (ipykernel)"):
        """Wait until every cell is there, what is to read is laid out, and the kernel waits for work."""
        stored = self.server.ask(f"/api/contents/{self.server.path(path)}?type=notebook")
        self.wait(READY, [kernel, len(stored["content"]["cells"])])

    def wait(self, condition, arg):
        """Wait for a condition; where it does not come, say what the page shows instead."""
        try:
            self.page.wait_for_function(condition, arg=arg)
        except PlaywrightTimeout:
            shown = self.page.locator("#jp-main-statusbar, .jp-Dialog").all_inner_texts()
            seen = f"status bar and dialogs {shown}, counts {self.counts()}, errors {self.errors()}"
            raise AssertionError(f"waited for {arg} in vain; seen: {seen}, console {self.complaints}") from None

    def menu(self, name, item):
        self.page.locator("#jp-MainMenu .lm-MenuBar-item").get_by_text(name, exact=True).click()
        self.page.locator(".lm-Menu-item").get_by_text(item, exact=True).click()

    def choose_theme(self, *names):
        """Choose items of the menu of themes, one after the other."""
        for name in names:
            self.page.locator("#jp-MainMenu .lm-MenuBar-item").get_by_text("Settings", exact=True).click()
            self.page.locator(".lm-Menu-item").get_by_text("Theme", exact=True).hover()
            self.page.locator(".lm-Menu-item").get_by_text(name, exact=True).click()

    def clear_outputs(self):
        self.menu("Edit", "Clear Outputs of All Cells")
        assert self.texts(".jp-OutputArea-output") == []

    def run_all(self, last):
        """Run all cells and wait until the last one has its count, or a cell stopped with an error."""
        self.menu("Run", "Run All Cells")
        self.wait_for_run(last)

    def wait_for_run(self, last):
        self.wait(RUN_ENDED, last)

    def save(self):
        """Save with the keyboard and wait until the tab's dot, the mark of unsaved changes, is gone."""
        with self.page.expect_response(lambda answer: answer.request.method == "PUT"):
            self.page.keyboard.press("Control+s")
        self.page.locator(".lm-TabBar-tab.jp-mod-current:not(.jp-mod-dirty)").first.wait_for()

    def write(self, cell, text):
        """Replace the text of a cell by typing over it."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def code_cell(self, text):
        return self.notebook.locator(".jp-CodeCell").filter(has=self.page.locator(".jp-InputArea", has_text=text)).first

    def texts(self, selector):
        """What stands in elements of the notebook, those too that are out of view."""
        return self.notebook.locator(selector).all_text_contents()

    def counts(self):
        """The counts of the cells whose code shows; the setup cell is folded."""
        return [text for text in self.texts(".jp-CodeCell .jp-InputPrompt") if text]

    def errors(self):
        """Errors and warnings, in the words that the notebook shows."""
        return self.texts('[data-mime-type="application/vnd.jupyter.stderr"]')

    def pictures(self):
        """Words, width (0 if it does not show) and whether its own drawing shows, of every picture in the notebook."""
        return self.notebook.locator(".jp-Cell img").evaluate_all(PICTURES)

    def shot(self, name):
        """Write a screenshot where BROWSER_SHOTS says."""
        if folder := os.environ.get("BROWSER_SHOTS"):
            self.page.screenshot(path=Path(folder) / f"lab_{name}.png")
