"""Several ranks on one GPU: each its own process with its own NCCL_HOSTID, so that NCCL takes them for hosts.

The parent (check_gpu.py, perf/torch_bench.py) sends one JSON line to every rank's standard input and reads one from its
standard output; worker.py is the other side. Standard library only.
"""
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
PLUGIN_NAME = "Tributary"     # what the plugin calls itself in NCCL's log
SOCKETS_NAME = "Socket"       # NCCL's own transport
# What a job sets that wants its AllReduces aggregated, and here nothing else: then only AllReduces can be asked for.
COLLNET = {"NCCL_COLLNET_ENABLE": "1", "NCCL_ALGO": "CollNetChain"}


class Failed(Exception):
    """A rank died, hung or complained."""


def plugin_path():
    """The built plugin: TRIBUTARY_PLUGIN, else the default build's."""
    root = os.path.dirname(os.path.dirname(HERE))
    return os.path.realpath(os.environ.get("TRIBUTARY_PLUGIN") or os.path.join(root, "build/libnccl-net-tributary.so"))


def missing():
    """Why nothing can run here, or None."""
    try:
        import torch
    except ImportError:
        return "no PyTorch"
    if not torch.cuda.is_available():
        return "no GPU that PyTorch can use"
    if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        return "this PyTorch has no NCCL"
    if not os.path.exists(plugin_path()):
        return "no plugin at %s (run make)" % plugin_path()
    return None


def environment(base, net, rank, world, port, log):
    """The environment of one rank. `net` is "plugin" or "sockets"; interface and settings are the same for both."""
    env = dict(base)
    env.update({
        "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "NCCL_HOSTID": "tributary-rank-%d" % rank,
        # Not needed when the host ids differ, but then nothing but the network is left if that ever changes.
        "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_IB_DISABLE": "1",
        "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,TUNING", "NCCL_DEBUG_FILE": log})
    env.setdefault("NCCL_SOCKET_IFNAME", "lo")
    for name in ("NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_COMM_ID", "TRIBUTARY_DISABLE"):
        env.pop(name, None)
    if net == "plugin":
        # By name and folder: NCCL before 2.2x finds a plugin in no other way.
        path = plugin_path()
        env["NCCL_NET_PLUGIN"] = re.fullmatch(r"libnccl-net-(.*)\.so", os.path.basename(path)).group(1)
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, (os.path.dirname(path), env.get("LD_LIBRARY_PATH"))))
    else:
        env["NCCL_NET_PLUGIN"], env["NCCL_NET"] = "none", SOCKETS_NAME
    return env


def transports(log_text):
    """The transports of NCCL's connections, from its log: {"NET/Tributary"}, {"P2P", "SHM", …}."""
    return set(re.findall(r"-> \d+\[[^\]]*\](?: \[\w+\])? via (NET/[^/\s]+|[A-Z][A-Za-z0-9]*)", log_text))


def algorithms(log_text):
    """What NCCL says that its tuning chose: {"COLLNET_CHAIN"}, {"RING", "TREE", …}."""
    return set(re.findall(r"Bytes -> Algo (\w+)", log_text))


def nccl_version(log_text):
    found = re.search(r"NCCL version (\S+)", log_text)
    return found.group(1) if found else "unknown"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Group:
    """`world` ranks that answer questions. Use as a context manager: leaving it ends them."""

    def __init__(self, net, world, folder, extra=None):
        self.net, self.world = net, world
        self.logs = [os.path.join(folder, "%s-%d-%d.log" % (net, world, rank)) for rank in range(world)]
        self.processes, self.readers, self.answers = [], [], []
        base = {**os.environ, **(extra or {})}
        port = free_port()
        for rank in range(world):
            process = subprocess.Popen([sys.executable, os.path.join(HERE, "worker.py")], text=True,
                                       env=environment(base, net, rank, world, port, self.logs[rank]),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            lines = queue.Queue()
            self.readers.append(threading.Thread(target=self._read, args=(process.stdout, lines), daemon=True))
            self.readers[-1].start()
            self.processes.append(process)
            self.answers.append(lines)

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put(None)

    def ask(self, question, timeout_s):
        """Every rank's answer, in rank order. Raises Failed."""
        text = json.dumps(question) + "\n"
        for rank, process in enumerate(self.processes):
            try:
                process.stdin.write(text)
                process.stdin.flush()
            except OSError:
                raise Failed("%s, rank %d of %d: it died before %s" % (self.net, rank, self.world, question))
        answers = []
        for rank, lines in enumerate(self.answers):
            try:
                line = lines.get(timeout=timeout_s)
            except queue.Empty:
                raise Failed("%s, rank %d of %d: no answer in %g s to %s"
                             % (self.net, rank, self.world, timeout_s, question))
            answer = json.loads(line) if line else {"error": "it died"}
            if "error" in answer:
                raise Failed("%s, rank %d of %d: %s at %s" % (self.net, rank, self.world, answer["error"], question))
            answers.append(answer)
        return answers

    def log(self):
        text = ""
        for path in self.logs:
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as f:
                    text += f.read()
        return text

    def used(self):
        """Checks that all traffic went where it should. Returns the transports' names; raises Failed."""
        want = {"NET/" + (PLUGIN_NAME if self.net == "plugin" else SOCKETS_NAME)}
        found = transports(self.log())
        if found != want:
            raise Failed("%s: NCCL's connections went via %s, not via %s"
                         % (self.net, ", ".join(sorted(found)) or "nothing", ", ".join(want)))
        return found

    def used_collnet(self):
        """Checks that the plugin's collnet made the results. Raises Failed."""
        text = self.log()
        if "via COLLNET/%s/" % PLUGIN_NAME not in text:
            raise Failed("NCCL's log shows no collnet through the plugin")
        if algorithms(text) != {"COLLNET_CHAIN"}:
            raise Failed("NCCL took %s, not COLLNET_CHAIN alone" % (", ".join(sorted(algorithms(text))) or "nothing"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            try:
                process.stdin.close()
            except OSError:
                pass
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for reader, process in zip(self.readers, self.processes):
            reader.join()
            process.stdout.close()
