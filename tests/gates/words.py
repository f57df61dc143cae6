# SPDX-License-Identifier: Apache-2.0
"""words.py ROOT WORDS: names of the code in ROOT/src.

No identifier below a folder has one of the words that WORDS lists for it, nor that word and an s: another one took its place.
And every function that a header declares (not those that it defines, nor behind an attribute) begins with the name of a folder on its way, of the header, or of a file of its folder; what
PREFIXES lists may be called otherwise.  Exit status 1 when a rule is broken, 2 when there is nothing to check.
"""
import os
import re
import sys

# Types of base/ that are used everywhere, by names of their own.
PREFIXES = {"src/base/log.h": {"diag"}, "src/base/sha256.h": {"hmac"}}

NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
DECLARED = re.compile(r"^(?!static|typedef|extern|#|return|\s)[a-z][^;{}()=]*?\b([a-z]\w*)\(", re.M)


def leading_words(name):
    parts = name.split("_")
    return {"_".join(parts[:n]) for n in range(1, len(parts) + 1)}


def main(root, words):
    banned, bad, files = [], False, 0
    with open(words, encoding="utf-8") as lines:
        for line in lines:
            fields = line.split("#")[0].split()
            if fields:
                banned.append((fields[0] + "/", fields[1], fields[2]))
    for folder, _, names in sorted(os.walk(os.path.join(root, "src"))):
        way = os.path.relpath(folder, root)
        own = set(way.split("/")[1:])
        for name in names:
            own |= leading_words(name.rsplit(".", 1)[0])
        for name in sorted(names):
            if not name.endswith((".c", ".h")):
                continue
            files += 1
            path = os.path.join(way, name)
            with open(os.path.join(root, path), encoding="utf-8") as file:
                code = NOT_CODE.sub(lambda m: "\n" * m[0].count("\n"), file.read())
            rules = {old: new for below, old, new in banned if path.startswith(below)}
            for number, text in enumerate(code.split("\n"), 1):
                for identifier in re.findall(r"[A-Za-z_]\w*", text) if rules else ():
                    parts = set(identifier.lower().split("_"))
                    for old in [old for old in rules if {old, old + "s"} & parts]:
                        print("%s:%d: %s: say %s in place of %s" % (path, number, identifier, rules[old], old))
                        bad = True
            if not name.endswith(".h"):
                continue
            for match in DECLARED.finditer(code):
                function = match[1]
                if not leading_words(function) & (own | PREFIXES.get(path, set())):
                    print("%s:%d: %s does not begin with the name of its folder or file"
                          % (path, code.count("\n", 0, match.start()) + 1, function))
                    bad = True
    if not files or not banned:
        print("check-words: nothing to check")
        return 2
    return 1 if bad else 0


sys.exit(main(sys.argv[1], sys.argv[2]))
