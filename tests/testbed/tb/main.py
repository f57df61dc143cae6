# SPDX-License-Identifier: Apache-2.0
"""The command line."""
import argparse
import os
import shutil
import signal
import sys
import time

from . import bed, net, private, run, show, spaces, units

SKIPPED, FAILED, USAGE = 77, 125, 2
TOOLS = ("ip", "tc", "bridge", "ethtool")

CHECK_BED = """hosts 2
rate 100Mbit
buffer 100KB
offload off
"""


def per_host(text):
    """K for every host, or H=K for some: {None: K} or {H: K, …}."""
    try:
        if "=" not in text:
            return {None: units.count(text, 1, 64)}
        return {name: units.count(k, 1, 64) for name, _, k in (part.partition("=") for part in text.split(","))}
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e))


def arguments():
    p = argparse.ArgumentParser(prog="testbed", description="A cluster on one machine, from one description file.")
    sub = p.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name, text, file=True):
        v = sub.add_parser(name, help=text, description=text)
        if file:
            v.add_argument("file", metavar="FILE.bed")
            v.add_argument("--set", action="append", default=[], metavar="FACT", help="one more fact, after the file's")
        return v

    r = verb("run", "run a command on every host: testbed run FILE.bed [OPTIONS] -- COMMAND …")
    r.add_argument("--per-host", type=per_host, default={}, metavar="K|H=K,…", help="processes a host (1)")
    r.add_argument("--only", type=lambda s: s.split(","), metavar="H,H", help="these hosts alone")
    r.add_argument("--timeout", type=units.time_s, metavar="S", help="end the run after so long, with status 124")
    r.add_argument("--env", action="append", default=[], metavar="K=V", help="one more environment variable")
    r.add_argument("--json", metavar="OUT", help="write the report there")
    r.add_argument("--quiet", action="store_true", help="no table of links, no word about faults")
    r.add_argument("--no-prefix", action="store_true", help="output lines without [host]")
    s = verb("shell", "a shell, or a command, in one host: testbed shell FILE.bed HOST [-- COMMAND …]")
    s.add_argument("host")
    verb("show", "the test-bed as a picture")
    verb("check", "can a test-bed be built here: ok, or skipped with the reason (exit 77)", False)
    verb("cleanup", "end what dead runs left behind (the kernel does it too)", False)
    return p


def fail(text, status):
    sys.stdout.flush()
    sys.stderr.write("testbed: %s\n" % text)
    sys.exit(status)


def missing_tools():
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [tool for tool in TOOLS if not shutil.which(tool)]


def skip(reason):
    print("skipped: %s" % reason, flush=True)
    return SKIPPED


def with_net(description, work, quiet=False):
    """Builds the bed in private namespaces, returns work(net, alive_fd)'s exit status; comes back in the child only."""
    absent = missing_tools()
    if absent:
        return skip("%s not installed (Debian: iproute2, ethtool)" % ", ".join(absent))
    try:
        alive_fd = private.enter()
        built = net.build(description)
    except private.Refused as e:
        return skip(e)
    except (spaces.ToolError, OSError) as e:
        fail("cannot build %s: %s" % (description.name, e), FAILED)
    for text in built.warnings:
        if not quiet:
            run.say("warning: " + text)
    try:
        return work(built, alive_fd)
    except spaces.ToolError as e:
        fail(e, FAILED)
    finally:
        built.close()


def do_run(options, description):
    if not options.command:
        fail("run needs a command: testbed run FILE.bed -- COMMAND", USAGE)
    known = description.rank_hosts()
    for name in (options.only or []) + [h for h in options.per_host if h]:
        if name not in known:
            fail("there is no host '%s' for the command" % name, USAGE)
    ranks = sum(options.per_host.get(h, options.per_host.get(None, 1)) for h in options.only or known)
    for fault in description.faults:
        if fault.rank is not None and fault.rank >= ranks:
            fail("the fault '%s' needs rank %d, and there are %d ranks" % (fault.what, fault.rank, ranks), USAGE)
    for pair in options.env:
        if "=" not in pair:
            fail("--env takes K=V, not '%s'" % pair, USAGE)
    options.env = dict(pair.split("=", 1) for pair in options.env)
    return with_net(description, lambda built, alive: run.Run(built, options, alive).run(), options.quiet)


def do_shell(options, description):
    if options.host not in [h.name for h in description.hosts]:
        fail("there is no host '%s'" % options.host, USAGE)
    command = options.command or [os.environ.get("SHELL", "/bin/sh")]
    return with_net(description, lambda built, _: run.shell(built, options.host, command))


def do_check():
    """Builds the least test-bed; whatever the kernel refuses is the reason for a skip."""
    absent = missing_tools()
    if absent:
        return skip("%s not installed (Debian: iproute2, ethtool)" % ", ".join(absent))
    try:
        private.enter()
        net.build(bed.parse("check.bed", CHECK_BED)).close()
    except (private.Refused, spaces.ToolError, OSError) as e:
        return skip(e)
    print("ok", flush=True)
    return 0


def do_cleanup():
    pids = private.orphans()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 5
    while pids and private.orphans() and time.monotonic() < end:
        time.sleep(0.05)
    left = private.orphans()
    print("%d left by dead runs, %d ended" % (len(pids), len(pids) - len(left)))
    return 1 if left else 0


def bed_of(name):
    """A description that is not there is one of those beside the program: two-leaves-narrow.bed."""
    own = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), os.path.basename(name))
    return own if os.path.isfile(own) and not os.path.exists(name) else name


def main():
    words = sys.argv[1:]
    dashes = words.index("--") if "--" in words else len(words)
    options = arguments().parse_args(words[:dashes])
    options.command = words[dashes + 1:]
    if options.verb == "check":
        return do_check()
    if options.verb == "cleanup":
        return do_cleanup()
    try:
        description = bed.load(bed_of(options.file), options.set)
    except bed.BedError as e:
        fail(e, USAGE)
    if options.verb == "show":
        print("\n".join(show.picture(description)))
        return 0
    return (do_run if options.verb == "run" else do_shell)(options, description)
