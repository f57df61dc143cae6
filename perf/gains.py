#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf/gains.py [--build DIR] [--check | --write]: the tables of predicted gains in README.md, and its picture.

The machines are those of topo/ as TCP hosts, so without RDMA and GPUDirect: with active RDMA ports TRIBUTARY_NET=auto leaves
the network to NCCL, and with it the channels. `tributary explain` says what NCCL's own cost model gives for NCCL's channels,
as we estimate them, and for ours. The clusters are made up, by `tributary simulate`: NCCL's better one of ring and tree, with
ranks interleaved over the leaves and leaf by leaf, and aggregation beside both. --write puts them between the marks in README.md and draws docs/plan.svg; --check exits
with 1 where these are not what the commands give.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BYTES = 128 << 20
HOSTS = (1, 2, 8)
# Leaves, hosts of each, how many times their rate is that of the leaf's uplink.
FABRICS = ((2, 4, 1), (2, 4, 4), (2, 4, 8), (4, 8, 4), (4, 8, 16))
RATE = "100Gbit/s"
BEGIN, END = "<!-- gains: written by `make gains` -->\n\n", "\n<!-- end of gains -->\n"
PICTURE = ["plan", "--from", "topo/nvlink-pairs-4gpu/machine.topology", "--svg"]


def tributary(build, *arguments):
    done = subprocess.run([build / "tributary", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def times(ratio):
    """'no gain' where a rounding decides."""
    return "no gain" if 0.99 < ratio < 1.01 else "%.1f×" % ratio if ratio >= 1.05 else "%.2f×" % ratio


def machine_gain(build, machine, hosts):
    with tempfile.NamedTemporaryFile("w") as tcp_host:
        tcp_host.write(re.sub(r" (?:gdr|rdma)=1\b", "", machine.read_text(encoding="utf-8")))
        tcp_host.flush()
        sizes = json.loads(tributary(build, "explain", "--from", tcp_host.name, "--hosts", str(hosts), "--json"))["sizes"]
    at = next(s for s in sizes if s["bytes"] == BYTES)
    return at["nccl"]["time_us"] / at["tributary"]["time_us"]


def descriptions():
    """What topo/README.md says of each machine: GPUs and NICs, what it is there for."""
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+), (\d+) \| (.*) \|$", (ROOT / "topo" / "README.md").read_text(encoding="utf-8"), re.M)
    return {name: "%s GPUs, %s NIC%s: %s" % (gpus, nics, "" if nics == "1" else "s", what) for name, gpus, nics, what in rows}


def machines(build):
    text = "| AllReduce of 128 MiB on a machine like | one host | two hosts | eight hosts |\n|---|---|---|---|\n"
    rest, what = [], descriptions()
    for path in sorted((ROOT / "topo").glob("*/machine.topology")):
        gains = [machine_gain(build, path, n) for n in HOSTS]
        name = path.parent.name
        if all(0.99 < g < 1.01 for g in gains):
            rest.append(name)
        else:
            text += "| [%s](topo/%s/machine.topology) | %s |\n" % (what[name], name, " | ".join(times(g) for g in gains))
    return text + "| the %d other machines of [topo/](topo/README.md) | no gain | no gain | no gain |\n" % len(rest)


def interleaved(leaves, hosts):
    """An order of ranks in which every neighbour is on another leaf, as a launcher gives that takes leaves in turn."""
    return "".join("host%d\n" % (leaf * hosts + i + 1) for i in range(hosts) for leaf in range(leaves))


def cluster(build, leaves, hosts, ratio):
    with tempfile.NamedTemporaryFile("w") as order:
        order.write(interleaved(leaves, hosts))
        order.flush()
        cases = json.loads(tributary(build, "simulate", "--fabric", "leaf-spine:%dx%d,%d:1,%s" % (leaves, hosts, ratio, RATE),
                                     "--size", "%d" % BYTES, "--order", "leaf," + order.name, "--aggregators", "1," + RATE,
                                     "--algo", "ring,tree,hierarchical,aggregators", "--json"))["cases"]

    def best(algorithms, leaf=None):
        return min(c["time_s"] for c in cases if c["algorithm"] in algorithms and (leaf is None or (c["order"] == "leaf") == leaf))

    now, ordered = best(("ring", "tree"), False), best(("ring", "tree"), True)
    alone, spare = best(("hierarchical",)), best(("aggregators",))
    cells = ("%d leaves of %d, %d:1" % (leaves, hosts, ratio), times(now / ordered), times(now / alone), times(ordered / alone),
             times(ordered / spare))
    return "| " + " | ".join(cells) + " |\n"


def clusters(build):
    return ("| AllReduce of 128 MiB, hosts' rate over their leaf's uplink | NCCL alone, ranks put in order | aggregation, ranks interleaved | "
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
    readme, picture = ROOT / "README.md", ROOT / "docs" / "plan.svg"
    text = readme.read_text(encoding="utf-8")
    wanted = text.split(BEGIN)[0] + BEGIN + tables + END + text.split(END)[1]
    if options.write:
        readme.write_text(wanted, encoding="utf-8")
        tributary(build, *PICTURE, picture)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        drawn = pathlib.Path(folder) / "plan.svg"
        tributary(build, *PICTURE, drawn)
        stale = ["README.md"] * (text != wanted) + ["docs/plan.svg"] * (drawn.read_bytes() != picture.read_bytes())
    for name in stale:
        print("gains: %s is not what the commands give: make gains" % name)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
