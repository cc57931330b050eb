"""Draw the pictures in the folder figures again, each from a real run, and store the tables of the book's pages anew.

Use it after you have changed how a picture is drawn. It prints which files changed.
"""

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", type=Path, default=Path("figures"), help="folder to write to (%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Draw every figure, print which file changed, and return 0."""
    from tools.book import refresh
    from tools.figures import FIGURES

    args.to.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        path = args.to / f"{name}.svg"
        before = path.read_text(encoding="utf-8") if path.exists() else None
        picture = draw()
        picture.save(path)
        print(f"{path}: {'unchanged' if picture.svg == before else 'written'}")
    for page in refresh(ROOT):
        print(f"{page.relative_to(ROOT)}: written")
    return 0
