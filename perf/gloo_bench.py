#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's Gloo as a side of `allreduce --peer`: perf/common/peer.h says what is said over standard input and output.

Run by itself (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) it answers the same lines. Without PyTorch: skipped.
"""
import ipaddress
import os
import resource
import socket
import sys
import time

try:
    import torch
    import torch.distributed as dist
except ImportError:
    torch = None


def interface():
    """Gloo binds to the interface that GLOO_SOCKET_IFNAME names: here the one with this host's address."""
    if "GLOO_SOCKET_IFNAME" in os.environ or "TB_ADDR" not in os.environ:
        return
    ipaddress.ip_address(os.environ["TB_ADDR"])
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    if names:
        os.environ["GLOO_SOCKET_IFNAME"] = names[0]


def numbers(count):
    """(base, weight) of each element: whole numbers, as reduce_fill() in perf/common/reduce.c has them."""
    at = torch.arange(count, dtype=torch.int64)
    return ((at * 2654435761) & 0xffffffff) >> 22, 1 + at % 5


def cpu_s():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


class Sums:
    """Input and expected result for one count."""

    def __init__(self, count, rank, size):
        base, weight = numbers(count)
        self.count = count
        self.input = (base + weight * rank).float()
        self.sum = (base * size + weight * (size * (size - 1) // 2)).float()
        self.work = torch.empty(count)


def run(sums, batch):
    """(seconds of one run, CPU seconds of one run, wrong elements). The copies of the input are not timed."""
    seconds, used = 0.0, 0.0
    for _ in range(batch):
        sums.work.copy_(sums.input)
        before, began = cpu_s(), time.perf_counter()
        dist.all_reduce(sums.work)
        seconds += time.perf_counter() - began
        used += cpu_s() - before
    return seconds / batch, used / batch, int((sums.work != sums.sum).sum())


def main():
    if torch is None or not dist.is_available():
        print("skipped: no PyTorch with torch.distributed here (Debian: python3-torch)", flush=True)
        return 0
    interface()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    print("ready Gloo", flush=True)
    sums = None
    for line in sys.stdin:
        word, count, batch = line.split()
        if word != "run":
            return 2
        if sums is None or sums.count != int(count):
            sums = Sums(int(count), dist.get_rank(), dist.get_world_size())
            dist.barrier()
        print("done %.9f %.6f %d" % run(sums, int(batch)), flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
