#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the profiler half counts and times, against what NCCL and its program say themselves.

    perf/profiler_nccl.py --fakerun PROGRAM --lib DIR [--plugin FILE] [--ranks N] [--rounds N] [--time]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with
libnccl.so.2 and rankbench. Without them it says so and ends with status 77.

Counts: after rounds of random operations, those of rank 0 by collective, size class, algorithm, protocol and channels must be
those of NCCL's own lines (NCCL_DEBUG_SUBSYS=TUNING, on rank 0 alone), and the other ranks' must be rank 0's.
--time: the mean time of the samples of each size against the mean time that the program measures.
"""

import argparse
import collections
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

COLLECTIVES = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", None, "Send", "Recv", "other"]
ALGORITHMS = ["-", "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"]
PROTOCOLS = ["-", "LL", "LL128", "SIMPLE"]
MAGIC, COMMS, ROWS = 0x5452494F50530001, 64, 2048
SKIPPED = 77
TUNING = re.compile(r"NCCL INFO (\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")


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


def size_class(size):
    return (size - 1).bit_length() if size > 1 else 0


def ncclsays(text, ranks, broadcasts):
    """By NCCL's lines: how many, and how many bytes. broadcasts: NCCL's events say how they run, as before 2.30."""
    counts = collections.defaultdict(lambda: [0, 0])
    for func, size, algo, proto, low, high in TUNING.findall(text):
        size = int(size) * (ranks if func in ("AllGather", "ReduceScatter") else 1)
        channels = 0 if algo.startswith("COLLNET") else int(high) - int(low) + 1  # NCCL's events do not say it
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
    given = {"NCCL_NET_PLUGIN": options.plugin, "NCCL_ENV_PLUGIN": options.plugin, "NCCL_COLLNET_ENABLE": "1",
             "NCCL_ALGO": "", "NCCL_PROTO": "^LL128", "NCCL_P2P_LL_THRESHOLD": "", "NCCL_DEBUG": "INFO",
             "NCCL_DEBUG_SUBSYS": "TUNING", "TRIBUTARY_SHARED_DIR": folder / "shared",
             "TRIBUTARY_STATE_DIR": folder / "state", "TRIBUTARY_LOCAL_PROCESSES": options.ranks, **environment}
    (folder / "shared").mkdir()
    line = [options.fakerun, "-n", str(options.ranks), "--lib", options.lib, "--logs", folder / "logs"]
    for name, value in given.items():
        line += ["--env", f"{name}={value}"]
    done = subprocess.run([str(word) for word in (*line, "--", options.lib / "rankbench", *arguments)],
                          capture_output=True, text=True, timeout=options.limit, check=False)
    if done.returncode or "wrong elements: 0" not in done.stdout and ", wrong 0" not in done.stdout:
        sys.exit(f"the program failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    logs = [path.read_text(errors="replace") for path in sorted((folder / "logs").rglob("*")) if path.is_file()]
    return done.stdout, "\n".join(logs)


def counts(options, folder):
    out, log = run(options, folder, {}, ["-S", options.rounds, "-e", options.most, "-o",
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


def times(options, folder):
    out, _ = run(options, folder, {"TRIBUTARY_PROFILER": "time"},
                 ["-o", "allreduce", "-b", options.most, "-e", options.most, "-n", options.rounds, "-w", "5"])
    ranks = by_rank(folder / "shared")
    measured = [float(line.split()[2]) for line in out.splitlines() if re.match(r"\s*\d+\s+\d+\s", line)]
    least = min((row[4] / row[2] / 1e3, row[2]) for rows, _ in ranks.values() for row in rows.values() if row[2])
    print(f"program: {measured} us; the ranks' samples: " + ", ".join(
        f"{row[4] / row[2] / 1e3:.0f} us of {row[2]}" for rows, _ in ranks.values() for row in rows.values() if row[2]))
    return abs(least[0] / measured[0] - 1) <= 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fakerun", type=pathlib.Path)
    parser.add_argument("--lib", type=pathlib.Path)
    parser.add_argument("--plugin", default="build/libnccl-net-tributary.so", type=pathlib.Path)
    parser.add_argument("--ranks", default=4, type=int)
    parser.add_argument("--rounds", default=40, type=int)
    parser.add_argument("--most", default="4M", help="bytes of the largest operation")
    parser.add_argument("--limit", default=300, type=int, help="seconds")
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    if not (options.fakerun and options.lib and (options.lib / "libnccl.so.2").exists()):
        print("skipped: no NCCL on simulated GPUs is named (--fakerun, --lib)")
        sys.exit(SKIPPED)
    options.plugin = options.plugin.resolve()
    with tempfile.TemporaryDirectory() as name:
        sys.exit(0 if (times if options.time else counts)(options, pathlib.Path(name)) else "FAILED")


main()
