# SPDX-License-Identifier: Apache-2.0
"""What NCCL's log says of a run with NCCL_DEBUG_SUBSYS=INIT,NET,TUNING: what was taken for each collective, and the communicator. Pure."""
import re

OPERATIONS = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "Broadcast": "broadcast", "Reduce": "reduce"}
TAKEN = re.compile(r"NCCL INFO (\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
SHAPE = re.compile(r"NCCL INFO comm \S+ rank \d+ nRanks (\d+) nNodes (\d+) ")
CHANNELS = re.compile(r"NCCL INFO (\d+) coll channels")
VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")


def ways(log, ranks):
    """{(operation, size): (algorithm, protocol, channels)}, the last of each, as a table may be followed from a communicator's
    second group on; sizes as nccl-tests counts them."""
    found = {}
    for name, size, algorithm, protocol, low, high in TAKEN.findall(log):
        operation = OPERATIONS.get(name)
        # NCCL counts what one rank gives of an AllGather, and gets of a ReduceScatter.
        parts = ranks if operation in ("all_gather", "reduce_scatter") else 1
        found[operation, int(size) * parts] = (algorithm.lower().replace("_", "-"), protocol.lower(), int(high) - int(low) + 1)
    return found


def shape(log):
    """{"nccl", "ranks", "hosts", "channels"} of the largest communicator, or None."""
    version, shapes, channels = VERSION.search(log), SHAPE.findall(log), CHANNELS.findall(log)
    if not version or not shapes or not channels:
        return None
    ranks, hosts = max((int(ranks), int(hosts)) for ranks, hosts in shapes)
    return {"nccl": version.group(1), "ranks": ranks, "hosts": hosts, "channels": max(map(int, channels))}
