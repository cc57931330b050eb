"""A new mistake is one rule file: rules are found by their place and run by the stages that they ask for."""

import re
import sys
from pathlib import Path

import pytest
import torch

from course_lib.attention import SingleHeadAttention
from course_lib.diagnosis import rules
from course_lib.diagnosis.measure import Attention, FailedRun, NoStructure, Run, Stages, Structure, Subject
from course_lib.diagnosis.measure.options import Options
from course_lib.diagnosis.measure.run import Attempt, measure_run
from course_lib.diagnosis.measure.stages import MEASUREMENTS, stages_of
from course_lib.diagnosis.registry import Of, Rule, apply, collect
from course_lib.mistakes import CATALOGUE

FOLDER = Path(rules.__file__).parent
RULES = collect(rules)
NEW_RULE = '''
from collections.abc import Iterator

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import Attention, Run
from course_lib.diagnosis.registry import Of, rule


@rule()
def check_of_attention(attention: Attention) -> Iterator[Finding]:
    """Whether anything is ever right."""
    yield Finding.named("missing-scale", f"{attention.rows.num_heads} heads")


@rule(of=Of.WHOLE)
def check_of_a_run(run: Run) -> Iterator[Finding]:
    """Nothing ever runs right."""
    yield Finding.named("wrong-scale", str(tuple(run.output.tensor.shape)))
'''


def stages(code):
    x = torch.randn(2, 5, 11, generator=torch.Generator().manual_seed(0))
    return Stages(measure_run(Subject(code), x, Options(True, None, None, None)))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one module, which holds two rules."""
    (tmp_path / "new_rules").mkdir()
    (tmp_path / "new_rules" / "__init__.py").write_text("")
    (tmp_path / "new_rules" / "new_mistake.py").write_text(NEW_RULE)
    monkeypatch.syspath_prepend(tmp_path)
    import new_rules

    yield new_rules
    for name in ("new_rules", "new_rules.new_mistake"):
        sys.modules.pop(name, None)


def test_a_rule_is_found_by_its_place_and_runs_where_its_stage_is_reached(package):
    found = collect(package)
    assert [one.of for one in found] == [Of.EACH, Of.WHOLE] and found[0].title == "whether anything is ever right"
    findings, remarks = apply(found, stages(SingleHeadAttention(11, 7)))
    assert [one.mistake for one in findings] == ["missing-scale", "wrong-scale"] and remarks == []
    assert [one.evidence for one in findings] == ["1 heads", "(2, 5, 7)"], "what the run alone tells comes last"
    findings, remarks = apply(found, stages(lambda x: x.cumsum(1)))
    assert [one.mistake for one in findings] == ["wrong-scale"] and remarks == [], "there is no attention in it"
    assert apply(found, stages(lambda x: x.view(7))) == ([], []), "it does not run"


def test_a_rule_that_raises_is_told_and_the_others_count():
    def check(run: Run):
        """Whether something is right."""
        raise ValueError("odd\nand on a second line")

    findings, remarks = apply([Rule(check), *RULES], stages(SingleHeadAttention(11, 7)))
    assert findings == [] and remarks[0] == "not checked: whether something is right (ValueError: odd)"

    def fails(failed: FailedRun):
        raise KeyError("odd")

    with pytest.raises(KeyError):
        apply([Rule(fails)], stages(lambda x: x.view(7)))


def test_each_rule_asks_for_stages_that_there_are():
    known = {*MEASUREMENTS, NoStructure, *Attempt.__subclasses__()}
    for one in RULES:
        assert set(stages_of(one.check)) <= known, one
        assert len(one.title) < 60 and one.check.__doc__ == f"{one.title[0].upper()}{one.title[1:]}.", one
    assert len({one.name for one in RULES}) == len(RULES) > 30, "findings are stored with the name of their rule"


def test_each_mistake_is_named_by_a_rule_and_each_rule_file_holds_a_rule():
    named = set()
    for path in FOLDER.glob("[!_]*.py"):
        text = path.read_text(encoding="utf-8")
        assert "@rule(" in text, f"{path.name} holds no rule: it belongs to measure/ or locate/"
        named |= set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text)) & set(CATALOGUE)
    assert named == set(CATALOGUE)


@pytest.mark.parametrize("folder", ["measure", "locate"])
def test_what_is_measured_and_located_knows_no_mistake(folder):
    for path in (FOLDER.parent / folder).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not any(f'"{name}"' in text for name in CATALOGUE), path


def test_the_doctor_names_no_rule():
    text = (FOLDER.parent / "diagnose.py").read_text(encoding="utf-8")
    assert "rules." not in text and not any(one.check.__name__ in text for one in RULES)


def test_stages_have_the_one_before_and_can_not_be_changed():
    attention = stages(SingleHeadAttention(11, 7)).reach(Attention)
    assert isinstance(attention.rows.scores.structure, Structure) and attention.structure is attention.rows.structure
    with pytest.raises(AttributeError):
        attention.weights = None
    reached = stages(lambda x: x.cumsum(1))
    assert reached.reach(Attention) is None
    assert reached.reach(NoStructure).reason == "no product compares one token with another"
