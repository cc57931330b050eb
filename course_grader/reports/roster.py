"""Read a class's roster, as Canvas or Moodle exports it, and find which row belongs to which student."""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_grader.manifest import Sheet
from course_grader.marks import StudentResult
from course_lib.wording import first_of

from .csv_table import read_table, safe_cell, single_line

# The headers of what names a student: Canvas's, and Moodle's in English, German, French, Spanish, Italian, Dutch and
# Portuguese.
PERSONS = {"student", "full name", "name", "vollständiger name", "nom complet", "nombre completo", "nome completo"}
PERSONS |= {"volledige naam"}
FULL_NAMES = PERSONS | {"id", "sis user id", "sis login id", "integration id"}
FULL_NAMES |= {"email address", "email", "e-mail-adresse", "adresse de courriel", "dirección de correo"}
FULL_NAMES |= {"indirizzo email", "e-mailadres", "endereço de e-mail", "endereço de email"}
FULL_NAMES |= {"username", "anmeldename", "nom d'utilisateur", "nombre de usuario", "gebruikersnaam"}
FULL_NAMES |= {"nome de usuário", "nome de utilizador"}
FULL_NAMES |= {"id number", "identifier", "id-nummer", "numéro d'identification", "número de id", "numero id"}
FULL_NAMES |= {"codice identificativo", "número de identificação"}
# These two name a student only together.
FIRST_NAMES = {"first name", "firstname", "vorname", "first_name", "prénom", "nombre", "nome", "voornaam"}
LAST_NAMES = {"last name", "lastname", "nachname", "nom", "nom de famille", "apellido(s)", "apellidos", "cognome"}
LAST_NAMES |= {"surname", "achternaam", "last_name", "apelido", "apelido(s)", "sobrenome"}
NAMES = FULL_NAMES | FIRST_NAMES | LAST_NAMES
SHARED = {"section", "root account"}  # Canvas requires these columns in an import; they identify nobody
POINTS_POSSIBLE = "Points Possible"  # marks the row of Canvas's export that is about the assignments
BY_HAND = "enter the points by hand"
MAX_NAMES = 20  # names in one sentence
TEST_STUDENT = {"student, test", "test student"}  # Canvas adds one to each class
MOST_SHEETS = 10**9  # two students of three thousand draw one number once in two hundred classes
_MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_file_?", re.DOTALL)
_NOT_IN_FILES = re.compile(r"""[&<>"`|':\\/]""")  # what Moodle takes out of the names of files and folders
_CANVAS = re.compile(r"\w[\w-]*?(?:_late)?_(?P<number>\d{3,})(?:_\d{3,}_.*)?", re.DOTALL | re.IGNORECASE)


def identities(student: str) -> tuple[str, ...]:
    """All that the name of a submission may mean in a roster, with the most specific name first.

    Moodle names a folder "Jane Doe_1234567_assignsubmission_file". Canvas begins a file with "doejane_12345_67890_", of
    which `find_submissions` keeps "doejane_12345"; the number is the student's. The run-together name is left out: it
    is in no roster, and may look like somebody else's login.

    Example:
        >>> identities("Jane Doe_1234567_assignsubmission_file")
        ('Participant 1234567', 'Jane Doe', 'Jane Doe_1234567_assignsubmission_file')
    """
    if moodle := _MOODLE.fullmatch(student):
        names = [f"Participant {moodle['number']}", moodle["name"], student]
    elif number := canvas_number(student):
        names = [student, number]
    else:
        names = [student, student.replace("_", " ")]
    return tuple(dict.fromkeys(name for name in names if name != "Participant"))  # the name where names are hidden


def display_name(student: str) -> str:
    """Return a student's name without a roster: the name alone from a Moodle folder's name."""
    return identities(student)[-2] if _MOODLE.fullmatch(student) else student


def canvas_number(student: str) -> str:
    """Return the number that Canvas gave the student, or an empty string."""
    canvas = _CANVAS.fullmatch(student)
    return canvas["number"] if canvas else ""


@dataclass(frozen=True)
class Roster:
    """The rows of a gradebook's export.

    Attributes:
        header: The names of the columns.
        rows: As wide as the header.
        from_canvas: Whether Canvas exported it.
        points_column: The index of the release's own column, or None.
        about_points: The indices of the rows that hold the points possible.
        keys: Per row, all names of the student, in a form that can be compared; empty if the row is no student's.
    """

    header: list[str]
    rows: list[list[str]]
    from_canvas: bool
    points_column: int | None
    about_points: set[int]
    keys: list[set[str]]

    @property
    def identifying_columns(self) -> list[int]:
        """Return the indices of the columns that name a student, and of those that Canvas requires in an import."""
        return _columns(self.header, NAMES | SHARED)

    def person(self, row: int) -> str:
        """Return the name of a row's student as people say it; "" if the roster holds numbers and addresses only."""
        cells = [self.rows[row][column] for column in _columns(self.header, PERSONS)]
        parts = [self.rows[row][column] for part in (FIRST_NAMES, LAST_NAMES) for column in _columns(self.header, part)]
        return single_line(" ".join(parts) if len(parts) > 1 else "".join(cells[:1]))

    def label(self, row: int) -> str:
        """Return the name of a row's student for a sentence."""
        return single_line(" ".join(self.rows[row][column] for column in _columns(self.header, NAMES)[:2]))


def read_roster(path: Path, release: str) -> Roster:
    """Read a roster, as for `write_gradebook`; a column may be the release's own.

    Raises:
        ValueError: The file cannot be read, names nobody, or has the release's column twice.
    """
    try:
        header, *rows = read_table(path)
    except ValueError as error:
        raise ValueError(f"roster is {path}, which {error}: give Canvas's or Moodle's own export.") from None
    header = [name.strip() for name in header]
    from_canvas = "Student" in header or "LastName" in header
    # Canvas adds a number, as in "week1 (777)"; Moodle says more, as in "Assignment: week1 (Real)".
    form = r"{}( \(\d+\))?" if from_canvas else r"([^:]+: ?)?{}( \([^()]*\))?"
    matches = [index for index, name in enumerate(header) if re.fullmatch(form.format(re.escape(release)), name)]
    if len(matches) > 1:
        columns = ", ".join(header[index] for index in matches)
        raise ValueError(f"roster is {path}, which has {len(matches)} columns of {release} ({columns}): keep one.")
    about_points = {index for index, row in enumerate(rows) if from_canvas and POINTS_POSSIBLE in row[0]}
    keys = [set() if index in about_points else _row_keys(header, row) for index, row in enumerate(rows)]
    if not any(keys):
        raise ValueError(
            f"roster is {path}, and no column of it names a student: its header is {','.join(header)[:200]}. Give "
            "Canvas's or Moodle's own export, or name the columns Student, ID, Email address, Username, ID number, or "
            "First name and Last name."
        )
    return Roster(header, rows, from_canvas, matches[0] if matches else None, about_points, keys)


def shown_name(student: str) -> str:
    """Return a student's name as it stands in exercises.csv."""
    return safe_cell(single_line(student))


def student_named(name: str, students: Sequence[str], table: Path) -> str:
    """Find the one student whom a row means: by the name in exercises.csv, or by what the name may mean; or raise."""
    exact = [student for student in students if shown_name(student) == name]
    close = exact or [student for student in students if _key(name) in map(_key, identities(student))]
    if len(close) != 1:
        raise ValueError(
            f"{table} has a row for {name!r}, but {len(close) or 'nobody'} of that name handed in anything: take the "
            "name from exercises.csv, or remove the row. For a mark without a hand-in, such as an oral one, make an "
            "empty folder of that name among those handed in."
        )
    return close[0]


def sheets_of(roster: Roster, secret: bytes) -> tuple[Sheet, ...]:
    """Return the own sheet of each student on a roster; the same secret gives the same student the same number.

    Raises:
        ValueError: Two rows name the same student, or drew the same number.
    """
    sheets = []
    for row, keys in enumerate(roster.keys):
        if keys and not keys & TEST_STUDENT:
            drawn = hmac.digest(secret, "\0".join(sorted(keys)).encode(), hashlib.sha256)
            name = roster.person(row) or roster.label(row)
            sheets.append(Sheet(name, int.from_bytes(drawn[:8], "big") % MOST_SHEETS, sorted(keys)))
    of_number = {sheet.number: sheet for sheet in sheets}
    if twice := [sheet for sheet in sheets if of_number[sheet.number] is not sheet]:
        raise ValueError(
            f"roster has two rows that would get the same sheet, {twice[0].student!r} and "
            f"{of_number[twice[0].number].student!r}: keep one row for each student."
        )
    return tuple(sheets)


def sheet_for(student: str, sheets: Sequence[Sheet]) -> Sheet | None:
    """Return the sheet of the one student whom the name of a submission means; None if it means nobody, or several."""
    for name in map(_key, identities(student)):
        if found := [sheet for sheet in sheets if name in _as_filed(sheet.names) or name == sheet.folder]:
            return found[0] if len(found) == 1 else None
    return None


def match_students(results: Sequence[StudentResult], roster: Roster) -> tuple[dict[int, StudentResult], list[str]]:
    """Map the index of each row to its student's result; add sentences about all other students."""
    rows_of: dict[str, list[int]] = defaultdict(list)
    for index, keys in enumerate(roster.keys):
        for key in _as_filed(keys):
            rows_of[key].append(index)
    candidates = [
        next((rows_of[key] for key in map(_key, identities(result.student)) if key in rows_of), [])
        for result in results
    ]
    claims = Counter(index for rows in candidates for index in rows)
    matched, strangers, sentences = {}, [], []
    for result, rows in zip(results, candidates, strict=True):
        name = single_line(result.student)
        if not rows:
            strangers.append(name)
        elif len(rows) > 1:
            sentences.append(f'{len(rows)} rows of the roster fit "{name}": {BY_HAND}.')
        elif claims[rows[0]] > 1:
            sentences.append(f'"{name}" is one of several that fit {roster.label(rows[0])} in the roster: {BY_HAND}.')
        else:
            matched[rows[0]] = result
    if strangers:
        sentences.append(f"Not in the roster, so not in grades.csv: {first_of(strangers, MAX_NAMES, len(strangers))}.")
    if missing := [roster.label(index) for index, keys in enumerate(roster.keys) if keys and index not in claims]:
        names = first_of(missing, MAX_NAMES, len(missing))
        kept = "keep the cell that they have" if roster.points_column is not None else "get an empty cell"
        sentences.append(f"Handed in nothing, and {kept}: {names}.")
    return matched, sentences


def shown_names(results: Sequence[StudentResult], roster: Roster | None) -> dict[str, str]:
    """Map each student to the name for pages: the roster's, or what the submission's name says; never two alike."""
    matched = match_students(results, roster)[0] if roster else {}
    names = {result.student: display_name(result.student) for result in results}
    names |= {result.student: roster.person(row) or names[result.student] for row, result in matched.items() if roster}
    alike = Counter(names.values())
    return {student: name if alike[name] == 1 else student for student, name in names.items()}


def _columns(header: Sequence[str], wanted: set[str]) -> list[int]:
    return [index for index, name in enumerate(header) if _key(name) in wanted]


def _row_keys(header: Sequence[str], row: Sequence[str]) -> set[str]:
    names = [row[column] for column in _columns(header, FULL_NAMES)]
    names += [" ".join(reversed(name.split(", "))) for name in names if name.count(", ") == 1]  # Canvas: Doe, Jane
    first, last = (" ".join(row[column] for column in _columns(header, part)) for part in (FIRST_NAMES, LAST_NAMES))
    if first.strip() and last.strip():
        names += [f"{first} {last}", f"{last} {first}", f"{last}, {first}"]
    return {_key(name) for name in names} - {""}


def _as_filed(keys: Iterable[str]) -> set[str]:
    """Add to the names of a student what Moodle makes of them in the name of a folder: O'Malley becomes OMalley."""
    return {*keys, *(_key(_NOT_IN_FILES.sub("", key)) for key in keys)} - {""}


def _key(name: str) -> str:
    """Normalise a name's case, whitespace, accents and apostrophes, in which two spellings of it may differ."""
    words = unicodedata.normalize("NFC", name).replace("’", "'").casefold().split()
    return unicodedata.normalize("NFC", " ".join(words))
