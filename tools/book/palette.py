"""The book's colours: those of the pictures, and for the dark theme colours with the same contrasts."""

from pathlib import Path

from course_lib.pictures import PALETTE, in_the_dark


def write_palette(file: Path) -> None:
    """Write the colours of both themes as CSS variables."""
    light = "".join(f"  --{name}: {color};\n" for name, color in PALETTE.items())
    dark = "".join(f"  --{name}: {in_the_dark(color)};\n" for name, color in PALETTE.items())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f':root {{\n{light}}}\nhtml[data-theme="dark"] {{\n{dark}}}\n', encoding="utf-8")
