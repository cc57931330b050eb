"""Say that tokens with several axes see each other in groups only."""

from collections.abc import Iterator

from torch import Tensor

from course_lib.diagnosis.measure import Run
from course_lib.diagnosis.registry import rule


@rule(order=7)
def check_groups(run: Run) -> Iterator[str]:
    """Rows, columns or windows of a grid."""
    if run.options.keep is not None and run.options.in_groups:
        yield groups_in_words(run.options.keep)


def groups_in_words(seen: Tensor) -> str:
    """Say in which groups tokens see each other; `seen` is bool (query, key)."""
    sizes = sorted(set(seen.sum(1).tolist()))
    groups = f"{len(seen.unique(dim=0))} groups of {' to '.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))}"
    return f"its tokens see each other in {groups}, as in rows, columns or windows: taken as meant"
