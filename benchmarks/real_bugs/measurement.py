"""Measure one side of a case: what the doctor says of it, and its outputs for the other methods."""

import importlib.util
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.diagnosis import Finding, diagnose

from .case import Built, Case
from .loading import importer
from .sources import CACHE, SUPPORT, Source, fetched
from .torchcode import failed_checks

SCALES = ("norm", "scale")  # in the names of parameters that are near 1


def measure(case: Case, source: Source) -> dict[str, Any]:
    """Measure one side in this process, which must be fresh; return plain data and arrays."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    try:
        built = case.build(importer(fetched(source, offline=True), fetched(SUPPORT, offline=True)))
    except Exception as error:
        return {"not built": f"{_message(error)} ({_last_line(error)})"}
    if isinstance(built.module, nn.Module):
        fill(built.module)
        built.module.eval()
    start = time.process_time()
    report = _attempt(lambda: diagnose(built.module, built.x, **built.options))
    seconds = time.process_time() - start
    findings = report["value"].findings if "value" in report else ()
    return {
        "findings": [_plain(finding) for finding in findings],
        "refused": report.get("error", ""),
        "seconds": round(seconds, 2),
        "scan": _scanned(built),
        "path": _attempt(lambda: _on_path(built)),
        "plain": _output(built.plain, built),
        "other": _output(built.other, built),
        "torchcode": {task: failed_checks(task, code) for task, code in built.torchcode.items()},
    }


def fill(module: nn.Module) -> None:
    """Give each parameter numbers that depend on its name and size alone, so that both sides compute with the same."""
    for name, parameter in module.named_parameters():
        values = torch.randn(parameter.numel(), generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
        if any(word in name for word in SCALES):
            values = 1 + 0.2 * values
        elif parameter.dim() > 1:
            values = 0.4 * values
        else:
            values = 0.1 * values
        with torch.no_grad():
            parameter.copy_(values.reshape(parameter.shape))


@torch.no_grad()
def _on_path(built: Built) -> Tensor:
    torch.manual_seed(0)
    call: Callable[..., Any] = built.options.get("call") or (lambda code, x: code(x))
    return call(built.module, built.x)


def _output(run: Callable[[Any, Tensor], Tensor] | None, built: Built) -> dict[str, Any] | None:
    return None if run is None else _attempt(lambda: run(built.module, built.x))


def _attempt(run: Callable[[], Any]) -> dict[str, Any]:
    try:
        with torch.no_grad():
            value = run()
        return {"value": value.detach().double().numpy() if isinstance(value, Tensor) else value}
    except Exception as error:
        return {"error": _message(error)}


def _scanned(built: Built) -> list[dict[str, Any]] | None:
    """Return what the scan finds, or None where there is none to run."""
    if built.scan is None or importlib.util.find_spec("course_lib.scan") is None:
        return None
    scan = importlib.import_module("course_lib.scan").scan
    model, x, options = built.scan
    return [_plain(finding) for finding in scan(model, x, **options).findings]


def _plain(finding: Finding) -> dict[str, Any]:
    data: Mapping[str, Any] = finding.as_dict()
    path = str(data["path"] or "").replace(str(CACHE), "").lstrip("/")
    return {name: data[name] for name in ("mistake", "title", "line")} | {"path": path.partition("/")[2]}


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].replace(str(CACHE), "")[:160]


def _last_line(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
