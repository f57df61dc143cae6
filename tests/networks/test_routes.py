#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/guide/settings.md says of unusual addresses and routes: the ports that two hosts' connections use then.

    test_routes.py [NAME...]      without a name all

Exit 0, 1, or 77 where the kernel refuses namespaces.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "testbed")]

import build  # noqa: E402
import drawing  # noqa: E402
import test_jobs  # noqa: E402
from test_jobs import expect  # noqa: E402

OWN = {0: (["e0"], ["e0"]), 1: (["e1"], ["e1"])}


def address(port):
    return port.addresses()["4"].partition("/")[0]


def check(d, change, taken, **how):
    """change(network, host, peer) on each host; then the message of each channel takes those interfaces."""
    def before(network):
        for host, peer in zip(d.hosts, reversed(d.hosts)):
            change(network, host, peer)

    def work(job):
        expect(job.answers("connected", 60) is not None, "the job did not come up")
        expect(job.command("flow 1 0"), "not every connection brought its first message")
        for channel, expected in taken.items():
            found = job.carriers(channel, 0, 1)
            expect(found == expected, "channel %d takes %s, not %s", channel, found, expected)
    test_jobs.with_job(d, work, before=before, **how)


def ip(network, host, lines):
    network.hosts[host.name].batch("ip", lines)


def host_routes(network, host, peer):
    for own, other in zip(host.ports, peer.ports):
        ip(network, host, ["addr del %s dev %s" % (own.addresses()["4"], own.name),
                           "addr add %s/32 dev %s" % (address(own), own.name),
                           "route add %s/32 dev %s" % (address(other), own.name)])


def rules(network, host, peer):
    """The main table knows the first port alone; a rule for each address leads to its own."""
    del peer
    for k, port in enumerate(host.ports):
        subnet = port.addresses()["4"].rpartition(".")[0] + ".0/24"
        ip(network, host, ["route add %s dev %s table %d" % (subnet, port.name, 100 + k),
                           "rule add from %s table %d" % (address(port), 100 + k)])
        if k:
            ip(network, host, ["route replace %s dev e0" % subnet])


def without_addresses(network, host):
    for port in host.ports:
        ip(network, host, ["addr flush dev %s" % port.name])


def link_local_4(network, host, peer):
    del peer
    without_addresses(network, host)
    for k, port in enumerate(host.ports):
        ip(network, host, ["addr add 169.254.%d.%d/24 dev %s" % (k, port.host_number, port.name)])


def link_local_6(network, host, peer):
    """As the kernel makes them."""
    del peer
    without_addresses(network, host)
    for port in host.ports:
        network.hosts[host.name].call(build.testbed.set_sysctl, "net.ipv6.conf.%s.disable_ipv6" % port.name, "0")
        ip(network, host, ["addr add fe80::%d/64 dev %s nodad" % (port.host_number, port.name)])


def unchanged(network, host, peer):
    del network, host, peer


def forwarded(network, host, peer):
    """The second host's port is on another subnet, behind a router; it has one, the first has two."""
    del peer
    if host.name == "h0":
        network.switches.batch("ip", ["addr add 10.1.0.250/24 dev s0", "addr add 10.2.0.250/24 dev s1"])
        network.switches.call(build.testbed.set_sysctl, "net.ipv4.ip_forward", "1")
    ip(network, host, ["route add default via 10.%d.0.250" % (1 if host.name == "h0" else 2)])


def hidden(network, host, peer):
    """The same, and the router gives the first host its own address: nobody reaches that host."""
    forwarded(network, host, peer)
    if host.name == "h0":
        try:
            network.switches.tool("iptables -w -t nat -A POSTROUTING -s 10.1.0.0/24 -o s1 -j MASQUERADE".split())
        except (OSError, build.spaces.ToolError) as e:
            raise test_jobs.Skipped("iptables: %s" % e) from None
    else:
        ip(network, host, ["route del default"])


def behind_a_router():
    d = drawing.Drawing("two subnets and a router")
    for k, segment in enumerate((d.segment(), d.segment())):
        d.port(d.host("h%d" % k), "e0", segment)
    return d


def ipv6_alone():
    d = drawing.Drawing("IPv6 alone")
    segments = d.segment(families="6"), d.segment(families="6")
    for host in d.host("h0"), d.host("h1"):
        for k, segment in enumerate(segments):
            d.port(host, "e%d" % k, segment)
    return d


def check_hidden():
    """It ends in time, and the line says what is not reached."""
    d = behind_a_router()
    test_jobs.check_no_path(d, "no route leads there", before=lambda network: [
        hidden(network, host, peer) for host, peer in zip(d.hosts, reversed(d.hosts))])


def main():
    two = drawing.equal_hosts
    cases = {
        "addresses without a subnet, host routes": lambda: check(two(2, 2), host_routes, OWN),
        "a rule and a table for each address": lambda: check(two(2, 2), rules, OWN),
        "two ports in one subnet": lambda: check(two(2, 2, True), unchanged, OWN),
        "link-local IPv4 alone": lambda: check(two(2, 2), link_local_4, OWN),
        "link-local IPv6 alone": lambda: check(two(2, 1), link_local_6, {0: OWN[0]}),
        "IPv6 alone": lambda: check(ipv6_alone(), unchanged, OWN),
        "behind a router": lambda: check(behind_a_router(), forwarded, {0: OWN[0]}),
        "behind NAT": check_hidden,
    }
    if sys.argv[1:]:
        cases = {name: work for name, work in cases.items() if name in sys.argv[1:]}
    return build.in_namespaces(lambda: test_jobs.run_all(cases))


if __name__ == "__main__":
    sys.exit(main())
