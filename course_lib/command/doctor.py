"""Examine a class or function of attention in a file: what is wrong with it, on which line, and what to ask yourself.

Importing a file runs it, and so does building the class: name only code that you would run yourself.
"""

import argparse
import ast
import importlib.util
import inspect
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from course_lib.command.root import CourseError

NAME, HELP = "doctor", "find the mistakes in a file's attention code and name them"
OWN_OPTIONS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to examine and what is known of it."""
    add = parser.add_argument
    add("target", metavar="FILE.py:NAME", help="the file, and the class or function in it")
    add("--args", default="", help='what the class is built with, as in a call: "3, 4, num_heads=2"')
    add("--d-in", type=int, help="width of a token (default: that of the module's first Linear)")
    add("--batch", type=int, default=2, help="samples in the input (default: %(default)s)")
    add("--tokens", type=int, default=5, help="tokens in a sample (default: %(default)s)")
    add("--num-heads", type=int, help="how many heads the code should have")
    add("--num-kv-heads", type=int, help="how many heads of keys and values it should have")
    add("--not-causal", action="store_true", help="every token may see every other one")
    add("--call", metavar="CODE", help='how to run it, if not by x alone: "lambda m, x: m(x)[0]"')
    add("--json", action="store_true", help="plain data for other programs")


def run(args: argparse.Namespace) -> int:
    """Build what was named, examine it and print the report; 1 if something was found."""
    path, name = _split(args.target)
    words, options = _arguments(args.args)
    print(f"course doctor: running {name} of {path} (importing a file runs it)", file=sys.stderr)
    import torch

    from course_lib.diagnosis import diagnose

    torch.manual_seed(0)  # the same weights, so the same numbers, each time
    with redirect_stdout(sys.stderr):  # what the file prints is not the report
        patient = _built(_loaded(path, name), name, words, options)
    d_in = _width(patient) if args.d_in is None else args.d_in
    if d_in is None:
        raise CourseError(f"{name} has no Linear that says how wide a token is: give --d-in.")
    for option, number in (("--d-in", d_in), ("--batch", args.batch), ("--tokens", args.tokens)):
        if number < 1:
            raise CourseError(f"{option} must be at least 1, got {number}.")
    x = torch.randn(args.batch, args.tokens, d_in, generator=torch.Generator().manual_seed(0))
    told = {"num_heads": args.num_heads, "num_kv_heads": args.num_kv_heads, "call": _call(args.call)}
    try:
        with redirect_stdout(sys.stderr):
            report = diagnose(patient, x, causal=not args.not_causal, **told)
    except (TypeError, ValueError) as error:
        raise CourseError(str(error)) from None
    print(report.as_json() if args.json else report)
    return 0 if report.ok else 1


def _split(target: str) -> tuple[Path, str]:
    file, found, name = target.rpartition(":")
    path = Path(file)
    if not found or not name.isidentifier() or path.suffix != ".py":
        raise CourseError(f"{target!r} is not FILE.py:NAME, such as my_attention.py:MultiHeadAttention.")
    if not path.is_file():
        raise CourseError(f"there is no file {path}.")
    return path, name


def _arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        words = [ast.literal_eval(one) for one in call.args]
        if any(one.arg is None for one in call.keywords):
            raise ValueError("** unpacks what is no plain value")
        return words, {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError, AttributeError):
        raise CourseError(f'--args {text!r} is no list of plain values, such as "3, 4, num_heads=2".') from None


def _loaded(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickles look their module up
    sys.path.insert(0, str(path.resolve().parent))  # what it imports from beside it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CourseError(f"{path} could not be imported: {_said(error)}") from error
    if not hasattr(module, name):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise CourseError(f"{path} has no {name}; it has {', '.join(there) or 'nothing that can be called'}.")
    return getattr(module, name)


def _built(thing: Any, name: str, words: list[Any], options: dict[str, Any]) -> Any:
    if not inspect.isclass(thing):
        if words or options:
            raise CourseError(f"{name} is no class, so it can't be built with --args.")
        return thing
    try:
        return thing(*words, **options)
    except Exception as error:
        shown = ", ".join([*map(repr, words), *(f"{key}={value!r}" for key, value in options.items())])
        raise CourseError(f"{name}({shown}) could not be built: {_said(error)}") from error


def _said(error: BaseException) -> str:
    """What was raised, in one line: some errors of PyTorch have twenty."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def _width(patient: Any) -> int | None:
    from torch import nn

    modules = patient.modules() if isinstance(patient, nn.Module) else ()
    return next((module.in_features for module in modules if isinstance(module, nn.Linear)), None)


def _call(code: str | None) -> Any:
    if code is None:
        return None
    import torch

    try:
        return eval(code, {"torch": torch})  # the examiner's own words, run as the file is
    except Exception as error:
        raise CourseError(f"--call {code!r} is no function: {_said(error)}") from error
