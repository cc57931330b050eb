"""Run JupyterLab for `course lab`, in a process whose first line of output is its address."""

import os
import secrets
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from . import fast_startup  # noqa: F401  # before Jupyter is imported

LOOK = Path(__file__).parent / "lab_look"  # a picture cannot see JupyterLab's theme: this style sheet tells it
PRINT_AND_STOP = ("-h", "--help", "--help-all", "--version", "--generate-config", "--show-config", "--show-config-json")


def main(arguments: list[str]) -> None:
    """Start JupyterLab with the arguments of a command line and print its address once it listens."""
    # Jupyter prints five lines on a token of its own; with this one the address is a single line.
    os.environ.setdefault("JUPYTER_TOKEN", secrets.token_hex(24))
    from jupyterlab.labapp import LabApp

    if any(argument in PRINT_AND_STOP for argument in arguments):
        LabApp.launch_instance(arguments)
        return
    app = LabApp.initialize_server(argv=[*arguments, "--LabApp.custom_css=True"])
    app.static_custom_path.append(str(LOOK))  # behind the reader's own custom.css, which wins
    del os.environ["JUPYTER_TOKEN"]  # kernels do not need it
    app.io_loop.add_callback(print, f"Open this: {address(app)}", flush=True)
    app.start()


def address(app: Any) -> str:
    """Return the address, token included, at which a browser on this machine reaches a server."""
    token = app.identity_provider.token
    return urlsplit(app.local_url)._replace(query=urlencode({"token": token}) if token else "").geturl()


if __name__ == "__main__":
    main(sys.argv[1:])
