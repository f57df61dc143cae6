#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py [--seed N] [--count N]: how many faults that were put into src do the tests find?

The tree of a commit is copied to build/mutation and built there twice: with gcov, to learn which test program runs which
line of src, and as it is shipped.  Lines are then drawn by the seed, each line that gcov knows as likely as another, and one
small fault at a time is put in:

    condition   the condition of an if, a while or ?: is negated, && becomes ||, or || becomes &&
    off by one  < becomes <=, <= becomes <, > and >= likewise; + 1 or - 1 is left out; a decimal constant is one more
    statement   an assignment or a call is left out

The tests that run the line are run until one fails: at most --tests of them, those of the line's own folder and of
tests/conformance first, the fastest first.  A test that fails is run again, and once without the fault, so that one that
cannot run here or fails now and then finds nothing.  The table has a line for each fault; what became of it is one of

    killed, timeout   the test named beside it failed, or took five times as long as usual and 10 seconds more
    survived          no test failed
    not covered       no test runs the line
    same code         the compiler makes the same object of it: not a fault
    does not compile  not counted, another one is drawn

A run that was cut goes on where it stopped.  Each test runs in a PID namespace of its own in which only the copy, /tmp and
/dev/shm can be written, because a fault may well call kill(-1) or remove the wrong folder; this takes root or an
equivalent.  Only one program runs at a time.
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

# Processes that leave by _exit() have counted, too.
EXIT_C = "void __gcov_dump(void); void __real__exit(int); void __wrap__exit(int s) { __gcov_dump(); __real__exit(s); }\n"
SANDBOX = ('mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm && mount --bind "$1" "$1" && '
           'mount -o remount,bind,ro / && ulimit -v 16000000 && cd "$1/tree" || exit 125; sh -c "$2"; exit $?')
UNSHARE = ("unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc")
QUIET = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
LEARN_S = 120  # a test that takes longer is not used
KEYWORDS = {"if", "else", "for", "while", "do", "switch", "case", "default", "return", "goto", "break", "continue", "sizeof"}
HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
CALL = re.compile(r"(?:\(void\)\s*)?([A-Za-z_][\w.\->]*)\s*\(.*\)\s*$", re.S)
ASSIGNMENT = re.compile(r"[*(]*([A-Za-z_]\w*)\)?(?:(?:\.|->)\w+|\[\]|\(\))*\s*(?:(?:[-+*/|&^%]|<<|>>)?=(?!=)|\+\+$|--$)|(?:\+\+|--)()")
REPLACED = (
    ("condition", r"&&|\|\|", lambda old: "||" if old == "&&" else "&&"),
    ("condition", r"\?", lambda old: "== 0 ?"),
    ("off by one", r"(?<=\s)(<=|>=|<|>)(?=\s)", lambda old: old[0] if old.endswith("=") else old + "="),
    ("off by one", r" [+-] 1(?![\w.])", lambda old: ""),
    ("off by one", r"(?<![\w.])\d+(?=[uUlL]*(?![\w.]))", lambda old: str(int(old) + 1)))
DONE = ("killed", "timeout", "survived", "not covered", "same code")
# A fault that can be put in: what stands from start to end becomes text.
Site = collections.namedtuple("Site", "line kind start end text")


# ------------------------------------------------------------------------------------------------------------- faults

def hide(source):
    """The source with comments, strings and preprocessor lines blanked out; every character keeps its place."""
    return HIDDEN.sub(lambda m: re.sub(r"[^\n]", "_" if m[0][0] in "\"'" else " ", m[0]), source)


def end_of(code, start, last):
    """Where the first of the characters last is that stands outside of all brackets."""
    depth = 0
    for i in range(start, len(code)):
        depth -= code[i] in ")]"
        if depth <= 0 and code[i] in last:
            return i
        depth += code[i] in "(["
    return len(code)


def is_droppable(code, start, end):
    """Whether an assignment or a call, and not the middle of something or a declaration, is from start to end."""
    if not re.search(r"([;{}:)]|\belse|\bdo)\s*$", code[:start]):
        return False
    statement = code[start:end]
    while re.search(r"\[[^\[\]]+\]", statement):
        statement = re.sub(r"\[[^\[\]]+\]", "[]", statement)
    return any(m and m[1] not in KEYWORDS for m in (CALL.match(statement), ASSIGNMENT.match(statement)))


def find_sites(source):
    """Every fault that could be put into this source, by line."""
    code, sites = hide(source), collections.defaultdict(list)

    def add(kind, start, end, text):
        sites[code.count("\n", 0, start) + 1].append(Site(code.count("\n", 0, start) + 1, kind, start, end, text))
    for m in re.finditer(r"\b(?:if|while)\s*\(", code):
        end = end_of(code, m.end() - 1, ")") + 1
        add("condition", m.end() - 1, end, "(!%s)" % source[m.end() - 1:end])
    for kind, pattern, change in REPLACED:
        for m in re.finditer(pattern, code):
            add(kind, m.start(), m.end(), change(m[0]))
    for m in re.finditer(r"^[ \t]*(?=[A-Za-z_*(+-])", code, re.M):
        end = end_of(code, m.end(), ";{}")
        if code[end:end + 1] == ";" and is_droppable(code, m.end(), end):
            add("statement", m.end(), end, re.sub(r"[^\n]", "", code[m.end():end]))
    return sites


def draw(lines, sites_of, seed):
    """Endlessly, (file, fault) by the seed; lines is the sorted list of (file, line)."""
    rng, seen = random.Random(seed), set()
    while len(seen) < len(lines):
        file, line = rng.choice(lines)
        sites = sites_of(file).get(line, [])
        if sites and (file, line) not in seen:
            kind = rng.choice(sorted({site.kind for site in sites}))
            yield file, rng.choice([site for site in sites if site.kind == kind])
        seen.add((file, line))


# -------------------------------------------------------------------------------------------------------------- builds

def output(command, folder):
    return subprocess.run(command, cwd=folder, check=True, **{**QUIET, "stdout": subprocess.PIPE}, encoding="utf-8").stdout


class Build:
    """One of the two builds of the copy."""
    def __init__(self, work, name, variables):
        self.work, self.tree, self.out = work, work / "tree", work / name
        self.make = ["make", "-s", "O=%s" % self.out, "AR=ar --thin", *variables]

    def build(self):
        subprocess.run([*self.make, "all", "tests"], cwd=self.tree, check=True, **QUIET)

    def tests(self):
        """{name: command} of the programs of tests/ that make check would run, but for those on a test-bed."""
        listed = output([*self.make, "run-check", r"RUN=printf '%s\n'"], self.tree)
        entries = [line.partition("=")[::2] for line in listed.splitlines() if "%s/tests/" % self.out in line]
        return {name: command for name, command in entries if "testbed" not in command and "/faults/" not in command}

    def commands(self):
        """{what is made: the command that makes it}."""
        found = {}
        for line in output([*self.make, "-n", "-B", "V=1", "all", "tests"], self.tree).splitlines():
            made = re.search(r" -o (\S+)", line) or re.match(r"ar .*?rcs (\S+)", line)
            if made and not line.lstrip().startswith((":", "mkdir")):
                found[made[1]] = line
        return found

    def run(self, command, seconds, **environment):
        """(what failed or None, seconds that it took) of a test's command."""
        begun = time.monotonic()
        try:
            status = subprocess.run([*UNSHARE, "sh", "-c", SANDBOX, "-", str(self.work), command], env={**os.environ, **environment},
                                    timeout=seconds, **QUIET).returncode
        except subprocess.TimeoutExpired:
            return "timeout", seconds
        if status == 125:
            sys.exit("mutate: no namespace in which a test could run")
        return (None if status in (0, 77) else "killed"), time.monotonic() - begun


# ------------------------------------------------------------------------------------------------------------ coverage

def gcov(files, folder):
    """{file of src: {line: count}} from .gcda or .gcno files."""
    counts = collections.defaultdict(collections.Counter)
    for i in range(0, len(files), 100):
        for one in filter(None, output(["gcov", "--json-format", "--stdout", *map(str, files[i:i + 100])], folder).splitlines()):
            for file in json.loads(one)["files"]:
                if file["file"].startswith("src/") and file["file"].endswith(".c"):
                    for line in file["lines"]:
                        counts[file["file"]][line["line_number"]] += line["count"]
    return counts


def learn(build, name, command):
    """What a test runs and how long it takes, from build/mutation/map if it is known there."""
    known = build.work / "map" / (re.sub(r"\W", "_", name) + ".json")
    if known.is_file():
        return json.loads(known.read_text())
    prefix, objects = build.work / "gcda", build.out / "obj"
    shutil.rmtree(prefix, ignore_errors=True)
    failed, seconds = build.run(command, LEARN_S, GCOV_PREFIX=str(prefix))
    # A program that was started without our environment leaves its counts beside the objects.
    left = [*prefix.rglob("*.gcda"), *objects.rglob("*.gcda")]
    taken = [f for f in left if "/obj/src/" in str(f)]
    for file in taken:
        if prefix in file.parents:
            file.with_suffix(".gcno").symlink_to(pathlib.Path("/", file.relative_to(prefix)).with_suffix(".gcno"))
    lines = {f: sorted(n for n, c in counts.items() if c) for f, counts in gcov(taken, build.tree).items()}
    for file in left:
        file.unlink()
    known.parent.mkdir(exist_ok=True)
    known.write_text(json.dumps({"name": name, "seconds": round(seconds, 2), "failed": failed, "lines": lines}))
    return json.loads(known.read_text())


# ----------------------------------------------------------------------------------------------------------- one fault

class Trial:
    """Puts faults into the shipped build, one at a time."""
    def __init__(self, build, learnt, most_tests):
        self.build, self.learnt, self.most_tests = build, learnt, most_tests
        self.commands, self.tests, self.trusted = build.commands(), build.tests(), {}

    def make(self, made):
        return not subprocess.run(self.commands[made], shell=True, cwd=self.build.tree, **QUIET).returncode

    def objects(self, made):
        for word in self.commands[made].split():
            if word.endswith(".o") and word != made:
                yield word
            elif word.endswith(".a") and word != made and word in self.commands:
                yield from self.objects(word)

    def run(self, test):
        """Links anew what the test runs or loads and is older than an object of it, and runs it: what failed, or None."""
        out, command = str(self.build.out), self.tests[test["name"]]
        needed = set(re.findall(r"%s/[^ ']+" % re.escape(out), command)) & self.commands.keys()
        if "TRIBUTARY_BUILD" in command or "/standin/" in command:
            needed |= {made for made in self.commands if re.fullmatch(r"/((tests/standin/)?lib.*\.so.*|tributaryd?)", made[len(out):])}
        for made in sorted(needed):
            begun = os.stat(made).st_mtime_ns if os.path.exists(made) else 0
            if any(os.stat(o).st_mtime_ns > begun for o in self.objects(made)) and not self.make(made):
                sys.exit("mutate: %s cannot be linked" % made)
        return self.build.run(command, 5 * test["seconds"] + 10)[0]

    def choose(self, file, line):
        """The tests that run the line."""
        stem = os.path.splitext(file)[0].replace("src/", "unit/", 1)
        near = ("conformance/", os.path.dirname(stem) + "/")
        able = [t for t in self.learnt if not t["failed"] and self.trusted.get(t["name"], True)]
        tests = sorted((t for t in able if line in t["lines"].get(file, ())),
                       key=lambda t: (not t["name"].startswith(near), t["seconds"]))[:self.most_tests]
        # A process that is killed leaves no counts: the test of that very file always has its say.
        tests += [t for t in able if t["name"] == stem and t not in tests]
        return sorted(tests, key=lambda t: t["seconds"] * (1 if t["name"].startswith(near[1]) else 4))

    def judge(self, tests):
        """(result, the test that found it) of the fault that is in."""
        for test in tests:
            result = self.run(test)
            if result == "timeout" or (result and self.run(test)):
                return result, test
        return ("survived" if tests else "not covered"), None

    def try_once(self, file, site):
        """The same of one fault; the copy is whole again afterwards."""
        path, pending = self.build.tree / file, self.build.work / "pending"
        obj = self.build.out / "obj" / (file[:-2] + ".o")
        source, good = path.read_text(encoding="utf-8"), obj.read_bytes()
        pending.write_text(file)
        path.write_text(source[:site.start] + site.text + source[site.end:], encoding="utf-8")
        try:
            if not self.make(str(obj)):
                return "does not compile", None
            return ("same code", None) if obj.read_bytes() == good else self.judge(self.choose(file, site.line))
        finally:
            path.write_text(source, encoding="utf-8")
            obj.write_bytes(good)
            pending.unlink()

    def result(self, file, site):
        """(result, name of the test): try_once() until the test that failed is one that passes without the fault."""
        while True:
            result, test = self.try_once(file, site)
            if test and test["name"] not in self.trusted:
                self.trusted[test["name"]] = not self.run(test)
            if not test or self.trusted[test["name"]]:
                return result, test["name"] if test else "-"


# ------------------------------------------------------------------------------------------------------------- the run

def prepare(work, commit):
    """The tree of a commit in work/tree, and (commit, the build with gcov, the shipped one)."""
    commit = output(["git", "rev-parse", commit], ".").strip()
    if not (work / "commit").is_file() or (work / "commit").read_text() != commit:
        for old in ("tree", "map"):
            shutil.rmtree(work / old, ignore_errors=True)
        (work / "tree").mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "archive", "-o", str(work / "tree.tar"), commit], check=True)
        subprocess.run(["tar", "xmf", "../tree.tar"], cwd=work / "tree", check=True)
        (work / "commit").write_text(commit)
    pending = work / "pending"
    if pending.is_file():
        file = pending.read_text()
        (work / "tree" / file).write_text(output(["git", "show", "%s:%s" % (commit, file)], "."), encoding="utf-8")
        (work / "mutant" / "obj" / (file[:-2] + ".o")).unlink(missing_ok=True)
        pending.unlink()
    (work / "exit.c").write_text(EXIT_C)
    subprocess.run(["gcc", "-c", "-fPIC", "-O1", "-fvisibility=hidden", "-o", "exit.o", "exit.c"], cwd=work, check=True)
    flags = ["CFLAGS=-g0 -O1 --coverage", "LDFLAGS=--coverage -Wl,--wrap=_exit %s" % (work / "exit.o")]
    return commit, Build(work, "coverage", flags), Build(work, "mutant", ["CFLAGS=-g0"])


def shown(source, site):
    """What stands there and what the fault makes of it, as one line each."""
    begin, end = source.rfind("\n", 0, site.start) + 1, source.find("\n", max(site.end - 1, site.start))
    return (" ".join(text.split()) for text in (source[begin:end], source[begin:site.start] + site.text + source[site.end:end]))


def summary(results):
    count = collections.Counter(results)
    killed, alive = count["killed"] + count["timeout"], count["survived"] + count["not covered"]
    counts = ", ".join("%d %s" % (count[result], result) for result in DONE)
    return "%s; %d of %d found (%.1f %%)" % (counts, killed, killed + alive, 100 * killed / max(1, killed + alive))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/mutation"), help="where all is built")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--tests", type=int, default=25)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the fault is taken out again
    commit, covered, shipped = prepare(options.work.resolve(), options.commit)
    covered.build()
    notes = gcov(sorted((covered.out / "obj" / "src").rglob("*.gcno")), covered.tree)
    lines = sorted((file, line) for file in notes for line in notes[file])
    learnt = [learn(covered, name, command) for name, command in covered.tests().items()]
    for test in learnt:
        test["lines"] = {file: set(numbers) for file, numbers in test["lines"].items()}
    shipped.build()
    trial, table = Trial(shipped, learnt, options.tests), shipped.work / ("%s-seed%d.tsv" % (commit[:7], options.seed))
    rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()] if table.is_file() else []
    @functools.lru_cache(maxsize=None)
    def sites_of(file):
        return find_sites((shipped.tree / file).read_text(encoding="utf-8"))
    for number, (file, site) in enumerate(draw(lines, sites_of, options.seed)):
        if sum(row[5] in DONE for row in rows) >= options.count:
            break
        if number < len(rows):
            continue
        begun = time.monotonic()
        result = trial.result(file, site)
        rows.append([str(number), "%s:%d" % (file, site.line), site.kind, *shown((shipped.tree / file).read_text(encoding="utf-8"), site), *result,
                     "%.1f" % (time.monotonic() - begun)])
        with table.open("a", encoding="utf-8") as out:
            out.write("\t".join(rows[-1]) + "\n")
        if result[0] in DONE:
            print("%-12s %s  %s: %s" % (result[0], rows[-1][1], site.kind, rows[-1][4]), flush=True)
    print("%s, seed %d, %s" % (commit[:7], options.seed, summary(row[5] for row in rows)))


if __name__ == "__main__":
    main()
