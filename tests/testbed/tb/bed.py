# SPDX-License-Identifier: Apache-2.0
"""The description of a test-bed: values in, values out, no I/O but the reading of the file.

One fact a line; README.md lists them. Structure (hosts, rails, leaves, spines) is read first, then everything else in
the order of the lines, so a later fact replaces an earlier one.
"""
import dataclasses
import os
import re

from . import faults, units

IF_NAME_MAX = 15  # IFNAMSIZ less its zero


class BedError(Exception):
    """Says where: file:line:column: what is wrong."""


@dataclasses.dataclass
class Shape:
    """One direction of a link: the egress of its sending end."""
    rate_bps: int | None = None
    queue_bytes: int | None = None  # None: 1000 packets
    flow_bps: tuple = ()            # the most that one flow gets; of several rates, each flow gets one
    paths: int = 1                  # links of equal rate that flows are hashed to


@dataclasses.dataclass
class Link:
    """A host's cable on one rail. `out` leaves the host, `in_` is the switch port's egress towards it."""
    host: "Host"
    rail: int
    leaf: str | None = None
    out: Shape = dataclasses.field(default_factory=Shape)
    in_: Shape = dataclasses.field(default_factory=lambda: Shape(None, 1_000_000))

    @property
    def port(self):
        return "%s.%d" % (self.host.name, self.rail)

    @property
    def nic(self):
        return "eth%d" % self.rail

    @property
    def addr(self):
        return "10.%d.%d.%d" % (80 + self.rail, self.host.index // 250, self.host.index % 250 + 1)

    @property
    def addr6(self):
        return "fd00:80:%x::%x" % (self.rail, self.host.index + 1)

    @property
    def mac(self):
        # The last four bytes alone tell every NIC apart; the partition filter compares just those.
        return "02:00:00:%02x:%02x:%02x" % (self.rail, self.host.index // 256, self.host.index % 256)


@dataclasses.dataclass
class Host:
    name: str
    index: int
    links: list = dataclasses.field(default_factory=list)
    sysctls: dict = dataclasses.field(default_factory=dict)
    congestion: str | None = None
    rto_min_us: int | None = None


@dataclasses.dataclass
class Uplink:
    a: str
    b: str
    index: int
    ab: Shape
    ba: Shape
    delay_s: float = 0.0
    loss: float = 0.0

    @property
    def relays(self):
        """The interfaces that a relay stands between; without one the two ports are one cable."""
        return ("relay%da" % self.index, "relay%db" % self.index) if self.delay_s or self.loss else None

    def ends(self):
        """(switch, its port, shape of that port's egress), one for each end."""
        return ((self.a, "up%da" % self.index, self.ab), (self.b, "up%db" % self.index, self.ba))


@dataclasses.dataclass
class Bed:
    name: str
    hosts: list = dataclasses.field(default_factory=list)
    rails: int = 1
    leaves: list = dataclasses.field(default_factory=list)
    spines: list = dataclasses.field(default_factory=list)
    uplinks: list = dataclasses.field(default_factory=list)
    order: list = dataclasses.field(default_factory=list)
    offload: dict = dataclasses.field(default_factory=dict)
    segments: int | None = None
    mtu: int = 1500
    burst_s: float = 200e-6
    shm: str = "private"
    ipv6: bool = False
    cluster: bool = False
    services: list = dataclasses.field(default_factory=list)     # (host, command for a shell)
    aggregators: list = dataclasses.field(default_factory=list)  # (host, port)
    faults: list = dataclasses.field(default_factory=list)

    def host(self, name):
        return next(h for h in self.hosts if h.name == name)

    def links(self):
        return [link for h in self.hosts for link in h.links]

    def rank_hosts(self):
        """Those that run the command, in the order of their ranks: all but the hosts of services."""
        lone = {name for name, _ in self.services + self.aggregators}
        return [name for name in self.order if name not in lone]

    def switches(self):
        return self.leaves + self.spines


class Words:
    """The words of one line, with their columns, so that every complaint can point."""

    def __init__(self, path, number, text):
        self.path, self.number = path, number
        self.words = [(m.group(), m.start() + 1) for m in re.finditer(r"\S+", text.split("#", 1)[0])]
        self.end_column = len(text.rstrip()) + 1
        self.at = 0

    def fail(self, message, back=1):
        i = self.at - back
        column = self.words[i][1] if 0 <= i < len(self.words) else self.end_column
        raise BedError("%s:%d:%d: %s" % (self.path, self.number, column, message))

    def more(self):
        return self.at < len(self.words)

    def peek(self):
        return self.words[self.at][0] if self.more() else None

    def next(self, what):
        if not self.more():
            self.fail("expected %s" % what, 0)
        self.at += 1
        return self.words[self.at - 1][0]

    def choice(self, *choices):
        word = self.next(" or ".join(choices))
        if word not in choices:
            self.fail("'%s' is not %s" % (word, " or ".join(choices)))
        return word

    def accept(self, word):
        if self.peek() == word:
            self.at += 1
            return True
        return False

    def convert(self, what, function, *args):
        word = self.next(what)
        try:
            return function(word, *args)
        except ValueError as e:
            self.fail(str(e))

    def done(self):
        if self.more():
            self.at += 1
            self.fail("'%s' is one word too many" % self.words[self.at - 1][0])


class Reader:
    def __init__(self, name):
        self.bed = Bed(name)
        self.used = set()

    # -- shared pieces -------------------------------------------------------------------------------------------

    def new_name(self, w):
        name = w.next("a name")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name) or name in ("all", "rail", "out", "in", "from", "lo"):
            w.fail("'%s' cannot be a name (letters, digits and '-', no keyword)" % name)
        if re.fullmatch(r"(eth|up|relay)\d+[ab]?", name):
            w.fail("'%s' is a name the test-bed uses itself" % name)
        if len(name) > IF_NAME_MAX - 3:
            w.fail("the name '%s' is longer than %d" % (name, IF_NAME_MAX - 3))
        if name in self.used:
            w.fail("'%s' is already taken" % name)
        self.used.add(name)
        return name

    def hosts(self, w, stop=()):
        """Hosts by name, list (h0,h2) or range (h0-h3); none, or `all`, is every host."""
        found = []
        names = {h.name: h for h in self.bed.hosts}
        while w.more() and w.peek() not in ("rail", "out", "in") + tuple(stop):
            for part in w.next("a host").split(","):
                m = re.fullmatch(r"(.*?)(\d+)-(.*?)(\d+)", part)
                if part == "all":
                    part_names = list(names)
                elif part in names or not m or m.group(1) != m.group(3):
                    part_names = [part]
                else:
                    part_names = ["%s%d" % (m.group(1), i) for i in range(int(m.group(2)), int(m.group(4)) + 1)]
                for name in part_names or [part]:
                    if name not in names:
                        w.fail("there is no host '%s'" % name)
                    found.append(names[name])
        return found

    def rail(self, w):
        return w.convert("a rail", units.count, 0, self.bed.rails - 1) if w.accept("rail") else None

    def links(self, w):
        """The links that `[HOSTS] [rail N]` names."""
        hosts = self.hosts(w) or self.bed.hosts
        rail = self.rail(w)
        return [link for h in hosts for link in h.links if rail in (None, link.rail)]

    def switch(self, w):
        name = w.next("a leaf or spine")
        if name not in self.bed.switches():
            w.fail("there is no leaf or spine '%s'" % name)
        return name

    # -- first pass: structure -----------------------------------------------------------------------------------

    def do_hosts(self, w):
        for i in range(w.convert("a number of hosts", units.count, 1, 250)):
            self.add_host("h%d" % i, w)

    def do_host(self, w):
        self.add_host(self.new_name(w), w)
        while w.more():
            self.add_host(self.new_name(w), w)

    def add_host(self, name, w):
        if any(h.name == name for h in self.bed.hosts):
            w.fail("'%s' is already taken" % name)
        self.used.add(name)
        self.bed.hosts.append(Host(name, len(self.bed.hosts)))

    def do_rails(self, w):
        self.bed.rails = w.convert("a number of rails", units.count, 1, 16)

    def do_spine(self, w):
        self.bed.spines.append(self.new_name(w))

    def do_leaf(self, w):
        self.bed.leaves.append(self.new_name(w))
        w.at = len(w.words)  # its hosts are read in the second pass

    # -- second pass: facts about what exists ----------------------------------------------------------------------

    def do_leaf_hosts(self, w):
        leaf = w.next("a name")
        links = self.links(w)
        for link in links:
            if link.leaf:
                w.fail("rail %d of %s is already on leaf %s" % (link.rail, link.host.name, link.leaf))
            link.leaf = leaf

    def do_uplink(self, w):
        a, b = self.switch(w), self.switch(w)
        if a == b:
            w.fail("an uplink joins two different switches")
        same = [up for up in self.bed.uplinks if (up.a, up.b) == (a, b)]
        if not same:
            same = [Uplink(a, b, len(self.bed.uplinks), Shape(None, 1_000_000), Shape(None, 1_000_000))]
            self.bed.uplinks += same
        up = same[0]
        while w.more():
            what = w.choice("rate", "buffer", "paths", "delay", "loss")
            if what == "rate":
                up.ab.rate_bps = up.ba.rate_bps = w.convert("a rate", units.rate_bps)
                if (w.peek() or "b")[0].isdigit():
                    up.ba.rate_bps = w.convert("a rate", units.rate_bps)
            elif what == "buffer":
                up.ab.queue_bytes = up.ba.queue_bytes = w.convert("a size", units.size_bytes)
            elif what == "delay":
                up.delay_s = w.convert("a time", units.time_s)
            elif what == "loss":
                up.loss = w.convert("a share", units.share)
            else:
                up.ab.paths = up.ba.paths = w.convert("a number of paths", units.count, 1, 64)

    def do_rate(self, w):
        value = None if w.accept("none") else w.convert("a rate or 'none'", units.rate_bps)
        links = self.links(w)
        way = w.choice("out", "in") if w.more() else None
        for link in links:
            if way != "in":
                link.out.rate_bps = value
            if way != "out":
                link.in_.rate_bps = value

    def do_flow(self, w):
        value = () if w.accept("none") else w.convert("a rate, several (2Gbit,1Gbit) or 'none'", units.rates_bps)
        for link in self.links(w):
            link.out.flow_bps = value

    def do_buffer(self, w):
        value = w.convert("a size", units.size_bytes)
        for link in self.links(w):
            link.in_.queue_bytes = value

    def do_queue(self, w):
        value = w.convert("a size", units.size_bytes)
        for link in self.links(w):
            link.out.queue_bytes = value

    def do_burst(self, w):
        self.bed.burst_s = w.convert("a time", units.time_s)

    def do_offload(self, w):
        if w.peek() in ("on", "off"):
            self.bed.offload = dict.fromkeys(("tso", "gso", "gro"), w.next("on or off"))
        while w.more():
            what = w.choice("tso", "gso", "gro")
            self.bed.offload[what] = w.choice("on", "off")

    def do_segments(self, w):
        self.bed.segments = w.convert("a number of packets", units.count, 1, 65535)

    def do_mtu(self, w):
        self.bed.mtu = w.convert("a size", units.count, 576, 65535)

    def do_order(self, w):
        self.bed.order = [h.name for h in self.hosts(w)]
        if sorted(self.bed.order) != sorted(h.name for h in self.bed.hosts):
            w.fail("the rank order must name every host once")

    def do_sysctl(self, w):
        hosts = self.bed.hosts if "." in (w.peek() or "") else self.hosts(w, [x for x, _ in w.words if "." in x])
        key = w.next("a sysctl")
        if not re.fullmatch(r"net\.[A-Za-z0-9_.-]+", key):
            w.fail("'%s' is not a sysctl of net.*" % key)
        value = w.next("its value")
        while w.more():
            value += " " + w.next("its value")
        for host in hosts:
            host.sysctls[key] = value

    def do_congestion(self, w):
        value = w.next("a congestion control")
        for host in self.hosts(w) or self.bed.hosts:
            host.congestion = value

    def do_rto_min(self, w):
        value = round(w.convert("a time", units.time_s) * 1e6)
        for host in self.hosts(w) or self.bed.hosts:
            host.rto_min_us = value

    def do_shm(self, w):
        self.bed.shm = w.choice("private", "shared")

    def do_ipv6(self, w):
        self.bed.ipv6 = w.choice("on", "off") == "on"

    def do_cluster(self, w):
        self.bed.cluster = w.choice("on", "off") == "on"

    def one_host(self, w):
        name = w.next("a host")
        if name not in [h.name for h in self.bed.hosts]:
            w.fail("there is no host '%s'" % name)
        return name

    def do_service(self, w):
        host, words = self.one_host(w), [w.next("a command")]
        while w.more():
            words.append(w.next("a word"))
        self.bed.services = [s for s in self.bed.services if s[0] != host] + [(host, " ".join(words))]

    def do_aggregator(self, w):
        host, port = self.one_host(w), w.convert("a port", units.count, 1, 65535)
        self.bed.aggregators = [a for a in self.bed.aggregators if a[0] != host] + [(host, port)]

    def do_at(self, w):
        self.bed.faults.append(self.fault(w))

    def fault(self, w):
        return faults.parse(w.convert("a time", units.time_s), w, self)

    # -- the whole -----------------------------------------------------------------------------------------------

    STRUCTURE = {"hosts": do_hosts, "host": do_host, "rails": do_rails, "spine": do_spine, "leaf": do_leaf}
    FACTS = {"leaf": do_leaf_hosts, "uplink": do_uplink, "rate": do_rate, "flow": do_flow, "buffer": do_buffer, "queue": do_queue,
             "burst": do_burst, "offload": do_offload, "segments": do_segments, "mtu": do_mtu, "order": do_order,
             "sysctl": do_sysctl, "congestion": do_congestion, "rto_min": do_rto_min, "shm": do_shm, "ipv6": do_ipv6,
             "cluster": do_cluster, "service": do_service, "aggregator": do_aggregator, "at": do_at}

    def read(self, path, lines):
        late = []  # faults speak of uplinks and rates, so they come after all other facts
        for number, source, text in lines:
            w = Words(source, number, text)
            if not w.more():
                continue
            word = w.next("a fact")
            if word not in self.STRUCTURE and word not in self.FACTS:
                w.fail("'%s' is not a fact a test-bed knows" % word)
            if word in self.STRUCTURE:
                self.STRUCTURE[word](self, w)
                w.done()
        self.finish_structure(path)
        for number, source, text in lines:
            w = Words(source, number, text)
            if w.more() and w.next("a fact") in self.FACTS:
                if w.words[0][0] == "at":
                    late.append(w)
                else:
                    self.FACTS[w.words[0][0]](self, w)
                    w.done()
        self.finish_facts(path)
        for w in late:
            self.do_at(w)
            w.done()
        self.bed.faults.sort(key=lambda f: f.at_s)
        return self.bed

    def finish_structure(self, path):
        bed = self.bed
        if not bed.hosts:
            raise BedError("%s:1:1: there are no hosts" % path)
        for host in bed.hosts:
            host.links = [Link(host, rail) for rail in range(bed.rails)]
        if not bed.leaves:
            bed.leaves.append("leaf")
            for link in bed.links():
                link.leaf = "leaf"

    def finish_facts(self, path):
        bed = self.bed
        if not bed.order:
            bed.order = [h.name for h in bed.hosts]
        if not bed.rank_hosts():
            raise BedError("%s:1:1: every host has a service, and none is left for the command" % path)
        for link in bed.links():
            if not link.leaf:
                raise BedError("%s:1:1: rail %d of %s is on no leaf" % (path, link.rail, link.host.name))
            if link.out.flow_bps and link.out.rate_bps is None:
                raise BedError("%s:1:1: flows of %s are capped, and its link has no rate: add 'rate R %s'"
                               % (path, link.host.name, link.host.name))
        group = {s: s for s in bed.switches()}

        def root(s):
            return s if group[s] == s else root(group[s])

        for up in bed.uplinks:
            if up.ab.paths > 1 and up.ab.rate_bps is None:
                raise BedError("%s:1:1: the uplink %s %s has paths, and no rate that they share: add 'rate R'"
                               % (path, up.a, up.b))
            if root(up.a) == root(up.b):
                raise BedError("%s:1:1: the uplink %s %s closes a loop" % (path, up.a, up.b))
            group[root(up.a)] = root(up.b)
        for rail in range(bed.rails):
            first = bed.hosts[0].links[rail]
            for host in bed.hosts:
                if root(host.links[rail].leaf) != root(first.leaf):
                    raise BedError("%s:1:1: %s and %s cannot reach each other on rail %d: an uplink is missing"
                                   % (path, first.host.name, host.name, rail))


def parse(path, text, more=()):
    """The Bed that `text` describes; `more` are facts added after it (the command line's --set). Raises BedError."""
    lines = [(i + 1, path, line) for i, line in enumerate(text.splitlines())]
    lines += [(i + 1, "--set", line) for i, line in enumerate(more)]
    return Reader(os.path.splitext(os.path.basename(path))[0]).read(path, lines)


def parse_fault(bed, line):
    """The fault of one line `at TIME …` about hosts and links that exist. Raises BedError."""
    reader, w = Reader(bed.name), Words("TB_COUNTERS", 1, line)
    reader.bed = bed
    w.choice("at")
    fault = reader.fault(w)
    w.done()
    return fault


def load(path, more=()):
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read()
    except (OSError, UnicodeDecodeError) as e:
        raise BedError("%s: %s" % (path, e))
    return parse(path, text, more)
