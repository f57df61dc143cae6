# SPDX-License-Identifier: Apache-2.0
"""demo.py BUILD: the built plugin beside a plugin that moves messages as NCCL's own sockets do (perf/plugin/sockets.c).

First AllReduce on eight hosts behind two switches with a narrow link between them, then a stream between two hosts with two ports
each, one of which loses its cable.  Hosts are network namespaces; where the kernel allows none, AllReduce runs over the
loopback interface, and there is no cable.  Figures are printed, not judged: it fails where a sum or message is wrong or missing.

The test-bed runs "demo.py --rank BUILD PLUGIN" on each of the two hosts.
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTBED = [sys.executable, str(ROOT / "tests" / "testbed" / "testbed")]
OURS, SOCKETS = "lib/libnccl-net-tributary.so", "perf/libnccl-net-sockets.so"
END_S = 600  # for each part, on a machine with much else to do

SIZES = ("64K", "1M", "16M")
NARROW = "tests/testbed/two-leaves-narrow.bed"
# The side that a record of perf/allreduce is about, and the head of its column.
SIDES = {("sockets", "ring"): "sockets, ring", ("Tributary", "ring"): "Tributary, ring",
         ("Tributary", "collnet"): "Tributary, leaf by leaf"}

CABLE = "hosts 2\nrails 2\nrate 100Mbit\nbuffer 1MB\ncongestion cubic\n"
MESSAGES = 50             # of 4 MiB: sixteen seconds over both ports
PULL_BYTES = 30_000_000   # of port 0: between two and three seconds
SILENCE_S = 20            # after which the sockets are given up


def say(text=""):
    print(text, flush=True)


def fail(text, errors=""):
    if errors:
        sys.stderr.write(errors[-4000:])
    say("The demonstration failed: " + text)
    sys.exit(1)


# ---------------------------------------------------------------------------------------------------- AllReduce


def time_text(seconds):
    return "%.2f s" % seconds if seconds >= 1 else "%.1f ms" % (seconds * 1e3)


def size_text(size):
    return "%d MiB" % (size >> 20) if size >= 1 << 20 else "%d KiB" % (size >> 10)


def row(head, cells):
    say("  %14s" % head + "".join("%25s" % cell for cell in cells))


def records(command, environment):
    """What perf/allreduce says, a dictionary at a time, as it comes."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        except BaseException:  # the reader has enough, or somebody pressed Ctrl-C
            process.terminate()
            raise
        if process.wait():
            errors.seek(0)
            fail("not every rank finished with the right sums.", errors.read())


def allreduce(build, namespaces):
    """Returns the times of the largest size, by side."""
    words = [str(build / "perf" / "allreduce"), "--plugin", str(build / OURS), "--vs", str(build / SOCKETS),
             "--algo", "ring,collnet", "--nap-us", "50", "--bytes", ",".join(SIZES), "--iters", "3",
             "--warmup", "1", "--line-rate", "400Mbit/s", "--timeout", "120", "--json", "-"]
    if namespaces:
        words = TESTBED + ["run", str(ROOT / NARROW), "--quiet", "--no-prefix", "--timeout", str(END_S), "--"] + words + ["--links"]
    else:
        words = ["timeout", "-k", "5", str(END_S)] + words + ["--spawn", "8"]
    environment = dict(os.environ, TRIBUTARY_NET="tcp", **({} if namespaces else {"TRIBUTARY_IF": "lo"}))
    row("AllReduce", SIDES.values())
    times, crossed, size = {}, {}, 0
    for record in records(words, environment):
        side = record["name"], record["algo"]
        if side not in SIDES or record.get("wrong"):
            fail("%s, %s: a sum is wrong." % side)
        if record["what"] == "link":
            if (record["from"], record["to"]) == ("a", "b"):
                crossed[side] = record["link_bytes"]
            continue
        times = times if record["bytes"] == size else {}
        size = record["bytes"]
        times[side] = record["median_s"]
        if len(times) == len(SIDES):
            row(size_text(size), (time_text(times[k]) for k in SIDES))
    if len(times) < len(SIDES) or (namespaces and len(crossed) < len(SIDES)):
        fail("a result is missing.")
    say("\n   Every rank checked every sum: none is wrong.")
    if namespaces:
        say("   Between the switches went, each way, for %s: %s MB." % (
            size_text(size), ", ".join("%.1f" % (crossed[k] / 1e6) for k in SIDES)))
    return times


# ------------------------------------------------------------------------------------------------------ the cable


class Links:
    """The test-bed's counters, and the way to its faults (TB_COUNTERS)."""

    def __init__(self):
        self.socket = socket.socket(fileno=int(os.environ["TB_COUNTERS"]))

    def ask(self, line="counters"):
        """Bytes that have come to h1, by port."""
        self.socket.sendall(line.encode() + b"\n")
        text = b""
        while not text.endswith(b"\n\n"):
            text += self.socket.recv(65536) or sys.exit("the test-bed is gone")
        rows = [words.split() for words in text.decode().splitlines() if words]
        return [sum(int(r[3]) for r in rows if r[1] == "h1" and int(r[2]) == port) for port in range(2)]


class Watch:
    """Follows the sender: shows each second what comes through each port, pulls the cable, and ends it if nothing comes."""

    def __init__(self, process, errors):
        self.process, self.errors, self.links = process, errors, Links()
        self.began_s = self.shown_s = self.moved_s = time.monotonic()
        self.before = self.last = self.links.ask()
        self.pulled = self.told = False
        self.silent_s = 0  # as told

    def follow(self):
        """True: nothing came for SILENCE_S."""
        while self.process.poll() is None:
            time.sleep(0.2)
            now, now_s = self.links.ask(), time.monotonic()
            if sum(now) - sum(self.last) > 10_000:  # less is TCP, which tries again
                self.moved_s, self.silent_s = now_s, 0
            self.last = now
            if now_s - self.shown_s >= 1 and now_s - self.moved_s < 2:
                self.show(now, now_s)
            if now_s - self.moved_s >= self.silent_s + 5:
                self.silent_s += 5
                say("%7.0f s  nothing has come for %d s" % (now_s - self.began_s, self.silent_s))
            if self.silent_s >= SILENCE_S:
                return True
            if not self.pulled and now[0] >= PULL_BYTES:
                self.links.ask("at 0s link h1 rail 0 down")
                self.pulled = True
                say("           h1's cable in port 0 is pulled")
            self.tell()
        return False

    def show(self, now, now_s):
        rates = [(b - a) / (now_s - self.shown_s) / 1e6 for a, b in zip(self.before, now)]
        say("%7.0f s  port 0 %5.1f MB/s   port 1 %5.1f MB/s" % (now_s - self.began_s, *rates))
        self.before, self.shown_s = now, now_s

    def tell(self):
        """The plugin's line about the port, once."""
        self.errors.seek(0)
        lines = [line for line in self.errors.read().splitlines() if "Going on over" in line]
        if lines and not self.told:
            self.told = True
            say("           its log: " + lines[0].split("INFO ", 1)[-1])


def rank(build, plugin):
    """On a host of the test-bed: sends or receives; the first rank watches, too."""
    words = [str(build / "perf" / "p2p"), "--plugin", str(build / plugin), "--verify", "--latency-sizes", "none",
             "--rate-sizes", "none", "--sizes", "4M", "--pairs", "1", "--iters", str(MESSAGES), "--nap-us", "50", "--timeout", "60"]
    environment = dict(os.environ, TRIBUTARY_NET="tcp", TRIBUTARY_JOIN="always", NETPLUGIN_DEBUG="INFO")
    if plugin == OURS:
        words += ["--devices", "0,1"]
    if os.environ["RANK"] != "0":
        os.execve(words[0], words, environment)
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=errors)
        watch = Watch(process, errors)
        if watch.follow():
            say("           ended here")
            watch.links.ask("at 0s kill rank 1")
            process.kill()
            return 0 if plugin == SOCKETS and watch.pulled else 1
        if process.returncode or not watch.pulled or plugin == SOCKETS:
            errors.seek(0)
            sys.stderr.write(errors.read())
            sys.stderr.write("the stream ended with status %d, the cable %s\n" % (
                process.returncode, "pulled" if watch.pulled else "in its place"))
            return 1
        say("           all %d messages have come, and every byte was checked" % MESSAGES)
    return 0


def pull(build, plugin):
    with tempfile.NamedTemporaryFile("w", suffix=".bed") as bed:
        bed.write(CABLE)
        bed.flush()
        # The ranks meet at h0's address on port 1, which stays.
        command = TESTBED + ["run", bed.name, "--quiet", "--no-prefix", "--timeout", str(END_S),
                             "--env", "MASTER_ADDR=10.81.0.1", "--", sys.executable, "-B", __file__, "--rank", str(build), plugin]
        with tempfile.TemporaryFile("w+") as errors:
            if subprocess.run(command, stderr=errors, check=False).returncode:
                errors.seek(0)
                fail("%s did not end as it should." % plugin, errors.read())


# ------------------------------------------------------------------------------------------------------------ all


def main(build):
    for name in (OURS, SOCKETS, "perf/allreduce", "perf/p2p"):
        if not (build / name).exists():
            fail("%s was not built." % name)
    check = subprocess.run(TESTBED + ["check"], stdout=subprocess.PIPE, text=True, check=False)
    namespaces = check.returncode == 0
    say("Tributary beside a plugin that moves messages as NCCL's own sockets do.  No GPU is used.\n")
    if namespaces:
        say("1. A narrow link.  Eight hosts (network namespaces of this machine) with 400 Mbit/s each, four on each of two leaf\n"
            "   switches, and 100 Mbit/s between the switches (16:1).\n")
    else:
        say("No network namespaces here: %s\n"
            "Eight processes on the loopback interface instead: the times say nothing about a network.\n"
            % check.stdout.strip().replace("skipped: ", ""))
    times = allreduce(build, namespaces)
    if not namespaces:
        say("   The second part, a cable that is pulled, needs network namespaces.")
        return
    say("   Aggregation is for narrow links: up to 4:1 a ring in this order is faster, and the plugin leaves AllReduce to it.")
    say("\n2. A cable is pulled.  Two hosts with two ports of 100 Mbit/s each; h0 sends to h1.\n\n"
        "   Sockets, one port for each connection:\n")
    pull(build, SOCKETS)
    say("\n   Sockets have no heartbeat: the job stands still until TCP gives up, after some 15 minutes.")
    say("\n   Tributary, both ports joined into one device:\n")
    pull(build, OURS)
    say("\n   By itself NCCL joins only the ports of one card.  Ports that are not joined replace each other, too: a connection\n"
        "   whose port fails goes on over another one after some three seconds.")
    say("\nIn short:")
    say("  narrow link   16 MiB took %s leaf by leaf, %s over sockets" % tuple(
        time_text(times[side]) for side in (("Tributary", "collnet"), ("sockets", "ring"))))
    say("  pulled cable  Tributary went on over the other port; the sockets stood still")
    say("What it brings on your machines: tributary bench (README.md).")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    if sys.argv[1] == "--rank":
        sys.exit(rank(pathlib.Path(sys.argv[2]), sys.argv[3]))
    main(pathlib.Path(sys.argv[1]).resolve())
