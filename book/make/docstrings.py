"""Formulas, tables and code stand indented in the library's docstrings; the book sets them as they are written."""

import re

SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples):\s*$")


def as_literal_blocks(app, what, name, obj, options, lines: list[str]) -> None:
    """Put `::`, the sign for literal text, before each indented block that is in no section; changes `lines` itself."""
    done, in_section, in_block = [], False, False
    for line in lines:
        if line and not line[0].isspace():
            in_section, in_block = bool(SECTION.match(line)), False
        elif line.strip() and not in_section and not in_block and done and not done[-1].strip():
            done += ["::", ""]
            in_block = True
        done.append(line)
    lines[:] = done
