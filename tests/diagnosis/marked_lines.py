"""The lines of a test's code that are to blame: they end with a comment, so that no number has to be kept up."""

import inspect
from pathlib import Path


def marked(thing, mark="wrong"):
    """The lines of a class or function that end with `# mark`, as the doctor writes them: {"test_x.py:12"}."""
    lines, first = inspect.getsourcelines(thing)
    file = Path(inspect.getsourcefile(thing)).name
    found = {f"{file}:{first + at}" for at, line in enumerate(lines) if line.rstrip().endswith(f"# {mark}")}
    assert found, f"{thing.__name__} has no line that ends with # {mark}"
    return found
