"""Run every notebook with three sets of versions of Python and the packages: Colab's, the oldest allowed, the newest.

Use it after changing versions in pyproject.toml. noxfile.py builds a fresh environment of about 5 GB for each set, one
after the other; all three together take about 15 minutes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext

from course_lib.command import repository

SESSIONS = ("colab", "oldest", "newest")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", nargs="*", metavar="VERSIONS", help=f"only these: {', '.join(SESSIONS)}")
    parser.add_argument("--lessons", nargs="+", default=[], metavar="NAME", help="only these, such as 01 exercises/05")
    parser.add_argument("--keep", metavar="DIR", help="keep the environments here, and use those that are here")
    parser.add_argument("--cpu", action="store_true", help="install PyTorch's small CPU build")


def run(args: argparse.Namespace) -> int:
    """Run the sessions one after the other; return 0 only if every cell of every notebook agrees."""
    root = repository()
    environment = {**os.environ, **({"UV_TORCH_BACKEND": "cpu"} if args.cpu else {})}
    failed = []
    for session in args.sessions or SESSIONS:
        with nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory() as folder:
            nox = [sys.executable, "-m", "nox", "--session", session, "--envdir", folder]
            nox += ["--reuse-venv", "yes" if args.keep else "no", "--", *args.lessons]
            if subprocess.run(nox, cwd=root, env=environment).returncode:
                failed.append(session)
    print(f"These differ or could not be tried: {', '.join(failed)}." if failed else "Every cell agrees.")
    return 1 if failed else 0
