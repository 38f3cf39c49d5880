"""Sends frames made by hand, for what no current client sends, while proxy.py records.

    drive_raw.py TOPIC PROXY_PORT SERVER_PORT CONTROL_PORT

A topic is one of the functions at the top of this file.
"""

import socket
import struct
import sys

OPEN_ACL = [(31, "world", "anyone")]
CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL, GET_CHILDREN = range(1, 9)
SYNC, PING, GET_CHILDREN2, CHECK, MULTI, CREATE2 = 9, 11, 12, 13, 14, 15
CHECK_WATCHES, REMOVE_WATCHES, CREATE_CONTAINER, DELETE_CONTAINER = 17, 18, 19, 20
CREATE_TTL, MULTI_READ = 21, 22
AUTH, SET_WATCHES, SASL, SET_WATCHES2, ADD_WATCH, CLOSE = 100, 101, 102, 105, 106, -11


def connect(control, port):
    control.say("note a request without the read-only byte, as before 3.4")
    old = Connection(port, read_only=None)
    old.ask(PING, b"", xid=-2)
    old.ask(EXISTS, string("/") + boolean(False))
    old.ask(CLOSE, b"")
    old.expect_end()
    control.say("note an unknown session, without the read-only byte")
    Connection(port, read_only=None, session=0x1234, password=bytes(16)).expect_end()
    control.say("note an unknown session, with the read-only byte")
    Connection(port, session=0x1234, password=bytes(16)).expect_end()
    control.say("note the greatest timeout, another protocol version, no password")
    Connection(port, timeout=2**31 - 1, version=7, password=None).close()
    control.say("note a negative timeout, an empty password")
    Connection(port, timeout=-1, password=b"").close()
    control.say("note the client has seen more than the server: no answer")
    Connection(port, seen=2**40, answered=False).expect_end()
    control.say("note bytes after the last field")
    Connection(port, tail=b"more").close()


def opcodes(control, port):
    connection = Connection(port)
    control.say("note a ping with an ordinary xid is answered with -2")
    connection.ask(PING, b"")
    control.say("note deleteContainer, which clients do not send and this version misreads")
    connection.ask(CREATE_CONTAINER, create("/c", b"", OPEN_ACL, 4))
    connection.ask(DELETE_CONTAINER, string("/c"))
    connection.ask(DELETE_CONTAINER, string("/none"))
    control.say("note sasl, which the server is not configured for")
    connection.ask(SASL, buffer(b"token"))
    control.say("note setWatches with an ordinary xid")
    connection.ask(SET_WATCHES, struct.pack(">q", 0) + strings([]) * 3)
    connection.close()
    control.say("note check, which belongs into a multi: this version closes the connection")
    connection = Connection(port)
    connection.request(CHECK, string("/") + integer(-1))
    connection.expect_end()
    for opcode in (0, 10, 999, -1):
        control.say(f"note opcode {opcode}, which is unknown")
        unknown = Connection(port)
        unknown.ask(opcode, b"")
        unknown.expect_end()


def malformed(control, port):
    """Bodies which the server cannot or will not read: it answers with -5 and reads on."""
    connection = Connection(port)
    bodies = (
        ("no body", GET_DATA, b""),
        ("the path ends early", GET_DATA, integer(5) + b"/a"),
        ("the boolean is missing", GET_DATA, string("/")),
        ("a path of negative length", GET_DATA, integer(-2) + boolean(False)),
        ("a path too long for any frame", GET_DATA, integer(2**31 - 1) + b"/"),
        ("no path", EXISTS, integer(-1) + boolean(False)),
        ("a buffer of negative length", SET_DATA, string("/") + integer(-2) + integer(0)),
        ("a vector too long for any frame", SET_WATCHES, long(0) + integer(2**31 - 1)),
        ("a null vector", SET_WATCHES, long(0) + integer(-1) * 3),
        ("an unknown watcher type", REMOVE_WATCHES, string("/") + integer(77)),
        ("an unknown watcher type", CHECK_WATCHES, string("/") + integer(77)),
        ("an unknown watch mode", ADD_WATCH, string("/") + integer(77)),
        ("a multi without its end", MULTI, multi_header(CHECK)),
        ("a multi with an exists", MULTI, multi((EXISTS, string("/") + boolean(False)))),
        ("a multi with an unknown type", MULTI, multi((999, b""))),
        ("a multi with a read and a write", MULTI,
         multi((GET_DATA, string("/") + boolean(False)), (CHECK, string("/") + integer(-1)))),
    )
    for note, opcode, body in bodies:
        control.say(f"note {note}")
        connection.ask(opcode, body)
    connection.close()


def tolerated(control, port):
    """Encodings which no client makes, and which the server reads all the same."""
    connection = Connection(port)
    bodies = (
        ("a boolean of two", EXISTS, string("/") + b"\x02"),
        ("bytes after the last field", EXISTS, string("/") + boolean(False) + b"more"),
        ("a vector of negative length", CREATE,
         string("/x") + buffer(b"") + integer(-2) + integer(0)),
        ("a path which is not UTF-8", EXISTS, buffer(b"/\xff\xfe") + boolean(False)),
        ("an empty path", GET_DATA, string("") + boolean(False)),
        ("no path", SYNC, integer(-1)),
        ("unknown permission bits", CREATE,
         create("/p", b"", [(0x7fffffff, "world", "anyone")], 0)),
        ("getACL", GET_ACL, string("/p")),
        ("flags for another opcode", CREATE, create("/f", b"", OPEN_ACL, 4)),
        ("unknown flags", CREATE, create("/g", b"", OPEN_ACL, 99)),
        ("a multi whose headers carry no error", MULTI,
         struct.pack(">i?i", CHECK, False, 0) + string("/") + integer(-1)
         + struct.pack(">i?i", -1, True, 0)),
        ("bytes after the end of a multi", MULTI, multi() + b"more"),
        ("a multi which reads, with a watch", MULTI_READ,
         multi((GET_DATA, string("/") + boolean(True)))),
        ("a multi which reads and writes", MULTI_READ,
         multi((GET_DATA, string("/") + boolean(False)), (DELETE, string("/p") + integer(-1)))),
    )
    for note, opcode, body in bodies:
        control.say(f"note {note}")
        connection.ask(opcode, body)
    connection.close()


def multi_create(control, port):
    connection = Connection(port)
    control.say("note create2 in a multi")
    connection.ask(MULTI, multi((CREATE2, create("/a", b"x", OPEN_ACL, 0)),
                                (CREATE2, create("/a/s", None, OPEN_ACL, 2))))
    control.say("note create with the flags of a container")
    connection.ask(MULTI, multi((CREATE, create("/c", None, OPEN_ACL, 4))))
    control.say("note create2 with the flags of a container")
    connection.ask(MULTI, multi((CREATE2, create("/d", None, OPEN_ACL, 4))))
    control.say("note unknown flags")
    connection.ask(MULTI, multi((CREATE, create("/g", None, OPEN_ACL, 99))))
    connection.close()


def text(control, port):
    connection = Connection(port)
    control.say("note an identity beyond the basic plane, in proper UTF-8")
    acl = OPEN_ACL + [(1, "digest", "\U0001f600:x")]
    connection.ask(CREATE, create("/a", b"", acl, 0))
    control.say("note the server answers with two surrogates")
    connection.ask(GET_ACL, string("/a"))
    control.say("note sync hands any path back")
    connection.ask(SYNC, string("/\U0001f600"))
    connection.ask(SYNC, buffer(b"/\xff\xfe"))
    connection.close()


class Connection:
    """One connection to the server, past the handshake."""

    def __init__(self, port, timeout=10000, session=0, password=bytes(16), read_only=False,
                 seen=0, version=0, tail=b"", answered=True):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.xid = 0
        flag = b"" if read_only is None else boolean(read_only)
        self.send(struct.pack(">iqiq", version, seen, timeout, session)
                  + buffer(password) + flag + tail)
        if answered:
            self.receive()

    def ask(self, opcode, body, xid=None):
        """Sends one request and waits for its answer."""
        self.request(opcode, body, xid)
        self.receive()

    def request(self, opcode, body, xid=None):
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.send(struct.pack(">ii", xid, opcode) + body)

    def send(self, frame):
        self.socket.sendall(integer(len(frame)) + frame)

    def receive(self):
        (size,) = struct.unpack(">i", self.read(4))
        return self.read(size)

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError("the server has closed the connection")
            data += part
        return data

    def expect_end(self):
        assert self.socket.recv(1) == b"", "the server should have closed the connection"

    def close(self):
        self.ask(CLOSE, b"")
        self.expect_end()


def integer(value):
    return struct.pack(">i", value)


def long(value):
    return struct.pack(">q", value)


def boolean(value):
    return b"\x01" if value else b"\x00"


def buffer(value):
    return integer(-1) if value is None else integer(len(value)) + value


def string(value):
    return buffer(None if value is None else value.encode())


def strings(values):
    return integer(len(values)) + b"".join(map(string, values))


def create(path, data, acl, flags):
    entries = b"".join(integer(perms) + string(scheme) + string(id) for perms, scheme, id in acl)
    return string(path) + buffer(data) + integer(len(acl)) + entries + integer(flags)


def multi_header(opcode, done=False):
    return struct.pack(">i?i", opcode, done, -1)


def multi(*operations):
    body = b"".join(multi_header(opcode) + body for opcode, body in operations)
    return body + multi_header(-1, done=True)


class Control:
    """The line to the proxy."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.answers = self.socket.makefile()

    def say(self, line):
        self.socket.sendall(line.encode() + b"\n")
        assert self.answers.readline() == "ok\n", line


if __name__ == "__main__":
    topic, proxy_port, _, control_port = sys.argv[1:]
    line = Control(int(control_port))
    globals()[topic](line, int(proxy_port))
    line.say("end")
