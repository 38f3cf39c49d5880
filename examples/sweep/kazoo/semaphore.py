"""All users of a semaphore name the same number of leases; another number is refused."""

from client import connected

with connected() as zk:
    semaphore = zk.Semaphore("/semaphore", max_leases=1)
    semaphore.acquire()
    semaphore.release()
    try:
        zk.Semaphore("/semaphore", max_leases=2).acquire()
    except ValueError:
        pass
    else:
        raise AssertionError("two leases, where there is one")
