"""Start a kernel as Colab does: in an empty folder, with google.colab imported before the first cell."""

import os
import tempfile

import google.colab  # noqa: F401
from ipykernel import kernelapp

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        kernelapp.launch_new_instance()
