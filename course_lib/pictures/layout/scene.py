"""A scene that shows where each element of a recorded run is after every reshape and transpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.coordinates import Legend
from course_lib.pictures.grid import arrow, card, column, flow, label, wrap
from course_lib.pictures.style import BOLD, HEADING, NOTE, STYLE
from course_lib.pictures.table import Box, Table, labels_of
from course_lib.wording import counted, first_of, listed

from .panel import Panel
from .path import EFFECTS, LayoutPath, LayoutState

MOST_SLOTS = 32  # a longer row of memory isn't drawn
NAMED = 4  # tensors that are named though not drawn; the others are counted
COUNTS = {
    "sample": "samples",
    "token": "tokens",
    "head": "heads",
    "column": "elements within a head",
    "width": "elements, head after head",
}
IN_TURN = "elements, the heads in turn"  # what a width counts whose heads are interleaved


@dataclass(frozen=True, eq=False)
class PathScene:
    """One path, with its tensors cut into tables."""

    path: LayoutPath
    legend: Legend
    name: str  # of the tensors that follow this path
    sources: Sequence[Panel]
    states: Sequence[Panel]

    def describe(self) -> str:
        journey = self._journey([*self.sources, *self.states])
        return "\n".join([f"{self.name}. {self._begin()}", *map(_step, self.states), journey])

    def draw(self, *, named: bool) -> Canvas:
        panels = column(
            [label(self.name if named else "", HEADING), _draw_panels(self.sources, self.states)], STYLE.near
        )
        return column([panels, *self._draw_memory()], STYLE.gap)

    def steps(self, before: int) -> Iterator[StepScene]:
        """Yield one scene per step, numbered from before + 1."""
        for number, (state, after) in enumerate(pairwise([self.sources[-1], *self.states]), start=1):
            sources = self.sources if number == 1 else [state]
            yield StepScene(before + number, sources, after, self._journey([*sources, after]))

    def _begin(self) -> str:
        first, count = self.path.sources[0], len(self.path.sources)
        begin = counted(count, "tensor") if count > 1 else first.title
        text = f"Begins with {begin} of shape {first.shape}, stride {first.stride}: {_axes(self.sources[0])}."
        text += f" Elements keep the numbers of {self.path.origin.sources[0].title}." if self.path.origin else ""
        return text + (f" The tokens are {', '.join(self.legend.words)}." if self.legend.words else "")

    def _journey(self, panels: Sequence[Panel]) -> str:
        element = self.legend.highlight
        stops = []
        for state in (panel.state for panel in panels):
            if indices := (state.elements == element).nonzero().tolist():
                stops.append(f"{indices[0]} of {state.title} (slot {int(state.slots[tuple(indices[0])])})")
        return f"Element {element} ({self.legend.highlighted_owner}) is at {', then at '.join(stops)}."

    def _draw_memory(self) -> Iterator[Canvas]:
        for text, slots in self.memories():
            yield column([flow([("memory", BOLD), (text, NOTE)]), slots.draw()], STYLE.tight)

    def memories(self) -> Iterator[tuple[str, Table]]:
        """Yield each memory of the path as a row of slots with their elements, and who reads it."""
        if len(self.path.sources) > 1 or len(self.legend.coordinates) > MOST_SLOTS:
            return
        memories: dict[int, list[LayoutState]] = {}
        for state in self.path.all_states:
            memories.setdefault(state.memory, []).append(state)
        for states in memories.values():
            readers = ", ".join(dict.fromkeys(state.title for state in states))
            slots = self._slots(states[0])
            yield f"{counted(len(slots.cells[0]), 'slot')}, read by {readers}", slots

    def _slots(self, state: LayoutState) -> Table:
        """Return a tensor's memory as a table of one row, with token labels below the elements."""
        element_at = dict(zip(state.slots.flatten().tolist(), state.elements.flatten().tolist(), strict=True))
        elements, legend = (
            [element_at.get(slot, -1) for slot in range(min(element_at), max(element_at) + 1)],
            self.legend,
        )
        cells = [("" if element < 0 else str(element), legend.color(element)) for element in elements]
        tokens = (legend.token_label(int(legend.coordinates.token[max(element, 0)])) for element in elements)
        outlined = [Box(0, elements.index(legend.highlight))] if legend.highlight in elements else []
        return Table([cells], below=labels_of(tokens), outlined=outlined)


@dataclass(frozen=True, eq=False)
class StepScene:
    """One step of a path."""

    number: int  # from 1
    before: Sequence[Panel]  # several where tensors are joined
    after: Panel
    journey: str  # path of the highlighted element
    title = ""

    @property
    def caption(self) -> str:
        before, after = self.before[0].state, self.after.state
        change = f"shape {before.shape} to {after.shape}, stride {before.stride} to {after.stride}"
        if len(self.before) > 1:
            change = f"{len(self.before)} tensors of shape {before.shape} to one of {after.shape}"
        return f"Step {self.number}: {after.code}: {after.effect}; {change}"

    def describe(self) -> str:
        return f"{_step(self.after)} {self.journey}"

    def draw(self) -> Canvas:
        return _draw_panels(self.before, [self.after], with_code=False)


@dataclass(frozen=True, eq=False)
class LayoutScene:
    """The effect of a run on the order of its elements."""

    paths: Sequence[PathScene]
    left_out: Sequence[str]  # names of the tensors that aren't drawn
    file: str  # the file with the code; "" in a notebook
    title: str

    @property
    def caption(self) -> str:
        """Say which elements moved, which did not, and whether the order was lost."""
        panels = [panel for path in self.paths for panel in path.states]
        views, copies = (
            list(dict.fromkeys(panel.state.op for panel in panels if panel.state.effect == EFFECTS[effect]))
            for effect in ("view", "copy")
        )
        sentences = []
        if views:
            sentences.append(f"{listed(views)} only change{'s' * (len(views) == 1)} how the same memory is read")
        if copies:
            sentences.append(f"{listed(copies)} cop{'ies' if len(copies) == 1 else 'y'} the elements to new memory")
        text = f"{'; '.join(sentences)}." if copies else f"No element moves: {sentences[0]}."
        scrambled = any(panel.scrambled for panel in panels)
        return text + (" ✗ The result is scrambled: no axis counts tokens any more." if scrambled else "")

    @property
    def not_drawn(self) -> str:
        """Name the tensors that aren't drawn, in a sentence."""
        names = first_of(self.left_out, NAMED, len(self.left_out))
        return f"Not drawn: {names}; choose with of=." if names else ""

    def describe(self) -> str:
        return "\n".join(filter(None, [*(path.describe() for path in self.paths), self.not_drawn]))

    @property
    def note(self) -> str:
        """Say how to read the drawing."""
        origin = self.paths[0].path.origin
        order = f"as in {origin.sources[0].title}" if origin else "in the order of the first tensor"
        of_file = f" of {self.file}" if self.file else ""
        return f"Drawn from a recorded run{of_file}. Cells are numbered {order}; follow the outlined one."

    def draw(self) -> Canvas:
        paths = [path.draw(named=len(self.paths) > 1) for path in self.paths]
        return card(self.title, [self.note], *paths, label(self.not_drawn, NOTE))

    def steps(self) -> list[StepScene]:
        """Return one scene per step, or none if there is only one step."""
        steps: list[StepScene] = []
        for path in self.paths:
            steps += path.steps(len(steps))
        return steps if len(steps) > 1 else []


def _draw_panels(before: Sequence[Panel], after: Sequence[Panel], *, with_code: bool = True) -> Canvas:
    first = [panel.draw(with_code=with_code) for panel in before]
    others = [(arrow(panel.state.op, panel.state.effect), panel.draw(with_code=with_code)) for panel in after]
    return wrap([*first, *others])


def _step(panel: Panel) -> str:
    state = panel.state
    text = f"Then {state.code}: {state.effect}. Now shape {state.shape}, stride {state.stride}: {_axes(panel)}."
    if panel.scrambled:
        axes = listed(axis for axis, role in enumerate(panel.roles) if role == "scattered")
        text += f" This is scrambled: tokens change along axes {axes}, so no axis counts tokens."
    return text


def _axes(panel: Panel) -> str:
    """Write what the axes count, without axes of size 1: "its axes count tokens; heads; elements within a head"."""
    counts = COUNTS if panel.heads_in_order else COUNTS | {"width": IN_TURN}
    axis_names = [counts.get(role, "a mixture") for role in panel.roles if role != "one"] or ["nothing"]
    return f"its ax{'es count' if len(axis_names) > 1 else 'is counts'} {'; '.join(axis_names)}"
