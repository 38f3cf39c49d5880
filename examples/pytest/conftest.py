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
    """A server, or an ensemble of several, in a separate process, which ends with this one.

    `GET /v1/openapi.json` of its test control describes all faults.
    """

    def __init__(self, *options, servers=1):
        command = [os.environ.get("ZOOLET", "zoolet"), "serve"]
        command += ["--listen", "127.0.0.1:0"] if servers == 1 else ["--servers", str(servers)]
        command += ["--test-control", "127.0.0.1:0", "--ready-json", "--exit-with-stdin"]
        command += ["--log-level", "error", *options]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        ready = json.loads(self._process.stdout.readline())
        self.address, self._control = ready["address"], ready["test_control"]
        self.addresses = self.address.split(",")
        self._clients = []

    def client(self, server=None, **options):
        """A connected client, of one server of an ensemble if that is given."""
        hosts = self.address if server is None else self.addresses[server]
        client = KazooClient(hosts=hosts, **options)
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

    def server(self, server, action):
        """Does "cut_off", "rejoin", "stop", "start" or "elect" to a server, or to the "leader"."""
        return self._ask("POST", f"/v1/servers/{server}/{action}")

    def lag(self, server, **lag):
        """Lets a follower apply late: by_ms=200, by_transactions=1, or hold=True."""
        return self._ask("POST", f"/v1/servers/{server}/lag", lag)

    def release(self, server):
        """Ends the lag of a follower, which has applied everything when this returns."""
        return self._ask("DELETE", f"/v1/servers/{server}/lag")

    def until(self, state):
        """Waits until the ensemble is "serving" or "caught_up", and returns its state."""
        return self._ask("GET", f"/v1/servers?until={state}")

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


@pytest.fixture(scope="session")
def ensemble_of_three():
    """The ensemble of all tests: server 0 leads."""
    ensemble = Zoolet("--tick-time", "100", servers=3)
    yield ensemble
    ensemble.close()


@pytest.fixture
def ensemble(ensemble_of_three):
    """An ensemble without faults, sessions and znodes."""
    yield ensemble_of_three
    ensemble_of_three.reset()
