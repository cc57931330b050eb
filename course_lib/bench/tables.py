"""Results as tables that a person can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from .results import Goal, Limits, Row, Table

HEADS = ("median ms", "half of the rounds", "x first", "peak MB", "x limit")


def format_machine(machine: dict[str, str | int | None], limits: Sequence[Limits]) -> str:
    """What was measured on, and its limits."""
    gigabytes = f"{machine['memory_bytes'] / 1e9:.0f} GB" if machine["memory_bytes"] else "unknown memory"
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads used, {gigabytes}; PyTorch "
        f"{machine['torch']}, Python {machine['python']}, {machine['system']}, {machine['date']}"
    ]
    if machine["gpu"]:
        lines.append(f"{machine['gpu']}, {machine['gpu_memory_bytes'] / 1e9:.0f} GB, CUDA {machine['cuda']}")
    for each in limits:
        lines.append(
            f"{each.device}, {each.dtype}: {each.matmul_gflops:,.1f} GFLOP/s in a matrix product, "
            f"{each.read_gb_per_s:,.1f} GB/s read, {each.copy_gb_per_s:,.1f} GB/s copied"
        )
    return "\n".join(lines)


def format_tables(tables: Sequence[Table]) -> str:
    """Tables, one under the other; those of a growth curve are joined into one."""
    blocks = []
    for _, same in groupby(tables, key=lambda each: (each.name, each.device, each.dtype, each.direction)):
        group = list(same)
        if len(group) > 1 and group[0].name.startswith("growth"):
            blocks.append(_format_block(_joined_title(group), list(_joined_rows(group)), _notes(group)))
        else:
            blocks += [
                _format_block(_title(each), [(row.name, row) for row in each.rows], _notes([each])) for each in group
            ]
    return "\n".join(blocks)


def format_goals(goals: Sequence[Goal]) -> str:
    """One goal a line, the worst news not hidden: what was measured, the bound, the verdict."""
    if not goals:
        return "\nNo goal can be judged by what was measured."
    lines = [f"\nGoals: {sum(goal.met for goal in goals)} of {len(goals)} met"]
    for title, same in groupby(goals, key=lambda goal: goal.goal):
        lines.append(f"\n{title}")
        for goal in same:
            bound = f"{'<=' if goal.sense == 'at most' else '>='} {goal.bound:.2f}"
            lines.append(f"  {'met   ' if goal.met else 'MISSED'} {goal.measured:8.2f} {bound:>9}  {goal.where}")
            lines.append(f"  {'':26}  {goal.note}{'' if goal.met else '; ' + missed_by(goal)}")
    return "\n".join(lines)


def missed_by(goal: Goal) -> str:
    """How far from its bound a goal is, in percent of the bound."""
    return f"missed by {abs(goal.measured / goal.bound - 1):.0%}"


def _format_block(title: str, rows: list[tuple[str, Row]], notes: list[str]) -> str:
    lines = ["", title]
    if rows:
        width = max(len(name) for name, _ in rows)
        lines.append(f"{'':<{width}}  {HEADS[0]:>10}  {HEADS[1]:>20}  {HEADS[2]:>8}  {HEADS[3]:>9}  {HEADS[4]:>7}")
        lines += [f"{name:<{width}}  {_cells(row)}" for name, row in rows]
    return "\n".join([*lines, *notes])


def _cells(row: Row) -> str:
    lower, upper = row.quartiles_ms
    peak = "-" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.2f}"
    limit = "-" if row.times_limit is None else f"{row.times_limit:,.2f}"
    return f"{row.median_ms:10.3f}  {f'{lower:.3f} to {upper:.3f}':>20}  {row.ratio:8.3f}  {peak:>9}  {limit:>7}"


def _title(table: Table) -> str:
    return f"{table.title}; {table.device}, {table.dtype}, {table.direction}"


def _notes(tables: Sequence[Table]) -> list[str]:
    return [f"  {note}" for note in dict.fromkeys(note for table in tables for note in table.left_out)]


def _joined_title(tables: Sequence[Table]) -> str:
    first = tables[0]
    same = ", ".join(f"{name} {size}" for name, size in first.sizes.items() if name != _growing(tables))
    return f"Growth with {_growing(tables)}: {same}; {first.device}, {first.dtype}, {first.direction}"


def _joined_rows(tables: Sequence[Table]) -> Iterator[tuple[str, Row]]:
    for table in tables:
        for row in table.rows:
            yield f"{table.sizes[_growing(tables)]:>5}  {row.name}", row


def _growing(tables: Sequence[Table]) -> str:
    return next(name for name in tables[0].sizes if len({table.sizes[name] for table in tables}) > 1)
