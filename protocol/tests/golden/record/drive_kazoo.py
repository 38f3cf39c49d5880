"""Drives kazoo through one topic while proxy.py records it.

    drive_kazoo.py TOPIC PROXY_PORT SERVER_PORT CONTROL_PORT

A topic is one of the functions at the top of this file. A step which does not end as expected
stops the recording.
"""

import socket
import sys
import threading
import time

from kazoo import exceptions as errors
from kazoo.client import KazooClient, KazooState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id, make_acl, make_digest_acl


def connect(say, port):
    say("note connect, ping, close")
    client = start(port, timeout=3)
    time.sleep(2)
    stop(client)
    say("note connect: may be served read-only")
    client = start(port, read_only=True)
    say("note a request")
    client.exists("/")
    stop(client)


def reattach(say, port):
    say("note connect")
    client = start(port)
    say("note an ephemeral node")
    client.create("/e", ephemeral=True)
    lost = threading.Event()
    again = threading.Event()
    client.add_listener(
        lambda state: (again if state == KazooState.CONNECTED else lost).set())
    again.clear()
    say("cut")
    assert lost.wait(10) and again.wait(10)
    say("note the session goes on")
    client.exists("/e")
    identity = client.client_id
    stop(client)
    say("note the session has been closed: kazoo asks for a new one")
    client = start(port, client_id=identity)
    stop(client)


def create(say, port):
    say("note connect")
    client = start(port)
    for ephemeral in (False, True):
        for sequence in (False, True):
            for stat in (False, True):
                say(f"note create: ephemeral {ephemeral}, sequence {sequence}, stat {stat}")
                client.create(f"/{ephemeral}-{sequence}-{stat}", b"data", ephemeral=ephemeral,
                              sequence=sequence, include_data=stat)
    say("note empty data")
    client.create("/empty", b"")
    say("note all bytes")
    client.create("/all", bytes(range(256)))
    say("note a name beyond ASCII")
    client.create("/b\u00e4ume-\u6a39\u6728")
    say("note with missing parents: kazoo looks for each")
    client.create("/a/b/c", makepath=True)
    expect(say, "the node exists", errors.NodeExistsError, lambda: client.create("/all"))
    expect(say, "no parent", errors.NoNodeError, lambda: client.create("/none/a"))
    expect(say, "an ephemeral parent", errors.NoChildrenForEphemeralsError,
           lambda: client.create("/True-False-False/a"))
    expect(say, "a path which the server refuses", errors.BadArgumentsError,
           lambda: client.create("/\u0001"))
    expect(say, "a name beyond the basic plane", errors.BadArgumentsError,
           lambda: client.create("/\U0001f600"))
    stop(client)


def read(say, port):
    say("note connect")
    client = start(port)
    say("note create the nodes to be read")
    client.create("/a", b"data of a")
    client.create("/a/empty", b"")
    client.create("/a/e", ephemeral=True)
    say("note exists")
    client.exists("/a")
    say("note exists: no node")
    client.exists("/none")
    say("note get")
    client.get("/a")
    client.get("/a/empty")
    expect(say, "get: no node", errors.NoNodeError, lambda: client.get("/none"))
    say("note get_children")
    client.get_children("/a")
    client.get_children("/a/empty")
    say("note get_children, with stat")
    client.get_children("/a", include_data=True)
    expect(say, "get_children: no node", errors.NoNodeError, lambda: client.get_children("/no"))
    say("note sync")
    client.sync("/a")
    stop(client)


def write(say, port):
    say("note connect")
    client = start(port)
    say("note create, set")
    client.create("/a")
    client.set("/a", b"one", version=0)
    client.set("/a", b"two")
    client.set("/a", b"")
    say("note set: null")
    client.set("/a", None)
    client.get("/a")
    expect(say, "set: wrong version", errors.BadVersionError, lambda: client.set("/a", b"", 99))
    expect(say, "set: no node", errors.NoNodeError, lambda: client.set("/none", b""))
    client.create("/a/b")
    expect(say, "delete: not empty", errors.NotEmptyError, lambda: client.delete("/a"))
    expect(say, "delete: wrong version", errors.BadVersionError,
           lambda: client.delete("/a/b", 99))
    expect(say, "delete: no node", errors.NoNodeError, lambda: client.delete("/none"))
    say("note delete")
    client.delete("/a/b", 0)
    say("note delete with everything below")
    client.create("/a/c/d", makepath=True)
    client.delete("/a", recursive=True)
    stop(client)


def acl(say, port):
    say("note connect with an identity")
    client = start(port, auth_data=[("digest", "ann:secret")])
    say("note create for several")
    client.create("/a", b"", acl=[
        make_digest_acl("ann", "secret", all=True),
        make_acl("ip", "10.0.0.0/8", read=True),
        make_acl("world", "anyone", read=True)])
    say("note get_acls")
    client.get_acls("/a")
    say("note set_acls")
    client.set_acls("/a", [ACL(31, Id("auth", ""))])
    expect(say, "set_acls: wrong version", errors.BadVersionError,
           lambda: client.set_acls("/a", [make_acl("world", "anyone", read=True)], 99))
    expect(say, "an unknown scheme", errors.InvalidACLError,
           lambda: client.set_acls("/a", [make_acl("none", "x", read=True)]))
    expect(say, "an empty list", errors.InvalidACLError, lambda: client.set_acls("/a", []))
    say("note another client, without the identity")
    stranger = start(port)
    expect(say, "get", errors.NoAuthError, lambda: stranger.get("/a"))
    say("note add_auth")
    stranger.add_auth("digest", "ann:secret")
    stranger.get("/a")
    expect(say, "an unknown scheme", errors.AuthFailedError,
           lambda: stranger.add_auth("none", "x"))
    stop(client)


def multi(say, port):
    say("note connect")
    client = start(port)
    say("note every kind of operation")
    transaction = client.transaction()
    transaction.create("/a", b"a")
    transaction.create("/a/e", ephemeral=True)
    transaction.create("/a/s", sequence=True)
    transaction.check("/a", 0)
    transaction.set_data("/a", b"b")
    transaction.delete("/a/e")
    assert not any(isinstance(each, Exception) for each in transaction.commit())
    say("note the second fails")
    transaction = client.transaction()
    transaction.create("/x")
    transaction.check("/a", 99)
    transaction.delete("/a")
    assert isinstance(transaction.commit()[1], errors.BadVersionError)
    say("note no operation")
    client.transaction().commit()
    stop(client)


def watches(say, port):
    say("note connect")
    client = start(port)
    events = Events()
    say("note exists: no node")
    client.exists("/a", watch=events)
    client.create("/a")
    events.wait_for(("CREATED", "/a"))
    say("note get, get_children, exists")
    client.get("/a", watch=events)
    client.get_children("/a", watch=events)
    client.exists("/a", watch=events)
    client.set("/a", b"x")
    events.wait_for(("CHANGED", "/a"))
    client.create("/a/b")
    events.wait_for(("CHILD", "/a"))
    say("note with stat")
    client.get_children("/a", watch=events, include_data=True)
    client.get("/a/b", watch=events)
    client.delete("/a/b")
    events.wait_for(("DELETED", "/a/b"))
    events.wait_for(("CHILD", "/a"))
    stop(client)


def recipes(say, port):
    say("note a lock, taken twice, the second waits for the first")
    first, second = start(port), start(port)
    held = first.Lock("/lock", "first")
    held.acquire()
    waiting = threading.Thread(target=lambda: second.Lock("/lock", "second").acquire())
    waiting.start()
    while len(first.get_children("/lock")) < 2:
        time.sleep(0.2)
    say("note release")
    held.release()
    waiting.join(10)
    stop(first)
    stop(second)
    say("note an election, a counter, a queue")
    client = start(port)
    client.Election("/election", "one").run(lambda: None)
    counter = client.Counter("/counter")
    counter += 2
    queue = client.Queue("/queue")
    queue.put(b"item")
    assert queue.get() == b"item"
    stop(client)


def config(say, port):
    say("note connect")
    client = start(port)
    say("note the configuration node")
    client.get("/zookeeper/config")
    for change in (("server.1=zk1:2888:3888;2181", "2", None),
                   (None, None, "server.1=zk1:2888:3888;2181")):
        say(f"note reconfig: {change}")
        try:
            client.reconfig(*change)
        except (errors.ZookeeperError, KeyError) as error:
            say(f"note refused: {error!r}")
    stop(client)


def sasl(say, port):
    say("note connect: DIGEST-MD5 follows")
    options = {"mechanism": "DIGEST-MD5", "username": "ann", "password": "secret"}
    client = start(port, sasl_options=options)
    say("note a request")
    client.create("/a", acl=[ACL(31, Id("auth", ""))])
    stop(client)


def start(port, **options):
    retry = KazooRetry(max_tries=20, delay=0.1, backoff=1)
    client = KazooClient(f"127.0.0.1:{port}", connection_retry=retry, **options)
    client.start()
    return client


def stop(client):
    client.stop()
    client.close()


def expect(say, note, error, step):
    say(f"note {note}: {error.__name__}")
    try:
        step()
    except error:
        return
    raise AssertionError(note)


class Events:
    """A watcher which keeps what it was told until somebody waits for it."""

    def __init__(self):
        self.kept = []
        self.told = threading.Condition()

    def __call__(self, event):
        with self.told:
            self.kept.append((event.type, event.path))
            self.told.notify_all()

    def wait_for(self, event):
        with self.told:
            assert self.told.wait_for(lambda: event in self.kept, 10), event
            self.kept.remove(event)


class Control:
    """The line to the proxy."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.answers = self.socket.makefile()

    def say(self, line):
        self.socket.sendall(line.encode() + b"\n")
        assert self.answers.readline() == "ok\n", line


if __name__ == "__main__":
    topic, proxy_port, _, control_port = sys.argv[1:]
    control = Control(int(control_port))
    globals()[topic](control.say, int(proxy_port))
    control.say("end")
