# SPDX-License-Identifier: Apache-2.0
"""Networks of a few hosts: fixed ones, and others that a seed draws. Pure: nothing is built here.

A segment is what one frame reaches: a switch, a cable between two ports, or a port that leads nowhere. It has a subnet of
each family that is used on it. The halves of a split switch are two segments of one subnet.
"""
import dataclasses
import random

SPEEDS = (10000, 10000, 25000, 100000, 200000)
SLOW = (1000, 1000, 10000, None)
TWIN = "192.168.7.1/24"
DOCKER = "172.17.0.1/16"


@dataclasses.dataclass(eq=False)
class Segment:
    number: int
    kind: str                  # switch, cable, lone
    subnet: int
    families: str = "4"        # 4, 6 or 46
    speed_Mbps: int | None = 10000


@dataclasses.dataclass(eq=False)
class Port:
    host: "Host" = dataclasses.field(repr=False)
    name: str
    segment: Segment
    families: str              # of its addresses
    speed_Mbps: int | None     # None: nobody knows it
    sysfs: str = "given"       # given, or absent: its speed is then asked of the driver, and a veth says 10000
    state: str = "up"          # up, down, or no carrier
    private: str = ""          # its only address, in a subnet that others have, too, and are not reached by
    number: int = 0            # among all ports
    host_number: int = 0       # of its address in the subnet

    def is_usable(self):
        return self.state == "up"

    def addresses(self):
        """With prefix lengths, by family."""
        if self.private:
            return {"4": self.private}
        return {family: "10.%d.0.%d/24" % (self.segment.subnet, self.host_number) if family == "4" else
                "fd00:%x::%x/64" % (self.segment.subnet, self.host_number) for family in self.families}


@dataclasses.dataclass(eq=False)
class Host:
    name: str
    sysfs_by_hand: bool        # else that of the kernel, where all ports are virtual ones of 10 Gbit/s
    ports: list = dataclasses.field(default_factory=list)
    docker: bool = False       # has docker0, with the address that it has everywhere
    made: int = 0              # ports so far, with those that were taken away again

    def usable(self):
        return [p for p in self.ports if p.is_usable()]

    def port(self, name):
        return next(p for p in self.ports if p.name == name)


@dataclasses.dataclass(eq=False)
class Drawing:
    name: str
    hosts: list = dataclasses.field(default_factory=list)
    segments: list = dataclasses.field(default_factory=list)
    bootstrap: Segment | None = None  # over which the ranks find each other; None: a network that only they have
    ring: bool = False                # neighbours are the next host and the one before, not all

    def segment(self, kind="switch", families="4", speed_Mbps=10000, subnet=None):
        new = Segment(len(self.segments), kind, len(self.segments) + 1 if subnet is None else subnet, families, speed_Mbps)
        self.segments.append(new)
        return new

    def host(self, name, sysfs_by_hand=True):
        self.hosts.append(Host(name, sysfs_by_hand))
        return self.hosts[-1]

    def port(self, host, name, segment, **more):
        families, speed_Mbps = more.pop("families", segment.families), more.pop("speed_Mbps", segment.speed_Mbps)
        port = Port(host, name, segment, families, speed_Mbps if host.sysfs_by_hand else 10000, **more)
        host.made += 1
        port.number = port.host_number = 16 * self.hosts.index(host) + host.made
        host.ports.append(port)
        return port

    def ports(self):
        return [p for h in self.hosts for p in h.ports]

    def neighbours(self):
        """Pairs of ranks, both ways."""
        n = len(self.hosts)
        return [(a, b) for a in range(n) for b in range(n)
                if a != b and (not self.ring or (a - b) % n in (1, n - 1))]

    def same_subnet(self, host):
        """Whether several of the host's ports are in one subnet."""
        subnets = [p.segment.subnet for p in host.ports if not p.private]
        return len(set(subnets)) < len(subnets)

    def show(self):
        lines = ["%s: %d hosts, %s, bootstrap %s" % (
            self.name, len(self.hosts), "ring" if self.ring else "each with all",
            "of its own" if self.bootstrap is None else "on segment %d" % self.bootstrap.number)]
        for h in self.hosts:
            lines.append("  %s%s%s" % (h.name, "" if h.sysfs_by_hand else ", the kernel's sysfs", ", docker0" if h.docker else ""))
            for p in h.ports:
                lines.append("    %-6s %s %d, %s, %s Mbit/s%s%s" % (
                    p.name, p.segment.kind, p.segment.number, " ".join(p.addresses().values()), p.speed_Mbps or "unknown",
                    "" if p.sysfs == "given" else ", not in sysfs", "" if p.is_usable() else ", " + p.state))
        return "\n".join(lines)


# -------- fixed ones --------

def ring_of_cables(count=3, management_Mbps=10000):
    """Hosts cabled to each other in a ring, each cable a subnet of its own, and a slow network that all share."""
    d = Drawing("ring of %d cables" % count)
    d.bootstrap = d.segment(speed_Mbps=management_Mbps)
    for i in range(count):
        d.port(d.host("h%d" % i), "enP7s7", d.bootstrap)
    for i in range(count):
        cable = d.segment("cable", speed_Mbps=200000)
        d.port(d.hosts[i], "p0", cable)
        d.port(d.hosts[(i + 1) % count], "p1", cable)
    d.ring = count > 3
    return d


def unequal_ports(order=None):
    """One host in two subnets, the other in the second alone; with an order in both, by these names."""
    d = Drawing("unequal ports" if order is None else "ports named the other way round")
    first, second = d.segment(), d.segment()
    a, b = d.host("h0", sysfs_by_hand=False), d.host("h1", sysfs_by_hand=False)
    d.port(a, "ens1", first)
    d.port(a, "ens2", second)
    for name, segment in zip(order or ("ens9",), (first, second) if order else (second,)):
        d.port(b, name, segment)
    d.bootstrap = second
    return d


def one_family_each():
    """A host with both families, and one with IPv6 alone."""
    d = Drawing("both families and IPv6 alone")
    both = d.segment(families="46")
    d.port(d.host("h0"), "ens1", both)
    d.port(d.host("h1"), "ens1", both, families="6")
    return d


def apart():
    """Two hosts that nothing joins."""
    d = Drawing("two hosts apart")
    for name in ("h0", "h1"):
        d.port(d.host(name), "ens1", d.segment())
    return d


def overlapping():
    """Each host has a network of its own, of one subnet: at the other's address somebody else may answer."""
    d = Drawing("overlapping networks")
    switch = d.segment()
    for number in (1, 2):
        host = d.host("h%d" % (number - 1))
        d.port(host, "ens1", switch)
        d.port(host, "odd0", d.segment("lone", speed_Mbps=100000), private="192.168.9.%d/24" % number)
    return d


def equal_hosts(hosts=4, ports=2, one_subnet=False):
    """Every host has the same ports, each on a switch of its own, or all on one."""
    d = Drawing("%d hosts with %d ports, %s" % (hosts, ports, "one subnet" if one_subnet else "several subnets"))
    switches = [d.segment() for _ in range(1 if one_subnet else ports)]
    for i in range(hosts):
        host = d.host("h%d" % i, sysfs_by_hand=False)
        for k in range(ports):
            d.port(host, "e%d" % k, switches[k % len(switches)])
    return d


# -------- drawn ones --------

def draw(seed):
    rng = random.Random(seed)
    d = Drawing("drawing %d" % seed)
    for i in range(rng.randint(2, 5)):
        d.host("h%d" % i, sysfs_by_hand=rng.random() < 0.8)
    d.ring = len(d.hosts) > 2 and rng.random() < 0.5
    _cables(rng, d)
    _switches(rng, d)
    _twins(rng, d)
    _holes(rng, d)
    if rng.random() < 0.4 or (not can_run(d) and rng.random() < 0.85):
        _shared_bootstrap(rng, d)
    for host in d.hosts:
        if not host.usable():
            _plug(rng, d, host, next(s for s in d.segments if s.kind == "switch"))
    return d


def can_run(d):
    """Whether some assignment of ports would join each pair that talks."""
    return all(any(joined(p, q) for p in d.hosts[a].ports for q in d.hosts[b].ports) for a, b in d.neighbours())


def joined(p, q):
    """Whether the two ports reach each other."""
    return (p.is_usable() and q.is_usable() and p.host is not q.host and p.segment is q.segment and
            not p.private and not q.private and bool(set(p.families) & set(q.families)))


def _families(rng):
    return rng.choice(("4", "4", "4", "4", "46", "46", "6"))


def _plug(rng, d, host, segment):
    families, speed = segment.families, segment.speed_Mbps
    if families == "46" and rng.random() < 0.4:
        families = rng.choice(("4", "6"))
    if rng.random() < 0.15:
        speed = None if rng.random() < 0.6 else rng.choice(SPEEDS)
    port = d.port(host, "ens%d" % (1 + host.made), segment, families=families, speed_Mbps=speed)
    if host.sysfs_by_hand and rng.random() < 0.05:
        port.sysfs, port.speed_Mbps = "absent", 10000


def _cables(rng, d):
    n = len(d.hosts)
    if rng.random() > 0.45:
        return
    pairs = [(i, (i + 1) % n) for i in range(n if n > 2 else 1)] if rng.random() < 0.6 else \
        [(i, k) for i in range(n) for k in range(i + 1, n)]
    speed = rng.choice(SPEEDS)
    for i, k in pairs:
        if rng.random() < 0.1:
            continue
        cable = d.segment("cable", _families(rng), speed)
        _plug(rng, d, d.hosts[i], cable)
        _plug(rng, d, d.hosts[k], cable)


def _switches(rng, d):
    switches = [d.segment("switch", _families(rng), rng.choice(SPEEDS)) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.15:  # its other half has the same subnet
        whole = rng.choice(switches)
        switches.append(d.segment("switch", whole.families, whole.speed_Mbps, whole.subnet))
    in_order = rng.random() < 0.5
    for host in d.hosts:
        most = 8 if rng.random() < 0.08 else 4
        wanted = rng.randint(1, most) if most == 4 else 8
        for i in range(max(0, wanted - len(host.ports))):
            _plug(rng, d, host, switches[i % len(switches)] if in_order else rng.choice(switches))


def _twins(rng, d):
    if rng.random() < 0.3:
        for host in d.hosts:
            host.docker = rng.random() < 0.8
    if rng.random() < 0.2:
        speed = rng.choice(SPEEDS)
        for host in d.hosts:
            if rng.random() < 0.8:
                d.port(host, "bmc0", d.segment("lone", "4", speed), private=TWIN)


def _holes(rng, d):
    for host in d.hosts:
        if len(host.ports) > 1 and rng.random() < 0.2:
            host.ports.remove(rng.choice(host.ports))
        for port in host.ports:
            if rng.random() < 0.06:
                port.state = rng.choice(("down", "no carrier"))
    for segment in d.segments:  # what one end of a cable lacks is seen at the other
        ends = [p for p in d.ports() if p.segment is segment]
        if segment.kind == "cable" and len(ends) == 2 and not all(p.is_usable() for p in ends):
            first, second = sorted(ends, key=lambda p: p.is_usable())
            second.state = "no carrier" if first.state == "down" else "down"


def _shared_bootstrap(rng, d):
    d.bootstrap = d.segment("switch", rng.choice(("4", "4", "46")), rng.choice(SLOW))
    for host in d.hosts:
        d.port(host, "mgmt0", d.bootstrap)
