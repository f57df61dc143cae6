#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tributary report` beside a model of its own: time in steps of one microsecond, without a clever thought."""
import collections
import gzip
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
PROGRAM = os.path.join(os.environ.pop("TRIBUTARY_BUILD", None) or os.path.join(ROOT, "build"), "tributary")
SEED = int(os.environ.get("TRIBUTARY_TEST_SEED", "25"))
BASE_US = 6889219346000    # like a host's clock since it started

NAMES = {    # a kernel, what PyTorch says of it, and what it is
    "AllReduce": ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "allreduce"),
    "AllGather": ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "_allgather_base"),
    "ReduceScatter": ("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)", "_reduce_scatter_base"),
    "AlltoAll": ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "all_to_all"),
    "Broadcast": ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "broadcast"),
    "Reduce": ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce"),
    "SendRecv": ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send"),
}
COMPUTING = ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
             "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>>")
TYPES = {"Float": 4, "BFloat16": 2, "Half": 2, "Long": 8, "Byte": 1, "Float8_e4m3fn": 1}


def event(category, name, start, length, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": args.get("device", 4711), "tid": args.get("stream", 4711),
            "ts": BASE_US + start, "dur": length, "args": args}


def collective(kind, start, length, elements, element="Float", ranks=8, stream=20, device=0, group="0"):
    name, words = NAMES[kind]
    inputs, outputs = (elements // ranks, elements) if kind == "AllGather" else (elements, elements)
    return event("kernel", name, start, length, device=device, stream=stream, correlation=start, **{
        "Collective name": words, "In msg nelems": inputs, "Out msg nelems": outputs, "Group size": ranks, "dtype": element,
        "In split size": "[]", "Out split size": "[]", "Process Group Name": group, "Process Group Description": "default_pg",
        "Process Group Ranks": str(list(range(ranks)))})


def trace(events, rank=0):
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "numSms": 108}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 8}, "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 1735689600000000000, "traceEvents": events, "traceName": "worker0.pt.trace.json"}


def run(*arguments, text=None, most_bytes=None):
    def limit():
        if most_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    return subprocess.run([PROGRAM, "report", *arguments], input=text, capture_output=True, preexec_fn=limit, check=False)


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def put(self, name, data):
        path = os.path.join(self.folder, name)
        if not isinstance(data, bytes):
            data = (data if isinstance(data, str) else json.dumps(data, indent=1)).encode()
        with (gzip.open if name.endswith(".gz") else open)(path, "wb") as file:
            file.write(data)
        return path

    def read(self, *paths):
        done = run("--json", *paths)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return json.loads(done.stdout)

    def refused(self, *arguments, words, **options):
        """One sentence that names the place."""
        done = run(*arguments, **options)
        said = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout, said.count("\n")), (1, b"", 1), said)
        for word in words:
            self.assertIn(word, said)


def made_up(rng):
    """A trace of random kernels on a few streams, in no order; and what is in it."""
    events, kernels, end = [], [], 900
    for _ in range(rng.randrange(1, 60)):
        start, length = rng.randrange(0, end - 100), rng.randrange(0, 100)
        stream = rng.choice((7, 20, 24, 28))
        if rng.random() < 0.45:
            kind, element = rng.choice(list(NAMES)), rng.choice(list(TYPES))
            elements = rng.choice((0, 1, 8, 1000, 1024, 1 << 20, 25557032)) * 8
            events.append(collective(kind, start, length, elements, element, stream=stream))
            kernels.append((kind, start, start + length, elements * TYPES[element]))
        elif rng.random() < 0.8:
            events.append(event("kernel", rng.choice(COMPUTING), start, length, device=0, stream=stream))
            kernels.append((None, start, start + length, 0))
        else:   # none of these counts
            events.append(event(rng.choice(("gpu_memcpy", "gpu_memset", "cpu_op", "cuda_runtime")),
                                rng.choice(("Memcpy HtoD (Pinned -> Device)", "cudaLaunchKernel", "ncclDevKernel_AllReduce")),
                                start, length, device=0, stream=stream))
    steps = sorted(rng.sample(range(0, end // 2), rng.randrange(1, 4))) if rng.random() < 0.7 else []
    on_gpu = rng.random() < 0.5
    for i, start in enumerate(steps):
        following = steps[i + 1] if i + 1 < len(steps) else end // 2 + 10
        events.append(event("user_annotation", "ProfilerStep#%d" % (i + 7), start - 40 * on_gpu, following - start))
        for stream in (7, 20) if on_gpu else ():
            late = rng.randrange(0, 5) if stream == 20 else 0
            events.append(event("gpu_user_annotation", "ProfilerStep#%d" % (i + 7), start + late,
                                max(1, following - start - 5 - late), device=0, stream=stream))
    rng.shuffle(events)
    return events, kernels, steps


def by_hand(kernels, steps):
    """By what is set in each microsecond."""
    last = max(end for _, _, end, _ in kernels)
    begin = steps[0] if steps else min(start for _, start, _, _ in kernels)
    # An annotation's own end matters only where the kernels are done before it.
    at = collections.defaultdict(set)
    for kind, start, end, _ in kernels:
        for tick in range(max(start, begin), end):
            at[tick].add(kind)
    result = {"last": last, "begin": begin, "exposed_by": collections.Counter(), "exposed": 0, "communication": 0, "computing": 0}
    for kinds in at.values():
        result["computing"] += None in kinds
        result["communication"] += bool(kinds - {None})
        if None not in kinds:
            result["exposed"] += 1
            result["exposed_by"].update(kinds)
    rows = collections.defaultdict(lambda: [0, 0])
    for kind, start, end, size in kernels:
        if kind and end > max(start, begin) and start >= begin:
            row = rows[kind, 1 << math.ceil(math.log2(size)) if size else 0]
            row[0] += 1
            row[1] += end - start
    result["rows"] = dict(rows)
    return result


class Model(Report):
    def test_exposed_time_is_that_of_each_microsecond(self):
        rng = random.Random(SEED)
        for case in range(80):
            events, kernels, steps = made_up(rng)
            if not kernels:
                continue
            path = self.put("case%d.json" % case, trace(events))
            got, expected = self.read(path), by_hand(kernels, steps)
            rank = got["ranks"][0]
            message = "seed %d, case %d" % (SEED, case)

            def equal(seconds, microseconds):
                self.assertAlmostEqual(seconds * 1e6, microseconds, 3, message)
            equal(rank["computing_s"], expected["computing"])
            equal(rank["communication_s"], expected["communication"])
            equal(rank["exposed_s"], expected["exposed"])
            self.assertEqual({row["collective"]: round(row["exposed_s"] * 1e6) for row in got["exposed"]["by_collective"]},
                             dict(expected["exposed_by"]), message)
            self.assertEqual({(row["collective"], row["bytes_most"] or 0): [row["count"], round(row["time_s"] * 1e6)]
                              for row in got["collectives"]}, expected["rows"], message)
            self.assertEqual(rank["steps"], len(steps), message)
            if steps:
                ends = steps[1:] + [steps[0] + round(rank["time_s"] * 1e6)]
                self.assertGreaterEqual(ends[-1], expected["last"], message)
                equal(rank["step_median_s"], statistics.median(b - a for a, b in zip(steps, ends)))
            else:
                equal(rank["time_s"], expected["last"] - expected["begin"])

    def test_bandwidth_is_counted_as_nccl_tests_counts_it(self):
        events = [collective(kind, 1000 * i, 100, 8 << 20, stream=20 + i) for i, kind in enumerate(NAMES)]
        rows = {row["collective"]: row for row in self.read(self.put("t.json", trace(events)))["collectives"]}
        for kind, factor in {"AllReduce": 14 / 8, "AllGather": 7 / 8, "ReduceScatter": 7 / 8, "AlltoAll": 7 / 8, "Broadcast": 1,
                             "Reduce": 1, "SendRecv": 1}.items():
            self.assertAlmostEqual(rows[kind]["algbw_Bps"] / ((32 << 20) / 100e-6), 1, 4, kind)
            self.assertAlmostEqual(rows[kind]["busbw_Bps"] / rows[kind]["algbw_Bps"], factor, 4, kind)


class Forms(Report):
    EVENTS = [collective("AllReduce", 100, 50, 1 << 20), event("kernel", COMPUTING[0], 120, 20, device=0, stream=7)]

    def exposed_us(self, *paths):
        return [round(rank["exposed_s"] * 1e6) for rank in self.read(*paths)["ranks"]]

    def test_forms_that_are_equal(self):
        whole = json.dumps(trace(self.EVENTS))
        for name, data in (("a.json", whole), ("b.json.gz", whole), ("c.json", json.dumps(self.EVENTS)),
                           ("d.json", json.dumps(self.EVENTS)[:-1] + ",\n"),     # Chrome's, which need not be closed
                           ("e.json", whole.replace('"kernel"', '"Kernel"')),
                           ("f.json", json.dumps({"traceEvents": self.EVENTS, "x": '"]}[{\\'}, ensure_ascii=False)),
                           ("g.json", whole.replace("allreduce", "all\\u0072educe").replace("\n", "\r\n"))):
            self.assertEqual(self.exposed_us(self.put(name, data)), [30], name)
        since_1970 = json.loads(whole.replace(str(BASE_US)[:-3], "1661203463029"))
        since_1970["traceEvents"] += [event("kernel", COMPUTING[0], 1661203463029566 - BASE_US + i, 1, device=0, stream=7)
                                      for i in range(500)]
        got = self.read(self.put("h.json", since_1970))["ranks"][0]
        self.assertEqual([round(got[key] * 1e6) for key in ("exposed_s", "computing_s")], [30, 520])
        done = run("--json", "-", text=whole.encode())
        self.assertEqual(json.loads(done.stdout)["ranks"][0]["exposed_s"], 3e-05)

    def test_two_gpus_of_one_process_are_two(self):
        other = [collective("AllReduce", 100, 50, 1 << 20, device=1), event("kernel", COMPUTING[0], 100, 10, device=1, stream=7)]
        got = self.read(self.put("t.json", trace(self.EVENTS + other, rank=3)))
        self.assertEqual([(rank["name"], round(rank["exposed_s"] * 1e6)) for rank in got["ranks"]],
                         [("rank 3 GPU 0", 30), ("rank 3 GPU 1", 40)])

    def test_options_may_stand_among_files(self):
        paths = [self.put("%d.json" % rank, trace(self.EVENTS, rank)) for rank in range(3)]
        for arguments in ([*paths, "--json"], [paths[0], "--json", *paths[1:]], ["--json", "--", *paths]):
            self.assertEqual(len(json.loads(run(*arguments).stdout)["ranks"]), 3)
        self.assertEqual(run("--json").returncode, 2)

    def test_a_trace_larger_than_memory(self):
        """72 MB of the CPU's events, in 48 MiB of address space beyond what the program itself takes."""
        block = (json.dumps(event("cpu_op", "aten::convolution_backward", 5, 5, **{"Input Dims": [[64] * 4] * 8})) + ",\n").encode()
        head, tail = json.dumps(trace(self.EVENTS)).encode().split(b'"traceEvents": [')
        path = os.path.join(self.folder, "large.json")
        with open(path, "wb") as file:
            file.write(head + b'"traceEvents": [')
            for _ in range(8):
                file.write(block * (9_000_000 // len(block)))
            file.write(tail)
        done = run("--json", path, most_bytes=80 << 20)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(json.loads(done.stdout)["ranks"][0]["exposed_s"], 3e-05)


def job(computing_us, exposed_us, rank, steps=3):
    """Steps of a rank that computes and then communicates."""
    events, whole = [], computing_us + exposed_us
    for i in range(steps):
        events += [event("kernel", COMPUTING[0], i * whole, computing_us, device=0, stream=7),
                   collective("AllReduce", i * whole + computing_us, exposed_us, 1 << 20),
                   event("user_annotation", "ProfilerStep#%d" % i, i * whole, whole)]
    return trace(events, rank)


class Before(Report):
    """Steps of the same job before a change."""

    def of(self, name, exposed_us, ranks=(0, 1)):
        return [self.put("%s%d.json" % (name, rank), job(600, exposed_us, rank)) for rank in ranks]

    def test_the_gain_is_that_of_steps_and_of_what_is_exposed(self):
        before, now = self.of("before", 400), self.of("now", 200)
        for words, sentence in (((before, now), "Steps run 1.25 times as fast as before: 800 us, before 1 ms; exposed communication takes 200 us of a step, before 400 us."),
                                ((now, before), "Steps take 1.25 times as long as before: 1 ms, before 800 us;"),
                                ((now, now), "The same: steps take as long as before, 800 us, before 800 us;")):
            done = run("--before", ",".join(words[0]), *words[1])
            self.assertTrue(done.stdout.decode().startswith(sentence), done)
        found = json.loads(run("--json", "--before", ",".join(before), *now).stdout)
        self.assertEqual([round(side["exposed"]["exposed_s"] * 1e6) for side in (found["before"], found)], [2400, 1200])
        self.assertIsNone(found["before"]["before"])
        self.assertIsNone(self.read(*now)["before"])


class Slow(Report):
    def answer(self, times, computing, sizes=None, group="0"):
        paths = []
        for rank, time in enumerate(times):
            events = [event("user_annotation", "ProfilerStep#0", 0, 4000)]
            for i in range(4):
                events += [event("kernel", COMPUTING[0], 1000 * i, computing[rank], device=0, stream=7),
                           collective("AllReduce", 1000 * i + 900 - time, time, (sizes or [1 << 20] * 8)[rank], ranks=len(times),
                                      group=group)]
            paths.append(self.put("rank%d.json" % rank, trace(events, rank)))
        got = self.read(*paths)
        return got["slowest"] and got["slowest"]["name"], got["answer"]

    def test_who_comes_last_is_named_with_what_the_trace_says_of_it(self):
        name, answer = self.answer([300, 310, 90, 305], [500, 490, 800, 505])
        self.assertEqual(name, "rank 2")
        self.assertIn("It computes longest", answer)
        name, answer = self.answer([300, 310, 90, 305], [500, 490, 400, 505])
        self.assertEqual(name, "rank 2")
        self.assertIn("its input or its CPU is late", answer)

    def test_nobody_is_named_without_evidence(self):
        self.assertIsNone(self.answer([300, 310, 290, 305], [500, 490, 800, 505])[0])
        self.assertIsNone(self.answer([300, 310, 90, 305], [500] * 4, sizes=[1 << 20, 1 << 20, 1 << 10, 1 << 20])[0])
        self.assertIsNone(self.answer([300, 310, 90, 305], [500] * 4, group="")[0])


class Inspector(Report):
    @staticmethod
    def line(rank, number, time_us, kind="AllReduce", size=1 << 20, source="kernel_gpu", ident="0x7f8c496ae9f661"):
        return json.dumps({
            "header": {"id": ident, "rank": rank, "n_ranks": 4, "nnodes": 2},
            "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                         "dump_timestamp_us": 1748030377748202, "hostname": "host%d" % (rank // 2), "pid": 1639453 + rank},
            "coll_perf": {"coll": kind, "coll_sn": number, "coll_msg_size_bytes": size, "coll_exec_time_us": time_us,
                          "coll_timing_source": source, "coll_algobw_gbs": 1.5, "coll_busbw_gbs": 2.25}}) + "\n"

    def test_lines_become_rows_and_the_slow_rank_is_found(self):
        paths = [self.put("host%d.log%s" % (host, ".gz" * host), "".join(
            self.line(rank, i, 400 if rank == 3 else 1000) + self.line(rank, i, 500 if rank == 3 else 600, "AllGather", 1 << 18)
            for rank in (2 * host, 2 * host + 1) for i in range(10))) for host in (0, 1)]
        got = self.read(*paths)
        rows = {row["collective"]: row for row in got["collectives"]}
        self.assertEqual([(row["count"], row["bytes_most"]) for row in rows.values()], [(40, 1 << 20)] * 2)
        self.assertAlmostEqual(rows["AllReduce"]["busbw_Bps"] / ((1 << 20) * 1.5 / 850e-6), 1, 4)
        self.assertAlmostEqual(rows["AllGather"]["busbw_Bps"] / ((1 << 20) * 0.75 / 575e-6), 1, 4)
        self.assertEqual((got["slowest"]["name"], got["slowest"]["host"]), ("rank 3", "host1"))
        self.assertIsNone(got["exposed"])

    def test_times_of_the_cpu_are_counted_and_not_used(self):
        got = self.read(self.put("a.log", self.line(0, 1, 10) + self.line(0, 2, 90, source="collective_cpu")))
        self.assertEqual((got["not_by_gpu"], got["collectives"][0]["count"], got["collectives"][0]["time_s"]), (1, 2, 1e-05))
        self.assertAlmostEqual(got["collectives"][0]["algbw_Bps"] / ((1 << 20) / 10e-6), 1, 4)
        self.assertIn("1 of 2 have no time of the GPU's clock", got["answer"])
        path = self.put("a.log", "".join(self.line(rank, 1, 10 * 9 ** rank, source="kernel_cpu") for rank in range(4)))
        got = self.read(path)
        self.assertEqual((got["slowest"], got["members"], got["collectives"][0]["busbw_Bps"]), (None, [], None))
        self.assertIn("None of 4 collectives has a time of the GPU's clock", got["answer"])
        self.assertEqual(run(path).returncode, 0)

    def test_a_job_that_was_ended_leaves_half_a_line(self):
        whole = self.line(0, 1, 10) * 3
        for cut in range(len(whole) // 3 * 2 + 1, len(whole) - 2, 7):
            done = run("--json", self.put("a.log", whole[:cut]))
            self.assertEqual(done.returncode, 0)
            self.assertIn(b"the last line is left out", done.stderr)
            self.assertEqual(json.loads(done.stdout)["collectives"][0]["count"], 2)

    def test_records_that_are_not_of_collectives_are_counted(self):
        other = self.line(1, 7, 10).replace("coll_perf", "p2p_perf")
        done = run("--json", self.put("a.log", self.line(0, 1, 10) + other * 3))
        self.assertEqual((done.returncode, json.loads(done.stdout)["collectives"][0]["count"]), (0, 1))
        self.assertIn(b'a.log": 3 of 4 records of NCCL Inspector are left out: they have "p2p_perf" in place of', done.stderr)
        done = run(self.put("a.log", other * 2), self.put("b.log", self.line(0, 1, 10)))
        self.assertEqual((done.returncode, done.stderr.count(b"2 of 2 records")), (0, 1))
        done = run(self.put("a.log", "\ufeff" + other + self.line(0, 1, 10) + '{"header": {"rank": 0}}\n'))
        self.assertEqual((done.returncode, done.stderr.count(b"2 of 3 records")), (0, 1))
        done = run(self.put("a.log", other + other.replace("p2p", "more") + self.line(0, 1, 10)))
        self.assertIn(b'2 of 3 records of NCCL Inspector are left out: they have "p2p_perf" and other things in', done.stderr)
        self.assertEqual(run(self.put("a.log", self.line(0, 1, 10))).stderr, b"")
        self.refused(self.put("a.log", other), words=("1 of 1 records of NCCL Inspector is left out: it has",))

    def test_a_line_without_what_is_needed(self):
        for key in ('"id"', '"rank"', '"n_ranks"', '"coll"', '"coll_msg_size_bytes"', '"coll_exec_time_us"'):
            self.refused(self.put("a.log", self.line(0, 1, 10) + self.line(0, 2, 10).replace(key, '"x"', 1)),
                         words=("a.log", "line 2", "needs header.id"))


class Refused(Report):
    def test_wherever_a_trace_is_cut(self):
        whole = json.dumps(trace(Forms.EVENTS)).encode()
        for cut in sorted({*range(2, len(whole) - 1, 23), len(whole) - 1} - {whole.index(b"[") + 1}):
            done = run(self.put("cut.json", whole[:cut]))
            self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (1, b"", 1), cut)
            self.assertIn(b"cut.json", done.stderr)
        self.refused(self.put("cut.json", whole[:-30]), words=("line 1, column", "let the job write it again"))
        packed = self.put("whole.json.gz", whole)
        with open(packed, "rb") as file:
            data = file.read()
        with open(packed, "wb") as file:
            file.write(data[:-20])
        self.refused(packed, words=("whole.json.gz", "truncated"))

    def test_what_is_no_trace(self):
        for name, data, words in (
                ("empty.json", "", ("ProfilerActivity.CUDA",)), ("text.json", "hello\n", ("line 1, column 1", "JSON")),
                ("model.json", json.dumps({"type": "DLRM", "mlp_dim": 5}), ("ProfilerActivity.CUDA",)),
                ("cpu.json", trace([event("cpu_op", "aten::mm", 1, 2)]), ("ProfilerActivity.CUDA",)),
                ("bytes.bin", bytes(range(256)) * 100, ("line 1",)),
                ("key.json", '{"a" 5}', ("expected :",)), ("value.json", '{"a": }', ("expected a value",)),
                ("bad.json", '{"traceEvents": [\n{"cat": "kernel", "x": 01x}]}', ("line 2, column 1",)),
                ("time.json", trace([{"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "args": {}}]), ('"ts" and "dur"',)),
                ("far.json", trace([event("kernel", "k", 1e300, 5)]), ('"ts" and "dur"',)),
                ("back.json", trace([event("kernel", "k", 5, -5)]), ('"ts" and "dur"',))):
            self.refused(self.put(name, data), words=(name, *words))
        self.refused(os.path.join(self.folder, "none.json"), words=("none.json", "No such file"))
        self.refused(self.folder, words=(self.folder, "it is a folder"))

    def test_a_rank_that_is_given_twice_and_files_of_both_kinds(self):
        one = self.put("one.json", trace(Forms.EVENTS, 2))
        self.refused(one, self.put("two.json", trace(Forms.EVENTS, 2)), words=("two.json", "second trace of rank 2"))
        done = run(one, self.put("a.log", Inspector.line(0, 1, 10)))
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1))

    def test_files_before_that_have_no_steps(self):
        steps = self.put("steps.json", trace([*Forms.EVENTS, event("user_annotation", "ProfilerStep#1", 0, 100)]))
        self.refused(steps, "--before", self.put("a.log", Inspector.line(0, 1, 10)), words=("--before", "prof.step()"))
        self.refused(steps, "--before", os.path.join(self.folder, "none.json"), words=("none.json", "No such file"))

    def test_bytes_that_were_changed_never_crash_it(self):
        rng = random.Random(SEED)
        whole = bytearray((json.dumps(trace(Forms.EVENTS)) + Inspector.line(0, 1, 10)).encode())
        for _ in range(100):
            data = bytearray(whole)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.choice(b'{}[]",:\\0x\n\x00\xff9e')
            self.assertIn(run(self.put("a.json", bytes(data))).returncode, (0, 1, 2))


if __name__ == "__main__":
    unittest.main()
