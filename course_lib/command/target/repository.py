"""Find the repository and the packages that a file stands in."""

from pathlib import Path

MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")  # files in the root of a repository

FEW = 4  # folders above a file that may hold its package, where nothing marks the root


def repository_of(path: Path) -> Path | None:
    """Return the innermost folder above a file that looks like the root of a repository; None without one."""
    return next((folder for folder in path.parents if any((folder / mark).exists() for mark in MARKS)), None)


def above_packages(path: Path) -> Path:
    """Return the folder that holds the outermost package of a file."""
    return next(folder for folder in path.parents if not (folder / "__init__.py").is_file())


def holder_of(name: str, path: Path) -> Path | None:
    """Return the folder of the file's repository that a package or module can be imported from; None without one.

    It is the nearest folder above the file, one called src in it, or one right below the root, but never a package,
    whose own parts must not hide installed packages of the same name. Without a root, as in an archive that was
    downloaded, it is one of a few folders above the file.
    """
    root = repository_of(path)
    above = [folder for folder in path.parents if root and folder.is_relative_to(root)] or list(path.parents)[:FEW]
    inside = root.iterdir() if root else ()
    beside = sorted(folder for folder in inside if folder.is_dir() and not folder.name.startswith("."))
    for folder in [*above, *(parent / "src" for parent in above), *beside]:
        if (folder / "__init__.py").is_file():
            continue
        module = folder.joinpath(*name.split("."))
        if module.with_name(f"{module.name}.py").is_file() or _holds_python(module):
            return folder
    return None


def _holds_python(folder: Path) -> bool:
    return folder.is_dir() and next(folder.rglob("*.py"), None) is not None
