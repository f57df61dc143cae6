# SPDX-License-Identifier: Apache-2.0
"""Boots one or two VMs, runs the command in each, hands its output on, does the faults in time, and reports."""
import os
import shutil
import signal
import sys
import tempfile
import time

from . import faults, machine

TIMED_OUT, DIED = 124, 125
BOOT_S = 120.0         # emulated, on a busy machine; three seconds are usual
SHUTDOWN_S = 20.0
KILLED_S = 15.0        # a kernel may never come back from killing a program that RDMA writes to (rxe, Linux 6.1)
POLL_S = 0.02
TAIL_LINES = 40
MASTER_PORT = 29500


class Run:
    def __init__(self, kit, options):
        self.kit, self.options = kit, options
        self.folder = tempfile.mkdtemp(prefix="tributary-vm-")
        self.machines = [machine.Machine(i, self.folder, options) for i in range(options.hosts)]
        self.waiting = sorted(options.faults, key=lambda fault: fault.at_s)
        self.signalled = 0
        self.began = None

    def run(self):
        """To the end; the exit status."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        try:
            status = self.boot() or self.until_ended()
            if status == 0 and self.options.keep:
                shutil.copytree(self.machines[0].share, self.options.keep, dirs_exist_ok=True)
            return status
        finally:
            for m in self.machines:
                m.end()
            shutil.rmtree(self.folder, ignore_errors=True)

    def on_signal(self, number, _frame):
        self.signalled = self.signalled or number

    def environment(self, number):
        """As the test-bed has it, so that a program need not know on which of the two it runs."""
        peers = ["10.77.0.%d" % (i + 1) for i in range(self.options.hosts)]
        env = {"RANK": str(number), "WORLD_SIZE": str(self.options.hosts), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "MASTER_ADDR": peers[0], "MASTER_PORT": str(MASTER_PORT), "TB_HOST": "h%d" % number,
               "TB_ADDR": peers[number], "TB_PEERS": ",".join(peers)}
        return dict(env if self.options.hosts > 1 else {}, **self.options.env)

    def boot(self):
        """None when every VM waits for the start of its command."""
        end = time.monotonic() + BOOT_S
        for m in self.machines:
            m.start(self.kit, self.environment(m.number))
            # The second VM's cables lead to sockets that the first one makes.
            while m.number == 0 and m.runs() and time.monotonic() < end and not all(
                    os.path.exists(m.rail_socket(r)) for r in range(self.options.rails if self.options.hosts > 1 else 0)):
                time.sleep(POLL_S)
        while not all(os.path.exists(m.path("ready")) for m in self.machines):
            if self.signalled:
                return self.fail("ended by signal %d" % self.signalled, 128 + self.signalled)
            for m in self.machines:
                if not m.runs():
                    return self.fail("%s died before it was ready" % m.name, DIED)
            if time.monotonic() > end:
                return self.fail("not ready within %g s" % BOOT_S, TIMED_OUT)
            time.sleep(POLL_S)
        for m in self.machines:
            m.write("go", "")
        self.began = time.monotonic()
        return None

    def until_ended(self):
        while True:
            for m in self.machines:
                self.hand_on(m)
                if m.ended_s is None and m.status() is not None:
                    m.ended_s = time.monotonic()
                if m.ended_s is None and m.killed_s is not None and time.monotonic() - m.killed_s > KILLED_S:
                    say("%s: its kernel has not ended the command in %g s" % (m.name, KILLED_S))
                    m.ended_s = time.monotonic()
            if all(m.ended_s is not None for m in self.machines):
                break
            if self.signalled:
                return self.fail("ended by signal %d" % self.signalled, 128 + self.signalled)
            dead = [m for m in self.machines if m.ended_s is None and not m.runs() and m.status() is None]
            if dead:
                return self.fail("%s died, with %d" % (dead[0].name, dead[0].process.returncode), DIED)
            if self.elapsed() > self.options.timeout:
                return self.fail("still running after %g s" % self.options.timeout, TIMED_OUT)
            while self.waiting and self.waiting[0].at_s <= self.elapsed():
                fault = self.waiting.pop(0)
                if self.machines[fault.host].ended_s is not None:
                    say("%s has ended before the fault at %gs: %s" % (self.machines[fault.host].name, fault.at_s, fault.what))
                    continue
                say("%.1f s: %s" % (self.elapsed(), fault.what))
                trouble = faults.apply(fault, self.machines)
                if trouble:
                    return self.fail(trouble, DIED)
            time.sleep(POLL_S)
        for fault in self.waiting:
            say("the command ended before the fault at %gs: %s" % (fault.at_s, fault.what))
        # Together: QEMU 7.2 may crash when the other end of a cable ends while its own is pulled and put in again.
        for m in self.machines:
            if m.status() is None:
                m.end()
            m.write("end", "")
        end = time.monotonic() + SHUTDOWN_S
        while any(m.runs() for m in self.machines) and time.monotonic() < end:
            time.sleep(POLL_S)
        for m in self.machines:
            self.hand_on(m, True)
        return self.status()

    def elapsed(self):
        return time.monotonic() - self.began

    def status(self):
        """That of the command that failed first."""
        failed = [m for m in self.machines if m.killed_s is None and m.status() != 0]
        if not failed:
            return 0
        first = min(failed, key=lambda m: m.ended_s)
        if self.options.hosts > 1:
            say("%s: status %d" % (first.name, first.status()))
        return first.status()

    def hand_on(self, m, whole=False):
        """What the command has printed since, by whole lines."""
        with open(m.path("output"), "rb") as f:
            f.seek(m.printed)
            data = f.read()
        if not whole:
            data = data[:data.rfind(b"\n") + 1]
        if not data:
            return
        m.printed += len(data)
        prefix = b"[%s] " % m.name.encode() if self.options.hosts > 1 else b""
        sys.stdout.buffer.write(b"".join(prefix + line + b"\n" for line in data.rstrip(b"\n").split(b"\n")))
        sys.stdout.buffer.flush()

    def fail(self, text, status):
        """Says why, with the end of each console: nothing else tells what happened in there."""
        say(text)
        for m in self.machines:
            if self.began is not None:
                self.hand_on(m, True)
            for name, path in (("console", m.console), ("QEMU", m.errors)):
                lines = tail(path)
                if lines:
                    say("the end of %s's %s:\n%s" % (m.name, name, "\n".join("    " + line for line in lines)))
        return status


def tail(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return [line.rstrip() for line in f.read().splitlines() if line.strip()][-TAIL_LINES:]
    except OSError:
        return []


def say(text):
    sys.stdout.flush()
    sys.stderr.write("vm: %s\n" % text)
    sys.stderr.flush()
