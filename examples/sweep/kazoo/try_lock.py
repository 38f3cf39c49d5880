"""Who tried a lock in vain does not stand in the way of the next one."""

from client import connected
from kazoo.exceptions import LockTimeout

with connected(2) as (one, other):
    held = one.Lock("/lock")
    held.acquire()
    tried = other.Lock("/lock")
    # It is free if the session of the holder has expired.
    if tried.acquire(blocking=False):
        tried.release()
    held.release()
    try:
        assert one.Lock("/lock").acquire(timeout=3)
    except LockTimeout:
        raise AssertionError("nobody holds the lock, and nobody can acquire it") from None
