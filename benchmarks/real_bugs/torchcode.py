"""TorchCode's published checks for attention tasks, run on code in the form that they ask for."""

import importlib
import importlib.util
from typing import Any

from .sources import Commit, fetched

TORCHCODE = Commit("duoan/TorchCode", "8a49ba150f76c92fc6e2fd30631e07b88c803988", ("torch_judge/tasks",))


def failed_checks(task: str, code: Any) -> list[str]:
    """Return the titles of a task's checks that this code does not pass."""
    path = fetched(TORCHCODE, offline=True) / "torch_judge" / "tasks" / f"{task}.py"
    spec = importlib.util.spec_from_file_location(f"torchcode_{task}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"TorchCode has no task {task}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    name = module.TASK["function_name"]
    failed = []
    for check in module.TASK["tests"]:
        try:
            exec(compile(check["code"].replace("{fn}", name), check["name"], "exec"), {name: code})
        except Exception:
            failed.append(check["name"])
    return failed
