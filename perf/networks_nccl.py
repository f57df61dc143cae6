#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whether NCCL runs, with right sums, on hosts whose ports are unequal.

    perf/networks_nccl.py --fakerun PROGRAM --lib DIR [--plugin FILE] [WORD ...]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with
libnccl.so.2 and rankbench. Without them, or without the right to make network namespaces, it says so and ends with status 77.

The networks are those of tests/networks: fixed ones, and ten that are drawn. NCCL's own bootstrap is led to the network that it
needs, and TRIBUTARY_IF=^lo set beside that; nothing else is. WORD: those networks alone whose names have it.
"""

import argparse
import itertools
import os
import pathlib
import sys
import tempfile

import simulated_nccl

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests" / name) for name in ("networks", "testbed")]

import build  # noqa: E402
import drawing  # noqa: E402

DRAWN = 10
BYTES = "1M", "16M"
BLACK_HOLE = "a switch that drops long packets"
# The rank's host: its namespaces are descriptors of this program.
ENTER = """#!/bin/sh
export FAKE_IDFILE={folder}/id
case $FAKE_RANK in
{cases}
esac
exec nsenter --net=/proc/{pid}/fd/$net --mount=/proc/{pid}/fd/$mount {program} "$@"
"""


def black_hole():
    """Hosts at 9000 bytes, the switch between them at 1500, and NCCL's bootstrap on another one."""
    d = drawing.equal_hosts(2, 1)
    d.name, d.bootstrap = BLACK_HOLE, d.segment()
    for host in d.hosts:
        d.port(host, "m0", d.bootstrap)
    return d


def networks():
    yield drawing.ring_of_cables()
    yield drawing.unequal_ports()
    both = drawing.one_family_each()
    both.bootstrap = both.segments[0]
    yield both
    yield black_hole()
    drawn = (drawing.draw(seed) for seed in itertools.count())
    yield from itertools.islice((d for d in drawn if d.bootstrap and drawing.can_run(d)), DRAWN)


def lengthen_packets(network):
    for port in (p for p in network.plan.ports() if p.segment is not network.plan.bootstrap):
        network.hosts[port.host.name].batch("ip", ["link set dev %s mtu 9000" % port.name])
        for space, name in (network.hosts[port.host.name], port.name), (network.switches, build.far_end(port)):
            space.tool(["ethtool", "-K", name, "tso", "off", "gso", "off", "gro", "off"])


def run(options, folder, plan):
    at_bootstrap = [next(p for p in host.ports if p.segment is plan.bootstrap) for host in plan.hosts]
    names = sorted({port.name for port in at_bootstrap})
    family = "AF_INET" if all("4" in port.families for port in at_bootstrap) else "AF_INET6"
    network = build.Network(plan)
    try:
        if plan.name == BLACK_HOLE:
            lengthen_packets(network)
        enter = folder / "enter"
        enter.write_text(ENTER.format(
            folder=folder, pid=os.getpid(), program=options.lib / "rankbench",
            cases="\n".join("%d) net=%d mount=%d ;;" % (rank, *network.hosts[host.name].fds[:2])
                            for rank, host in enumerate(plan.hosts))))
        enter.chmod(0o755)
        options.ranks, options.program = len(plan.hosts), enter
        for algorithm in ("Ring",) if plan.ring else ("Ring", "Tree"):
            for operation in ("allreduce",) if plan.ring or algorithm == "Tree" else ("allreduce", "alltoall"):
                out, log = simulated_nccl.run(
                    options, folder / (algorithm + operation),
                    {"NCCL_SOCKET_IFNAME": "=" + ",".join(names), "NCCL_SOCKET_FAMILY": family, "TRIBUTARY_IF": "^lo",
                     "NCCL_ALGO": algorithm, "NCCL_PROTO": "Simple", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
                    ["-o", operation, "-b", BYTES[0], "-e", BYTES[1], "-f", 4, "-n", 5])
                (folder / "id").unlink(missing_ok=True)
                yield operation if operation == "alltoall" else "%s by %ss" % (operation, algorithm.lower()), out, log
    finally:
        network.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    simulated_nccl.add_arguments(parser, 0)
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = simulated_nccl.parse(parser)
    simulated_nccl.own_namespaces()
    options.netns, count = None, 0
    for plan in networks():
        if options.words and not any(word in plan.name for word in options.words):
            continue
        with tempfile.TemporaryDirectory() as name:
            for what, _, log in run(options, pathlib.Path(name), plan):
                own_ways = log.count("connections of device")
                print("%s, %d hosts with %d ports: %s: sums right; %d devices reach a host by other ports than their own" %
                      (plan.name, len(plan.hosts), len(plan.ports()), what, own_ways), flush=True)
                count += 1
    print("%d of %d right" % (count, count))


main()
