"""The servers that are compared, each a process of its own."""

import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The versions, with the directory of their jars where these are not Debian's.
APACHE = {"3.8.0": None, "3.9.5": ROOT / "target/peers/zookeeper-3.9.5"}
# Not what conformance/apache/start-apache has for short runs, but what a server has that runs long:
# both compilers, enough heap, log files of the usual size. Compiler threads stay, since the CPU time of
# a thread that has ended is not seen.
JVM = ["-XX:TieredStopAtLevel=4", "-XX:-UseDynamicNumberOfCompilerThreads", "-Xmx2g", "-Dzookeeper.preAllocSize=65536"]
SECONDS_TO_START = 30
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

running = []


@contextlib.contextmanager
def all_stopped():
    """Stops what was started meanwhile."""
    try:
        yield
    finally:
        while running:
            running[-1].stop()


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# What a server's process does before it becomes the server.
before_exec = die_with_parent


@contextlib.contextmanager
def started_quickly():
    """Servers that are started meanwhile do not die with this process if it is killed. To have anything done before
    they begin, Python copies this process, which takes three milliseconds of each start."""
    global before_exec
    before_exec = None
    try:
        yield
    finally:
        before_exec = die_with_parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server that runs."""

    def __init__(self, name, protocol, command, port=None, is_ready=None):
        """Without a port the server prints it. `is_ready` is what it answers to what when it serves."""
        self.name, self.protocol, self.port = name, protocol, port
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if port is None else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=before_exec,
        )
        running.append(self)
        self.pid = self.process.pid
        if port is None:
            line = self.process.stdout.readline().decode()
            found = re.search(r"listening on \S*:(\d+)", line)
            if not found:
                raise SystemExit("not measured: %s does not start: %s" % (name, line or command))
            self.port = int(found[1])
        self.wait_until(is_ready)

    def wait_until(self, is_ready):
        while is_ready and not self.answers(*is_ready):
            if self.process.poll() is not None or time.monotonic() > self.began + SECONDS_TO_START:
                raise SystemExit("not measured: %s does not start" % self.name)
            # Some start within milliseconds; those that need longer are not to be held up by questions.
            time.sleep(0.0001 if time.monotonic() < self.began + 0.03 else 0.0005)
        self.start_ms = (time.monotonic() - self.began) * 1000

    def answers(self, question, answer):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as asked:
                asked.sendall(question)
                return answer in asked.recv(4096)
        except OSError:
            return False

    @property
    def address(self):
        return "127.0.0.1:%d" % self.port

    def cpu_us(self):
        """The CPU time of all its threads, ended ones too: the kernel's clock of the process."""
        return time.clock_gettime_ns((~self.pid << 3) | 2) / 1000

    def resident_mib(self, kind="VmRSS"):
        status = pathlib.Path("/proc/%d/status" % self.pid).read_text()
        return int(re.search(kind + r":\s+(\d+)", status)[1]) / 1024

    def stop(self):
        running.remove(self)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# Apache ZooKeeper answers `ruok` before it serves.
SRVR = (b"srvr", b"Mode:")
PING = (b"PING\r\n", b"PONG")
HEALTH = (b"GET /health HTTP/1.0\r\n\r\n", b'"true"')


def zoolet(binary, *options):
    port = free_port()
    serve = [binary, "serve", "--listen", "127.0.0.1:%d" % port, "--max-client-cnxns", "0", "--log-level", "error"]
    return Server("zoolet", "zookeeper", serve + ["--4lw-commands-whitelist", "*", *options], port, SRVR)


def apache(version, directory, is_synced=False):
    """Its data is in this directory, and synced or not; the JVM is the child of the script."""
    jars = ["--jars", APACHE[version]] if APACHE[version] else []
    port = free_port()
    command = [ROOT / "conformance/apache/start-apache", "--port", port, "--data-dir", directory, *jars, *JVM]
    command.append("-Dzookeeper.forceSync=%s" % ("yes" if is_synced else "no"))
    server = Server("Apache " + version, "zookeeper", command, port)
    children = pathlib.Path("/proc/{0}/task/{0}/children".format(server.pid))
    while not children.read_text().strip() and server.process.poll() is None:
        time.sleep(0.0005)
    # The script's own start is none of the server's.
    server.began = time.monotonic()
    server.wait_until(SRVR)
    server.pid = int(children.read_text().split()[0])
    return server


def redis(directory, is_synced=False):
    port = free_port()
    command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", directory, "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always"] if is_synced else ["--appendonly", "no"]
    return Server("Redis", "redis", command, port, PING)


def etcd(directory):
    """It syncs always, so that its CPU time is measured on a memory disk."""
    port, peer = free_port(), "http://127.0.0.1:%d" % free_port()
    client = "http://127.0.0.1:%d" % port
    command = ["etcd", "--data-dir", directory, "--logger", "zap", "--log-level", "error"]
    command += ["--listen-client-urls", client, "--advertise-client-urls", client]
    command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer]
    return Server("etcd", "etcd", command, port, HEALTH)


# The protocol and the name of each floor in `budgets/load`.
FLOORS = {
    "bare": ("bare", "a bare server"),
    "fan-out-floor": ("bare", "bare writes"),
    "answers": ("zookeeper", "bare answers"),
    "plain-tree": ("zookeeper", "a plain tree"),
    "exact-tree": ("zookeeper", "an exact tree"),
}


def floor(load, name, *options):
    """A server that does less than any server of its protocol."""
    protocol, title = FLOORS[name]
    return Server(title, protocol, [load, name, *options])
