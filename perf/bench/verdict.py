# SPDX-License-Identifier: Apache-2.0
"""From pairs of timings to one sentence. Pure.

A case is one operation at one size, with the times of each side, pair by pair. The ratio of a pair is how many times as fast
the side with Tributary was; that of a case is their median, with the interval of order statistics that holds the true median
in 95 % of all samples or more, whatever the distribution (a bootstrap of so few pairs promises more than it keeps). A case
is faster or slower where the interval leaves out 1 and the median is more than the margin away from it.
"""
import math
import statistics

MARGIN = 0.05
MARGIN_EMULATED = 0.1   # hosts that share the cores of one machine: less than that may be the cores
UNCERTAIN = 0.25   # a case that could hide more than that says nothing
PAIRS_LEAST = 6   # with five, all five on one side of 1 are still chance in more than 5 % of all samples
NAMES = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "all_to_all": "AlltoAll",
         "sendrecv": "sendrecv", "broadcast": "Broadcast", "reduce": "Reduce"}


def interval(values):
    """(low, median, high)."""
    values, below, rank = sorted(values), 0, 0
    while below + math.comb(len(values), rank) <= 0.025 * 2 ** len(values):
        below += math.comb(len(values), rank)
        rank += 1
    rank = max(rank, 1)
    return values[rank - 1], statistics.median(values), values[-rank]


def ratio_of(case):
    """(low, median, high), or None without pairs."""
    pairs = list(zip(case["with_s"], case["without_s"]))
    return interval([without / with_ for with_, without in pairs]) if pairs else None


def size_text(size):
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 0.9995 * (1 << power):
            return "%.3g %s" % (size / (1 << power), unit)
    return "%d B" % size


def kind_of(ratio, margin):
    low, median, high = ratio
    if low > 1 and median > 1 + margin:
        return 1
    return -1 if high < 1 and median < 1 - margin else 0


def runs(ratios, kind, margin):
    """(first, last) of each run of cases of that kind; one that is not sure, but on the same side, does not end a run."""
    kinds = [kind_of(r, margin) for r in ratios]
    bridged = [k or (kind if i and i + 1 < len(kinds) and kinds[i - 1] == kinds[i + 1] == kind and (ratios[i][1] - 1) * kind > margin else 0)
               for i, k in enumerate(kinds)]
    return stretches([k == kind for k in bridged])


def stretches(flags):
    """(first, last) of each run of true ones."""
    found = []
    for i, flag in enumerate(flags):
        if flag and found and found[-1][1] == i - 1:
            found[-1] = (found[-1][0], i)
        elif flag:
            found.append((i, i))
    return found


def range_text(sizes, first, last):
    if (first, last) == (0, len(sizes) - 1) and first < last:
        return ""
    if first == last:
        return "of %s" % size_text(sizes[first])
    if last == len(sizes) - 1:
        return "of %s and more" % size_text(sizes[first])
    if first == 0:
        return "up to %s" % size_text(sizes[last])
    return "of %s to %s" % (size_text(sizes[first]), size_text(sizes[last]))


def number(value):
    return "%.2f" % value if value < 9.95 else "%.0f" % value


def span(values):
    low, high = min(values), max(values)
    if number(low) == number(high):
        return number(low)
    return number(statistics.geometric_mean(values)) if high / low < 1.05 else "%s to %s" % (number(low), number(high))


def joined(words):
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def parts(by_operation, runs_of):
    """"AllGather and ReduceScatter of 1 MiB: 0.92": operations that have the same ranges are said together."""
    groups = {}
    for operation, cases in by_operation.items():
        found = runs_of([ratio for _, ratio in cases])
        text = joined([range_text([size for size, _ in cases], *run) for run in found]) if found else ""
        if found:
            group = groups.setdefault(text, ([], []))
            group[0].append(NAMES.get(operation, operation))
            group[1].extend(cases[i][1][1] for first, last in found for i in range(first, last + 1))
    return [((joined(names) + " " + text).rstrip(), span(ratios)) for text, (names, ratios) in groups.items()]


def undecided(by_operation, hidden, margin):
    """
    Of the cases without a difference: the most that they could hide, " (the least certain: AllGather of 64 KiB)" where that is more than
    the margin, and the names of those that are too uncertain to count there. None in place of the most: these are all there are.
    """
    def is_uncertain(ratio):
        return not kind_of(ratio, margin) and hidden(ratio) > UNCERTAIN
    uncertain = [names for names, _ in parts(by_operation, lambda ratios: stretches([is_uncertain(r) for r in ratios]))]
    rest = [(hidden(ratio), operation, size) for operation, cases in by_operation.items() for size, ratio in cases
            if not kind_of(ratio, margin) and not is_uncertain(ratio)]
    if uncertain and not rest:
        return None, "", uncertain
    most, operation, size = max(rest, default=(0, None, 0))
    if most <= margin:
        return margin, "", uncertain
    return most, " (the least certain: %s of %s)" % (NAMES.get(operation, operation), size_text(size)), uncertain


def percent(share):
    return "%.0f %%" % (100 * share)


def wrong_text(cases):
    bad = [(NAMES.get(c["operation"], c["operation"]), c["size"], c["with_wrong"], c["without_wrong"]) for c in cases
           if c["with_wrong"] or c["without_wrong"]]
    ours = ["%s of %s (%d elements)" % (name, size_text(size), wrong) for name, size, wrong, _ in bad if wrong]
    theirs = [name for name, _, _, wrong in bad if wrong]
    if ours and theirs:
        return "WRONG RESULTS on both sides, so something else is broken: %s" % joined(ours)
    if ours:
        return "WRONG RESULTS with Tributary: %s; do not use it, and report this" % joined(ours)
    return "WRONG RESULTS without Tributary alone: %s" % joined(theirs) if theirs else None


def sentence(cases, margin=MARGIN):
    """What the cases say, without its full stop, and whether something is slower (or wrong)."""
    text = wrong_text(cases)
    if text:
        return text, True
    by_operation = {}
    for case in cases:
        ratio = ratio_of(case)
        if ratio:
            by_operation.setdefault(case["operation"], []).append((case["size"], ratio))
    if not by_operation:
        return "no ratio: there is no pair of timings", True
    for found in by_operation.values():
        found.sort(key=lambda c: c[0])
    faster, slower = (parts(by_operation, lambda ratios, kind=kind: runs(ratios, kind, margin)) for kind in (1, -1))
    words = ["%s: %s times as fast" % part for part in faster]
    if slower:
        words.append("slower: " + ", ".join("%s, %s times" % part for part in slower))
    most, least_certain, uncertain = undecided(by_operation, lambda r: 1 - r[0] if faster or slower else max(1 - r[0], r[2] - 1), margin)
    if uncertain:
        words.append("too uncertain to tell: " + ", ".join(uncertain))
    if most is not None and not slower:
        rest = "nothing slower%s" % (" beyond " + percent(most) if least_certain else "") if faster else "no difference beyond " + percent(most)
        words.append(("otherwise " if uncertain else "") + rest + least_certain)
    return "; ".join(words), bool(slower)
