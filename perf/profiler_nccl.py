#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the profiler half counts and times, against what NCCL and its program say themselves.

    perf/profiler_nccl.py --fakerun PROGRAM --lib DIR [--plugin FILE] [--ranks N] [--rounds N] [--time | --cost PLUGIN2]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with
libnccl.so.2 and rankbench. Without them it says so and ends with status 77.

Counts: after rounds of random operations, those of rank 0 by collective, size class, algorithm, protocol and channels must be
those of NCCL's own lines (NCCL_DEBUG_SUBSYS=TUNING, on rank 0 alone), and the other ranks' must be rank 0's.
--time: the mean time of the samples against the mean time that the program measures, within 5 %. It enqueues --rounds out of
place at once, and as many in place when these have ended. So those in place are sampled where the others take 10 s, after
which a window opens; by default there are as many as that needs.
--cost: how much longer operations take while they are sampled: the program's times with TRIBUTARY_PROFILER=time over those
with =count, in turns. PLUGIN2: built with windows that are always open (in src/plugin/profiler.h a first one after 0 ns, and
each as long as the period).
"""

import argparse
import collections
import pathlib
import statistics
import struct
import sys
import tempfile

import simulated_nccl
from simulated_nccl import size_class

COLLECTIVES = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", None, "Send", "Recv", "other"]
ALGORITHMS = ["-", "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"]
PROTOCOLS = ["-", "LL", "LL128", "SIMPLE"]
MAGIC, COMMS, ROWS = 0x5452494F50530001, 64, 2048
WINDOW_S = 12  # until one opens, with some to spare


def read_operations(path):
    """The file's rows by key, with their sums; and lost, captured, times."""
    data = path.read_bytes()
    magic, times, lost, captured = struct.unpack_from("<4Q", data)
    assert magic == MAGIC, path
    comms = [struct.unpack_from("<2QIIiI", data, 64 + 32 * i) for i in range(COMMS)]
    rows = []
    for i in range(ROWS):
        key, *sums = struct.unpack_from("<8Q", data, 64 + 32 * COMMS + 64 * i)
        if key and sums[0]:
            comm = comms[key & 0xFF]
            rows.append(((COLLECTIVES[key >> 8 & 0xFF], key >> 32 & 0xFF, ALGORITHMS[key >> 16 & 0xFF],
                          PROTOCOLS[key >> 24 & 0xFF], key >> 40 & 0xFFFF), comm, sums))
    return rows, {"times": times, "lost": lost, "captured": captured}


def ncclsays(text, ranks, broadcasts):
    """By NCCL's lines: how many, and how many bytes. broadcasts: NCCL's events say how they run, as before 2.30."""
    counts = collections.defaultdict(lambda: [0, 0])
    for func, size, algo, proto, channels in simulated_nccl.choices(text, ranks):
        channels = 0 if algo.startswith("COLLNET") else channels  # NCCL's events do not say it
        if func == "Broadcast" and not broadcasts:
            proto, channels = "-", 0
        row = counts[func, size_class(size), algo, proto, channels]
        row[0] += 1
        row[1] += size
    return dict(counts)


def by_rank(folder):
    """Of each rank its rows, with those of its communicators together."""
    ranks = {}
    for path in sorted(folder.glob("tributary-*/o-*")):
        rows, head = read_operations(path)
        sums = collections.defaultdict(lambda: [0] * 7)
        for key, comm, values in rows:
            for i, value in enumerate(values[:5]):
                sums[key][i] += value
        ranks[rows[0][1][4]] = (dict(sums), head)
    return ranks


def run(options, folder, environment, arguments):
    return simulated_nccl.run(options, folder, {"NCCL_COLLNET_ENABLE": 1, "TRIBUTARY_LOCAL_PROCESSES": options.ranks,
                                                **environment}, arguments)


def counts(options, folder):
    out, log = run(options, folder, {}, ["-S", options.rounds or 40, "-e", options.most, "-o",
                                         "allreduce,allgather,reducescatter,broadcast,reduce,sendrecv"])
    ranks = by_rank(folder / "shared")
    counted = {rank: {key: row[:2] for key, row in rows.items() if key[0] not in ("Send", "Recv")}
               for rank, (rows, _) in ranks.items()}
    said = ncclsays(log, options.ranks, not any(key[0] == "Broadcast" and key[3] == "-" for key in counted[0]))
    lost = sum(head["lost"] for _, head in ranks.values())
    total = sum(row[0] for row in said.values())
    wrong = [key for key in said.keys() | counted[0].keys() if said.get(key) != counted[0].get(key)]
    sums = {name: [sum(row[i] for rows, _ in ranks.values() for key, row in rows.items() if key[0] == name)
                   for i in (0, 1)] for name in ("Send", "Recv")}
    print(next(line for line in out.splitlines() if line.startswith("# stress")))
    print(f"collectives in NCCL's lines: {total}, in rows: {len(said)}; rows that differ on rank 0: {len(wrong)}")
    for key in sorted(wrong)[:40]:
        print(f"  {key}: NCCL {said.get(key)}, counted {counted[0].get(key)}")
    others = sum(rows != counted[0] for rows in counted.values())
    print(f"ranks: {len(ranks)}, that counted other collectives than rank 0: {others}; lost: {lost}")
    print(f"sends and their bytes: {sums['Send']}, receives: {sums['Recv']}")
    return total and not wrong and not others and not lost and len(ranks) == options.ranks and \
        sums["Send"] == sums["Recv"]


def timed(options, folder, mode, rounds):
    """AllReduces of one size: the program's mean time; of each rank that has samples the mean of them, and how many."""
    out, _ = run(options, folder, {"TRIBUTARY_PROFILER": mode},
                 ["-o", "allreduce", "-b", options.most, "-e", options.most, "-n", rounds, "-w", "5"])
    samples = [(row[4] / row[2] / 1e3, row[2]) for rows, _ in by_rank(folder / "shared").values()
               for row in rows.values() if row[2]]
    return simulated_nccl.times_us(out)[0], samples


def rounds_of(options, folder):
    return options.rounds or max(20, int(WINDOW_S * 1e6 / timed(options, folder / "short", "count", 20)[0]))


def times(options, folder):
    rounds = rounds_of(options, folder)
    ratios = []
    for turn in range(options.turns):
        measured, samples = timed(options, folder / str(turn), "time", rounds)
        if not samples:
            sys.exit(f"no operation was sampled: a window opens for 1 s with the first operation 10 s after the first "
                     f"communicator; {rounds} --rounds of {measured:.0f} us were too few, or on a busy machine the first "
                     "two operations in it, which are left out, took it all")
        # The rank with the least time is the one that the others waited for.
        ratios.append(min(samples)[0] / measured)
        print(f"program: {measured:.0f} us; the ranks' samples: " +
              ", ".join(f"{mean:.0f} us of {count}" for mean, count in samples))
    print(f"samples over the program's mean: {statistics.median(ratios):.3f} (median of {len(ratios)})")
    return abs(statistics.median(ratios) - 1) <= 0.05


def cost(options, folder):
    options.plugin = options.cost.resolve()
    rounds = rounds_of(options, folder)
    ratios = []
    for turn in range(options.turns):
        with_us, samples = timed(options, folder / f"{turn}-time", "time", rounds)
        without_us, none = timed(options, folder / f"{turn}-count", "count", rounds)
        if none or sum(count for _, count in samples) < rounds:
            sys.exit(f"{options.cost} has no windows that are always open: {samples}, {none}")
        ratios.append(with_us / without_us)
        print(f"sampled {with_us:.0f} us, counted {without_us:.0f} us: {ratios[-1]:.3f}")
    print(f"sampled over counted: {statistics.median(ratios):.3f} (median of {len(ratios)}, {min(ratios):.3f} to "
          f"{max(ratios):.3f})")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    simulated_nccl.add_arguments(parser, 4)
    parser.add_argument("--rounds", type=int, help="of random groups (default: 40), or operations of --time and --cost")
    parser.add_argument("--most", default="4M", help="bytes of the largest operation")
    parser.add_argument("--turns", default=1, type=int, help="of --time and --cost: medians of so many")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--time", action="store_const", dest="check", const=times, default=counts)
    mode.add_argument("--cost", type=pathlib.Path, metavar="PLUGIN2")
    options = simulated_nccl.parse(parser)
    with tempfile.TemporaryDirectory() as name:
        sys.exit(0 if (cost if options.cost else options.check)(options, pathlib.Path(name)) else "FAILED")


main()
