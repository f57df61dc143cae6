# SPDX-License-Identifier: Apache-2.0
"""The two sides of a comparison: what their environments differ in, and what NCCL's log must show of each. Pure.

"with" has what `tributary env` prints. "without" is the environment as it is now, less the plugin, and with it less the
NCCL_COLLNET_ENABLE that is set beside it: it would switch GPUDirect RDMA off for plain NCCL. TRIBUTARY_DISABLE is for a
plugin that NCCL finds by itself (`make install-default`, nccl.conf).
"""
import re

SIDES = ("with", "without")
PLUGINS = ("NCCL_NET_PLUGIN", "NCCL_ENV_PLUGIN", "NCCL_TUNER_PLUGIN")
OURS = re.compile(r"(?:Using network Tributary|via (?:NET|COLLNET)/Tributary)\b")
NETWORK = re.compile(r"Using network (\S+)|via NET/(\w+)")
REPORT = re.compile(r"Tributary \d+\.\d+\.\d+: (.*)")
VERSION = re.compile(r"NCCL version (\S+)")


class Failed(Exception):
    """A turn that says nothing about the plugin."""


def without_ours(value):
    """A list of plugins, less ours."""
    return ",".join(word for word in value.split(",") if "tributary" not in word)


def given(environment):
    """What `tributary env` is to start from: what names a plugin now belongs to the side without."""
    return {name: value for name, value in environment.items() if name not in PLUGINS + ("NCCL_NET", "TRIBUTARY_DISABLE")}


def changes(environment, side, variables, log="/dev/stderr"):
    """{name: value or None}: what the side sets and takes away."""
    # check() needs these lines, and a log of more would take time.
    found = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": log}
    if side == "with":
        return {**found, "NCCL_NET": None, "TRIBUTARY_DISABLE": None, **variables}
    found["TRIBUTARY_DISABLE"] = "1"
    if environment.get("NCCL_NET", "").lower() == "tributary":
        found["NCCL_NET"] = None
    for name in PLUGINS:
        if "tributary" in environment.get(name, ""):
            found[name] = without_ours(environment[name]) or None
            found["NCCL_COLLNET_ENABLE"] = None
    return found


def environment_of(environment, found):
    """The environment after the changes."""
    changed = {**environment, **found}
    return {name: value for name, value in changed.items() if value is not None}


def words_of(found):
    """The same for launchers, which do not all pass the environment on: env(1) and its words."""
    return ["env"] + [word for name, value in found.items() if value is None for word in ("-u", name)] + \
        ["%s=%s" % (name, value) for name, value in found.items() if value is not None]


def check(side, log):
    """What network the log shows, in words. Raises Failed unless it is what the side is named after."""
    networks = sorted({a or b for a, b in NETWORK.findall(log)})
    named, report = ", ".join(networks) or "nowhere", REPORT.search(log)
    if not log.strip():
        raise Failed("%s Tributary: NCCL wrote no log here" % side)
    if side == "without":
        if OURS.search(log):
            raise Failed("without Tributary: NCCL's log names the network %s" % named)
        return named
    if not report and not OURS.search(log):
        raise Failed("with Tributary: NCCL did not load it; its log names the network %s" % named)
    if report and report.group(1).startswith("net ") and "left to NCCL" not in report.group(1) and networks and "Tributary" not in networks:
        raise Failed("with Tributary: NCCL's log names the network %s" % named)
    return "Tributary: %s" % report.group(1) if report else named
