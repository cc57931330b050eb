"""Format results as text tables, and the goals."""

from collections.abc import Sequence
from itertools import groupby

from course_lib.timing import Goal, MachineLimits, Measurement, Table

from .goals import where

HEADS = ("median ms", "half of the rounds", "x first", "peak MB", "x limit")


def format_machine(machine: dict[str, str | int | None], limits: Sequence[MachineLimits]) -> str:
    """Describe the machine and the limits of its devices and dtypes."""
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads used, "
        f"{_gigabytes(machine['memory_bytes'])}; PyTorch {machine['torch']}, Python {machine['python']}, "
        f"{machine['system']}, {machine['date']}"
    ]
    if machine["gpu"]:
        lines.append(f"{machine['gpu']}, {_gigabytes(machine['gpu_memory_bytes'])}, CUDA {machine['cuda']}")
    for each in limits:
        lines.append(
            f"{each.device}, {each.dtype}: {each.matmul_gflops:,.1f} GFLOP/s in a matrix product, "
            f"{each.read_gb_per_s:,.1f} GB/s read, {each.copy_gb_per_s:,.1f} GB/s copied"
        )
    return "\n".join(lines)


def format_tables(tables: Sequence[Table]) -> str:
    """Format tables below each other; those of a growth curve are joined into one."""
    blocks = []
    for (name, *_), same in groupby(tables, key=lambda each: (each.name, each.device, each.dtype, each.direction)):
        group = list(same)
        if len(group) > 1 and name.startswith("growth"):
            blocks.append(_format_growth(group))
        else:
            blocks += [
                _format_block(where(table), [(row.name, row) for row in table.rows], table.left_out) for table in group
            ]
    return "\n".join(blocks)


def format_goals(goals: Sequence[Goal]) -> str:
    """Format each goal in two lines: what was measured, the bound, whether it is met, and a note."""
    if not goals:
        return "\nNo goal can be judged by what was measured."
    lines = [f"\nGoals: {sum(goal.met for goal in goals)} of {len(goals)} met"]
    for title, same in groupby(goals, key=lambda goal: goal.goal):
        lines.append(f"\n{title}")
        for goal in same:
            bound = f"{'<=' if goal.sense == 'at most' else '>='} {goal.bound:.2f}"
            lines.append(f"  {'met   ' if goal.met else 'MISSED'} {goal.measured:8.2f} {bound:>9}  {goal.where}")
            missed = "" if goal.met else f"; missed by {abs(goal.measured / goal.bound - 1):.0%}"
            lines.append(f"  {'':26}  {goal.note}{missed}")
    return "\n".join(lines)


def _gigabytes(size: str | float | None) -> str:
    return f"{size / 1e9:.0f} GB" if isinstance(size, int | float) else "unknown memory"


def _format_block(title: str, rows: list[tuple[str, Measurement]], notes: list[str]) -> str:
    lines = ["", title]
    if rows:
        width = max(len(name) for name, _ in rows)
        lines.append(f"{'':<{width}}  {HEADS[0]:>10}  {HEADS[1]:>20}  {HEADS[2]:>8}  {HEADS[3]:>9}  {HEADS[4]:>7}")
        lines += [f"{name:<{width}}  {_cells(row)}" for name, row in rows]
    return "\n".join([*lines, *(f"  {note}" for note in dict.fromkeys(notes))])


def _cells(row: Measurement) -> str:
    lower, upper = row.quartiles_ms
    peak = "-" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.2f}"
    limit = "-" if row.times_limit is None else f"{row.times_limit:,.2f}"
    return f"{row.median_ms:10.3f}  {f'{lower:.3f} to {upper:.3f}':>20}  {row.ratio:8.3f}  {peak:>9}  {limit:>7}"


def _format_growth(tables: Sequence[Table]) -> str:
    first = tables[0]
    growing = next(name for name in first.sizes if len({table.sizes[name] for table in tables}) > 1)
    same = ", ".join(f"{name} {size}" for name, size in first.sizes.items() if name != growing)
    title = f"Growth with {growing}: {same}; {first.device}, {first.dtype}, {first.direction}"
    rows = [(f"{table.sizes[growing]:>5}  {row.name}", row) for table in tables for row in table.rows]
    return _format_block(title, rows, [note for table in tables for note in table.left_out])
