"""The real JupyterLab, as `make lab` starts it, in a real browser: what a learner does in the first hour works."""

import json
import re
import shutil
from contextlib import contextmanager

import pytest
import torch

from course_lib.pictures import live
from course_lib.pictures.dark import NIGHT

from .lab_page import LabPage
from .lab_server import HOST, TOKEN, lab_server
from .site import color_at

pytestmark = pytest.mark.xdist_group("lab")  # one server for all of them
CPU, CUDA = "Attention (CPU)", "Attention (CUDA)"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """What a learner starts: `course lab`, on copies of the notebooks."""
    with lab_server(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="module")
def authors_server(tmp_path_factory):
    """What an author starts: `course lab --sources`, on the pairs of the repository."""
    with lab_server(tmp_path_factory.mktemp("sources"), sources=True) as server:
        yield server


@pytest.fixture(scope="module")
def context(browser):
    """One browser profile, so that JupyterLab's own files are loaded once."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(120_000)  # for a busy machine; what is waited for comes in one to five seconds
    yield context
    context.close()


@contextmanager
def page_of(server, context, request):
    """A page whose test may ask no other host and leave no complaint; the kernels end with it."""
    context.request.get(f"{server.address}/lab?token={TOKEN}")
    lab = LabPage(context.new_page(), server)
    yield lab
    lab.shot(request.node.name)
    lab.page.close()
    server.shut_kernels_down()
    assert outside(lab.asked) == [], "the page asked another host"
    # JupyterLab's own, when a kernel is changed, is left out.
    ours = [complaint for complaint in lab.complaints if "Canceled future" not in complaint]
    assert ours == [], "the browser's console has errors"


@pytest.fixture
def lab(context, server, request):
    with page_of(server, context, request) as lab:
        yield lab


@pytest.fixture
def author(context, authors_server, request):
    with page_of(authors_server, context, request) as lab:
        yield lab


def outside(addresses):
    """The addresses that are neither our server's nor inside the page."""
    ours = re.compile(rf"(http|ws)://{re.escape(HOST)}[:/]|data:|blob:")
    return [address for address in addresses if not ours.match(address)]


def check_pictures(lab, at_least):
    """Every picture shows and has words."""
    pictures = lab.pictures()
    assert len(pictures) >= at_least, f"{len(pictures)} pictures in the notebook"
    assert [picture for picture in pictures if not (picture["alt"].strip() and picture["width"])] == []


def stored(server, path):
    return json.loads((server.notebooks / path).read_text(encoding="utf-8"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def copy_lesson(server, name, copy):
    """Copy both files of a lesson inside the served folder, so that a test may change them."""
    folder = server.notebooks
    shutil.copy2(folder / f"{name}.ipynb", folder / f"{copy}.ipynb")
    if (folder / "sources").exists():
        shutil.copy2(folder / "sources" / f"{name}.py", folder / "sources" / f"{copy}.py")
    return folder / "sources" / f"{copy}.py"


def test_it_opens_on_the_first_lesson_which_runs_twice(lab, server):
    lab.page.goto(server.address)
    lab.wait_until_ready("00_start_here.ipynb")
    assert lab.page.url == f"{server.address}/lab/tree/1_lessons/00_start_here.ipynb"
    lab.shot("first_sight")
    lab.clear_outputs()
    number = len(code_cells(stored(server, "00_start_here.ipynb")))
    for last in (number, 2 * number):
        lab.run_all(last)
        assert lab.errors() == []
        assert lab.counts() == [f"[{count}]:" for count in range(last - number + 2, last + 1)]
        check_pictures(lab, at_least=1)


@pytest.mark.slow
def test_the_learner_sees_each_lesson_once_and_in_order(lab, server):
    lab.open("00_start_here.ipynb", "browser")
    names = lab.page.locator(".jp-DirListing-itemText").all_inner_texts()
    lessons = sorted(path.name for path in server.notebooks.glob("*.ipynb") if path.name < "9")
    assert [name for name in names if not name.startswith("9")] == lessons
    folders = sorted(path.name for path in server.notebooks.parent.iterdir() if path.name[0] != ".")
    assert folders == ["1_lessons", "2_exercises", "3_solutions"]


@pytest.mark.slow
def test_an_untouched_lesson_is_not_changed_by_opening_and_saving_it(lab, server):
    """Neither does the tab get its dot, the mark of unsaved changes, nor does a byte of the file change."""
    before = (server.notebooks / "03_wrapper.ipynb").read_bytes()
    lab.open("03_wrapper.ipynb", "untouched")
    assert lab.page.locator(".lm-TabBar-tab.jp-mod-current.jp-mod-dirty").count() == 0
    lab.notebook.locator(".jp-MarkdownCell").first.click()
    lab.save()
    assert (server.notebooks / "03_wrapper.ipynb").read_bytes() == before


@pytest.mark.slow
def test_an_edit_in_the_notebook_reaches_its_text_file(author, authors_server):
    text_file = copy_lesson(authors_server, "03_wrapper", "90_edited_here")
    author.open("90_edited_here.ipynb", "edited-here")
    cell = author.notebook.locator(".jp-MarkdownCell").first
    cell.locator(".jp-MarkdownOutput").dblclick()
    author.write(cell, "# Edited in the browser\n\nA learner's own words.")
    author.page.keyboard.press("Shift+Enter")
    author.save()
    assert "# # Edited in the browser\n#\n# A learner's own words.\n" in text_file.read_text(encoding="utf-8")
    assert "Edited in the browser" in stored(authors_server, "90_edited_here.ipynb")["cells"][0]["source"][0]


@pytest.mark.slow
def test_an_edit_in_the_text_file_shows_in_the_notebook(author, authors_server):
    text_file = copy_lesson(authors_server, "03_wrapper", "91_edited_outside")
    author.open("91_edited_outside.ipynb", "edited-outside")
    assert author.texts("h1")[0].startswith("Put heads side by side")
    text = text_file.read_text(encoding="utf-8")
    text_file.write_text(text.replace("# # Put heads side by side", "# # Edited outside", 1), encoding="utf-8")
    author.open("91_edited_outside.ipynb", "edited-outside-again")
    assert author.texts("h1")[0].startswith("Edited outside")
    check_pictures(author, at_least=1)


@pytest.mark.slow
def test_a_text_file_opens_as_a_notebook(author, authors_server):
    author.open("sources/03_wrapper.py", "text")
    assert author.texts("h1")[0].startswith("Put heads side by side")
    assert len(author.texts(".jp-CodeCell")) == len(code_cells(stored(authors_server, "03_wrapper.ipynb")))
    assert authors_server.kernels() == {"notebooks/sources/03_wrapper.py": "python3"}


def test_an_exercise_names_the_mistake_and_then_passes(lab, server):
    wrong = "def scaled_scores(queries, keys):\n    return queries @ keys.T"
    right = wrong + " / queries.shape[-1] ** 0.5"
    lab.open("../2_exercises/01_exercises.ipynb", "exercise")
    answer, check = lab.code_cell("def scaled_scores"), lab.code_cell('check("scaled_scores"')
    last = len(code_cells(stored(server, "../2_exercises/01_exercises.ipynb")))
    lab.clear_outputs()
    lab.write(answer, wrong)
    lab.run_all(last)
    assert lab.errors() == []
    said = check.locator(".jp-OutputArea-output").text_content()
    assert "✗ scaled_scores: not passed yet." in said and "missing-scale" in said
    check.scroll_into_view_if_needed()
    lab.shot("exercise_wrong")
    lab.write(answer, right)
    lab.page.keyboard.press("Shift+Enter")
    lab.page.keyboard.press("Shift+Enter")
    lab.wait_for_run(last + 2)
    assert lab.errors() == []
    assert "✓ scaled_scores: passed." in check.locator(".jp-OutputArea-output").text_content()


@pytest.mark.slow
def test_pictures_show_in_a_copy_that_is_not_trusted(lab, server):
    name = "94_not_trusted.ipynb"
    notebook = stored(server, "04_reshape_and_transpose.ipynb")
    outputs = [output for cell in code_cells(notebook) for output in cell["outputs"]]
    html = "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)
    stripped = {"output_type": "display_data", "metadata": {}, "data": {"text/html": "<svg id='stripped'></svg>"}}
    code_cells(notebook)[0]["outputs"].append(stripped)
    (server.notebooks / name).write_text(json.dumps(notebook), encoding="utf-8")
    lab.open(name, "not-trusted")
    outputs = lab.notebook.locator(".jp-OutputArea-output")
    assert outputs.locator("#stripped").count() == 0, "the copy is trusted, so the test shows nothing"
    check_pictures(lab, at_least=html.count("<img"))
    # JupyterLab removes the upright drawing for a phone: the wide one shows, whole, at each width.
    assert html.count("<source") > 0
    for width in (375, 1400):
        lab.page.set_viewport_size({"width": width, "height": 900})
        assert all(picture["own"] for picture in lab.pictures()), width
    for tag in ("details", "table"):
        assert outputs.locator(tag).count() == html.count(f"<{tag}") > 0


def test_a_figure_moves_in_a_trusted_notebook_and_is_a_picture_in_another(lab, server):
    name, figure = "96_moving.ipynb", live.why_transpose()
    code = "from course_lib.pictures import live\nlive.why_transpose()"
    data = {"text/html": figure._repr_html_(), "text/plain": repr(figure)}
    output = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}
    notebook = stored(server, "00_start_here.ipynb")
    cell = code_cells(notebook)[0] | {"source": code, "outputs": [output], "execution_count": 1, "metadata": {}}
    notebook["cells"] = [cell]
    (server.notebooks / name).write_text(json.dumps(notebook), encoding="utf-8")
    lab.open(name, "moving")
    shown = lab.notebook.locator(".jp-OutputArea-output")
    assert shown.locator("img").first.is_visible() and shown.locator("iframe").count() == 0
    assert "function" not in shown.inner_text()
    lab.run_all(1)
    shown.locator(".moves").wait_for()
    assert lab.errors() == [] and not shown.locator("img").first.is_visible()
    frame = lab.notebook.frame_locator(".jp-OutputArea-output iframe")
    frame.get_by_role("button", name="Next").click()
    assert frame.locator("[aria-current=step]").inner_text() == ".view(1, 6, 2, 2)"
    lab.shot("moving_figure")


@pytest.mark.slow
def test_pictures_are_as_dark_as_jupyterlab_whatever_the_system_prefers(lab):
    lab.open("04_reshape_and_transpose.ipynb", "dark")
    picture = lab.notebook.locator(".jp-OutputArea-output img").first

    def check(*, system, dark):
        lab.page.emulate_media(color_scheme=system)
        lab.page.locator(f"[data-jp-theme-light={'false' if dark else 'true'}]").wait_for(state="attached")
        picture.scroll_into_view_if_needed()
        assert color_at(picture, 60, 12) == (list(bytes.fromhex(NIGHT[1:])) if dark else [255, 255, 255])

    check(system="light", dark=False)
    check(system="dark", dark=True)  # JupyterLab follows the system
    lab.choose_theme("Synchronize with System Settings", "JupyterLab Light")
    check(system="dark", dark=False)  # until somebody chooses otherwise
    lab.choose_theme("JupyterLab Dark")
    check(system="light", dark=True)


@pytest.mark.slow
def test_the_kernel_has_a_name_and_cuda_is_offered_with_a_gpu_alone(lab, server):
    copy_lesson(server, "00_start_here", "95_kernels")
    lab.open("95_kernels.ipynb", "kernels")
    number = len(code_cells(stored(server, "95_kernels.ipynb")))
    offered = change_kernel(lab, "95_kernels.ipynb", CPU)
    assert CPU in offered and (CUDA in offered) == torch.cuda.is_available()
    assert server.kernels() == {"1_lessons/95_kernels.ipynb": "attention-cpu"}
    lab.clear_outputs()
    lab.run_all(number)
    assert lab.errors() == []
    assert lab.counts() == [f"[{count}]:" for count in range(2, number + 1)]
    assert " on cpu\n" in "".join(lab.texts(".jp-OutputArea-output"))


def change_kernel(lab, path, name):
    """Choose another kernel and return the names that were offered."""
    lab.menu("Kernel", "Change Kernel…")
    dialog = lab.page.locator(".jp-Dialog")
    offered = dialog.locator("option").all_text_contents()
    dialog.locator("select").select_option(label=name)
    dialog.get_by_role("button", name="Select Kernel").click()
    dialog.wait_for(state="detached")
    lab.wait_until_ready(path, name)
    return offered
