"""Starts a kernel as Colab does: with google.colab imported before the first cell."""

import google.colab  # noqa: F401
from ipykernel import kernelapp

if __name__ == "__main__":
    kernelapp.launch_new_instance()
