"""How Sphinx builds the web book from the folder that `tools/book` has laid out."""

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from course_lib.mistakes import CATALOGUE  # noqa: E402
from tools.book import as_literal_blocks  # noqa: E402
from tools.book.course_map import course_map  # noqa: E402
from tools.book.lesson_table import read_walk  # noqa: E402
from tools.book.page_head import add_head  # noqa: E402
from tools.book.site_address import read_site  # noqa: E402
from tools.notebooks import read_address  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = read_address(ROOT)

project = "Attention, from one head to multi-query"
author = PROJECT["authors"][0]["name"]
copyright = author
version = release = PROJECT["version"]
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx_copybutton"]
nb_execution_mode = "off"  # the stored outputs are the lesson
nb_render_markdown_format = "myst"
nb_code_prompt_show = nb_code_prompt_hide = "Imports"  # nothing else is folded
myst_enable_extensions = ["dollarmath", "attrs_inline", "attrs_block", "deflist"]
myst_heading_anchors = 3
nitpicky = False

toc_object_entries_show_parents = "hide"  # the list beside a page is narrow
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it with shapes
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # an attribute is described once, where its class is
default_role = "code"  # single backticks in the docstrings are code

mathjax_path = "mathjax/tex-chtml.js"  # beside the pages: a reader asks no other server
mathjax3_config = {"chtml": {"matchFontHeight": False}}
copybutton_selector = ".cell_input div.highlight pre, div.highlight-python pre, div.highlight-sh pre"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static", str(ROOT / "build" / "book" / "static")]
html_css_files = ["palette.css", "book.css"]
templates_path = ["_templates"]
html_js_files = [("book.js", {"defer": "defer"})]
html_baseurl = read_site(ROOT)  # every page names its canonical address
html_favicon = "_static/logo.svg"
html_logo = "_static/logo.svg"
html_context = {"default_mode": "auto", "course_map": course_map(read_walk(ROOT))}  # light or dark, as the system is
html_show_sphinx = False
html_use_index = html_domain_indices = False  # search and the sidebar find it faster
html_copy_source = True
html_sourcelink_suffix = ""
html_theme_options = {
    "repository_url": f"https://github.com/{ADDRESS.slug}",
    "repository_branch": ADDRESS.ref,
    "path_to_docs": "",
    "use_repository_button": True,
    "use_issues_button": True,
    "use_download_button": True,
    "article_header_start": ["toggle-primary-sidebar.html", "places.html"],
    "navbar_persistent": [],  # or there would be a second search bar
    "show_toc_level": 2,
    "launch_buttons": {
        "colab_url": "https://colab.research.google.com",
        "binderhub_url": "https://mybinder.org",
        "notebook_interface": "jupyterlab",
    },
    "logo": {"text": "Attention, from one head to multi‑query", "alt_text": "Attention course: front page"},
    "use_fullscreen_button": False,
}


def setup(app):
    """Formulas in docstrings are set as they are written; napoleon (priority 500) reads the sections afterwards."""
    app.connect("autodoc-process-docstring", as_literal_blocks, priority=400)
    app.connect("html-page-context", add_head)
    app.connect("html-page-context", add_search)


def add_search(app, page, *_):
    """Give the search page its names of things and its script, which no other page needs."""
    if page == "search":
        names = tomllib.loads((ROOT / "book" / "search.toml").read_text(encoding="utf-8"))
        names["names"] |= {f"mistakes/{name}": mistake.search for name, mistake in CATALOGUE.items() if mistake.search}
        app.add_js_file(None, body=f"const OTHER_NAMES = {json.dumps(names)};")
        app.add_js_file("search.js", defer="defer")
