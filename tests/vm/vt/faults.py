# SPDX-License-Identifier: Apache-2.0
"""Faults at a time: `TIME WHAT`, and how they are done to running VMs."""
import dataclasses
import re
import time

FORMS = """TIME link HOST [rail N] down|up
TIME loss PERCENT HOST [rail N]
TIME blackhole HOST [rail N] [roce|tcp]
TIME heal HOST [rail N]
TIME kill|stop|cont HOST"""
SIGNALS = {"kill": "KILL", "stop": "STOP", "cont": "CONT"}


class FaultError(Exception):
    """The description is wrong; the text says how."""


@dataclasses.dataclass
class Fault:
    at_s: float
    what: str
    kind: str
    host: int
    rails: list
    value: str = ""   # up, down; percent; roce, tcp


def parse(text, hosts, rails):
    """One of FORMS, for a run with so many hosts and rails. Raises FaultError."""
    words = text.split()

    def take(pattern, what):
        m = re.fullmatch(pattern, words[0]) if words else None
        if not m:
            raise FaultError("%s is wanted in the fault '%s'; faults are\n%s" % (what, text, FORMS))
        words.pop(0)
        return m[1]

    at_s = float(take(r"(\d+(?:\.\d+)?)s?", "a time"))
    what = " ".join(words)
    kind = take("(link|loss|blackhole|heal|kill|stop|cont)", "what to do")
    value = take(r"(\d+(?:\.\d+)?)%?", "a percentage") if kind == "loss" else ""
    host = int(take(r"h(\d)", "a host"))
    rail = None
    if words and words[0] == "rail" and kind not in SIGNALS:
        words.pop(0)
        rail = int(take(r"(\d)", "a rail's number"))
    if kind == "link":
        value = take("(down|up)", "down or up")
    elif kind == "blackhole" and words:
        value = take("(roce|tcp)", "roce, tcp, or nothing")
    if words:
        raise FaultError("'%s' is too much in the fault '%s'" % (words[0], text))
    if host >= hosts:
        raise FaultError("there is no host h%d for the fault '%s'" % (host, text))
    if kind not in SIGNALS and (rail or 0) >= rails:
        raise FaultError("there is no rail %d for the fault '%s'" % (rail or 0, text))
    return Fault(at_s, what, kind, host, list(range(rails)) if rail is None else [rail], value)


def lines(fault, hosts):
    """What to tell the VM; nothing for a link between VMs, which is QEMU's."""
    if fault.kind in SIGNALS:
        return ["./signal " + SIGNALS[fault.kind]]
    out = []
    for rail in ["rail%d" % r for r in fault.rails]:
        if fault.kind == "link" and hosts == 1:
            out.append("ip link set %s %s" % (rail, fault.value))
        elif fault.kind == "loss":
            out.append("tc qdisc replace dev %s root netem loss %s%%" % (rail, fault.value))
        elif fault.kind == "blackhole":
            match = {"roce": "match ip protocol 17 0xff match ip dport 4791 0xffff", "tcp": "match ip protocol 6 0xff",
                     "": "match u32 0 0"}[fault.value]
            out += ["tc qdisc add dev %s ingress" % rail, "tc filter add dev %s parent ffff: protocol %s u32 %s "
                    "action drop" % (rail, "ip" if fault.value else "all", match)]
        elif fault.kind == "heal":
            out.append("tc qdisc del dev %s root 2>/dev/null; tc qdisc del dev %s ingress 2>/dev/null; :" % (rail, rail))
    return out


def apply(fault, machines):
    """Does it; the reason when it could not be done."""
    machine = machines[fault.host]
    if fault.kind == "kill":
        machine.killed_s = time.monotonic()
    for line in lines(fault, len(machines)):
        status = machine.tell(line)
        if status != 0 and (fault.kind != "kill" or status is not None):
            return "%s: '%s' gave %s" % (machine.name, line, "no answer" if status is None else "status %d" % status)
    if fault.kind == "link" and len(machines) > 1:
        for rail in fault.rails:
            machine.monitor("set_link rail%d %s" % (rail, "on" if fault.value == "up" else "off"))
    return None
