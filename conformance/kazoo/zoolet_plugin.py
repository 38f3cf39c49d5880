"""Run kazoo's own tests against a chosen server.

kazoo's harness starts an ensemble of its own. This pytest plugin puts a
cluster of one in its place: a process of `zoolet`, or Apache ZooKeeper from
Debian's jars, with the same configuration. Loaded with `-p zoolet_plugin`.
"""

import atexit
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
START_APACHE = os.path.join(HERE, "..", "apache", "start-apache")
START_TIMEOUT = 30
# The settings that kazoo's harness gives a server since 3.5; the digest is that of the
# password `test`, which TestReconfig uses.
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
JAAS_DIGEST = """Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="super_secret"
    user_jaasuser="jaas_password";
};
"""
PR_SET_PDEATHSIG = 1
# Loaded here, because no module may be loaded between fork and exec.
LIBC = ctypes.CDLL(None)

RUN = {}


def reserve_port():
    """A free port, with the socket that reserves it for our servers.

    Below the ephemeral range, so that no outgoing connection takes the port
    while a test has its server stopped. The socket stays bound and never
    listens: that keeps out other workers, which look for ports by binding
    them, but not a server, since both have SO_REUSEADDR then.
    """
    while True:
        port = random.randrange(12000, 32000)
        keeper = socket.socket()
        try:
            keeper.bind(("127.0.0.1", port))
        except OSError:
            keeper.close()
            continue
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return port, keeper


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Certificates:
    """A self-signed certificate for the server and one for the client, which trust each other."""

    def __init__(self, folder):
        self.folder = folder
        for name, subject in (("server", "localhost"), ("client", "client")):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
                + ["-nodes", "-days", "2", "-subj", "/CN=%s" % subject]
                + ["-keyout", self.path(name, "key"), "-out", self.path(name, "crt")],
                check=True,
                capture_output=True,
                timeout=60,
            )
        with open(self.path("server", "pem"), "wb") as out:
            out.write(self.read("server", "key") + self.read("server", "crt"))

    def path(self, name, extension):
        return os.path.join(self.folder, "%s.%s" % (name, extension))

    def read(self, name, extension):
        with open(self.path(name, extension), "rb") as source:
            return source.read()

    def server_settings(self):
        return {
            "ssl.keyStore.location": self.path("server", "pem"),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": self.path("client", "crt"),
            "ssl.trustStore.type": "PEM",
        }

    def for_client(self):
        return {
            "client_key": self.read("client", "key"),
            "client_cert": self.read("client", "crt"),
            "ca_cert": self.read("server", "crt"),
        }


class Server:
    """The methods of a ManagedZooKeeper that kazoo's tests use."""

    host = "127.0.0.1"

    def __init__(self, entries):
        self.entries = entries
        self.client_port, self.keeper = reserve_port()
        self.secure_client_port, self.secure_keeper = reserve_port()
        self.process = None
        self.folder = None
        self.certificates = None
        self.prepare()

    @property
    def address(self):
        return "%s:%d" % (self.host, self.client_port)

    @property
    def secure_address(self):
        return "%s:%d" % (self.host, self.secure_client_port)

    @property
    def running(self):
        if self.process is not None and self.process.poll() is not None:
            # No test requested that. The harness starts another server, and the runner
            # has to know.
            death = {"status": self.process.returncode, "log": "".join(self.get_logs(40))}
            death["before"] = os.environ.get("PYTEST_CURRENT_TEST", "")
            with open(RUN["deaths"], "a") as out:
                out.write(json.dumps(death) + "\n")
            self.process = None
        return self.process is not None

    def prepare(self):
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="kazoo-server-")
            os.mkdir(self.data)
            self.certificates = Certificates(self.folder)

    @property
    def data(self):
        return os.path.join(self.folder, "data")

    @property
    def log(self):
        return os.path.join(self.folder, "log")

    def settings(self):
        settings = {
            "maxClientCnxns": "0",
            "extendedTypesEnabled": "true",
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
        }
        settings.update(entry.split("=", 1) for entry in self.entries)
        return settings

    def command(self):
        if RUN["server"] == "apache":
            return self.apache_command()
        settings = {
            "tickTime": "2000",
            "dataDir": self.data,
            "clientPort": str(self.client_port),
            "clientPortAddress": self.host,
        }
        settings.update(self.settings())
        if os.environ.get("ZOOKEEPER_JAAS_AUTH") == "digest":
            settings["zoolet.jaas.config"] = self.jaas()
        config = os.path.join(self.folder, "zoo.cfg")
        with open(config, "w") as out:
            out.writelines("%s=%s\n" % item for item in settings.items())
        return [RUN["zoolet_bin"], "serve", "--config", config]

    def apache_command(self):
        settings = self.settings()
        settings["serverCnxnFactory"] = "org.apache.zookeeper.server.NettyServerCnxnFactory"
        settings["secureClientPort"] = str(self.secure_client_port)
        settings["secureClientPortAddress"] = self.host
        settings.update(self.certificates.server_settings())
        command = [START_APACHE, "--port", str(self.client_port), "--data-dir", self.data]
        command += ["--log", os.path.join(self.folder, "zookeeper.log")]
        for item in settings.items():
            command += ["--config-line", "%s=%s" % item]
        command += ["-Dreadonlymode.enabled=true"]
        if os.environ.get("ZOOKEEPER_JAAS_AUTH") == "digest":
            command += ["-Djava.security.auth.login.config=%s" % self.jaas()]
        return command

    def jaas(self):
        path = os.path.join(self.folder, "jaas.conf")
        with open(path, "w") as out:
            out.write(JAAS_DIGEST)
        return path

    def run(self):
        if self.running:
            return
        self.prepare()
        with open(self.log, "ab") as log:
            start = log.tell()
            # The kernel ties a child process to the thread that made it, so only the main
            # thread may request that the child ends with us.
            in_main = threading.current_thread() is threading.main_thread()
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent if in_main else None,
            )
        deadline = time.monotonic() + START_TIMEOUT
        while not self.said_ready(start):
            if not self.running or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("the server did not come up:\n%s" % "".join(self.get_logs()))
            time.sleep(0.01)

    def said_ready(self, start):
        with open(self.log, "rb") as log:
            log.seek(start)
            return b"listening on " in log.read(65536)

    def stop(self):
        if not self.running:
            return
        process, self.process = self.process, None
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def reset(self):
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)
        os.mkdir(self.data)

    def destroy(self):
        self.stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def get_logs(self, num_lines=100):
        lines = []
        if self.folder is not None:
            for name in ("log", "zookeeper.log"):
                try:
                    with open(os.path.join(self.folder, name), errors="replace") as log:
                        lines += log.readlines()[-num_lines:]
                except FileNotFoundError:
                    pass
        return lines


class Cluster:
    """The methods of a ZookeeperCluster that kazoo's tests use, for one server."""

    def __init__(self, configuration_entries=(), **_ignored):
        self.servers = [Server(configuration_entries)]
        atexit.register(self.terminate)

    def __getitem__(self, index):
        return self.servers[index]

    def __iter__(self):
        return iter(self.servers)

    def start(self):
        for server in self.servers:
            server.run()

    def stop(self):
        for server in self.servers:
            server.stop()

    def terminate(self):
        for server in self.servers:
            server.destroy()

    def reset(self):
        for server in self.servers:
            server.reset()

    def get_logs(self):
        return [line for server in self.servers for line in server.get_logs()]

    def get_ssl_client_configuration(self):
        for server in self.servers:
            server.prepare()
        return self.servers[0].certificates.for_client()


def pytest_addoption(parser):
    group = parser.getgroup("zoolet")
    group.addoption("--zk-server", choices=("zoolet", "apache"), default="zoolet")
    group.addoption("--zoolet-bin", metavar="PATH", default="target/release/zoolet")
    group.addoption("--zk-leave-out", metavar="FILE", help="ids of tests that are not run, one per line")
    group.addoption("--zk-results", metavar="FILE", help="one JSON object per finished test goes there")


def pytest_configure(config):
    RUN["server"] = config.getoption("--zk-server")
    RUN["zoolet_bin"] = os.path.abspath(config.getoption("--zoolet-bin"))
    # The workers of xdist load this plugin too, but only their master reports.
    RUN["results"] = None if hasattr(config, "workerinput") else config.getoption("--zk-results")

    results = config.getoption("--zk-results")
    RUN["deaths"] = results + ".deaths" if results else os.devnull

    os.environ["ZOOKEEPER_VERSION"] = "3.8.0"
    os.environ["ZOOKEEPER_CLUSTER_SIZE"] = "1"
    # With CI set, kazoo waits 15 s at several places for an ensemble to settle.
    os.environ.pop("CI", None)
    # kazoo.testing imports these only for certificates of its own cluster. One is hard to
    # build, and the other has dropped what kazoo calls.
    for name in ("OpenSSL", "jks"):
        sys.modules.setdefault(name, types.ModuleType(name))
    from kazoo.testing import harness

    harness.ZookeeperCluster = Cluster


def pytest_collection_modifyitems(config, items):
    # pytest's name of a test depends on where it was started; this name does not. It is
    # in the reports, also in those of xdist's workers.
    names = {item: "%s::%s" % (item.path.name, item.nodeid.split("::", 1)[1]) for item in items}
    for item, name in names.items():
        item.user_properties.append(("id", name))
    if path := config.getoption("--zk-leave-out"):
        with open(path) as source:
            out = set(source.read().split("\n"))
        config.hook.pytest_deselected(items=[item for item in items if names[item] in out])
        items[:] = [item for item in items if names[item] not in out]


def pytest_runtest_logreport(report):
    if not RUN["results"]:
        return
    # The worst phase of a test is its outcome; the reader combines the phases.
    if report.when == "call" or report.outcome != "passed":
        line = {
            "test": dict(report.user_properties).get("id", report.nodeid),
            "when": report.when,
            "outcome": report.outcome,
            "seconds": round(report.duration, 3),
        }
        if report.outcome == "failed":
            line["text"] = report.longreprtext[-4000:]
        elif report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            line["text"] = report.longrepr[2]
        with open(RUN["results"], "a") as out:
            out.write(json.dumps(line) + "\n")
