# SPDX-License-Identifier: Apache-2.0
"""The command line."""
import argparse
import sys

from . import faults, kit, machine, run

SKIPPED, USAGE = 77, 2


def arguments():
    p = argparse.ArgumentParser(prog="vm", description="Runs programs in small virtual machines with SoftRoCE.")
    sub = p.add_subparsers(dest="verb", required=True, metavar="VERB")
    r = sub.add_parser("run", help="run a command in a VM: vm run [OPTIONS] -- COMMAND …")
    r.add_argument("--hosts", type=int, default=1, choices=(1, 2), help="VMs that are joined by cables (1)")
    r.add_argument("--rails", type=int, choices=(0, 1, 2, 3), help="with two hosts 1 to 3 (1), with one host 0 or 2 (0)")
    r.add_argument("--machine", default="plain", choices=sorted(machine.MACHINES), help="tree: PCIe switches, two nodes")
    r.add_argument("--timeout", type=float, default=120, metavar="S", help="for the command, without the boot (120)")
    r.add_argument("--env", action="append", default=[], metavar="K=V", help="one more environment variable")
    r.add_argument("--fault", action="append", default=[], metavar="FAULT", help="'TIME WHAT', see README.md")
    r.add_argument("--keep", metavar="FOLDER", help="copies what h0's command left in /run/vm, if it succeeded")
    sub.add_parser("check", help="can VMs be had here: ok, or skipped with the reason (exit 77)")
    return p


def fail(text):
    sys.stderr.write("vm: %s\n" % text)
    sys.exit(USAGE)


def complete(options):
    """Fills in what was left out; complains of what does not go together."""
    if options.rails is None:
        options.rails = options.hosts - 1
    if options.rails in ((1, 3) if options.hosts == 1 else (0,)):
        fail("one host has 0 or 2 rails, two hosts have 1 to 3")
    if options.machine != "plain" and (options.hosts > 1 or options.rails):
        fail("the machine '%s' is for one host without rails" % options.machine)
    if not options.command:
        fail("run needs a command: vm run -- COMMAND")
    for pair in options.env:
        if "=" not in pair:
            fail("--env takes K=V, not '%s'" % pair)
    options.env = dict(pair.split("=", 1) for pair in options.env)
    try:
        options.faults = [faults.parse(text, options.hosts, options.rails) for text in options.fault]
    except faults.FaultError as e:
        fail(e)


def main():
    words = sys.argv[1:]
    dashes = words.index("--") if "--" in words else len(words)
    options = arguments().parse_args(words[:dashes])
    options.command = words[dashes + 1:]
    if options.verb == "run":
        complete(options)
    try:
        ready = kit.make()
    except kit.Missing as e:
        print("skipped: %s" % e, flush=True)
        return SKIPPED
    if options.verb == "check":
        print("ok: Linux %s, %s" % (ready.release, "emulated" if machine.is_emulated() else "KVM"))
        return 0
    return run.Run(ready, options).run()
