"""nbgrader stays out of the learner's JupyterLab: the course uses its preprocessors, not its servers and menus."""

import json
from pathlib import Path
from typing import Any

_SERVERS = ("formgrader", "validate_assignment", "assignment_list", "course_list")
_OFF = {
    "jupyter_server_config.json": {
        "ServerApp": {"jpserver_extensions": {f"nbgrader.server_extensions.{name}": False for name in _SERVERS}}
    },
    "labconfig/page_config.json": {"disabledExtensions": {"@jupyter/nbgrader": True}},
}


def quiet_nbgrader(prefix: str) -> None:
    """Switch off, under a prefix, what nbgrader switches on when it is installed; 1.6 s of each start, two warnings.

    A setting that is there already is left alone, so a teacher who switches them on again keeps them.
    """
    for name, wanted in _OFF.items():
        path = Path(prefix) / "etc" / "jupyter" / name
        present = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_with(present, wanted), indent=2) + "\n", encoding="utf-8")


def _with(present: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    both = dict(wanted) | present
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(present.get(key), dict):
            both[key] = _with(present[key], value)
    return both
