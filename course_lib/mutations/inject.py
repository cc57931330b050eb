"""Plant a mistake into somebody's right code."""

import inspect
import sys
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from course_lib.tracing import text_of

from .operators import mutations
from .source import Source, run_source

COUNTER = count(1)


class Injected(NamedTuple):
    """Code with a mistake in it.

    Attributes:
        code: The class or function with the mistake; None for a file.
        source: Its whole source.
        line: The number of the line on which the mistake is, counted from 1 in `source`.
        text: That line.
    """

    code: Any
    source: str
    line: int
    text: str


def inject(code: type | Any | Path | str, mistake: str, *, at: int = 0) -> Injected:
    """Plant a mistake into a class, a function or a file; the original stays as it is.

    Args:
        code: A class or function whose source can be read, or the path of a Python file.
        mistake: The id of the mistake, such as "softmax-wrong-axis".
        at: Which of the lines on which it can be made, counted from 0.

    Raises:
        ValueError: If no operator makes the mistake, none finds a place for it, or the source can't be read.
        TypeError: If the code is neither a class, nor a function, nor a path.
    """
    if isinstance(code, (str, Path)):
        text, name = Path(code).read_text(encoding="utf-8"), Path(code).name
    elif inspect.isclass(code) or inspect.isfunction(code):
        text, name = text_of(code), code.__name__
        if text is None:
            raise ValueError(f"the source of {name} can't be read: define it in a file or in a notebook's cell")
    else:
        raise TypeError(f"code must be a class, a function or the path of a file, got a {type(code).__name__}")
    found = list(mutations(text, mistake))
    if not 0 <= at < len(found):
        places = f"{len(found)} such places" if len(found) != 1 else "one such place"
        raise ValueError(f"at is {at}, but {name} has {places} for {mistake!r}")
    source = Source(text).edited(found[at].edits)
    line = found[at].line
    made = None if isinstance(code, (str, Path)) else built(source, code)
    return Injected(made, source, line, source.splitlines()[line - 1].strip())


def built(source: str, like: Any, **names: Any) -> Any:
    """Run source that defines what `like` defines, among the names of its module and others."""
    names |= vars(sys.modules[like.__module__])
    return run_source(source, f"<edited {like.__name__} {next(COUNTER)}>", names)[like.__name__]
