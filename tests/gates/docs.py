# SPDX-License-Identifier: Apache-2.0
"""docs.py ROOT: the documents say what the code says.

- Every warning of src/ is in docs/guide/troubleshooting.md, so that whoever sees it in a log finds its remedy: the longest
  piece of its text between two conversions stands there literally.
- Every TRIBUTARY_* variable that README.md or docs/ names is a parameter (src/base/params.c) or one of the tests' own.
- The results in perf/results name no path of the machine that they were taken on: the command in them is for everyone.
- Every relative link of a document leads to a file, and to a heading in it if it names one; every result that one names is there.
- Every page of docs/ that src/ names is there.
- A tag to clone and the line in the log have the version of the Makefile.
- perf/RESULTS.md is what perf/results.py writes from the texts.
- No figure that was measured stands in a sentence of README.md: those are in tables.
- README.md is short enough for somebody who has ten minutes, and docs/ for somebody who has a day.
"""

import pathlib
import re
import subprocess
import sys

# Calls whose text reaches the user as a warning: log_warn itself, log_write at its level, where parameters complain, and
# the reasons that end up in a warning about a failed connection.
WARNERS = re.compile(
    r"\b(?:log_warn\s*\(|log_write\s*\(\s*LOG_LEVEL_WARN\b|say\s*\(\s*to\s*,|tcp_connection_fail\s*\(|snprintf\s*\(\s*reason\s*,)"
)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
CONVERSION = re.compile(r"%(?:%|[-+ #0']*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|j|z|t|L)?[a-zA-Z])")
VARIABLE = re.compile(r"\bTRIBUTARY_[A-Z][A-Z_]*\b")
OWN = ("TRIBUTARY_TEST_", "TRIBUTARY_PLUGIN")
PLACE = re.compile(r"(?<![\w./-])/(?:tmp|home|root|opt|work|mnt|srv|usr/local|var/tmp)/[\w.-]+")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
RESULT = re.compile(r"\bperf/results/([\w-]+(?:\.[\w-]+)*)")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")
RELEASE = re.compile(r"(?:--branch v|Tributary )(\d+\.\d+\.\d+)(?=[ :])")
MEASURED = re.compile(r"\d\.\d+ ?(?:×|of\b)|\d ?%|\d+(?:\.\d+)? times\b|\d ?[GM]B/s")
README_LINES, README_WORDS, DOCS_WORDS = 160, 1450, 33000
GENERATOR = pathlib.Path(__file__).resolve().parents[2] / "perf" / "results.py"


def call_text(source, start):
    """The text of one call from its opening parenthesis to the matching one, strings respected."""
    depth = 0
    at = source.index("(", start)
    first = at
    while at < len(source):
        if source[at] == '"':
            at = LITERAL.match(source, at).end()
            continue
        depth += {"(": 1, ")": -1}.get(source[at], 0)
        at += 1
        if depth == 0:
            return source[first:at]
    return source[first:]


def format_of(call):
    """The first string of the call, adjacent literals joined; conversions and PRI macros become a NUL."""
    match = LITERAL.search(call)
    if not match:
        return ""
    text = ""
    at = match.start()
    while True:
        match = LITERAL.match(call, at)
        if match:
            text += match.group(1)
            at = match.end()
            continue
        gap = re.compile(r"\s+|PRI[a-zA-Z0-9]+\s*").match(call, at)
        if not gap:
            break
        if "PRI" in gap.group(0):
            text += "d"
        at = gap.end()
    return CONVERSION.sub("\0", text).replace('\\"', '"').replace("\\n", " ")


def plain(text):
    return re.sub(r"\s+", " ", text.replace("`", "")).strip()


def missing_warnings(root, known):
    for path in sorted((root / "src").rglob("*.[ch]")):
        source = path.read_text()
        for match in WARNERS.finditer(source):
            line_start = source.rfind("\n", 0, match.start()) + 1
            if source[line_start : match.start()].lstrip().startswith(("#define", "*", "/*", "//", "static")):
                continue
            pieces = [plain(p) for p in format_of(call_text(source, match.start())).split("\0")]
            piece = max(pieces, key=len, default="").strip(" :;,.()=")
            line = source.count("\n", 0, match.start()) + 1
            if len(piece) >= 6 and piece not in known:
                yield f"{path.relative_to(root)}:{line}: docs/guide/troubleshooting.md does not have the warning \"{piece}\""


def missing_pages(root):
    for path in sorted((root / "src").rglob("*.[ch]")):
        for page in sorted(set(PAGE.findall(path.read_text()))):
            if not (root / page).exists():
                yield f"{path.relative_to(root)}: {page} is not there"


def documents_of(root):
    found = [root / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "perf/RESULTS.md")]
    for pattern in ("docs/**/*", "*/README.md", "tests/*/README.md"):
        found += sorted(root.glob(pattern))
    return [d for d in found if d.is_file() and d.suffix != ".svg"]


def headings(text):
    """What GitHub calls the headings of a page in links."""
    plain_text = re.sub(r"^    .*$|^```[\s\S]*?^```", "", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", plain_text, re.M)}


def wrong_links(document, text):
    for target, heading in LINK.findall(text):
        page = document.parent / target if target else document
        if "://" in target:
            continue
        if not page.exists():
            yield f"the link {target} leads nowhere"
        elif heading and page.suffix == ".md" and heading not in headings(page.read_text()):
            yield f"{page.name} has no heading #{heading}"


def wrong_results(root):
    """What is wrong with perf/results and what is generated from it."""
    folder = root / "perf" / "results"
    for result in sorted(folder.glob("*")):
        for match in PLACE.finditer(result.read_text(errors="replace")):
            yield f"{result.relative_to(root)}: {match.group(0)} is a place on one machine"
    if folder.is_dir():
        done = subprocess.run([sys.executable, GENERATOR, "--root", root, "--check"], stdout=subprocess.PIPE, text=True, check=False)
        yield from done.stdout.splitlines() or ([f"{GENERATOR.name}: exit status {done.returncode}"] if done.returncode else [])


def main():
    root = pathlib.Path(sys.argv[1])
    troubleshooting = root / "docs" / "guide" / "troubleshooting.md"
    parameters = root / "src" / "base" / "params.c"
    complaints = []
    if not troubleshooting.is_file() or not parameters.is_file():
        print("check-docs: docs/guide/troubleshooting.md or src/base/params.c is missing")
        return 2
    version = re.search(r"^VERSION := (\S+)$", (root / "Makefile").read_text(), re.M)
    complaints.extend(missing_warnings(root, plain(troubleshooting.read_text())))
    complaints.extend(missing_pages(root))
    names = set(VARIABLE.findall(parameters.read_text()))
    for document in documents_of(root):
        text = document.read_text()
        # The example of a misspelt name is meant.
        for name in sorted(set(VARIABLE.findall(re.sub(r"TRIBUTARY_[A-Z_]+ is not a variable", "", text)))):
            if name not in names and not name.startswith(OWN):
                complaints.append(f"{document.relative_to(root)}: {name} is not a parameter")
        complaints.extend(f"{document.relative_to(root)}: {c}" for c in wrong_links(document, text))
        if document.name != "CHANGELOG.md" and not document.is_relative_to(root / "perf"):
            complaints.extend(f"{document.relative_to(root)}: {other} is not the version {version[1]}"
                              for other in RELEASE.findall(text) if other != version[1])
        for name in RESULT.findall(text):
            if not (root / "perf" / "results" / name).exists():
                complaints.append(f"{document.relative_to(root)}: perf/results/{name} is not there")
    complaints.extend(wrong_results(root))
    readme = (root / "README.md").read_text()
    lines, words = readme.count("\n"), len(readme.split())
    if lines > README_LINES or words > README_WORDS:
        complaints.append(f"README.md: {lines} lines, {words} words; at most {README_LINES} and {README_WORDS}")
    for number, line in enumerate(readme.splitlines(), 1):
        if not line.startswith(("|", "    ")) and MEASURED.search(line):
            complaints.append(f"README.md:{number}: a figure belongs into a table: {MEASURED.search(line)[0]}")
    words = sum(len(page.read_text().split()) for page in (root / "docs").glob("**/*.md"))
    if words > DOCS_WORDS:
        complaints.append(f"docs: {words} words; at most {DOCS_WORDS}")
    for complaint in complaints:
        print(f"check-docs: {complaint}")
    return 1 if complaints else 0


sys.exit(main())
