"""JSON-RPC 2.0 over lines of text, as far as a Model Context Protocol server of tools needs it.

Source: https://modelcontextprotocol.io/specification/2025-06-18
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from course_lib.about import version

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
Call = Callable[[str, dict[str, Any]], str]


class RequestError(Exception):
    """A request that can't be answered, with JSON-RPC's number for the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def serve(lines: Iterable[str], tools: list[dict[str, Any]], call: Call) -> Iterator[str]:
    """Yield the answer, as a line, to each line that holds a request; notifications get none."""
    for line in lines:
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except ValueError:
            yield _error(None, RequestError(PARSE_ERROR, "this line is not JSON"))
            continue
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                yield _error(None, RequestError(INVALID_REQUEST, "a request is an object with a method"))
            continue
        if "id" not in message:
            continue
        try:
            result = _answer(message["method"], message.get("params") or {}, tools, call)
        except RequestError as error:
            yield _error(message["id"], error)
        else:
            yield json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


def _answer(method: str, params: Any, tools: list[dict[str, Any]], call: Call) -> dict[str, Any]:
    if not isinstance(params, dict):
        raise RequestError(INVALID_PARAMS, "params must be an object")
    if method == "initialize":
        requested = params.get("protocolVersion")
        return {
            "protocolVersion": requested if requested in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "course", "version": version()},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": tools}
    if method == "tools/call":
        return _called(params, tools, call)
    raise RequestError(NO_METHOD, f"there is no method {method}")


def _called(params: dict[str, Any], tools: list[dict[str, Any]], call: Call) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments") or {}
    tool = next((known for known in tools if known["name"] == name), None)
    if tool is None or not isinstance(arguments, dict):
        names = ", ".join(tool["name"] for tool in tools)
        raise RequestError(INVALID_PARAMS, f"there is no tool {name!r}; the tools are {names}")
    try:
        text, failed = call(str(name), arguments), False
    except ValueError as error:  # the assistant reads it and can mend its arguments
        text, failed = str(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def _error(number: Any, error: RequestError) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": error.code, "message": str(error)}})
