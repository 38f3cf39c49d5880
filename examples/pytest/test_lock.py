"""What a lock must survive, tried on kazoo's."""

import threading
import time

from kazoo.client import KazooState
from kazoo.exceptions import ConnectionLoss

PATH = "/locks/stock"


def test_the_next_one_has_the_lock_when_its_owner_expires(zoolet):
    owner, heir = zoolet.client(), zoolet.client()
    lost = threading.Event()
    owner.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    owner.Lock(PATH, "owner").acquire()
    zoolet.expire(owner)
    assert heir.Lock(PATH, "heir").acquire(timeout=10)
    assert lost.wait(10), "the owner is told"


def test_thirty_seconds_of_silence_take_no_time(zoolet):
    owner, heir = zoolet.client(timeout=30), zoolet.client(timeout=30)
    owner.Lock(PATH, "owner").acquire()
    before = time.monotonic()
    zoolet.fault("freeze", owner)
    zoolet.advance(31)
    heir.retry(heir.ensure_path, PATH)
    assert heir.Lock(PATH, "heir").acquire(timeout=10)
    assert time.monotonic() - before < 10


def test_a_lost_reply_leaves_no_second_znode(zoolet):
    client = zoolet.client()
    client.ensure_path(PATH)
    creates = {"next": 1, "kind": "creates", "below": PATH}
    with zoolet.fault("cut_before_reply", requests=creates) as fault:
        lock = client.Lock(PATH, "me")
        assert lock.acquire(timeout=10)
        assert fault.hits() == 1
    assert len(client.get_children(PATH)) == 1


def test_a_frozen_owner_is_refused_by_its_token(zoolet):
    owner, heir = zoolet.client(), zoolet.client()

    def acquire(client):
        lock = client.Lock(PATH, "me")
        assert lock.acquire(timeout=10)
        # Greater than that of everyone before: the change that created the lock's znode.
        return lock, client.exists(f"{PATH}/{lock.node}").czxid

    lock, old_token = acquire(owner)
    with zoolet.fault("freeze", owner):
        zoolet.expire(owner)
        _, token = acquire(heir)
        assert lock.is_acquired, "the owner does not know yet"
        assert old_token < token, "whoever checks the token refuses the owner"


def test_one_error_is_not_the_end(zoolet):
    client = zoolet.client()
    requests = {"next": 2, "operations": ["getData"]}
    with zoolet.fault("fail", error="ConnectionLoss", requests=requests) as fault:
        try:
            client.get("/")
            raise AssertionError("the error is raised")
        except ConnectionLoss:
            pass
        client.retry(client.get, "/")
        assert fault.hits() == 2


def test_nonsense_is_told(zoolet):
    try:
        zoolet.fault("freze")
        raise AssertionError("there is no such fault")
    except RuntimeError as error:
        assert "unknown variant `freze`" in str(error)
