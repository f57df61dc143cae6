# SPDX-License-Identifier: Apache-2.0
"""The links that each byte of a host crosses: a folder of topo/ as the text that NCCL on simulated GPUs is charged by.

One line a link (a direction, or a limit that several ways share) and a line for each way between two places: what kind of copy, the
links that it crosses, their latency. Ways are the shortest: NVLink where it joins two GPUs, else over switches, host bridges and the
links between CPUs. What the folder's rules say of contention becomes further links.
"""

import collections
import re

LEAVES = ("gpu", "nic", "memory")
STEP_NS = (1500, 500)  # added to each step's latency: Simple, LL


class Machine:
    """A host as its two files have it, without RDMA and GPUDirect: as a TCP host."""

    def __init__(self, folder):
        self.vertices, self.joined, self.rates, self.latencies = {}, [], {}, {}
        self.neighbours, self.kinds, self.nvlinks = collections.defaultdict(list), {}, set()
        self.rules, self.pairs, self.p2p = collections.defaultdict(dict), {}, "all"
        for words, line in lines_of(folder / "machine.topology"):
            self.take(words, line)
        if (folder / "rules").exists():
            for words, _ in lines_of(folder / "rules"):
                self.take_rule(words)
        self.gpus = sorted((name for name, facts in self.vertices.items() if facts["kind"] == "gpu"),
                           key=lambda name: int(self.vertices[name]["index"]))
        self.nics = [name for name, facts in self.vertices.items() if facts["kind"] == "nic"]

    def take(self, words, line):
        if words[0] == "vertex":
            self.vertices[words[2]] = {"kind": words[1], **dict(fact.split("=", 1) for fact in re.findall(r'\w+=(?:"[^"]*"|\S+)', line))}
        elif words[0] == "link":
            kind, low, high = words[1:4]
            self.joined.append((kind, low, high))
            for a, b in (low, high), (high, low):
                self.kinds[a, b] = kind
                if kind == "nvlink":
                    self.nvlinks.add((a, b))
                else:
                    self.neighbours[a].append(b)
        elif words[0] == "rate":
            way = tuple(words[1].split(">"))
            self.rates[way] = float(words[2])
            self.latencies[way] = int((re.search(r"latency_ns=(\d+)", line) or [0, 0])[1])

    def take_rule(self, words):
        if words[0] == "p2p":
            self.p2p = words[1]
        elif words[0] == "pair":
            self.pairs[words[1], words[2]] = float(words[3])
        elif len(words) == 3:
            self.rules[words[0]][words[1]] = float(words[2])
        elif len(words) == 2:
            self.rules[words[0]] = float(words[1])

    def part(self, rule, kind=None):
        """What the rule leaves of a rate."""
        found = self.rules.get(rule, 1.0)
        return found.get(kind, 1.0) if isinstance(found, dict) else found

    def route(self, begin, end):
        if (begin, end) in self.nvlinks:
            return [(begin, end)]
        came, queue = {begin: None}, collections.deque([begin])
        while end not in came:
            at = queue.popleft()
            if at != begin and self.vertices[at]["kind"] in LEAVES:
                continue
            for there in self.neighbours[at]:
                if there not in came:
                    came[there] = at
                    queue.append(there)
        out = []
        while end != begin:
            out.append((came[end], end))
            end = came[end]
        return out[::-1]

    def memory_of(self, name):
        seen, queue = {name}, collections.deque([name])
        while True:
            at = queue.popleft()
            if self.vertices[at]["kind"] == "cpu":
                return next(memory for memory, facts in self.vertices.items()
                            if facts["kind"] == "memory" and facts["numa"] == self.vertices[at]["numa"])
            for there in self.neighbours[at]:
                if there not in seen:
                    seen.add(there)
                    queue.append(there)

    def reach(self, a, b):
        """nvlink, switch, root or socket: what the way between two GPUs goes through."""
        if (a, b) in self.nvlinks:
            return "nvlink"
        route = self.route(a, b)
        if any(self.kinds[link] == "socket" for link in route):
            return "socket"
        return "root" if any(self.vertices[there]["kind"] in ("bridge", "cpu") for _, there in route) else "switch"

    def may_use_p2p(self, a, b):
        return self.reach(a, b) in {"all": ("nvlink", "switch", "root", "socket"), "socket": ("nvlink", "switch", "root"),
                                    "none": ("nvlink",)}.get(self.p2p, ("nvlink", "switch"))


def lines_of(path):
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            yield words, line


class Fabric:
    def __init__(self, machine):
        self.machine, self.paths = machine, []
        self.links = {">".join(way): rate for way, rate in machine.rates.items() if rate > 0}
        for i, gpu in enumerate(machine.gpus):
            for j, other in enumerate(machine.gpus):
                if i != j:
                    self.add_pair(i, gpu, j, other)
            self.add_memory(i, gpu)
            for j, nic in enumerate(machine.nics):
                self.add_nic(i, gpu, j, nic)

    def limit(self, name, rate):
        self.links[name] = rate
        return name

    def crossed(self, route):
        """Both directions of a link together carry less than twice what one does."""
        for a, b in route:
            yield f"{a}>{b}"
            part = self.machine.part("both", self.machine.kinds[a, b])
            if part < 1:
                yield self.limit("both:" + "~".join(sorted((a, b))), part * (self.machine.rates[a, b] + self.machine.rates[b, a]))

    def device(self, name):
        part = self.machine.part("device", self.machine.vertices[name]["kind"])
        rates = sum(rate for way, rate in self.machine.rates.items() if name in way)
        return [self.limit("device:" + name, part * rates)] if part < 1 else []

    def engine(self, name, out, kernel=False):
        machine, what = self.machine, "kernel" if kernel and "kernel" in self.machine.rules else "engine"
        low, high = next((a, b) for kind, a, b in machine.joined if kind in ("pci", "c2c") and a == name)
        way = "out" if out else "in"
        part = machine.part("kernel") if what == "kernel" else machine.part("engine-" + way, machine.vertices[name]["kind"])
        title = f"{'kernel' if kernel else 'engine'}-{way}:{name}"
        return [self.limit(title, part * machine.rates[(low, high) if out else (high, low)])] if part < 1 else []

    def alone(self, what, a, b, part, route):
        return [self.limit(f"{what}:{a}>{b}", part * min(self.machine.rates[way] for way in route))] if part < 1 else []

    def add(self, kind, a, b, route, more):
        latency_ns = sum(self.machine.latencies[way] for way in route)
        self.paths.append(" ".join(["path", kind, str(a), str(b), str(latency_ns), *self.crossed(route), *more]))

    def add_pair(self, i, gpu, j, other):
        machine, reach, route = self.machine, self.machine.reach(gpu, other), self.machine.route(gpu, other)
        part = {"nvlink": 1, "socket": machine.part("p2p-socket"), "root": machine.part("p2p-root"), "switch": 1}[reach]
        part *= machine.pairs.get((gpu, other), 1) if reach != "nvlink" else 1
        ends, own = self.device(gpu) + self.device(other), self.alone("p2p", gpu, other, part, route)
        for kind, end, out in ("p2p", gpu, True), ("p2pread", other, False):
            self.add(kind, i, j, route, ends + ([] if reach == "nvlink" else self.engine(end, out, kernel=True)) + own)
        memory = machine.memory_of(other)
        up, down = machine.route(gpu, memory), machine.route(memory, other)
        staged = self.alone("staged", gpu, other, machine.part("staged"), up + down)
        self.add("shmwrite", i, j, up, self.device(gpu) + self.engine(gpu, True, kernel=True) + staged)
        self.add("shmread", i, j, down, self.device(other) + self.engine(other, False, kernel=True))

    def add_memory(self, i, gpu):
        memory = self.machine.memory_of(gpu)
        for kind, route, out in (("loopsend", self.machine.route(gpu, memory), True), ("looprecv", self.machine.route(memory, gpu), False)):
            self.add(kind, i, 0, route, self.device(gpu) + self.engine(gpu, out, kernel=True))

    def add_nic(self, i, gpu, j, nic):
        machine = self.machine
        memory = machine.memory_of(gpu)
        up, down = machine.route(gpu, memory), machine.route(memory, gpu)
        reads, writes = self.engine(nic, False), self.engine(nic, True)
        for kind, route, more in (("netsend", up + machine.route(memory, nic), self.engine(gpu, True, kernel=True) + self.device(nic) + reads),
                                  ("netrecv", machine.route(nic, memory) + down, self.engine(gpu, False, kernel=True) + self.device(nic) + writes),
                                  ("gdrsend", machine.route(gpu, nic), self.device(nic) + reads),
                                  ("gdrrecv", machine.route(nic, gpu), self.device(nic) + writes)):
            self.add(kind, i, j, route, self.device(gpu) + more)

    def text(self):
        machine = self.machine
        buses = ",".join(machine.vertices[gpu]["bus"] for gpu in machine.gpus)
        allowed = ",".join("".join("01"[a == b or machine.may_use_p2p(a, b)] for b in machine.gpus) for a in machine.gpus)
        nics = ",".join(f"{nic}={machine.vertices[nic].get('interface', nic)}={machine.vertices[nic].get('speed_Bps', 0)}"
                        for nic in machine.nics)
        return "\n".join([f"# gpus {buses}", f"# p2p {allowed}", f"# nics {nics}", f"nics {len(machine.nics)}", "step %d %d" % STEP_NS,
                          *(f"link {name} {rate:.0f}" for name, rate in self.links.items()), *self.paths, ""])
