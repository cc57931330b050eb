"""Say that tokens with several axes see each other in groups only."""

from collections.abc import Iterator

from course_lib.diagnosis.measure import Run
from course_lib.diagnosis.registry import rule


@rule(order=7)
def check_groups(run: Run) -> Iterator[str]:
    """Rows, columns or windows of a grid."""
    size = run.options.group_size
    if size:
        count = run.x.shape[1] // size
        yield f"its tokens see each other in {count} groups of {size}, as in rows, columns or windows: taken as meant"
