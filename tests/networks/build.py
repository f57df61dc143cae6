# SPDX-License-Identifier: Apache-2.0
"""From a drawing to namespaces, bridges and veth pairs, and a job over them.

As on the test-bed, namespaces are held by descriptors of this process alone and end with it.
"""
import contextlib
import json
import os
import pathlib
import re
import select
import subprocess
import tempfile
import time
import uuid

from tb import kernel, main as commands, net as testbed, private, spaces

import drawing

BUILD = os.path.abspath(os.environ.get("TRIBUTARY_BUILD", "build"))
PATHS = os.path.join(BUILD, "perf", "paths")
PLUGIN = os.path.join(BUILD, "lib", "libnccl-net-tributary.so")
PORT = "29500"              # any will do: the namespaces are our own
MESSAGE_BYTES = 512 << 10   # far more than heartbeats of all connections in the time of one message


class Network:
    def __init__(self, plan):
        self.plan, self.hosts = plan, {}
        self.switches = spaces.new(drawing.Host("switches", False), False, str(uuid.uuid4()))
        _quiet_ipv6(self.switches)
        for host in plan.hosts:
            self.hosts[host.name] = spaces.new(host, True, str(uuid.uuid4()))
            if any("/sys/class/net" in text for text in self.hosts[host.name].warnings):
                raise spaces.ToolError("a host's /sys shows the machine's interfaces")
        fds = {name: space.fds[0] for name, space in self.hosts.items()}
        self.switches.batch("ip", _switch_lines(plan, fds), tuple(fds.values()))
        for host in plan.hosts:
            space = self.hosts[host.name]
            space.call(_set_sysctls, host, plan.same_subnet(host))
            space.batch("ip", _host_lines(host))
            if host.sysfs_by_hand:
                space.call(_make_sysfs, host)
        self._wait()

    def _wait(self):
        """A link that has just come up may say so a little later."""
        for host in self.plan.hosts:
            end = time.monotonic() + 30
            while True:
                links = json.loads(self.hosts[host.name].tool(["ip", "-j", "link"]))
                up = {link["ifname"] for link in links if link["operstate"] == "UP"}
                if {p.name for p in host.usable()} <= up:
                    break
                if time.monotonic() > end:
                    raise spaces.ToolError("%s: not all of its links came up" % host.name)
                time.sleep(0.01)

    @contextlib.contextmanager
    def inside(self, space):
        """Sockets that are made meanwhile are there."""
        own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            kernel.setns(space.fds[0])
            yield
        finally:
            kernel.setns(own)
            os.close(own)

    def set_link(self, port, state, pulled):
        """pulled: the cable, which the host sees by its carrier; else the interface itself is set down or up."""
        if pulled:
            self.switches.batch("ip", ["link set dev %s %s" % (far_end(port), state)])
            return
        # IPv6 loses its addresses with the link.
        self.hosts[port.host.name].batch("ip", ["link set dev %s %s" % (port.name, state)] +
                                         (_address_lines(port, "replace") if state == "up" else []))

    def shape(self, rate):
        """Every port, both ways."""
        for port in self.plan.ports():
            for space, name in (self.hosts[port.host.name], port.name), (self.switches, far_end(port)):
                space.batch("tc", ["qdisc add dev %s root tbf rate %s burst 128k limit 1m" % (name, rate)])

    def readdress(self, port, gone_s=0):
        """Another address of the same subnet, after a while without one."""
        self.hosts[port.host.name].batch("ip", _address_lines(port, "del"))
        time.sleep(gone_s)
        port.host_number += 100
        self.hosts[port.host.name].batch("ip", _address_lines(port, "add"))

    def rename(self, port, name, gone_s):
        """The interface, which is down for a while."""
        self.set_link(port, "down", False)
        time.sleep(gone_s)
        self.hosts[port.host.name].batch("ip", ["link set dev %s name %s" % (port.name, name)])
        port.name = name
        self.set_link(port, "up", False)

    def close(self):
        for space in [self.switches, *self.hosts.values()]:
            space.close()


def _quiet_ipv6(space):
    if os.path.exists("/proc/sys/net/ipv6"):
        space.call(testbed.set_sysctl, "net.ipv6.conf.default.disable_ipv6", "1")


def far_end(port):
    return "far%d" % port.number


def _switch_lines(plan, fds):
    lines = ["link set lo up"]
    for segment in plan.segments:
        ports = [p for p in plan.ports() if p.segment is segment]
        if segment.kind == "cable":
            ends = ["name %s netns /proc/self/fd/%d" % (p.name, fds[p.host.name]) for p in ports]
            if len(ends) == 2:
                lines.append("link add %s type veth peer %s" % tuple(ends))
                continue
        bridge = "s%d" % segment.number
        if segment.kind == "switch":
            lines += ["link add name %s type bridge stp_state 0 mcast_snooping 0" % bridge, "link set dev %s up" % bridge]
        for p in ports:
            lines.append("link add name %s type veth peer name %s netns /proc/self/fd/%d"
                         % (far_end(p), p.name, fds[p.host.name]))
            lines.append("link set dev %s %s%s" % (
                far_end(p), "master %s " % bridge if segment.kind == "switch" else "",
                "down" if p.state == "no carrier" else "up"))
    return lines


def _set_sysctls(host, same_subnet):
    """Of ports in one subnet each answers for its own address alone, as their owners are advised to set it."""
    for key in ("all", *(port.name for port in host.ports)):
        testbed.set_sysctl("net.ipv4.conf.%s.rp_filter" % key, "0")
    if same_subnet:
        testbed.set_sysctl("net.ipv4.conf.all.arp_ignore", "1")
        testbed.set_sysctl("net.ipv4.conf.all.arp_announce", "2")
    for port in host.ports if os.path.exists("/proc/sys/net/ipv6") else ():
        # Without an address of that family it has no link-local one either.
        testbed.set_sysctl("net.ipv6.conf.%s.disable_ipv6" % port.name, "0" if "6" in port.families else "1")


def _address_lines(port, verb):
    return ["addr %s %s dev %s%s" % (verb, address, port.name, " nodad" if family == "6" and verb != "del" else "")
            for family, address in port.addresses().items()]


def _host_lines(host):
    lines = ["link set lo up"]
    for port in host.ports:
        lines += _address_lines(port, "add")
        if port.state != "down":
            lines.append("link set dev %s up" % port.name)
    if host.docker:
        lines += ["link add name docker0 type bridge", "addr add %s dev docker0" % drawing.DOCKER, "link set dev docker0 up",
                  "link add name vdocker type veth peer name cdocker", "link set dev vdocker master docker0 up",
                  "link set dev cdocker up"]
    return lines


def _make_sysfs(host):
    """In place of the kernel's: ports of cards, with their speeds."""
    told = {link["ifname"]: link for link in json.loads(
        subprocess.run(["ip", "-j", "link"], stdout=subprocess.PIPE, check=True).stdout)}
    kernel.mount("tmpfs", "/sys", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV)
    classes = pathlib.Path("/sys/class/net")
    classes.mkdir(parents=True)
    for slot, port in enumerate(host.ports, 1):
        if port.sysfs == "absent":
            continue
        link = told[port.name]
        card = "devices/pci0000:00/0000:%02x:00.0" % slot
        folder = pathlib.Path("/sys", card, "net", port.name)
        folder.mkdir(parents=True)
        (folder / "device").symlink_to("../../../%s" % os.path.basename(card))
        (classes / port.name).symlink_to("../../%s/net/%s" % (card, port.name))
        facts = {"type": 1, "ifindex": link["ifindex"], "iflink": link["ifindex"], "address": link["address"],
                 "mtu": link["mtu"], "carrier": int("LOWER_UP" in link["flags"]),
                 "speed": -1 if port.speed_Mbps is None else port.speed_Mbps}
        for name, value in facts.items():
            (folder / name).write_text("%s\n" % value)


# -------- a job over it --------

def counters(pid):
    """{interface: (received bytes, sent bytes)} where that process is."""
    with open("/proc/%d/net/dev" % pid, encoding="ascii") as f:
        rows = [re.split(r"[:\s]+", line.strip()) for line in f.readlines()[2:]]
    return {row[0]: (int(row[1]), int(row[9])) for row in rows}


class Job:
    """perf/paths on every host. Its ranks' answers and complaints are in files of `folder`."""

    def __init__(self, network, folder, env=(), words=(), message_bytes=MESSAGE_BYTES):
        self.network, self.plan, self.message_bytes = network, network.plan, message_bytes
        self.folder, self.ranks, self.rest = pathlib.Path(folder), [], b""
        words = [*words, *(["--ring"] if self.plan.ring else [])]
        bootstrap, address = self.plan.bootstrap, "127.0.0.1"
        if bootstrap is None:
            words += ["--bootstrap", "/proc/self/fd/%d" % network.switches.fds[0]]
        else:
            first = next(p for p in self.plan.hosts[0].ports if p.segment is bootstrap)
            address = first.addresses()["4"].partition("/")[0]
        self._file(0, "out").close()
        for rank, host in enumerate(self.plan.hosts):
            surroundings = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "NETPLUGIN_DEBUG": "INFO",
                            "RANK": str(rank), "WORLD_SIZE": str(len(self.plan.hosts)), "MASTER_ADDR": address,
                            "MASTER_PORT": PORT, "TRIBUTARY_STATE_DIR": str(self.folder / "state"),
                            "TRIBUTARY_METRICS": str(self.folder / "metrics"), **dict(env)}
            output = subprocess.PIPE if rank == 0 else self._file(rank, "out")
            self.ranks.append(subprocess.Popen(
                [PATHS, "--plugin", PLUGIN, "--bytes", str(message_bytes), *words], env=surroundings,
                preexec_fn=network.hosts[host.name].enter, pass_fds=network.switches.fds[:1], stdin=subprocess.PIPE,
                stdout=output, stderr=self._file(rank, "err"), bufsize=0))

    def _file(self, rank, what):
        return open(self.folder / ("%d.%s" % (rank, what)), "wb")

    def said(self, rank):
        """What the rank, with its plugin, complained of or told."""
        return (self.folder / ("%d.err" % rank)).read_text(errors="replace")

    def answers(self, what, timeout_s):
        """The first rank's next answer of that kind, with those before it; None: it ended, or said nothing for so long."""
        end, got = time.monotonic() + timeout_s, []
        while not got or got[-1]["what"] != what:
            line, newline, rest = self.rest.partition(b"\n")
            if newline:
                self.rest = rest
                got.append(json.loads(line))
                with open(self.folder / "0.out", "ab") as f:
                    f.write(line + b"\n")
                continue
            left_s = end - time.monotonic()
            if left_s <= 0 or not select.select([self.ranks[0].stdout], [], [], left_s)[0]:
                return None
            data = os.read(self.ranks[0].stdout.fileno(), 65536)
            if not data:
                return None
            self.rest += data
        return got

    def told(self, what):
        """All ranks' answers of that kind, by rank."""
        lines = [(self.folder / ("%d.out" % rank)).read_text().splitlines() for rank in range(len(self.ranks))]
        return [[row for row in map(json.loads, rows) if row["what"] == what] for rows in lines]

    def begin(self, line):
        with contextlib.suppress(BrokenPipeError):
            self.ranks[0].stdin.write(line.encode() + b"\n")

    def command(self, line, timeout_s=60):
        """None: it failed."""
        self.begin(line)
        return self.command_done(timeout_s)

    def command_done(self, timeout_s):
        return self.answers("done", timeout_s)

    def carriers(self, channel, a, b):
        """The interfaces that one message from rank a to rank b leaves by and comes in by; None: it did not come."""
        before = counters(self.ranks[a].pid), counters(self.ranks[b].pid)
        if self.command("send %d %d %d" % (channel, a, b)) is None:
            return None
        after = counters(self.ranks[a].pid), counters(self.ranks[b].pid)

        def most(side, direction):
            grown = {name: after[side][name][direction] - before[side].get(name, (0, 0))[direction] for name in after[side]}
            return [name for name, more in grown.items() if more > self.message_bytes // 20 and name != "lo"]
        return most(0, 1), most(1, 0)

    def end(self, timeout_s=60):
        """Exit statuses; of what had to be killed -9."""
        for rank in self.ranks:
            with contextlib.suppress(BrokenPipeError):
                rank.stdin.close()
        end = time.monotonic() + timeout_s
        for rank in self.ranks:
            try:
                rank.wait(max(0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()
        self.ranks[0].stdout.close()
        return [rank.returncode for rank in self.ranks]


@contextlib.contextmanager
def folder_of_job():
    with tempfile.TemporaryDirectory(prefix="tributary-networks-") as folder:
        for name in "state", "metrics":
            os.mkdir(os.path.join(folder, name), 0o700)
        yield folder


def in_namespaces(work):
    """work()'s exit status, in namespaces of its own; 77 where the kernel refuses them."""
    absent = commands.missing_tools()
    if absent:
        return commands.skip("%s not installed (Debian: iproute2, ethtool)" % ", ".join(absent))
    try:
        private.enter()
    except private.Refused as e:
        return commands.skip(e)
    return work()
