"""Definitions are found by their code object or class, as `inspect` finds them, and also where it doesn't."""

import ast
import functools
import inspect
import linecache
import textwrap

import pytest
from torch import nn

from course_lib.attention import KVCache, MultiHeadAttention, attend
from course_lib.tracing import SourceLine, source_of


def decorated(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


@decorated
def with_a_decorator(x):
    return x


def outer():
    def inner(x):
        return x + 1

    return inner


class Outer(nn.Module):
    class Inner:
        def method(self):
            return self

    def forward(self, x):
        return x


THINGS = [attend, outer, outer(), with_a_decorator, decorated, MultiHeadAttention, KVCache, Outer, Outer.Inner]


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__qualname__)
def test_it_is_what_inspect_finds(thing):
    wanted = inspect.unwrap(thing) if inspect.isfunction(thing) else thing
    expected = ast.parse(textwrap.dedent(inspect.getsource(wanted))).body[0]
    source = source_of(wanted.__code__ if inspect.isfunction(wanted) else wanted)
    assert ast.dump(source.tree) == ast.dump(expected) and source.file == inspect.getsourcefile(wanted)


def test_two_lambdas_of_one_name_are_distinguished_by_their_lines():
    first = lambda x: x + 1  # noqa: E731
    second = lambda x: x * 2  # noqa: E731
    assert [ast.unparse(source_of(function.__code__).tree.body) for function in (first, second)] == ["x + 1", "x * 2"]


def test_what_has_no_source_has_none():
    space = {}
    exec("def unseen(x):\n    return x", space)
    assert source_of(space["unseen"].__code__) is None and source_of(None) is None and source_of(int) is None


def test_a_file_that_changed_is_read_again(tmp_path):
    path = tmp_path / "module.py"
    for text in ("def f():\n    return 1\n", "\n\ndef f():\n    return 22\n"):
        path.write_text(text)
        linecache.checkcache(str(path))
        space = {}
        exec(compile(text, str(path), "exec"), space)
        assert ast.unparse(source_of(space["f"].__code__).tree.body[0]) == text.splitlines()[-1].strip()


def test_a_line_knows_its_text_and_where_its_statement_ends(tmp_path, monkeypatch):
    path = tmp_path / "code.py"
    path.write_text("x = [\n    1,\n]\nif x:\n    y = 2\n")
    monkeypatch.chdir(tmp_path)
    line = SourceLine(str(path), 1)
    assert (line, line.text, line.path, line.column, line.end_line) == ("code.py:1", "x = [", "code.py", 1, 3)
    block = SourceLine(str(path), 4)
    assert (block.end_line, SourceLine(str(path), 5).column) == (4, 5)
    nowhere = SourceLine("<string>", 7)
    assert (nowhere, nowhere.text) == ("<string>:7", "")
    assert nowhere.path is nowhere.column is nowhere.end_line is None
    assert SourceLine("/tmp/ipykernel_12/345.py", 2) == "cell:2"
