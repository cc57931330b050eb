"""What all tests share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def own_random_stream():
    """Each test starts from the same random stream and leaves the process's own as it was."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(2017)
        yield
