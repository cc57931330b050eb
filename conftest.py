"""Pytest at the repository's root: notebooks are compared by the rules of tools/notebooks/compare.py."""

import gc
import os
import signal

# Read when torch is first imported, here and in every process that a test starts. With tensors this small a second
# thread only waits: the same tests then take five times the processor's time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["tools.notebooks.nbval_hooks"]

# A shell starts what runs in its background with Ctrl-C ignored; some tests send one and wait for what it does.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Collecting makes more than a million objects that stay until the end: a quarter of its time is the search for garbage
# among them, and each test that makes garbage would have them searched again.
gc.disable()


def pytest_collection_finish():
    """Search for garbage again, but only among what the tests make."""
    gc.freeze()
    gc.enable()
