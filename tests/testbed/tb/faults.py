# SPDX-License-Identifier: Apache-2.0
"""Faults at a time: what the lines `at TIME …` say, and how it is done to a running test-bed."""
import dataclasses
import os
import signal

from . import units

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "cont": signal.SIGCONT}


@dataclasses.dataclass
class Fault:
    at_s: float
    what: str        # the words of the line, for the report
    kind: str        # link, rate, signal, partition, heal
    devices: list = dataclasses.field(default_factory=list)  # (host name or None for the switches, device, Shape)
    rate_bps: int | None = None
    up: bool = False
    signal: int = 0
    rank: int | None = None
    host: str | None = None
    sides: tuple = ()  # two lists of hosts


def parse(at_s, w, reader):
    """Reads the words after `at TIME`; `reader` knows the hosts and links. Complains through `w`."""
    fault = Fault(at_s, " ".join(word for word, _ in w.words[2:]), w.choice(
        "link", "uplink", "rate", "kill", "stop", "cont", "partition", "heal"))
    if fault.kind in SIGNALS:
        fault.signal, fault.kind = SIGNALS[fault.kind], "signal"
        if w.choice("rank", "host") == "rank":
            fault.rank = w.convert("a rank", units.count, 0, 99999)
        else:
            fault.host = _one_host(w, reader).name
    elif fault.kind == "partition":
        sides = reader.hosts(w, ("from",))
        w.choice("from")
        others = reader.hosts(w)
        if not sides or not others or any(h in others for h in sides):
            w.fail("a partition takes two groups of different hosts: partition h0,h1 from h2,h3")
        fault.sides = (sides, others)
    elif fault.kind == "rate":
        _rate(fault, w, reader)
    elif fault.kind == "uplink":
        _uplink(fault, w, reader)
    elif fault.kind == "link":
        host = _one_host(w, reader)
        rail = reader.rail(w)
        # The switch's end goes down: the host sees its carrier vanish, as when a cable is pulled.
        fault.devices = [(None, k.port, None) for k in host.links if rail in (None, k.rail)]
        fault.up = w.choice("up", "down") == "up"
    return fault


def _one_host(w, reader):
    name = w.next("a host")
    for host in reader.bed.hosts:
        if host.name == name:
            return host
    return w.fail("there is no host '%s'" % name)


def _rate(fault, w, reader):
    fault.rate_bps = w.convert("a rate", units.rate_bps)
    links = reader.links(w)
    way = w.choice("out", "in") if w.more() else None
    for link in links:
        if way != "in":
            fault.devices.append((link.host.name, link.nic, link.out))
        if way != "out":
            fault.devices.append((None, link.port, link.in_))
    _must_be_shaped(fault, w)


def _uplink(fault, w, reader):
    a, b = reader.switch(w), reader.switch(w)
    ups = [up for up in reader.bed.uplinks if {up.a, up.b} == {a, b}]
    if not ups:
        w.fail("there is no uplink %s %s" % (a, b))
    ends = ups[0].ends()
    fault.devices = [(None, port, shape) for _, port, shape in ends]
    if w.choice("rate", "up", "down") == "rate":
        fault.kind = "rate"
        fault.rate_bps = w.convert("a rate", units.rate_bps)
        _must_be_shaped(fault, w)
    else:
        fault.kind, fault.up = "link", w.words[w.at - 1][0] == "up"
        fault.devices = fault.devices[:1]


def _must_be_shaped(fault, w):
    if any(shape.rate_bps is None for _, _, shape in fault.devices):
        w.fail("a link without a rate has none to change")


def apply(fault, net, ranks):
    """Does it. Raises spaces.ToolError when the kernel refuses. `ranks` are run.Rank objects."""
    from . import net as network  # here, since net.py's Bed is described with the help of this module
    if fault.kind == "link":
        state = "up" if fault.up else "down"
        net.switch.batch("ip", ["link set dev %s %s" % (dev, state) for _, dev, _ in fault.devices])
    elif fault.kind == "rate":
        for host, dev, shape in fault.devices:
            shape.rate_bps = fault.rate_bps
            space = net.hosts[host] if host else net.switch
            space.batch("tc", network.class_lines("change", dev, shape, net.bed))
    elif fault.kind == "partition":
        one, other = fault.sides
        net.switch.batch("tc", block_lines(one, other, net) + block_lines(other, one, net))
    elif fault.kind == "heal":
        net.switch.batch("tc", ["filter del dev %s ingress" % port for port in sorted(net.blocked)])
        net.blocked.clear()
    else:
        _signal(fault, net, ranks)


def block_program(macs):
    """Classic BPF, as tc takes it: drop a frame whose destination ends in one of these addresses' last four bytes."""
    n = len(macs)
    code = ["32 0 0 2"]                                   # load the destination's last four bytes
    for i, mac in enumerate(macs):
        code.append("21 %d 0 %d" % (n - i, int("".join(mac.split(":")[2:]), 16)))
    return ",".join([str(n + 3)] + code + ["6 0 0 4294967295", "6 0 0 2"])   # go on; drop


def block_lines(senders, receivers, net):
    lines = []
    for host in senders:
        for link in host.links:
            if link.port not in net.clsact:
                net.clsact.add(link.port)
                lines.append("qdisc add dev %s clsact" % link.port)
            net.blocked.add(link.port)
            macs = [r.links[link.rail].mac for r in receivers]
            lines.append("filter add dev %s ingress protocol all bpf da bytecode \"%s\""
                         % (link.port, block_program(macs)))
    return lines


def _signal(fault, net, ranks):
    """A rank is the one process that was started; a host is every process in its network namespace."""
    if fault.rank is not None:
        targets = [r for r in ranks if r.number == fault.rank]
        pids = [r.pid for r in targets if r.status is None]
    else:
        targets = [r for r in ranks if r.host == fault.host]
        pids = _processes(os.fstat(net.hosts[fault.host].fds[0]).st_ino)
    for rank in targets:
        rank.stopped = fault.signal == signal.SIGSTOP
        if fault.signal == signal.SIGKILL and rank.status is None:
            rank.killed = True
    for pid in pids:
        try:
            os.kill(pid, fault.signal)
        except ProcessLookupError:
            pass


def _processes(net_inode):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat("/proc/%s/ns/net" % pid).st_ino == net_inode:
                found.append(int(pid))
        except OSError:
            continue
    return found
