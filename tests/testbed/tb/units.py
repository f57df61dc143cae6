# SPDX-License-Identifier: Apache-2.0
"""Rates, sizes and times as people write them. Each function raises ValueError with the form it wanted."""
import re

RATE = {"bit": 1, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
SIZE = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
TIME = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


def _parse(text, units, example, bare=None):
    m = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*|%)", text)
    if not m or (m.group(2) or bare) not in units:
        raise ValueError("'%s' is not a %s" % (text, example))
    return float(m.group(1)) * units[m.group(2) or bare]


def rate_bps(text):
    """Bits a second: 400Mbit."""
    value = round(_parse(text, RATE, "rate such as 400Mbit"))
    if not 8000 <= value <= 10**12:
        raise ValueError("the rate %s is outside 8Kbit to 1000Gbit" % text)
    return value


def rates_bps(text):
    """One rate or several: 400Mbit,200Mbit."""
    return tuple(rate_bps(part) for part in text.split(","))


def size_bytes(text):
    """Bytes: 100KB, 64KiB."""
    value = round(_parse(text, SIZE, "size such as 100KB or 64KiB"))
    if not 1 <= value <= 2**31:
        raise ValueError("the size %s is outside 1B to 2GiB" % text)
    return value


def time_s(text):
    """Seconds: 2s, 4ms, 1.5 (a bare number is seconds)."""
    return _parse(text, TIME, "time such as 2s or 4ms", "s")


def share(text):
    """Of one: 0.1%."""
    value = _parse(text, {"%": 0.01}, "share such as 0.1%")
    if value > 1:
        raise ValueError("the share %s is above 100%%" % text)
    return value


def count(text, low, high):
    if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
        raise ValueError("'%s' is not a number from %d to %d" % (text, low, high))
    return int(text)


def show(value, units):
    """The shortest exact form: 1000000000 -> 1Gbit."""
    for name, scale in sorted(units.items(), key=lambda u: -u[1]):
        if value >= scale and value % scale == 0:
            return "%d%s" % (value // scale, name)
    return "%g%s" % (value, min(units, key=units.get))


def show_rate(bps):
    return "unshaped" if bps is None else show(bps, RATE)


def show_size(size):
    return "-" if size is None else show(size, SIZE)
