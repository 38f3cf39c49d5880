"""What a run of benches/budgets/run has printed, to be looked up."""

import re
import statistics

APACHES = ("Apache 3.8.0", "Apache 3.9.5")
CPU = re.compile(r"(\S.*?)\s+([\d.]+) us CPU each.*?(?:, +(\d+) a second)(?:, a batch ([\d.]+) us)?$")


class Measurements:
    """One run: its sections by the beginnings of their titles, each with its lines."""

    def __init__(self, text):
        self.sections, lines = {}, []
        for line in text.splitlines():
            title = re.match(r"== (.*) \(load [\d.]+\)$", line)
            if title:
                lines = self.sections.setdefault(title[1], [])
            elif line:
                lines.append(line)
        self.machine, self.date = self.sections["machine"][0].rsplit(", ", 1)

    def section(self, title):
        found = [lines for name, lines in self.sections.items() if name.startswith(title)]
        if len(found) != 1:
            raise LookupError("%d sections begin with '%s' in the run of %s" % (len(found), title, self.date))
        return found[0]

    def words(self, title, pattern):
        """The groups of the one line of a section that has the pattern."""
        found = [match for match in (re.search(pattern, line) for line in self.section(title)) if match]
        if len(found) != 1:
            raise LookupError("%d lines of '%s' have '%s' in the run of %s" % (len(found), title, pattern, self.date))
        return found[0].groups()

    def find(self, title, pattern):
        """The same, as numbers."""
        return [float(group) for group in self.words(title, pattern)]

    def number(self, title, pattern):
        return self.find(title, pattern)[0]

    def servers(self, title, group):
        """A number of each server: the CPU time of an operation (2), operations a second (3) or the time of a batch (4)."""
        rows = [match for match in map(CPU.match, self.section(title)) if match]
        return {row[1]: float(row[group]) for row in rows}

    def cpu(self, title, name="zoolet"):
        return self.servers("server's CPU: " + title, 2)[name]

    def start_ms(self, name):
        return self.number("start on a new directory", r"^%s +([\d.]+) ms" % re.escape(name))

    def resident_mib(self, name):
        return self.number("start on a new directory", r"^%s .* ([\d.]+) MiB, of these" % re.escape(name))

    def hand_over(self, name, waiters):
        """The time of a hand-over and of one request in us, and the requests and events of each."""
        pattern = r"^%s +%d waiters: +([\d.]+) us, one request +([\d.]+) us.* us, ([\d.]+) requests, ([\d.]+) events"
        return self.find("hand-over over TCP", pattern % (re.escape(name), waiters))

    def sleeping_us(self, what):
        return self.number("hand-over between processes that sleep", r"^%s: ([\d.]+) µs" % re.escape(what))


def spread(values, digits):
    """The median, and the least and the greatest, as a reader compares them."""
    middle, least, most = statistics.median(values), min(values), max(values)
    if len(values) == 1:
        return format(middle, digits)
    return "%s (%s to %s)" % (format(middle, digits), format(least, digits), format(most, digits))
