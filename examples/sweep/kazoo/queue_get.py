"""What is in the queue comes out of it."""

from client import connected
from kazoo.exceptions import NodeExistsError


def put(zk, name, item):
    """Puts an item in, once: under a fixed name, so that it can be tried again."""
    try:
        zk.retry(zk.create, f"/queue/{name}", item, makepath=True)
    except NodeExistsError:
        pass


with connected() as zk:
    put(zk, "entry-100-0000000000", b"first")
    put(zk, "entry-100-0000000001", b"second")
    queue = zk.Queue("/queue")
    items = []
    while (item := zk.retry(queue.get)) is not None:
        items.append(item)
    assert items == [b"first", b"second"], f"{items} came out"
