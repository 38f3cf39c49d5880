"""What is measured: a function for each section. The servers take turns, and medians are told."""

import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import time

import etcd_load
import peers

ROUNDS = 3
# Of measurements that differ more from one round to the next.
MORE_ROUNDS = 5
# Of a measurement that the noise of three would decide.
MANY_ROUNDS = 9
MEASURED_MS = 1_500
WARM_UP_MS = 300
# Until the compilers of Java have done their work.
FIRST_WARM_UP_MS = {"zookeeper": 3_000}
SIBLINGS = 100_000
FILLED = {"zoolet": 1_000_000, "Redis": 1_000_000}
FILLED_APACHE = 300_000


def suite(name):
    return ["cargo", "bench", "--quiet", "-p", "zoolet-benches", "--bench", name]


def say(text=""):
    print(text, flush=True)


class Run:
    def __init__(self, binary, load, disk, memory):
        self.binary, self.load, self.disk, self.memory, self.directories = binary, load, disk, memory, 0

    def machine(self):
        model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
        self.section("machine")
        say("%s, %d cores, %s" % (model[1] if model else "unknown", os.cpu_count(), time.strftime("%F %R UTC", time.gmtime())))

    def section(self, title):
        say("\n== %s (load %.2f)" % (title, os.getloadavg()[0]))

    def directory(self, parent):
        self.directories += 1
        directory = parent / str(self.directories)
        directory.mkdir()
        return directory

    def zookeepers(self):
        """zoolet, and both Apaches without syncs on a memory disk."""
        apaches = [peers.apache(version, self.directory(self.memory)) for version in peers.APACHE]
        return [peers.zoolet(self.binary), *apaches]

    def floors(self):
        """What answers ZooKeeper's requests with nothing behind it, and with trees."""
        return [peers.floor(self.load, name) for name in ("answers", "plain-tree", "exact-tree")]

    def warm_zookeepers(self):
        """As `zookeepers`, with Java warmed up, for a measurement that is too short to do that by itself."""
        servers = self.zookeepers()
        for server in servers[1:]:
            for operation in ("get", "pair"):
                self.measured(server, operation, 16, 4, True)
        return servers

    def ask(self, *arguments):
        command = [str(word) for word in (self.load, *arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def measured(self, server, operation, sessions, depth, is_first):
        """Operations a second, CPU time of the server for each in us, and the median time of a batch in us."""
        if server.protocol == "etcd":
            return etcd_load.measure(server, operation, sessions, depth)
        warm_up = FIRST_WARM_UP_MS.get(server.protocol, WARM_UP_MS) if is_first else WARM_UP_MS
        load = (operation, sessions, depth, warm_up, MEASURED_MS)
        return [float(word) for word in self.ask("run", server.protocol, server.address, server.pid, *load).split()]

    def by_turns(self, title, servers, operation, sessions, depth, count=ROUNDS):
        """Medians of the rounds, and the multiples of zoolet's."""
        self.section(title)
        rounds = {server.name: [] for server in servers}
        for number in range(count):
            for server in servers:
                rounds[server.name].append(self.measured(server, operation, sessions, depth, number == 0))
        return told(rounds)

    def fill(self, server, place, count):
        self.ask("fill", server.protocol, server.address, place, count)


def told(rounds):
    """Prints the medians of each server, with all rounds of the CPU times, and returns them."""
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in rounds.items()}
    ours = medians.get("zoolet")
    for name, (rate, cpu, batch) in medians.items():
        multiple = "%5.2f of zoolet's" % (cpu / ours[1]) if ours else ""
        each = " ".join("%.2f" % row[1] for row in rounds[name])
        say("%-14s %7.2f us CPU each (%s)  %s, %8.0f a second, a batch %.1f us" % (name, cpu, each, multiple, rate, batch))
    return medians


def start(run):
    run.section("start on a new directory until a request is answered, ms; resident memory a second later, MiB")
    kinds = {
        "zoolet": lambda: peers.zoolet(run.binary, "--data-dir", run.directory(run.disk)),
        "Apache 3.8.0": lambda: peers.apache("3.8.0", run.directory(run.disk)),
        "Apache 3.9.5": lambda: peers.apache("3.9.5", run.directory(run.disk)),
        "Redis": lambda: peers.redis(run.directory(run.disk)),
        "etcd": lambda: peers.etcd(run.directory(run.disk)),
        "a bare server": lambda: peers.floor(run.load, "bare"),
        "with a file": lambda: peers.floor(run.load, "bare", run.directory(run.disk) / "new"),
    }
    times = {name: [] for name in kinds}
    memory = {name: [] for name in kinds}
    own = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for name, kind in kinds.items():
            with peers.started_quickly():
                server = kind()
            times[name].append(server.start_ms)
            time.sleep(1)
            memory[name].append(server.resident_mib())
            own[name].append(server.resident_mib("RssAnon"))
            server.stop()
    for name in kinds:
        each = " ".join("%.1f" % value for value in times[name])
        ms, resident, anonymous = (statistics.median(values[name]) for values in (times, memory, own))
        say("%-14s %8.1f ms (%s), %6.1f MiB, of these %.1f are no pages of files" % (name, ms, each, resident, anonymous))


def batches(run):
    ours, *apaches = run.zookeepers()
    redis, etcd = peers.redis(run.directory(run.memory)), peers.etcd(run.directory(run.memory))
    bare, floors = peers.floor(run.load, "bare"), run.floors()
    for operation, others in (("get", [redis, etcd, bare]), ("set", [redis, etcd]), ("create", [redis])):
        title = "server's CPU: %s, 16 sessions that send 16 requests at once" % operation
        run.by_turns(title, [ours, *apaches, *others, *floors], operation, 16, 16, MORE_ROUNDS)


def own_client(run):
    servers = [*run.warm_zookeepers(), *run.floors()]
    # As many deletes as creates, so that the tree of a quick server does not grow larger than that of a slow one.
    for operation, mix in (("get", "get=1"), ("set", "set=1"), ("create or delete", "create=1,delete=1")):
        run.section("server's CPU: %s, 16 sessions with 16 requests under way, each sent by itself (zoolet bench load)" % operation)
        options = ["--mix", mix, "--sessions", 16, "--depth", 16, "--duration", "1500ms", "--warm-up", "1s"]
        for row in bench(run, servers, "load", *options, count=MORE_ROUNDS):
            if row["operation"] == "all":
                say("%-14s %7.2f us CPU each, %8.0f a second" % (row["server"], row["server_cpu_us_each"], row["per_second"]))


def siblings(run):
    servers = run.zookeepers()
    servers += run.floors()
    for server in servers:
        run.fill(server, "line", SIBLINGS)
    for sessions, depth in ((16, 16), (64, 1)):
        title = "server's CPU: create or delete of an ephemeral sequential beside %d, %d x %d" % (SIBLINGS, sessions, depth)
        run.by_turns(title, servers, "pair", sessions, depth)


def many_sessions(run):
    servers = [*run.zookeepers(), peers.redis(run.directory(run.memory))]
    bare = peers.floor(run.load, "bare")
    for sessions in (64, 1_000):
        title = "server's CPU: %s, %d sessions with one request each"
        answer = run.by_turns(title % ("get", sessions), [bare, *servers], "get", sessions, 1)
        pair = run.by_turns(title % ("create or delete as locks do", sessions), servers, "pair", sessions, 1)
        for what, medians in (("get", answer), ("create or delete", pair)):
            of_bare = medians["zoolet"][1] / answer["a bare server"][1]
            say("of zoolet's %s to a bare answer from %d sessions: %.2f" % (what, sessions, of_bare))


def one_request(run):
    servers = [*run.zookeepers(), peers.redis(run.directory(run.memory))]
    title = "one session, one get at a time: a batch is the time of one request"
    run.by_turns(title, servers, "get", 1, 1, MANY_ROUNDS)


def bench(run, servers, *arguments, count=ROUNDS):
    """The results of `zoolet bench`, in turns too."""
    command = [run.binary, "bench", *arguments, "--json", "--rounds", count]
    for server in servers:
        command += ["--server", "%s=%s" % (server.name, server.address), "--pid", server.pid]
    command = [str(word) for word in command]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]


def hand_over(run):
    servers, redis = run.warm_zookeepers(), peers.redis(run.directory(run.memory))
    run.section("hand-over over TCP, median in us by the number of waiters, and one request after the same pause")
    waiting = ["--waiters", "10,100,500", "--lock", "predecessor", "--time-limit", "3s"]
    for row in bench(run, servers, "herd", *waiting, count=MORE_ROUNDS):
        fields = ("server", "waiters", "latency_p50_us", "round_trip_p50_us", "server_cpu_us_each", "requests_each", "events_each")
        say("%-14s %4s waiters: %7.0f us, one request %4.0f us, server's CPU %4.0f us, %.2f requests, %.2f events" % tuple(row[field] for field in fields))
    say("Redis, GET after a pause of 2 ms: %.0f us" % statistics.median(redis_gets(redis) for _ in range(ROUNDS)))


def redis_gets(redis):
    """The median time of a GET after a pause of two milliseconds, as `zoolet bench herd` pauses."""
    times = []
    with socket.create_connection(("127.0.0.1", redis.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(300):
            time.sleep(0.002)
            begin = time.perf_counter_ns()
            connection.sendall(b"GET key\r\n")
            connection.recv(64)
            times.append((time.perf_counter_ns() - begin) / 1000)
    return statistics.median(times)


def sleeping(run):
    run.section("hand-over between processes that sleep (suite handoff_tcp)")
    print_of(["env", "ZOOLET_BIN=%s" % run.binary, *suite(SUITES["sleeping"])], "result: ")


def in_process(run):
    run.section("in process: acquire and release, and to the next of 10, 100, 1,000, beside a wake-up in that line (suite handoff)")
    rows = r"floor/wake-up|acquire and release/mutex/in process|in process/(mutex|wake-up in this line)/(10|100|1000)$"
    quick = ["--noplot", "--warm-up-time", "0.3", "--measurement-time", "1", "--nresamples", "2000"]
    rounds = [nanoseconds(output(suite(SUITES["in-process"]) + ["--", rows, *quick])) for _ in range(MORE_ROUNDS)]
    for name in rounds[0]:
        each = [times[name] / 1000 for times in rounds]
        say("%-70s %7.3f us (%s)" % (name, statistics.median(each), " ".join("%.3f" % us for us in each)))
    wake_up = "handoff: floor/wake-up of a task"
    for name in rounds[0]:
        if "/mutex/1" in name:
            wake_ups = statistics.median(times[name] / times[wake_up] for times in rounds)
            say("%s: %.1f wake-ups of a task, the median of the rounds" % (name, wake_ups))


def nanoseconds(text):
    """The times that criterion estimates, by name; the name has a line of its own if it is long."""
    units = {"ns": 1, "µs": 1e3, "ms": 1e6}
    times, before = {}, ""
    for line in text.splitlines():
        found = re.match(r"(.*?)\s+time:\s+\[\S+ \S+ (\S+) (\S+) \S+ \S+\]", line)
        if found:
            times[found[1].strip() or before.strip()] = float(found[2]) * units[found[3]]
        before = line
    return times


def durable(run):
    run.section("one synced write, and how often many sync, beside the disk alone (suite durable)")
    print_of(suite(SUITES["durable"]), "result: ")


def size(run):
    run.section("a million sessions, ten million watches, 100,000 sessions that expire at once (suite size)")
    # With real-time priority, so that the longest wait is none for the processor.
    real_time = ["chrt", "-f", "1"] if os.geteuid() == 0 else []
    print_of(real_time + suite(SUITES["size"]) + ["--", "expiry"], "result: ")
    print_of(suite(SUITES["size"]) + ["--", "sessions", "watches"], "result: ")


def output(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=peers.ROOT).stdout


def print_of(command, prefix):
    """The lines of a suite that begin so."""
    for line in output(command).splitlines():
        if line.startswith(prefix):
            say(line[len(prefix):].strip())


def watchers(run):
    servers = [peers.floor(run.load, "fan-out-floor"), *run.warm_zookeepers()]
    run.section("1,000 watchers of one znode: server's CPU for each event, us, medians of %d rounds of 20 changes" % ROUNDS)
    costs = {server.name: [] for server in servers}
    for _ in range(ROUNDS):
        for server in servers:
            costs[server.name].append(float(run.ask("fan-out", server.protocol, server.address, server.pid, 1_000, 20)))
    floor = statistics.median(costs["bare writes"])
    for name, values in costs.items():
        cost, each = statistics.median(values), " ".join("%.2f" % value for value in values)
        say("%-14s %6.2f us (%s), %.2f of bare writes" % (name, cost, each, cost / floor))
    for row in bench(run, servers[1:], "watch-fanout", "--watchers", 1_000):
        say("%-14s from the set to the last event %.1f ms (zoolet bench watch-fanout)" % (row["server"], row["last_event_us"] / 1000))


def synced(run):
    servers = [peers.zoolet(run.binary, "--data-dir", run.directory(run.disk))]
    servers += [peers.apache(version, run.directory(run.disk), is_synced=True) for version in peers.APACHE]
    servers += [peers.redis(run.directory(run.disk), is_synced=True), peers.etcd(run.directory(run.disk))]
    medians = run.by_turns("synced set on one disk, 16 sessions that send 16 requests at once", servers, "set", 16, 16)
    for name, (rate, *_) in medians.items():
        if name != "zoolet":
            say("rate of zoolet to that of %s: %.2f" % (name, medians["zoolet"][0] / rate))


def memory(run):
    run.section("memory of each znode or key of 100 bytes")
    for server in [*run.zookeepers(), peers.redis(run.directory(run.memory))]:
        count = FILLED.get(server.name, FILLED_APACHE)
        before = server.resident_mib(), live_heap(server)
        run.fill(server, "directories", count)
        after = server.resident_mib(), live_heap(server)
        grown = [(new - old) * (1 << 20) / count for old, new in zip(before, after)]
        heap = ", %.0f B of live heap" % grown[1] if server.name in APACHES else ""
        say("%-14s %5.0f B resident%s, of %d" % (server.name, grown[0], heap, count))


APACHES = ["Apache " + version for version in peers.APACHE]


def live_heap(server):
    """The MiB that a JVM has in use after a full collection; 0 of others."""
    if server.name not in APACHES:
        return 0
    histogram = subprocess.run(["jcmd", str(server.pid), "GC.class_histogram"], check=True, capture_output=True, text=True)
    return int(re.search(r"^Total\s+\d+\s+(\d+)", histogram.stdout, re.M)[1]) / (1 << 20)


ALL = {
    "start": start,
    "batches": batches,
    "own-client": own_client,
    "siblings": siblings,
    "many-sessions": many_sessions,
    "one-request": one_request,
    "hand-over": hand_over,
    "sleeping": sleeping,
    "in-process": in_process,
    "watchers": watchers,
    "synced": synced,
    "durable": durable,
    "memory": memory,
    "size": size,
}

# The suites of Rust that sections run, and the sections that do without `budgets_load`.
SUITES = {"sleeping": "handoff_tcp", "in-process": "handoff", "durable": "durable", "size": "size"}
WITHOUT_LOAD = set(SUITES)
