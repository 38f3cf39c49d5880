"""Recording proxy: passes bytes between a client and a server, and writes down the frames.

    proxy.py LISTEN_PORT SERVER_PORT CONTROL_PORT OUT_FILE

Every connection accepted at LISTEN_PORT is joined to one at SERVER_PORT. Both directions are cut
into frames at their four-byte length prefix. A frame is written to OUT_FILE before it is passed
on, so no answer can stand above its question. The format is described in ../README.md.

The program which drives the client speaks to CONTROL_PORT, one line at a time, each answered with
"ok":

    note TEXT    write TEXT into the recording as a comment
    cut          break every open connection, as a failing network would
    block        cut, and refuse further connections
    unblock      accept connections again
    end          finish the recording and exit

The proxy exits by itself when the connection to CONTROL_PORT ends.
"""

import socket
import sys
import threading


def main(listen_port, server_port, control_port, out_file):
    with open(out_file, "a", encoding="utf-8") as out:
        proxy = Proxy(int(server_port), out)
        clients = listen(int(listen_port))
        threading.Thread(target=proxy.accept_clients, args=(clients,), daemon=True).start()
        control, _ = listen(int(control_port)).accept()
        proxy.obey(control)


class Proxy:
    def __init__(self, server_port, out):
        self.server_port = server_port
        self.out = out
        self.lock = threading.Lock()
        self.count = 0
        self.open = {}
        self.blocked = False

    def obey(self, control):
        commands = {"note": self.note, "cut": self.cut, "block": self.block,
                    "unblock": self.unblock}
        for line in control.makefile(encoding="utf-8"):
            word, _, rest = line.strip().partition(" ")
            if word == "end":
                break
            commands[word](*([rest] if rest else []))
            control.sendall(b"ok\n")
        self.cut()
        with self.lock:
            self.out.flush()
        control.sendall(b"ok\n")

    def note(self, text):
        self.write(f"# {text}")

    def cut(self):
        with self.lock:
            doomed, self.open = self.open, {}
            for number in sorted(doomed):
                self.out.write(f"# ({number} cut by the proxy)\n")
        for pair in doomed.values():
            for end in pair:
                shut(end)

    def block(self):
        self.blocked = True
        self.cut()

    def unblock(self):
        self.blocked = False

    def accept_clients(self, listener):
        while True:
            client, _ = listener.accept()
            if self.blocked:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.server_port))
            with self.lock:
                self.count += 1
                number = self.count
                self.open[number] = (client, server)
            for args in ((number, ">", client, server), (number, "<", server, client)):
                threading.Thread(target=self.pump, args=args, daemon=True).start()

    def pump(self, number, arrow, source, sink):
        """Passes frames from source to sink until either of them ends."""
        try:
            while True:
                prefix = read_exactly(source, 4)
                frame = read_exactly(source, int.from_bytes(prefix, "big"))
                if not self.write_frame(number, arrow, frame):
                    return
                sink.sendall(prefix + frame)
        except (OSError, EOFError):
            self.closed(number, "client" if arrow == ">" else "server")

    def write_frame(self, number, arrow, frame):
        """Writes a frame down, unless its connection has been cut already."""
        with self.lock:
            if number not in self.open:
                return False
            self.out.write(f"{arrow} {number} {frame.hex() or '-'}\n")
            return True

    def closed(self, number, side):
        with self.lock:
            pair = self.open.pop(number, None)
            if pair is None:
                return
            self.out.write(f"# ({number} closed by the {side})\n")
        for end in pair:
            shut(end)

    def write(self, line):
        with self.lock:
            self.out.write(line + "\n")


def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def read_exactly(source, size):
    data = bytearray()
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def shut(end):
    """Ends a connection in both directions, which wakes the thread that reads from it."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
