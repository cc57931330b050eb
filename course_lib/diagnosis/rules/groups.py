"""Say that tokens with several axes see each other in groups only."""

from collections.abc import Iterator

from course_lib.diagnosis.measure import Run
from course_lib.diagnosis.registry import rule


@rule(order=7)
def check_groups(run: Run) -> Iterator[str]:
    """Rows, columns or windows of a grid."""
    keep = run.options.keep
    if keep is None or not run.options.in_groups:
        return
    sizes = sorted(set(keep.sum(1).tolist()))
    groups = f"{len(keep.unique(dim=0))} groups of {' to '.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))}"
    yield f"its tokens see each other in {groups}, as in rows, columns or windows: taken as meant"
