#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf/gains.py [--build DIR] [--check | --write]: the tables of predicted gains in README.md, and its pictures.

The machines are those of topo/ as TCP hosts, so without RDMA and GPUDirect: with active RDMA ports TRIBUTARY_NET=auto leaves
the network to NCCL, and with it the channels. A figure of the first table is what perf/emulated_nccl.py measured; one in italics
the quotient of the times of 128 MiB, NCCL's over ours, of the command under it with a profile by `tributary measure --simulate`:
what NCCL's own cost model gives for NCCL's channels, as we estimate them, and for ours.
The clusters are made up; their times are what `tributary simulate` expects, by the formula that the plugin goes by: NCCL's better
one of ring and tree, with ranks interleaved over the leaves and leaf by leaf, and aggregation beside both. The chart has what it
simulates. --write puts them between the marks in README.md, and draws docs/plan.svg and docs/gains.svg; --check exits with 1 where
these are not what the commands give.
"""
import argparse
import functools
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BYTES = 128 << 20
NOISE = 0.015  # of what is measured
HOSTS = (1, 2, 8)
# Leaves, hosts of each, how many times their rate is that of the leaf's uplink.
FABRICS = ((2, 4, 1), (2, 4, 4), (2, 4, 8), (4, 8, 4), (4, 8, 16))
RATE = "100Gbit/s"
BEGIN, END = "<!-- gains: written by `make gains` -->\n\n", "\n<!-- end of gains -->\n"
PICTURE = ["plan", "--from", "topo/nvlink-pairs-4gpu/machine.topology", "--svg"]


def output_of(*words, **more):
    return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, **more).stdout


def tributary(build, *arguments, **more):
    return output_of(build / "tributary", *arguments, **more)


def times(ratio):
    """'no gain' where a rounding decides."""
    return "no gain" if 0.99 < ratio < 1.01 else "%.1f×" % ratio if ratio >= 1.05 else "%.2f×" % ratio


@functools.lru_cache(maxsize=None)
def measured():
    """By machine and number of hosts."""
    text = (ROOT / "perf" / "results" / "emulated-fabric.txt").read_text(encoding="utf-8")
    found = re.findall(r"^([\w-]+), (?:one host|(\d+) hosts), AllReduce, %d MiB: ([\d.]+) alone, ([\d.]+) with" % (BYTES >> 20), text, re.M)
    gains = {(name, int(hosts or 1)): float(plugin) / float(alone) for name, hosts, alone, plugin in found}
    return {cell: 1 if abs(gain - 1) < NOISE else gain for cell, gain in gains.items()}


def marked(word, is_predicted, with_setting=False):
    return "*%s*%s" % (word, " †" if with_setting and word != "no gain" else "") if is_predicted else word


def predicted(build, machine):
    """By number of hosts the gain, and whether one of both has these channels only with NCCL_NET_DISABLE_INTRA=1."""
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder, "profile")
        tributary(build, "measure", "--simulate", machine.parent, "--output", profile)
        for hosts in HOSTS:
            explained = json.loads(tributary(build, "explain", "--profile", profile, "--no-rdma", "--hosts", str(hosts), "--json"))
            at = next(s for s in explained["sizes"] if s["bytes"] == BYTES)
            yield at["nccl"]["time_us"] / at["tributary"]["time_us"], any(explained["net_inside_host"].values())


def descriptions():
    """What topo/README.md says of each machine: GPUs and NICs, with their rates, what it is there for."""
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+), (\d+) \| (.*) \|$", (ROOT / "topo" / "README.md").read_text(encoding="utf-8"), re.M)
    return {name: "%s GPUs, %s NIC%s of %s Gbit/s: %s" % (gpus, nics, "" if nics == "1" else "s", nic_rates(name), what)
            for name, gpus, nics, what in rows if nics != "0"}


def nic_rates(name):
    text = (ROOT / "topo" / name / "machine.topology").read_text(encoding="utf-8")
    rates = {int(rate) * 8 / 1e9 for rate in re.findall(r"^vertex nic .* speed_Bps=(\d+)", text, re.M)}
    return " and ".join("%g" % rate for rate in sorted(rates))


def machines(build):
    text = "| AllReduce of 128 MiB without RDMA, a machine like | one host | two hosts | eight hosts |\n|---|---|---|---|\n"
    rest, what = [], descriptions()
    for path in sorted((ROOT / "topo").glob("*/machine.topology")):
        name = path.parent.name
        found = [measured().get((name, n)) for n in HOSTS]
        made = list(predicted(build, path))
        gains = [gain if ratio is None else ratio for (gain, _), ratio in zip(made, found)]
        words = [marked(times(g), ratio is None, needs) for g, ratio, (_, needs) in zip(gains, found, made)]
        if all(0.99 < g < 1.05 for g in gains):
            rest.append(list(zip(gains, found)))
        else:
            text += "| [%s](topo/%s/machine.topology) | %s |\n" % (what[name], name, " | ".join(words))
    most = []
    for column in zip(*rest):
        word = times(max(gain for gain, _ in column))
        most.append(marked(word if word == "no gain" else "at most " + word, any(ratio is None for _, ratio in column)))
    return text + "| the %d other machines of [topo/](topo/README.md) | %s |\n" % (
        len(rest), " | ".join(most)) + (
            "\n*Predicted*: by `tributary explain --no-rdma`; † with `NCCL_NET_DISABLE_INTRA=1`.\n")


def interleaved(leaves, hosts):
    """An order of ranks in which every neighbour is on another leaf, as a launcher gives that takes leaves in turn."""
    return "".join("host%d\n" % (leaf * hosts + i + 1) for i in range(hosts) for leaf in range(leaves))


@functools.lru_cache(maxsize=None)
def cases_of(build, leaves, hosts, ratio):
    with tempfile.NamedTemporaryFile("w") as order:
        order.write(interleaved(leaves, hosts))
        order.flush()
        return json.loads(tributary(build, "simulate", "--fabric", "leaf-spine:%dx%d,%d:1,%s" % (leaves, hosts, ratio, RATE),
                                     "--size", "%d" % BYTES, "--order", "leaf," + order.name, "--aggregators", "1," + RATE,
                                     "--algo", "ring,tree,hierarchical,aggregators", "--json"))["cases"]



def cluster(build, leaves, hosts, ratio):
    best = functools.partial(best_of, cases_of(build, leaves, hosts, ratio), time="expected_s")
    now, ordered = best(("ring", "tree"), False), best(("ring", "tree"), True)
    alone, spare = best(("hierarchical",)), best(("aggregators",))
    cells = ("%d leaves of %d, %d:1" % (leaves, hosts, ratio), times(now / ordered), times(now / alone), times(ordered / alone),
             times(ordered / spare))
    return "| " + " | ".join(cells) + " |\n"


def best_of(cases, algorithms, leaf=None, time="time_s"):
    return min(c[time] for c in cases if c["algorithm"] in algorithms and (leaf is None or (c["order"] == "leaf") == leaf))


# ---------------------------------------------------------------------------------------------------------- the chart

# Of each way: name, its algorithms, whether ranks are leaf by leaf, and how it looks: colour, dashes, a mark around (0, 0).
WAYS = (
    ("NCCL, ring, ranks in order", ("ring",), True, "#1b2430", "", "M-4 -4h8v8h-8z"),
    ("NCCL, tree, ranks in order", ("tree",), True, "#7d4c9e", "2 4", "M0 -5l5 5l-5 5l-5 -5z"),
    ("NCCL, better of both, ranks interleaved", ("ring", "tree"), False, "#c43c00", "9 4", "M0 -5l5 9h-10z"),
    ("aggregation by the hosts, any order", ("hierarchical",), None, "#0072b2", "", "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"),
    ("… with an aggregator on each leaf", ("aggregators",), None, "#009e73", "5 3", "M0 5l5 -9h-10z"),
)
RATIOS = (1, 2, 4, 8, 16)
LEVELS = (1 / 8, 1 / 4, 1 / 2, 1, 2)
TEXT = '<text x="%.1f" y="%.1f" font-size="%d"%s>%s</text>\n'


def panel(build, leaves, hosts, left, top):
    """How fast each way is, over NCCL's ring with ranks in order, as the uplinks get narrower; both axes logarithmic."""
    width, high = 380, 270
    text = TEXT % (left, top - 16, 14, ' font-weight="700"', "%d hosts: %d leaves of %d" % (leaves * hosts, leaves, hosts))
    speeds = []
    for ratio in RATIOS:
        cases = cases_of(build, leaves, hosts, ratio)
        speeds.append([best_of(cases, ("ring",), True) / best_of(cases, algorithms, leaf) for _, algorithms, leaf, *_ in WAYS])

    def x(i):
        return left + width * i / (len(RATIOS) - 1)

    def y(speed):
        return top + high * (math.log(LEVELS[-1]) - math.log(speed)) / (math.log(LEVELS[-1]) - math.log(LEVELS[0]))

    for level in LEVELS:
        text += '<path d="M%.1f %.1fh%d" stroke="%s"/>\n' % (left, y(level), width, "#5c6878" if level == 1 else "#dbe1e8")
        text += TEXT % (left - 10, y(level) + 4, 12, ' text-anchor="end"', "%g×" % level if level >= 1 else "1/%d×" % round(1 / level))
    for i, ratio in enumerate(RATIOS):
        text += TEXT % (x(i), top + high + 22, 12, ' text-anchor="middle"', "%d:1" % ratio)
    for way, (_, _, _, colour, dashes, mark) in enumerate(WAYS):
        points = [(x(i), y(at[way])) for i, at in enumerate(speeds)]
        text += '<path d="M%s" fill="none" stroke="%s" stroke-width="2.5" stroke-dasharray="%s"/>\n' % (
            "L".join("%.1f %.1f" % point for point in points), colour, dashes)
        text += "".join('<path d="%s" transform="translate(%.1f %.1f)" fill="%s"/>\n' % (mark, *point, colour) for point in points)
    return text


def chart(build):
    width, height = 940, 500
    text = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="Inter, \'Segoe UI\', '
            '\'Helvetica Neue\', Helvetica, Arial, \'DejaVu Sans\', sans-serif" fill="#1b2430">\n<title>Predicted speed of AllReduce over '
            'oversubscription</title>\n<rect width="100%%" height="100%%" fill="#ffffff"/>\n' % (width, height, width, height))
    text += TEXT % (36, 40, 18, ' font-weight="700"', "AllReduce of %d MiB: speed over NCCL's ring with ranks in order" % (BYTES >> 20))
    text += TEXT % (36, 62, 12, "", "simulated; across: the hosts' rate over that of their leaf's uplink; every port has %s" % RATE.replace("Gbit", " Gbit"))
    text += panel(build, 2, 4, 76, 112) + panel(build, 4, 8, 528, 112)
    for i, (name, _, _, colour, dashes, mark) in enumerate(WAYS):
        x, y = 36 + 300 * (i % 3), 440 + 28 * (i // 3)
        text += '<path d="M%d %dh36" stroke="%s" stroke-width="2.5" stroke-dasharray="%s"/>\n' % (x, y, colour, dashes)
        text += '<path d="%s" transform="translate(%d %d)" fill="%s"/>\n' % (mark, x + 18, y, colour) + TEXT % (x + 44, y + 4, 12, "", name)
    return text + "</svg>\n"


# ---------------------------------------------------------------------------------------------------------- the whole


def clusters(build):
    return ("| AllReduce of 128 MiB, predicted; hosts' rate over their leaf's uplink | NCCL alone, ranks put in order | aggregation, ranks interleaved | "
            "aggregation, ranks in order | … with an aggregator on each leaf |\n|---|---|---|---|---|\n" +
            "".join(cluster(build, *f) for f in FABRICS))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    build = options.build.resolve()
    tables = machines(build) + "\n" + clusters(build)
    if not options.check and not options.write:
        print(tables, end="")
        return 0
    readme, picture, drawn_gains = ROOT / "README.md", ROOT / "docs" / "plan.svg", ROOT / "docs" / "gains.svg"
    text = readme.read_text(encoding="utf-8")
    wanted = text.split(BEGIN)[0] + BEGIN + tables + END + text.split(END)[1]
    if options.write:
        readme.write_text(wanted, encoding="utf-8")
        tributary(build, *PICTURE, picture)
        drawn_gains.write_text(chart(build), encoding="utf-8")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        drawn = pathlib.Path(folder) / "plan.svg"
        tributary(build, *PICTURE, drawn)
        stale = ["README.md"] * (text != wanted) + ["docs/plan.svg"] * (drawn.read_bytes() != picture.read_bytes())
    stale += ["docs/gains.svg"] * (drawn_gains.read_text(encoding="utf-8") != chart(build))
    for name in stale:
        print("gains: %s is not what the commands give: make gains" % name)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
