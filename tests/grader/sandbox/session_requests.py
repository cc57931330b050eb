"""Shorthands for tests that make requests of a session."""


def load(session, code, *names, seconds=10):
    """Run one cell; what stopped it, or None."""
    raised = None
    for message in session.follow("load", seconds, cells=[(0, code)], names=list(names), provided={}):
        if "loaded" in message:
            return raised
        raised = message.get("raised", raised)


def call(session, name, *arguments, seconds=10):
    """Call a function of the notebook; its result, or all that was said instead."""
    said = session.ask("call", seconds, name=name, arguments=list(arguments), seed=0)
    return said.get("result", said)


def status(pid):
    """A process's name, state and parent, or None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as there:
            name, rest = there.read().split(" (", 1)[1].rsplit(") ", 1)
    except OSError:
        return None
    state, parent = rest.split()[:2]
    return None if state == "Z" else (name, state, int(parent))


def family(pid, everybody):
    """The numbers of a process and of all that came from it."""
    children = [process for process in everybody if (found := status(process)) and found[2] == pid]
    return [pid, *(member for child in children for member in family(child, everybody))]
