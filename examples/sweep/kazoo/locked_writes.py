"""Two clients take turns at a list, under a lock, and with a version in case the lock is lost."""

from client import connected
from kazoo.exceptions import BadVersionError, ConnectionLoss, NodeExistsError, SessionExpiredError


def add(zk, item):
    """Adds an item, once: whether it is there decides, and not what the last attempt returned."""
    while True:
        data, stat = zk.retry(zk.get, "/list")
        items = data.split()
        if item in items:
            return
        try:
            zk.set("/list", b" ".join([*items, item]), version=stat.version)
        except (BadVersionError, ConnectionLoss, SessionExpiredError):
            pass


with connected(2) as clients:
    try:
        clients[0].retry(clients[0].create, "/list")
    except NodeExistsError:
        pass
    for zk, item in zip(clients * 2, [b"a", b"b", b"c", b"d"]):
        with zk.Lock("/lock"):
            add(zk, item)
    data, _ = clients[0].retry(clients[0].get, "/list")
    assert data == b"a b c d", data
