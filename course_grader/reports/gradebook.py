"""Write the marks of a class as tables: a gradebook that Canvas and Moodle import, and all details."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from course_grader.manifest import Release
from course_grader.marks import StudentResult

from .csv_table import Table, single_line, write_table
from .feedback import page_path
from .rendering import number
from .roster import POINTS_POSSIBLE, Roster, canvas_number, display_name, match_students, read_roster

CANVAS_HEADER = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")  # the order that its importer expects


def write_gradebook(
    results: Sequence[StudentResult], release: Release, to: Path, roster: Path | None = None
) -> list[str]:
    """Write grades.csv, for Canvas or Moodle, and exercises.csv, with all details.

    With a roster, the export of a gradebook, grades.csv has its rows in its order. Students who submitted nothing keep
    the cell that the roster has, or get an empty one: no grade, which is not 0.

    Returns:
        Sentences for the teacher: who submitted nothing, who is not in the roster, who cannot be distinguished.

    Raises:
        ValueError: The roster cannot be read, names nobody, or has the release's column twice.
    """
    if roster is None:
        grades, sentences = _without_roster(results, release)
    else:
        grades, sentences = _with_roster(results, release, read_roster(roster, release.name))
    to.mkdir(parents=True, exist_ok=True)
    write_table(to / "grades.csv", grades)
    write_table(to / "exercises.csv", _details(results, release))
    return sentences


def _without_roster(results: Sequence[StudentResult], release: Release) -> tuple[Table, list[str]]:
    table = [[*CANVAS_HEADER, release.name]]
    sentences = ["grades.csv names students as their submissions do: give --roster, Canvas's or Moodle's own export."]
    for result in results:
        name = display_name(result.student)
        if POINTS_POSSIBLE in name:
            student = single_line(result.student)
            sentences.append(f'"{student}" is not in grades.csv: Canvas reads no student from such a row.')
        else:
            cell = single_line(name)
            table.append([cell, canvas_number(result.student), "", cell, "", _total(result)])
    return table, sentences


def _with_roster(results: Sequence[StudentResult], release: Release, roster: Roster) -> tuple[Table, list[str]]:
    matched, sentences = match_students(results, roster)
    points_column = roster.points_column
    columns = roster.identifying_columns
    title = release.name if points_column is None else roster.header[points_column]
    table = [[*(roster.header[column] for column in columns), title]]
    possible = number(sum(exercise.points for exercise in release.exercises))
    if points_column is not None:
        in_canvas = {roster.rows[row][points_column].strip() for row in roster.about_points}
        same = re.escape(possible) + (r"0*" if "." in possible else r"(\.0*)?")
        sentences += [
            f"Canvas has {points or 'no'} points possible for {release.name}, and the release gives {possible}: change "
            "it in Canvas."
            for points in sorted(in_canvas)
            if not re.fullmatch(same, points.replace(",", "."))
        ]
    for index, row in enumerate(roster.rows):
        if not roster.keys[index] and not roster.from_canvas:
            continue  # Moodle would give the marks of a row without a student to the one above it
        if index in matched:
            cell = _total(matched[index])
        elif points_column is not None:
            cell = row[points_column]
        else:
            cell = possible if index in roster.about_points else ""
        table.append([*(row[column] for column in columns), cell])
    return table, sentences


def _total(result: StudentResult) -> str:
    """Return the points as a cell, which is empty until the teacher has decided: no grade, which is not 0."""
    return "" if result.needs_review else number(result.points)


def _details(results: Sequence[StudentResult], release: Release) -> Table:
    exercises = [exercise.name for exercise in release.exercises]
    table = [["student", *exercises, "total", "late", "handed_in", "to_look_at", "remarks", "feedback"]]
    for result in results:
        undecided = result.needs_review
        points = {mark.verdict.name: number(mark.points) for mark in result.marks if mark.verdict.name not in undecided}
        earned = [points.get(name, "") for name in exercises]
        total = [_total(result), "yes" if result.late else "no", single_line(result.submitted_at or "")]
        texts = [single_line(", ".join((*undecided, *result.flags))), single_line(" ".join(result.remarks))]
        table.append([single_line(result.student), *earned, *total, *texts, page_path(result.student)])
    return table
