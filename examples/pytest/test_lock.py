"""Tests that kazoo's lock survives lost replies, cut connections and expired sessions."""

import threading
import time

from kazoo.client import KazooState
from kazoo.exceptions import ConnectionLoss

PATH = "/locks/stock"


def test_the_waiter_acquires_the_lock_when_its_holder_expires(zoolet):
    owner, heir = zoolet.client(), zoolet.client()
    lost = threading.Event()
    owner.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
    owner.Lock(PATH, "owner").acquire()
    zoolet.expire(owner)
    assert heir.Lock(PATH, "heir").acquire(timeout=10)
    assert lost.wait(10), "the holder learns of the expiry"


def test_an_expiry_after_thirty_seconds_takes_no_real_time(zoolet):
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


def test_a_frozen_holder_has_an_older_token(zoolet):
    owner, heir = zoolet.client(), zoolet.client()

    def acquire(client):
        lock = client.Lock(PATH, "me")
        assert lock.acquire(timeout=10)
        # Greater than the tokens of all holders before: the zxid of the transaction that
        # created the lock's znode.
        return lock, client.exists(f"{PATH}/{lock.node}").czxid

    lock, old_token = acquire(owner)
    with zoolet.fault("freeze", owner):
        zoolet.expire(owner)
        _, token = acquire(heir)
        assert lock.is_acquired, "the holder does not know yet"
        assert old_token < token, "a store that checks tokens refuses the old one"


def test_a_client_survives_injected_errors(zoolet):
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


def test_each_test_begins_with_an_empty_server(zoolet):
    client = zoolet.client()
    client.create("/left-behind")
    zoolet.fault("refuse")
    zoolet.reset()
    assert zoolet.client().get_children("/") == ["zookeeper"]


def test_an_unknown_fault_is_an_error(zoolet):
    try:
        zoolet.fault("freze")
        raise AssertionError("there is no such fault")
    except RuntimeError as error:
        assert "unknown variant `freze`" in str(error)
