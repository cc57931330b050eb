"""One page of the mistake catalogue: the code, what the doctor says of it, and what to write instead."""

import difflib
import json
import textwrap
from collections.abc import Sequence

from book.make.entries import indexed
from book.make.mistake_code import Example
from course_lib.diagnosis.catalogue import Mistake
from course_lib.diagnosis.report import Report
from course_lib.pictures import Picture

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

```text
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
    """Write one page.

    Args:
        mistake: what the catalogue knows of it.
        example: code that makes it.
        found: what the doctor says of that code.
        picture: that it draws of it.
        lesson: the file and the title of the lesson that teaches it.
    """
    return PAGE.format(
        title=mistake.title.removesuffix("."),
        id=mistake.id,
        explanation=mistake.explanation,
        notices=noticed(example.notices),
        lines=",".join(map(str, example.wrong_lines)),
        code=example.wrong,
        shows=mistake.shows,
        call=f"{example.call}diagnose(module, x, **options)\n",
        report=wrapped(str(found)),
        picture=figure(picture, f"{mistake.id}.svg"),
        diff=diff(example),
        seen=mistake.seen,
        lesson=f"[{mistake.lesson} {lesson[1]}]({lesson[0]})",
        hint=mistake.hint,
    )


def noticed(notices: Sequence[str]) -> str:
    """List what one notices, each of it an entry of the book's index, in which its search looks first."""
    return indexed(notices) + "\n".join(f"- {notice}" for notice in notices)


def wrapped(report: str) -> str:
    """Break the lines of a report as wide as the code above it."""
    lines = []
    for line in report.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(
            line, 88, subsequent_indent=indent + "  ", break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def figure(picture: Picture | None, file: str) -> str:
    """Show a picture that is stored beside the page, with its words for who can't see it."""
    if picture is None:
        return ""
    words = json.dumps(" ".join(picture.words.split()), ensure_ascii=False)
    return f"```{{figure}} {file}\n:alt: {words}\n\n{picture.caption}\n```\n\n"


def diff(example: Example) -> str:
    """What changes from wrong to right: the lines alone, with a sign before each."""
    before, after = example.wrong.splitlines(), example.right.splitlines()
    changes = list(difflib.unified_diff(before, after, n=0, lineterm=""))[3:]
    signs = [" " if line.startswith("@@") else line[0] for line in changes]
    texts = textwrap.dedent("\n".join("" if line.startswith("@@") else line[1:] for line in changes)).splitlines()
    return "\n".join(f"{sign} {text}".rstrip() for sign, text in zip(signs, texts, strict=True))
