# SPDX-License-Identifier: Apache-2.0
"""Which path each connection must use, by a search over the drawing. It shares nothing with what it judges.

A path is a port of the sending host and one of the receiving host that reach each other. A connection's own path, from the
sender's device to the receiver's, is used wherever it joins them and no other path is more than eight times as fast.
Otherwise: own port to another port of the peer, another port of ours to the peer's own, any two; of equal rank the faster,
which the slower of its ends decides. A port of unknown speed is never too slow.

Where that leaves several paths, each of them is right. So it is where the rule can be read in several ways, which only
unknown speeds and slow paths of the second and third rank allow: all readings are tried.
"""
import itertools

from drawing import joined

TOO_SLOW = 8
OWN, OWN_PORT, PEERS_PORT, ANY = range(4)


def paths(drawing, a, b):
    return [(p, q) for p in drawing.hosts[a].ports for q in drawing.hosts[b].ports if joined(p, q)]


def rank_of(path, own, peers):
    p, q = path
    if p is own:
        return OWN if q is peers else OWN_PORT
    return PEERS_PORT if q is peers else ANY


def devices(host):
    """The ports as NCCL sees them: the fastest first, one of unknown speed as 10 Gbit/s."""
    return sorted(host.usable(), key=lambda p: (-(p.speed_Mbps or 10000), p.name))


def connections(devices, drawing, channels=None):
    """(channel, from, to, own port, the peer's) of each; devices: every rank's, as ports."""
    for channel in range(channels or max(map(len, devices))):
        for a, b in drawing.neighbours():
            yield channel, a, b, devices[a][channel % len(devices[a])], devices[b][channel % len(devices[b])]


def _readings(all_paths):
    """Does the limit hold for the own path alone; does one unknown end save the path; does it keep a path from being the faster
    one; what an unknown speed is among equals; what 1 Gbit/s counts as, where all that is told of it is "below 2.5"."""
    speeds = {p.speed_Mbps for path in all_paths for p in path}
    either = (True, False) if None in speeds else (True,)
    return itertools.product((True, False), either, either, (1, 10000, 1 << 30) if None in speeds else (1,),
                             (1000, 2500) if 1000 in speeds else (1000,))


def _speeds(path, slowest):
    return [max(p.speed_Mbps, slowest) if p.speed_Mbps else None for p in path]


def _is_too_slow(path, all_paths, reading):
    _, one_saves, one_hides, _, slowest = reading
    mine = [s for s in _speeds(path, slowest) if s]
    if not mine or (one_saves and len(mine) == 1):
        return False
    for other in all_paths:
        theirs = [s for s in _speeds(other, slowest) if s]
        if theirs and not (one_hides and len(theirs) == 1) and min(theirs) > TOO_SLOW * min(mine):
            return True
    return False


def _best(all_paths, own, peers, reading):
    own_alone, _, _, assumed, slowest = reading

    def order(path):
        rank = rank_of(path, own, peers)
        slow = (rank == OWN or not own_alone) and _is_too_slow(path, all_paths, reading)
        return slow, rank, -min(s or assumed for s in _speeds(path, slowest))
    least = min(order(path) for path in all_paths)
    return {path for path in all_paths if order(path) == least}


def right_paths(drawing, a, b, own, peers):
    """The paths of which the connection from rank a's port `own` to rank b's port `peers` may use any; none: it cannot be."""
    all_paths = paths(drawing, a, b)
    if not all_paths:
        return set()
    return set().union(*(_best(all_paths, own, peers, reading) for reading in _readings(all_paths)))
