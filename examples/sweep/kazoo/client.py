"""Connects to the server whose address `zoolet sweep` gives."""

import contextlib
import os

from kazoo.client import KazooClient


@contextlib.contextmanager
def connected(count=1):
    """So many clients, each with a session; one client, or a list of them."""
    clients = [KazooClient(hosts=os.environ["ZOOKEEPER_HOSTS"], timeout=20) for _ in range(count)]
    try:
        for client in clients:
            client.start()
        yield clients[0] if count == 1 else clients
    finally:
        for client in clients:
            client.stop()
