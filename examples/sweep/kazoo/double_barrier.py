"""Nobody is through a double barrier before all have come, nor out of it before all leave."""

import threading

from client import connected

came, leaves, wrong = set(), set(), []


def member(zk, name):
    barrier = zk.DoubleBarrier("/barrier", 2)
    came.add(name)
    barrier.enter()
    if len(came) < 2:
        wrong.append(f"{name} is through, and the other has not come")
    leaves.add(name)
    barrier.leave()
    if len(leaves) < 2:
        wrong.append(f"{name} is out, and the other is still inside")


with connected(2) as clients:
    threads = [
        threading.Thread(target=member, args=(zk, name), daemon=True)
        for zk, name in zip(clients, ["one", "other"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(8)
        assert not thread.is_alive(), "a member waits, and the other is gone"
    assert not wrong, wrong
