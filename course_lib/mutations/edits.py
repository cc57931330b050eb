"""Source code that is edited as people do: this text instead of that."""

ARROW, AND = " => ", " && "


def edited(source: str, edit: str) -> str:
    """Return source code after an edit.

    Args:
        source: Python code.
        edit: "old => new", or several of them with " && " between; every occurrence of old is replaced.

    Raises:
        ValueError: If the edit has no arrow, or its old text does not occur in the source.
    """
    for part in edit.split(AND):
        old, arrow, new = f"{part} ".partition(ARROW)
        if not arrow:
            raise ValueError(f"edit is {part!r}, without an arrow: write it as 'old => new'")
        if old not in source:
            raise ValueError(f"edit replaces {old!r}, which the source does not have")
        source = source.replace(old, new[:-1])
    return source
