"""A course of a few bytes with the real Makefile and the real set-up, so that a whole set-up takes seconds offline.

Its wheels lie in a folder that pip is pointed at: nothing is asked of the network. Its uv is what a test makes of it.
"""

import os
import shutil
import textwrap
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "attention-course"
version = "1"

[project.optional-dependencies]
lessons = ["sentence"]
dev = ["sentence"]
"""

# The smallest that pip takes for an editable install: a wheel with one .pth file.
BACKEND = """
import pathlib
from small_wheel import write_wheel

def build_editable(folder, config_settings=None, metadata_directory=None):
    files = {"attention_course.pth": str(pathlib.Path.cwd())}
    extras = ["Provides-Extra: lessons", "Requires-Dist: sentence; extra == 'lessons'",
              "Provides-Extra: dev", "Requires-Dist: sentence; extra == 'dev'"]
    return write_wheel(folder, "attention_course", "1", files, extras).name
"""

COMMAND = 'import sys\nsys.exit(0 if sys.argv[1:] == ["kernels"] else 1)\n'


def write_wheel(folder, name, version, files, more=()):
    """Write a wheel of pure Python; `files` maps paths to texts."""
    path = Path(folder) / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *more, ""])
    wheel = "Wheel-Version: 1.0\nGenerator: small\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel, f"{info}/RECORD": ""}
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    return path


def write_uv(wheels, program):
    """Put a uv into the folder of wheels: a program in Python that sees uv's arguments in sys.argv."""
    write_wheel(wheels, "uv", "1", {"uv/__init__.py": "", "uv/__main__.py": textwrap.dedent(program)})


def make_course(folder):
    """Make the small course in a folder, with its wheels beside it; return (course, wheels)."""
    course, wheels = Path(folder), Path(folder).with_name("wheels")
    for one in (course / "tools", course / "course_lib" / "command", wheels):
        one.mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", course)
    shutil.copy(ROOT / "tools" / "set_up.py", course / "tools")
    shutil.copy(__file__, course / "small_wheel.py")
    texts = {
        "pyproject.toml": PROJECT,
        "backend.py": BACKEND,
        "requirements.lock": "sentence==1\nuv==1\n",
        "course_lib/__init__.py": "",
        "course_lib/command/__init__.py": "",
        "course_lib/command/__main__.py": COMMAND,
    }
    for name, text in texts.items():
        (course / name).write_text(text)
    for name in texts:
        os.utime(course / name, (0, 0))  # a clone is older than what is installed in it
    write_wheel(wheels, "sentence", "1", {"sentence.py": ""})
    return course, wheels
