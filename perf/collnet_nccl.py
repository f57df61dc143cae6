#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether NCCL's sums over collnet are right on hosts with unlike numbers of ports.

    perf/collnet_nccl.py --fakerun PROGRAM --lib DIR [--plugin FILE]

Needs an NCCL 2.30 that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with
libnccl.so.2 and rankbench. Without them, or without the right to make network namespaces, it says so and ends with status 77.

Three hosts, network namespaces of this process alone, with one, two and three ports, and NCCL's bootstrap on the network that
all have. Unasked there is no collnet device, and no init fails. With NCCL_COLLNET_ENABLE=1 NCCL finds unlike numbers of them
and goes on, as the environment half says. With one GPU or one card on each host all AllReduces are collnet's; with two GPUs and
several cards there is no group, and NCCL goes on by rings and trees. Every sum is checked.
"""

import argparse
import pathlib
import sys
import tempfile

import simulated_nccl

HOSTS = 3
UNLIKE = "Detected mixed local CollNet device counts across ranks (min 1, max %d). Ignoring"


def hosts():
    """Host N has ports eth0 to ethN, each on the bridge of that number."""
    for port in range(HOSTS):
        simulated_nccl.ip("link", "add", f"br{port}", "type", "bridge")
        simulated_nccl.ip("link", "set", f"br{port}", "up")
    for host in range(HOSTS):
        simulated_nccl.ip("netns", "add", f"h{host}")
        simulated_nccl.ip("-n", f"h{host}", "link", "set", "lo", "up")
        for port in range(host + 1):
            simulated_nccl.ip("link", "add", f"h{host}p{port}", "type", "veth", "peer", "name", f"eth{port}", "netns", f"h{host}")
            simulated_nccl.ip("link", "set", f"h{host}p{port}", "master", f"br{port}", "up")
            simulated_nccl.ip("-n", f"h{host}", "addr", "add", f"10.9.{port}.{host + 1}/24", "dev", f"eth{port}")
            simulated_nccl.ip("-n", f"h{host}", "link", "set", f"eth{port}", "up")


def run(options, folder, ranks, per_host, environment):
    """The algorithms of all AllReduces, and NCCL's lines."""
    options.ranks = ranks
    _, log = simulated_nccl.run(options, folder, {"NCCL_DEBUG_SUBSYS": "INIT,NET,TUNING", "NCCL_SOCKET_IFNAME": "=eth0",
                                                  "TRIBUTARY_IF": "eth", **environment},
                                ["-o", "allreduce", "-b", "4K", "-e", "4M", "-f", "8", "-n", "2"], per_host)
    return {algorithm for _, _, algorithm, _, _ in simulated_nccl.choices(log, options.ranks)}, log


def check(what, is_right):
    print(f"{what}: {'yes' if is_right else 'NO'}")
    return is_right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    simulated_nccl.add_arguments(parser, HOSTS)
    options = simulated_nccl.parse(parser)
    simulated_nccl.own_namespaces()
    options.netns = "h"
    hosts()
    right = True
    asked = {"NCCL_COLLNET_ENABLE": 1, "NCCL_PROTO": "Simple"}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, log = run(options, folder / "unasked", HOSTS, 1, {})
        right &= check("unasked: no collnet device, sums right", "CollNet device counts across ranks: min 0 max 0" in log)
        algorithms, log = run(options, folder / "one", HOSTS, 1, {**asked, "NCCL_ALGO": "CollNetChain"})
        right &= check("one GPU a host: collnet alone, sums right", UNLIKE % HOSTS in log and algorithms == {"COLLNET_CHAIN"})
        for gpus in (2, 3, 4):
            algorithms, log = run(options, folder / f"mixed{gpus}", gpus + 1, gpus, {**asked, "NCCL_ALGO": "CollNetChain"})
            right &= check(f"{gpus} GPUs and one card, beside one GPU and two cards: collnet alone, sums right",
                           UNLIKE % 2 in log and algorithms == {"COLLNET_CHAIN"})
        algorithms, log = run(options, folder / "two", 2 * HOSTS, 2, {**asked, "NCCL_ALGO": "ring;allreduce:collnetchain,ring"})
        right &= check("two GPUs a host: no collnet, sums right", UNLIKE % HOSTS in log and algorithms == {"RING"})
    sys.exit(0 if right else "FAILED")


main()
