#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives of PyTorch and NCCL through the plugin, with 2 and 4 processes on one GPU, against known values.

Exit 0, 1, or 77 with the reason where there is no GPU or no PyTorch.
"""
import argparse
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "perf", "bench"))

import operations  # noqa: E402
import ranks  # noqa: E402

FLOATS = ("float32", "float16", "bfloat16", "float64")
SIZES = (1, 4, 1000, 4096, 65536 + 8, 1 << 20, (16 << 20) + 24)   # bytes; odd ones do not divide by ranks or packets

WRONG_SHOWN = 1000   # elements; after that many the cases are only counted


def cases(world, sizes=SIZES):
    """Every question, in an order that mixes sizes."""
    for size in sizes:
        for kind in operations.TYPES:
            for redop in operations.REDUCTIONS:
                if redop != "avg" or kind in FLOATS:
                    yield {"op": "all_reduce", "type": kind, "redop": redop,
                           "count": operations.count_of("all_reduce", size, kind, world)}
            for op in operations.MOVES:
                for root in range(world if op == "broadcast" else 1):
                    yield {"op": op, "type": kind, "root": root, "count": operations.count_of(op, size, kind, world)}


def specials():
    """min and max of NaN, zeros of both signs and infinities. NCCL's own kernels are asked, too."""
    for kind in FLOATS:
        for redop in ("min", "max"):
            yield {"op": "all_reduce", "type": kind, "redop": redop, "count": 4099, "special": True}


def reductions(world, sizes=SIZES):
    """What collnet can do."""
    for question in cases(world, sizes):
        if question["op"] == "all_reduce":
            yield question
    yield from specials()


def ask_all(group, questions, timeout_s):
    """Returns (cases, wrong elements)."""
    done = wrong = 0
    for question in questions:
        bad = [a["wrong"] for a in group.ask(question, timeout_s)]
        done += 1
        wrong += sum(bad)
        if any(bad) and wrong <= WRONG_SHOWN:
            print("wrong: %s, %d ranks, %s: %s elements" % (group.side, group.world, question, bad), flush=True)
    return done, wrong


def check(world, folder, timeout_s, sizes):
    """Runs all cases on one group; returns (cases, wrong elements, NCCL's version)."""
    with ranks.Group("with", world, folder) as group:
        done, wrong = ask_all(group, cases(world, sizes), timeout_s)
        group.used()
        return done, wrong, ranks.nccl_version(group.log())


def check_collnet(world, folder, timeout_s, sizes):
    """The AllReduces through the plugin's collnet, and the special values on both sides; returns as check()."""
    with ranks.Group("with", world, folder, ranks.COLLNET) as group:
        done, wrong = ask_all(group, reductions(world, sizes), timeout_s)
        group.used_collnet()
        version = ranks.nccl_version(group.log())
    with ranks.Group("without", world, folder) as group:
        sockets_done, sockets_wrong = ask_all(group, specials(), timeout_s)
    return done + sockets_done, wrong + sockets_wrong, version


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--ranks", default="2,4", help="group sizes (2,4)")
    p.add_argument("--max-size", type=int, default=SIZES[-1], help="largest buffer, bytes")
    p.add_argument("--timeout", type=float, default=120, help="seconds a single collective may take (120)")
    options = p.parse_args()
    reason = ranks.missing()
    if reason:
        print("skipped: " + reason)
        return 77
    status = 0
    sizes = [s for s in SIZES if s <= options.max_size]
    for world in map(int, options.ranks.split(",")):
        for run, name in ((check, "NET"), (check_collnet, "COLLNET")):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    done, wrong, version = run(world, folder, options.timeout, sizes)
                except ranks.Failed as e:
                    print("failed: %s" % e, flush=True)
                    status = 1
                    continue
            print("%d ranks, NCCL %s, via %s/%s: %d cases, %d wrong elements"
                  % (world, version, name, ranks.PLUGIN_NAME, done, wrong), flush=True)
            status = 1 if wrong else status
    return status


if __name__ == "__main__":
    sys.exit(main())
