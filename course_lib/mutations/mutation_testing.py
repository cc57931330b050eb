"""Which planted mistakes do somebody's own tests catch? The file on disk stays as it is."""

import ast
import contextlib
import importlib.machinery
import linecache
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from .operators import MADE, mutations
from .pattern import PARAMETERS, method
from .source import Source

PATIENCE, LEAST_SECONDS = 10, 60.0  # how many times as long as right code a run may take, and seconds it always has
TOO_LONG = "the time ran out"
AT_IMPORT = "the tests can't be run any more"


class Planted(NamedTuple):
    """A mistake in a file.

    Attributes:
        mistake: Its id in the catalogue.
        line: The number of its line in the file.
        text: That line.
        source: The file's source with the mistake.
    """

    mistake: str
    line: int
    text: str
    source: str


class Outcome(NamedTuple):
    """A planted mistake and the first test that failed with it, such as "test_heads.py::test_mask", or None."""

    planted: Planted
    caught_by: str | None


def plantings(file: Path, name: str) -> list[Planted]:
    """List the mistakes that can be planted into a class or function of a file, in the order of the catalogue's kinds.

    Of two that make the same code, as a mask that is discarded and one that is missing, the first stands for both.

    Raises:
        ValueError: The file can't be read as Python, or has no such class or function at its top level.
    """
    try:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} can't be read: {error}") from None
    definitions = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    chosen = next((node for node in definitions if node.name == name), None)
    if chosen is None:
        known = ", ".join(node.name for node in definitions) or "none"
        raise ValueError(f"{file} has no class or function {name!r} at its top level; it has {known}")
    first = min(node.lineno for node in (chosen, *chosen.decorator_list)) - 1
    lines = text.splitlines(keepends=True)
    before, part, after = lines[:first], "".join(lines[first : chosen.end_lineno]), lines[chosen.end_lineno :]
    planted = [
        Planted(
            mistake,
            first + one.line,
            part.splitlines()[one.line - 1].strip(),
            "".join([*before, Source(part).edited(one.edits), *after]),
        )
        for mistake in MADE
        for one in mutations(part, mistake)
    ]
    return list({_computed(one.source): one for one in reversed(planted)}.values())[::-1]


class _WithoutIdle(ast.NodeTransformer):
    """Leaves out statements that do nothing: `pass`, and a call of a PyTorch function whose result is thrown away."""

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        idle = method(node.value) in PARAMETERS and not method(node.value).endswith("_")
        return None if idle else node


def _computed(source: str) -> str:
    """Describe what code computes, the same for two sources that differ only in what does nothing."""
    return ast.dump(_WithoutIdle().visit(ast.parse(source)))


def survival(file: Path, planted: Sequence[Planted], arguments: Sequence[str]) -> Iterator[Outcome]:
    """Run tests with each mistake in turn.

    Args:
        file: The file into which the mistakes are planted.
        planted: From `plantings`.
        arguments: pytest's, such as ["test_heads.py"].

    Raises:
        ValueError: The tests don't pass as the file is, or they pass without it.
    """
    begun = time.monotonic()
    failed = _first_failure(file, None, arguments, None)
    if failed == AT_IMPORT:
        raise ValueError(
            "the tests must pass before a mistake is planted, and they can't be run: what does pytest say?"
        )
    if failed is not None:
        raise ValueError(f"the tests must pass before a mistake is planted, and {failed} doesn't")
    if _first_failure(file, "raise ImportError", arguments, None) is None:
        raise ValueError(f"the tests don't import {file}, so no mistake in it can fail them: do they import a copy?")
    seconds = max(LEAST_SECONDS, PATIENCE * (time.monotonic() - begun))
    for one in planted:
        yield Outcome(one, _first_failure(file, one.source, arguments, seconds))


def _first_failure(file: Path, source: str | None, arguments: Sequence[str], seconds: float | None) -> str | None:
    """Run the tests in a process of their own; return the first that fails, or why none could."""
    # A fork has imported PyTorch already; elsewhere it isn't safe or isn't there.
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_tests, args=(theirs, str(file.resolve()), source, list(arguments)))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(seconds) else TOO_LONG
    except EOFError:  # the process ended itself
        return AT_IMPORT
    finally:
        process.kill()
        process.join()


def _run_tests(answer: Connection, file: str, source: str | None, arguments: list[str]) -> None:
    import pytest

    class FirstFailure:
        name: str | None = None

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed and self.name is None:
                self.name = report.nodeid

    sys.path.insert(0, os.getcwd())  # as `python -m pytest` has it
    if source is not None:
        _load_instead(file, source)
    first = FirstFailure()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        # Nobody reads why a test failed, and to write that down for large tensors can take longer than the test.
        brief = ["-x", "-q", "-p", "no:cacheprovider", "--tb=no", "--assert=plain"]
        status = pytest.main([*brief, *arguments], plugins=[first])
    answer.send((first.name or AT_IMPORT) if status else None)


def _load_instead(file: str, source: str) -> None:
    """Let whatever imports the file get this source, without writing it."""
    sys.dont_write_bytecode = True
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    loader, get_code = importlib.machinery.SourceFileLoader, importlib.machinery.SourceFileLoader.get_code

    def get_code_with_mistake(self: importlib.machinery.SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if os.path.exists(path) and os.path.samefile(path, file):
            return compile(source, path, "exec", dont_inherit=True)
        return get_code(self, fullname)

    loader.get_code = get_code_with_mistake
