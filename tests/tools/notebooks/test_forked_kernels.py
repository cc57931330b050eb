"""A forked kernel is like one that was started: only what it had to import was there before."""

import json
import os
import signal

import pytest
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning import local_provisioner

from tools.notebooks import forked_kernels

SEEN = """
import json, os, sys
from matplotlib import get_backend
course = [name for name in sys.modules if name.startswith(("course_", "tools"))]
print(json.dumps([os.getcwd(), os.environ["COURSE_DEVICE"], sys.path, sys.argv[1:2], get_backend(), course]))
"""


@pytest.fixture
def kernels(monkeypatch, tmp_path):
    """A started and a forked kernel."""
    launch = local_provisioner.launch_kernel
    monkeypatch.setattr(local_provisioner, "launch_kernel", launch)
    started = start_new_kernel(cwd=str(tmp_path), env=os.environ | {"COURSE_DEVICE": "elsewhere"})
    forked_kernels.fork_kernels()
    forked = start_new_kernel(cwd=str(tmp_path), env=os.environ | {"COURSE_DEVICE": "elsewhere"})
    yield started, forked
    for manager, client in (started, forked):
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    forked_kernels.end_forking()
    forked_kernels._server.cache_clear()


def printed(client):
    messages = []
    client.execute_interactive(SEEN, timeout=30, output_hook=messages.append)
    (text,) = (message["content"]["text"] for message in messages if message["msg_type"] == "stream")
    return json.loads(text)


@pytest.mark.slow
def test_it_is_like_a_started_one_and_its_end_is_seen(kernels):
    (_, of_started), (manager, of_forked) = kernels
    assert printed(of_forked) == printed(of_started)
    process = manager.provisioner.process
    assert isinstance(process, forked_kernels.ForkedKernel) and manager.is_alive()
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == 0 and not manager.is_alive()
    process.send_signal(signal.SIGINT)  # to nobody
