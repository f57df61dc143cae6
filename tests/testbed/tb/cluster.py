"""What a cluster file would say of a test-bed: leaves, hosts, rates, aggregators (docs/cluster-file.md)."""


def rate(bps):
    return "" if bps is None else " rate %gMbit/s" % (bps / 1e6)


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
    lines = ["# The test-bed %s." % bed.name]
    for name in sorted({a for a, _, _ in above.values()} - set(bed.leaves) - set(above)):
        lines.append("switch %s" % name)
    for switch in [s for s in bed.spines + bed.leaves if s in above or s in bed.leaves]:
        line = "switch %s" % switch
        if switch in above:
            name, up, down = above[switch]
            line += " parent %s%s%s" % (name, rate(up.rate_bps).replace("rate", "up"), rate(down.rate_bps).replace("rate", "down"))
        lines.append(line)
    lone = {name for name, _ in bed.aggregators} | {name for name, _ in bed.services}
    for host in bed.hosts:
        if host.name not in lone:
            lines.append("host %s leaf %s%s" % (host.name, host.links[0].leaf, rate(host.links[0].out.rate_bps)))
    for name, port in bed.aggregators:
        link = bed.host(name).links[0]
        lines.append("aggregator %s:%d leaf %s%s" % (link.addr, port, link.leaf, rate(link.out.rate_bps)))
    return "\n".join(lines) + "\n"
