"""A zoolet server for tests, with faults as methods.

Needs `kazoo` and `pytest`, and the command `zoolet` (or the variable ZOOLET, which names it).
"""

import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest
from kazoo.client import KazooClient


class Zoolet:
    """A server in a separate process, which ends with this one.

    `GET /v1/openapi.json` of its test control describes all faults.
    """

    def __init__(self, *options):
        command = [os.environ.get("ZOOLET", "zoolet"), "serve", "--listen", "127.0.0.1:0"]
        command += ["--test-control", "127.0.0.1:0", "--ready-json", "--exit-with-stdin"]
        command += ["--log-level", "error", *options]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        ready = json.loads(self._process.stdout.readline())
        self.address, self._control = ready["address"], ready["test_control"]
        self._clients = []

    def client(self, **options):
        """A connected client."""
        client = KazooClient(hosts=self.address, **options)
        client.start()
        self._clients.append(client)
        return client

    def expire(self, client):
        """Expires a client's session now."""
        return self._ask("POST", "/v1/expire", _whom(client))

    def cut(self, client=None):
        """Cuts a client's connection now, or all connections."""
        return self._ask("POST", "/v1/cut", _whom(client))

    def fault(self, fault, client=None, **details):
        """Sets a fault, for one client or for all; returns it."""
        request = {"fault": fault, **_whom(client), **details}
        return Fault(self, self._ask("POST", "/v1/faults", request))

    def advance(self, seconds):
        """Moves the server's clock forward: sessions that were silent for that long expire."""
        return self._ask("POST", "/v1/time", {"advance_ms": int(seconds * 1000)})

    def restart(self, down_seconds=0):
        """Stops the server and starts it again at the same port."""
        return self._ask("POST", "/v1/restart", {"down_ms": int(down_seconds * 1000)})

    def heal(self):
        """Ends all faults."""
        return self._ask("DELETE", "/v1/faults")

    def reset(self):
        """Closes the clients, and leaves a server without faults, sessions and znodes."""
        self.heal()
        for client in self._clients:
            client.stop()
            client.close()
        self._clients.clear()
        self._ask("POST", "/v1/reset")

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=10)

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(self._control + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["error"]) from None


class Fault:
    """A fault that was set; it ends with `with`."""

    def __init__(self, zoolet, shown):
        self._zoolet = zoolet
        self._path = f"/v1/faults/{shown['id']}"

    def hits(self):
        """How often it took effect."""
        return self._zoolet._ask("GET", self._path)["hits"]

    def wait(self, hits=1):
        """Waits until it took effect this many times."""
        return self._zoolet._ask("GET", f"{self._path}?hits={hits}")

    def lift(self):
        self._zoolet._ask("DELETE", self._path)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.lift()


def _whom(client):
    return {} if client is None else {"session": hex(client.client_id[0] % 2**64)}


@pytest.fixture(scope="session")
def zoolet_server():
    """The server of all tests."""
    server = Zoolet()
    yield server
    server.close()


@pytest.fixture
def zoolet(zoolet_server):
    """A server without faults, sessions and znodes."""
    yield zoolet_server
    zoolet_server.reset()
