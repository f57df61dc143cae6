# SPDX-License-Identifier: Apache-2.0
"""`tributary bench`: the same operations with Tributary and without it, in turns, and one sentence about them.

src/command/bench.c has the options and their help, and starts this with them. What is run:
  nccl-tests  its programs; each turn starts them once on each side, the first side alternating
  torch       gpu.py, which has both sides in one run
  plugins     perf/collectives, where there is no NCCL: both sides in one run, the other one a plugin that
              moves messages as NCCL's own sockets do
  job         a job of the user's own, in turns: its wall time, or what it prints of itself
"""
import argparse
import base64
import importlib.util
import json
import math
import os
import re
import runpy
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import launch
import nccltests
import sides
import table
import verdict

HERE = os.path.dirname(os.path.realpath(__file__))
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "sendrecv")
FACTOR = 4
SECRET = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|KEY", re.I)
GOOD, FAILED, USAGE, SLOWER = 0, 1, 2, 3


class Failed(Exception):
    """No comparison: why."""


class Elsewhere(Exception):
    """All went well, and the figures are on the host of rank 0."""


class Usage(Exception):
    """A wrong option."""


# ------------------------------------------------------------------------------------------------------------- options


def wrong(name, text, expected):
    return Usage("--%s is \"%s\", expected %s" % (name, text, expected))


def sizes_of(low, high, factor=FACTOR):
    found = []
    while low <= high:
        found.append(low)
        low *= factor
    return found


def sizes_given(text, factor=FACTOR):
    """From "65536-16777216", as src/command/python.c writes what was given."""
    return sizes_of(*map(int, text.split("-")), factor)


def number_of(name, text, low, high, kind=int):
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        raise wrong(name, text, "%d to %d" % (low, high))
    return value


def plain_operation(name):
    """As parse_collective() of src/base/parse.c."""
    return re.sub("(?<=.)(perf|intotensor|tensor|single|base)$", "", re.sub("[_-]", "", name.lower()))


def operations_of(text, known=OPERATIONS):
    """Named as nccl-tests, PyTorch or NCCL name them."""
    found = [plain_operation(name) for name in text.split(",")]
    if not set(found) <= set(map(plain_operation, known)):
        raise wrong("operations", text, "some of " + ",".join(known))
    return [name for name in known if plain_operation(name) in found]


def options_of(words):
    p = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("program", "worker", "nccl-tests", "operations", "sizes", "turns", "seconds", "timeout", "ranks", "tuning", "metric", "report", "html", "page"):
        p.add_argument("--" + name)
    for name in ("json", "csv", "mps", "job", "higher"):
        p.add_argument("--" + name, action="store_true")
    p.add_argument("launcher", nargs="*")
    o = p.parse_args(words)
    o.launcher = with_testbed(o.launcher)
    o.job = o.job or o.metric is not None or o.higher
    o.operations = operations_of(o.operations or ",".join(OPERATIONS))
    o.sizes = o.sizes and sizes_given(o.sizes)
    o.turns = number_of("turns", o.turns or ("7" if o.job or o.worker == "nccl-tests" else "11"), verdict.PAIRS_LEAST, 101)
    o.seconds = number_of("seconds", o.seconds or "90", 1, 86400, float)
    o.timeout = number_of("timeout", o.timeout or ("3600" if o.job else "600"), 1, 604800, float)
    o.ranks = o.ranks and number_of("ranks", o.ranks, 2, 64)
    if o.job and not o.launcher:
        raise Usage("--job, --metric and --higher are about a job of your own: give its words after --")
    if o.ranks and o.launcher:
        raise Usage("--ranks is for this machine alone: the launcher says how many there are")
    if o.tuning and not re.fullmatch("[0-9a-f]{16}|auto|off", o.tuning):
        raise wrong("tuning", o.tuning, "auto, off, or the 16 digits of a table that `tributary tune --measure` keeps")
    if o.report == "-":
        raise wrong("report", o.report, "a file")
    if o.json and o.csv:
        raise Usage("only one of --json, --csv can go to standard output")
    try:
        re.compile(o.metric or "")
        if o.metric and re.compile(o.metric).groups < 1:
            raise wrong("metric", o.metric, "an expression with a group around the number, as 'step_ms=([0-9.]+)'")
    except re.error as e:
        raise wrong("metric", o.metric, "a regular expression: %s" % e) from e
    return o


# ------------------------------------------------------------------------------------------------------------- what runs


def is_torchrun(launcher):
    return bool(launcher) and (os.path.basename(launcher[0]) == "torchrun" or "torch.distributed.run" in launcher)


def launched(launcher, words):
    """The launcher's words, and then those that it is to start."""
    # Spelled so that old releases know it, too.
    more = ["--no_python"] if is_torchrun(launcher) and not {"--no_python", "--no-python"} & set(launcher) else []
    return launcher + more + words


def torch_cuda():
    """Whether this Python has a PyTorch for CUDA. Importing it would take seconds."""
    found = importlib.util.find_spec("torch")
    version = found and found.origin and os.path.join(os.path.dirname(found.origin), "version.py")
    try:
        return bool(version and runpy.run_path(version).get("cuda"))
    except OSError:
        return False


def has_gpu():
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def build_of(program):
    """The folder of the driver and of the plugin that ours is compared with, of a build or installed; or None."""
    here = os.path.dirname(os.path.realpath(program))
    for folder in (os.path.join(here, "perf"), os.path.join(here, "../libexec/tributary")):
        if os.access(os.path.join(folder, "collectives"), os.X_OK):
            return folder
    return None


def with_testbed(launcher):
    """`testbed`, where there is no such program, is that of the package, or of the source."""
    if launcher and os.path.basename(launcher[0]) == "testbed" and not shutil.which(launcher[0]):
        for place in ("../testbed/testbed", "../../tests/testbed/testbed"):
            path = os.path.realpath(os.path.join(HERE, place))
            if os.path.isfile(path):
                return [sys.executable, "-B", path, *launcher[1:]]
    return launcher


def choose(o):
    """"nccl-tests", "torch" or "plugins". Raises Failed where there is none."""
    tests = [op for op in o.operations if nccltests.find(o.nccl_tests, op)]
    if o.nccl_tests and not tests:
        raise Failed("there is no nccl-tests in %s: %s is missing" % (o.nccl_tests, nccltests.PROGRAMS[o.operations[0]]))
    if o.worker != "auto":
        if o.worker == "nccl-tests" and not tests:
            raise Failed("no %s in PATH; name the folder with --nccl-tests" % nccltests.PROGRAMS[o.operations[0]])
        if o.worker == "plugins" and not build_of(o.program):
            raise Failed("--worker plugins needs the program collectives, in perf beside this one or in ../libexec/tributary: install it again")
        return o.worker
    if tests and not is_torchrun(o.launcher):
        return "nccl-tests"
    if torch_cuda() and (has_gpu() or not build_of(o.program)):
        return "torch"
    if build_of(o.program):
        return "plugins"
    raise Failed("there is nothing to run here: neither nccl-tests (in PATH, or --nccl-tests FOLDER), nor a PyTorch with CUDA for %s, "
                 "nor the program collectives, in perf beside this one or in ../libexec/tributary" % sys.executable)


def asked(program, *words, **more):
    """The JSON that `tributary WORDS --json` prints; None where it fails."""
    try:
        done = subprocess.run([program, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False, **more)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


class Bench:
    """One comparison: its cases, and what is told about it."""

    def __init__(self, options, out):
        self.o, self.out = options, out
        self.cases, self.left_out, self.notes, self.failed_turns, self.networks = [], [], [], [], {}
        self.ranks_seen, self.shown, self.why, self.busy = set(), None, None, None
        tuning = ("--tuning", options.tuning) if getattr(options, "tuning", None) else ()
        self.env = asked(options.program, "env", *tuning, env=sides.given(os.environ))
        if not self.env:
            raise Failed("`%s env` says nothing: run it to see why" % options.program)
        self.variables = self.env["variables"]
        self.worker = "job" if options.job else choose(options)
        if tuning and self.worker == "plugins":
            raise Failed("--tuning is for NCCL, which is not here: perf/collectives has no tuner")
        self.margin = verdict.MARGIN_EMULATED if self.worker == "plugins" else verdict.MARGIN

    def print(self, text):
        try:
            if self.out:
                print(text, file=self.out, flush=True)
        except BrokenPipeError:   # whoever reads has enough; --report may still be wanted
            self.out = None

    def note(self, text):
        self.notes.append(text)
        self.print("# " + text)

    def show(self, case):
        """A row, under its operation's heading."""
        self.cases.append(case)
        if self.shown != case["operation"]:
            self.shown = case["operation"]
            self.print(table.head(case["operation"], case["ranks"]))
        self.print(table.row(case))

    # -------------------------------------------------------------------------------------------- both sides in one run

    def config(self, **more):
        o, build = self.o, build_of(self.o.program)
        sizes = o.sizes or (sizes_of(64 << 10, 16 << 20) if self.worker == "plugins" else sizes_of(1 << 10, 64 << 20))
        found = {"worker": self.worker, "operations": o.operations, "sizes": sizes, "turns": o.turns, "seconds": o.seconds,
                 "timeout": o.timeout, "ranks": o.ranks, "mps": o.mps, "host": socket.gethostname(), "program": os.path.realpath(o.program),
                 "variables": self.variables, **more}
        if self.worker == "plugins":
            found.update(driver=os.path.join(build, "collectives"), vs=os.path.join(build, "libnccl-net-sockets.so"), plugin=self.env["library"])
        return base64.urlsafe_b64encode(json.dumps(found).encode()).decode()

    def take(self, line):
        """A line of a rank's; what is none of ours is only kept."""
        at = line.find('{"what"')
        try:
            said = json.JSONDecoder().raw_decode(line[at:])[0] if at >= 0 else {}
        except ValueError:
            return
        what = said.pop("what", None)
        if what == "case":
            self.show(said)
        elif what == "left_out":
            self.left_out.append(said)
        elif what == "rank":
            self.ranks_seen.add(said["rank"])
        elif what == "note":
            self.note(said["text"])
        elif what == "networks":
            self.networks = said
        elif what == "failed":
            self.why = said["text"]
        elif what:
            self.take_more(what, said)

    def take_more(self, what, said):
        """Of other programs that run ranks as this one."""

    def together(self):
        words = launched(self.o.launcher, [sys.executable, "-B", os.path.join(HERE, "rank.py"), self.config()])
        if self.worker == "plugins":
            self.note("no NCCL here: with Tributary is its plugin, without is a plugin that moves messages as NCCL's own sockets do, by the "
                      "faster of ring and tree; one interface a host")
            if os.getloadavg()[0] > os.cpu_count():   # before ours are
                self.busy = "other programs were busy (load %.1f on %d cores)" % (os.getloadavg()[0], os.cpu_count())
                self.note(self.busy + ": what takes CPU time looks slower")
        try:
            launch.run(words, os.environ, self.o.timeout, self.take)
        except launch.Failed as e:
            if any(c["with_wrong"] or c["without_wrong"] for c in self.cases):
                return
            raise Failed(self.why or "%s\n%s" % (e.args[0], e.args[1].last())) from e
        if self.left_out:
            names = ["%s of %s" % (verdict.NAMES[c["operation"]], verdict.size_text(c["size"])) for c in self.left_out]
            self.note("left out, as they would take longer than --seconds %g: %s" % (self.o.seconds, ", ".join(names)))
        if not self.cases and self.ranks_seen and 0 not in self.ranks_seen:
            raise Elsewhere()
        if not self.cases:
            raise Failed("the launcher ended well and started nothing: no rank said a word")

    # ------------------------------------------------------------------------------------------------------- in turns

    def turns(self, once):
        """once(side) for both sides of every turn; turns in which one failed are left out. [{side: value}]."""
        pairs, alone = [], {}
        for turn in range(self.o.turns):
            found = {}
            for side in sides.SIDES if turn % 2 == 0 else sides.SIDES[::-1]:
                if sys.stderr.isatty():
                    print("turn %d of %d, %s Tributary ..." % (turn + 1, self.o.turns, side), file=sys.stderr)
                try:
                    found[side] = alone[side] = once(side)
                except (launch.Failed, sides.Failed) as e:
                    last = e.args[1].last() if len(e.args) > 1 else ""
                    self.failed_turns.append({"turn": turn, "side": side, "why": e.args[0], "last": last})
            if len(found) == len(sides.SIDES):
                pairs.append(found)
            self.give_up(turn, alone)
        if len(pairs) < max(self.o.turns / 2, verdict.PAIRS_LEAST):
            raise Failed("%d of %d turns failed, which are too many; the first one %s" % (self.o.turns - len(pairs), self.o.turns, self.first_failure()))
        if self.failed_turns:
            self.note("%d of %d turns failed and are left out; the first one %s" % (self.o.turns - len(pairs), self.o.turns, self.first_failure()))
        return pairs

    def first_failure(self, side=None):
        first = next(f for f in self.failed_turns if side in (None, f["side"]))
        return "%s Tributary: %s%s" % (first["side"], first["why"].replace("%s Tributary: " % first["side"], ""), "\n" + first["last"] if first["last"] else "")

    def give_up(self, turn, alone):
        """A side that never ran twice in a row will not run."""
        if turn != 1 or len(alone) == len(sides.SIDES):
            return
        missing = [side for side in sides.SIDES if side not in alone]
        if len(missing) == 2:
            raise Failed("no turn ended well; the first one %s" % self.first_failure())
        if missing == ["without"]:
            self.only_with(alone["with"])
        raise Failed("no ratio, as no turn ended well %s" % self.first_failure(missing[0]))

    def only_with(self, value):
        if self.worker == "nccl-tests":
            for op, (rows, ranks) in value.items():
                for size, cells in sorted(rows.items()):
                    self.show(case_of(op, ranks, size, [(cells, None)]))

    def once_nccl_tests(self, side):
        found, logs = {}, ""
        for op in self.o.operations:
            binary = nccltests.find(self.o.nccl_tests, op)
            if not binary:
                continue
            changed = sides.changes(os.environ, side, self.variables)
            sizes = self.o.sizes or sizes_of(1 << 10, 64 << 20)
            words = [binary, "-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(FACTOR), "-c", "1", "-g", "1" if self.o.launcher else str(self.gpus())]
            output, failure = self.output_of(launched(self.o.launcher, sides.words_of(changed) + words))
            logs += output.log() + "\n"
            if not output.text().strip() and self.o.launcher and not failure:
                continue   # rank 0 is on another host
            try:
                found[op] = nccltests.parse("\n".join(line for line in output.lines if " NCCL INFO " not in line))
            except nccltests.Unreadable as e:
                raise failure or launch.Failed("%s: %s" % (nccltests.PROGRAMS[op], e), output) from e
            if failure and not any(cells[4] for cells in found[op][0].values()):
                raise failure
        self.networks[side] = sides.check(side, logs)
        return found

    def output_of(self, words):
        """An Output, and what failed: after wrong results nccl-tests end with a status, too."""
        try:
            return launch.run(words, os.environ, self.o.timeout), None
        except launch.Failed as e:
            return e.args[1], e

    def gpus(self):
        if self.o.ranks:
            return self.o.ranks
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible:
            return visible.count(",") + 1
        try:
            return max(1, launch.run(["nvidia-smi", "-L"], os.environ, 60).text().count("GPU "))
        except launch.Failed:
            return 1

    def nccl_tests(self):
        missing = [nccltests.PROGRAMS[op] for op in self.o.operations if not nccltests.find(self.o.nccl_tests, op)]
        if missing:
            self.note("left out, as it is missing: %s" % ", ".join(missing))
        pairs = self.turns(self.once_nccl_tests)
        for op in self.o.operations:
            both = [(p["with"][op], p["without"][op]) for p in pairs if op in p["with"] and op in p["without"]]
            shared = set.intersection(*({size for size in a[0] if size in b[0]} for a, b in both)) if both else ()
            for size in sorted(shared):
                self.show(case_of(op, both[0][0][1], size, [(a[0][size], b[0][size]) for a, b in both]))
        if not self.cases:
            raise Elsewhere()

    # ---------------------------------------------------------------------------------------------------- a job of one's own

    def once_job(self, side):
        with tempfile.TemporaryDirectory() as folder:
            changed = sides.changes(os.environ, side, self.variables, os.path.join(folder, "nccl.%h.%p"))
            begin = time.monotonic()
            output = launch.run(self.o.launcher, sides.environment_of(os.environ, changed), self.o.timeout)
            seconds = time.monotonic() - begin
            logs = [open(os.path.join(folder, name), encoding="utf-8", errors="replace").read() for name in os.listdir(folder)]
        if not any(logs):
            raise sides.Failed("%s Tributary: no rank on this host wrote NCCL's log; if all are on others, set TMPDIR to a folder that they share" % side)
        self.networks[side] = sides.check(side, "\n".join(logs))
        if not self.o.metric:
            return seconds
        values = [self.number(m.group(1)) for m in re.finditer(self.o.metric, output.text() + "\n" + output.log())]
        return statistics.median(values) if values else None

    def number(self, word):
        """What the metric's group found; 12,345.6, too."""
        try:
            value = float((word or "").replace(",", ""))
        except ValueError as e:
            raise Failed("--metric '%s' found '%s', which is no number" % (self.o.metric, word)) from e
        if not 0 < value < math.inf:
            raise Failed("--metric '%s' found %s: only numbers above 0 can be compared" % (self.o.metric, word))
        return value

    def job(self):
        pairs = [p for p in self.turns(self.once_job) if None not in p.values()]
        if not pairs:
            raise Failed("the job printed nothing on this host that matches --metric '%s'" % self.o.metric)
        of = "--metric" if self.o.metric else "wall time (s)"
        for i, p in enumerate(pairs):
            self.print("%3d  %s: with %.6g, without %.6g" % (i, of, p["with"], p["without"]))
        if self.o.higher:
            pairs = [{"with": 1 / p["with"], "without": 1 / p["without"]} for p in pairs]
        self.cases = [{"operation": "job", "ranks": 0, "size": 0, "count": 0, "type": "", "with_wrong": 0, "without_wrong": 0,
                       **{"%s_s" % side: [p[side] for p in pairs] for side in sides.SIDES}}]

    def job_sentence(self):
        low, median, high = ratio = verdict.ratio_of(self.cases[0])
        kind = verdict.kind_of(ratio, self.margin)
        said, hidden = "%.3f times as fast [%.3f, %.3f]" % (median, low, high), max(self.margin, 1 - low, high - 1)
        if not kind:
            said = "no difference beyond %s" % verdict.percent(hidden) if hidden <= verdict.UNCERTAIN else "too uncertain to tell, " + said
        return "your job: %s" % ("slower, " + said if kind < 0 else said), kind < 0

    # ------------------------------------------------------------------------------------------------------------- results

    def run(self):
        {"nccl-tests": self.nccl_tests, "torch": self.together, "plugins": self.together, "job": self.job}[self.worker]()
        for side in sides.SIDES:
            if self.networks.get(side):
                self.note("%s: %s" % (side, self.networks[side]))
        said, is_slower = self.job_sentence() if self.worker == "job" else verdict.sentence(self.cases, self.margin)
        return "%s; %s" % (said, self.busy) if self.busy else said, is_slower

    def as_json(self, sentence, with_values=False):
        return {"format": "tributary-bench 1", "sentence": sentence, "worker": self.worker, "launcher": self.o.launcher, "margin": self.margin,
                "networks": {side: self.networks.get(side) for side in sides.SIDES}, "notes": self.notes,
                "cases": [table.as_json(case, with_values) for case in self.cases],
                "left_out": [{"operation": c["operation"], "size_bytes": c["size"]} for c in self.left_out],
                "failed_turns": [{"turn": f["turn"], "side": f["side"], "why": f["why"]} for f in self.failed_turns]}

    def report(self, sentence):
        """One file to send in: all values, versions, what this machine is, and its settings. No secrets."""
        settings = {name: "(left out)" if SECRET.search(name) else value for name, value in sorted(os.environ.items())
                    if name.startswith(("NCCL_", "TRIBUTARY_"))}
        facts = {words: asked(self.o.program, *words.split()) for words in ("version", "devices", "doctor", "status", "env", "discover")}
        return {**self.as_json(sentence, True), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "python": sys.version.split()[0],
                "kernel": "%s %s" % (os.uname().sysname, os.uname().release), "cpus": os.cpu_count(), "load": os.getloadavg(), "environment": settings,
                "facts": facts}


def case_of(op, ranks, size, pairs):
    """From nccl-tests' cells of each pair; None on the side that did not run."""
    first = pairs[0][0]
    found = {"operation": op, "ranks": ranks, "size": size, "count": first[0], "type": first[1]}
    for i, side in enumerate(sides.SIDES):
        cells = [p[i] for p in pairs if p[i]]
        found["%s_s" % side], found["%s_wrong" % side] = [c[3] for c in cells], sum(c[4] for c in cells)
    return found


def write(path, value):
    try:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(value, f, indent=1)
            f.write("\n")
    except OSError as e:
        raise Failed("%s cannot be written: %s" % (path, e.strerror)) from e


def write_page(o, value):
    """The page that src/command/bench.c made, with the JSON in it."""
    with open(o.page, encoding="utf-8") as f:
        page = f.read()
    empty, text = '{"format":"%s"}' % value["format"], json.dumps(value).replace("<", "\\u003c")
    try:
        with open(o.html + ".new", "w", encoding="utf-8") as f:
            f.write(page.replace(empty, text, 1))
        os.replace(o.html + ".new", o.html)
    except OSError as e:
        raise Failed("%s cannot be written: %s" % (o.html, e.strerror)) from e


def main(words, name="bench", parse=options_of, kind=Bench):
    try:
        o = parse(words)
    except Usage as e:
        print("tributary %s: %s (see `tributary help %s`)" % (name, e, name), file=sys.stderr)
        return USAGE
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    bench = None
    try:
        bench = kind(o, None if o.json or o.csv else sys.stdout)
        sentence, is_slower = bench.run()
        failure = None
    except Elsewhere:
        print("tributary: rank 0 is on another host, and the figures are there", file=sys.stderr)
        return GOOD
    except (Failed, KeyboardInterrupt) as e:
        failure = "interrupted" if isinstance(e, KeyboardInterrupt) else str(e)
        sentence, is_slower = "no result: %s" % failure.splitlines()[0], False
    try:
        if bench and o.report:
            write(o.report, bench.report(sentence))
        if bench and getattr(o, "html", None) and not failure:
            write_page(o, bench.as_json(sentence))
    except Failed as e:
        failure = failure or str(e)
    if bench and o.json:
        print(json.dumps(bench.as_json(sentence), indent=2))
    elif bench and o.csv:
        print("\n".join([",".join(table.CSV)] + [table.csv_row(case) for case in bench.cases]))
    if failure:
        print("tributary: %s" % failure, file=sys.stderr)
        return FAILED
    if o.json or o.csv:
        print(sentence, file=sys.stderr)
    bench.print(sentence)
    return FAILED if any(c["with_wrong"] or c["without_wrong"] for c in bench.cases) else SLOWER if is_slower else GOOD


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
