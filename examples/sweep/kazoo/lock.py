"""A lock is acquired and released."""

from client import connected

with connected() as zk:
    with zk.Lock("/lock"):
        pass
