"""How an entry is read: one that is not as it should be is refused, with its file and the key."""

import re
import shutil

import pytest

from course_lib.mistakes import CATALOGUE, FOLDER
from course_lib.mistakes.catalogue import read_catalogue, read_mistake

NAME = "no-softmax"
ENTRY = (FOLDER / NAME / "mistake.toml").read_text(encoding="utf-8")
NEEDED = ("title", "explanation", "shows", "seen", "hint", "notices", "family", "lesson", "step", "symptom")


@pytest.fixture
def file(tmp_path):
    (tmp_path / NAME).mkdir()
    return tmp_path / NAME / "mistake.toml"


def refusal(file, old, new):
    """What is said, after the file's name, of the entry in which one text is replaced."""
    assert old in ENTRY
    file.write_text(ENTRY.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError) as raised:
        read_mistake(file)
    assert str(raised.value).startswith(str(file))
    return str(raised.value).removeprefix(str(file))


def test_an_entry_is_read_from_its_folder(file):
    file.write_text(ENTRY, encoding="utf-8")
    assert read_mistake(file) == CATALOGUE[NAME]


@pytest.mark.parametrize("key", NEEDED)
def test_a_key_that_is_missing_is_named(file, key):
    assert refusal(file, f"{key} = ", f"other_{key} = ") == f": `{key}` is missing: add it."


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("section = ", "sektion = ", ": `sektion` is no key that is read here: correct its name or take it out."),
        ('lesson = "01"', "lesson = 1", ": `lesson` must be a text, got 1."),
        ('lesson = "01"', 'lesson = " "', ": `lesson` must be a text, got ' '."),
        (
            "notices = [",
            "notices = [1,",
            ": `notices` must be a list of texts, got [1, ",
        ),
        ('step = "SOFTMAX"', 'step = "SOFTMAXES"', ": `step` must be one of INPUT, PROJECTION, HEADS"),
        ('symptom = "NUMBERS"', "symptom = []", ": `symptom` must be one of BEHAVIOUR, NUMBERS"),
        ('family = "SCORES"', 'family = "scores"', ": `family` must be one of MASKS, SCORES"),
        ('["FILL", ', '["FIL", ', ", [[effects]]: `of` must hold ids or some of INPUT, PROJECTION"),
        ("of = ", "fo = ", ", [[effects]]: `of` is missing: add it."),
        ("because = ", "why = ", ", [[effects]]: `because` is missing: add it."),
        ("case = ", "cases = ", ", [[exceptions]]: `case` is missing: add it."),
        ("said = ", "says = ", ", [[exceptions]]: `says` is no key that is read here"),
        ("[[effects]]", "[effects]", ": `effects` must be tables [[effects]], got {"),
        ("title = ", "title ", " is no TOML: Expected '=' after a key in a key/value pair (at line 1, column 7)."),
    ],
)
def test_what_can_not_be_read_is_named(file, old, new, said):
    assert refusal(file, old, new).startswith(said)


@pytest.mark.parametrize("effect", ["no-such-mistake", NAME])
def test_an_effect_is_another_mistake(tmp_path, effect):
    folder = tmp_path / "mistakes"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / NAME / "mistake.toml").write_text(ENTRY.replace('"batch-mixed"', f'"{effect}"', 1), encoding="utf-8")
    words = f"{folder / NAME / 'mistake.toml'}, [[effects]]: `of` must hold ids of other mistakes, got {effect!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        read_catalogue(folder)
