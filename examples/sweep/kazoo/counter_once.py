"""Two additions of one make two: each client counts in a znode of its own, and nobody else writes there."""

import uuid

from client import connected
from kazoo.exceptions import BadVersionError, NodeExistsError


def own_znode(zk, path):
    own = f"{path}/{uuid.uuid4().hex}"
    try:
        zk.retry(zk.create, own, b"0", makepath=True)
    except NodeExistsError:
        pass  # by an attempt whose reply was lost
    return own


def add(zk, own, amount):
    data, stat = zk.retry(zk.get, own)
    try:
        zk.retry(zk.set, own, b"%d" % (int(data) + amount), version=stat.version)
    except BadVersionError:
        pass  # by an attempt whose reply was lost


def total(zk, path):
    names = zk.retry(zk.get_children, path)
    return sum(int(zk.retry(zk.get, f"{path}/{name}")[0]) for name in names)


with connected() as zk:
    own = own_znode(zk, "/counter")
    add(zk, own, 1)
    add(zk, own, 1)
    assert total(zk, "/counter") == 2
