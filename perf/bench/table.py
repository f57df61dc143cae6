# SPDX-License-Identifier: Apache-2.0
"""The cases as nccl-tests' columns, as CSV, and as JSON. Pure."""
import statistics

import verdict

WIDTHS = (12, 12, 8, 7, 10, 8, 8, 7, 10, 8, 8, 7, 22)
HEADER = ("size", "count", "type", "redop") + ("time", "algbw", "busbw", "#wrong") * 2 + ("median of pairs [95 %]",)
UNITS = ("(B)", "(elements)", "", "") + ("(us)", "(GB/s)", "(GB/s)", "") * 2 + ("times as fast",)


def bus_factor(operation, ranks):
    """busbw / algbw, as nccl-tests defines it."""
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return 1.0 if operation == "sendrecv" else (ranks - 1) / ranks


def figures(case, side):
    """(seconds, algbw, busbw) of a side, medians; None where it has no timing."""
    if not case[side + "_s"]:
        return None
    seconds = statistics.median(case[side + "_s"])
    rate = case["size"] / seconds / 1e9
    return seconds, rate, rate * bus_factor(case["operation"], case["ranks"])


def line(cells):
    return " ".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS)).rstrip()


def head(operation, ranks):
    middle = sum(WIDTHS[:4]) + 4
    return "\n".join(("# %s, %d ranks" % (verdict.NAMES[operation], ranks),
                      "#".ljust(middle) + "with Tributary".center(sum(WIDTHS[4:8]) + 4) + "without".center(sum(WIDTHS[8:12]) + 4),
                      "#" + line(HEADER)[1:], "#" + line(UNITS)[1:]))


def row(case):
    cells = ["%d" % case["size"], "%d" % case["count"], case["type"], redop(case)]
    for side in ("with", "without"):
        found = figures(case, side)
        cells += ["%.2f" % (found[0] * 1e6), "%.3f" % found[1], "%.3f" % found[2], "%d" % case[side + "_wrong"]] if found else ["-"] * 4
    ratio = verdict.ratio_of(case)
    cells.append("%.3f [%.3f, %.3f]" % (ratio[1], ratio[0], ratio[2]) if ratio else "-")
    ways = [case.get(side + "_way") for side in ("with", "without")]
    return line(cells) + ("  %s" % (ways[0] if ways[0] == ways[1] else "%s, without %s" % tuple(ways)) if any(ways) else "")


def redop(case):
    return "sum" if case["operation"] in ("all_reduce", "reduce_scatter") else "none"


def as_json(case, with_values):
    found = {"operation": case["operation"], "ranks": case["ranks"], "size_bytes": case["size"], "count": case["count"], "type": case["type"],
             "redop": redop(case)}
    for side in ("with", "without"):
        values = figures(case, side)
        found[side] = {"time_s": values[0], "algbw_GBps": values[1], "busbw_GBps": values[2], "wrong": case[side + "_wrong"]} if values else None
        if values and case.get(side + "_way"):
            found[side]["algorithm"] = case[side + "_way"]
        if values and with_values:
            found[side]["times_s"] = case[side + "_s"]
    ratio = verdict.ratio_of(case)
    found["pairs"] = min(len(case["with_s"]), len(case["without_s"]))
    found["ratio"] = {"median": ratio[1], "low": ratio[0], "high": ratio[2]} if ratio else None
    return found


CSV = ("operation", "ranks", "size_bytes", "count", "type", "redop", "with_time_s", "with_algbw_GBps", "with_busbw_GBps", "with_wrong",
       "without_time_s", "without_algbw_GBps", "without_busbw_GBps", "without_wrong", "pairs", "ratio", "ratio_low", "ratio_high")


def csv_row(case):
    found = as_json(case, False)
    cells = [found[name] for name in CSV[:6]]
    for side in ("with", "without"):
        cells += [found[side][name] for name in ("time_s", "algbw_GBps", "busbw_GBps", "wrong")] if found[side] else [""] * 4
    cells.append(found["pairs"])
    cells += [found["ratio"][name] for name in ("median", "low", "high")] if found["ratio"] else [""] * 3
    return ",".join("%.9g" % cell if isinstance(cell, float) else str(cell) for cell in cells)
