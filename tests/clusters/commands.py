# SPDX-License-Identifier: Apache-2.0
"""The commands that manifests and scripts start, beside the options that the built programs have."""
import functools
import os
import pathlib
import re
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
BUILD = os.path.realpath(os.environ.pop("TRIBUTARY_BUILD", None) or os.path.join(ROOT, "build"))


@functools.lru_cache
def options_of(*words):
    """Name and value of each option; the value is None where it takes none."""
    done = subprocess.run([os.path.join(BUILD, words[0]), *words[1:], "--help"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{' '.join(words)} is no command")
    return dict(re.findall(r"^  --([a-z-]+)(?: (\S+))?$", done.stdout, re.M))


def check(argv):
    """Raises ValueError unless a command of ours has all these options, each with its value; the words after "--" are another's."""
    words = argv[1:argv.index("--") if "--" in argv else None]
    names = [argv[0]]
    if argv[0] == "tributary":
        names += [words.pop(0) for _ in range(2 if words[0] == "cluster" else 1)]
    options = options_of(*names)
    while words:
        name, equals, _ = words.pop(0).partition("=")
        if not name.startswith("--") or name[2:] not in options:
            raise ValueError(f"{' '.join(names)} has no {name}")
        takes = bool(options[name[2:]])
        if takes and not equals:
            if not words or words[0].startswith("--"):
                raise ValueError(f"{name} of {' '.join(names)} takes a value")
            words.pop(0)
        elif equals and not takes:
            raise ValueError(f"{name} of {' '.join(names)} takes no value")


def named_wrongly(page, folder):
    """What a page in docs/guide says of packaging/FOLDER that is not so: paths that are not there, files that have no row in its table."""
    text = pathlib.Path(ROOT, "docs", "guide", page).read_text()
    rows = re.findall(r"^\| `([\w./-]+)` \|", text, re.M)
    yield from (path for path in re.findall(r"\bpackaging/[\w./-]*\w", text) if not pathlib.Path(ROOT, path).exists())
    inside = {p.name + "/" * p.is_dir() for p in pathlib.Path(ROOT, "packaging", folder).iterdir()} - {"kustomization.yaml", "namespace.yaml"}
    yield from inside - set(rows)
    yield from {row for row in rows if "." in row or "/" in row} - inside - {"/dev/shm"}
