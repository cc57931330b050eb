"""What all tests share."""

from collections import Counter

import pytest
import torch


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items):
    """Of the cases of a test, or the tests of a file, that is marked `one_in(n)`, all but every nth are slow."""
    seen = Counter()
    for item in items:
        if mark := item.get_closest_marker("one_in"):
            if seen[id(mark)] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[id(mark)] += 1


@pytest.fixture(autouse=True)
def own_random_stream():
    """Each test starts from the same random stream and leaves the process's own as it was."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(2017)
        yield
