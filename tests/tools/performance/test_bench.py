"""`course bench`: its options, its tables and its JSON."""

import json

import pytest
import torch

from course_lib.command import main
from course_lib.timing import Case, Goal, MachineLimits, load_results
from tools.commands import bench
from tools.performance.cases import GROUPS
from tools.performance.experiment import Experiment, Group
from tools.performance.goals import judge

NAMES = [group.name for group in GROUPS]


def test_the_list_names_every_group(capsys):
    assert main(["bench", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert all(line.endswith(group.about) for line, group in zip(lines, GROUPS, strict=True))


@pytest.mark.slow
def test_a_quick_run_of_everything_prints_every_group_and_saves_what_it_printed(tmp_path, capsys):
    saved = tmp_path / "cpu.json"
    assert main(["bench", "--quick", "--rounds", "2", "--device", "cpu", "--save", str(saved)]) == 0
    out, err = capsys.readouterr()
    results = load_results(saved)
    assert list(dict.fromkeys(table.name for table in results.groups)) == NAMES
    assert results.machine["threads"] == torch.get_num_threads() and results.goals == []
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
    assert main(["bench", "recorder", "--quick", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert set(plain) == {"machine", "limits", "groups", "goals"}
    assert [each["dtype"] for each in plain["limits"]] == ["float32", "bfloat16"]
    (table,) = plain["groups"]
    assert [row["name"] for row in table["rows"]][:2] == ["the module alone", "recorded"]
    for row in table["rows"]:
        assert row["peak_bytes"] > 0 and row["times_limit"] is None and len(row["times_ms"]) == 3
        assert row["min_ms"] <= row["quartiles_ms"][0] <= row["median_ms"] <= row["quartiles_ms"][1] <= row["max_ms"]


def test_the_goals_are_judged_at_full_sizes(monkeypatch, capsys):
    monkeypatch.setattr(bench, "GROUPS", [group for group in GROUPS if group.name == "recorder"])
    monkeypatch.setattr(bench, "measure_limits", lambda device, quick: [MachineLimits(device, "float32", 1, 1, 1)])
    monkeypatch.setattr(bench, "judge", lambda results: [Goal("as planted", "there", 2.0, 1.0, "at most", False, "so")])
    assert main(["bench", "--rounds", "1"]) == 0
    assert "Goals: 0 of 1 met" in capsys.readouterr().out


def test_a_gpu_is_measured_after_the_processor(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(bench, "describe_machine", dict)
    seen = []
    monkeypatch.setattr(bench, "measure_limits", lambda device, quick: seen.append(device) or [])
    monkeypatch.setattr(bench, "GROUPS", ())
    assert main(["bench", "--json"]) == 0 and seen == ["cpu", "cuda"]
    assert main(["bench", "--json", "--device", "cuda"]) == 0 and seen == ["cpu", "cuda", "cuda"]


def test_a_case_with_other_numbers_ends_with_1(monkeypatch, capsys):
    def wrong(device, quick):
        cases = [Case("one", lambda: torch.ones(2)), Case("other", lambda: torch.zeros(2))]
        yield Experiment("planted", "float32", cases, {})

    monkeypatch.setattr(bench, "GROUPS", (Group("planted", "a mistake", wrong),))
    assert main(["bench", "--quick"]) == 1
    assert "Left out: 'other' is not the same function as the first case" in capsys.readouterr().out


def test_in_a_terminal_one_line_changes(monkeypatch, capsys):
    monkeypatch.setattr(bench.sys.stderr, "isatty", lambda: True, raising=False)
    bench.show_progress(0.0, "something")
    assert capsys.readouterr().err.endswith(" s  something\r")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rounds", "-2"], "--rounds must be at least 1, got -2"),
        (["mqa", "forms"], f"there is no group 'mqa': choose from {', '.join(NAMES)}"),
        (["--save", "nowhere/cpu.json"], "--save nowhere/cpu.json: there is no folder nowhere; create it first"),
        (["--device", "cuda"], "--device cuda: PyTorch sees no GPU here; leave out --device or choose cpu"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_measured(words, sentence, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert sentence in err and out == ""
