"""Results survive the way through JSON and are found by name, size and device."""

import json

import pytest

from course_lib.timing import Goal, Measurement, Results, load_results
from tests.timing.planted_results import LIMITS, MACHINE, table


def test_results_survive_the_way_through_a_file(tmp_path):
    row = Measurement("a", (1.5, 2.5, 9.0), 1.0, peak_bytes=7, cache_bytes=8, bytes=9, flops=10, limit_ms=0.5)
    results = Results(
        MACHINE,
        [LIMITS],
        [table("forms", [row, Measurement("b", (1.0,), 0.5)], batch=2)],
        [Goal("g", "w", 1.0, 2.0, "at most", True, "n")],
    )
    path = tmp_path / "x.json"
    path.write_text(results.to_json(), encoding="utf-8")
    assert load_results(path) == results
    plain = json.loads(results.to_json())
    assert plain["groups"][0]["rows"][0]["median_ms"] == 2.5
    assert plain["groups"][0]["rows"][0]["quartiles_ms"] == [2.0, 5.75]
    assert plain["groups"][0]["rows"][0]["times_limit"] == 5.0
    assert plain["groups"][0]["rows"][1]["quartiles_ms"] == [1.0, 1.0]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"groups": [{}], "machine": {}, "limits": [], "goals": []}'])
def test_other_files_are_refused(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="this is not the JSON of `course bench --json`"):
        load_results(path)


def test_tables_are_found_by_their_fields_and_sizes():
    results = Results(MACHINE, [], [table("a", [], key_len=4), table("a", [], key_len=8), table("b", [], key_len=8)])
    assert list(results.find("a", key_len=8, dtype="float32")) == [results.groups[1]]
    assert list(results.find("a", nothing=8)) == []


def test_a_row_is_found_by_name():
    own = table("a", [("x", [1.0])])
    assert own["x"].median_ms == 1.0
    with pytest.raises(KeyError, match=r"no row 'y' in 'title of a': there are \['x'\]"):
        own["y"]
