"""Imitate Colab: how it starts a kernel, and the repository that a setup cell installs."""

import os
import subprocess
from pathlib import Path

from tools.notebooks import Address

STAND_IN = Path(__file__).parent / "stand_in"
LAUNCHER = "colab_kernel_launcher"  # the module of the stand-in that starts a kernel


def colab_variables(remote: str, address: Address) -> dict[str, str]:
    """Return the environment variables of a kernel that imports the stand-in and finds `remote` at GitHub's address."""
    return {
        "PYTHONPATH": str(STAND_IN),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{remote}.insteadOf",
        "GIT_CONFIG_VALUE_0": f"https://github.com/{address.slug}",
        "GIT_TERMINAL_PROMPT": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",  # because a notice of a newer pip is not the course's output
        "PIP_NO_COMPILE": "1",  # because that saves half of the setup cell's time
    }


def serve_working_tree(root: Path, remote: Path, address: Address) -> str:
    """Store the working tree as the only commit of a new bare repository, under the ref that the setup cells name.

    Return its URL. What git ignores is left out, and nothing is written into the repository itself.
    """
    ref = f"refs/heads/{address.ref}" if address.ref == "main" else f"refs/tags/{address.ref}"
    environment = {**os.environ, "GIT_DIR": str(remote), "GIT_WORK_TREE": str(root)}

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=versions", "-c", "user.email=versions", *arguments]
        return subprocess.check_output(command, cwd=root, env=environment, text=True).strip()

    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(remote)], check=True)
    git("add", "--all")
    commit = git("commit-tree", git("write-tree"), "-m", "the working tree")
    git("config", "uploadpack.allowFilter", "true")  # pip asks for it
    git("update-ref", ref, commit)
    return remote.as_uri()
