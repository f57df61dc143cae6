# SPDX-License-Identifier: Apache-2.0
"""A picture of a test-bed in text."""
from . import units


def plural(n, word, words=None):
    return "%d %s" % (n, word if n == 1 else words or word + "s")


def shape(s):
    if s.rate_bps is None:
        return "unshaped"
    words = [units.show_rate(s.rate_bps), "1000 packets" if s.queue_bytes is None else units.show_size(s.queue_bytes)]
    words += ["a flow " + " or ".join(map(units.show_rate, s.flow_bps))] if s.flow_bps else []
    words += [plural(s.paths, "path")] if s.paths > 1 else []
    return ", ".join(words)


def far_away(up):
    words = ["one way %gms" % (1000 * up.delay_s)] if up.delay_s else []
    return ", ".join(words + (["loses %g%%" % (100 * up.loss)] if up.loss else []))


def picture(bed):
    lines = ["%s: %s, %s, %s" % (bed.name, plural(len(bed.hosts), "host"), plural(bed.rails, "rail"),
                                 plural(len(bed.leaves), "leaf", "leaves"))]
    rank = {name: "#%d" % i for i, name in enumerate(bed.rank_hosts())}
    for switch in bed.switches():
        lines.append("%s %s" % ("leaf" if switch in bed.leaves else "spine", switch))
        rows = [(k.host.name, k.nic, k.addr, "out " + shape(k.out), "in " + shape(k.in_), rank.get(k.host.name, "service"))
                for k in bed.links() if k.leaf == switch]
        rows += [("= " + far, "", "", "out " + shape(out), "in " + shape(back), far_away(up))
                 for up in bed.uplinks for (near, _, out), (far, _, back) in (up.ends(), up.ends()[::-1]) if near == switch]
        widths = [max(len(row[i]) for row in rows) for i in range(6)] if rows else []
        for row in rows:
            lines.append("  |-- " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    facts = ["mtu %d" % bed.mtu] + ["%s %s" % item for item in sorted(bed.offload.items())]
    facts += ["at most %s in a segment" % plural(bed.segments, "packet")] if bed.segments else []
    facts += sorted({"congestion " + h.congestion for h in bed.hosts if h.congestion})
    facts += sorted({"rto_min %gms" % (h.rto_min_us / 1000) for h in bed.hosts if h.rto_min_us})
    facts += ["ipv6"] if bed.ipv6 else []
    facts += ["a cluster file"] if bed.cluster else []
    lines.append(", ".join(facts))
    lines += ["aggregator %s port %d" % a for a in bed.aggregators] + ["service %s  %s" % s for s in bed.services]
    lines += ["at %gs  %s" % (f.at_s, f.what) for f in bed.faults]
    return lines
