"""Code that runs inside the sandbox: it receives cells and tensors and returns tensors. It never imports the course.

In the sandbox this folder is a package of its own, `guest`, so its modules import each other by relative imports only.
"""

from dataclasses import dataclass

SCRATCH = "/scratch"  # the only folder that can be written; not /tmp, because Python itself may be installed there


@dataclass(frozen=True)
class GuestSettings:
    """The limits and isolation of the guest's notebooks, which a guest process receives as JSON on its command line.

    Attributes:
        memory: Bytes of memory per notebook, beyond what Python and PyTorch use already.
        disk: Megabytes that a notebook may write.
        cpu_seconds: Processor time per notebook: a last resort when no other process watches the clock.
        expose_course: Whether the course itself can be imported: for diagnosis, never for marks.
        bubblewrap: Whether the guest runs in bubblewrap, where it can isolate notebooks from each other.
    """

    memory: int
    disk: int
    cpu_seconds: int
    expose_course: bool
    bubblewrap: bool
