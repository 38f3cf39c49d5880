"""Two additions of one make two."""

from client import connected

with connected() as zk:
    counter = zk.Counter("/counter")
    counter += 1
    counter += 1
    total = zk.retry(lambda: counter.value)
    assert total == 2, f"1 + 1 = {total}"
