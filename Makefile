# The course's commands. `make lab` opens the first lesson, `make test` checks everything; both set up what is missing.
# Everything real is done by the `course` command, so who has no make types that (README.md shows how).

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?=
PORT ?=
LAB_ARGS ?=
REPO ?=
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
LESSONS := $(VENV)/.lessons-installed
STAMP := $(VENV)/.installed
COURSE := $(BIN)/course

.PHONY: help lab test test-all test-versions book course exercises bench doctor-bench grade-bench figures links lint lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'
	@echo "  PYTHON=python3.12 chooses an interpreter (3.11 to 3.13); PORT=8890 LAB_ARGS=--no-browser go to JupyterLab."

lab: $(LESSONS)  ## open JupyterLab on the first lesson
	@$(COURSE) lab $(if $(PORT),--port $(PORT)) $(LAB_ARGS)

test: $(STAMP)  ## check everything: the library, then every lesson on each kernel
	@$(COURSE) test $(ARGS)

test-all: $(STAMP)  ## check everything and, in a browser, the book and JupyterLab (needs Chromium)
	@$(COURSE) test --browser $(ARGS)

test-versions: $(STAMP)  ## run every notebook with Colab's, the oldest and the newest versions (a quarter of an hour)
	@$(COURSE) test-versions $(ARGS)

book: $(STAMP)  ## build the web book in build/book/html
	@$(COURSE) book

course: $(STAMP)  ## run every lesson top to bottom and store its outputs
	@$(COURSE) run $(ARGS)

exercises: $(STAMP)  ## make the learners' exercises from the teacher's solutions
	@$(COURSE) exercises $(ARGS)

bench: $(STAMP)  ## time the forms of attention side by side
	@$(COURSE) bench $(ARGS)

doctor-bench: $(STAMP)  ## measure how many mistakes the doctor finds, names and locates
	@$(COURSE) doctor-bench $(ARGS)

grade-bench: $(STAMP)  ## measure how fast a class is graded, beside nbgrader (a quarter of an hour)
	@$(COURSE) grade-bench $(ARGS)

figures: $(STAMP)  ## draw the figures again
	@$(COURSE) figures $(ARGS)

links: $(STAMP)  ## carry the repository's address everywhere (REPO=owner/name sets a new one)
	@$(COURSE) links $(REPO)

lint: $(STAMP)  ## look for mistakes in style and code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

lock: $(STAMP)  ## make requirements.lock again from pyproject.toml (ARGS=--upgrade for newer versions)
	@$(COURSE) lock $(ARGS)

clean:  ## remove the environment and everything that was generated
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .coverage .coverage.* htmlcov notebooks/.ipynb_checkpoints
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
	@echo "Clean: the next make sets everything up again."

# `make lab` installs what the lessons need, everything else also what checks them: the versions of requirements.lock.
# uv installs in a third of pip's time, and looks where pip is told to; where it can't, pip does. Compiled once here is
# compiled for all: some systems don't let Python keep what it compiled.
# A stamp is touched last, so an interrupted or failed set-up is done again.
$(STAMP): WHAT := dev
$(LESSONS): WHAT := lessons
$(STAMP) $(LESSONS): requirements.lock pyproject.toml
	@set -e; \
	suits() { "$$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; }; \
	python=""; \
	if [ -n "$(PYTHON)" ]; then \
	  suits "$(PYTHON)" || { echo "PYTHON=$(PYTHON) is not Python 3.11 to 3.13 ($$("$(PYTHON)" --version 2>&1 | head -n 1)): name another one, such as PYTHON=python3.12." >&2; exit 2; }; \
	  python="$(PYTHON)"; \
	elif [ -x $(BIN)/python ] && suits $(BIN)/python; then python=""; \
	else \
	  for p in python3 python3.13 python3.12 python3.11 python; do if suits $$p; then python=$$p; break; fi; done; \
	  [ -n "$$python" ] || { echo "No Python 3.11 to 3.13 was found: install one, or name one, such as make lab PYTHON=/path/to/python3.12." >&2; exit 2; }; \
	fi; \
	rm -f $@; \
	if [ -n "$$python" ]; then \
	  echo "1/3 making $(VENV) with $$("$$python" --version)"; "$$python" -m venv --clear $(VENV); \
	else echo "1/3 keeping $(VENV) with $$($(BIN)/python --version)"; fi; \
	echo "2/3 installing the course and the tested packages of requirements.lock (the first time takes a minute or two)"; \
	pip="$(BIN)/python -m pip install -qq --disable-pip-version-check"; \
	{ $$pip "$$(grep '^uv==' requirements.lock)" && UV_FIND_LINKS="$${UV_FIND_LINKS-$$PIP_FIND_LINKS}" \
	  $(BIN)/python -m uv pip install -q --compile-bytecode --python $(BIN)/python -c requirements.lock -e '.[$(WHAT)]'; } \
	|| $$pip -c requirements.lock -e '.[$(WHAT)]'; \
	echo "3/3 installing its two Jupyter kernels"; \
	$(COURSE) kernels > /dev/null; \
	touch $@ $(if $(filter dev,$(WHAT)),$(LESSONS))
