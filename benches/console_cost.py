#!/usr/bin/env python3
"""What a viewer of `zoolet serve --console` costs the server: its CPU time for an acquisition of a lock, by
turns without and with somebody who reads the live state.

Usage: benches/console_cost.py [ZOOLET] [ROUNDS] [CLIENTS]

Runs `zoolet bench lock` with CLIENTS on one path against it (predecessor watching), ROUNDS times each way.
Linux only: it reads the CPU time from /proc.
"""

import os
import re
import subprocess
import sys
import threading
import time
import urllib.request

ZOOLET = sys.argv[1] if len(sys.argv) > 1 else "target/release/zoolet"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
CLIENTS = sys.argv[3] if len(sys.argv) > 3 else "16"


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Viewer:
    """Reads until it is closed, and counts what comes."""

    def __init__(self, url):
        self.answer = urllib.request.urlopen(f"{url}v1/events")
        self.bytes = self.messages = 0
        self.ended = False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.ended:
            line = self.answer.readline()
            self.bytes += len(line)
            self.messages += line.startswith(b"event:")
        self.answer.close()

    def close(self):
        self.ended = True
        self.thread.join()


def acquisitions(server):
    """Runs the load, and returns how many acquisitions there were, by the server's own count of znodes created."""
    before = created(server)
    subprocess.run(
        [ZOOLET, "bench", "lock", "--server", server, "--clients", CLIENTS, "--paths", "one",
         "--lock", "predecessor", "--duration", "3s"],
        check=True, capture_output=True)
    return created(server) - before


def created(server):
    import socket
    host, port = server.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as word:
        word.sendall(b"srvr")
        text = b"".join(iter(lambda: word.recv(4096), b"")).decode()
    # Each acquisition is two transactions: the znode comes and goes.
    return int(re.search(r"Zxid: (0x[0-9a-f]+)", text)[1], 16) // 2


def main():
    server = subprocess.Popen(
        [ZOOLET, "serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"],
        stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        url = server.stdout.readline().split()[-1]
        sums = {False: [0.0, 0, 0.0], True: [0.0, 0, 0.0]}
        for number in range(2 * ROUNDS):
            looks = number % 2 == 1
            viewer = Viewer(url) if looks else None
            time.sleep(6)  # the session of the last viewer is closed, or that of this one is open
            began, cpu = time.monotonic(), cpu_s(server.pid)
            count = acquisitions(address)
            took, cpu = time.monotonic() - began, cpu_s(server.pid) - cpu
            told = f", {viewer.messages} messages, {viewer.bytes} bytes" if viewer else ""
            print(f"{'with' if looks else 'without'} a viewer: {count / took:,.0f} acquisitions/s, "
                  f"{cpu / took:.1%} of a core, {cpu / count * 1e6:.2f} us each{told}", flush=True)
            for index, value in enumerate((cpu, count, took)):
                sums[looks][index] += value
            if viewer:
                viewer.close()
        cost = {looks: cpu / count for looks, (cpu, count, _) in sums.items()}
        print(f"CPU time for an acquisition, with / without: {cost[True] / cost[False]:.3f}")
    finally:
        server.terminate()
        server.wait()


main()
