"""Say that tokens with several axes see each other in groups, or boxes, only."""

from collections.abc import Iterator

from torch import Tensor

from course_lib.diagnosis.measure import Run, count_in_front
from course_lib.diagnosis.registry import rule


@rule()
def check_groups(run: Run) -> Iterator[str]:
    """Rows, columns, windows or neighbourhoods of a grid."""
    if run.options.keep is not None and run.options.in_groups:
        yield groups_in_words(run.options.keep)


def groups_in_words(seen: Tensor) -> str:
    """Say in which groups, or boxes that overlap, tokens see each other; `seen` is bool (query, key)."""
    front = count_in_front(seen)
    if front:
        others = groups_in_words(seen[front:, front:])
        return f"besides {'the first token' if front == 1 else f'the first {front} tokens'}, which all see, {others}"
    sizes, groups = sorted(set(seen.sum(1).tolist())), seen.unique(dim=0)
    size = " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))
    if bool((groups.sum(0) > 1).any()):
        return f"each token sees {size} of {len(seen)} tokens, a box of a grid: taken as meant"
    groups_of_size = f"{len(groups)} groups of {size}"
    return f"its tokens see each other in {groups_of_size}, as in rows, columns or windows: taken as meant"
