#!/usr/bin/env python3
"""PyTorch collectives, or your own job, with the plugin and without it, in turns.

  perf/torch_bench.py [OPTIONS]                        collectives on one GPU, nccl-tests' columns
  torchrun --no-python … perf/torch_bench.py [OPTIONS] the same between the ranks that a launcher starts (RANK is set)
  perf/torch_bench.py [OPTIONS] -- torchrun … job.py   your own job; on several hosts the same line on each at the same time

Two groups of ranks live side by side, one for each network, and only one of them works at a time. A pair of timings is
taken one right after the other, the first of the two alternating; the ratio is that of the pair. With several processes
on one GPU the times hold the GPU's time slices as well as the network, for both alike, but with --mps.

With a command every pair runs it once with the plugin (by `tributary run`) and once without it: as the environment is now,
but where NCCL_NET_PLUGIN=tributary is set, without it and without the NCCL_COLLNET_ENABLE set beside it. It compares wall
time, or what the command prints of itself: --metric 'step_ms=([0-9.]+)' takes the median of all such numbers. NCCL's log
of every turn must show the network that is meant.
Exit 0, 77 where there is no GPU, no PyTorch or nothing that matches --metric, 1 when a result is wrong, a turn says nothing or --gate is not met.
"""
import argparse
import contextlib
import json
import os
import random
import re
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tests", "gpu"))

import job  # noqa: E402
import operations  # noqa: E402
import ranks  # noqa: E402

NETS = ("plugin", "sockets")
HEADER = ("size", "count", "type", "redop", "net", "time", "algbw", "busbw", "wrong")
UNITS = ("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "")
WIDTHS = (12, 12, 9, 6, 8, 11, 8, 8, 6)


def size_bytes(text):
    m = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not m:
        raise argparse.ArgumentTypeError("'%s' is not a size such as 8, 64K, 4M" % text)
    return int(m.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[m.group(2)]


def sizes(low, high, factor):
    found = []
    while low <= high:
        found.append(low)
        low *= factor
    return found


def bootstrap(values, seed=1, rounds=2000):
    """(low, median, high): the 95 % interval of the median. Seeded, so that the same data give the same interval."""
    rng = random.Random(seed)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(rounds))
    return medians[round(0.025 * (rounds - 1))], statistics.median(values), medians[round(0.975 * (rounds - 1))]


def iterations(us, budget_us, limit):
    """How many calls fill the time one measurement may take."""
    return int(min(max(budget_us / max(us, 1.0), 3), limit))


def row(op, type_name, count, world, net, us, wrong):
    size = count * operations.TYPES[type_name]
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        size *= world
    algbw = size / us / 1e3
    cells = ("%d" % size, "%d" % count, type_name, "sum" if op in ("all_reduce", "reduce_scatter") else "none", net,
             "%.2f" % us, "%.3f" % algbw, "%.3f" % (algbw * operations.bus_factor(op, world)), "%d" % wrong)
    return line(cells)


def line(cells):
    return " ".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS))


def compare(groups, question, pairs, budget_us, timeout_s):
    """Interleaved timings of one case: ({net: [us]}, {net: wrong})."""
    times, wrong = {net: [] for net in NETS}, dict.fromkeys(NETS, 0)

    def once(net, warmup, count):
        answers = groups[net].ask({**question, "warmup": warmup, "iterations": count}, timeout_s)
        wrong[net] += sum(a["wrong"] for a in answers)
        return max(a["us"] for a in answers)  # a collective takes as long as its slowest rank

    first = max(once(net, 2, 3) for net in NETS)
    count = iterations(first, budget_us, 1000)
    for i in range(pairs):
        for net in NETS if i % 2 == 0 else NETS[::-1]:
            times[net].append(once(net, 1, count))
    return times, wrong


def bench(world, options, folder, extra, launched):
    """All cases for one number of ranks; returns the results as they go into the JSON."""
    results = []
    with ranks.Group("plugin", world, folder, extra, launched) as plugin, ranks.Group("sockets", world, folder, extra, launched) as sockets:
        groups = {"plugin": plugin, "sockets": sockets}
        for op in options.operations:
            print("# %s, %d ranks%s%s, %d pairs" % (op, world, "" if launched else " on one GPU", " with MPS" if extra else "", options.pairs))
            print(line(HEADER) + "\n" + line(UNITS), flush=True)
            for size in sizes(options.min, options.max, options.factor):
                count = operations.count_of(op, size, options.type, world)
                question = {"op": op, "type": options.type, "count": count}
                times, wrong = compare(groups, question, options.pairs, options.budget * 1e6, options.timeout)
                ratio = bootstrap([s / p for p, s in zip(times["plugin"], times["sockets"])])
                for net in NETS:
                    print(row(op, options.type, count, world, net, statistics.median(times[net]), wrong[net]))
                print("    sockets/plugin %.3f [%.3f, %.3f]" % (ratio[1], ratio[0], ratio[2]), flush=True)
                results.append({**question, "ranks": world, "size": size, "us": times, "wrong": wrong,
                                "ratio": {"low": ratio[0], "median": ratio[1], "high": ratio[2]}})
        plugin.used()
        sockets.used()
        print("# NCCL %s" % ranks.nccl_version(plugin.log()))
    return results


def slower(results, tolerance):
    """The cases in which the plugin is slower than sockets, beyond the tolerance, on the interval's worse end."""
    return [r for r in results if r["ratio"]["low"] < 1 - tolerance]


def arguments(words=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ranks", type=lambda s: [int(n) for n in s.split(",")], default=[2, 4])
    p.add_argument("--operations", type=lambda s: s.split(","), default=list(operations.OPERATIONS))
    p.add_argument("--type", choices=list(operations.TYPES), default="float32")
    p.add_argument("--min", type=size_bytes, default=1024)
    p.add_argument("--max", type=size_bytes, default=64 << 20)
    p.add_argument("--factor", type=int, default=4)
    p.add_argument("--pairs", type=int, default=11, help="pairs of timings a case (11)")
    p.add_argument("--budget", type=float, default=0.1, help="seconds one timing may take (0.1)")
    p.add_argument("--timeout", type=float, help="seconds without an answer, or without the end of a job, that count as a hang (120, 3600)")
    p.add_argument("--gate", action="store_true", help="fail unless the plugin is never slower")
    p.add_argument("--tolerance", type=float, default=0.02, help="how much of a slowdown --gate lets pass (0.02)")
    p.add_argument("--mps", action="store_true", help="processes share the GPU of one machine by MPS, not in turns")
    p.add_argument("--json", metavar="OUT")
    p.add_argument("--metric", metavar="REGEX", help="of a job: what it prints of itself, a number in the first group (wall time)")
    p.add_argument("--higher", action="store_true", help="of a job: more is better, such as tokens per second")
    p.add_argument("--tributary", metavar="PROGRAM", help="of a job: what starts it with the plugin (build/tributary)")
    p.add_argument("command", nargs="*", metavar="COMMAND", help="a job of yours, after --")
    options = p.parse_args(words)
    options.timeout = options.timeout or (3600 if options.command else 120)
    unknown = [op for op in options.operations if op not in operations.OPERATIONS]
    if unknown or options.factor < 2 or options.pairs < 1 or options.min < 1 or min(options.ranks) < 2:
        p.error("no such operation: %s" % ", ".join(unknown) if unknown else "a number is out of its range")
    return options


def main():
    options = arguments()
    if options.command:
        try:
            low, _, _ = job.bench(options, bootstrap)
        except job.Failed as e:
            print("failed: %s" % e)
            return 1
        except job.Nothing as e:
            print("skipped: %s" % e)
            return 77
        return 1 if options.gate and low < 1 - options.tolerance else 0
    reason = ranks.missing()
    if reason:
        print("skipped: " + reason)
        return 77
    results = []
    try:
        with contextlib.ExitStack() as stack:
            launched = ranks.Launched(os.environ) if ranks.are_launched(os.environ) else None
            if launched and launched.rank:
                return launched.serve()
            if launched:
                stack.callback(launched.close)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            extra = stack.enter_context(ranks.mps()) if options.mps else None
            for world in [launched.world] if launched else options.ranks:
                results += bench(world, options, folder, extra, launched)
    except ranks.Failed as e:
        print("failed: %s" % e)
        return 1
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)
            f.write("\n")
    wrong = sum(sum(r["wrong"].values()) for r in results)
    worse = slower(results, options.tolerance)
    print("# %d cases, %d wrong elements, %d slower than NCCL's sockets" % (len(results), wrong, len(worse)))
    return 1 if wrong or (options.gate and worse) else 0


if __name__ == "__main__":
    sys.exit(main())
