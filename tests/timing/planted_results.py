"""Results with planted numbers."""

from course_lib.timing import MachineLimits, Measurement, Table

LIMITS = MachineLimits("cpu", "float32", 100.0, 10.0, 8.0)
MACHINE = {
    "processor": "P",
    "cores": 4,
    "threads": 2,
    "memory_bytes": 8_000_000_000,
    "gpu": None,
    "gpu_memory_bytes": None,
    "torch": "2.13",
    "cuda": None,
    "python": "3.11",
    "system": "Linux",
    "date": "2026-11-21",
}


def table(name, rows, *, dtype="float32", direction="forward", device="cpu", **sizes):
    """Rows given as name=times, or as Measurement."""
    made = [row if isinstance(row, Measurement) else Measurement(row[0], tuple(row[1])) for row in rows]
    return Table(name, f"title of {name}", device, dtype, direction, sizes, made)
