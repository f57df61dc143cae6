# SPDX-License-Identifier: Apache-2.0
"""The search of `tributary tune --measure`: coordinate descent over what NCCL may take, from noisy times. Pure: what runs is handed in.

A cell is (operation, size). Each has candidates of its own, and one run of the command measures a candidate of each. A candidate
counts as how many times as fast it is as NCCL's own choice, the median of the last runs without a table. What the search finds is then
compared with NCCL's own choice in turns, and only what is faster beyond its interval stays.
"""
import collections
import statistics

import verdict

Choice = collections.namedtuple("Choice", "algorithm protocol channels chunk")   # 0: NCCL's own
Took = collections.namedtuple("Took", "seconds wrong algorithm protocol channels")   # what a run of a cell took, in both senses
OWN = Choice("-", "-", 0, 0)

PROTOCOLS = ("ll", "ll128", "simple")
RINGS = [("ring", p) for p in PROTOCOLS]
PAIRS = {
    "all_reduce": RINGS + [("tree", p) for p in PROTOCOLS] + [(a, "simple") for a in ("collnet-chain", "collnet-direct", "nvls", "nvls-tree")],
    "all_gather": RINGS + [(a, "simple") for a in ("pat", "collnet-direct", "nvls")],
    "reduce_scatter": RINGS + [(a, "simple") for a in ("pat", "collnet-direct", "nvls")],
    "broadcast": RINGS,
    "reduce": RINGS,
}
FIXED = ("collnet-chain", "collnet-direct", "nvls")   # whose number of channels the plugin leaves to NCCL
CHUNKS = [1 << power for power in range(15, 23)]
GAIN_LEAST = 0.03   # what a choice must gain to enter a table
SAMPLES, SAMPLES_OF_FINALISTS, FINALISTS = 3, 5, 3
CLOSE = 0.87     # of the best: worth another sample
PLATEAU = 0.96   # of the best on the way: worth another step
PAIRS_CLIMBED = 4, 0.3   # of how many pairs numbers of channels are tried, and from what share of the best
PATIENCE = 3     # times the pairs, for what is open after them
RECENT, OUTLIER = 9, 1.25   # runs without a table that count; what a time is above their median to be off
FAILURES_FIRST, FAILURES_MOST = 8, 24   # before a run with a table ends well, which is soon where one candidate is to blame


class Broken(Exception):
    """A run that failed: why, and what it measured before ({cell: Took})."""


class GaveUp(Exception):
    """Nothing can be measured: why."""


class Descent:
    """Of one cell: `pending` is what it wants to try now, None at its end."""

    def __init__(self, own, pairs, channels_most, chunks):
        """own: the Took of NCCL's own choice."""
        self.start = Choice(own.algorithm, own.protocol, 0, 0)
        self.samples, self.channels = {self.start: [1.0]}, {self.start: own.channels}
        self.most, self.pending, self.is_noisy = channels_most, None, False
        self.steps = self.walk(pairs, chunks)
        self.send(None)

    def send(self, answer):
        """The answer to what was pending: (times as fast as untuned, channels), or None where NCCL does not take it."""
        try:
            self.pending = self.steps.send(answer)
        except StopIteration:
            self.pending = None

    def score(self, choice):
        return statistics.median(self.samples[choice])

    def ranked(self):
        return sorted(self.samples, key=self.score, reverse=True)

    def best(self):
        """OWN: NCCL's. Of a search that time cut short it may be noise: it is verified."""
        found = self.ranked()[0]
        return OWN if found == self.start else found

    def is_worth_more(self, choice, count):
        samples = self.samples.get(choice, [])
        if not samples or samples == [0.0]:
            return not samples
        return len(samples) < count and (self.score(choice) > CLOSE * self.score(self.ranked()[0]) or self.is_noisy and len(samples) < 2)

    def measure(self, choice, count=SAMPLES):
        while choice != self.start and self.is_worth_more(choice, count):
            answer = yield choice
            if answer is None:
                self.samples[choice] = [0.0]
                return
            self.samples.setdefault(choice, []).append(answer[0])
            self.channels[choice] = answer[1]

    def climb(self, base, field, values, middle):
        top = self.score(base)
        for way in [v for v in values if v > middle], [v for v in reversed(values) if v < middle]:
            for value in way:
                choice = base._replace(**{field: value})
                yield from self.measure(choice)
                if self.score(choice) < PLATEAU * top:
                    break
                top = max(top, self.score(choice))

    def climb_channels(self, base):
        if base.algorithm in FIXED:
            return
        yield from self.climb(base, "channels", [1 << i for i in range(self.most.bit_length())], self.channels[base])

    def bases(self, count, share):
        """The best of each pair: so many, from that share of the best on."""
        best = self.ranked()
        found = [choice for i, choice in enumerate(best) if choice[:2] not in [other[:2] for other in best[:i]]]
        return [choice for choice in found[:count] if self.score(choice) >= share * self.score(found[0])]

    def walk(self, pairs, chunks):
        for pair in pairs:
            yield from self.measure(Choice(*pair, 0, 0))
        for base in self.bases(*PAIRS_CLIMBED):
            yield from self.climb_channels(base)
        for base in self.bases(2, CLOSE) if chunks else []:
            for chunk in chunks[1::2]:   # nothing tells NCCL's own
                yield from self.measure(base._replace(chunk=chunk))
            found = max((choice for choice in self.samples if choice._replace(chunk=0) == base), key=self.score)
            if found.chunk:
                yield from self.climb(found, "chunk", [chunk for chunk in chunks if found.chunk in (chunk // 2, chunk * 2)], found.chunk)
        if self.ranked()[0].chunk:
            yield from self.climb_channels(self.ranked()[0])
        for choice in self.ranked()[:FINALISTS]:
            yield from self.measure(choice, SAMPLES_OF_FINALISTS)


def is_taken(choice, took):
    return choice == OWN or took.algorithm is None or ((choice.algorithm, choice.protocol) == (took.algorithm, took.protocol) and choice.channels in (0, took.channels))


class Search:
    """once(choices, cells): one run with {cell: Choice}, of the cells: {cell: Took}; raises Broken."""

    def __init__(self, once, note):
        self.once, self.note = once, note
        self.runs = self.failures = 0
        self.recent = {}       # times without a table
        self.never = set()     # (operation, algorithm, protocol) that NCCL does not take at any size
        self.taken = False     # whether any candidate was
        self.has_run = False   # whether any run with a table ended well
        self.is_cut = False    # whether time ended the search

    def run(self, choices, cells):
        self.runs += 1
        return self.once(choices, cells)

    def untuned(self, cells):
        """Without a table: medians of the last runs. A failure is of the command, not of a candidate: it is tried once more."""
        try:
            found = self.run({}, cells)
        except Broken as e:
            self.count_failure(e)
            try:
                found = self.run({}, cells)
            except Broken as again:
                raise GaveUp("without a table: %s" % again.args[0]) from again
        if any(took.wrong for took in found.values()):
            raise GaveUp("results are wrong without a table, too")
        for cell, took in found.items():
            self.recent.setdefault(cell, collections.deque(maxlen=RECENT)).append(took.seconds)
        return {cell: took._replace(seconds=statistics.median(self.recent[cell])) for cell, took in found.items()}

    def is_noisy(self, cell):
        """Whether a time may be off by itself: then a bad one is no reason to drop a candidate."""
        return max(self.recent[cell]) > OUTLIER * statistics.median(self.recent[cell])

    def count_failure(self, e):
        self.failures += 1
        if self.failures > (FAILURES_MOST if self.has_run else FAILURES_FIRST):
            raise GaveUp("%d runs failed%s; the last one: %s" % (self.failures, "" if self.has_run else ", and none with a table ended well", e.args[0])) from e

    def trial(self, choices):
        """{cell: Took, or None for a candidate under which the command fails}, found by halves."""
        try:
            found = self.run(choices, list(choices))
            self.has_run = True
            return found
        except Broken as e:
            self.count_failure(e)
            found, left = dict(e.args[1]), [cell for cell in choices if cell not in e.args[1]]
            if len(left) == 1:
                self.note("%s: left out, as the command failed: %s" % (name_of(left[0], choices[left[0]]), e.args[0].splitlines()[0]))
                found[left[0]] = None
            elif left:
                for half in left[:len(left) // 2], left[len(left) // 2:]:
                    found.update(self.trial({cell: choices[cell] for cell in half}))
            return found

    def answer(self, walker, cell, choice, took, untuned):
        pair = (cell[0], choice.algorithm, choice.protocol)
        walker.is_noisy = self.is_noisy(cell)
        if took is None or cell not in untuned:
            walker.send(None)
        elif not is_taken(choice, took):
            if not choice.channels and not choice.chunk:
                self.never.add(pair)
            walker.send(None)
        elif took.wrong:
            self.note("%s: WRONG RESULTS, so it is left out; report this" % name_of(cell, choice))
            walker.send(None)
        else:
            self.taken = True
            walker.send((untuned[cell].seconds / took.seconds, took.channels))

    def pending(self, walkers):
        """What is to be tried now; without what is known not to be taken."""
        for cell, walker in walkers.items():
            while walker.pending and (cell[0], walker.pending.algorithm, walker.pending.protocol) in self.never:
                walker.send(None)
        return {cell: walker.pending for cell, walker in walkers.items() if walker.pending}

    def explore(self, own, channels_most, chunks, has_time):
        """{cell: the best Choice}. own: {cell: Took} without a table. A run without one serves the trials before and after it."""
        walkers = {}
        for i, cell in enumerate(own):
            pairs = PAIRS[cell[0]]   # each cell begins with another pair: so one round finds what NCCL does not take
            walkers[cell] = Descent(own[cell], pairs[i % len(pairs):] + pairs[:i % len(pairs)], channels_most, chunks)
        while True:
            choices = self.pending(walkers)
            self.is_cut = bool(choices) and not has_time()
            if not choices or self.is_cut:
                break
            first, untuned = self.trial(choices), self.untuned(list(choices))
            for cell, choice in choices.items():
                self.answer(walkers[cell], cell, choice, first.get(cell), untuned)
            choices = {cell: choice for cell, choice in self.pending(walkers).items() if cell in untuned}
            if not choices or not has_time():
                continue
            second = self.trial(choices)
            for cell, choice in choices.items():
                self.answer(walkers[cell], cell, choice, second.get(cell), untuned)
        return {cell: walker.best() for cell, walker in walkers.items()}

    def without_wrong(self, choices, cells, found, with_, without):
        """The cells whose results are right: a choice under which one is wrong now and then enters no table."""
        if any(took.wrong for took in without.values()):
            raise GaveUp("results are wrong without a table, too")
        for cell in cells:
            if cell in with_ and with_[cell].wrong:
                self.note("%s: WRONG RESULTS, so it is left out; report this" % name_of(cell, choices[cell]))
                found[cell] = {"with_s": [], "without_s": []}
        return [cell for cell in cells if not (cell in with_ and with_[cell].wrong)]

    def verify(self, choices, pairs, has_time):
        """The choices against none, in turns: {cell: {"with_s", "without_s"}}. What is still open then has up to thrice as many pairs."""
        found, cells, turn, failed = {cell: {"with_s": [], "without_s": []} for cell in choices}, list(choices), 0, 0
        while turn < PATIENCE * pairs and (turn < verdict.PAIRS_LEAST or has_time()):
            if turn and turn % pairs == 0:   # not after each pair: chance would stop it
                cells = [cell for cell in cells if is_open(found[cell])]
            if not cells:
                break
            table = {cell: choices[cell] for cell in cells}
            try:
                sides = [self.run(side, cells) for side in ((table, {}) if turn % 2 == 0 else ({}, table))]
            except Broken as e:
                failed += 1
                self.count_failure(e)
                if failed > verdict.PAIRS_LEAST:
                    raise GaveUp("the table could not be compared with none: %s" % e.args[0]) from e
                continue
            with_, without = sides if turn % 2 == 0 else sides[::-1]
            cells = self.without_wrong(choices, cells, found, with_, without)
            for cell in cells:
                if cell in with_ and cell in without and is_taken(choices[cell], with_[cell]):
                    found[cell]["with_s"].append(with_[cell].seconds)
                    found[cell]["without_s"].append(without[cell].seconds)
            turn += 1
        return found


def is_open(times):
    """Whether more pairs may tell: it looks faster, and the interval does not say so."""
    ratio = verdict.ratio_of(times)
    return bool(ratio) and ratio[1] > 1 + GAIN_LEAST and ratio[0] <= 1


def holds(times):
    """Whether a choice enters the table: faster beyond its interval, and by enough."""
    ratio = verdict.ratio_of(times)
    return len(times["with_s"]) >= verdict.PAIRS_LEAST and ratio[0] > 1 and ratio[1] > 1 + GAIN_LEAST


def way_of(choice):
    """"tree/ll on 4 channels, chunks of 64 KiB"."""
    text = "%s/%s" % (choice.algorithm, choice.protocol)
    if choice.channels:
        text += " on %d channel%s" % (choice.channels, "s" if choice.channels > 1 else "")
    return text + (", chunks of %s" % verdict.size_text(choice.chunk) if choice.chunk else "")


def name_of(cell, choice):
    return "%s of %s with %s" % (verdict.NAMES[cell[0]], verdict.size_text(cell[1]), way_of(choice))
