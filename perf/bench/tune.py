# SPDX-License-Identifier: Apache-2.0
"""`tributary tune --measure`: what NCCL should take for each collective and size, by measuring, as a table that the plugin follows.

src/command/tune.c has the options and their help, and starts this with them. descent.py has the search. Each run starts the command
once, with a trial table in which each size of each collective has its own candidate; the plugin follows it as it follows any
table, so nothing forces a choice in another way. A trial table lies on a host only while a run needs it.
"""
import argparse
import base64
import contextlib
import os
import re
import statistics
import sys
import time

import bench
import descent
import hold
import launch
import nccllog
import nccltests
import sides
import verdict

HERE = os.path.dirname(os.path.realpath(__file__))
OPERATIONS = tuple(descent.PAIRS)
STANDARD = OPERATIONS[:3]
WORDS = {op: op.replace("_", "") for op in OPERATIONS}   # in a table
ORDER = ("broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce")   # NCCL's
TABLES_FROM = (2, 28, 7)
CHUNKS_FROM = (2, 30, 3)   # the version of NCCL that asks for chunks
MODELLED = {"from": None, "profile": None, "gpus": None, "nets": None, "hosts": "1", "nodes": None, "cluster": None, "exclude": None, "color": None}
SLACK = 8   # a trial may take so many times as long as the first run before it counts as hung


def options_of(words):
    p = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("program", "worker", "nccl-tests", "operations", "sizes", "turns", "seconds", "timeout", "ranks"):
        p.add_argument("--" + name)
    for name in ("json", "mps", "collnet", "measure"):
        p.add_argument("--" + name, action="store_true")
    p.add_argument("launcher", nargs="*")
    for name in MODELLED:
        p.add_argument("--" + name)
    o = p.parse_args(words)
    for name, standard in MODELLED.items():
        if name != "color" and getattr(o, name) not in (None, standard):
            raise bench.Usage("--%s is for the model's times, not for --measure" % name)
    o.job, o.metric, o.csv, o.report = False, None, False, None
    o.operations = bench.operations_of(o.operations or ",".join(STANDARD), OPERATIONS)
    o.sizes = bench.sizes_given(o.sizes, 2)
    o.turns = bench.number_of("turns", o.turns or "11", verdict.PAIRS_LEAST, 101)
    o.seconds = bench.number_of("seconds", o.seconds or "1800", 1, 604800, float)
    o.timeout = bench.number_of("timeout", o.timeout or "600", 1, 604800, float)
    o.ranks = o.ranks and bench.number_of("ranks", o.ranks, 2, 64)
    if o.ranks and o.launcher:
        raise bench.Usage("--ranks is for this machine alone: the launcher says how many there are")
    if any(size & (size - 1) for size in o.sizes):
        raise bench.Usage("--sizes has %s, expected powers of two alone, as 4K-64M" % " and ".join(verdict.size_text(s) for s in o.sizes if s & (s - 1)))
    nodes = re.search(r"--nnodes[= ](\S+)", " ".join(o.launcher))
    if bench.is_torchrun(o.launcher) and nodes and nodes.group(1) != "1":
        raise bench.Usage("torchrun starts the ranks of one host, and one place decides what all try: with several hosts give srun or mpirun")
    return o


class Tune(bench.Bench):
    """One measurement: what runs, and what is told about it."""

    def __init__(self, options, out):
        super().__init__(options, out)
        if self.worker == "plugins":
            raise bench.Failed("there is no NCCL to tune: neither nccl-tests (in PATH, or --nccl-tests FOLDER), nor a PyTorch with CUDA for %s" % sys.executable)
        if options.collnet:
            self.variables = {**self.variables, "NCCL_COLLNET_ENABLE": "1"}
        self.began, self.limit_s, self.run_s = time.monotonic(), options.timeout, []
        self.operations = [op for op in options.operations if self.can_run(op)]
        self.search = descent.Search(self.once, self.note)
        self.shape, self.gpus_named, self.is_final = None, None, False
        self.results, self.saved = [], None

    def can_run(self, operation):
        missing = not nccltests.find(self.o.nccl_tests, operation) if self.worker == "nccl-tests" else operation == "reduce"
        if missing:
            self.note("left out, as %s has no such: %s" % (self.worker, verdict.NAMES[operation]))
        return not missing

    # ---------------------------------------------------------------------------------------------------------- a table

    def table(self, choices, times=None):
        """The text of one; on trial without times, and with a time that no other table has."""
        s, kind = self.shape, re.compile(r"[^ -~]+")
        head = [("nccl", s["nccl"]), ("ranks", s["ranks"]), ("hosts", s["hosts"]), ("gpus", self.gpus_named or "not known"), ("network", self.network()),
                ("measured", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) if times else "0000-00-00T00:00:00Z")]
        cells = sorted(choices, key=lambda cell: (ORDER.index(cell[0]), cell[1]))
        return "".join(["tributary tuning 1\n"] + ["%s %s\n" % (name, kind.sub("?", str(value))[:95].strip()) for name, value in head] +
                       ["choice %s %d %s %s %d %d %d %d\n" % ((WORDS[cell[0]], cell[1]) + choices[cell] + (times or {}).get(cell, (0, 0)))
                        for cell in cells])

    def network(self):
        """As the plugin names its own where it looks for a table: the kind, and what the devices carry together."""
        said = self.networks.get("with") or "not known"
        found = re.match(r"Tributary: net (\w+) over ([^;]*)", said)
        if not found:
            return re.sub(r"^Tributary: (net )?", "", said)
        units = {"M": 1e6, "G": 1e9}
        rate = sum(float(number) * units[unit] for number, unit in re.findall(r" ([0-9.e+]+) ([MG])bit/s", found.group(2)))
        return found.group(1) + (" %.4g Gbit/s" % (rate / 1e9) if rate >= 1e9 else " %.4g Mbit/s" % (rate / 1e6) if rate else "")

    @contextlib.contextmanager
    def held(self, text, is_kept=False):
        """While this host has the table: its hash, and the words before a command that say so to all hosts."""
        try:
            held = hold.install(self.o.program, text.encode())
        except (OSError, ValueError) as e:
            raise bench.Failed("a table cannot be kept here: %s" % e) from e
        stays = False
        try:
            yield held["table"], [sys.executable, "-B", os.path.join(HERE, "hold.py"), os.path.realpath(self.o.program),
                                  base64.urlsafe_b64encode(text.encode()).decode(), "%d" % is_kept]
            stays = is_kept
        finally:
            if held["is_new"] and not stays:
                hold.remove(held["file"])

    # ------------------------------------------------------------------------------------------------------------ a run

    def once(self, choices, cells):
        """What descent.Search wants."""
        if not choices:
            return self.measured("off", [], cells)
        with self.held(self.table(choices)) as (table, words):
            return self.measured(table, words, cells)

    def measured(self, table, before, cells):
        if sys.stderr.isatty():
            print("run %d, %.0f of %g s ..." % (self.search.runs, time.monotonic() - self.began, self.o.seconds), file=sys.stderr)
        changed = {**sides.changes(os.environ, "with", self.variables), "TRIBUTARY_TUNING": table}
        if not self.is_final:   # each line takes time
            changed["NCCL_DEBUG_SUBSYS"] = "INIT,NET,TUNING"
        before = sides.words_of(changed) + before
        began = time.monotonic()
        found, logs, why = self.nccl_tests_once(before, cells) if self.worker == "nccl-tests" else self.torch_once(before, cells)
        try:
            self.networks["with"] = sides.check("with", logs)
        except sides.Failed as e:
            why = why or str(e)
        if why:
            raise descent.Broken(why, found)
        self.shape = self.shape or nccllog.shape(logs)
        self.run_s.append(time.monotonic() - began)
        return found

    def nccl_tests_once(self, before, cells):
        """({cell: Took}, NCCL's log, why it failed or None)."""
        found, logs, failure = {}, "", None
        for op in self.operations:
            sizes = sorted(size for operation, size in cells if operation == op)
            if not sizes:
                continue
            words = [nccltests.find(self.o.nccl_tests, op), "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", "2", "-c", "1",
                     "-g", "1" if self.o.launcher else str(self.gpus())]
            output, why = self.output_of(bench.launched(self.o.launcher, before + words))
            logs += output.log() + "\n"
            try:
                rows, ranks = nccltests.parse("\n".join(line for line in output.lines if " NCCL INFO " not in line))
            except nccltests.Unreadable as e:
                failure = failure or ("%s\n%s" % (why.args[0], output.last()) if why else "%s: %s" % (nccltests.PROGRAMS[op], e))
                continue
            if why and not any(cells[4] for cells in rows.values()):
                failure = failure or "%s\n%s" % (why.args[0], output.last())
            self.gpus_named = self.gpus_named or nccltests.gpu(output.text())
            self.add(found, op, [(size, row[3], row[4]) for size, row in rows.items()], nccllog.ways(output.log(), ranks), cells)
        return found, logs, failure

    @staticmethod
    def add(found, op, rows, ways, cells):
        for size, seconds, wrong in rows:
            cell = (op, 1 << (size - 1).bit_length())   # of three ranks an AllGather of 64 KiB has four bytes less
            if cell in cells:
                found[cell] = descent.Took(seconds, wrong, *ways.get((op, size), (None, None, 0)))

    def torch_once(self, before, cells):
        self.took, self.log_text, self.why = [], "", None
        words = before + [sys.executable, "-B", os.path.join(HERE, "rank.py"), self.config(cells=cells)]
        failure = None
        try:
            launch.run(bench.launched(self.o.launcher, words), os.environ, self.limit_s, self.take)
        except launch.Failed as e:
            failure = self.why or "%s\n%s" % (e.args[0], e.args[1].last())
        found, ways = {}, nccllog.ways(self.log_text, (nccllog.shape(self.log_text) or {}).get("ranks", 1))
        for said in self.took:
            self.add(found, said["operation"], [(said["size"], said["seconds"], said["wrong"])], ways, cells)
        return found, self.log_text, failure

    def take_more(self, what, said):
        if what == "took":
            self.took.append(said)
        elif what == "log":
            self.log_text, self.gpus_named = said["text"], said["gpu"]

    def output_of(self, words):
        try:
            return launch.run(words, os.environ, self.limit_s), None
        except launch.Failed as e:
            return e.args[1], e

    # ------------------------------------------------------------------------------------------------------ the whole

    def seconds_left(self):
        return self.began + self.o.seconds - time.monotonic()

    def first(self):
        """{cell: Took} of NCCL's own choice. Raises bench.Failed: nothing can be tuned here."""
        cells = [(op, size) for op in self.operations for size in self.o.sizes]
        own = self.search.untuned(cells)
        if not own and self.ranks_seen and 0 not in self.ranks_seen:
            raise bench.Failed("rank 0 is on another host: run this where it is")
        own = {cell: own[cell] for cell in cells if cell in own}
        if not self.shape or not own:
            raise bench.Failed("NCCL's log does not say what communicator there is; it should, with NCCL_DEBUG=INFO")
        if self.version() < TABLES_FROM or any(took.algorithm is None for took in own.values()):
            raise bench.Failed("this is NCCL %s, and tuning tables need 2.28.7 or later" % self.shape["nccl"])
        self.limit_s = min(self.limit_s, max(60, SLACK * self.run_s[-1]))
        if 4 * verdict.PAIRS_LEAST * self.run_s[-1] > self.seconds_left():
            raise bench.Failed("a run takes %.1f s, and a search has some 60: give --seconds %.0f or more, or fewer --sizes" % (
                self.run_s[-1], 60 * self.run_s[-1] + 1))
        return own

    def version(self):
        return tuple(map(int, self.shape["nccl"].split(".")))

    def has_time(self):
        """For another trial, before the turns, which may have half of the time."""
        run_s = statistics.median(self.run_s[-5:])
        return self.seconds_left() > max(2 * verdict.PAIRS_LEAST * run_s, min(2 * self.o.turns * run_s, self.o.seconds / 2))

    def run(self):
        try:
            own = self.first()
            chunks = descent.CHUNKS if self.version() >= CHUNKS_FROM else []
            found = self.search.explore(own, self.shape["channels"], chunks, self.has_time)
            if not self.search.taken:
                raise bench.Failed("NCCL took no choice of the table: %s" % (
                    "NCCL_TUNER_PLUGIN names another tuner" if os.environ.get("NCCL_TUNER_PLUGIN") else "its log should say why, with NCCL_DEBUG=INFO"))
            if self.search.is_cut:
                self.note("the search ended with its time, --seconds %g, after %d runs: more may be found" % (self.o.seconds, self.search.runs))
            found = {cell: choice for cell, choice in found.items() if choice != descent.OWN}
            self.is_final = True
            times = self.search.verify(found, self.o.turns, lambda: self.seconds_left() > 0) if found else {}
        except descent.GaveUp as e:
            raise bench.Failed(str(e)) from e
        self.results = [Result(cell, took, found.get(cell, descent.OWN), times.get(cell)) for cell, took in own.items()]
        self.show_results()
        kept = [r for r in self.results if r.holds]
        if kept:
            self.save(kept)
        return self.sentence(kept), False

    def save(self, kept):
        """The table, on all hosts; run once more as it is."""
        def ns(values):
            return int(statistics.median(values) * 1e9)
        text = self.table({r.cell: r.choice for r in kept}, {r.cell: (ns(r.times["with_s"]), ns(r.times["without_s"])) for r in kept})
        with self.held(text) as (table, words):
            try:
                found = self.measured(table, words, [r.cell for r in kept])
            except descent.Broken as e:
                raise bench.Failed("the command fails with the whole table, so it is not kept: %s" % e.args[0]) from e
            if any(took.wrong for took in found.values()):
                raise bench.Failed("WRONG RESULTS with the whole table, so it is not kept; report this")
        with self.held(text, True) as (table, words):
            try:
                launch.run(bench.launched(self.o.launcher, words + ["true"]), os.environ, self.limit_s)
            except launch.Failed as e:
                raise bench.Failed("the table cannot be kept on all hosts: %s" % e.args[0]) from e
            self.saved = table

    def sentence(self, kept):
        if not kept:
            return "nothing that was tried is faster than NCCL's own choice by %s or more: no table" % verdict.percent(descent.GAIN_LEAST)
        parts = []
        for op in self.operations:
            sizes = {r.cell[1]: r for r in kept if r.cell[0] == op}
            for first, last in verdict.runs([verdict.ratio_of(sizes[s].times) if s in sizes else (1, 1, 1) for s in self.o.sizes], 1, descent.GAIN_LEAST):
                run = [sizes[s] for s in self.o.sizes[first:last + 1] if s in sizes]
                ways = list(dict.fromkeys(descent.way_of(r.choice) for r in run))
                parts.append("%s: %s times as fast with %s" % (
                    (verdict.NAMES[op] + " " + verdict.range_text(self.o.sizes, first, last)).rstrip(),
                    verdict.span([verdict.ratio_of(r.times)[1] for r in run]), verdict.joined(ways) if len(ways) < 4 else "%d choices" % len(ways)))
        return "%s; table %s: %s" % ("; ".join(parts), self.saved, use_of(self.saved, self.shape["hosts"]))

    # ------------------------------------------------------------------------------------------------------- results

    def show_results(self):
        shape = self.shape
        self.print("# NCCL %(nccl)s, %(ranks)d ranks on %(hosts)d hosts" % shape + "; %d runs in %.0f s" % (
            self.search.runs, time.monotonic() - self.began))
        for op in self.operations:
            self.print("# %s" % verdict.NAMES[op])
            self.print("#%13s  %-26s %11s  %-44s %11s  %s" % ("size (B)", "NCCL's own", "time (us)", "the best found", "time (us)", "times as fast [95 %]"))
            for r in self.results:
                if r.cell[0] == op:
                    self.print(r.row())

    def as_json(self, sentence, with_values=False):
        return {"format": "tributary-tuned 1", "sentence": sentence, "table": self.saved, "worker": self.worker, "launcher": self.o.launcher,
                "nccl": self.shape and self.shape["nccl"], "ranks": self.shape and self.shape["ranks"], "hosts": self.shape and self.shape["hosts"],
                "runs": self.search.runs, "seconds": round(time.monotonic() - self.began, 3), "notes": self.notes,
                "cases": [r.as_json() for r in self.results]}


def use_of(table, hosts):
    return "jobs of this shape on this host use it by themselves" if hosts == 1 else "`tributary run --tuning %s` uses it" % table


class Result:
    """Of one cell: NCCL's own choice, the best found, and their times in turns."""

    def __init__(self, cell, own, choice, times):
        self.cell, self.own, self.choice, self.times = cell, own, choice, times
        self.ratio = verdict.ratio_of(times) if times else None
        self.holds = bool(self.ratio) and descent.holds(times)

    def own_way(self):
        return descent.Choice(self.own.algorithm, self.own.protocol, self.own.channels, 0)

    def row(self):
        if not self.ratio:
            return " %13d  %-26s %11.2f" % (self.cell[1], descent.way_of(self.own_way()), self.own.seconds * 1e6)
        with_s, without_s = (statistics.median(self.times[side]) for side in ("with_s", "without_s"))
        return " %13d  %-26s %11.2f  %-44s %11.2f  %.3f [%.3f, %.3f]%s" % (
            self.cell[1], descent.way_of(self.own_way()), without_s * 1e6, descent.way_of(self.choice), with_s * 1e6,
            self.ratio[1], self.ratio[0], self.ratio[2], "" if self.holds else "  not kept")

    def as_json(self):
        def way(choice):
            return {"algorithm": choice.algorithm, "protocol": choice.protocol, "channels": choice.channels}
        times = {side: statistics.median(self.times[side]) for side in ("with_s", "without_s")} if self.ratio else {}
        return {"operation": self.cell[0], "size_bytes": self.cell[1], "untuned": {**way(self.own), "time_s": times.get("without_s", self.own.seconds)},
                "tuned": {**way(self.choice), "chunk_bytes": self.choice.chunk, "time_s": times["with_s"]} if self.ratio else None,
                "ratio": {"median": self.ratio[1], "low": self.ratio[0], "high": self.ratio[2]} if self.ratio else None, "is_kept": self.holds}


if __name__ == "__main__":
    sys.exit(bench.main(sys.argv[1:], "tune", options_of, Tune))
