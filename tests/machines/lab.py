"""`make lab` on a machine, and the questions that the page in a browser asks it."""

import asyncio
import json
import re
import subprocess
import threading
import urllib.request
from contextlib import contextmanager

import pytest
from tornado.websocket import websocket_connect


@contextmanager
def make_lab(machine, patience=900):
    """Type `make lab`, wait for the line with its address, and stop it at the end: what was said, and the address."""
    process = subprocess.Popen(
        machine.command(f"cd {machine.course} && exec make lab"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    too_late = threading.Timer(patience, process.kill)
    too_late.start()
    said = []
    try:
        for line in process.stdout:
            said.append(line.rstrip())
            if line.startswith("Open this: "):
                break
        else:
            pytest.fail("`make lab` ended:\n" + "\n".join(said))
        yield said, said[-1].removeprefix("Open this: ")
    finally:
        too_late.cancel()
        process.kill()  # --kill-child: all that it started ends with it
        process.wait()


def parts(address):
    """The server, the path of the notebook and the token of an address."""
    return re.fullmatch(r"(http://[^/]+)/lab/tree/(.+\.ipynb)\?token=(\w+)", address).groups()


def ask(address, path, method="GET", body=None):
    """What JupyterLab answers, as Python data."""
    base, _, token = parts(address)
    request = urllib.request.Request(
        base + path,
        method=method,
        headers={"Authorization": f"token {token}"},
        data=json.dumps(body).encode() if body else None,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def opens(address):
    """Whether the printed address is a page, and the first lesson lies there as a notebook."""
    first = parts(address)[1]
    assert first.endswith("00_start_here.ipynb")
    with urllib.request.urlopen(address, timeout=60) as page:
        assert page.status == 200
        assert b"JupyterLab" in page.read()
    return ask(address, f"/api/contents/{first}")["type"] == "notebook"


def computes(address, code, patience=120):
    """What the kernel that the first lesson asks for prints when it runs some code, over the page's own way to it."""
    base, first, token = parts(address)
    asked = ask(address, f"/api/contents/{first}")["content"]["metadata"]["kernelspec"]["name"]
    body = {"path": first, "name": first, "type": "notebook", "kernel": {"name": asked}}
    number = ask(address, "/api/sessions", "POST", body)["kernel"]["id"]
    header = {"msg_id": "1", "msg_type": "execute_request", "session": "1", "username": "", "version": "5.3"}
    request = {"header": header, "parent_header": {}, "metadata": {}, "content": {"code": code}, "channel": "shell"}

    async def talk():
        url = f"{base.replace('http', 'ws', 1)}/api/kernels/{number}/channels?token={token}"
        channel = await websocket_connect(url)
        await channel.write_message(json.dumps(request))
        while answer := await channel.read_message():
            message = json.loads(answer)
            if message["msg_type"] in ("stream", "error"):
                return message["content"].get("text", message["content"])

    return asyncio.run(asyncio.wait_for(talk(), patience))
