"""One notebook in a process that was started for it alone, over standard input and output."""

from __future__ import annotations

import json
import os
import sys

from . import confine
from .student import serve
from .template import warm_up
from .wire import Channel

if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    channel = Channel(os.dup(0), os.dup(1))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.close(nowhere)
    warm_up(settings["real_course"])
    try:
        confine.limits(settings["memory"], settings["seconds"], settings["disk"] << 20)
        if settings["filter"]:
            confine.few_calls()
    except OSError as error:
        channel.send({"failed": str(error)})
        raise
    serve(channel, settings["real_course"])
