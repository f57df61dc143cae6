#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether NCCL goes on, with right sums, when a port of a host fails while another one leads there, and how long it waits.

    perf/outages_nccl.py --fakerun PROGRAM --lib DIR [--plugin FILE] [--daemon FILE] [WORD ...]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with
libnccl.so.2 and rankbench. Without them, or without the right to make network namespaces, it says so and ends with status 77.

The hosts, network namespaces of this process alone, have two ports each, which are not joined in NCCL, of 800 Mbit/s, and one
for NCCL's bootstrap, which stays. The first port of the second host fails, or that of a further host with an aggregator, whose
control connections go over the network that stays. Every sum is checked. A wait is a time of 0.3 s or more in which no host
sends 0.3 MB. WORD: those cases alone whose names have it.
"""

import argparse
import contextlib
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import simulated_nccl

PORTS = 2
WAIT_S, WAIT_BYTES = 0.3, 300000
MIB = 1 << 20
BEGIN_S = 5  # of traffic, before something fails


def hosts(count):
    """Host N has ports e0, e1 and m0, each on the bridge of that name. One more has the aggregator, and ports as fast as they go."""
    ip = simulated_nccl.ip
    for host in range(count + 1):
        ip("netns", "add", f"h{host}")
        ip("-n", f"h{host}", "link", "set", "lo", "up")
    for number, port in enumerate(["m0", *(f"e{k}" for k in range(PORTS))]):
        ip("link", "add", f"br{port}", "type", "bridge")
        ip("link", "set", f"br{port}", "up")
        for host in range(count + 1):
            ip("link", "add", f"h{host}{port}", "type", "veth", "peer", "name", port, "netns", f"h{host}")
            ip("link", "set", f"h{host}{port}", "master", f"br{port}", "up")
            ip("-n", f"h{host}", "addr", "add", f"10.9.{number}.{host + 1}/24", "dev", port)
            ip("-n", f"h{host}", "link", "set", port, "up")
            for where in (["tc", "-n", f"h{host}"], ["tc"]) if host < count else ():
                subprocess.run([*where, "qdisc", "add", "dev", port if len(where) > 1 else f"h{host}{port}", "root", "tbf",
                                "rate", "800mbit", "burst", "128k", "limit", "1m"], check=True)


def set_port(host, state):
    simulated_nccl.ip("-n", host, "link", "set", "e0", state)


def down_for(seconds):
    def happens(host):
        set_port(host, "down")
        time.sleep(seconds)
        set_port(host, "up")
    return happens, seconds


def flaps(seconds):
    def happens(host):
        end, rng = time.monotonic() + seconds, random.Random(1)
        while time.monotonic() < end:
            for state in "down", "up":
                set_port(host, state)
                time.sleep(rng.uniform(1, 3))
    return happens, seconds


def stops(seconds):
    def signal(host, name):
        pids = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=True).stdout.split()
        subprocess.run(["kill", f"-{name}", *pids], check=False)

    def happens(host):
        signal(host, "STOP")
        time.sleep(seconds)
        signal(host, "CONT")
    return happens, seconds


FAILURES = {"down for 2 s": down_for(2), "down for 15 s": down_for(15), "down for good": (lambda host: set_port(host, "down"), 5),
            "up and down every 1 to 3 s for 30 s": flaps(30), "peer stopped for 12 s": stops(12)}
OPERATIONS = {"AllReduce by rings": ("allreduce", "Ring", {}), "AllReduce by trees": ("allreduce", "Tree", {}),
              "AllReduce by collnet": ("allreduce", "CollNetChain", {"NCCL_COLLNET_ENABLE": 1}), "AlltoAll": ("alltoall", "", {}),
              "AllReduce by an aggregator": ("allreduce", "CollNetChain", {"NCCL_COLLNET_ENABLE": 1})}


class Waits(threading.Thread):
    """Looks at the ports' counters until it is told to stop; what happens to a host, happens meanwhile."""

    def __init__(self, count, happens, host):
        super().__init__()
        self.holders = [subprocess.Popen(["ip", "netns", "exec", f"h{host}", "sleep", "1000"]) for host in range(count)]
        self.happens, self.host, self.ended, self.found, self.happened = happens, host, threading.Event(), [], False

    def sent(self, *holders):
        total = 0
        for holder in holders or self.holders:
            with open(f"/proc/{holder.pid}/net/dev", encoding="ascii") as f:
                total += sum(int(row[1].split()[8]) for row in re.findall(r"^ *(e\d+):(.*)$", f.read(), re.MULTILINE))
        return total

    def run(self):
        before, moved_s, began_s, happens = self.sent(), time.monotonic(), None, None
        while not self.ended.wait(0.02):
            now = self.sent()
            if now - before >= WAIT_BYTES:
                if began_s and time.monotonic() - moved_s >= WAIT_S:
                    self.found.append(time.monotonic() - moved_s)
                before, moved_s = now, time.monotonic()
                began_s = began_s or moved_s
            if began_s and not happens and time.monotonic() - began_s > BEGIN_S:
                happens = threading.Thread(target=self.happens, args=[self.host])
                happens.start()
        self.happened = happens and not happens.is_alive()
        self.last_sent = self.sent(self.holders[-1])
        if happens:
            happens.join()
        for holder in self.holders:
            holder.kill()


@contextlib.contextmanager
def aggregator(options, folder, host):
    """Serves on that host; yields what a job needs to know."""
    secret, cluster, at = folder / "secret", folder / "cluster", f"10.9.0.{int(host[1:]) + 1}:7471"
    folder.mkdir(parents=True)
    secret.write_text("a secret of these runs")
    secret.chmod(0o600)
    cluster.write_text("tributary-cluster 1\nswitch leaf\n"
                       f"host {socket.gethostname()} leaf=leaf rate=1.6Gbit/s\naggregator {at} leaf=leaf rate=10Gbit/s\n")
    with open(folder / "log", "w", encoding="utf-8") as log:
        daemon = subprocess.Popen(["ip", "netns", "exec", host, options.daemon, "--listen", at, "--secret", secret],
                                  stderr=log, env={**os.environ, "TRIBUTARY_IF": "e"})
    try:
        yield {"TRIBUTARY_CLUSTER": cluster, "TRIBUTARY_SECRET": secret}
    finally:
        daemon.terminate()
        daemon.wait()


def run(options, folder, count, operation, failure):
    program, algorithm, environment = OPERATIONS[operation]
    happens, seconds = FAILURES[failure]
    served = operation.endswith("aggregator")
    host = f"h{count}" if served else "h1"
    options.ranks, times = count, int((BEGIN_S + seconds + 8) / 2 / (0.1 * count if program == "allreduce" else 0.05))
    waits = Waits(count + served, happens, host)
    before = waits.sent(waits.holders[-1])
    waits.start()
    try:
        with aggregator(options, folder / "aggregator", host) if served else contextlib.nullcontext({}) as more:
            _, log = simulated_nccl.run(
                options, folder, {"NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_SOCKET_IFNAME": "=m0", "TRIBUTARY_IF": "e",
                                  "NCCL_PROTO": "Simple", "NCCL_ALGO": algorithm, **environment, **more},
                ["-o", program, "-b", "16M", "-e", "16M", "-n", times])
    finally:
        waits.ended.set()
        waits.join()
        set_port(host, "up")
    if not waits.happened:
        sys.exit(f"{count} hosts, {operation}, {failure}: the program ended before that")
    if served and waits.last_sent - before < times * MIB:
        sys.exit(f"{count} hosts, {operation}, {failure}: the aggregator was not used:\n{log[-4000:]}")
    found = sorted(waits.found)
    told = f"{len(found)} waits, the longest {found[-1]:.1f} s, the median {found[len(found) // 2]:.1f} s" if found else "no wait"
    print(f"{count} hosts, {operation}, {failure}: sums right; {told}; another way taken {log.count('meanwhile')} times", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    simulated_nccl.add_arguments(parser, 3)
    parser.add_argument("--daemon", default="build/tributaryd", type=pathlib.Path)
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = simulated_nccl.parse(parser)
    simulated_nccl.own_namespaces()
    options.netns = "h"
    hosts(options.ranks)
    count, cases, waits = options.ranks, 0, []
    with tempfile.TemporaryDirectory() as name:
        for number, (operation, failure) in enumerate((o, f) for o in OPERATIONS for f in FAILURES):
            if not options.words or any(word in f"{operation}, {failure}" for word in options.words):
                waits += run(options, pathlib.Path(name) / str(number), count, operation, failure)
                cases += 1
    waits.sort()
    print(f"{count} hosts: {cases} of {cases} cases right; the longest of {len(waits)} waits {waits[-1] if waits else 0:.1f} s, "
          f"the median {waits[len(waits) // 2] if waits else 0:.1f} s")


main()
