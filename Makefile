# The course's commands. `make lab` opens the first lesson, `make test` checks everything; both set up what is missing.
# Everything real is done by the `course` command, which works without make as well (README.md shows how).

.DEFAULT_GOAL := help

PYTHON ?=
CPU ?=
PORT ?=
LAB_ARGS ?=
ARGS ?=

# Images of containers set it, and each of a hundred processes would compile the course and the tests.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
COURSE := $(BIN)/course
SEARCHED := python3 python3.14 python3.13 python3.12 python3.11 python

.PHONY: help set-up-lessons set-up-dev start lab test test-all test-machines test-versions book course exercises bench doctor-bench grade-bench figures lint lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'
	@echo "  PYTHON=python3.12 chooses an interpreter (3.11 to 3.14); CPU=1 takes PyTorch's small build without CUDA;"
	@echo "  PORT=8890 LAB_ARGS=--no-browser go to JupyterLab."

lab: set-up-lessons  ## open JupyterLab on the first lesson
	@$(COURSE) lab $(if $(PORT),--port $(PORT)) $(LAB_ARGS)

test: set-up-dev  ## check everything: the library, then every lesson on each kernel
	@$(COURSE) test $(ARGS)

test-all: set-up-dev  ## check everything and, in a browser, the book and JupyterLab (needs Chromium)
	@$(COURSE) test --browser $(ARGS)

test-machines: set-up-dev  ## try the set-up on bare machines; clean Debians need root and debootstrap
	@$(COURSE) test --machines $(ARGS)

test-versions: set-up-dev  ## run every notebook with Colab's, the oldest and the newest versions (about 15 minutes)
	@$(COURSE) test-versions $(ARGS)

book: set-up-dev  ## build the web book in build/book/html
	@$(COURSE) book

course: set-up-dev  ## run every lesson top to bottom and store its outputs
	@$(COURSE) run $(ARGS)

exercises: set-up-dev  ## make the sheets and solutions from course_lib/exercises
	@$(COURSE) exercises $(ARGS)

bench: set-up-dev  ## time the forms of attention side by side
	@$(COURSE) bench $(ARGS)

doctor-bench: set-up-dev  ## measure how many mistakes the doctor finds, names and locates
	@$(COURSE) doctor-bench $(ARGS)

grade-bench: set-up-dev  ## measure how fast a class is graded, compared with nbgrader (about 15 minutes)
	@$(COURSE) grade-bench $(ARGS)

figures: set-up-dev  ## draw the figures again
	@$(COURSE) figures $(ARGS)

lint: set-up-dev  ## look for mistakes in style, code, names, imports and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright --pythonpath $(BIN)/python
	@$(BIN)/pytest -q --no-header tests/style

lock: set-up-dev  ## make requirements.lock again from pyproject.toml (ARGS=--upgrade for newer versions)
	@$(COURSE) lock $(ARGS)

clean:  ## remove the environment and everything that was generated
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .coverage .coverage.* htmlcov .nox notebooks/.ipynb_checkpoints
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
	@echo "Clean: the next make sets everything up again."

# Both end at once where all is there; tools/set_up.py says what is installed, from where, and what to do where that fails.
set-up-lessons set-up-dev: set-up-%:
	@for python in $(SEARCHED) "$(PYTHON)"; do if "$$python" -c "" 2>/dev/null; then \
	  exec "$$python" tools/set_up.py $* $(if $(CPU),--cpu) $(if $(PYTHON),--python "$(PYTHON)"); fi; done; \
	echo "No Python was found: install Python 3.11 or newer, or name one, such as make lab PYTHON=/path/to/python3.12." >&2; exit 2
