"""Save a recorded run as one page on which every number can be followed back to the input and on to the output."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from course_lib.atomic_file import html_path, write_text
from course_lib.recorder import Recording

from .page import page
from .sentences import opening_sentences
from .story import story_of as story_of

__all__ = ["page_of", "save_page"]


def page_of(
    recording: Recording,
    *,
    words: Sequence[object] | None = None,
    title: str | None = None,
    opening: Sequence[tuple[str, str]] = (),
    head: str = "",
    foot: str = "",
) -> str:
    """Return the page of a recording as HTML.

    Args:
        recording: a result of `course_lib.recorder.record`.
        words: labels of the tokens; their indices if None.
        title: of the page; the name of the recorded class or function if None.
        opening: (name of a step, sentence): the page opens with these steps alone, and shows all of them on request.
        head, foot: HTML for the page's head, such as tags for previews, and for its end.

    Raises:
        TypeError: recording is not a Recording, words is a single text, or title is not a text.
        ValueError: opening names what is no step, or no step after the one before it.
    """
    if not isinstance(recording, Recording):
        raise TypeError(
            f"recording must be a Recording, got {type(recording).__name__}: make one with record(module, x)."
        )
    if isinstance(words, str):
        raise TypeError(f"words must be a list of labels, one per token, got the text {words!r}: give {words.split()}.")
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title must be a text, got {type(title).__name__}: give the heading of the page.")
    labels = [str(word) for word in words or ()]
    story = story_of(recording)
    whys = opening_sentences(opening, story)
    return page(story, title=title or recording.title, words=labels, whys=whys, head=head, foot=foot)


def save_page(
    recording: Recording, path: str | PathLike[str], *, words: Sequence[object] | None = None, title: str | None = None
) -> Path:
    """Write the page of a recording to a file and return its path; the file opens without a server.

    Args:
        path: of the file to write, ending in .html; its folder must exist.

    Raises:
        ValueError: path does not end in .html, or its folder does not exist.
        TypeError: as `page_of`.
    """
    file = html_path(path)
    write_text(file, page_of(recording, words=words, title=title))
    return file
