# SPDX-License-Identifier: Apache-2.0
"""The programs of nccl-tests, and the table that they print. Pure, but for looking for the programs."""
import os
import re
import shutil

PROGRAMS = {"all_reduce": "all_reduce_perf", "all_gather": "all_gather_perf", "reduce_scatter": "reduce_scatter_perf",
            "all_to_all": "alltoall_perf", "sendrecv": "sendrecv_perf", "broadcast": "broadcast_perf", "reduce": "reduce_perf"}


class Unreadable(Exception):
    """What was printed is no table of nccl-tests'."""


def find(folder, operation):
    """The program's path, or None."""
    path = os.path.join(folder, PROGRAMS[operation]) if folder else shutil.which(PROGRAMS[operation])
    return path if path and os.access(path, os.X_OK) else None


ROW = re.compile(r"(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)\s+(.+)$")
GPU = re.compile(r"#\s+Rank\s+\d+ .* device\s+\d+ \[[^\]]*\] (.+)")
RANK = re.compile(r"#\s+Rank\s+\d+\b")


def wrong_of(text):
    """Nothing was checked where it says N/A; NaN and what is no number is wrong."""
    if text == "N/A":
        return 0
    return int(text) if text.isdigit() else 1 if not re.fullmatch(r"\d+(\.\d*)?(e[+-]?\d+)?", text) else int(float(text) > 0)


def row(line):
    """One size, or None: (size, count, type, redop, [(time in s, wrong)]): out of place and, where it is there, in place."""
    m = ROW.search(line)
    words = m.group(6).split() if m else []
    if not words or line.lstrip().startswith("#") or len(words) % 4:
        return None
    try:
        sides = [(float(words[i]) * 1e-6, wrong_of(words[i + 3])) for i in range(0, len(words), 4)]
    except ValueError:
        return None
    return int(m.group(1)), int(m.group(2)), m.group(3), m.group(4), sides


def gpu(text):
    """The model of rank 0's, or None."""
    found = GPU.search(text)
    return found.group(1).strip() if found else None


def parse(text):
    """{size: (count, type, redop, seconds out of place, wrong)} and the number of ranks. Raises Unreadable.

    A launcher may write something before each line. Sizes of nothing, as of an AllGather smaller than its ranks, are left out.
    """
    found = {}
    ranks = len(RANK.findall(text))
    if len(re.findall(r"# nThread \d+", text)) > 1:
        raise Unreadable("each rank ran alone: nccl-tests was not built with MPI=1, or mpirun and srun start it with another MPI")
    for line in text.splitlines():
        cells = row(line)
        if cells and cells[0] and cells[4][0][0] > 0:
            size, count, kind, redop, sides = cells
            found[size] = (count, kind, redop, sides[0][0], sum(wrong for _, wrong in sides))
    if not found:
        raise Unreadable("it printed no table of nccl-tests'")
    if ranks < 2:
        raise Unreadable("it ran on %d rank: one alone has nobody to talk to" % ranks)
    return found, ranks
