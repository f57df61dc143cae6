#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What plans and choices bring under real NCCL, over emulated PCIe, NVLink and network: NCCL alone and with the plugin, in turns.

    perf/emulated_nccl.py --fakerun PROGRAM --lib DIR [--build DIR] [--hosts 1,2] [--pairs N] [--again] [--set NAME=VALUE] [MACHINE ...]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher that charges every byte to the links
that it crosses (--fabric), and a folder with libnccl.so.2 and rankbench. Without them, or without the right to make network
namespaces, it says so and ends with status 77. Nothing else may run on the machine: a busy one makes rates too low.

Machines are those of topo/, as TCP hosts with one process a GPU. A cell is a machine, one host or two, an operation and a size; the
figures are GB/s of NCCL's bus bandwidth, medians of the pairs, by the fabric's own clock. Each finished cell is a line of the record
(--record), and is measured again only where what NCCL chose or the plan's channels are other ones now, or with --again.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import zlib

import emulated_fabric
import simulated_nccl

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIDES = {"alone": {"NCCL_NET_PLUGIN": "", "NCCL_ENV_PLUGIN": "", "NCCL_NET": "Socket"}, "plugin": {"NCCL_NET_PLUGIN": ""}}
NAMES = {"allreduce": "AllReduce", "allgather": "AllGather", "reducescatter": "ReduceScatter", "broadcast": "Broadcast",
         "alltoall": "AlltoAll"}
# What one start of the program runs: operations, sizes in MiB.
STARTS = [(["allreduce"], [8, 16, 32, 64, 128, 256]), (["allgather", "reducescatter", "broadcast", "alltoall"], [64])]
ITERATIONS, WARM = 2, 1
SCALE = 200          # of the links' rates; more where the network would ask too much of the CPU
NETWORK_BPS = 2.5e8  # what all NICs of a host may carry here, bytes/s
CHANNELS = re.compile(r"NCCL INFO (Channel \d+/\d+ : .*|Trees .*)")
HEAD = """emulated-fabric: NCCL alone and with the plugin over emulated PCIe, NVLink and network

date: %(date)s
cpu: %(cpu)s
command: perf/emulated_nccl.py --fakerun PROGRAM --lib DIR

Unmodified host libraries of NCCL, simulated GPUs and kernels. Machines of topo/ as TCP hosts; GB/s of NCCL's bus bandwidth, medians.
Then what NCCL ran, alone and with the plugin, a checksum of channels and links, NCCL's version, date and commit. LL128 is off, no data
is moved, and thread blocks are not limited but where FAKE_FABRIC_BLOCK is set (GB/s). What is not here was not measured.

"""


def cpu():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else "unknown"


class Host:
    """A machine of topo/ as files that NCCL and the plugin take."""

    def __init__(self, name, folder, options):
        self.name, self.folder = name, folder
        source = ROOT / "topo" / name
        text = source.joinpath("machine.topology").read_text()
        text = text.replace(" gdr=1", "").replace(" rdma=1", "")
        (folder / "machine.topology").write_text(text)
        if (source / "rules").exists():
            (folder / "rules").write_text((source / "rules").read_text())
        machine = emulated_fabric.Machine(folder)
        self.gpus = len(machine.gpus)
        self.nics = [(nic, machine.vertices[nic].get("interface", nic), float(machine.vertices[nic].get("speed_Bps", 0)))
                     for nic in machine.nics]
        (folder / "fabric").write_text(emulated_fabric.Fabric(machine).text())
        # What NCCL alone knows: nominal rates.
        (folder / "nominal.topology").write_text(re.sub(r"(?m)^rate .*\n", "", text))
        tributary = options.build / "tributary"
        call(tributary, "export", "--from", folder / "nominal.topology", "--output", folder / "nominal.xml")
        xml = (folder / "nominal.xml").read_text()
        for nic, interface, _ in self.nics:
            xml = xml.replace(f'name="{nic}"', f'name="{interface}"')
        (folder / "nominal.xml").write_text(xml)
        call(tributary, "measure", "--simulate", folder, "--output", folder / "measured")
        (folder / "profile").write_text(adopted(options.own_profile.read_text(), (folder / "measured").read_text()))

    def scale(self):
        return max(SCALE, sum(speed for _, _, speed in self.nics) / NETWORK_BPS)


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words[0]} {words[1]}: {done.stderr.strip()[-500:]}")


def adopted(own, simulated):
    """A simulated machine's profile that passes for this host's."""
    facts = [line for line in own.splitlines() if line.startswith(("fingerprint ", "machine "))]
    lines = [line for line in simulated.splitlines() if not line.startswith(("machine ", "checksum "))]
    at = next(i for i, line in enumerate(lines) if line.startswith("fingerprint "))
    text = "\n".join(lines[:at] + facts + lines[at + 1:]) + "\n"
    return text + "checksum crc32 %08x\n" % zlib.crc32(text.encode())


@contextlib.contextmanager
def network(host, hosts):
    """A namespace a host; NIC number k of all is on one bridge, each way at its rate."""
    prefix, bridges = "emulated", []
    try:
        for i in range(hosts):
            simulated_nccl.ip("netns", "add", f"{prefix}{i}")
            simulated_nccl.ip("-n", f"{prefix}{i}", "link", "set", "lo", "up")
        for k, (_, interface, speed) in enumerate(host.nics):
            bridge = f"emu{k}"
            bridges.append(bridge)
            simulated_nccl.ip("link", "add", bridge, "mtu", 9000, "type", "bridge")
            simulated_nccl.ip("link", "set", bridge, "up")
            for i in range(hosts):
                join(f"{prefix}{i}", interface, f"emu{k}h{i}", bridge, f"10.{100 + k}.0.{i + 1}/24", speed / host.scale())
        yield prefix
    finally:
        for i in range(hosts):
            subprocess.run(["ip", "netns", "del", f"{prefix}{i}"], capture_output=True, check=False)
        for bridge in bridges:
            subprocess.run(["ip", "link", "del", bridge], capture_output=True, check=False)


def join(namespace, interface, outside, bridge, address, rate_Bps):
    ip = simulated_nccl.ip
    ip("link", "add", outside, "mtu", 9000, "type", "veth", "peer", "name", interface, "mtu", 9000, "netns", namespace)
    ip("link", "set", outside, "master", bridge, "up")
    ip("-n", namespace, "link", "set", interface, "up")
    ip("-n", namespace, "addr", "add", address, "dev", interface)
    rate = f"{rate_Bps * 8:.0f}bit"
    for tc, device in (["tc", "-n", namespace], interface), (["tc"], outside):
        for words in (["qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "10", "r2q", "1000"],
                      ["class", "add", "dev", device, "parent", "1:", "classid", "1:10", "htb", "rate", rate, "burst", "256k", "cburst", "256k"],
                      ["qdisc", "add", "dev", device, "parent", "1:10", "bfifo", "limit", "2mb"]):
            subprocess.run([*tc, *words], check=True)


def gone(kernels, rows):
    """Of each row, in order, what an operation took by the fabric's clock, of the machine, in us."""
    columns = [1 if operation == "alltoall" else 2 for operation, _ in rows] # out of place and in place
    each = ITERATIONS + WARM
    if any(len(ones) != each * sum(columns) for ones in kernels):
        sys.exit(f"the fabric has {sorted({len(ones) for ones in kernels})} kernels a GPU, {each * sum(columns)} were expected")
    at = 0
    for count in columns:
        took = []
        for _ in range(count):
            first, last = at + WARM, at + each - 1
            took.append(statistics.mean(ones[last][1] - ones[first][0] for ones in kernels) / ITERATIONS * 1e6)
            at += each
        yield statistics.mean(took)


def start(options, host, hosts, side, operations, sizes):
    """Of each cell GB/s; what NCCL chose for each; the channels' checksum; NCCL's version."""
    rows = [(operation, size) for operation in operations for size in sizes]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as at:
        folder = pathlib.Path(at)
        environment = {"NCCL_DEBUG_SUBSYS": "INIT,GRAPH,TUNING,ENV,NET", "FAKE_FABRIC_DATA": 0, **SIDES[side],
                       "NCCL_SOCKET_IFNAME": "=" + ",".join(interface for _, interface, _ in host.nics)}
        launcher = ["--fabric", host.folder / "fabric", "--scale", host.scale(), "--counters", folder / "counters", "--torchrun", 1]
        if side == "alone":
            launcher += ["--topo", host.folder / "nominal.xml"]
        else:
            environment["TRIBUTARY_PROFILE"] = host.folder / "profile"
        environment.update(word.split("=", 1) for word in options.set)
        arguments = ["-o", ",".join(operations), "-b", f"{sizes[0]}M", "-e", f"{sizes[-1]}M", "-f", 2, "-n", ITERATIONS, "-w", WARM, "-C", 0]
        options.ranks = host.gpus * hosts
        out, log = simulated_nccl.run(options, folder, environment, [str(word) for word in arguments], host.gpus, launcher)
        counters = json.loads((folder / "counters").read_text())
    times_us = list(gone([ones for one in counters for ones in one["kernels"] if ones], rows))
    ranks = options.ranks
    part = {"allreduce": 2 * (ranks - 1) / ranks, "broadcast": 1}
    rates = {row: row[1] * 1.048576e3 / us * part.get(row[0], (ranks - 1) / ranks) for row, us in zip(rows, times_us)}
    chosen = {(func.lower(), size): f"{algorithm} {protocol} {channels}"
              for func, size, algorithm, protocol, channels in simulated_nccl.choices(log, ranks)}
    rules = [(host.folder / name).read_text() for name in ("fabric", "nominal.xml")]
    channels = hashlib.sha256("\n".join(rules + sorted(set(CHANNELS.findall(log)))).encode()).hexdigest()[:8]
    version = re.search(r"# nccl (\d+)", out)[1]
    return rates, {row: chosen.get((row[0], row[1] << 20), "-") for row in rows}, channels, version


def title(options, host, hosts, row):
    more = "".join(", " + word for word in options.set)
    return f"{host.name}, {'one host' if hosts == 1 else f'{hosts} hosts'}{more}, {NAMES[row[0]]}, {row[1]} MiB"


def read(record):
    """The cells' lines by title."""
    if not record.exists():
        return {}
    return dict(line.split(": ", 1) for line in record.read_text().splitlines() if re.match(r"\S+, (one host|\d+ hosts), .* MiB: ", line))


def write(record, cells):
    head = HEAD % {"date": datetime.date.today(), "cpu": cpu()}
    record.write_text(head + "".join(f"{cell}: {line}\n" for cell, line in sorted(cells.items(), key=order)))


def order(item):
    machine, hosts, *rest = item[0].split(", ")
    return machine, hosts != "one host", hosts, rest[:-1], int(rest[-1].split()[0])


def measure(options, host, hosts, operations, sizes, cells):
    rates = {side: [] for side in SIDES}
    chosen, channels = {}, {}
    for pair in range(options.pairs):
        for side in list(SIDES)[::-1 if pair % 2 == 0 else 1]:
            found, chosen[side], channels[side], version = start(options, host, hosts, side, operations, sizes)
            rates[side].append(found)
            if pair == 0 and side == "plugin" and not options.again and all(
                    f"{what}; channels {channels[side]}; " in cells.get(title(options, host, hosts, row), "")
                    for row, what in chosen[side].items()):
                return
    today, commit = datetime.date.today(), options.commit
    for row in rates["alone"][0]:
        alone, plugin = (statistics.median(found[row] for found in rates[side]) for side in ("alone", "plugin"))
        cell = title(options, host, hosts, row)
        cells[cell] = (f"{alone:.2f} alone, {plugin:.2f} with the plugin, {plugin / alone:.2f} times; {chosen['alone'][row]} > "
                       f"{chosen['plugin'][row]}; channels {channels['plugin']}; {version}, {today}, {commit}")
        print(f"{cell}: {cells[cell]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    simulated_nccl.add_arguments(parser, 0)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--hosts", default="1,2")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--sizes", help="of AllReduce alone, in MiB")
    parser.add_argument("--again", action="store_true", help="cells that are in the record, too")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one more variable, on both sides")
    parser.add_argument("--record", type=pathlib.Path, default=ROOT / "perf/results/emulated-fabric.txt")
    parser.add_argument("machines", nargs="*", metavar="MACHINE")
    options = simulated_nccl.parse(parser)
    simulated_nccl.own_namespaces()
    starts = [(["allreduce"], [int(size) for size in options.sizes.split(",")])] if options.sizes else STARTS
    options.commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True, check=True).stdout.strip()
    machines = options.machines or sorted(path.parent.name for path in ROOT.glob("topo/*/machine.topology"))
    cells = read(options.record)
    with tempfile.TemporaryDirectory() as at:
        options.driver = simulated_nccl.make_driver(pathlib.Path(at))
        options.own_profile = pathlib.Path(at) / "own"
        call(options.build / "tributary", "measure", "--quick", "--output", options.own_profile)
        for name in machines:
            folder = pathlib.Path(at) / name
            folder.mkdir()
            host = Host(name, folder, options)
            for hosts in map(int, options.hosts.split(",")):
                if hosts > 1 and not host.nics:
                    continue
                with network(host, hosts) as options.netns:
                    for operations, sizes in starts:
                        measure(options, host, hosts, operations, sizes, cells)
                        write(options.record, cells)


main()
