"""Makes the recordings in the directory above, all of them or those named.

    ZOOKEEPER_CLASSPATH=... record.py [NAME...]

ZOOKEEPER_CLASSPATH holds the jars of the server, which is also the Java client. Java (with javac),
a C compiler with the ZooKeeper C client's library and header, and kazoo for this Python must be
there. Each recording gets a fresh server on a free port of the loopback interface.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CLASSPATH = os.environ.get("ZOOKEEPER_CLASSPATH", "")
SERVER = "Apache ZooKeeper 3.8.0, standalone"
CLIENTS = {
    "java": "Apache ZooKeeper Java client 3.8.0",
    "c": "Apache ZooKeeper C client 3.8.0, multi-threaded",
    "kazoo": "kazoo 2.11.0",
    "raw": "none: frames made by hand",
}

# name: (topic of the driver, what is recorded, properties of the server besides BASE)
RECORDINGS = {
    "java-connect": ("connect", "connecting, ping, closing", []),
    "java-reattach": ("reattach", "sessions taken up again, and refused", []),
    "java-expiry": ("expiry", "a session which expires while the client is away", []),
    "java-create": ("create", "nodes of every mode, kinds of data, and errors", []),
    "java-read": ("read", "requests which only read, and sync", []),
    "java-write": ("write", "setData and delete, and their errors", []),
    "java-quota": ("quota", "quotas which are exceeded", ["zookeeper.enforceQuota=true"]),
    "java-acl": ("acl", "access lists, identities, and requests without permission", []),
    "java-auth": ("auth", "auth, once refused", []),
    "java-enforced": ("enforced", "a server which serves authenticated clients only",
                      ["zookeeper.enforce.auth.enabled=true",
                       "zookeeper.enforce.auth.schemes=digest"]),
    "java-sasl": ("sasl", "a SASL exchange (DIGEST-MD5)", ["sasl"]),
    "java-sasl-refused": ("saslRefused", "a SASL exchange with a wrong password", ["sasl"]),
    "java-text": ("text", "text beyond the basic plane", []),
    "java-multi": ("multi", "multi with every kind of operation, done and failed", []),
    "java-multiread": ("multiRead", "multi which only reads", []),
    "java-watches": ("watches", "watches which fire once, and their events", []),
    "java-addwatch": ("addWatch", "persistent and recursive watches", []),
    "java-removewatches": ("removeWatches", "watches which are removed", []),
    "java-setwatches": ("setWatches", "watches set again on a new connection", []),
    "java-setwatches2": ("setWatches2", "the same, with persistent watches", []),
    "java-config": ("config", "the configuration node, and reconfig while disabled", []),
    "java-reconfig": ("reconfig", "reconfig while enabled", ["reconfigEnabled=true"]),
    "c-connect": ("connect_", "connecting, ping, closing", []),
    "c-reattach": ("reattach", "sessions taken up again, and refused", []),
    "c-create": ("create", "nodes of every mode, kinds of data, and errors", []),
    "c-read": ("read_", "requests which only read, and sync", []),
    "c-write": ("write_", "setData and delete, and their errors", []),
    "c-acl": ("acl", "access lists, and auth, once refused", []),
    "c-multi": ("multi", "multi, done and failed", []),
    "c-watches": ("watches", "watches, their events, and their removal", []),
    "c-setwatches": ("set_watches", "watches set again on a new connection", []),
    "c-config": ("config", "the configuration node and reconfig", []),
    "kazoo-connect": ("connect", "connecting, ping, closing", []),
    "kazoo-reattach": ("reattach", "sessions taken up again, and refused", []),
    "kazoo-create": ("create", "nodes of every mode, kinds of data, and errors", []),
    "kazoo-read": ("read", "requests which only read, and sync", []),
    "kazoo-write": ("write", "setData and delete, and their errors", []),
    "kazoo-acl": ("acl", "access lists, and auth, once refused", []),
    "kazoo-multi": ("multi", "multi, done and failed", []),
    "kazoo-watches": ("watches", "watches and their events", []),
    "kazoo-recipes": ("recipes", "a lock and an election", []),
    "kazoo-config": ("config", "reconfig", []),
    "kazoo-sasl": ("sasl", "a SASL exchange (DIGEST-MD5)", ["sasl"]),
    "raw-connect": ("connect", "connect requests of old and odd clients", []),
    "raw-opcodes": ("opcodes", "opcodes which are internal or unknown", []),
    "raw-malformed": ("malformed", "bodies which the server refuses to read", []),
    "raw-tolerated": ("tolerated", "odd encodings which the server reads", []),
    "raw-multi": ("multi_create", "operations in a multi which clients do not send", []),
    "raw-text": ("text", "text beyond the basic plane, and broken text", []),
}

BASE = [
    "zookeeper.extendedTypesEnabled=true",
    # The password is "test".
    "zookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
    "zookeeper.admin.enableServer=false",
    "zookeeper.fips-mode=false",
    # Quick to expire sessions; clients may ask for timeouts from 1000 to 10000 ms.
    "tickTime=500",
]
JAAS_SERVER = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="secret";
};
"""
JAAS_CLIENT = """Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="ann" password="%s";
};
"""


def main(names):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        drivers = Drivers(work)
        for name in names or RECORDINGS:
            record(name, work / name, drivers)


def record(name, work, drivers):
    topic, about, properties = RECORDINGS[name]
    client = name.split("-")[0]
    work.mkdir()
    recording = work / "recording"
    extra = [text for text in properties if "=" in text]
    recording.write_text(
        f"# client: {CLIENTS[client]}\n"
        f"# server: {SERVER}{''.join(', ' + text for text in extra)}\n"
        f"# topic: {about}\n")
    server_port, proxy_port, control_port = free_ports(3)
    server = start_server(work, server_port, properties)
    proxy = subprocess.Popen([sys.executable, str(HERE / "proxy.py"), str(proxy_port),
                              str(server_port), str(control_port), str(recording)])
    try:
        await_true(serves, server_port)
        await_true(listens, control_port)
        ports = [str(proxy_port), str(server_port), str(control_port)]
        drivers.run(client, name, [topic] + ports, work)
        proxy.wait(20)
    finally:
        for process in (proxy, server):
            process.kill()
            process.wait()
    (HERE.parent / f"{name}.frames").write_bytes(recording.read_bytes())
    print(f"{name}: {recording.stat().st_size} bytes")


class Drivers:
    """The driver programs, built when first used."""

    def __init__(self, work):
        self.work = work
        self.built = set()

    def run(self, client, name, arguments, work):
        if client not in self.built:
            getattr(self, f"build_{client}", lambda: None)()
            self.built.add(client)
        subprocess.run(getattr(self, f"command_{client}")(name, work) + arguments,
                       check=True, timeout=120, cwd=work)

    def build_java(self):
        subprocess.run(["javac", "-cp", CLASSPATH, "-d", self.work, HERE / "Drive.java"],
                       check=True)

    def command_java(self, name, work):
        command = ["java", "-cp", f"{self.work}:{CLASSPATH}"]
        if "sasl" in name:
            jaas = work / "client.jaas"
            jaas.write_text(JAAS_CLIENT % ("wrong" if name.endswith("refused") else "secret"))
            command += [f"-Djava.security.auth.login.config={jaas}"]
        return command + ["Drive"]

    def build_c(self):
        subprocess.run(["cc", "-Wall", "-Wextra", "-o", self.work / "drive", HERE / "drive.c",
                        "-lzookeeper_mt"], check=True)

    def command_c(self, _name, _work):
        return [str(self.work / "drive")]

    def command_kazoo(self, _name, _work):
        return [sys.executable, str(HERE / "drive_kazoo.py")]

    def command_raw(self, _name, _work):
        return [sys.executable, str(HERE / "drive_raw.py")]


def start_server(work, port, properties):
    properties = BASE + properties
    config = [f"dataDir={work / 'data'}", f"clientPort={port}", "clientPortAddress=127.0.0.1",
              "4lw.commands.whitelist=*"]
    command = ["java", "-cp", CLASSPATH]
    for text in properties:
        if text == "sasl":
            (work / "server.jaas").write_text(JAAS_SERVER)
            command.append(f"-Djava.security.auth.login.config={work / 'server.jaas'}")
            config.append(
                "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
        elif text.startswith("zookeeper."):
            command.append(f"-D{text}")
        else:
            config.append(text)
    (work / "zoo.cfg").write_text("\n".join(config) + "\n")
    main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
    with open(work / "server.log", "wb") as log:
        return subprocess.Popen(command + [main_class, str(work / "zoo.cfg")],
                                stdout=log, stderr=log)


def await_true(question, port):
    deadline = time.monotonic() + 30
    while not question(port):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody serves port {port}")
        time.sleep(0.1)


def serves(port):
    """A server accepts connections before it serves them; what it says of itself tells."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) != 0:
            return False
        probe.sendall(b"srvr")
        return b"Mode: standalone" in probe.makefile("rb").read()


def listens(port):
    """Whether somebody listens, without calling: the proxy takes one call only."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


if __name__ == "__main__":
    main(sys.argv[1:])
