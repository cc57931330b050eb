"""The book's colours: those of the pictures, and for the dark theme colours with the same contrasts."""

from pathlib import Path

from matplotlib import colormaps

from course_lib.pictures import PALETTE, in_the_dark


def weights() -> dict[str, str]:
    """Return the ends of the colour map of the heatmaps, which both themes share."""
    scale = colormaps["cividis"]
    return {f"weight-{round(100 * at)}": _rgb(scale(at)[:3]) for at in (0.0, 0.5, 1.0)}


def _rgb(parts: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(255 * part):02X}" for part in parts)


def write_palette(file: Path) -> None:
    """Write the colours of both themes as CSS variables."""
    light = "".join(f"  --{name}: {color};\n" for name, color in {**PALETTE, **weights()}.items())
    dark = "".join(f"  --{name}: {in_the_dark(color)};\n" for name, color in PALETTE.items())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f':root {{\n{light}}}\nhtml[data-theme="dark"] {{\n{dark}}}\n', encoding="utf-8")
