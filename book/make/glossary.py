"""Which words of the glossary point to which lesson."""

import re

BLOCK = re.compile(r"```\{glossary\}\n(.*?)\n```", re.DOTALL)
LESSON = re.compile(r"\(notebooks/(\w+)\.ipynb\)")


def words_of_lessons(text: str) -> dict[str, list[str]]:
    """Read the glossary.

    Args:
        text: of the page; each entry is one or more lines of words and below them, indented, what they mean.

    Returns:
        The words that point to a lesson, by its file's name without its ending.
    """
    found: dict[str, list[str]] = {}
    for entry in BLOCK.search(text)[1].split("\n\n"):
        lines = entry.splitlines()
        words = [line for line in lines if not line.startswith(" ")]
        for lesson in LESSON.findall(entry):
            found.setdefault(lesson, []).extend(words)
    return found
