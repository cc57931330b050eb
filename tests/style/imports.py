"""Who imports whom: read from the source, without importing anything."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One import of a module of the repository.

    Attributes:
        importer: the module, or the file of a notebook, that imports.
        imported: the module that is imported; the package for a name that its `__init__` gives.
        line: in the importer's code.
    """

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def module_names(root: Path, packages: Iterable[str]) -> dict[str, Path]:
    """Return the file of each module below some packages, by the module's name."""
    found = {}
    for path in sorted(path for package in packages for path in (root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if all(part.isidentifier() for part in parts):  # what lies in another folder is data, such as an example
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def code_of(path: Path) -> str:
    """Return the code of a module, or of a notebook's code cells."""
    text = path.read_text(encoding="utf-8")
    cells = json.loads(text)["cells"] if path.suffix == ".ipynb" else []
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code") if cells else text


def imports_of(name: str, path: Path, modules: dict[str, Path]) -> Iterator[Import]:
    """Yield each import of one of the modules, wherever in the file it is."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(code_of(path))):
        for source, given in _names(node, package):
            imported = source if given in exports(modules.get(source)) else f"{source}.{given}"
            while imported and imported not in modules:  # a name that a module gives, or another distribution
                imported = imported.rpartition(".")[0]
            if imported and imported != name:
                yield Import(name, imported, node.lineno)


def _names(node: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for each name that an import statement imports from a module."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        source = ".".join([*above, *([node.module] if node.module else [])])
        yield from ((source, alias.name) for alias in node.names)


@cache
def exports(path: Path | None) -> frozenset[str]:
    """Return what a module lists in `__all__`; a package may give a name that a module in it has, too."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body if path else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def package_of(module: str) -> str:
    """Return the package whose face a neighbour must use: `course_lib.pictures` for what is below it."""
    return ".".join(module.split(".")[:2])


def past_faces(imports: Iterable[Import], faces: Iterable[str]) -> Iterator[Import]:
    """Yield the imports that go past the face of another package.

    Args:
        imports: of the repository.
        faces: further modules that may be imported from anywhere.
    """
    for each in imports:
        package = package_of(each.imported)
        if each.imported not in (package, *faces) and package != package_of(each.importer):
            yield each


def circles(imports: Iterable[Import]) -> list[list[str]]:
    """Return each group of modules that import each other, directly or through others."""
    graph: dict[str, set[str]] = {}
    for each in imports:
        graph.setdefault(each.importer, set()).add(each.imported)
    reached = {module: _reach(module, graph) for module in graph}
    groups = {frozenset(other for other in reached[module] if module in reached.get(other, ())) for module in graph}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _reach(start: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for module in graph.get(waiting.pop(), set()) - found:
            found.add(module)
            waiting.append(module)
    return found


def upwards(imports: Iterable[Import], floors: list[set[str]]) -> Iterator[Import]:
    """Yield the imports of a package that is on a higher floor than the importer's.

    Args:
        imports: of the repository.
        floors: the packages, from the lowest floor to the highest; a root such as `tools` means all its packages.

    Raises:
        ValueError: a package is on no floor.
    """
    height = {package: number for number, floor in enumerate(floors) for package in floor}

    def height_of(module: str) -> int:
        for name in (package_of(module), module.partition(".")[0]):
            if name in height:
                return height[name]
        raise ValueError(f"{module} is on no floor: give its package a place in FLOORS.")

    for each in imports:
        if height_of(each.imported) > height_of(each.importer):
            yield each
