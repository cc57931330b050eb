"""What stands under .github and .devcontainer can be read, and names commands, files and actions that are there."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from course_lib.command.subcommands import SUBCOMMANDS

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))  # all but config.yml
PRE_COMMIT = ROOT / ".pre-commit-config.yaml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"  # for other repositories
ACTION = ROOT / ".github" / "actions" / "doctor" / "action.yml"
DEVCONTAINER = ROOT / ".devcontainer" / "devcontainer.json"
DOCKERFILE = ROOT / ".devcontainer" / "Dockerfile"

by_name = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path):
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


def commands():
    """Each line that a machine is to run, with the file that says so."""
    for path in WORKFLOWS:
        for step in steps(path):
            yield from ((path.name, line.strip()) for line in step.get("run", "").splitlines())
    for repo in read(PRE_COMMIT)["repos"]:
        yield from ((PRE_COMMIT.name, hook["entry"]) for hook in repo["hooks"])
    yield from ((HOOKS.name, hook["entry"]) for hook in read(HOOKS))
    for step in read(ACTION)["runs"]["steps"]:
        yield from ((ACTION.name, line.strip()) for line in step["run"].splitlines())
    yield DEVCONTAINER.name, json.loads(DEVCONTAINER.read_text(encoding="utf-8"))["postCreateCommand"]
    dockerfile = re.sub(r"\\\n", " ", DOCKERFILE.read_text(encoding="utf-8"))
    yield from ((DOCKERFILE.name, line) for line in re.findall(r"(?m)^RUN (.*)", dockerfile))
    words = json.loads(re.search(r"(?m)^CMD (.*)", dockerfile)[1])
    yield DOCKERFILE.name, " ".join(words)


def problem(command):
    """What a command names that isn't there, or None."""
    for target in re.findall(r"\bmake ([a-z][a-z-]*)", command):
        if not re.search(rf"(?m)^(?:[a-z-]+ )*{target}(?: [a-z-]+)*:", MAKEFILE):
            return f"the Makefile has no target {target}"
    for name in re.findall(r"(?:^|/)course ([a-z][a-z-]*)", command):
        if name not in SUBCOMMANDS:
            return f"there is no `course {name}`"
    for path in re.findall(r"(?<![\w./])(?:tools|tests|\.ci)/[\w./]+", command):
        if not (ROOT / path).exists():
            return f"there is no {path}"
    return None


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_every_command_is_there(name, command):
    assert problem(command) is None


@pytest.mark.parametrize(
    "command",
    ["make tset", "cd x && make lab-rat", ".venv/bin/course gradde", "course tset 01", "python tools/setup.py dev"],
)
def test_a_command_that_is_not_there_is_noticed(command):
    assert problem(command)


@by_name
def test_a_workflow_asks_for_little_and_ends(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "timeout-minutes" in job or name == "publish", f"{name} may hang for six hours"


@by_name
def test_every_action_is_pinned_to_a_major_version(path):
    for action in filter(None, (step.get("uses") for step in steps(path))):
        assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", action), action


def test_one_major_version_per_action():
    used = {step["uses"] for path in WORKFLOWS for step in steps(path) if "uses" in step}
    assert len(used) == len({action.split("@")[0] for action in used}), sorted(used)


def test_no_check_waits_for_a_machine_that_is_not_there():
    for path in WORKFLOWS:
        for job in read(path)["jobs"].values():
            if "self-hosted" in job["runs-on"]:
                assert job["if"] == "vars.GPU_RUNNER != ''"


def test_a_release_publishes_only_what_was_checked():
    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["needs"] == "build" and jobs["publish"]["environment"] == "pypi"
    assert jobs["publish"]["permissions"] == {"id-token": "write"} and "permissions" not in jobs["build"]
    assert not [step for step in jobs["publish"]["steps"] if "run" in step]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_asks_what_is_needed(path):
    form = read(path)
    assert form["name"] and form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_doctors_form_asks_for_the_file():
    form = read(ROOT / ".github" / "ISSUE_TEMPLATE" / "doctor.yml")
    assert {"kind", "file", "command", "report"} <= {field["id"] for field in form["body"]}


def test_dependabot_watches_the_actions_and_the_packages():
    updates = read(ROOT / ".github" / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip"}
    assert all(update["schedule"]["interval"] == "monthly" and update["groups"] for update in updates)


def test_hooks_keep_outputs_and_run_what_is_installed():
    hooks = [hook for repo in read(PRE_COMMIT)["repos"] for hook in repo["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert not [hook for hook in hooks if "nbstripout" in hook["entry"]]


def test_the_container_is_one_for_all():
    settings = json.loads(DEVCONTAINER.read_text(encoding="utf-8"))
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert (DEVCONTAINER.parent / settings["build"]["dockerfile"]) == DOCKERFILE
    assert f" AS {settings['build']['target']}\n" in text
    assert f" {settings['remoteUser']}\n" in text and f"USER {settings['remoteUser']}\n" in text
    port = str(settings["forwardPorts"][0])
    assert f"EXPOSE {port}" in text and f"--port={port}" in text


def test_the_licence_of_code_stays_plain_and_the_text_has_its_own():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert "creativecommons.org/licenses/by/4.0" in (ROOT / ".github" / "LICENSE-CC-BY-4.0.md").read_text("utf-8")
    assert "CC BY 4.0" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert "CC BY 4.0" in read(ROOT / "CITATION.cff")["abstract"]


def test_the_hook_is_given_its_files_by_its_arguments():
    (hook,) = read(HOOKS)
    assert hook["pass_filenames"] is False and hook["language"] == "system"


def test_no_text_of_a_pull_request_becomes_a_command_of_the_action():
    action = read(ACTION)
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"] and step["shell"] == "bash"
    given = {name for step in action["runs"]["steps"] for name in step["env"].values()}
    assert {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]} <= given


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_action_passes_its_inputs_on(tmp_path):
    course = tmp_path / "course"
    course.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    course.chmod(0o755)
    step = read(ACTION)["runs"]["steps"][-1]
    given = {
        "TARGETS": "a.py:A b.py:B",
        "ARGS": "dim=24, $(touch hacked)",
        "OPTIONS": "--not-causal",
        "SARIF": "o.sarif",
    }
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **dict.fromkeys(step["env"], ""), **given, "SARIF": "o.sarif"}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = "doctor --github --sarif=o.sarif --not-causal a.py:A b.py:B"
    assert done.stdout.splitlines() == [*expected.split(), "--args=dim=24, $(touch hacked)"]
    assert not (tmp_path / "hacked").exists()
