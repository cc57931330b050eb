"""Where a code host shows a finding."""

from types import SimpleNamespace

from course_lib.command.results.locations import location_of


def finding(file, line):
    return SimpleNamespace(where=SimpleNamespace(file=str(file), line=line))


def test_a_finding_is_in_its_file_in_the_repository_and_else_in_the_target(tmp_path, monkeypatch):
    root, installed = tmp_path / "code", tmp_path / "site-packages" / "library.py"
    for file in (root / "models.py", root / "parts" / "heads.py", installed):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("pass\n", encoding="utf-8")
    monkeypatch.chdir(root)
    target = "models.py:Model"
    assert location_of(finding(root / "parts" / "heads.py", 3), target) == ("parts/heads.py", 3)
    assert location_of(finding(installed, 40), target) == ("models.py", 1)
    assert location_of(finding(f"{root / 'models.py'}[cell 2]", 3), target) == ("models.py", 1)
    assert location_of(None, target) == ("models.py", 1) and location_of(None, "package.module:Model") is None
