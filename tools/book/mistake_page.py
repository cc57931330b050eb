"""Write one page of the mistake catalogue: the code, the doctor's report on it, and what to write instead."""

import difflib
import re
import textwrap

from course_lib.diagnosis import Report
from course_lib.mistakes import Mistake
from course_lib.pictures import Picture

from .markdown import figure, indexed
from .mistake_code import Example

AROUND = 3  # unchanged lines before and after what changes
PAGE = """\
# {title}

`{id}`

{explanation}

**You may notice:**

{notices}

## How it looks

```{{code-block}} python
:linenos:
:emphasize-lines: {lines}

{code}```

## How it shows

{shows} The doctor says of this very code:

```console
{report}
```

{picture}<details><summary>How the code was called</summary>

```python
{call}```

</details>

## Write this instead

```diff
{diff}
```

With this the doctor finds nothing.

## Where it is met

{seen}

Lesson {lesson} teaches it.

<details><summary>A question to ask whoever wrote it</summary>

{hint}

</details>
"""


def mistake_page(
    mistake: Mistake, example: Example, found: Report, picture: Picture | None, lesson: tuple[str, str]
) -> str:
    """Return the page of one mistake; `lesson` is the file and the title of the lesson that teaches it."""
    return PAGE.format(
        title=mistake.title.removesuffix("."),
        id=mistake.id,
        explanation=mistake.explanation,
        # Entries of the book's index, which the search looks up first.
        notices=indexed(mistake.notices) + "\n".join(f"- {notice}" for notice in mistake.notices),
        lines=",".join(map(str, example.wrong_lines)),
        code=example.wrong,
        shows=mistake.shows,
        call=f"{example.call}diagnose(module, x, **options)\n",
        report=wrapped(str(found)),
        picture=figure(picture, f"{mistake.id}.svg") if picture else "",
        diff=diff(example),
        seen=mistake.seen,
        lesson=f"[{mistake.lesson} {lesson[1]}]({lesson[0]})",
        hint=mistake.hint,
    )


def wrapped(report: str) -> str:
    """Break the lines of a report at the width of the code above it."""
    lines = []
    for line in report.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        options = {"subsequent_indent": indent + "  ", "break_long_words": False, "break_on_hyphens": False}
        lines += textwrap.wrap(line, 88, **options) or [""]
    return "\n".join(lines)


def diff(example: Example) -> str:
    """Return the lines that differ between wrong and right, with a sign before each and the lines around them."""
    before, after = example.wrong.splitlines(), example.right.splitlines()
    changes = list(difflib.unified_diff(before, after, n=AROUND, lineterm=""))[2:]
    first = (re.match(r"@@ -(\d+)", line) for line in changes)  # of a group, in the code above
    heads = [f"@@ from line {found[1]} on @@" if found else "" for found in first]
    texts = textwrap.dedent("\n".join("" if head else line[1:] for head, line in zip(heads, changes, strict=True)))
    signs = (line[0] for line in changes)
    return "\n".join(
        head or f"{sign} {text}".rstrip() for head, sign, text in zip(heads, signs, texts.splitlines(), strict=True)
    )
