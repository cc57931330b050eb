"""The sandbox for students' code: it receives and returns tensors, and sees nothing of the teacher's machine."""

from .guest.messages import ModuleState, OpaqueValue
from .isolation import Isolation, NoSandbox, choose_isolation
from .sandbox import Sandbox
from .session import NotebookEnded, Request, ResourceLimits, SandboxLost, Session

__all__ = [
    "Isolation", "ModuleState", "NoSandbox", "NotebookEnded", "OpaqueValue", "Request", "ResourceLimits",
    "Sandbox", "SandboxLost", "Session", "choose_isolation",
]  # fmt: skip
