"""Drive a command shell of a foreign client through its standard input."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time


class Wrong(Exception):
    """The client did not print what it should have."""


class Shell:
    """A running shell, whose output is collected line by line."""

    def __init__(self, command, environment=None):
        self.lines = []
        self.changed = threading.Condition()
        self.ended = False
        self.process = subprocess.Popen(
            command,
            env=dict(os.environ, **(environment or {})),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def send(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Wrong("the shell ended before `%s`; it said:\n%s" % (line, self.tail(0)))

    def mark(self):
        return len(self.lines)

    def tail(self, start):
        return "\n".join("    | " + line for line in self.lines[start:][-40:])

    def wait_for(self, pattern, start, timeout=15):
        """Wait until the output since `start` matches; return the match."""
        regex = re.compile(pattern, re.MULTILINE)
        deadline = time.monotonic() + timeout
        with self.changed:
            while True:
                found = regex.search("\n".join(self.lines[start:]))
                if found:
                    return found
                left = deadline - time.monotonic()
                if left <= 0 or self.ended:
                    raise Wrong("wanted /%s/, got:\n%s" % (pattern, self.tail(start)))
                self.changed.wait(left)

    def wait_count(self, line, count, start, timeout=15):
        """Wait until a line was printed this many times since `start`."""
        deadline = time.monotonic() + timeout
        with self.changed:
            while self.lines[start:].count(line) < count:
                left = deadline - time.monotonic()
                if left <= 0 or self.ended:
                    got = self.lines[start:].count(line)
                    raise Wrong("wanted %d times `%s`, got %d:\n%s" % (count, line, got, self.tail(start)))
                self.changed.wait(left)

    def wait_end(self, timeout=15):
        self.process.stdin.close()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Wrong("the shell did not end; it said last:\n%s" % self.tail(0))

    def kill(self):
        # The shell may be a script whose child is the client.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Proxy:
    """A proxy of the server that can cut its connections."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.server = (host, int(port))
        self.open = True
        self.sockets = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            with self.lock:
                if not self.open:
                    client.close()
                    continue
                server = socket.create_connection(self.server, timeout=10)
                server.settimeout(None)
                self.sockets += [client, server]
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    @staticmethod
    def _pass_on(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Cut all connections, and accept no new ones until `mend`."""
        with self.lock:
            self.open = False
            for sock in self.sockets:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.sockets.clear()

    def mend(self):
        with self.lock:
            self.open = True


def run_check(name, check, limit=120):
    """Run `check(address, shells)`, print `ok` or the failure, and exit with 0 or 1."""
    if len(sys.argv) != 2 or not re.fullmatch(r"[^\s:]+:\d+", sys.argv[1]):
        sys.exit("usage: %s HOST:PORT" % name)

    def too_long(_number, _frame):
        raise Wrong("the check took more than %d s" % limit)

    def stopped(number, _frame):
        raise Wrong("stopped by signal %d" % number)

    signal.signal(signal.SIGALRM, too_long)
    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    signal.alarm(limit)
    shells = []
    started = time.monotonic()
    status = 1
    try:
        check(sys.argv[1], shells)
        print("%s: %.1f s" % (name, time.monotonic() - started))
        print("ok")
        status = 0
    except Wrong as error:
        print("%s: %s" % (name, error), file=sys.stderr)
    finally:
        signal.alarm(0)
        for shell in shells:
            shell.kill()
    sys.exit(status)
