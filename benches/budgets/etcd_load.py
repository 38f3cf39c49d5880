"""A load for etcd: h2load, which sends the same gRPC request again and again."""

import re
import struct
import subprocess
import tempfile

# So many are about as long as a round of the other servers.
REQUESTS = {"get": 40_000, "set": 20_000}
KEY = b"kept:0"
DATA = b"\x07" * 100


def field(number, data):
    """A field of bytes in protobuf's encoding, of less than 128 bytes."""
    return bytes([number << 3 | 2, len(data)]) + data


# A linearizable read, and a change of the same key: h2load has one body for all requests.
METHODS = {"get": ("Range", field(1, KEY)), "set": ("Put", field(1, KEY) + field(2, DATA))}


def measure(server, operation, sessions, depth):
    """As `Run.measured`. A batch is one request, and its time the mean."""
    send(server, "set", 1, 1, 1)
    send(server, operation, sessions, depth, REQUESTS[operation] // 10)
    before = server.cpu_us()
    output = send(server, operation, sessions, depth, REQUESTS[operation])
    cpu = (server.cpu_us() - before) / REQUESTS[operation]
    rate = float(re.search(r"([\d.]+) req/s", output)[1])
    # Smallest, greatest and mean time.
    mean = re.search(r"time for request:\s+\S+\s+\S+\s+([\d.]+)(us|ms|s)\b", output)
    return [rate, cpu, float(mean[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[mean[2]]]


def send(server, operation, sessions, depth, requests):
    method, message = METHODS[operation]
    with tempfile.NamedTemporaryFile() as body:
        # gRPC: not compressed, the length, the message.
        body.write(struct.pack(">BI", 0, len(message)) + message)
        body.flush()
        command = ["h2load", "-n", requests, "-c", sessions, "-m", depth, "-d", body.name]
        command += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        command.append("http://%s/etcdserverpb.KV/%s" % (server.address, method))
        output = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    if "%d succeeded" % requests not in output:
        raise SystemExit("not measured: etcd does not answer all requests\n" + output)
    return output
