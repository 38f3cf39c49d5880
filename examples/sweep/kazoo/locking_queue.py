"""What is in the queue comes out of it, if it is asked for again after an error."""

from client import connected
from kazoo.exceptions import NodeExistsError


def put(zk, item):
    """Puts an item in, once: under a fixed name, so that it can be tried again."""
    try:
        zk.retry(zk.create, "/queue/entries/entry-100-0000000000", item, makepath=True)
    except NodeExistsError:
        pass


with connected() as zk:
    put(zk, b"item")
    queue = zk.LockingQueue("/queue")
    item = zk.retry(queue.get, timeout=3)
    assert item == b"item", f"{item} came out of a queue with an item"
