# SPDX-License-Identifier: Apache-2.0
"""Bytes, packets and drops of each direction of each link, from the kernel's own counters."""
import json


def _read(space):
    """{device: (bytes, packets, drops, filtered)} of one namespace. What the device sent is counted after shaping."""
    found = {}
    for dev in json.loads(space.tool(["ip", "-j", "-s", "link", "show"]) or "[]"):
        tx = dev.get("stats64", {}).get("tx", {})
        found[dev["ifname"]] = [tx.get("bytes", 0), tx.get("packets", 0), tx.get("dropped", 0), 0]
    for qdisc in json.loads(space.tool(["tc", "-j", "-s", "qdisc", "show"]) or "[]"):
        row = found.get(qdisc.get("dev"))
        if row and qdisc.get("kind") == "clsact":
            row[3] += qdisc.get("drops", 0)
        elif row and qdisc.get("root"):
            row[2] += qdisc.get("drops", 0)
    return found


def snapshot(net):
    tables = {name: _read(space) for name, space in [(None, net.switch)] + list(net.hosts.items())}
    rows, relayed = [], net.relayed()
    for sender, receiver, rail, space, dev, shape in net.egresses():
        table = tables[space.name if space is not net.switch else None]
        filtered = relayed.get((sender, receiver), (0, 0))[0] + _filtered(net, tables[None], sender, rail)
        rows.append((sender, receiver, rail, shape.rate_bps, table[dev][:3], filtered))
    return rows


def _filtered(net, switch_table, sender, rail):
    """What a partition took from a host's traffic as it entered the switch."""
    row = switch_table.get("%s.%s" % (sender, rail)) if sender in net.hosts else None
    return row[3] if row else 0


def delta(before, after):
    links = []
    for old, new in zip(before, after):
        sender, receiver, rail, rate_bps, counts, filtered = new
        link = {"from": sender, "to": receiver, "rail": rail, "rate_bps": rate_bps, "filtered": filtered - old[5]}
        link.update(zip(("bytes", "packets", "drops"), (n - o for o, n in zip(old[4], counts))))
        links.append(link)
    return links


def table(links):
    """The same for people; links without traffic are left out."""
    rows = [("link", "rail", "bytes", "packets", "drops", "filtered")]
    for k in links:
        if k["packets"] or k["drops"] or k["filtered"]:
            rows.append(("%s > %s" % (k["from"], k["to"]), "-" if k["rail"] is None else str(k["rail"]),
                         str(k["bytes"]), str(k["packets"]), str(k["drops"]), str(k["filtered"])))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    return ["  ".join([row[0].ljust(widths[0])] + [row[i].rjust(widths[i]) for i in range(1, 6)]) for row in rows]
