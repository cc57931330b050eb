"""Each part that a module builds must be used."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from torch import nn

from course_lib.calling import code_of
from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import base_that_builds, locate_attribute, unmentioned_parts
from course_lib.diagnosis.measure import Run, role_of
from course_lib.diagnosis.measure.dependence import ROUTING
from course_lib.diagnosis.registry import Of, rule
from course_lib.tracing import SourceLine, line_at, statement_of

NUMBER = re.compile(r"\d+")
GATE = re.compile(r"(^|_)gat(e|ing)(_|$)", re.I)
MAX_PARTS = 4  # such as those of queries, keys, values and a gate
OF_NO_ROLE = re.compile("norm|bias", re.I)  # parts that may be named after a role and are no projection


@rule(of=Of.BOTH)
def check_built(run: Run) -> Iterator[Finding | str]:
    """Whether each part that is built is used."""
    for name, owner, attribute in unmentioned_parts(run):
        inside = [one for one in run.subject.parameters if one == name or one.startswith(f"{name}.")]
        projects = not inside or any(run.subject.parameters[one].dim() > 1 for one in inside)
        if role_of(attribute) and not OF_NO_ROLE.search(attribute) and projects:
            continue  # the rules about projections know whether its role is played by another one
        part = owner._modules.get(attribute)
        unused = not any(run.parameter_reads.get(one) for one in inside) if inside else _is_idle(run, owner, attribute)
        if not unused:
            continue
        base = base_that_builds(run, name)
        if base is not None:
            yield f"`{name}` is built by `{base}` and not used: it may be meant for other classes that derive from that"
            continue
        evidence, where = f"`{name}` is built and no line uses it", locate_attribute(run.subject, attribute)
        twin, lines = _twin(run, owner, attribute)
        if not twin and isinstance(own := owner._parameters.get(attribute), nn.Parameter) and own.dim() < 2:
            continue  # a bias, which may be kept for another module
        if twin:
            evidence = f"{evidence}, while {len(lines)} lines use `{twin}`"
            where = _line_of_turn(owner, attribute, twin, lines)
        mistake = "gate-unused" if GATE.search(attribute) and projects else "dead-parameter"
        mistake = "no-softmax" if isinstance(part, nn.Softmax) else mistake
        yield Finding.named(mistake, evidence, where)
        return


def _is_idle(run: Run, owner: nn.Module, attribute: str) -> bool:
    """Return whether a part without weights was not called, and nothing stands in for it.

    For an activation that may be an operation of its name, as fused attention has a softmax of its own, or the same
    activation in another part, which a run may not reach. For a norm after a role nothing can, if the one after another
    role was called.
    """
    part, called = owner._modules.get(attribute), {call.module for call in run.trace.calls}
    if part is None or part in called:
        return False
    if "norm" in attribute.lower() and role_of(attribute):
        twins = (one for name, one in owner._modules.items() if role_of(name) not in (None, role_of(attribute)))
        return any(type(one) is type(part) and one in called for one in twins)
    again = any(type(one) is type(part) and one is not part for one in owner.modules())
    if again or type(part).__module__ != "torch.nn.modules.activation":
        return False
    applied = {operation.name.replace("_", "").removeprefix("safe") for operation in run.trace.operations}
    return type(part).__name__.lower() not in applied


def _twin(run: Run, owner: nn.Module, attribute: str) -> tuple[str, list[SourceLine]]:
    """Return the part like an unused one that several lines of its module use, and these lines; "" without one."""
    for name, part in {**owner._modules, **owner._parameters}.items():
        if name != attribute and part is not None and _kind(part) == _kind(getattr(owner, attribute)):
            lines = _lines_that_read(run, owner, part)
            if len(lines) > 1:
                return name, lines
    return "", []


def _kind(part: nn.Module | nn.Parameter) -> tuple:
    if isinstance(part, nn.Module):
        return type(part), *((name, one.shape) for name, one in part.named_parameters())
    return (part.shape,)


def _line_of_turn(owner: nn.Module, idle: str, twin: str, lines: list[SourceLine]) -> SourceLine | None:
    """Return which of the lines that use the twin of an idle part should use that: the first if it is built before."""
    built = [*owner._parameters, *owner._modules]
    return lines[0 if built.index(idle) < built.index(twin) else -1] if lines else None


def _lines_that_read(run: Run, owner: nn.Module, part: nn.Module | nn.Parameter) -> list[SourceLine]:
    """Return the lines of a module's methods that read the parameters of a part, in order."""
    own = set(map(id, part.parameters() if isinstance(part, nn.Module) else [part]))
    names = [name for name, one in run.subject.parameters.items() if id(one) in own]
    methods = {code_of(one) for cls in type(owner).__mro__ for one in vars(cls).values()}
    frames = (next((frame for frame in one.frames if frame[0] in methods), None) for one in run.readers_of(*names))
    found = (line_at(statement_of(*frame)) for frame in frames if frame is not None)
    return list(dict.fromkeys(line for line in found if line is not None))


@rule(of=Of.BOTH)
def check_parts_of_parameters(run: Run) -> Iterator[Finding]:
    """Whether each part of a parameter is read."""
    for name, values in run.parameter_reads.items():
        shape = run.subject.parameters[name].shape
        if not shape or not 1 < shape[0] <= MAX_PARTS:
            continue
        read = {value.number for value in values}
        readers = [one for one in run.trace.operations if not read.isdisjoint(one.input_indices)]
        if not all(one.name == "select" and one.args[1] == 0 for one in readers):
            continue
        lines: dict[int, list[SourceLine]] = {}
        for one in readers:
            own = lines.setdefault(one.args[2] % shape[0], [])
            own += [one.where] if one.where and one.where not in own else []
        idle = next((part for part in range(shape[0]) if part not in lines), None)
        again = next((part for part in lines if len(lines[part]) > 1), None)
        if idle is not None and again is not None:
            evidence = f"`{name}[{idle}]` is never read, and {len(lines[again])} lines read `{name}[{again}]`"
            yield Finding.named("dead-parameter", evidence, lines[again][-1 if idle > again else 0])
            return


@rule(of=Of.BOTH)
def check_norms_in_turn(run: Run) -> Iterator[Finding]:
    """Whether each norm of a block has its turn."""
    read = {id(run.subject.parameters[name]) for name in run.parameter_reads}
    for path, owner in run.subject.modules.items():
        norms = {name: part for name, part in owner._modules.items() if part is not None and _is_norm(name, part)}
        for name, idle in norms.items():
            whole = f"{path}.{name}" if path else name
            if any(id(one) in read for one in idle.parameters()):
                continue
            twins = (one for one in norms if one != name and NUMBER.sub("", one) == NUMBER.sub("", name))
            alike = (one for one in twins if _kind(norms[one]) == _kind(idle))
            again = next((one for one in alike if _is_used_in_turn(run, norms[one])), None)
            if again is not None:
                lines = _lines_that_read(run, owner, norms[again])
                evidence = f"`{whole}` is not used, while `{again}` is used for what comes from it, too"
                yield Finding.named("dead-parameter", evidence, _line_of_turn(owner, name, again, lines))
                return


def _is_norm(name: str, part: nn.Module) -> bool:
    called = re.search(r"norm|(^|_)ln(_|\d|$)", name, re.I) or "norm" in type(part).__name__.lower()
    return bool(called and NUMBER.search(name)) and any(True for _ in part.parameters())


def _is_used_in_turn(run: Run, norm: nn.Module) -> bool:
    """Return whether a norm is called several times in one call of its module, each time on what came from the last."""
    calls = [call for call in run.trace.calls if call.module is norm]
    for first, second in pairwise(calls):
        after = run.trace.descendants(set(range(first.first, first.last)))
        given = [one for value in second.inputs.values() for one in run.trace.writers_of(value, second.first)]
        if first.outer is second.outer and not after.isdisjoint(given):
            return True
    return False


@rule(of=Of.BOTH)
def check_lists(run: Run) -> Iterator[Finding]:
    """Whether each module of a list has its turn."""
    if not ROUTING.isdisjoint(operation.name for operation in run.trace.operations):
        return  # a router chooses among them
    calls = Counter(call.module for call in run.trace.calls)
    for path, modules in run.subject.modules.items():
        owner = run.subject.modules.get(path.rpartition(".")[0])
        if not isinstance(modules, nn.ModuleList) or owner is None:
            continue
        idle = next((at for at, one in enumerate(modules) if not calls[one]), None)
        again = next((at for at, one in enumerate(modules) if calls[one] > calls[owner] > 0), None)
        if idle is not None and again is not None and _kind(modules[idle]) == _kind(modules[again]):
            evidence = f"`{path}.{idle}` is never called, and `{path}.{again}` is called {calls[modules[again]]} times"
            lines = _lines_that_read(run, owner, modules[again])
            yield Finding.named("dead-parameter", evidence, lines[-1] if lines else None)
            return
