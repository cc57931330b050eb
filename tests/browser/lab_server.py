"""`course lab` on a copy of the lessons, with settings, kernels' connection files and trust of its own."""

import json
import os
import posixpath
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
TOKEN = "a-token-of-the-test"
OWN_FOLDERS = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "IPYTHONDIR",
)
NOT_PASSED_ON = ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_DIR", "COURSE_DEVICE")


@dataclass(frozen=True)
class LabServer:
    """A running JupyterLab: where it answers, the folder of the notebooks, and how that folder is called in it."""

    address: str
    notebooks: Path
    prefix: str
    log: Path

    def path(self, name):
        """A notebook's path as the server has it."""
        return posixpath.normpath(self.prefix + name)

    def ask(self, path, method="GET"):
        """What the server answers to a request, as Python data."""
        request = urllib.request.Request(
            self.address + path, method=method, headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")

    def kernels(self):
        """The name of the kernel of each open notebook, by the notebook's path."""
        return {session["path"]: session["kernel"]["name"] for session in self.ask("/api/sessions")}

    def shut_kernels_down(self):
        """End every kernel: they outlive the page that started them."""
        for session in self.ask("/api/sessions"):
            self.ask(f"/api/sessions/{session['id']}", "DELETE")


@contextmanager
def lab_server(folder, *, sources=False):
    """Start `course lab` as the Makefile does, wait until it answers, and stop it at the end.

    Args:
        folder: an empty one, for the server and its settings.
        sources: whether it serves the notebooks of the repository, as an author has them, or a learner's copies.
    """
    root = copy_lessons(folder / "course")
    log = folder / "server.log"
    port = free_port()
    words = [sys.executable, "-m", "course_lib.command", "lab", "--port", str(port), "--no-browser"]
    words += [f"--ServerApp.ip={HOST}", f"--IdentityProvider.token={TOKEN}", *(["--sources"] if sources else [])]
    with log.open("wb") as out:
        process = subprocess.Popen(words, cwd=root, env=own_environment(folder), stdout=out, stderr=subprocess.STDOUT)
    served = (root / "notebooks", "notebooks/") if sources else (root / "my_course" / "1_lessons", "1_lessons/")
    server = LabServer(f"http://{HOST}:{port}", *served, log)
    try:
        wait_until_it_answers(server, process)
        yield server
        server.shut_kernels_down()
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()


def copy_lessons(root):
    """Copy what `course lab` needs of a clone: the notebooks, and the file by which it knows the clone."""
    shutil.copytree(ROOT / "notebooks", root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def own_environment(folder):
    """The environment without a developer's own Jupyter settings."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    return kept | {name: str(folder / name.lower()) for name in OWN_FOLDERS}


def free_port():
    with socket.socket() as free_socket:
        free_socket.bind((HOST, 0))
        return free_socket.getsockname()[1]


def wait_until_it_answers(server, process, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"`course lab` ended with status {process.returncode}:\n{server.log.read_text()}")
        try:
            server.ask("/api/status")
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)  # between two looks; what is waited for is the answer
    raise TimeoutError(f"`course lab` did not answer in {seconds} s:\n{server.log.read_text()}")
