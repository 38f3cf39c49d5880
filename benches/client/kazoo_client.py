"""kazoo, for the suite `client`: answers lines of an operation, a depth, a shape and a time."""

import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

PATH = "/kazoo"
DATA = b"x" * 100


def operation_of(client, name, base):
    """Sends one request of a lane and returns its result to come. The second argument counts."""
    if name == "get":
        return lambda lane, turn: client.get_async(PATH)
    if name == "set":
        return lambda lane, turn: client.set_async(PATH, DATA)

    def create_or_delete(lane, turn):
        path = f"{base}/{lane}"
        if turn % 2 == 0:
            return client.create_async(path, DATA, ephemeral=True)
        return client.delete_async(path)

    return create_or_delete


def one_after_the_other(send, end):
    count = 0
    while count % 2 or time.monotonic() < end:
        send(0, count).get()
        count += 1
    return count


def lanes(send, depth, end):
    """Chains of callbacks."""
    done, lock = threading.Event(), threading.Lock()
    state = {"count": 0, "live": depth}

    def go_on(lane, turn):
        if turn % 2 == 0 and time.monotonic() >= end:
            with lock:
                state["live"] -= 1
                if state["live"] == 0:
                    done.set()
            return
        send(lane, turn).rawlink(lambda result: answered(lane, turn, result))

    def answered(lane, turn, result):
        result.get()
        state["count"] += 1
        go_on(lane, turn + 1)

    for lane in range(depth):
        go_on(lane, 0)
    done.wait()
    return state["count"]


def burst(send, depth, end):
    count = 0
    while time.monotonic() < end:
        for result in [send(number // 2, number) for number in range(depth)]:
            result.get()
            count += 1
    return count


def main():
    client = KazooClient(hosts=sys.argv[1])
    client.start()
    try:
        client.create(PATH, DATA)
    except NodeExistsError:
        pass
    base = f"{PATH}-{client.client_id[0]:x}"
    client.create(base)
    print("ready", flush=True)
    for line in sys.stdin:
        name, depth, shape, milliseconds = line.split()
        send = operation_of(client, name, base)
        end = time.monotonic() + int(milliseconds) / 1000
        if shape == "burst":
            count = burst(send, int(depth), end)
        elif depth == "1":
            count = one_after_the_other(send, end)
        else:
            count = lanes(send, int(depth), end)
        print(count, flush=True)


main()
