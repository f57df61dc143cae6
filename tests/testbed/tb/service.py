# SPDX-License-Identifier: Apache-2.0
"""Programs beside the ranks, on hosts of their own: started before the ranks, ended after them."""
import os
import subprocess
import time

READY_S = 15.0  # until one that is waited for listens
END_S = 10.0    # between SIGTERM and SIGKILL


class Service:
    """Shaped like a Rank, so that faults find it by its host."""
    number = None

    def __init__(self, host, command, ports):
        self.host, self.command, self.ports = host, command, ports
        self.pid = self.status = self.ended_s = None
        self.stopped = self.killed = False

    def start(self, space, environment):
        """The running process. Raises OSError."""
        process = subprocess.Popen(["/bin/sh", "-c", self.command], env=environment, preexec_fn=space.enter,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, bufsize=0)
        self.pid = process.pid
        process.returncode = 0  # process 1 reaps all children itself, and this object must not
        return process

    def ready(self):
        """Does everything listen that must?"""
        return self.status is None and set(self.ports) <= listening(self.pid)


def listening(pid):
    """The TCP ports on which somebody in the process's network listens."""
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/%d/net/%s" % (pid, name), encoding="ascii") as f:
                rows = [line.split() for line in f.readlines()[1:]]
        except OSError:
            continue
        found |= {int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A"}
    return found


def wait_ready(services, pump):
    """False when one did not listen in time, or ended. pump(seconds) hands output on and collects the dead."""
    end = time.monotonic() + READY_S
    waiting = [s for s in services if s.ports]
    while waiting:
        waiting = [s for s in waiting if not s.ready()]
        if any(s.status is not None for s in waiting) or (waiting and time.monotonic() > end):
            return False
        if waiting:
            pump(0.02)
    return True


def signal_left(services, number):
    for s in services:
        if s.pid is not None and s.status is None:
            try:
                os.killpg(s.pid, number)
            except ProcessLookupError:
                pass
