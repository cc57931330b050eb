"""The table of published bugs is well formed; nothing is fetched or run."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real_bugs import sources
from benchmarks.real_bugs.cases import CASES, UNMEASURED
from benchmarks.real_bugs.judging import judged
from benchmarks.real_bugs.sources import Commit, NotFetched, fetched
from benchmarks.real_bugs.summary import totals
from course_lib.mistakes import CATALOGUE
from course_lib.mutations import MADE

RESULTS = Path(__file__).parents[2] / "benchmarks" / "real_bugs" / "results.json"
EVERY = [*CASES, *UNMEASURED]
OUTPUT = {"value": np.ones((2, 3))}
SIDE = {
    "findings": [],
    "refused": "",
    "seconds": 0.1,
    "scan": None,
    "path": OUTPUT,
    "plain": None,
    "other": None,
    "torchcode": {},
}


def finding(mistake, line, path="timm/models/eva.py"):
    return {"mistake": mistake, "title": mistake, "line": line, "path": path}


def test_there_are_at_least_25_pairs_and_ids_are_unique():
    assert len(CASES) >= 25
    assert len({case.id for case in EVERY}) == len(EVERY)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.id)
def test_each_has_a_link_and_a_mistake_of_the_catalogue_or_words(case):
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(commit|pull|issues)/\w+", case.link)
    ids = [mistake for mistake in (case.mistake, *getattr(case, "also", ())) if " " not in mistake]
    assert set(ids) <= set(CATALOGUE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_side_is_pinned_and_the_lines_to_blame_can_be_read(case):
    assert case.before != case.after
    for side in (case.before, case.after):
        assert not isinstance(side, Commit) or re.fullmatch(r"[0-9a-f]{40}", side.commit)
    file, lines = case.blamed
    assert file.endswith(".py")
    assert 0 < lines.start < lines.stop


def test_the_stored_kill_rates_add_up():
    rates = json.loads(RESULTS.with_name("kill_rates.json").read_text(encoding="utf-8"))
    rows = rates["repositories"]
    named = [row["repository"] for row in [*rows, *rates["left out"]]]
    assert rows and len(set(named)) == len(named)
    for row in [*rows, *rates["left out"]]:
        assert re.fullmatch(r"[0-9a-f]{40}", row["commit"]) and re.fullmatch(r"[\w.-]+/[\w.-]+", row["repository"])
    for row in rows:
        planted = [*row["caught"], *row["survive"]]
        assert set(planted) <= set(MADE) and len(set(planted)) == len(planted) > 0 and row["tests"]


def test_the_stored_results_are_those_of_the_table():
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["cases"]
    assert [row["id"] for row in rows] == [case.id for case in CASES]


def test_a_finding_that_the_fixed_code_has_too_does_not_count():
    case = next(case for case in CASES if case.id == "timm-eva-mask")
    both = finding("dtype-pinned", 3)
    row = judged(case, {**SIDE, "findings": [both]}, {**SIDE, "findings": [both]})["doctor"]
    assert (row["found"], row["named"], row["line"], row["accused after"]) == (False, False, False, ["dtype-pinned"])


def test_what_the_scan_finds_is_counted_where_it_was_run():
    case = next(case for case in CASES if case.id == "timm-eva-mask")
    row = judged(case, {**SIDE, "scan": [finding("no-causal-mask", 3)]}, {**SIDE, "scan": []})
    assert row["doctor"]["scan"] == {"found": True, "says": ["no-causal-mask"], "accused after": []}
    counts = totals([row, judged(case, SIDE, SIDE)])
    assert (counts["found by the scan"], counts["accused by the scan after the fix"]) == ("1 of 1", "0 of 1")
    assert (counts["found"], counts["cases"]) == ("0 of 2", "2")


@pytest.mark.parametrize(("line", "near"), [(135, False), (136, True), (141, True), (142, False)])
def test_a_line_counts_within_one_of_those_to_blame(line, near):
    case = next(case for case in CASES if case.id == "timm-eva-mask")
    row = judged(case, {**SIDE, "findings": [finding("mask-after-softmax", line)]}, SIDE)["doctor"]
    assert (row["found"], row["named"], row["first"], row["line"]) == (True, True, True, near)


def test_what_is_not_in_the_cache_is_refused_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "CACHE", tmp_path)
    with pytest.raises(NotFetched, match=r"is not in the cache: run python -m benchmarks\.real_bugs --fetch\."):
        fetched(CASES[0].before, offline=True)
