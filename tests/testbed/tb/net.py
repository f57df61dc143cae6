# SPDX-License-Identifier: Apache-2.0
"""From a Bed to namespaces, bridges and shaped links.

Addresses, neighbours and the bridges' tables are static, and IPv6 is off unless asked for: nothing but the command's
own traffic crosses a link, so the counters are exact and a run starts without ARP.
"""
import os
import struct
import subprocess
import uuid

from . import spaces

# Of the source, or else of the package.
RELAYS = [os.path.realpath(os.path.join(os.path.dirname(__file__), place))
          for place in ("../../../build/perf/relay", "../../../../libexec/tributary/relay")]
RELAY = next(filter(os.path.exists, RELAYS), RELAYS[0])
ETHERNET_HEADER = 14
FLOW_CLASSES = 1024   # so many that 64 flows rarely share one
OTHERS = 2            # the class, by its minor number, of frames that are of no flow
FIRST_FLOW = 3
LEAST_BPS = 8000      # what a class of flows has for itself; the rest it borrows from the port


class Net:
    """A built test-bed: .switch is the Space of the bridges, .hosts the Space of each host by name."""

    def __init__(self, bed):
        self.bed = bed
        self.switch = spaces.Space()
        self.hosts = {}
        self.warnings = []
        self.congestion = {}
        self.relays = []  # (uplink, descriptor of the counters of its relay)
        self.clsact, self.blocked = set(), set()  # switch ports with a clsact qdisc; those a partition filters

    def warn(self, text):
        if text not in self.warnings:
            self.warnings.append(text)

    def egresses(self):
        """(from, to, rail, Space, device, Shape) of each direction of each link; the device is the sender's."""
        for link in self.bed.links():
            yield link.host.name, link.leaf, link.rail, self.hosts[link.host.name], link.nic, link.out
            yield link.leaf, link.host.name, link.rail, self.switch, link.port, link.in_
        for up in self.bed.uplinks:
            (a, port_a, ab), (b, port_b, ba) = up.ends()
            yield a, b, None, self.switch, port_a, ab
            yield b, a, None, self.switch, port_b, ba

    def relayed(self):
        """{(from, to): (packets lost, packets missed)} of the uplinks that have relays."""
        found = {}
        for up, fd in self.relays:
            counts = struct.unpack("4Q", os.pread(fd, 32, 0))
            found[up.a, up.b], found[up.b, up.a] = counts[:2], counts[2:]
        return found

    def close(self):
        for space in self.hosts.values():
            space.close()


def htb(bed, rate_bps, ceil_bps):
    """The words of an HTB class. Without a quantum HTB derives an absurd one from high rates and complains."""
    packet = bed.mtu + ETHERNET_HEADER
    burst, cburst = (max(int(bps / 8 * bed.burst_s), 2 * packet) for bps in (rate_bps, ceil_bps))
    return "htb rate %dbit ceil %dbit burst %d cburst %d quantum %d" % (
        rate_bps, ceil_bps, burst, cburst, max(packet, 1600))


def leaf_rates(shape):
    """{minor number: the most it gets} of the classes below that of the port: for frames of no flow, and for flows."""
    if shape.paths > 1:
        rates = [shape.rate_bps // shape.paths] * shape.paths
    else:
        rates = [shape.flow_bps[i % len(shape.flow_bps)] for i in range(FLOW_CLASSES)] if shape.flow_bps else []
    return {OTHERS: shape.rate_bps, **dict(enumerate(rates, FIRST_FLOW))} if rates else {}


def class_lines(verb, dev, shape, bed):
    """tc commands that add or change the classes of a device."""
    return ["class %s dev %s parent 1: classid 1:1 %s" % (verb, dev, htb(bed, shape.rate_bps, shape.rate_bps))] + [
        "class %s dev %s parent 1:1 classid 1:%x %s" % (verb, dev, minor, htb(bed, LEAST_BPS, bps))
        for minor, bps in leaf_rates(shape).items()]


def shape_lines(dev, shape, bed):
    """tc commands that shape a device's egress; none for an unshaped one."""
    if shape.rate_bps is None:
        return []
    queue = "pfifo limit 1000" if shape.queue_bytes is None else "bfifo limit %d" % shape.queue_bytes
    leaves = list(leaf_rates(shape)) or [1]
    lines = ["qdisc add dev %s root handle 1: htb default %x" % (dev, leaves[0])] + class_lines("add", dev, shape, bed)
    lines += ["qdisc add dev %s parent 1:%x %s" % (dev, minor, queue) for minor in leaves]
    if len(leaves) > 1:
        lines.append("filter add dev %s parent 1: protocol all bpf bytecode \"%s\""
                     % (dev, hash_program(len(leaves) - 1, SPREAD if shape.paths == 1 else MIXED)))
    return lines


# What is made of the 32 bits of both ports. SPREAD: half of their sum; the kernel gives connections to one peer even
# ports that lie close together, so these are of different classes. MIXED: as by chance, as switches hash.
SPREAD = ["36 0 0 65537", "116 0 0 17"]
MIXED = ["7 0 0 0", "116 0 0 16", "172 0 0 0", "36 0 0 2654435761", "7 0 0 0", "116 0 0 15", "172 0 0 0",
         "36 0 0 2246822519", "116 0 0 16"]


def hash_program(classes, mixer):
    """Classic BPF, as tc takes it: the class of a frame of TCP or UDP by its two ports; 0 for other frames."""
    code = ["40 0 0 12", "21 0 6 2048",                            # the EtherType; IPv4?
            "48 0 0 23", "21 1 0 6", "21 0 %d 17",                 # TCP or UDP?
            "177 0 0 14", "64 0 0 14", "5 0 0 5",                  # both ports, behind a header of its own length
            "21 0 %d 34525", "48 0 0 20", "21 1 0 6", "21 0 %d 17", "32 0 0 54",  # the same of IPv6
            *mixer, "148 0 0 %d" % classes, "4 0 0 %d" % (0x10000 + FIRST_FLOW), "22 0 0 0"]  # 1:minor
    code = [line % (len(code) - i - 1) if "%d" in line else line for i, line in enumerate(code)]
    return ",".join([str(len(code) + 1)] + code + ["6 0 0 0"])


def next_hops(bed):
    """{(switch, leaf): the switch's port towards that leaf}, over the tree of uplinks."""
    hops = {}
    for leaf in bed.leaves:
        seen, edge = {leaf}, [leaf]
        while edge:
            here = edge.pop()
            for up in bed.uplinks:
                for (far, port, _), (near, _, _) in (up.ends(), up.ends()[::-1]):
                    if near == here and far not in seen:
                        hops[far, leaf] = port
                        seen.add(far)
                        edge.append(far)
    return hops


def table_lines(bed):
    """bridge commands: where every switch sends every address."""
    hops, lines = next_hops(bed), []
    for link in bed.links():
        for switch in bed.switches():
            port = link.port if switch == link.leaf else hops.get((switch, link.leaf))
            if port:
                lines.append("fdb add %s dev %s master static" % (link.mac, port))
    return lines


def switch_lines(bed, host_fds):
    """ip commands for the bridges, the uplinks and both ends of the host links."""
    lines = ["link set lo up"]
    for switch in bed.switches():
        lines += ["link add name %s type bridge stp_state 0 mcast_snooping 0" % switch, "link set dev %s up" % switch]
    for up in bed.uplinks:
        (a, port_a, _), (b, port_b, _) = up.ends()
        cables = zip((port_a, port_b), up.relays) if up.relays else [(port_a, port_b)]
        lines += ["link add name %s mtu %d type veth peer name %s mtu %d" % (end, bed.mtu, other, bed.mtu)
                  for end, other in cables]
        lines += ["link set dev %s up" % relay for relay in up.relays or ()]
        lines += ["link set dev %s master %s up" % end for end in ((port_a, a), (port_b, b))]
    for link in bed.links():
        lines.append("link add name %s mtu %d type veth peer name %s address %s mtu %d netns /proc/self/fd/%d"
                     % (link.port, bed.mtu, link.nic, link.mac, bed.mtu, host_fds[link.host.name]))
        lines.append("link set dev %s master %s up" % (link.port, link.leaf))
    return lines


def host_lines(host, bed):
    """ip commands inside a host."""
    lines = ["link set lo up"]
    for link in host.links:
        segments = " gso_max_segs %d" % bed.segments if bed.segments else ""
        lines += ["link set dev %s%s up" % (link.nic, segments), "addr add %s/16 dev %s" % (link.addr, link.nic)]
        peers = [h.links[link.rail] for h in bed.hosts if h is not host]
        if bed.ipv6:
            lines.append("addr add %s/64 dev %s nodad" % (link.addr6, link.nic))
            lines += ["neigh add %s lladdr %s nud permanent dev %s" % (p.addr6, p.mac, link.nic) for p in peers]
        lines += ["neigh add %s lladdr %s nud permanent dev %s" % (p.addr, p.mac, link.nic) for p in peers]
    return lines


def route_lines(host, metrics):
    lines = []
    for link in host.links:
        net = link.addr.split(".")
        lines.append("route change %s.%s.0.0/16 dev %s scope link src %s %s"
                     % (net[0], net[1], link.nic, link.addr, metrics))
    return lines


def set_sysctl(key, value):
    with open("/proc/sys/" + key.replace(".", "/"), "w", encoding="ascii") as f:
        f.write(value)


def get_sysctl(key):
    with open("/proc/sys/" + key.replace(".", "/"), encoding="ascii") as f:
        return [f.read().strip()]


def build(bed):
    """Builds the test-bed in the namespaces we are in. Raises spaces.ToolError."""
    net = Net(bed)
    for host in bed.hosts:
        space = spaces.new(host, bed.shm == "private", str(uuid.uuid4()))
        net.hosts[host.name] = space
        for text in space.warnings:
            net.warn(text)
        if not bed.ipv6:
            _quiet_ipv6(space)
    _quiet_ipv6(net.switch)
    fds = {name: space.fds[0] for name, space in net.hosts.items()}
    net.switch.batch("ip", switch_lines(bed, fds), tuple(fds.values()))
    ports = [link.port for link in bed.links()] + [end[1] for up in bed.uplinks for end in up.ends()]
    net.switch.batch("bridge", ["link set dev %s learning off flood off mcast_flood off bcast_flood off" % port
                                for port in ports])
    net.switch.batch("bridge", table_lines(bed))
    _offload(net.switch, ports, bed.offload)
    for up in bed.uplinks:
        if up.relays:
            _offload(net.switch, [port for _, port, _ in up.ends()], {"tso": "off", "gso": "off", "tx": "off"})
            net.relays.append((up, _start_relay(up, bed)))
    for host in bed.hosts:
        space = net.hosts[host.name]
        space.batch("ip", host_lines(host, bed))
        _offload(space, [link.nic for link in host.links], bed.offload)
        _tcp(net, host, space)
    for space in [net.switch] + list(net.hosts.values()):
        space.batch("tc", [line for _, _, _, where, dev, shape in net.egresses() if where is space
                           for line in shape_lines(dev, shape, bed)])
    return net


def _quiet_ipv6(space):
    """No neighbour discovery on devices yet to come; the loopback keeps ::1."""
    try:
        space.call(set_sysctl, "net.ipv6.conf.default.disable_ipv6", "1")
    except spaces.ToolError:
        if os.path.exists("/proc/sys/net/ipv6"):
            raise


def _offload(space, devices, states):
    if states:
        words = [word for what, state in sorted(states.items()) for word in (what, state)]
        for dev in devices:
            space.tool(["ethtool", "-K", dev] + words)


def _start_relay(up, bed):
    """A descriptor of its counters. It ends with the run's process namespace."""
    fd = os.memfd_create("relay")
    os.truncate(fd, 32)
    command = [os.environ.get("TB_RELAY", RELAY), "--a", up.relays[0], "--b", up.relays[1], "--mtu", str(bed.mtu),
               "--delay", "%.9f" % up.delay_s, "--loss", "%.9f" % up.loss, "--counters", str(fd)]
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=(fd,))
    except OSError as e:
        raise spaces.ToolError("delay and loss need the relay, %s: %s: run make, or name it in TB_RELAY"
                               % (command[0], e.strerror))
    process.returncode = 0  # process 1 reaps all children itself, and this object must not
    if not process.stdout.readline():
        raise spaces.ToolError("the relay of the uplink %s %s did not start" % (up.a, up.b))
    return fd


def _tcp(net, host, space):
    """Sysctls, congestion control, least retransmission timeout. A route may carry what a sysctl is refused."""
    metrics = []
    for key, value in host.sysctls.items():
        try:
            space.call(set_sysctl, key, value)
        except spaces.ToolError as e:
            net.warn("sysctl %s was refused (%s)" % (key, e))
    if host.congestion:
        try:
            space.call(set_sysctl, "net.ipv4.tcp_congestion_control", host.congestion)
        except spaces.ToolError:
            metrics.append("congctl " + host.congestion)
    if host.rto_min_us:
        try:
            space.call(set_sysctl, "net.ipv4.tcp_rto_min_us", str(host.rto_min_us))
        except spaces.ToolError:
            metrics.append("rto_min %gms" % (host.rto_min_us / 1000))
    in_force = space.call(get_sysctl, "net.ipv4.tcp_congestion_control")[0]
    if metrics:
        try:
            space.batch("ip", route_lines(host, " ".join(metrics)))
            in_force = host.congestion or in_force
        except spaces.ToolError:
            net.warn("%s was refused; TCP runs with %s" % (" and ".join(metrics), in_force))
    net.congestion[host.name] = in_force
