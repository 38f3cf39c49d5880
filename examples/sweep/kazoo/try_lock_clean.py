"""Who tried a lock in vain deletes its znode, whatever happens to the connection."""

from client import connected
from kazoo.exceptions import LockTimeout, NoNodeError


def try_lock(zk, path):
    """The lock, or nothing."""
    lock = zk.Lock(path)
    if lock.acquire(blocking=False):
        return lock
    for name in zk.retry(zk.get_children, path):
        if name.startswith(lock.prefix):
            try:
                zk.retry(zk.delete, f"{path}/{name}")
            except NoNodeError:
                pass
    return None


with connected(2) as (one, other):
    held = one.Lock("/lock")
    held.acquire()
    # It is free if the session of the holder has expired.
    if tried := try_lock(other, "/lock"):
        tried.release()
    held.release()
    try:
        assert one.Lock("/lock").acquire(timeout=3)
    except LockTimeout:
        raise AssertionError("nobody holds the lock, and nobody can acquire it") from None
