"""Train the storytellers that come with the course, and measure what each mistake does to one."""

from .store import measure_consequences, train_forms, train_sharing

__all__ = ["measure_consequences", "train_forms", "train_sharing"]
