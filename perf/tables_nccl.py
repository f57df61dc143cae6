#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether NCCL runs what a tuning table says, and comes to the same results.

    perf/tables_nccl.py --fakerun PROGRAM --lib DIR [--plugin FILE] [--ranks N] [--most BYTES] [--seed N]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with
libnccl.so.2 and rankbench. Without them it says so and ends with status 77.

A table of choices drawn by the seed, for each collective and size class, is installed and named (TRIBUTARY_TUNING), for all
ranks on one host, two on each, and one on each. What NCCL says that it runs (NCCL_DEBUG_SUBSYS=TUNING) must be the table's
algorithm, protocol and number of channels (small operations get fewer) from the first operation on, between hosts but for the
first group. From NCCL 2.30.3 on, chunks that are too long must show in its line that it shortens them. And random groups of
operations on two communicators must come to the right results with the same table.
"""

import argparse
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import simulated_nccl

CHANNELS, CLASSES, CHUNK_MOST = 4, 41, 1 << 30
OPERATIONS = {"broadcast": "Broadcast", "reduce": "Reduce", "allgather": "AllGather", "reducescatter": "ReduceScatter",
              "allreduce": "AllReduce"}  # in the order of tables
SHORTENED = re.compile(r"NCCL INFO (\w+): tuner chunk size (\d+) exceeds buffer max")


def allowed(collective, hosts, ranks):
    """What the simulated GPUs can run, and NCCL allows."""
    ways = [("ring", "ll"), ("ring", "simple")]
    if collective == "allreduce":
        ways += [("tree", "ll"), ("tree", "simple")]
    if collective in ("allgather", "reducescatter") and hosts == ranks:
        ways.append(("pat", "simple"))
    return ways


def draw(options, hosts, version):
    """By collective and size class; and the table's text."""
    generator = random.Random(f"{options.seed} {hosts}")
    table = {}
    lines = ["tributary tuning 1", f"nccl {version // 10000}.{version // 100 % 100}.{version % 100}",
             f"ranks {options.ranks}", f"hosts {hosts}", "gpus simulated", "network not known", "measured 2026-11-27T18:30:00Z"]
    for operation, func in OPERATIONS.items():
        for size_class in range(CLASSES):
            algorithm, protocol = generator.choice(allowed(operation, hosts, options.ranks))
            channels = generator.randint(1, CHANNELS)
            chunk = CHUNK_MOST if size_class % 5 == 0 else generator.choice([0, 8192, 65536])
            chunk *= version >= 23003
            table[func, size_class] = algorithm, protocol, channels, chunk
            lines.append(f"choice {operation} {1 << size_class} {algorithm} {protocol} {channels} {chunk} 1000 2000")
    return table, "\n".join(lines) + "\n"


def install(options, folder, text):
    """The name under which it is followed."""
    (folder / "table").write_text(text)
    (folder / "state").mkdir()
    command = [options.plugin.parent / "tributary", "tune", "--install", folder / "table"]
    done = subprocess.run(command, env={"TRIBUTARY_STATE_DIR": str(folder / "state")}, capture_output=True, text=True,
                          check=False)
    names = list((folder / "state" / "tuning").glob("*.tuning"))
    if done.returncode or len(names) != 1:
        sys.exit(f"the table is not installed: {done.stdout}{done.stderr}")
    return names[0].stem


def differences(said, table, skip):
    """Of NCCL's lines those that are not the table's; how many may have fewer channels is seen by the largest size."""
    most = {func: max((size for name, size, *_ in said if name == func), default=0) for func in OPERATIONS.values()}
    for func, size, algorithm, protocol, channels in said[skip:]:
        wanted = table[func, simulated_nccl.size_class(size)]
        fits = channels == wanted[2] if size == most[func] else channels <= wanted[2]
        if (algorithm.lower(), protocol.lower()) != wanted[:2] or not fits:
            yield f"{func} of {size} bytes: {algorithm} {protocol} on {channels} channels; the table says {wanted}"


def case(options, folder, hosts):
    """Whether it went well."""
    per_host = options.ranks // hosts
    sizes = ["-o", ",".join(OPERATIONS), "-b", "300", "-e", options.most, "-f", "3.1", "-n", "2", "-w", "1"]
    environment = {"NCCL_MIN_NCHANNELS": CHANNELS, "NCCL_MAX_NCHANNELS": CHANNELS}
    out, log = simulated_nccl.run(options, folder / "without", dict(environment), sizes, per_host)
    own = list(simulated_nccl.choices(log, options.ranks))
    version = int(re.search(r"# nccl (\d+)", out).group(1))
    table, text = draw(options, hosts, version)
    environment |= {"TRIBUTARY_TUNING": install(options, folder, text), "TRIBUTARY_STATE_DIR": folder / "state"}
    _, log = simulated_nccl.run(options, folder / "with", dict(environment), sizes, per_host)
    said = list(simulated_nccl.choices(log, options.ranks))
    wrong = list(differences(said, table, 1 if hosts > 1 else 0))
    shortened = {(func, int(chunk)) for func, chunk in SHORTENED.findall(log)}
    ours = {(func, table[func, simulated_nccl.size_class(size)][3]) for func, size, *_ in said}
    changed = sum(one != other for one, other in zip(own, said))
    stress = ["-S", options.rounds, "-e", options.most, "-o", ",".join([*OPERATIONS, "sendrecv"])]
    out, _ = simulated_nccl.run(options, folder / "groups", dict(environment), stress, per_host)
    groups = next(line for line in out.splitlines() if line.startswith("# stress"))
    print(f"NCCL {version}, {options.ranks} ranks on {hosts} host{'s' * (hosts > 1)}: {len(said)} operations, {changed} run "
          f"otherwise than by NCCL's own choice, {len(wrong)} otherwise than the table says; too long "
          f"chunks: {len(shortened)}; {groups[2:]}")
    for line in list(dict.fromkeys(wrong))[:20]:
        print("  " + line)
    lost = {kind for kind in ours if kind[1] == CHUNK_MOST} - shortened | shortened - ours
    if lost:
        print(f"  chunks that the table has and NCCL was not told, or the other way round: {sorted(lost)}")
    return not wrong and not lost and len(own) == len(said) and changed > len(said) // 4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    simulated_nccl.add_arguments(parser, 4)
    parser.add_argument("--most", default="4M", help="bytes of the largest operation")
    parser.add_argument("--rounds", default=20, type=int, help="of random groups")
    parser.add_argument("--seed", default=1, type=int)
    options = simulated_nccl.parse(parser)
    with tempfile.TemporaryDirectory() as name:
        options.driver = simulated_nccl.make_driver(pathlib.Path(name))
        good = [case(options, pathlib.Path(name) / str(hosts), hosts)
                for hosts in (1, options.ranks // 2, options.ranks) if options.ranks % hosts == 0]
    sys.exit(0 if all(good) else "FAILED")


main()
