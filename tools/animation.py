"""Draw a moving figure's steps as one drawing that plays by itself, for pages on which no script runs."""

from collections.abc import Sequence
from html import escape

from course_lib.pictures import MONO, PALETTE, SANS, Picture
from course_lib.pictures.live import Figure

WIDE, HIGH, GAP, APART = 50, 24, 2, 16  # a cell; between cells; between tables
WIDTH, TOP, STAGE, EDGE = 760, 64, 164, 12
SECONDS, MOVING = 4, 0.3  # of a step; the share of it in which cells move
RESTING = 2  # the step that stands still where nothing may move
Place = tuple[float, float]


def animated(figure: Figure, *, caption: str) -> Picture:
    """Let the cells of a figure of tables move from step to step, each with its word and its head's colour."""
    steps, words, owners = (figure.data[name] for name in ("steps", "words", "owners"))
    places = [_places(step["tables"]) for step in steps]
    moves = [_keyframes(f"c{cell}", [_translate(*at[cell]) for at in places]) for cell in range(len(owners))]
    cells = [
        f'<g class="c c{cell}" transform="translate({x:g} {y:g})">'
        f'<rect class="h{head}" width="{WIDE}" height="{HIGH}" rx="4"/>'
        f'<text class="m s12" x="{WIDE / 2:g}" y="16">{escape(words[word])}</text></g>'
        for cell, (word, head) in enumerate(owners)
        for x, y in [places[RESTING][cell]]
    ]
    tabs, shown = _tabs([step["name"].replace("`", "") for step in steps])
    wrong = sum(row.get("wrong", False) for table in steps[-1]["tables"] for row in table["rows"])
    rows = sum(len(table["rows"]) for table in steps[-1]["tables"])
    below = TOP + STAGE + 26
    note = f"Memory: one row of {len(owners)} numbers, which no step moves"
    memory = [
        f'<rect class="h{owners[cell][1]}" x="{x:g}" y="{below + 12}" width="28" height="12" rx="2"/>'
        for cell, x in zip(figure.data["memory"], range(EDGE + 1, WIDTH - EDGE, 31), strict=False)
    ]
    parts = [
        *tabs,
        *(_headings(steps[RESTING]["tables"], places[RESTING])),
        f'<text class="x m s14 b" x="{WIDTH / 2:g}" y="{TOP + 85}">✗ {wrong} of {rows}</text>',
        f'<text class="x m s14 b" x="{WIDTH / 2:g}" y="{TOP + 105}">rows wrong</text>',
        *cells,
        f'<text class="q s12" x="{EDGE}" y="{below + 4}">{note}</text>',
        *memory,
    ]
    last = [0.0] * (len(steps) - 1) + [1.0]
    heads = [0.0] * RESTING + [1.0] * (len(steps) - RESTING)
    motion = [*moves, *shown, _keyframes("x", _opacities(last)), _keyframes("n", _opacities(heads))]
    height = below + 24 + EDGE
    colors = "".join(f".h{head}{{fill:{PALETTE[f'head-{head}']}}}" for head in sorted({head for _, head in owners}))
    style = (
        f"text{{font-family:{SANS};fill:{PALETTE['ink']}}}.m{{text-anchor:middle}}.b{{font-weight:600}}"
        f".s12{{font-size:12px}}.s14{{font-size:14px}}.t{{font-family:{MONO}}}"
        f".x{{opacity:0;fill:{PALETTE['wrong']}}}.q{{fill:{PALETTE['quiet']}}}.w{{fill:{PALETTE['paper']}}}"
        f".k{{fill:{PALETTE['plain']};opacity:0}}.k{RESTING}{{opacity:1}}{colors}"
        f"@media(prefers-reduced-motion:no-preference){{.c,.k,.x,.n{{animation:{SECONDS * len(steps)}s infinite}}"
        f"{''.join(motion)}}}"
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
        f'<style>{style}</style><rect class="w" width="{WIDTH}" height="{height}" rx="8"/>{"".join(parts)}</svg>'
    )
    says = "\n".join(f"{step['name']}: {step['says']}" for step in steps).replace("`", "").replace("*", "")
    return Picture(svg=svg, description=f"{figure.title}\n{says}", caption=caption)


def _places(tables: Sequence[dict]) -> dict[int, Place]:
    """Where each cell stands: the tables side by side, in the middle of the stage."""
    widths = [max(len(row["cells"]) for row in table["rows"]) * (WIDE + GAP) - GAP for table in tables]
    apart = APART if len(tables) > 2 else 150
    left = (WIDTH - sum(widths) - apart * (len(tables) - 1)) / 2
    found: dict[int, Place] = {}
    for table, width in zip(tables, widths, strict=True):
        top = TOP + (STAGE - len(table["rows"]) * (HIGH + GAP)) / 2
        for row, line in enumerate(table["rows"]):
            for column, cell in enumerate(line["cells"]):
                found[cell] = left + column * (WIDE + GAP), top + row * (HIGH + GAP)
        left += width + apart
    return found


def _headings(tables: Sequence[dict], places: dict[int, Place]) -> list[str]:
    """The title of each table, above its first row."""
    found = []
    for table in tables:
        cells = table["rows"][0]["cells"]
        middle = (places[cells[0]][0] + places[cells[-1]][0] + WIDE) / 2
        y = places[cells[0]][1] - 7
        found.append(f'<text class="n m s14 b" x="{middle:g}" y="{y:g}">{escape(table["title"])}</text>')
    return found


def _tabs(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names of the steps in a row, and the motion of what lies behind the present one."""
    wide = (WIDTH - 2 * EDGE) / len(names)
    parts: list[str] = []
    motion: list[str] = []
    for index, name in enumerate(names):
        x = EDGE + index * wide
        parts += [
            f'<rect class="k k{index}" x="{x:g}" y="8" width="{wide - 6:g}" height="30" rx="6"/>',
            f'<text class="m s14 t" x="{x + wide / 2 - 3:g}" y="28">{escape(name)}</text>',
        ]
        motion.append(_keyframes(f"k{index}", _opacities([float(one == index) for one in range(len(names))])))
    return parts, motion


def _translate(x: float, y: float) -> str:
    return f"transform:translate({x:g}px,{y:g}px)"


def _opacities(values: Sequence[float]) -> list[str]:
    return [f"opacity:{value:g}" for value in values]


def _keyframes(name: str, states: Sequence[str]) -> str:
    """The motion of a class: each state is reached after a share of its step, and held to the end of it."""
    share, frames = 100 / len(states), ""
    for index, state in enumerate(states):
        reached, left = share * (index + MOVING * (index > 0)), share * (index + 1) - (index == len(states) - 1)
        frames += f"{reached:g}%,{left:g}%{{{state}}}"
    return f".{name}{{animation-name:{name}}}@keyframes {name}{{{frames}100%{{{states[0]}}}}}"
