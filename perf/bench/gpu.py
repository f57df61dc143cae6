# SPDX-License-Identifier: Apache-2.0
"""PyTorch's collectives with Tributary and without it, in turns, on this machine's GPUs or between a launcher's ranks.

Two groups of ranks live side by side, one for each side, and only one of them works at a time. A pair of timings is taken
one right after the other, the first of the two alternating. With several processes on one GPU the times hold the GPU's time
slices as well as the network, for both alike, but with MPS. Prints JSON lines, as perf/collectives does.
"""
import contextlib
import json
import os
import tempfile

import operations
import ranks

SIDES = ("with", "without")
ONCE_US = 1e5   # what a cell of a run may take


def iterations(us, budget_us, limit):
    """How many calls fill the time one measurement may take."""
    return int(min(max(budget_us / max(us, 1.0), 3), limit))


class Case:
    """One question: its timings on both sides, pair by pair."""

    def __init__(self, groups, question, pairs, budget_s, timeout_s):
        self.groups, self.question, self.timeout_s = groups, question, timeout_s
        self.times, self.wrong = {side: [] for side in SIDES}, dict.fromkeys(SIDES, 0)
        first = max(self.once(side, 2, 3) for side in SIDES)
        self.count = iterations(first, budget_s / pairs / 2 * 1e6, 1000)

    def once(self, side, warmup, count):
        answers = self.groups[side].ask({**self.question, "warmup": warmup, "iterations": count}, self.timeout_s)
        self.wrong[side] += sum(a["wrong"] for a in answers)
        return max(a["us"] for a in answers)  # a collective takes as long as its slowest rank

    def pair(self, i):
        for side in SIDES if i % 2 == 0 else SIDES[::-1]:
            self.times[side].append(self.once(side, 1, self.count) * 1e-6)


def say(what, **values):
    print(json.dumps({"what": what, **values}), flush=True)


def bench(world, config, folder, extra, launched, place):
    """All cases for one number of ranks."""
    budget_s = config["seconds"] / len(config["operations"]) / len(config["sizes"])

    def group(side):
        return ranks.Group(side, world, folder, extra, launched, config["variables"], place)
    with group("with") as with_, group("without") as without:
        groups = {"with": with_, "without": without}
        for op in config["operations"]:
            questions = [{"op": op, "type": "float32", "count": operations.count_of(op, size, "float32", world)} for size in config["sizes"]]
            cases = [Case(groups, question, config["turns"], budget_s, config["timeout"]) for question in questions]
            for i in range(config["turns"]):   # what disturbs the machine for a while is not in all pairs of a size
                for case in cases:
                    case.pair(i)
            for case in cases:
                parts, count = world if op in ("all_gather", "reduce_scatter", "all_to_all") else 1, case.question["count"]
                say("case", operation=op, ranks=world, size=count * parts * operations.TYPES["float32"], count=count, type="float",
                    **{"%s_s" % side: case.times[side] for side in SIDES}, **{"%s_wrong" % side: case.wrong[side] for side in SIDES})
        say("networks", nccl=ranks.nccl_version(with_.log()), **{side: groups[side].used() for side in SIDES})


def once(world, config, folder, extra, launched, place):
    """Each cell's time on the side with Tributary, with the table that it was started with: a run of `tributary tune --measure`."""
    import torch
    with ranks.Group("with", world, folder, extra, launched, config["variables"], place) as group:
        for op, size in config["cells"]:
            count = operations.count_of(op, size, "float32", world)
            question = {"op": op, "type": "float32", "count": count}
            case = {**question, "warmup": 2, "iterations": 3}
            first = max(a["us"] for a in group.ask(case, config["timeout"]))
            answers = group.ask({**case, "iterations": iterations(first, ONCE_US, 1000)}, config["timeout"])
            parts = world if op in ("all_gather", "reduce_scatter") else 1
            say("took", operation=op, size=count * parts * operations.TYPES["float32"], seconds=max(a["us"] for a in answers) * 1e-6,
                wrong=sum(a["wrong"] for a in answers))
        say("log", text="\n".join(dict.fromkeys(group.log().splitlines())), gpu=torch.cuda.get_device_name(0))


def place_of(config):
    """(ranks, where they are) of a machine alone. Raises Failed."""
    import torch
    gpus = torch.cuda.device_count()
    if config["ranks"] and 1 < gpus < config["ranks"]:
        raise ranks.Failed("there are %d GPUs: not so many ranks" % gpus)
    if gpus > 1:
        return config["ranks"] or gpus, ranks.on_this_machine
    say("note", text="one GPU: its ranks take turns on it and take each other for hosts, so these figures say what the transport "
        "costs and nothing of channels")
    return config["ranks"] or 2, ranks.on_one_gpu


def main(config):
    """The exit status of one rank."""
    try:
        with contextlib.ExitStack() as stack:
            launched = ranks.Launched(os.environ, config["variables"]) if ranks.are_launched(os.environ) else None
            if launched and launched.rank:
                return launched.serve()
            if launched:
                stack.callback(launched.close)
            reason = ranks.missing(config["variables"])
            if reason:
                raise ranks.Failed(reason)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            extra = stack.enter_context(ranks.mps()) if config["mps"] else None
            world, place = (launched.world, None) if launched else place_of(config)
            (once if "cells" in config else bench)(world, config, folder, extra, launched, place)
    except ranks.Failed as e:
        say("failed", text=str(e))
        return 1
    return 0
