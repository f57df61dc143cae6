# SPDX-License-Identifier: Apache-2.0
"""circles.py LIST OBJECT...: no circle between source files.

A file uses another when its object needs a symbol that the other's defines; a pointer in a table counts as a call does.
Files that use each other, directly or through others, can only be read, tested and changed together.  LIST has the circles
that are meant, one a line: "FOLDER: NAME...", a name being a file's below the folder, without .c; * stands for any text.
Exit status 1 when a circle is not listed or a line has no circle, 2 when there is nothing to check.
"""
import fnmatch
import subprocess
import sys


def used_symbols(objects):
    """Of each object: {object that it uses: a symbol by which it does}."""
    listed = subprocess.run(["nm", "-A", "-P", "-g", *objects], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    symbols = [line.replace(": ", " ", 1).split()[:3] for line in listed.splitlines()]
    defined_in = {name: file for file, name, kind in symbols if kind not in "Uvw"}
    uses = {file: {} for file in objects}
    for file, name, kind in symbols:
        if kind in "Uvw" and defined_in.get(name, file) != file:
            uses[file][defined_in[name]] = name
    return uses


def reached(uses, start):
    found, todo = set(), [start]
    while todo:
        new = uses[todo.pop()].keys() - found
        found |= new
        todo += new
    return found


def source(file):
    return file.rpartition("obj/")[2][:-2]


def main(path, objects):
    with open(path, encoding="utf-8") as lines:
        entries = [line.split("#")[0].strip() for line in lines]
    unseen = {entry for entry in entries if entry}
    allowed = {entry: [folder.strip() + "/" + name for name in names.split()]
               for entry in unseen for folder, _, names in [entry.partition(":")]}
    if not objects:
        print("check-circles: nothing to check")
        return 2
    uses = used_symbols(objects)
    below = {file: reached(uses, file) for file in objects}
    bad, done = False, set()
    for file in sorted(objects):
        circle = {other for other in below[file] if file in below[other]}
        if not circle or file in done:
            continue
        done |= circle
        names = [source(other) for other in sorted(circle)]
        entry = [entry for entry, may in allowed.items()
                 if all(any(fnmatch.fnmatchcase(name, one) for one in may) for name in names)]
        unseen -= set(entry)
        if not entry:
            bad = True
            print("a circle that is not in %s: %s" % (path, " ".join(names)))
            for one in sorted(circle):
                for other in sorted(circle & uses[one].keys()):
                    print("    %s.c uses %s of %s.c" % (source(one), uses[one][other], source(other)))
    for entry in sorted(unseen):
        print("%s: no circle is left of \"%s\": take the line out" % (path, entry))
    return 1 if bad or unseen else 0


sys.exit(main(sys.argv[1], sys.argv[2:]))
