"""Where third-party code is published, and how it comes into a folder of the cache; nothing of it is stored here."""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("REAL_BUGS_CACHE", Path.home() / ".cache" / "attention-course" / "real-bugs"))
GIT = os.environ.get("REAL_BUGS_GIT", "https://github.com/{owner}/{name}")  # may lead to copies: /copies/{owner}/{name}
DONE = ".complete"


class NotFetched(Exception):
    """The code is not in the cache, or could not be fetched; the message says why."""


@dataclass(frozen=True)
class Release:
    """A release of a package, with the pinned packages that it needs beside it.

    Attributes:
        package: such as "timm".
        version: such as "1.0.7".
        needs: other releases, such as "tokenizers==0.21.4".
    """

    package: str
    version: str
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.package}-{self.version}"

    def fetch(self) -> None:
        """Download the wheels or archives and unpack them."""
        for package in (str(self), *self.needs):
            _download(package, self.folder)


@dataclass(frozen=True)
class Commit:
    """Files of a public repository at a commit.

    Attributes:
        repository: "owner/name" at GitHub.
        commit: 40 hex digits.
        paths: files and folders.
        needs: releases that it needs beside it, such as "h5py==3.14.0".
    """

    repository: str
    commit: str
    paths: tuple[str, ...]
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.repository}@{self.commit[:7]}"

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.repository.replace('/', '+')}-{self.commit[:12]}"

    def fetch(self) -> None:
        """Fetch this one commit and write its files."""
        owner, name = self.repository.split("/")
        address = GIT.format(owner=owner, name=name)
        copy = Path(address)
        if not copy.is_dir():
            copy = CACHE / "git" / f"{owner}+{name}"
            copy.mkdir(parents=True, exist_ok=True)
            _run(["git", "init", "--quiet", "--bare", str(copy)], "git could not make a repository")
            _git(copy, "fetch", "--quiet", "--depth=1", address, self.commit)
        archive = _git(copy, "archive", "--format=tar", self.commit, "--", *self.paths)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(self.folder, filter="data")
        for package in self.needs:
            _download(package, self.folder)


Source = Release | Commit
SUPPORT = Release("einops", "0.8.1", needs=("einops-exts==0.0.4",))  # what code of several cases imports


def fetched(source: Source, offline: bool = False) -> Path:
    """Return the folder that holds the code, after fetching it if it is not yet in the cache.

    Raises:
        NotFetched: The code is missing and `offline`, or it could not be fetched.
    """
    done = source.folder / DONE
    if not done.exists():
        if offline:
            raise NotFetched(f"{source} is not in the cache: run python -m benchmarks.real_bugs --fetch.")
        source.folder.mkdir(parents=True, exist_ok=True)
        source.fetch()
        done.touch()
    return source.folder


def _git(copy: Path, *arguments: str) -> bytes:
    return _run(["git", "-C", str(copy), *arguments], f"git {arguments[0]} failed")


def _run(command: list[str], failure: str) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", b"") or b""
        last = (output.decode(errors="replace").strip().splitlines() or [str(error)])[-1]
        raise NotFetched(f"{failure}: {last}") from error


def _download(release: str, folder: Path) -> None:
    """Download a release without what it depends on, and unpack it."""
    with tempfile.TemporaryDirectory() as download:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", download, release]
        _run(pip, f"{release} could not be downloaded")
        _unpack(next(Path(download).iterdir()), folder)


def _unpack(file: Path, folder: Path) -> None:
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            wheel.extractall(folder)
        return
    with tarfile.open(file) as archive:  # a source archive: its own top folder is left out
        for member in archive.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name:
                archive.extract(member, folder, filter="data")
