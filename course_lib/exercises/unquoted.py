"""Take a word without quotes, `guess = no`, for the word in a notebook's cell that asks for a prediction."""

import ast
import builtins
import keyword
import re
import sys
from typing import Any

ASKING = "predict"
NO_KEYWORD = "__word"  # behind a keyword, so that Python reads it as a name


class UnquotedWords(ast.NodeTransformer):
    """Turns names that nothing has into words, where a cell assigns one and hands it to `predict`.

    Args:
        namespace: The names that cells have given values to.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """Change the cell if one of its own lines is `guess = word`, with a name that nothing has, before `predict`."""
        asked = {
            call.args[0].id
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == ASKING
            if call.args and isinstance(call.args[0], ast.Name)
        }
        known = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        for line in node.body if asked else ():
            match line:
                case ast.Assign(targets=[ast.Name(id=guess)], value=value):
                    names = _names(value)
                    word = "-".join(names)
                    has = [one in known or one in self.namespace or hasattr(builtins, one) for one in names]
                    if guess in asked and names and not all(has):
                        print(f'… Nothing here is called {word}, so it counts as the word "{word}": words need quotes.')
                        line.value = ast.copy_location(ast.Constant(word), value)
        return node


def _names(value: ast.expr) -> list[str]:
    """Return the parts of a word that Python takes for a name, or for names subtracted: `mask-after-softmax`."""
    if isinstance(value, ast.Name):
        return [value.id.removesuffix(NO_KEYWORD)]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub):
        parts = _names(value.left), _names(value.right)
        return [*parts[0], *parts[1]] if all(parts) else []
    return []


def keywords_as_names(lines: list[str]) -> list[str]:
    """Turn `guess = for`, which Python can't read, into a name that `UnquotedWords` takes for the word."""
    cell = "".join(lines)
    try:
        ast.parse(cell)
    except (SyntaxError, ValueError):
        assigned = re.compile(r"^(?P<guess>\w+) = (?P<word>\w+)(?=\s*(#.*)?$)", re.MULTILINE)

        def renamed(line: re.Match[str]) -> str:
            is_asked = re.search(rf"\b{ASKING}\({line['guess']}\b", cell)
            return line[0] + NO_KEYWORD * bool(is_asked and keyword.iskeyword(line["word"]))

        return assigned.sub(renamed, cell).splitlines(keepends=True)
    return lines


def accept_unquoted_words() -> None:
    """Change cells from now on, if this process is a notebook's kernel."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and not any(type(one).__name__ == UnquotedWords.__name__ for one in shell.ast_transformers):
        shell.ast_transformers.append(UnquotedWords(shell.user_ns))
        shell.input_transformers_post.append(keywords_as_names)
