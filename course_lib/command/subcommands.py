"""The subcommands of `course` in the order of the help, with their modules and the packages that they need."""

from typing import NamedTuple

GROUPS = {  # title -> the package that holds the modules, and name -> a line of the overview
    "learn": ("course_lib.command", {
        "start": "copy the notebooks to a folder of your own (my_course)",
        "lab": "open JupyterLab on the first lesson (--port N; other options go to jupyter lab)",
        "progress": "show which exercises are passed and what comes next",
        "kernels": "install the Jupyter kernels Attention (CPU) and, with a GPU, Attention (CUDA)",
    }),
    "check your code": ("course_lib.command", {
        "doctor": "find the mistakes in a file's attention code and name them",
        "scan": "run a model on all its paths (fused, cached, masked, padded ...) and compare them",
        "mutate": "plant known mistakes into your own code, and say which of them your tests catch (--tests FILE)",
        "picture": "save a clickable recording of a file's code as one page (FILE.py:NAME --out FILE)",
        "mcp": "serve the doctor to an assistant that writes attention (Model Context Protocol)",
    }),
    "teach": ("course_grader.commands", {
        "release": "make a week's exercises for a class (--lessons 01,02 --to DIR)",
        "grade": "grade what a class handed in (FOLDER --week week1 --out DIR)",
        "oral": "three questions for each student about their own code, with answers (FOLDER --week week1 --out FILE)",
        "hub": "show the page on running the course on a JupyterHub; --check checks what is missing here",
    }),
    "maintain the course (in a clone)": ("tools.commands", {
        "test": "check everything: the library's tests, then every lesson, on each kernel",
        "test-versions": "run every notebook with Colab's, the oldest and the newest versions",
        "run": "run lessons top to bottom and store their outputs (make course)",
        "exercises": "make the sheets and solutions from course_lib/exercises (make exercises)",
        "book": "build the web book in build/book/html",
        "figures": "draw the figures under figures/ again",
        "bench": "measure the forms of attention side by side (--list, --quick, --json)",
        "doctor-bench": "measure how many of a bank of mistakes the doctor finds, names and locates",
        "storyteller": "train the storytellers (--consequences: measure what each mistake does to one)",
        "grade-bench": "measure how fast a class is graded, compared with nbgrader",
        "lock": "make requirements.lock again from pyproject.toml (--upgrade: newest versions)",
    }),
}  # fmt: skip
GRADING = "distributed jinja2 tqdm"
NEEDS = {  # name -> the extra of pyproject.toml that installs what it needs, and the packages that must be importable
    "lab": ("lessons", "jupyterlab jupytext ipykernel"),
    "kernels": ("lessons", "ipykernel"),
    "mutate": ("dev", "pytest"),
    "release": ("teach", "nbgrader"),
    "grade": ("teach", GRADING),
    "oral": ("teach", GRADING),
    "test": ("dev", "pytest xdist nbval nbclient jupytext"),
    "test-versions": ("dev", "nox uv nbval"),
    "run": ("dev", "nbclient jupytext ipykernel nbgrader"),
    "exercises": ("dev", "nbclient ipykernel nbgrader"),
    "book": ("book", "sphinx myst_nb sphinx_book_theme"),
    "grade-bench": ("teach", GRADING),
    "lock": ("dev", "uv"),
}


class Subcommand(NamedTuple):
    """One subcommand; its module defines `arguments(parser)` and `run(args)`, and is imported when it is used."""

    name: str
    module: str
    extra: str
    packages: str

    @property
    def passes_on(self) -> bool:
        """Whether unknown arguments are kept in `args.rest` for another program."""
        return self.name == "lab"


SUBCOMMANDS = {
    name: Subcommand(name, f"{package}.{name.replace('-', '_')}", *NEEDS.get(name, ("", "")))
    for package, commands in GROUPS.values()
    for name in commands
}
