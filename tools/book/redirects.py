"""Redirect from the former addresses of lessons to today's.

sphinx-reredirects takes targets that do not exist, and its pages have no language, title or link; its templates know
the new address only, so that the canonical one would be missing.
"""

from pathlib import Path

MOVED = {  # lessons of earlier editions -> of this one
    "07_in_the_wild": "09_llama",
    "07_order_and_padding": "07_order",
    "08_llama": "09_llama",
    "08_what_heads_learn": "13_what_heads_learn",
    "09_fast": "14_fast",
    "09_smaller_caches": "10_smaller_caches",
    "10_debugging_attention": "15_debugging_attention",
    "10_what_heads_learn": "13_what_heads_learn",
    "11_fast": "14_fast",
    "11_many_devices": "16_many_devices",
    "12_debugging_attention": "15_debugging_attention",
    "13_many_devices": "16_many_devices",
    "14_capstone": "17_capstone",
}
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>This lesson has moved</title>
<meta http-equiv="refresh" content="0; url={new}.html">
<link rel="canonical" href="{site}notebooks/{new}.html">
</head>
<body><main><h1>This lesson has moved</h1><p>It is now <a href="{new}.html">{new}</a>.</p></main></body>
</html>
"""


def write_moved(html: Path, site: str) -> None:
    """Write a page at each old address that opens the new one, and shows a link where the browser does not.

    Search engines learn from it that the page at the address `site` + the new name is the one to show.

    Raises:
        ValueError: The new page is not in the book.
    """
    for old, new in MOVED.items():
        if not (html / "notebooks" / f"{new}.html").exists():
            raise ValueError(f"{old} should lead to {new}, which is not in the book: change MOVED.")
        (html / "notebooks" / f"{old}.html").write_text(PAGE.format(new=new, site=site), encoding="utf-8")
