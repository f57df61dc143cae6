# SPDX-License-Identifier: Apache-2.0
"""What a cluster file would say of a test-bed: leaves, hosts, rates, aggregators (docs/format/cluster-file.md)."""


def rates(**shapes):
    """Words for the rates of shaped links; one word where all are the same."""
    known = {key: "%gMbit/s" % (shape.rate_bps / 1e6) for key, shape in shapes.items() if shape.rate_bps is not None}
    if len(known) == len(shapes) and len(set(known.values())) == 1:
        known = {"rate": next(iter(known.values()))}
    return "".join(" %s=%s" % item for item in known.items())


def parents(bed):
    """{switch: (switch above, up, down)}, with a spine at the top; the shapes of the two directions between them.

    Leaves alone that are joined by one uplink get a spine between them: each sees the uplink as its own.
    """
    if not bed.uplinks:
        return {}
    if not bed.spines and len(bed.uplinks) == 1:
        up = bed.uplinks[0]
        return {up.a: ("top", up.ab, up.ba), up.b: ("top", up.ba, up.ab)}
    top = (bed.spines or bed.leaves)[0]
    found, edge = {}, [top]
    while edge:
        here = edge.pop()
        for up in bed.uplinks:
            for below, above, out, back in ((up.a, up.b, up.ab, up.ba), (up.b, up.a, up.ba, up.ab)):
                if above == here and below != top and below not in found:
                    found[below] = (here, out, back)
                    edge.append(below)
    return found


def text(bed):
    """The file. Rail 0 is the rail that counts."""
    above = parents(bed)
    lines, waiting = ["# The test-bed %s." % bed.name, "tributary-cluster 1"], bed.spines + bed.leaves
    if above and not set(waiting) >= {name for name, _, _ in above.values()}:
        waiting = ["top"] + waiting
    said = set()
    while waiting:  # a switch after the one above it
        switch = next(s for s in waiting if s not in above or above[s][0] in said)
        waiting.remove(switch)
        said.add(switch)
        line = "switch %s" % switch
        if switch in above:
            name, up, down = above[switch]
            line += " parent=%s%s" % (name, rates(up=up, down=down))
        lines.append(line)
    for name in bed.rank_hosts():
        link = bed.host(name).links[0]
        lines.append("host %s leaf=%s%s" % (name, link.leaf, rates(rate=link.out)))
    for name, port in bed.aggregators:
        link = bed.host(name).links[0]
        lines.append("aggregator %s:%d leaf=%s%s" % (link.addr, port, link.leaf, rates(rate=link.out)))
    return "\n".join(lines) + "\n"
