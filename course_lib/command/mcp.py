"""Serve the doctor to an assistant over stdin and stdout, with the Model Context Protocol.

Its tools are diagnose, which examines a file or a text of code, and explain_mistake. DIAGNOSE RUNS THE CODE that the
assistant gives it, in a process of its own that is ended after two minutes, but without a sandbox: connect it only to
an assistant whose code you would run yourself. To connect it, name `course mcp` as the command of a server in your
assistant's settings.
"""

import argparse
import sys


def arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run(args: argparse.Namespace) -> int:
    """Answer each request until stdin is closed."""
    from .assistant import TOOLS, call_tool, serve

    for answer in serve(sys.stdin, TOOLS, call_tool):
        print(answer, flush=True)
    return 0
