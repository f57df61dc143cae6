#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs over drawn networks: does each connection find its path, and does it outlive its interface?

    test_jobs.py [NAME...]      "drawing 17", "ring of 3 cables", "outage of h0 e1 for 2 s"; without a name those of the gate

TRIBUTARY_TEST_LONG=1: all of them, within the times that are promised. Exit 0, 1, or 77 where the kernel refuses namespaces.
"""
import collections
import contextlib
import os
import random
import re
import resource
import selectors
import signal
import socket
import statistics
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "testbed")]

import build  # noqa: E402
import drawing  # noqa: E402
import reference  # noqa: E402

LONG = bool(os.environ.get("TRIBUTARY_TEST_LONG"))
DRAWN = 300 if LONG else 20
PROCESSES = 4
CASE_S = 600 if LONG else 120
CONNECT_S = 3                   # of a job that can run
SETTLE_S = 45                   # until a better path that connected late is used
PORTS = 20000, 20020            # in which a stranger listens, too
FLOOD = 1500                    # connections at a time: a process has 1024 places for those that say nothing
LONG_ONES = "-m length --length 300:65535"  # for iptables
METRIC = re.compile(r'^tributary_(sent_messages_total|connections)\{.*device="(\w+)"\} (\d+)$', re.MULTILINE)
FLOW_GAP_MS, FLOW_BYTES = 50, 128 << 10
RATE_BYTES, PAYLOAD = 4 << 20, 1448 / 1514
RECOVER_MOST_S, RECOVER_MEDIAN_S, RETURN_S = 5, 3, 5


class Skipped(Exception):
    """The machine cannot do what a case needs."""


def expect(is_so, text, *more):
    if not is_so:
        raise AssertionError(text % more if more else text)


def with_job(d, work, before=None, may_warn=None, **how):
    """work(job) over the drawing; afterwards all ranks have ended well, and none has warned of anything else."""
    network = build.Network(d)
    try:
        if before:
            before(network)
        with build.folder_of_job() as folder:
            job = build.Job(network, folder, **how)
            try:
                work(job)
                statuses = job.end()
                expect(not any(statuses), "exit statuses %s", statuses)
                warned = [line for rank in range(len(d.hosts)) for line in job.said(rank).splitlines()
                          if " WARN " in line and not (may_warn and may_warn in line)]
                expect(not warned, "warned: %s", warned[:3])
            except AssertionError as e:
                said = "\n".join("--- rank %d\n%s" % (rank, "\n".join(job.said(rank).splitlines()[-25:]))
                                 for rank in range(len(d.hosts)))
                raise AssertionError("%s\n%s\n%s" % (e, d.show(), said)) from None
            finally:
                job.end(0)
    finally:
        network.close()


def connected(job):
    """Devices of each rank, as ports. Every connection has carried a message."""
    answers = job.answers("connected", 60)
    expect(answers is not None, "the job did not come up")
    expect(job.command("flow 1 0"), "not every connection brought its first message")
    devices = []
    for host, told in zip(job.plan.hosts, job.told("device")):
        found = [row["name"] for row in told]
        expect(sorted(found) == sorted(p.name for p in host.usable()), "%s: devices %s", host.name, found)
        devices.append([host.port(name) for name in found])
    seconds = max(rows[0]["seconds"] for rows in job.told("connected"))
    expect(not LONG or seconds <= CONNECT_S, "it took %.2f s to connect", seconds)
    return devices


def check_paths(d):
    def work(job):
        devices, end = connected(job), time.monotonic() + SETTLE_S
        left = list(reference.connections(devices, d))
        while left:
            wrong = []
            for one in left:
                channel, a, b, own, peers = one
                found = job.carriers(channel, a, b)
                expect(found is not None, "channel %d from %d to %d: a message was lost", channel, a, b)
                right = reference.right_paths(d, a, b, own, peers)
                if found not in [([p.name], [q.name]) for p, q in right]:
                    wrong.append((one, found, right))
            expect(not wrong or time.monotonic() < end, "%d connections take another path:\n%s", len(wrong), "\n".join(
                "channel %d from %s %s to %s %s: %s, not %s" % (
                    channel, d.hosts[a].name, own.name, d.hosts[b].name, peers.name, found,
                    sorted((p.name, q.name) for p, q in right)) for (channel, a, b, own, peers), found, right in wrong[:8]))
            left = [one for one, _, _ in wrong]
            time.sleep(0.5 if left else 0)
    with_job(d, work)


def check_spread():
    """Connections that leave one path are spread over those of equal rank."""
    d, channels = drawing.Drawing("spread"), 12
    hosts = d.host("h0"), d.host("h1")
    for host in hosts:
        d.port(host, "alone", d.segment("lone", speed_Mbps=25000))
    for k in range(2):
        switch = d.segment()
        for host in hosts:
            d.port(host, "x%d" % k, switch)

    def work(job):
        devices, taken = connected(job), collections.Counter()
        for channel, a, b, own, _ in reference.connections(devices, d, channels):
            if a == 0 and own.name == "alone":
                taken[str(job.carriers(channel, a, b))] += 1
        expect(sorted(taken.values()) == [2, 2], "four connections that have no path of their own: %s", dict(taken))
    with_job(d, work, words=["--channels", str(channels)])


def check_no_path(d, reason="cannot connect", before=None):
    """What cannot run ends in time, with a line that names the other host and the reason."""
    limit_s, network = 5, build.Network(d)
    try:
        if before:
            before(network)
        with build.folder_of_job() as folder:
            began = time.monotonic()
            job = build.Job(network, folder, env={"TRIBUTARY_TIMEOUT": str(limit_s)}, words=["--timeout", "10"])
            came_up = job.answers("connected", 60)
            statuses, took_s = job.end(), time.monotonic() - began
            said = "".join(job.said(rank) for rank in range(len(d.hosts)))
            expect(came_up is None and any(statuses), "it came up\n%s", d.show())
            expect(took_s < 40, "it took %.1f s to end\n%s", took_s, d.show())
            lines = [line for line in said.splitlines() if " WARN " in line and "cannot connect" in line]
            expect(any(reason in line for line in lines), "no line has '%s':\n%s\n%s", reason, said, d.show())
            expect(all(any("to host " + h.name in line for h in d.hosts) for line in lines), "no host is named:\n%s", lines)
    finally:
        network.close()


# -------- interfaces that fail --------

def port_bytes(job, port):
    rank = job.plan.hosts.index(port.host)
    return sum(build.counters(job.ranks[rank].pid).get(port.name, (0, 0)))


def rate_of(job, port, seconds=1.0):
    before = port_bytes(job, port)
    time.sleep(seconds)
    return (port_bytes(job, port) - before) / seconds


def affected(job, devices, port):
    """The connections that have the port at one end."""
    return {(channel, a, b) for channel, a, b, own, peers in reference.connections(devices, job.plan) if port in (own, peers)}


def check_outage(d, port, down_s, again, pulled):
    """The port is down for so long, None: for good; then `again` times for 1 to 3 s."""
    rng = random.Random(again)

    def work(job):
        devices = connected(job)
        flow_s = 12 + (down_s or 4) + 4 * again
        job.begin("flow %d %d" % (flow_s * 1000 // FLOW_GAP_MS, FLOW_GAP_MS))
        time.sleep(1)
        before, lost_s = rate_of(job, port), time.monotonic()
        job.network.set_link(port, "down", pulled)
        if down_s is not None:
            time.sleep(down_s)
            job.network.set_link(port, "up", pulled)
            if not again:
                time.sleep(RETURN_S)
                after = rate_of(job, port)
                expect(after > 0.8 * before, "%.1f s after its return %s carries %.2f of what it did", RETURN_S, port.name,
                       after / before)
        for _ in range(again):
            for state in "down", "up":
                time.sleep(rng.uniform(1, 3))
                job.network.set_link(port, state, pulled)
        expect(job.command_done(flow_s + 60), "the flow did not end")
        judge_stalls(job, affected(job, devices, port), 1 + again, lost_s)
    with_job(d, work, message_bytes=FLOW_BYTES)


def check_lost_again():
    """A connection does not go back to a port that is lost again before it carries data."""
    d = drawing.equal_hosts(2, 2)
    port = d.hosts[1].ports[0]

    def work(job):
        connected(job)
        job.begin("flow %d %d" % (9 * 1000 // FLOW_GAP_MS, FLOW_GAP_MS))
        for state, after_s in ("down", 1), ("up", 3), ("down", 0.7):
            time.sleep(after_s)
            job.network.set_link(port, state, False)
        lost_s = time.monotonic()
        expect(job.command_done(90), "the flow did not end")
        found = [row for row in stalls(job, lost_s) if row[3] > -0.5 and row[4] > 1.5]
        expect(not found, "stood still after the second loss (channel, from, to, begin, seconds): %s", found)
    with_job(d, work, message_bytes=FLOW_BYTES)


def drop_all(network, port, how="DROP", which=""):
    """The host takes nothing more from that port, or no such packets."""
    try:
        network.hosts[port.host.name].tool(["iptables", "-w", "-A", "INPUT", "-i", port.name, "-p", "tcp", *which.split(),
                                            "-j", *how.split()])
    except (OSError, build.spaces.ToolError) as e:
        raise Skipped("iptables: %s" % e) from None


def counts_elsewhere(job, messages):
    """No connection counts for the first port any more, and no message twice."""
    end, numbers = time.monotonic() + SETTLE_S, {}
    while time.monotonic() < end:
        for path in (job.folder / "metrics").glob("*.prom"):
            for name, device, number in METRIC.findall(path.read_text()):
                numbers.setdefault((path.name, name), {})[device] = int(number)
        sent = [sum(n.values()) for (_, name), n in numbers.items() if name == "sent_messages_total"]
        there = [n["e0"] for (_, name), n in numbers.items() if name == "connections"]
        if sent == [messages // 2] * 2 and there == [0, 0]:
            return
        time.sleep(0.5)
    expect(False, "of %d messages: %s", messages, numbers)


def check_goes_on(happens, ports=2, seconds=8, **how):
    """Whatever happens to one of the two hosts' ports after a second, every message arrives, once and whole."""
    d = drawing.equal_hosts(2, ports)

    def work(job):
        connected(job)
        job.begin("flow %d %d" % (seconds * 1000 // FLOW_GAP_MS, FLOW_GAP_MS))
        time.sleep(1)
        happens(job.network, d.hosts[0].ports)
        expect(job.command_done(90), "the flow did not end")
        if happens is goes_down:
            counts_elsewhere(job, 2 * ports * (1 + seconds * 1000 // FLOW_GAP_MS))
    with_job(d, work, message_bytes=FLOW_BYTES, **how)


def goes_down(network, ports):
    network.set_link(ports[0], "down", False)


def comes_back(network, ports):
    goes_down(network, ports)
    time.sleep(3)
    network.set_link(ports[0], "up", False)


def takes_nothing(network, ports):
    drop_all(network, ports[0])


def takes_signs_of_life_alone(network, ports):
    """The peer is heard, but no packet size is short enough."""
    drop_all(network, ports[0], which=LONG_ONES)


def refuses(network, ports):
    """As a firewall may: the ends of a connection that go on over another port must not take it for the peer's word."""
    drop_all(network, ports[0], "REJECT --reject-with tcp-reset")


def both_in_turn(network, ports):
    """The one that serves the first fails, too, when the first is back."""
    comes_back(network, ports)
    time.sleep(0.5)
    for port in ports[1:]:
        drop_all(network, port)


def many_ports():
    """Of h1's ports those that h0 reaches are the last ones, for which a handle has no room; the first leads there, too."""
    d = drawing.Drawing("many ports")
    first, second = d.host("h0", sysfs_by_hand=False), d.host("h1", sysfs_by_hand=False)
    shared, other = d.segment(), d.segment()
    d.port(first, "a", shared)
    d.port(first, "b", other)
    d.port(second, "e0", other)
    for k in range(1, 10):
        d.port(second, "e%d" % k, d.segment())
    for k in range(10, 13):
        d.port(second, "e%d" % k, shared)
    return d


def check_told_late():
    """Ways that WELCOME alone has are taken at once, each by its part of the connections."""
    def work(job):
        devices, taken = connected(job), collections.Counter()
        for channel, a, b, own, _ in reference.connections(devices, job.plan, 12):
            if a == 0 and own.name == "a":
                taken[str(job.carriers(channel, a, b))] += 1
        expect(len(taken) == 3, "six connections over port a: %s", dict(taken))
        told = [line.partition("INFO ")[2] for line in job.said(0).splitlines() if "connections of device" in line]
        expect(len(told) == 4 == len(set(told)), "one line for each way that is taken, not %s", told)
    with_job(many_ports(), work, words=["--channels", "12"])


def check_lost_welcome():
    """The better way loses WELCOME, when the peer has left the first one for it: the job goes on all the same."""
    d = many_ports()

    def loses(network):
        drop_all(network, d.hosts[0].port("a"), which=LONG_ONES)

    def work(job):
        expect(job.answers("connected", 60) is not None, "the job did not come up")
        job.network.hosts["h0"].tool(["iptables", "-w", "-F", "INPUT"])
        expect(job.command("flow 50 0"), "the flow did not end")
    with_job(d, work, before=loses)


def comes_to(job, port, channel=0):
    """Both connections of the channel."""
    end = time.monotonic() + 60
    while True:
        found = [job.carriers(channel, *ranks) for ranks in ((0, 1), (1, 0))]
        expect(None not in found, "a message was lost")
        if found == [([port], [port])] * 2:
            return
        expect(time.monotonic() < end, "they keep to %s", found)
        time.sleep(1)


def check_another_address(gone_s):
    """A port whose address is another one, after a while with none, is used again."""
    d = drawing.equal_hosts(2, 2)

    def work(job):
        connected(job)
        job.network.readdress(d.hosts[1].ports[0], gone_s)
        comes_to(job, "e0")
        expect(job.command("flow 100 0"), "the flow did not end")
    with_job(d, work)


def check_loss_after_another_address(host):
    """A port whose address changed, which no message goes over, leads there when the other one is lost."""
    d = drawing.equal_hosts(2, 2)

    def work(job):
        connected(job)
        job.network.readdress(d.hosts[host].ports[1])
        comes_to(job, "e1", channel=1)
        time.sleep(1)
        job.network.set_link(d.hosts[1].ports[0], "down", False)
        began_s = time.monotonic()
        expect(job.command("flow 20 0"), "the flow did not end")
        expect(time.monotonic() - began_s < 10, "it took %.1f s", time.monotonic() - began_s)
    with_job(d, work)


def check_address_of_no_concern():
    """A connection that has lost its own port is left alone when an address changes that it does not need."""
    d = drawing.equal_hosts(2, 3)

    def work(job):
        connected(job)
        job.network.set_link(d.hosts[1].ports[0], "down", False)
        expect(job.command("flow 20 0"), "the flow did not end")
        for _ in range(2):
            job.network.readdress(d.hosts[1].ports[2])
            time.sleep(2)
        expect(job.command("flow 20 0"), "the flow did not end")
        found = job.said(1).count("are lost, the last one: an address of this host has changed")
        expect(found <= 2, "%d times a connection lost its only stream, where that port's own can twice", found)
    with_job(d, work)


def check_late_port():
    """A connection whose own ports did not answer at first goes over them once they do."""
    d = drawing.equal_hosts(2, 2)

    def work(job):
        connected(job)
        found = job.carriers(0, 0, 1)
        expect(found == (["e1"], ["e1"]), "while they do not answer it takes %s", found)
        job.network.hosts["h1"].tool(["iptables", "-w", "-F", "INPUT"])
        comes_to(job, "e0")
        expect(job.command("flow 100 0"), "the flow did not end")
    with_job(d, work, before=lambda network: drop_all(network, d.hosts[1].ports[0]))


def check_flood():
    """Somebody who opens connections and says nothing takes no place from the job."""
    d = drawing.equal_hosts(2, 1)

    def flood(network):
        network.switches.batch("ip", ["addr add 10.1.0.200/24 dev s0"])
        if os.fork():
            return
        network.switches.enter()
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        signal.alarm(CASE_S)
        address = d.hosts[1].ports[0].addresses()["4"].partition("/")[0]
        with selectors.DefaultSelector() as ready:
            while True:
                while len(ready.get_map()) < FLOOD:
                    one = socket.socket()
                    one.setblocking(False)
                    one.connect_ex((address, PORTS[0]))
                    ready.register(one, selectors.EVENT_READ)
                for key, _ in ready.select():
                    with contextlib.suppress(OSError):
                        if key.fileobj.recv(4096):
                            continue
                    ready.unregister(key.fileobj)
                    key.fileobj.close()

    def work(job):
        connected(job)
        expect(job.command("flow 100 0"), "the flow did not end")
    with_job(d, work, before=flood, may_warn="that said nothing before the next ones came", env={"TRIBUTARY_PORTS": "%d-%d" % (PORTS[0], PORTS[1] - 1)})


def check_new_address(d, port):
    def work(job):
        devices = connected(job)
        job.begin("flow %d %d" % (15 * 1000 // FLOW_GAP_MS, FLOW_GAP_MS))
        time.sleep(1)
        before, lost_s = rate_of(job, port), time.monotonic()
        job.network.readdress(port)
        time.sleep(RETURN_S)
        after = rate_of(job, port)
        expect(after > 0.8 * before, "%.1f s after its new address %s carries %.2f of what it did", RETURN_S, port.name,
               after / before)
        expect(job.command_done(90), "the flow did not end")
        judge_stalls(job, affected(job, devices, port), 1, lost_s)
    with_job(d, work, message_bytes=FLOW_BYTES)


def check_another_name():
    """A port that is renamed is used again, also where its sockets are tied to it."""
    d = drawing.equal_hosts(2, 2, one_subnet=True)
    port = d.hosts[0].ports[1]

    def work(job):
        connected(job)
        job.begin("flow %d %d" % (15 * 1000 // FLOW_GAP_MS, FLOW_GAP_MS))
        time.sleep(1)
        before = rate_of(job, port)
        job.network.rename(port, "renamed", gone_s=3)
        time.sleep(RETURN_S)
        after = rate_of(job, port)
        expect(after > 0.8 * before, "%.1f s after it was renamed it carries %.2f of what it did", RETURN_S, after / before)
        expect(job.command_done(90), "the flow did not end")
    with_job(d, work, message_bytes=FLOW_BYTES)


def check_routes_prefer_another():
    """As after `ip link set down` and up: the routes now lead out of the other port of the subnet."""
    d = drawing.equal_hosts(2, 2, one_subnet=True)
    port, lost = d.hosts[0].ports[0], "the routes lead it out of another port now"

    def work(job):
        connected(job)
        job.begin("flow %d %d" % (9 * 1000 // FLOW_GAP_MS, FLOW_GAP_MS))
        time.sleep(1)
        before = rate_of(job, port)
        for change in "del", "append":
            job.network.hosts["h0"].tool(["ip", "route", change, "10.1.0.0/24", "dev", port.name])
        time.sleep(RETURN_S)
        after = rate_of(job, port)
        expect(lost in job.said(0), "the change was not noticed")
        expect(after > 0.8 * before, "%.1f s later %s carries %.2f of what it did", RETURN_S, port.name, after / before)
        expect(job.command_done(90), "the flow did not end")
    with_job(d, work, message_bytes=FLOW_BYTES)


def check_rate(d, port, least):
    """From 3 s after the loss of a port the others carry so much of what they can: payload, in messages so long that the waits
    between them do not count."""
    def work(job):
        connected(job)
        job.begin("flow 50 0")
        time.sleep(1)
        others = [p for p in port.host.ports if p is not port]
        job.network.set_link(port, "down", False)
        time.sleep(3)
        before = [port_bytes(job, p) for p in others]
        time.sleep(5)
        carried_bps = sum(port_bytes(job, p) - b for p, b in zip(others, before)) * 8 / 5
        can_bps = 2 * len(others) * PAYLOAD * 100e6  # both ways
        expect(carried_bps >= least * can_bps, "%.0f of %.0f Mbit/s", carried_bps / 1e6, can_bps / 1e6)
        expect(job.command_done(200), "the flow did not end")
    with_job(d, work, before=lambda network: network.shape("100mbit"), message_bytes=RATE_BYTES)


def check_stranger(does):
    """Somebody else answers at an address of the peer: the job comes up all the same, and nobody writes a line."""
    d = drawing.overlapping()

    def work(job):
        connected(job)

    def stranger(network):
        far = build.far_end(d.hosts[0].port("odd0"))
        network.switches.batch("ip", ["addr add 192.168.9.2/24 dev %s" % far])
        with network.inside(network.switches):
            listeners = [socket.create_server(("192.168.9.2", port)) for port in range(*PORTS)]
        if os.fork() == 0:
            answer_as(does, listeners)
    with_job(d, work, before=stranger, env={"TRIBUTARY_PORTS": "%d-%d" % (PORTS[0], PORTS[1] - 1)})


def answer_as(does, listeners):
    """Until its network is gone."""
    signal.alarm(CASE_S)
    with selectors.DefaultSelector() as ready:
        for listener in listeners:
            ready.register(listener, selectors.EVENT_READ, True)
        while True:
            for key, _ in ready.select():
                if key.data:
                    guest = key.fileobj.accept()[0]
                    ready.register(guest, selectors.EVENT_READ, False)
                    if does == "sends a nonce":
                        guest.sendall(os.urandom(16))
                    continue
                try:
                    data = key.fileobj.recv(4096)
                    if data and does == "returns what it was sent":
                        key.fileobj.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    ready.unregister(key.fileobj)
                    key.fileobj.close()


def stalls(job, lost_s):
    """(channel, from, to, begin after the loss, for how long) of each."""
    held = job.told("held")

    def without_held(row):
        """Less what the machine kept one of the two ranks back."""
        ends = held[row["from"]] + held[row["to"]]
        return sum(1 for ms in range(int((row["ended_s"] - row["began_s"]) * 1000))
                   if not any(h["began_s"] <= row["began_s"] + ms / 1000 <= h["ended_s"] for h in ends)) / 1000

    return [(row["channel"], row["from"], row["to"], row["began_s"] - lost_s, without_held(row))
            for rows in job.told("stall") for row in rows]


def judge_stalls(job, who, losses, lost_s):
    """No connection stood still for longer than is promised, and none that has nothing to do with the port at all."""
    rows = stalls(job, lost_s)
    text = "".join("\nchannel %d from %d to %d stood still from %.1f s after the loss, for %.1f s%s" %
                   (*row, "" if row[:3] in who else ", and has other ports") for row in rows)
    waits = [wait_s for *_, wait_s in rows]
    waits += [0.0] * max(0, len(who) * losses - len(waits))  # those that went on at once
    expect(all(wait_s < 1 for *name, _, wait_s in rows if tuple(name) not in who), "others stood still:%s", text)
    expect(max(waits) <= RECOVER_MOST_S, "it took %.1f s:%s", max(waits), text)
    expect(statistics.median(waits) <= RECOVER_MEDIAN_S, "it took %.1f s in the median:%s", statistics.median(waits), text)


# -------- all of them --------

def cases():
    """{name: what to run}, in order."""
    found = {d.name: lambda d=d: check_paths(d) for d in (
        drawing.ring_of_cables(), drawing.ring_of_cables(4), drawing.unequal_ports(), drawing.unequal_ports(("ens2", "ens1")),
        drawing.one_family_each(), drawing.equal_hosts(3, 2), drawing.equal_hosts(2, 3, one_subnet=True))}
    for does in "is silent", "sends a nonce", "returns what it was sent":
        found["a stranger %s" % does] = lambda does=does: check_stranger(does)
    found["ports that a handle has no room for"] = check_told_late
    found["a better way that loses WELCOME"] = check_lost_welcome
    found["a port that answers late"] = check_late_port
    found["a port with another address"] = lambda: check_another_address(0)
    found["a port with another address, later"] = lambda: check_another_address(6)
    found["a port with another name"] = check_another_name
    found["routes that prefer another port"] = check_routes_prefer_another
    found["a port is lost again before it carries"] = check_lost_again
    for host in range(2):
        found["a port is lost, another address before, h%d" % host] = lambda host=host: check_loss_after_another_address(host)
    found["an address that is of no concern"] = check_address_of_no_concern
    found["a flood of strangers"] = check_flood
    found["2 hosts with 14 ports"] = lambda: check_paths(drawing.equal_hosts(2, 14))
    for name, happens, how in (
            ("is lost", goes_down, {}), ("is lost, to callers that never rest", goes_down, {"words": ["--spin"]}),
            ("is lost for a while, by several streams", comes_back, {"env": {"TRIBUTARY_STREAMS": "4"}}),
            ("takes nothing any more", takes_nothing, {}), ("refuses", refuses, {}),
            ("takes signs of life alone", takes_signs_of_life_alone, {}),
            ("is lost, then the other", both_in_turn, {"ports": 3, "seconds": 12})):
        found["a port %s" % name] = lambda happens=happens, how=how: check_goes_on(happens, **how)
    found["two hosts apart"] = lambda: check_no_path(drawing.apart(), "no route leads there")
    for d in map(drawing.draw, range(DRAWN)):
        found[d.name] = lambda d=d: (check_paths if drawing.can_run(d) else check_no_path)(d)
    if not LONG:
        return found
    found["spread"] = check_spread
    for shape in (4, 2, False), (3, 2, True), (3, 3, False):
        for host in range(shape[0]):
            for k in range(shape[1]):
                for what, down_s, again in (("for good", None, 0), ("for 2 s", 2, 0), ("for 20 s", 20, 0), ("again and again", 2, 45)):
                    d, pulled = drawing.equal_hosts(*shape), (host + k) % 2 == 1
                    found["outage of h%d e%d %s, %s%s" % (host, k, what, d.name, ", cable" if pulled else "")] = \
                        lambda d=d, port=d.hosts[host].ports[k], down_s=down_s, again=again, pulled=pulled: \
                        check_outage(d, port, down_s, again, pulled)
                d = drawing.equal_hosts(*shape)
                found["new address of h%d e%d, %s" % (host, k, d.name)] = \
                    lambda d=d, port=d.hosts[host].ports[k]: check_new_address(d, port)
    for ports, least in (2, 0.9), (3, 0.75):
        d = drawing.equal_hosts(2, ports)
        found["rate after an outage, %s" % d.name] = lambda d=d, least=least: check_rate(d, d.hosts[0].ports[0], least)
    return found


def run_case(work):
    """In a child: its status."""
    try:
        signal.alarm(CASE_S)
        work()
        return 0
    except Skipped as e:
        print(e)
        return build.commands.SKIPPED
    except AssertionError as e:
        print(e)
    except Exception:  # what broke is told like any other failure
        traceback.print_exc(file=sys.stdout)
    return 1


def run_all(found):
    """Several at a time: most of their time is waited for."""
    waiting, running, failed, left_out = list(found.items()), {}, 0, 0
    while waiting or running:
        while waiting and len(running) < PROCESSES:
            name, work = waiting.pop(0)
            output = tempfile.TemporaryFile("w+", encoding="utf-8")
            pid = os.fork()
            if pid == 0:
                os.dup2(output.fileno(), 1)
                sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
                status = run_case(work)
                sys.stdout.flush()
                os._exit(status)
            running[pid] = name, output, time.monotonic()
        pid, status = os.wait()
        if pid not in running:
            continue  # process 1 of the namespace reaps whatever was left behind
        name, output, began = running.pop(pid)
        output.seek(0)
        text = output.read()
        skipped = os.WIFEXITED(status) and os.WEXITSTATUS(status) == build.commands.SKIPPED
        print("%-8s%-60s%.1f s" % ("skipped" if skipped else "FAILED" if status else "ok", name, time.monotonic() - began))
        if status:
            failed += not skipped
            left_out += skipped
            print(text or "signal %d" % (status & 127))
        sys.stdout.flush()
    print("%d ok, %d failed, %d skipped" % (len(found) - failed - left_out, failed, left_out))
    return failed > 0


def main():
    found = cases()
    if sys.argv[1:]:
        found = {name: work for name, work in found.items() if any(word in (name, name.split(",")[0]) for word in sys.argv[1:])}
        if not found:
            print("there is no case of that name; TRIBUTARY_TEST_LONG=1 has more", file=sys.stderr)
            return 2
    return build.in_namespaces(lambda: run_all(found))


if __name__ == "__main__":
    sys.exit(main())
