"""Compare what the course says with the golden record, or store it anew.

    python -m tools.golden              says each difference; exit status 1 if there is one
    python -m tools.golden --accept     stores what is said now, of the same frozen cases
    python -m tools.golden --freeze     freezes today's cases, too

The record holds the tests as they were when it was frozen. They run against today's code, whether or not they are still
in tests/, and whether or not they pass: what counts is what the doctor, `check` and `scan` said while they ran.
"""

import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

from tools.book import write_recordings
from tools.figures import FIGURES

from .answer_log import FOLDER

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("record.tar.xz")
LISTED_ANSWERS = Path(__file__).with_name("listed_answers.py")
BESIDE = ("book", "conftest.py", "notebooks", "pyproject.toml")  # what the tests find beside them; not the code itself
ASKING = ("diagnosis", "exercises", "scan")  # the folders of tests/ that ask the doctor, `check` and `scan`
SLOW = ("test_lesson_predictions.py", "test_notebooks.py")  # run notebooks; they ask nobody here


def freeze(cases: Path) -> None:
    """Copy the tests into a folder, and the exercises with the wrong answers that they list."""
    ignored = shutil.ignore_patterns("__pycache__", "browser", "machines", "training", *SLOW)
    shutil.copytree(ROOT / "tests", cases / "tests", ignore=ignored)
    shutil.copytree(ROOT / "course_lib" / "exercises", cases / "tests" / "frozen_exercises", ignore=ignored)
    shutil.copy(LISTED_ANSWERS, cases / "tests" / "exercises" / "test_own_wrongs.py")


def say(cases: Path, outputs: Path) -> None:
    """Run the frozen tests against today's code, draw everything, and write what came of it."""
    for name in BESIDE:
        (cases / name).symlink_to(ROOT / name)
    with tempfile.TemporaryDirectory() as heard:
        folders = [f"tests/{folder}" for folder in ASKING]
        options = ["-q", "-n", "2", "-p", "tools.golden.answer_log", "-p", "no:cacheprovider", "--rootdir", "."]
        run = [sys.executable, "-m", "pytest", *options, *folders]
        # one thread: with more, sums of floats depend on how many there are
        environment = os.environ | {"OMP_NUM_THREADS": "1", FOLDER: heard, "PYTHONPATH": f"{cases}{os.pathsep}{ROOT}"}
        subprocess.run(run, cwd=cases, env=environment, check=False)
        by_file: dict[str, dict[str, list[object]]] = defaultdict(dict)
        for part in sorted(Path(heard).glob("*.json")):
            for test, answers in json.loads(part.read_text(encoding="utf-8")).items():
                by_file[test.split("::")[0].removesuffix(".py")][test.split("::", 1)[1]] = answers
    for name, answers_of in by_file.items():
        file = outputs / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(answers_of, sort_keys=True, indent=1, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")
    (outputs / "figures").mkdir()
    for name, draw in FIGURES.items():
        (outputs / "figures" / f"{name}.svg").write_text(draw().svg, encoding="utf-8")
    write_recordings(ROOT, outputs)
    for picture in outputs.rglob("*.png"):
        picture.unlink()  # of the same numbers as the pages


def differences(old: Path, new: Path) -> list[str]:
    """Return the files that are not the same, each with the lines that differ."""
    then, now = (
        {str(file.relative_to(folder)): file.read_text(encoding="utf-8").splitlines() for file in folder.rglob("*.*")}
        for folder in (old, new)
    )
    return [
        "\n".join(difflib.unified_diff(then.get(name, []), now.get(name, []), "then", f"now/{name}", lineterm=""))
        for name in sorted(then | now)
        if then.get(name) != now.get(name)
    ]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.golden", description="Compare with the golden record.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--accept", action="store_true", help="store what is said now, of the same cases")
    choice.add_argument("--freeze", action="store_true", help="freeze today's cases, too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases, outputs, then = (Path(folder, name) for name in ("cases", "outputs", "then"))
        for new_folder in (cases, outputs, then):
            new_folder.mkdir()
        if chosen.freeze:
            freeze(cases)
        else:
            with tarfile.open(RECORD) as record:
                record.extractall(folder, filter="data")
        if (old := Path(folder, "record")).exists():
            old.rename(then)
        frozen = sorted(file for file in cases.rglob("*") if file.is_file())
        say(cases, outputs)
        changed = differences(then, outputs)
        if chosen.freeze or chosen.accept:
            with tarfile.open(RECORD, "w:xz", preset=9) as record:
                for file in frozen:
                    record.add(file, f"cases/{file.relative_to(cases)}")
                record.add(outputs, "record")
            print(f"{RECORD.relative_to(ROOT)}: stored, {RECORD.stat().st_size / 1e6:.1f} MB.")
            return 0
        print("\n".join(changed))
        print(f"{len(changed)} files differ from the golden record." if changed else "As in the golden record.")
        return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
