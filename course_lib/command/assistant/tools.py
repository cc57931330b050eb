"""The tools that an assistant may call: examine attention code, and explain a mistake."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HINTS = ("evidence", "hint", "lesson")  # of a finding, what leads on and gives nothing away
SECONDS = 120  # that code may take before it is ended
TEXT, NUMBER, SWITCH = {"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "boolean"}
Described = tuple[dict[str, Any], str]  # kind of value, and what it says
OPTIONS: dict[str, Described] = {
    "args": (TEXT, 'what the class is called with, as Python: "24, num_heads=6"'),
    "call": (TEXT, 'how to run it, if not by x alone: "lambda m, x: m(x)[0]"'),
    "d_in": (NUMBER, "width of a token"),
    "num_heads": (NUMBER, "how many heads it should have"),
    "num_kv_heads": (NUMBER, "how many heads of keys and values it should have"),
    "not_causal": (SWITCH, "every token may see every other one, as in an encoder"),
}


def _tool(
    name: str, description: str, needed: list[str], /, **properties: tuple[dict[str, Any], str]
) -> dict[str, Any]:
    described = {key: {**kind, "description": about} for key, (kind, about) in properties.items()}
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": described, "required": needed},
    }


TOOLS = [
    _tool(
        "diagnose",
        "Examine attention written in PyTorch: which mistake it makes, on which line, and a question that leads to it. "
        "RUNS THE CODE, without a sandbox. Give `target`, or `code` and the `name` to examine in it. For somebody who "
        "is learning, ask with `hint_only` first, and offer name and line when they have tried.",
        [],
        target=(TEXT, "FILE.py:NAME, FILE.ipynb:NAME or package.module:NAME"),
        code=(TEXT, "the text of a Python file"),
        name=(TEXT, "the class, module or function in `code`"),
        **OPTIONS,
        hint_only=(SWITCH, "say what was measured and a question that leads on, without the mistake's name and line"),
    ),
    _tool(
        "explain_mistake",
        "Explain a mistake that `diagnose` names: what it is, a question that leads to it, and its page.",
        ["mistake"],
        mistake=(TEXT, "its id, such as missing-scale; `all` lists the ids"),
    ),
]


def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """Return what a tool says, as text.

    Raises:
        ValueError: the arguments don't fit, or the code could not be opened; the message gives the reason.
    """
    _check(next(tool for tool in TOOLS if tool["name"] == name), arguments)
    if name == "explain_mistake":
        return explain(arguments["mistake"])
    report = diagnosed(arguments)
    return _hints(report) if arguments.get("hint_only") else report


def diagnosed(arguments: dict[str, Any]) -> str:
    """Run `course doctor --json` in a process of its own, which is ended if it takes too long."""
    if ("target" in arguments) == ("code" in arguments):
        raise ValueError("give target, or code and name: one of the two.")
    if "target" in arguments:
        return _run(arguments["target"], arguments)
    if "name" not in arguments:
        raise ValueError("code needs name: the class, module or function to examine.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.py"
        path.write_text(arguments["code"], encoding="utf-8")
        return _run(f"{path}:{arguments['name']}", arguments)


def _hints(report: str) -> str:
    """Return of each finding what was measured, a question and the lesson to read again."""
    whole = json.loads(report)
    found = [finding for each in (whole, *whole.get("attentions", ())) for finding in each["findings"]]
    return json.dumps([{key: finding[key] for key in HINTS} for finding in found], indent=2)


def explain(mistake: str) -> str:
    """Return what the catalogue says of a mistake as JSON.

    Raises:
        ValueError: the catalogue has no such id.
    """
    from course_lib.about import page_of
    from course_lib.mistakes import CATALOGUE

    if mistake == "all":
        return json.dumps({name: entry.title for name, entry in CATALOGUE.items()}, indent=2)
    if mistake not in CATALOGUE:
        raise ValueError(f"there is no mistake {mistake!r}; explain_mistake with mistake='all' lists them.")
    entry = CATALOGUE[mistake]
    facts = {"mistake": mistake, "title": entry.title, "hint": entry.hint, "lesson": entry.lesson}
    return json.dumps({**facts, "url": page_of(mistake)}, indent=2)


def _run(target: str, arguments: dict[str, Any]) -> str:
    words = [sys.executable, "-m", "course_lib.command", "doctor", "--json"]
    for option in OPTIONS.keys() & arguments.keys():
        flag = f"--{option.replace('_', '-')}"
        words += [flag] * arguments[option] if OPTIONS[option][0] is SWITCH else [f"{flag}={arguments[option]}"]
    words += ["--", target]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise ValueError(f"the code ran for {SECONDS} s and was ended: give smaller sizes in args.") from None
    if not done.stdout.strip():
        raise ValueError((done.stderr.strip().splitlines() or ["the code ended its process"])[-1])
    return done.stdout


def _check(tool: dict[str, Any], arguments: dict[str, Any]) -> None:
    schema = tool["inputSchema"]
    for name in schema["required"]:
        if name not in arguments:
            raise ValueError(f"{tool['name']} needs {name}.")
    kinds = {"string": str, "integer": int, "boolean": bool}
    for name, value in arguments.items():
        if name not in schema["properties"]:
            raise ValueError(f"{tool['name']} has no argument {name!r}; it has {', '.join(schema['properties'])}.")
        kind = schema["properties"][name]["type"]
        if type(value) is not kinds[kind]:
            raise ValueError(f"{name} must be {'an' if kind == 'integer' else 'a'} {kind}, got {value!r}.")
