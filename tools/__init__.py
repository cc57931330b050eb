"""The tools that make the course: checks of its notebooks, its book, its figures, its speed. Never installed."""
