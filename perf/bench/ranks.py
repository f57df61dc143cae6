# SPDX-License-Identifier: Apache-2.0
"""Ranks that answer questions, each a process of its own: one for each GPU of this machine; several on one GPU, each with its own
NCCL_HOSTID, so that NCCL takes them for hosts; or those of a launcher.

The parent (gpu.py, tests/gpu/check_gpu.py) sends one JSON line to every rank's standard input and reads one from its
standard output; worker.py is the other side. Where a launcher started the parent once for each rank, those of the other
ranks only start a worker for each group, with a connection to rank 0 in place of the pipes. Standard library only.
"""
import contextlib
import json
import os
import queue
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import sides

HERE = os.path.dirname(os.path.realpath(__file__))
PLUGIN_NAME = "Tributary"     # what the plugin calls itself in NCCL's log
NET_OF = {"with": "NET/" + PLUGIN_NAME, "without": "NET/Socket"}   # of ranks on one GPU
# What a job sets that wants its AllReduces aggregated, and here nothing else: then only AllReduces can be asked for.
COLLNET = {"NCCL_COLLNET_ENABLE": "1", "NCCL_ALGO": "CollNetChain"}


class Failed(Exception):
    """A rank died, hung or complained."""


def plugin_path():
    """The built plugin: TRIBUTARY_PLUGIN, else the default build's."""
    root = os.path.dirname(os.path.dirname(HERE))
    return os.path.realpath(os.environ.get("TRIBUTARY_PLUGIN") or os.path.join(root, "build/lib/libnccl-net-tributary.so"))


def missing(variables=None):
    """Why nothing can run here, or None. variables: of another plugin than the built one."""
    try:
        import torch
    except ImportError:
        return "no PyTorch"
    if not torch.cuda.is_available():
        return "no GPU that PyTorch can use"
    if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        return "this PyTorch has no NCCL"
    if variables is None and not os.path.exists(plugin_path()):
        return "no plugin at %s (run make)" % plugin_path()
    return None


def on_one_gpu(base, rank, world):
    """The environment of one of several ranks on this GPU, which take each other for hosts; interface and settings are
    the same on both sides, and without Tributary they use sockets."""
    return {"NCCL_SOCKET_IFNAME": "lo", **on_this_machine(base, rank, world), "LOCAL_RANK": "0",
            "NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket",
            "NCCL_HOSTID": "tributary-rank-%d" % rank,
            # Not needed when the host ids differ, but then nothing but the network is left if that ever changes.
            "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_IB_DISABLE": "1"}


def on_this_machine(base, rank, world):
    """The same of one of several ranks, each with a GPU of its own."""
    return {**base, "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "LOCAL_RANK": str(rank)}


def own_variables():
    """What the built plugin needs on the side with it: by name and folder, as NCCL before 2.21 finds a plugin in no other way."""
    path = plugin_path()
    return {"NCCL_NET_PLUGIN": re.fullmatch(r"libnccl-net-(.*)\.so", os.path.basename(path)).group(1),
            "LD_LIBRARY_PATH": ":".join(filter(None, (os.path.dirname(path), os.environ.get("LD_LIBRARY_PATH"))))}


def environment(base, side, port, log, variables):
    """The environment of one rank on its side, and the port where the ranks meet."""
    # The last is torchrun's: the ranks would meet at its agent, and both groups under one name.
    not_ours = dict.fromkeys(("NCCL_COMM_ID", "TRIBUTARY_PLUGIN", "TORCHELASTIC_USE_AGENT_STORE"))
    return sides.environment_of(base, {**not_ours, **sides.changes(base, side, variables, log), "MASTER_PORT": str(port),
                                       "NCCL_DEBUG_SUBSYS": "INIT,NET,TUNING"})


def transports(log_text):
    """The transports of NCCL's connections, from its log: {"NET/Tributary"}, {"P2P", "SHM", …}."""
    return set(re.findall(r"-> \d+\[[^\]]*\](?: \[\w+\])? via (NET/[^/\s]+|[A-Z][A-Za-z0-9]*)", log_text))


def algorithms(log_text):
    """What NCCL says that its tuning chose: {"COLLNET_CHAIN"}, {"RING", "TREE", …}."""
    return set(re.findall(r"Bytes -> Algo (\w+)", log_text))


def nccl_version(log_text):
    found = re.search(r"NCCL version (\S+)", log_text)
    return found.group(1) if found else "unknown"


PORTS_FROM = 10000


def free_port():
    """For somebody who binds it later: below those that the kernel gives to connections, where there are such."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        below = range(PORTS_FROM, int(f.read().split()[0]))
    for port in random.sample(below, min(len(below), 100)) + [0]:   # 0: any
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", port))
            return s.getsockname()[1]
    raise Failed("no port is free")


MPS_NAMES = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


@contextlib.contextmanager
def mps():
    """A daemon of NVIDIA's MPS of this run's own: kernels of several processes run side by side on the GPU, not in turns.
    Yields what its clients, on this machine, need in their environment."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict.fromkeys(MPS_NAMES, folder)
        control = [shutil.which("nvidia-cuda-mps-control") or "nvidia-cuda-mps-control"]
        try:
            subprocess.run(control + ["-d"], env={**os.environ, **env}, check=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as e:
            raise Failed("no MPS: %s" % e) from e
        try:
            yield env
        finally:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(control, env={**os.environ, **env}, input="quit -t 5\n", text=True, timeout=60)


def are_launched(environ):
    """Whether a launcher started one of this program for each of several ranks."""
    return "MASTER_ADDR" in environ and "RANK" in environ and environ.get("WORLD_SIZE", "1") != "1"


class Launched:
    """This program's other ranks, where a launcher started one for each: rank 0 asks, the others' workers answer.

    Each of the others connects to rank 0, says its rank in a line, and waits for a line with what a worker of its needs;
    that worker has the connection for standard input and output, and the next connection waits for the next worker.
    Like the store where PyTorch's ranks meet, this is for a network of friends: who answers in place of rank 0, or of
    another rank, spoils the figures. Nothing else: of an order's environment only where MPS is counts.
    """
    LIMIT_S = 120   # for all ranks to be there

    def __init__(self, environ, variables):
        self.variables = variables
        self.rank, self.world = int(environ["RANK"]), int(environ["WORLD_SIZE"])
        self.address = (environ["MASTER_ADDR"], int(environ["MASTER_PORT"]) + 1)
        self.listener, self.waiting = None, {}
        if self.rank == 0:
            try:
                if self.address[1] > 65535:
                    raise OSError("there is no such port")
                self.listener = socket.create_server(("", self.address[1]), backlog=4 * self.world)
            except OSError as e:
                raise Failed("port %d, the one after MASTER_PORT: %s" % (self.address[1], e)) from e

    def workers(self, order):
        """At rank 0: a connection to a new worker of each other rank, in rank order."""
        end = time.monotonic() + self.LIMIT_S
        while len(self.waiting) < self.world - 1:
            self.listener.settimeout(max(end - time.monotonic(), 0.01))
            try:
                connection, _ = self.listener.accept()
            except OSError as e:
                raise Failed("only %d of %d ranks are there after %d s" % (len(self.waiting) + 1, self.world, self.LIMIT_S)) from e
            connection.settimeout(5)
            name = line_of(connection).strip()
            if not name.isdigit() or not 0 < int(name) < self.world:
                connection.close()   # a stranger
                continue
            connection.settimeout(None)
            self.waiting[int(name)] = connection
        connections, self.waiting = self.waiting, {}
        for rank, connection in connections.items():
            try:
                connection.sendall(order.encode() + b"\n")
            except OSError as e:
                raise Failed("rank %d: %s" % (rank, e)) from e
        return [connections[rank] for rank in range(1, self.world)]

    def serve(self):
        """At the others: starts workers until rank 0 wants no more; returns the exit status."""
        began, workers = time.monotonic(), []
        while True:
            try:
                connection = socket.create_connection(self.address)
            except OSError:
                if workers or time.monotonic() - began > self.LIMIT_S:
                    break
                time.sleep(0.1)
                continue
            connection.sendall(b"%d\n" % self.rank)
            order = line_of(connection)
            if not order:
                break
            order = json.loads(order)
            extra = {name: order["extra"][name] for name in MPS_NAMES if name in order["extra"]}
            env = environment({**os.environ, **extra}, order["side"], order["port"], os.devnull, self.variables)
            workers.append(subprocess.Popen([sys.executable, os.path.join(HERE, "worker.py")], env=env, stdin=connection, stdout=connection))
            connection.close()
        return max([abs(ended(worker)) for worker in workers], default=1)

    def close(self):
        """At rank 0: the others end when their workers do."""
        self.listener.close()
        for connection in self.waiting.values():
            connection.close()


def line_of(connection):
    """One line, and not a byte more: the rest is the worker's. Nothing where none comes."""
    text = b""
    while not text.endswith(b"\n") and len(text) < 4096:
        try:
            byte = connection.recv(1)
        except OSError:
            byte = b""
        if not byte:
            return b""
        text += byte
    return text


def ended(process):
    """A worker that has been told to end: its status."""
    try:
        return process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Group:
    """`world` ranks that answer questions. Use as a context manager: leaving it ends them."""

    def __init__(self, side, world, folder, extra=None, launched=None, variables=None, place=on_one_gpu):
        self.side, self.world, self.is_strict = side, world, place is on_one_gpu and not launched
        self.logs = [os.path.join(folder, "%s-%d-%d.log" % (side, world, rank)) for rank in range(1 if launched else world)]
        variables = own_variables() if variables is None else variables
        self.processes, self.connections, self.inputs, self.readers, self.answers = [], [], [], [], []
        extra = extra or {}
        port = free_port()
        for rank, log in enumerate(self.logs):
            base = {**os.environ, **extra}
            process = subprocess.Popen([sys.executable, os.path.join(HERE, "worker.py")], text=True,
                                       env=environment(base if launched else place(base, rank, world), side, port, log, variables),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.processes.append(process)
            self._add(process.stdin, process.stdout)
        if launched:
            try:
                self.connections = launched.workers(json.dumps({"side": side, "port": port, "extra": extra}))
            except Failed:
                self.__exit__(None)
                raise
            for connection in self.connections:
                self._add(connection.makefile("w", encoding="utf-8"), connection.makefile("r", encoding="utf-8"))

    def _add(self, stdin, stdout):
        lines = queue.Queue()
        self.inputs.append(stdin)
        self.answers.append(lines)
        self.readers.append(threading.Thread(target=self._read, args=(stdout, lines), daemon=True))
        self.readers[-1].start()

    @staticmethod
    def _read(stream, lines):
        with contextlib.suppress(OSError), stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    def ask(self, question, timeout_s):
        """Every rank's answer, in rank order. Raises Failed."""
        text = json.dumps(question) + "\n"
        for rank, stdin in enumerate(self.inputs):
            try:
                stdin.write(text)
                stdin.flush()
            except OSError:
                raise Failed("%s, rank %d of %d: it died before %s" % (self.side, rank, self.world, question))
        answers = []
        for rank, lines in enumerate(self.answers):
            try:
                line = lines.get(timeout=timeout_s)
            except queue.Empty:
                raise Failed("%s, rank %d of %d: no answer in %g s to %s"
                             % (self.side, rank, self.world, timeout_s, question))
            answer = json.loads(line) if line else {"error": "it died"}
            if "error" in answer:
                raise Failed("%s, rank %d of %d: %s at %s" % (self.side, rank, self.world, answer["error"], question))
            answers.append(answer)
        return answers

    def log(self):
        text = ""
        for path in self.logs:
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as f:
                    text += f.read()
        return text

    def said(self):
        """The warnings of NCCL and the plugin, and each rank's last lines: what to read after a failure."""
        text = []
        for rank, path in enumerate(self.logs):
            lines = []
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as f:
                    lines = f.read().splitlines()
            text += ["rank %d: %s" % (rank, line) for line in [x for x in lines[:-8] if " WARN " in x][-20:] + lines[-8:]]
        return "\n".join(text)

    def used(self):
        """Checks that all traffic went where it should. Returns the network in words; raises Failed."""
        try:
            network = sides.check(self.side, self.log())
        except sides.Failed as e:
            raise Failed(str(e)) from e
        found = transports(self.log())
        if self.is_strict and found != {NET_OF[self.side]}:
            raise Failed("%s: NCCL's connections went via %s, not via %s"
                         % (self.side, ", ".join(sorted(found)) or "nothing", NET_OF[self.side]))
        return network

    def used_collnet(self):
        """Checks that the plugin's collnet made the results. Raises Failed."""
        text = self.log()
        if "via COLLNET/%s/" % PLUGIN_NAME not in text:
            raise Failed("NCCL's log shows no collnet through the plugin")
        if algorithms(text) != {"COLLNET_CHAIN"}:
            raise Failed("NCCL took %s, not COLLNET_CHAIN alone" % (", ".join(sorted(algorithms(text))) or "nothing"))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for stdin in self.inputs:
            with contextlib.suppress(OSError):
                stdin.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        for process in self.processes:
            ended(process)
        end = time.monotonic() + 20
        for reader in self.readers:
            reader.join(max(end - time.monotonic(), 0))
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)   # and with it a reader that still waits
            connection.close()
        if kind:
            print(self.said(), flush=True)
