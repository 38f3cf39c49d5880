#!/usr/bin/env python3
"""What TLS handshakes cost a server, and what other clients notice of many at once.

    python3 benches/handshakes.py target/release/zoolet [--at-once 10000] [--full 2000]

It starts the server, with certificates of `zoolet certs`. It prints the CPU time that the server takes for a
full handshake (ECDSA and RSA, TLS 1.3 and 1.2), the memory of connections that have not shaken hands, and what
clients with sessions of four seconds notice while many others shake hands at the same moment. Client and server
share the machine, so rates tell little, and CPU times more. Needs Linux and Python; RSA needs openssl.
"""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import socket
import ssl
import subprocess
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server that speaks TLS, with the keys of a folder, and more lines of zoo.cfg."""

    def __init__(self, zoolet, folder, key="certs/server.pem", lines=()):
        self.plain, self.secure = free_port(), free_port()
        config = os.path.join(folder, "zoo.cfg")
        with open(config, "w") as file:
            file.write(
                f"clientPort={self.plain}\nsecureClientPort={self.secure}\nmaxClientCnxns=0\ntickTime=1000\n"
                f"ssl.keyStore.location={folder}/{key}\nssl.trustStore.location={folder}/certs/ca.pem\n"
                "ssl.clientAuth=want\n4lw.commands.whitelist=*\n" + "".join(f"{line}\n" for line in lines)
            )
        self.process = subprocess.Popen([zoolet, "serve", "--config", config, "--log-level", "error"],
                                        stdout=subprocess.DEVNULL)
        while True:
            try:
                self.word("ruok")
                break
            except OSError:
                assert self.process.poll() is None, "the server does not start"
                time.sleep(0.05)

    def word(self, word):
        with socket.create_connection(("127.0.0.1", self.plain), 60) as s:
            s.sendall(word.encode())
            return b"".join(iter(lambda: s.recv(65536), b"")).decode()

    def metrics(self):
        lines = (line.split("\t") for line in self.word("mntr").splitlines())
        return {line[0]: line[1] for line in lines if len(line) == 2}

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def context(folder, version):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(f"{folder}/certs/ca.pem")
    made.minimum_version = made.maximum_version = version
    return made


def shake_hands(folder, version, port, count):
    """Full handshakes, one after the other: Python resumes no session unless it is told to."""
    tls = context(folder, version)
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port)) as plain:
            # As ZooKeeper's clients do. Otherwise the request waits for the delayed acknowledgement of the
            # handshake's last message.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with tls.wrap_socket(plain, server_hostname="localhost") as secure:
                # The answer comes after the server has taken the last message of the handshake.
                secure.sendall(b"ruok")
                secure.recv(4)


def full(zoolet, folder, count):
    keys = {"ECDSA P-256": "certs/server.pem"}
    if shutil.which("openssl"):
        make_rsa(folder)
        keys["RSA 2048"] = "rsa.pem"
    else:
        print("ignored: RSA, for there is no openssl")
    for name, key in keys.items():
        for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
            server = Server(zoolet, folder, key)
            shake_hands(folder, version, server.secure, 50)
            before, begin = server.cpu_seconds(), time.monotonic()
            each = [multiprocessing.Process(target=shake_hands, args=(folder, version, server.secure, count // 2))
                    for _ in range(2)]
            [process.start() for process in each]
            [process.join() for process in each]
            took, cpu = time.monotonic() - begin, server.cpu_seconds() - before
            print(f"{name}, {version.name}: {1e6 * cpu / count:.0f} us CPU of the server a handshake with its "
                  f"connection, {count / took:.0f} handshakes a second beside their clients")
            server.stop()


def make_rsa(folder):
    def run(*arguments):
        subprocess.run(["openssl", *arguments], check=True, cwd=folder, stderr=subprocess.DEVNULL)
    run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "rsa.key", "-out", "rsa.csr", "-subj", "/CN=rsa")
    with open(f"{folder}/rsa.ext", "w") as file:
        file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    run("x509", "-req", "-in", "rsa.csr", "-CA", "certs/ca.pem", "-CAkey", "certs/ca-key.pem", "-days", "9",
        "-extfile", "rsa.ext", "-out", "rsa.crt")
    with open(f"{folder}/rsa.pem", "w") as file:
        file.write(open(f"{folder}/rsa.key").read() + open(f"{folder}/rsa.crt").read())


def waiting(zoolet, folder, count):
    """The memory of connections that have sent nothing, and of those that have sent their first message."""
    tls = context(folder, ssl.TLSVersion.TLSv1_3)
    sent = ssl.MemoryBIO()
    first = tls.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    try:
        first.do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = sent.read()
    for name, message in (("silent", b""), ("in the middle of its handshake", hello)):
        server = Server(zoolet, folder)
        # What the server takes once is not counted.
        shake_hands(folder, ssl.TLSVersion.TLSv1_3, server.secure, 50)
        before, sockets = server.memory(), []
        for _ in range(count):
            sockets.append(socket.create_connection(("127.0.0.1", server.secure)))
            sockets[-1].sendall(message)
        if message:
            for one in sockets:
                one.recv(1, socket.MSG_PEEK)
        else:
            time.sleep(1)
        under_way = server.metrics()["zk_outstanding_tls_handshake"]
        print(f"a connection that is {name}: {(server.memory() - before) / count / 1024:.1f} KiB of {count}, "
              f"{under_way} handshakes under way")
        for one in sockets:
            one.close()
        server.stop()


def at_once(zoolet, folder, count):
    """Many handshakes at the same moment, beside plaintext and TLS sessions of four seconds."""
    for limit in (None, count // 10):
        lines = [] if limit is None else [f"netty.server.outstandingHandshake.limit={limit}"]
        server = Server(zoolet, folder, lines=lines)
        tls = ["--tls-ca", f"{folder}/certs/ca.pem", "--tls-cert", f"{folder}/certs/client.pem"]

        def load(port, *options):
            return subprocess.Popen(
                [zoolet, "bench", "load", "--server", f"localhost:{port}", "--mix", "get=100", "--sessions", "4",
                 "--depth", "1", "--duration", "20s", "--rounds", "1", "--session-timeout", "4s", "--json",
                 "--path", f"/load-{port}", *options],
                stdout=subprocess.PIPE, text=True)
        others = {"plaintext": load(server.plain), "TLS": load(server.secure, *tls)}
        time.sleep(5)
        before = server.cpu_seconds()
        begin = time.monotonic()
        storm = subprocess.Popen(
            [zoolet, "bench", "sessions", "--server", f"localhost:{server.secure}", *tls, "--sessions", str(count),
             "--together", str(count), "--idle", "1s", "--rounds", "1", "--path", "/storm"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        highest = 0
        while storm.poll() is None and time.monotonic() - begin < 90:
            highest = max(highest, int(server.metrics()["zk_outstanding_tls_handshake"]))
            time.sleep(0.2)
        took = time.monotonic() - begin
        storm.kill()
        print(f"{count} sessions by TLS at once, " + ("no limit" if limit is None else f"limit {limit}") +
              f": {took:.1f} s, {server.cpu_seconds() - before:.1f} s CPU of the server with its other clients, up to "
              f"{highest} handshakes under way; {ended(storm.stderr.read())}")
        for name, process in others.items():
            output, _ = process.communicate()
            print(f"  4 {name} sessions of 4 s meanwhile, getData: {summary(output)}")
        numbers = server.metrics()
        shown = ("unsuccessful_handshake", "tls_handshake_exceeded", "stale_sessions_expired")
        print("  " + ", ".join(f"{name} {numbers['zk_' + name]}" for name in shown))
        server.stop()


def ended(errors):
    """What the run of many sessions has said, on one line."""
    return "the run ended: " + errors.strip().replace("\n", " ")[:200] if errors.strip() else "all opened"


def summary(output):
    try:
        of = json.loads(output)["results"][0]
        shown = [f"{name} {of[f'latency_{name}_us'] / 1000:.2f} ms" for name in ("p50", "p99", "max")]
        return ", ".join(shown)
    except (ValueError, LookupError):
        return "it failed: " + output.strip()[-300:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoolet")
    parser.add_argument("--at-once", type=int, default=10_000)
    parser.add_argument("--full", type=int, default=2_000)
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    zoolet = os.path.abspath(options.zoolet)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([zoolet, "certs", f"{folder}/certs"], check=True, stdout=subprocess.DEVNULL)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {ssl.OPENSSL_VERSION}")
        full(zoolet, folder, options.full)
        waiting(zoolet, folder, options.at_once)
        at_once(zoolet, folder, options.at_once)


if __name__ == "__main__":
    main()
