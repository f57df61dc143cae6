# SPDX-License-Identifier: Apache-2.0
"""Runs a command on every host, hands its output on, does the faults in time, and reports."""
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

from . import bed, cluster, count, faults, service

MASTER_PORT = 29500       # any will do: the namespaces are our own
TIMED_OUT = 124           # as timeout(1) says it
NOT_READY = 125           # a service that did not come up
GRACE_S = 1.0             # between SIGTERM and SIGKILL
DRAIN_S = 0.5             # what a finished rank's children may still print


class Rank:
    def __init__(self, number, host, local):
        self.number, self.host, self.local = number, host, local
        self.pid = None
        self.status = None      # exit status; 128 + n for a signal
        self.ended_s = None
        self.stopped = False    # by a fault
        self.killed = False     # by a fault: its status does not count


class Pipe:
    """One output of one rank, handed on by whole lines so that ranks do not mix inside a line."""

    def __init__(self, source, sink, prefix):
        self.source, self.sink, self.prefix = source, sink, prefix
        self.rest = b""

    def pump(self):
        """False at the end of the output."""
        data = os.read(self.source.fileno(), 65536)
        *lines, self.rest = (self.rest + data).split(b"\n")
        if not data and self.rest:
            lines, self.rest = [self.rest], b""
        if lines:
            self.sink.write(b"".join(self.prefix + line + b"\n" for line in lines))
            self.sink.flush()
        return bool(data)


class Counters:
    """Does the first rank's faults and answers its questions for the counters of all links (README.md, TB_COUNTERS)."""

    def __init__(self, run):
        self.run, self.net = run, run.net
        self.source, self.asker = socket.socketpair()
        self.before = count.snapshot(self.net)

    def close_asker(self):
        self.asker.close()

    def pump(self):
        """False when the asker is gone."""
        try:
            asked = self.source.recv(4096).decode().splitlines()
            for line in asked:
                if line.startswith("at "):
                    self.run.do_fault(bed.parse_fault(self.net.bed, line))
                rows = count.delta(self.before, count.snapshot(self.net))
                self.source.sendall("".join("%s %s %d %d %d %d\n" % (
                    k["from"], k["to"], -1 if k["rail"] is None else k["rail"], k["bytes"], k["packets"], k["drops"])
                    for k in rows).encode() + b"\n")
        except OSError:
            return False
        except bed.BedError as e:
            say(e)
            return False
        return bool(asked)


class Run:
    def __init__(self, net, options, alive_fd):
        self.net, self.options = net, options
        self.selector = selectors.DefaultSelector()
        self.alive_fd = alive_fd
        self.pipes = 0
        self.signalled = 0
        self.timed_out = False
        self.faults_done = []
        self.counters = None
        self.services = [service.Service(host, command, [port for name, port in net.bed.aggregators if name == host])
                         for host, command in net.bed.services]
        # A file that only process 1 holds; everybody reaches it there, and it goes with the run.
        self.cluster_fd = os.memfd_create("cluster")
        os.write(self.cluster_fd, cluster.text(net.bed).encode())
        hosts = [h for h in net.bed.rank_hosts() if not options.only or h in options.only]
        self.hosts = [net.bed.host(name) for name in hosts]
        self.ranks = []
        for name in hosts:
            for local in range(self.processes(name)):
                self.ranks.append(Rank(len(self.ranks), name, local))

    def processes(self, host):
        return self.options.per_host.get(host, self.options.per_host.get(None, 1))

    # -- starting ------------------------------------------------------------------------------------------------

    def environment(self, rank):
        env = self.surroundings(self.net.bed.host(rank.host))
        env.update({
            "RANK": str(rank.number), "WORLD_SIZE": str(len(self.ranks)),
            "LOCAL_RANK": str(rank.local), "LOCAL_WORLD_SIZE": str(self.processes(rank.host)),
            "MASTER_ADDR": self.hosts[0].links[0].addr, "MASTER_PORT": str(MASTER_PORT)})
        if rank.number == 0 and self.counters:
            env["TB_COUNTERS"] = str(self.counters.asker.fileno())
        env.update(self.options.env)
        return env

    def surroundings(self, host):
        """What ranks and services are told alike."""
        env = dict(os.environ)
        env.update({
            "TB_CLUSTER": "/proc/%d/fd/%d" % (os.getpid(), self.cluster_fd),
            "TB_HOST": host.name, "TB_ADDR": host.links[0].addr, "TB_ADDRS": ",".join(k.addr for k in host.links),
            "TB_PEERS": ",".join(h.links[0].addr for h in self.hosts)})
        if self.net.bed.ipv6:
            env["TB_ADDR6"] = host.links[0].addr6
            env["TB_PEERS6"] = ",".join(h.links[0].addr6 for h in self.hosts)
        if self.net.bed.cluster:
            env["TRIBUTARY_CLUSTER"] = env["TB_CLUSTER"]
        return env

    def start(self, rank):
        space = self.net.hosts[rank.host]
        try:
            # A session of its own: the terminal's ^C reaches the test-bed alone, which then ends the ranks in order.
            process = subprocess.Popen(self.options.command, env=self.environment(rank), preexec_fn=space.enter,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       start_new_session=True, bufsize=0,
                                       pass_fds=(self.counters.asker.fileno(),) if rank.number == 0 else ())
        except OSError as e:
            say("%s: %s" % (self.options.command[0], e.strerror))
            rank.status, rank.ended_s = 127, 0.0
            return
        rank.pid = process.pid
        process.returncode = 0  # process 1 reaps all children itself, and this object must not
        self.hand_on(process, rank.host if self.processes(rank.host) == 1 else "%s:%d" % (rank.host, rank.local))

    def hand_on(self, process, name):
        prefix = b"" if self.options.no_prefix else ("[%s] " % name).encode()
        for source, sink in ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer)):
            self.selector.register(source, selectors.EVENT_READ, Pipe(source, sink, prefix))
            self.pipes += 1

    def start_services(self):
        """False when one did not come up."""
        for s in self.services:
            env = dict(self.surroundings(self.net.bed.host(s.host)), **self.options.env)
            try:
                self.hand_on(s.start(self.net.hosts[s.host], env), s.host)
            except OSError as e:
                say("%s: %s" % (s.host, e.strerror))
                return False
        if service.wait_ready(self.services, self.pump):
            return True
        for s in self.services:
            if not s.ready():
                say("the service on %s %s" % (s.host, "did not listen within %gs" % service.READY_S if s.status is None
                                              else "ended with status %d" % s.status))
        return False

    def end_services(self):
        """In order: a service may have to say goodbye, and what it did then counts as its own."""
        service.signal_left([s for s in self.services if not s.stopped], signal.SIGTERM)
        end = self.elapsed() + service.END_S
        while any(s.pid and s.status is None and not s.stopped for s in self.services) and self.elapsed() < end:
            self.pump(end - self.elapsed())
        service.signal_left(self.services, signal.SIGKILL)
        while any(s.pid and s.status is None for s in self.services):
            self.pump(1.0)

    # -- the loop ------------------------------------------------------------------------------------------------

    def run(self):
        """Runs to the end; returns the exit status."""
        self.selector.register(self.alive_fd, selectors.EVENT_READ, None)
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.selector.register(wake_r, selectors.EVENT_READ, wake_r)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda n, _: None)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.on_signal)
        self.counters = Counters(self)
        self.selector.register(self.counters.source, selectors.EVENT_READ, self.counters)
        self.began = time.monotonic()
        came_up = self.start_services()
        self.began = time.monotonic()
        for rank in self.ranks if came_up else ():
            self.start(rank)
        self.counters.close_asker()
        if came_up:
            self.until_ended(list(self.net.bed.faults))
        seconds = self.elapsed()
        self.end_services()
        self.drain()
        links = count.delta(self.counters.before, count.snapshot(self.net))
        status = self.status() if came_up else NOT_READY
        self.report(status, seconds, links)
        return status

    def elapsed(self):
        return time.monotonic() - self.began

    def on_signal(self, number, _frame):
        self.signalled = self.signalled or number

    def until_ended(self, waiting):
        end_s = self.options.timeout
        while any(r.status is None and (waiting or not r.stopped) for r in self.ranks):
            now = self.elapsed()
            if self.signalled:
                break
            if end_s is not None and now >= end_s:
                self.timed_out = True
                break
            while waiting and waiting[0].at_s <= now:
                self.do_fault(waiting.pop(0))
            moments = [t for t in (end_s, waiting[0].at_s if waiting else None) if t is not None]
            self.pump(min(moments) - self.elapsed() if moments else None)
        for fault in waiting:
            say("the command ended before the fault at %gs: %s" % (fault.at_s, fault.what))
        self.finish()

    def do_fault(self, fault):
        faults.apply(fault, self.net, self.ranks + self.services)
        self.faults_done.append({"at_s": fault.at_s, "done_s": round(self.elapsed(), 4), "what": fault.what})
        if not self.options.quiet:
            say("%.3f s: %s" % (self.elapsed(), fault.what))

    def pump(self, timeout_s):
        """Hands output on and collects the dead, for at most so long. False when nothing happened."""
        events = self.selector.select(None if timeout_s is None else max(timeout_s, 0))
        for key, _ in events:
            if key.fd == self.alive_fd:
                os._exit(1)  # the waiting parent is gone, and all of this with it
            if isinstance(key.data, int):
                os.read(key.fd, 4096)
            elif not key.data.pump():
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                self.pipes -= isinstance(key.data, Pipe)
        self.reap()
        return bool(events)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for rank in self.ranks + self.services:
                if rank.pid == pid:
                    rank.status = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                    rank.ended_s = round(self.elapsed(), 4)

    def finish(self):
        """Ends the ranks that are left: after a timeout or a signal, or because a fault stopped them for good."""
        self.signal_left(signal.SIGTERM)
        end = self.elapsed() + GRACE_S
        while any(r.status is None and not r.stopped for r in self.ranks) and self.elapsed() < end:
            self.pump(end - self.elapsed())
        self.signal_left(signal.SIGKILL)
        while any(r.status is None for r in self.ranks):
            self.pump(1.0)

    def signal_left(self, number):
        for rank in self.ranks:
            if rank.status is None:
                if rank.stopped:
                    rank.killed = True
                try:
                    os.killpg(rank.pid, number)
                except ProcessLookupError:
                    pass

    def drain(self):
        """What the ranks wrote last; their children may hold the pipes open for ever, so there is an end to it."""
        end = self.elapsed() + DRAIN_S
        while self.pipes and self.elapsed() < end:
            self.pump(end - self.elapsed())

    # -- the report ----------------------------------------------------------------------------------------------

    def status(self):
        if self.timed_out:
            return TIMED_OUT
        if self.signalled:
            return 128 + self.signalled
        failed = [r for r in self.ranks if r.status != 0 and not r.killed]
        return min(failed, key=lambda r: r.ended_s).status if failed else 0

    def report(self, status, seconds, links):
        for (sender, receiver), (_, missed) in self.net.relayed().items():
            if missed:
                self.net.warn("the relay from %s to %s was too slow for %d packets" % (sender, receiver, missed))
                say("warning: " + self.net.warnings[-1])
        failed = [r for r in self.ranks if r.status not in (0, None)]
        for rank in failed:
            say("rank %d on %s: exit %d%s" % (rank.number, rank.host, rank.status,
                                              " (a fault's doing)" if rank.killed else ""))
        if self.timed_out:
            say("timed out after %gs" % self.options.timeout)
        if not self.options.quiet:
            for line in count.table(links):
                say(line)
        if self.options.json:
            bed = self.net.bed
            what = {
                "bed": bed.name, "command": self.options.command, "status": status, "timed_out": self.timed_out,
                "seconds": round(seconds, 4), "mtu": bed.mtu, "offload": bed.offload, "segments": bed.segments,
                "congestion": self.net.congestion, "warnings": self.net.warnings, "faults": self.faults_done,
                "ranks": [{"rank": r.number, "host": r.host, "local_rank": r.local, "exit": r.status,
                           "seconds": r.ended_s, "killed_by_fault": r.killed} for r in self.ranks],
                "services": [{"host": s.host, "command": s.command, "exit": s.status, "seconds": s.ended_s,
                              "killed_by_fault": s.killed} for s in self.services],
                "links": links}
            with open(self.options.json, "w", encoding="utf-8") as f:
                json.dump(what, f, indent=1)
                f.write("\n")


def say(text):
    sys.stderr.write("testbed: %s\n" % text)
    sys.stderr.flush()


def shell(net, name, command):
    """An interactive shell (or another command) in one host; returns its exit status."""
    options = type("Options", (), {"only": None, "per_host": {}, "env": {}})()
    run = Run(net, options, -1)
    rank = next((r for r in run.ranks if r.host == name), None)
    env = run.environment(rank) if rank else run.surroundings(net.bed.host(name))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = subprocess.Popen(command, env=env, restore_signals=True, preexec_fn=lambda: (
        signal.signal(signal.SIGINT, signal.SIG_DFL), net.hosts[name].enter()))
    status = process.wait()
    return status if status >= 0 else 128 - status
