# SPDX-License-Identifier: Apache-2.0
"""example.py TRIBUTARY PAGE: each "$ tributary ..." of a page prints the lines below it, in this order, among others.

The page is one of docs/guide; what a call writes goes to a folder of its own. Runs of blanks count as one.
"""
import pathlib
import subprocess
import sys
import tempfile


def main(program, page):
    source, missing, rest = pathlib.Path(page).resolve().parents[2], [], None
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "topo").symlink_to(source / "topo")
        for line in pathlib.Path(page).read_text(encoding="utf-8").splitlines():
            if line.startswith("    $ tributary "):
                call = [str(pathlib.Path(program).resolve())] + line.split()[2:]
                done = subprocess.run(call, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
                rest = iter([" ".join(text.split()) for text in done.stdout.splitlines()])
            elif line.startswith("    ") and rest is not None and " ".join(line.split()) not in rest:
                missing.append(line.strip())
            elif not line.startswith("    "):
                rest = None
    return "\n".join("%s: not printed: %s" % (page, text) for text in missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]) or 0)
