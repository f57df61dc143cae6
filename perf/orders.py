#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two outputs of build/perf/orders, of the same clusters: perf/orders.py BEFORE AFTER"""
import statistics
import sys

TENSOR, RING, TREE, PIPELINE = 9, 10, 11, 12
UPLINKS = 13  # and crossings beside it, of each phase
TAU = 21
NAMES = {TENSOR: "tensor", RING: "ring", TREE: "tree", PIPELINE: "pipeline"}


def read(path):
    with open(path, encoding="utf-8") as f:
        rows = [[float(word) for word in line.split()] for line in f if line[0] != "#"]
    return {int(row[0]): row for row in rows}


def phases(seed):
    """In the order in which they count: `--algo tree` on every second pair of clusters."""
    return (TENSOR, TREE, RING, PIPELINE) if seed // 2 % 2 else (TENSOR, RING, TREE, PIPELINE)


def first_difference(seed, before, after):
    """The ratio of the first phase whose times differ, and the first that differs by bytes on uplinks, if that is before it."""
    reason = ""
    for phase in phases(seed):
        for column in (phase, UPLINKS + 2 * (phase - TENSOR), UPLINKS + 1 + 2 * (phase - TENSOR)):
            if abs(before[column] - after[column]) <= 1e-3 * max(before[column], after[column]):
                continue
            if column == phase:
                return after[phase] / before[phase], NAMES[phase], reason
            reason = reason or f"{NAMES[phase]} had {'fewer' if after[column] < before[column] else 'more'} on uplinks"
    return 1.0, "", reason


def main():
    before, after = read(sys.argv[1]), read(sys.argv[2])
    seeds = sorted(before.keys() & after.keys())
    found = {seed: first_difference(seed, before[seed], after[seed]) for seed in seeds}
    ratios = sorted(ratio for ratio, _, _ in found.values())
    print(f"clusters: {len(seeds)}; better {sum(r < 1 for r in ratios)}, worse {sum(r > 1 for r in ratios)}, by the first phase "
          f"whose simulated times differ; after over before: best {ratios[0]:.2f}, median {statistics.median(ratios):.2f}, "
          f"worst {ratios[-1]:.2f}")
    for seed in seeds:
        if found[seed][0] > 1:
            print(f"worse: cluster {seed}, {found[seed][1]} {found[seed][0]:.2f}; {found[seed][2]}")
    print(f"CPU time of the search, ms in all: before {sum(before[s][8] for s in seeds):.0f}, after "
          f"{sum(after[s][8] for s in seeds):.0f}")
    for index, name in enumerate(("tensor", "ring", "tree")):
        taus = [r[TAU + index] for r in after.values() if len(r) > TAU + index and r[TAU + index] == r[TAU + index]]
        if taus:
            print(f"Kendall's tau, {name}: mean {statistics.mean(taus):.4f}, least {min(taus):.3f}, {len(taus)} clusters")


if __name__ == "__main__":
    main()
