# SPDX-License-Identifier: Apache-2.0
"""The collectives that are checked and timed: buffers, the call, the result it must have, and nccl-tests' factors.

`t` is the torch module and `d` torch.distributed; they are handed in, so that this file can be read without PyTorch.
Values are small integers, exact in every type, so results are compared for equality; or, for min and max of floats, those
in which implementations differ.
"""
MOVES = ("all_gather", "reduce_scatter", "all_to_all", "sendrecv", "pingpong", "broadcast")
OPERATIONS = ("all_reduce",) + MOVES
TYPES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int32": 4, "int64": 8, "uint8": 1, "int8": 1}
REDUCTIONS = ("sum", "prod", "max", "min", "avg")


def summand(rank, i):
    """What rank `rank` holds at index i (a number or a tensor): 1 to 3, so four ranks' product is exact in bfloat16."""
    return 1 + (i * 7 + i // 64 + rank * (1 + i % 2)) % 3


SPECIALS = (float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 1.0, -2.0)


def special(rank, i):
    """Which of SPECIALS rank `rank` holds at index i. Every pair of them meets, and NaN meets itself on all ranks."""
    return (i + i // len(SPECIALS) * rank) % len(SPECIALS)


def extreme(t, a, b, redop):
    """min or max of two tensors: NaN counts only if both are, and -0 is less than +0."""
    both = (t.minimum if redop == "min" else t.maximum)(a, b)
    negative = t.signbit(a) | t.signbit(b) if redop == "min" else t.signbit(a) & t.signbit(b)
    zero = t.where(negative, t.full_like(both, -0.0), t.zeros_like(both))
    both = t.where((a == 0) & (b == 0), zero, both)
    return t.where(t.isnan(a), b, t.where(t.isnan(b), a, both))


def differ(t, got, want):
    """By sign of zero, too; NaN is NaN."""
    same = (got == want) & (t.signbit(got) == t.signbit(want))
    return int((~(same | (t.isnan(got) & t.isnan(want)))).sum())


def label(key, i):
    """What is moved unchanged: another value for every key (rank or pair of ranks), 1 to 97."""
    return 1 + (i * 7 + i // 97 + key * 31) % 97


def pair(source, target, world):
    return source * world + target


def reduced(values, redop):
    """The reduction of a list of numbers or tensors, in rank order."""
    total = values[0]
    for v in values[1:]:
        if redop in ("sum", "avg"):
            total = total + v
        elif redop == "prod":
            total = total * v
        else:
            # max and min of two, for tensors and numbers alike
            total = total + (v - total) * ((v > total) if redop == "max" else (v < total))
    return total / len(values) if redop == "avg" else total


def count_of(op, size, type_name, world):
    """Elements a rank contributes, for a size as nccl-tests counts it; at least one."""
    elements = size // TYPES[type_name]
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        elements //= world
    return max(elements, 1)


def bus_factor(op, world):
    """busbw / algbw, as nccl-tests defines it."""
    if op == "all_reduce":
        return 2 * (world - 1) / world
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return (world - 1) / world
    return 1.0


class Case:
    """One operation with its buffers on one rank: run() as often as wanted after reset(), then wrong()."""

    def __init__(self, t, d, device, op, type_name, count, redop="sum", root=0, is_special=False):
        self.t, self.d, self.device, self.is_special = t, d, device, is_special
        self.op, self.redop, self.root, self.count = op, redop, root % d.get_world_size(), count
        self.dtype = getattr(t, type_name)
        self.rank, self.world = d.get_rank(), d.get_world_size()
        self.reset()

    def _index(self, count):
        return self.t.arange(count, device=self.device, dtype=self.t.int64)

    def _cat(self, parts):
        return self.t.cat(list(parts)).to(self.dtype)

    def _special(self, rank):
        values = self.t.tensor(SPECIALS, device=self.device, dtype=self.dtype)
        return values[special(rank, self._index(self.count))]

    def reset(self):
        n, r, w, i = self.count, self.rank, self.world, self._index(self.count)
        if self.is_special:
            self.input = self._special(r)
        elif self.op == "all_reduce":
            self.input = summand(r, i).to(self.dtype)
        elif self.op == "reduce_scatter":
            self.input = summand(r, self._index(n * w)).to(self.dtype)
        elif self.op == "all_to_all":
            self.input = self._cat(label(pair(r, to, w), i) for to in range(w))
        else:
            self.input = label(r, i).to(self.dtype)
        self.output = self.t.zeros(n * w if self.op in ("all_gather", "all_to_all") else n, dtype=self.dtype,
                                   device=self.device)

    def run(self):
        d, r, w = self.d, self.rank, self.world
        if self.op == "all_reduce":
            d.all_reduce(self.input, op=getattr(d.ReduceOp, self.redop.upper() if self.redop != "prod" else "PRODUCT"))
        elif self.op == "all_gather":
            d.all_gather_into_tensor(self.output, self.input)
        elif self.op == "reduce_scatter":
            d.reduce_scatter_tensor(self.output, self.input)
        elif self.op == "all_to_all":
            d.all_to_all_single(self.output, self.input)
        elif self.op == "broadcast":
            d.broadcast(self.input, self.root)
        elif self.op == "sendrecv":
            for request in d.batch_isend_irecv([d.P2POp(d.isend, self.input, (r + 1) % w),
                                                d.P2POp(d.irecv, self.output, (r - 1) % w)]):
                request.wait()
        elif self.op == "pingpong" and r == 0:
            d.send(self.input, w - 1)
            d.recv(self.output, w - 1)
        elif self.op == "pingpong" and r == w - 1:
            d.recv(self.output, 0)
            d.send(self.input, 0)

    def wrong(self):
        """How many elements differ from what they must be, after one run() on fresh buffers."""
        n, r, w = self.count, self.rank, self.world
        i, got = self._index(n), self.output
        if self.is_special:
            want = self._special(0)
            for k in range(1, w):
                want = extreme(self.t, want, self._special(k), self.redop)
            return differ(self.t, self.input, want)
        if self.op == "all_reduce":
            got, want = self.input, reduced([summand(k, i) for k in range(w)], self.redop).to(self.dtype)
        elif self.op == "all_gather":
            want = self._cat(label(k, i) for k in range(w))
        elif self.op == "reduce_scatter":
            want = reduced([summand(k, self._index(n * w)) for k in range(w)], "sum")[r * n:(r + 1) * n].to(self.dtype)
        elif self.op == "all_to_all":
            want = self._cat(label(pair(k, r, w), i) for k in range(w))
        elif self.op == "broadcast":
            got, want = self.input, label(self.root, i).to(self.dtype)
        elif self.op == "sendrecv":
            want = label((r - 1) % w, i).to(self.dtype)
        elif r in (0, w - 1):
            want = label(w - 1 - r, i).to(self.dtype)
        else:
            want = self.t.zeros_like(got)
        return int((got != want).sum())
