#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf/results.py [--root DIR] [--check]: writes perf/RESULTS.md from perf/results/*.txt and perf/targets.tsv.

No figure of RESULTS.md is typed by hand: each is found in a recorded text. A text begins with its title and lines
`key: value`, of which `date`, `commit`, `command` and `cpu` are shown; a command may have a note behind it in parentheses.
perf/targets.tsv says what is found in which text and what is wanted; its first lines explain the columns.
perf/results/long-checks.txt is what `make check-long` keeps, and the parts `ci` (.ci/run) and `check` (make check).
--check writes nothing: it prints what is wrong, or that RESULTS.md is not what would be written. Exit status 1 then.
"""
import argparse
import pathlib
import re
import sys

# What perf/run says of each of its targets.
OWN = re.compile(r"^(?:ok|FAIL) +(?P<what>\S.*?) +(?P<value>\S+)  worse end +(?P<worse>\S+)  bar (?P<op>[<>]=) (?P<limit>\S+)$", re.M)
TARGET = re.compile(r"(?P<op>[<>]=) (?P<limit>[\d.]+)(?P<unit> .*)?")
LONG = "long-checks.txt"
# The parts of long-checks.txt that have a limit, in seconds on two cores: .ci/run and make check.
LIMITS_S = {"ci": 2400, "check": 360}
NAME = re.compile(r"(?!\d{4}-)[a-z0-9-]+\.txt")
HEAD = """# Results

Written by `make results` from the texts in [results/](results), by [targets.tsv](targets.tsv): do not edit.  Each text has the
commands and all figures; git has the earlier ones.  A target is judged on the worse end of the 95 % interval
where there is one.  **Nothing here was measured on several GPUs, a real RDMA adapter or a real switch**: hosts are network
namespaces or virtual machines on two cores, GPUs are simulated; for `real-gpu` several ranks shared
one real GPU.

`-dirty` behind a commit: the tree had changes that were not in it yet.  Rows of builds from before version 3 of the TCP
protocol (80ea7e6, 25 November 2026) are to be measured again.
"""
TABLE = "\n| row | what | target | value | met | date | commit | command | processor |\n|---|---|---|---|---|---|---|---|---|\n"


class Wrong(Exception):
    pass


def read_text(path):
    """(keys, text): the `key: value` lines between the title and the first command or figure."""
    text = path.read_text(encoding="utf-8")
    keys = dict(re.findall(r"^([a-z_]+): (.*)$", "\n".join(text.splitlines()[1:20]), re.M))
    for key in ("date", "command", "cpu"):
        if not keys.get(key):
            raise Wrong("%s has no line '%s: …' below its title" % (path.name, key))
    return keys, text


def holds(value, op, limit):
    return value <= limit if op == "<=" else value >= limit


def own_targets(text):
    """(what, target, value, met) of each target that perf/run judged."""
    for m in OWN.finditer(text):
        value = m["value"] if m["value"] == m["worse"] else "%s (worse end %s)" % (m["value"], m["worse"])
        yield m["what"], "%s %s" % (m["op"], m["limit"]), value, holds(float(m["worse"]), m["op"], float(m["limit"]))


def found(text, where, what, target, pattern):
    """(what, target, value, met) of one pattern: of several places where it is found, the worst."""
    places = list(re.finditer(pattern, text, re.M))
    if not places:
        raise Wrong("%s: '%s' is not found" % (where, pattern))
    groups = [p.groups() for p in places]
    if target == "all":
        good, wanted = min(groups, key=lambda g: int(g[0]) / int(g[1]))
        return what, target, "%s of %s" % (good, wanted), good == wanted
    m = TARGET.fullmatch(target)
    if not m:
        raise Wrong("%s: the target '%s' is neither '<= N', '>= N' nor 'all'" % (where, target))
    values = sorted((g[0] for g in groups), key=lambda v: float(v.replace(",", "")))
    worst = values[-1] if m["op"] == "<=" else values[0]
    return what, target, worst + (m["unit"] or ""), holds(float(worst.replace(",", "")), m["op"], float(m["limit"]))


def cell(text):
    return text.replace("|", "\\|")


def command_cell(command):
    """What can be run stands as code; a note in parentheses does not, nor what is no command."""
    command, bracket, note = command.partition(" (")
    if command != "by hand" and "not in this" not in command:
        command = "`%s`" % command
    return command + bracket + note


def met_cell(met):
    return "" if met is None else "yes" if met else "**no**"


def line(row, keys, what, target, value, met):
    cells = ("[%s](results/%s.txt)" % (row, row), what, target, value, met_cell(met), keys["date"], keys.get("commit", "not recorded"),
             command_cell(keys["command"]), keys["cpu"])
    return "| " + " | ".join(cell(c) for c in cells) + " |\n"


def lines_of(folder, fields, number):
    """The table lines of one line of targets.tsv."""
    where, row = "perf/targets.tsv:%d" % number, fields[0]
    if not (folder / (row + ".txt")).is_file():
        raise Wrong("%s: perf/results/%s.txt is not there" % (where, row))
    keys, text = read_text(folder / (row + ".txt"))
    if len(fields) == 4:
        return [line(row, keys, *found(text, where, *fields[1:]))]
    if len(fields) == 2:
        return [line(row, keys, fields[1], "for the record", "see the text", None)]
    own = list(dict.fromkeys(line(row, keys, *t) for t in own_targets(text)))  # "wrong messages: 0" of three runs: once
    if len(fields) != 1 or not own:
        raise Wrong("%s: 1, 2 or 4 fields, and 1 only where perf/run judged targets" % where)
    return own


def long_table(path):
    """(table, met of each part with a limit) of the recorded checks: part, date, commit, result, seconds."""
    rows = [r.split("\t") for r in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    if any(len(r) != 5 for r in rows):
        raise Wrong("perf/results/long-checks.txt: a line has not five fields")
    table, judged = "", []
    for part, date, commit, result, seconds in rows:
        limit_s, met = LIMITS_S.get(part), None
        if limit_s:
            met = float(seconds) <= limit_s and not re.search(r"\b[1-9]\d* failed|no result", result)
            judged.append(met)
        cells = (part, result, date, commit, seconds, "<= %d" % limit_s if limit_s else "", met_cell(met))
        table += "| " + " | ".join(cell(c) for c in cells) + " |\n"
    head = ("\n## Checks\n\n`ci` is `.ci/run`, `check` is `make check`; [what each part of `make check-long` is](../tests/README.md).\n\n"
            "| part | result | date | commit | seconds | target | met |\n|---|---|---|---|---|---|---|\n")
    return (head + table if rows else ""), judged


def generate(root):
    perf, named, tables, met = root / "perf", {LONG}, [], []
    for number, text in enumerate((perf / "targets.tsv").read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("## "):
            tables.append("\n" + text + "\n" + TABLE)
        elif text and not text.startswith("#"):
            fields = text.split("\t")
            named.add(fields[0] + ".txt")
            for one in lines_of(perf / "results", fields, number):
                tables.append(one)
                met.append(" | yes | " in one or (None if " | for the record | " in one else False))
    for path in sorted((perf / "results").iterdir()):
        if not NAME.fullmatch(path.name):
            raise Wrong("perf/results/%s: texts alone, NAME.txt, without a date in the name" % path.name)
        if path.name not in named:
            raise Wrong("perf/results/%s is in no line of perf/targets.tsv" % path.name)
    checks, judged = long_table(perf / "results" / LONG)
    met += judged
    count = "\n%d of %d targets are met.\n" % (met.count(True), len(met) - met.count(None))
    return HEAD + count + "".join(tables) + checks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    path = options.root / "perf" / "RESULTS.md"
    try:
        text = generate(options.root)
    except (Wrong, OSError) as e:
        print("results: %s" % e)
        return 1
    if not options.check:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        print("results: perf/RESULTS.md is not what the texts say: make results")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
