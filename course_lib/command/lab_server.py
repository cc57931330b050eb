"""JupyterLab's own process: it says nothing until one line says where it is. Started by `course lab`."""

import os
import secrets
import sys
from typing import Any
from urllib.parse import urlencode, urlsplit

import course_lib.lessons.quick_start  # noqa: F401  # before Jupyter is imported

STOPS = ("-h", "--help", "--help-all", "--version", "--generate-config", "--show-config", "--show-config-json")


def main(words: list[str]) -> None:
    """Start JupyterLab with the words of a command line and print its address once it listens."""
    # Jupyter prints five lines with a token that it makes itself; one that it is given can be put into one line.
    os.environ.setdefault("JUPYTER_TOKEN", secrets.token_hex(24))
    from jupyterlab.labapp import LabApp

    if any(word in STOPS for word in words):
        LabApp.launch_instance(words)
        return
    app = LabApp.initialize_server(argv=words)
    del os.environ["JUPYTER_TOKEN"]  # kernels need not know it
    app.io_loop.add_callback(print, f"Open this: {address(app)}", flush=True)
    app.start()


def address(app: Any) -> str:
    """Return the address at which a browser on this machine reaches a server, its token included."""
    token = app.identity_provider.token
    return urlsplit(app.local_url)._replace(query=urlencode({"token": token}) if token else "").geturl()


if __name__ == "__main__":
    main(sys.argv[1:])
