"""`course bench`: its options, its tables, its JSON, and that it leaves the thread count as it was."""

import json

import pytest
import torch

from course_lib import bench
from course_lib.bench.case import Case, Experiment, Group
from course_lib.bench.cases import GROUPS
from course_lib.bench.goals import judge
from course_lib.bench.results import Goal, load_results

NAMES = [group.name for group in GROUPS]


def test_the_list_names_every_group(capsys):
    assert bench.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert all(line.endswith(group.about) for line, group in zip(lines, GROUPS, strict=True))


def test_a_quick_run_of_everything_prints_every_group_and_saves_what_it_printed(tmp_path, capsys):
    threads = torch.get_num_threads()
    saved = tmp_path / "cpu.json"
    assert bench.main(["--quick", "--threads", "1", "--rounds", "2", "--device", "cpu", "--save", str(saved)]) == 0
    assert torch.get_num_threads() == threads
    out, err = capsys.readouterr()
    results = load_results(saved)
    assert list(dict.fromkeys(table.name for table in results.groups)) == NAMES
    assert results.machine["threads"] == 1 and results.goals == []
    for table in results.groups:
        assert len(table.rows) >= 2, table.title
        assert all(len(row.times_ms) == 2 and row.peak_bytes > 0 for row in table.rows), table.title
        assert table.title in err
        assert table.title in out or table.name.startswith("growth")
    assert "weight split, fused" in out and "GB/s read" in out and "Growth with num_tokens" in out
    assert out.endswith("\nThe goals are for the full sizes: run without --quick to judge them.\n")
    assert " s  done\n" in err
    assert len(judge(results)) > 20, "every goal of a processor finds its rows"


def test_json_goes_to_stdout_alone(capsys):
    assert bench.main(["recorder", "--quick", "--json", "--no-memory"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert set(plain) == {"machine", "limits", "groups", "goals"}
    assert [each["dtype"] for each in plain["limits"]] == ["float32", "bfloat16"]
    (table,) = plain["groups"]
    assert [row["name"] for row in table["rows"]][:2] == ["the module alone", "recorded"]
    for row in table["rows"]:
        assert row["peak_bytes"] is None and row["times_limit"] is None and len(row["times_ms"]) == 3
        assert row["min_ms"] <= row["quartiles_ms"][0] <= row["median_ms"] <= row["quartiles_ms"][1] <= row["max_ms"]


def test_the_goals_are_judged_at_full_sizes(monkeypatch, capsys):
    monkeypatch.setattr(bench, "GROUPS", [group for group in GROUPS if group.name == "recorder"])
    monkeypatch.setattr(
        bench, "measure_limits", lambda device, quick: [bench.results.Limits(device, "float32", 1, 1, 1)]
    )
    monkeypatch.setattr(bench, "judge", lambda results: [Goal("as planted", "there", 2.0, 1.0, "at most", False, "so")])
    assert bench.main(["--rounds", "1"]) == 0
    assert "Goals: 0 of 1 met" in capsys.readouterr().out


def test_a_gpu_is_measured_after_the_processor(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(bench, "describe_machine", dict)
    seen = []
    monkeypatch.setattr(bench, "measure_limits", lambda device, quick: seen.append(device) or [])
    monkeypatch.setattr(bench, "GROUPS", ())
    assert bench.main(["--json"]) == 0 and seen == ["cpu", "cuda"]
    assert bench.main(["--json", "--device", "cuda"]) == 0 and seen == ["cpu", "cuda", "cuda"]


def test_a_case_with_other_numbers_ends_with_1(monkeypatch, capsys):
    def wrong(device, quick):
        cases = [Case("one", lambda: torch.ones(2)), Case("other", lambda: torch.zeros(2))]
        yield Experiment("planted", "float32", cases, {})

    monkeypatch.setattr(bench, "GROUPS", (Group("planted", "a mistake", wrong),))
    assert bench.main(["--quick"]) == 1
    assert "Left out: 'other' is not the same function as the first case" in capsys.readouterr().out


def test_in_a_terminal_one_line_changes(monkeypatch, capsys):
    monkeypatch.setattr(bench.sys.stderr, "isatty", lambda: True, raising=False)
    bench.say(0.0, "something")
    assert capsys.readouterr().err.endswith(" s  something\r")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--threads", "0"], "--threads must be at least 1, got 0"),
        (["--rounds", "-2"], "--rounds must be at least 1, got -2"),
        (["mqa", "forms"], f"there is no group 'mqa': choose from {', '.join(NAMES)}"),
        (["--save", "nowhere/cpu.json"], "--save nowhere/cpu.json: there is no folder nowhere, make it first"),
        (["--device", "cuda"], "--device cuda: PyTorch sees no GPU here, leave it out or choose cpu"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_measured(words, sentence, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as stopped:
        bench.main(words)
    assert stopped.value.code == 2
    out, err = capsys.readouterr()
    assert sentence in err and out == ""
