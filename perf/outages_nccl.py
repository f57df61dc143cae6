#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether NCCL goes on, with right sums, when a port of a host fails while another one leads there, and how long it waits.

    perf/outages_nccl.py --fakerun PROGRAM --lib DIR [--plugin FILE] [WORD ...]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with
libnccl.so.2 and rankbench. Without them, or without the right to make network namespaces, it says so and ends with status 77.

The hosts, network namespaces of this process alone, have two ports each, which are not joined in NCCL, of 800 Mbit/s, and one
for NCCL's bootstrap, which stays. The first port of the second host fails. Every sum is checked. A wait is a time of 0.3 s or
more in which no host sends 0.3 MB. WORD: those cases alone whose names have it.
"""

import argparse
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

import simulated_nccl

PORTS = 2
WAIT_S, WAIT_BYTES = 0.3, 300000
BEGIN_S = 5  # of traffic, before something fails


def hosts(count):
    """Host N has ports e0, e1 and m0, each on the bridge of that name."""
    ip = simulated_nccl.ip
    for host in range(count):
        ip("netns", "add", f"h{host}")
        ip("-n", f"h{host}", "link", "set", "lo", "up")
    for number, port in enumerate(["m0", *(f"e{k}" for k in range(PORTS))]):
        ip("link", "add", f"br{port}", "type", "bridge")
        ip("link", "set", f"br{port}", "up")
        for host in range(count):
            ip("link", "add", f"h{host}{port}", "type", "veth", "peer", "name", port, "netns", f"h{host}")
            ip("link", "set", f"h{host}{port}", "master", f"br{port}", "up")
            ip("-n", f"h{host}", "addr", "add", f"10.9.{number}.{host + 1}/24", "dev", port)
            ip("-n", f"h{host}", "link", "set", port, "up")
            for where in ["tc", "-n", f"h{host}"], ["tc"]:
                subprocess.run([*where, "qdisc", "add", "dev", port if len(where) > 1 else f"h{host}{port}", "root", "tbf",
                                "rate", "800mbit", "burst", "128k", "limit", "1m"], check=True)


def set_port(state):
    simulated_nccl.ip("-n", "h1", "link", "set", "e0", state)


def down_for(seconds):
    def happens():
        set_port("down")
        time.sleep(seconds)
        set_port("up")
    return happens, seconds


def flaps(seconds):
    def happens():
        end, rng = time.monotonic() + seconds, random.Random(1)
        while time.monotonic() < end:
            for state in "down", "up":
                set_port(state)
                time.sleep(rng.uniform(1, 3))
    return happens, seconds


def stops(seconds):
    def signal(name):
        pids = subprocess.run(["ip", "netns", "pids", "h1"], capture_output=True, text=True, check=True).stdout.split()
        subprocess.run(["kill", f"-{name}", *pids], check=False)

    def happens():
        signal("STOP")
        time.sleep(seconds)
        signal("CONT")
    return happens, seconds


FAILURES = {"down for 2 s": down_for(2), "down for 15 s": down_for(15), "down for good": (lambda: set_port("down"), 5),
            "up and down every 1 to 3 s for 30 s": flaps(30), "peer stopped for 12 s": stops(12)}
OPERATIONS = {"AllReduce by rings": ("allreduce", "Ring", {}), "AllReduce by trees": ("allreduce", "Tree", {}),
              "AllReduce by collnet": ("allreduce", "CollNetChain", {"NCCL_COLLNET_ENABLE": 1}), "AlltoAll": ("alltoall", "", {})}


class Waits(threading.Thread):
    """Looks at the ports' counters until it is told to stop; what happens, happens meanwhile."""

    def __init__(self, count, happens):
        super().__init__()
        self.holders = [subprocess.Popen(["ip", "netns", "exec", f"h{host}", "sleep", "1000"]) for host in range(count)]
        self.happens, self.ended, self.found, self.happened = happens, threading.Event(), [], False

    def sent(self):
        total = 0
        for holder in self.holders:
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
                happens = threading.Thread(target=self.happens)
                happens.start()
        self.happened = happens and not happens.is_alive()
        if happens:
            happens.join()
        for holder in self.holders:
            holder.kill()


def run(options, folder, count, operation, failure):
    program, algorithm, environment = OPERATIONS[operation]
    happens, seconds = FAILURES[failure]
    options.ranks, times = count, int((BEGIN_S + seconds + 8) / 2 / (0.1 * count if program == "allreduce" else 0.05))
    waits = Waits(count, happens)
    waits.start()
    try:
        _, log = simulated_nccl.run(
            options, folder, {"NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_SOCKET_IFNAME": "=m0", "TRIBUTARY_IF": "e",
                              "NCCL_PROTO": "Simple", "NCCL_ALGO": algorithm, **environment},
            ["-o", program, "-b", "16M", "-e", "16M", "-n", times])
    finally:
        waits.ended.set()
        waits.join()
        set_port("up")
    if not waits.happened:
        sys.exit(f"{count} hosts, {operation}, {failure}: the program ended before that")
    found = sorted(waits.found)
    told = f"{len(found)} waits, the longest {found[-1]:.1f} s, the median {found[len(found) // 2]:.1f} s" if found else "no wait"
    print(f"{count} hosts, {operation}, {failure}: sums right; {told}; another way taken {log.count('meanwhile')} times", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    simulated_nccl.add_arguments(parser, 3)
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
