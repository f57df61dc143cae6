#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether NCCL goes on over RDMA, with right sums, when a way between two hosts fails, and how long it waits.

    perf/rdma_nccl.py --vmrank PROGRAM --lib DIR [--build DIR] [--runs COUNT] [--seconds COUNT] [--set NAME=VALUE] [WORD ...]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a program that starts a host's rank, and a
folder with libnccl.so.2 and rankbench. Without them, or where no virtual machines can be had (tests/vm), it says so and ends with
status 77.

The hosts are virtual machines with SoftRoCE on two cables, joined to one device in NCCL or two devices, and a third cable for NCCL's
bootstrap, which stays. The first cable fails at the second host, or TCP on both, which RDMA's control connections go over, and later
something else. One AllReduce of 64 KiB follows another, and every element is checked on both hosts. A wait is the time of an AllReduce
that takes over a second, without the first. "alone" is the second cable without the first. Of a rankbench that prints each AllReduce's
time, not those over a second alone, the number after the first change is said, and the 95th percentile from 5 s after the last one on.
WORD: those cases alone that the expression matches.
"""

import argparse
import pathlib
import random
import re
import subprocess
import sys

VM = pathlib.Path(__file__).resolve().parent.parent / "tests/vm/vm"
BEGIN_S = 15  # from the start of the command; NCCL's init takes less

LAYOUTS = {"joined": ["NCCL_NET_MERGE_LEVEL=SYS", "NCCL_NET_FORCE_MERGE=rxe0,rxe1", "TRIBUTARY_JOIN=always"],
           "apart": [], "alone": ["TRIBUTARY_HCA=rxe1", "TRIBUTARY_IF=rail1"]}
SETTLED_S = 5
TIMEOUT_S = 30  # TRIBUTARY_TIMEOUT's default


def link(begin_s, end_s):
    events = [(begin_s, "link h1 rail 0 down")]
    return events + ([(end_s, "link h1 rail 0 up")] if end_s else [])


def flaps(begin_s, seconds):
    at, rng, events = begin_s, random.Random(1), []
    while at < begin_s + seconds:
        for state in "down", "up":
            events.append((at, f"link h1 rail 0 {state}"))
            at += rng.uniform(1, 3)
    return events


DARK = [(BEGIN_S, f"blackhole h1 rail {rail} tcp") for rail in (0, 1)]
LATER_S = BEGIN_S + 10

FAILURES = {"nothing": [], "cable out for 2 s": link(BEGIN_S, BEGIN_S + 2), "cable out for good": link(BEGIN_S, None),
            "cable out and in every 1 to 3 s for 20 s": flaps(BEGIN_S, 20),
            "RoCE swallowed": [(BEGIN_S, "blackhole h1 rail 0 roce")],
            "RoCE swallowed for 10 s": [(BEGIN_S, "blackhole h1 rail 0 roce"), (BEGIN_S + 10, "heal h1 rail 0")],
            "TCP swallowed": DARK,
            "TCP swallowed, then the cable out": DARK + link(LATER_S, None),
            "TCP swallowed, then the peer killed": DARK + [(LATER_S - 1, "blackhole h1 rail 2"), (LATER_S, "kill h1")],
            "TCP swallowed, then the peer stopped": DARK + [(LATER_S, "stop h1"), (LATER_S + 2 * TIMEOUT_S, "kill h1")]}
# Of those that end the job: the other host gets an error. Of a queue that is lost nobody can say how far it had come.
ENDS = ("the peer killed", "the peer stopped", "then the cable out")


def ended(layout, failure, log):
    error = re.search(r"rank 0: iteration \d+ at [\d.]+ s: launch .* after ([\d.]+) s", log)
    wait_s = float(error[1]) if error else 0
    right = error is not None and wait_s < TIMEOUT_S + SETTLED_S
    print(f"{layout}, {failure}: {f'an error after {wait_s:.1f} s' if error else 'FAILED: no error'}", flush=True)
    if not right:
        print(log[-6000:])
    return right, 0


def run(options, layout, failure):
    """Of the case's lines and result whether it was right and its longest wait."""
    settings = ["TRIBUTARY_HCA=rxe0,rxe1", "TRIBUTARY_IF=rail0,rail1", *LAYOUTS[layout], *options.set]
    command = [VM, "run", "--hosts", "2", "--rails", "3", "--timeout", str(options.seconds + 90)]
    for variable in (f"LIB={options.lib.resolve()}", f"T={(options.build / 'lib').resolve()}", "NET=verbs", "IFN=rail2",
                     "RANKBENCH_MASTER=10.77.2.1", "SET=" + ";".join(settings)):
        command += ["--env", variable]
    for at_s, what in FAILURES[failure]:
        command += ["--fault", f"{at_s:.1f} {what}"]
    result = subprocess.run([*command, "--", options.vmrank.resolve(), "-e", "64K", "-L", str(options.seconds)],
                            capture_output=True, text=True, check=False)
    log = result.stdout + result.stderr
    ends = re.findall(r"# rank \d+ endure: (\d+) iterations, longest ([\d.]+) s, wrong (-?\d+)", log)
    times = [(float(at), float(took)) for number, at, took in re.findall(r"iteration (\d+) at ([\d.]+) s took ([\d.]+) s", log)
             if number != "0"]
    waits = [(at, took) for at, took in times if took > 1]
    if failure.endswith(ENDS):
        return ended(layout, failure, log)
    right = result.returncode == 0 and len(ends) == 2 and all(int(wrong) == 0 for _, _, wrong in ends)
    longest = max((took for _, took in waits), default=0)
    told = f"longest wait {longest:.1f} s, the last one {max(at for at, _ in waits):.0f} s from the start" if waits else "no wait"
    # The command's clock is ahead of the program's by what NCCL's init took.
    settled_s = max([at_s for at_s, _ in FAILURES[failure]], default=BEGIN_S) + SETTLED_S
    changed = sum(at > BEGIN_S for at, _ in times)
    afterwards = sorted(took for at, took in times if at > settled_s)
    if len(times) > 2 * len(waits) and afterwards:
        told += f"; {changed} after the change; afterwards 95 % within {afterwards[int(len(afterwards) * 0.95)]:.3f} s"
    print(f"{layout}, {failure}: {'sums right' if right else 'FAILED'}; {ends[0][0] if ends else 0} AllReduces in {options.seconds} s; "
          f"{told}", flush=True)
    if not right:
        print(log[-6000:])
    return right, longest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vmrank", type=pathlib.Path)
    parser.add_argument("--lib", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one more variable, on both hosts")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args()
    if not options.vmrank or not options.lib or subprocess.run([VM, "check"], stdout=subprocess.DEVNULL, check=False).returncode:
        print("skipped: needs --vmrank, --lib and virtual machines (tests/vm/vm check)")
        sys.exit(77)
    found = [run(options, layout, failure) for layout in LAYOUTS for failure in FAILURES
             if layout != "alone" or failure == "nothing" for _ in range(options.runs)
             if not options.words or any(re.search(word, f"{layout}, {failure}") for word in options.words)]
    print(f"{sum(right for right, _ in found)} of {len(found)} runs right; the longest wait {max(w for _, w in found):.1f} s")
    sys.exit(not all(right for right, _ in found))


main()
