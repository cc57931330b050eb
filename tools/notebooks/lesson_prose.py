"""Check a lesson's prose against its cells: the code that it quotes, its numbers, its blanks and predictions."""

import ast
import builtins
import inspect
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.exercises import ALL

from .compare import without_pixels
from .outputs import all_texts

MIN_BLANKS, MIN_PREDICTIONS = 3, 3
MAX_MINUTES, TOLERANCE = 60, 0.25  # of a lesson; how far the stated minutes may be from the counted ones
MAX_MEDIAN = 8  # lines of a code cell
_FILLED = re.compile(r'^\w+ = filled\("(\w+)", \w+\)', re.MULTILINE)
_PREDICTED = re.compile(r"^predict\(", re.MULTILINE)
_FENCE = re.compile(r"```.*?```", re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[(?:\d\d )?([^\]]*)\]\([^)]*\)")
_FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$", re.DOTALL)
_NOT_MEASURED = re.compile(  # names, years and durations, which are no results
    r"\b[Ll]essons?\s+\d\d(?:,?\s+(?:(?:to|and)\s+)?\d\d)*|\b(?:19|20)\d\d\b"
    r"|\b\d+(?: to \d+)? (?:minutes|seconds|hours)\b"
    r"|\b[A-Z][\w.-]*\d[\w.-]*|\b(?:Llama|GPT|Gemma|Qwen|Mistral|DeepSeek|Python|PyTorch|[Ss]teps?)[- ]\d[\w.]*"
)
_NUMBER = re.compile(r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(\s?%| percent)?(?![\w])")
_PLACES = {torch, nn, F, torch.Tensor}
AXES = {"batch", "token", "width", "head", "head_dim", "query", "key", "block", "group", "step", "layer", "slot"}
AXES |= {"d_in", "d_out", *"bthdmqkvg"}
COMMANDS = ("course ", "make ", "pip ", "python ", "git ")


@dataclass
class Section:
    """The cells between two headings of the second level: what is said, and what the code and its outputs show."""

    prose: list[tuple[int, str]] = field(default_factory=list)  # number of the cell, text
    shown: list[str] = field(default_factory=list)


def prose_faults(cells: list[Any]) -> Iterator[str]:
    """Yield a sentence per quoted name, number, blank or prediction that the lesson's cells don't bear out."""
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    outputs = "\n".join(_shown(cell) for cell in cells if cell.cell_type == "code")
    known = _names(code)
    for section in _sections(cells):
        numbers = _numbers_shown("\n".join(section.shown))
        for at, text in section.prose:
            plain = _FENCE.sub(" ", text)
            for quoted in _CODE.findall(plain):
                if problem := _unknown(quoted, code, outputs, known):
                    yield f"cell {at} quotes `{quoted}`, but {problem}."
            for number, digits, percent in _numbers_in_prose(plain):
                if not _is_shown(number, digits, percent, numbers):
                    yield f"cell {at} says {number:.{digits}f}{percent}, which no cell of its section shows."
    yield from _blanks(cells)
    yield from _length(cells)


def counted_minutes(cells: list[Any]) -> float:
    """Estimate a lesson's minutes: 200 words and 8 lines of code per minute, half a minute per prediction, blanks."""
    prose = " ".join(cell.source for cell in cells if cell.cell_type == "markdown")
    words = len(re.findall(r"\w+", re.sub(r"<details>.*?</details>", " ", _LINK.sub(r"\1", prose), flags=re.DOTALL)))
    lines = sum(len(cell.source.splitlines()) for cell in _taught(cells))
    code = "\n".join(cell.source for cell in _taught(cells))
    blanks = sum(ALL[name].minutes for name in _FILLED.findall(code))
    return words / 200 + lines / 8 + blanks + len(_PREDICTED.findall(code)) / 2


def _taught(cells: list[Any]) -> list[Any]:
    """Return the code cells without the setup cell, which is folded."""
    return [cell for cell in cells if cell.cell_type == "code" and "setup" not in cell.metadata.get("tags", ())]


def _length(cells: list[Any]) -> Iterator[str]:
    """Check the stated minutes and the length of the cells."""
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    stated = re.search(r"\*\*It takes\*\* about (\d+) minutes", prose)
    counted = counted_minutes(cells)
    if stated is None:
        yield f"does not say **It takes** about {5 * round(counted / 5)} minutes."
    elif abs(int(stated[1]) - counted) > TOLERANCE * counted or int(stated[1]) > MAX_MINUTES:
        yield f"says {stated[1]} minutes; {counted:.0f} were counted, and at most {MAX_MINUTES} are allowed."
    median = statistics.median(len(cell.source.splitlines()) for cell in _taught(cells))
    if median > MAX_MEDIAN:
        yield f"has code cells of {median:g} lines in the median; at most {MAX_MEDIAN} are allowed."


def _sections(cells: list[Any]) -> list[Section]:
    sections = [Section()]
    for number, cell in enumerate(cells, start=1):
        if cell.cell_type == "code":
            sections[-1].shown += [cell.source, _shown(cell)]
            continue
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
            if part.startswith("## "):
                sections.append(Section())
            sections[-1].prose.append((number, part))
    return sections


def _shown(cell: Any) -> str:
    texts = [without_pixels(text) for kind, text in all_texts(cell.outputs) if not kind.startswith("image/")]
    return "\n".join(texts)


def _names(code: str) -> set[str]:
    names = set(dir(builtins)) | AXES | set(ALL)
    for node in ast.walk(ast.parse(re.sub(r"^\s*[%!].*$", "", code, flags=re.MULTILINE))):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name):
                names |= set(name.split("."))
            case ast.Constant(value=str(text)) if text.isidentifier():
                names.add(text)
    return names


def _unknown(quoted: str, code: str, outputs: str, known: set[str]) -> str:
    """Say what a quotation names that the lesson's code and outputs don't contain; "" if there is nothing."""
    if quoted in code or quoted in outputs or quoted.startswith(COMMANDS) or "/" in quoted or quoted.startswith("."):
        return ""
    try:
        tree = ast.parse(quoted.replace("->", ",").strip())
    except SyntaxError:
        return "" if re.fullmatch(r"\W+", quoted) else "neither the code nor an output contains it"
    wanted = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    wanted |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    missing = sorted(name for name in wanted - known if not any(hasattr(namespace, name) for namespace in _PLACES))
    return f"no cell of the lesson has the name {', '.join(missing)}" if missing else ""


def _numbers_in_prose(text: str) -> Iterator[tuple[float, int, str]]:
    """Yield each number that may be a result: with decimals, a percentage, or an integer above 12."""
    for pattern in (_CODE, _FORMULA, _NOT_MEASURED):
        text = pattern.sub(" ", _LINK.sub(r"\1", text))
    text = re.sub(r"^(\s*\d+\. |#.*$|\|.*$)", " ", text, flags=re.MULTILINE)
    for whole, decimals, percent in _NUMBER.findall(text):
        number = float(whole.replace(",", "") + decimals)
        if decimals or percent or number > 12:
            yield number, max(0, len(decimals) - 1), percent


def _numbers_shown(text: str) -> list[float]:
    literals = re.findall(r"(?<![\w.])-?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?", text)
    return [abs(float(literal.replace(",", "").replace("_", ""))) for literal in literals if literal.strip("-,_")]


def _is_shown(number: float, digits: int, percent: str, shown: list[float]) -> bool:
    half = 0.5 * 10.0**-digits + 1e-9
    factors = (1.0, 100.0) if percent else (1.0,)
    return any(abs(value * factor - number) <= half for value in shown for factor in factors)


def _blanks(cells: list[Any]) -> Iterator[str]:
    """Check that each blank is filled by the course's own solution, which the lesson shows folded, word for word."""
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    filled, predictions = _FILLED.findall(code), len(_PREDICTED.findall(code))
    if len(filled) < MIN_BLANKS:
        yield f"has {len(filled)} blanks; a lesson asks the learner to write at least {MIN_BLANKS}."
    if predictions < MIN_PREDICTIONS:
        yield f"has {predictions} predictions; a lesson asks for at least {MIN_PREDICTIONS}."
    for name in filled:
        solution = inspect.getsource(ALL[name].solution).strip()
        if solution not in prose:
            yield f"does not show the solution of {name}, folded, as course_lib.exercises has it."
