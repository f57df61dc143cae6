#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tributary bench`: what it reads, what it says of which figures, and the whole with launchers and programs of the test's own."""
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "perf", "bench"))
PROGRAM = os.path.join(os.environ.pop("TRIBUTARY_BUILD", None) or os.path.join(ROOT, "build"), "tributary")

import bench  # noqa: E402
import launch  # noqa: E402
import nccltests  # noqa: E402
import rank  # noqa: E402
import sides  # noqa: E402
import table  # noqa: E402
import verdict  # noqa: E402

K, M = 1 << 10, 1 << 20


def case(op, size, ratio, spread=0.01, pairs=7, wrong=(0, 0)):
    """One whose pairs' ratios lie evenly around this one."""
    with_s = [1e-3] * pairs
    without_s = [1e-3 * ratio * (1 + spread * (i - pairs // 2) / (pairs // 2)) for i in range(pairs)]
    return {"operation": op, "ranks": 8, "size": size, "count": size // 4, "type": "float", "with_s": with_s, "without_s": without_s,
            "with_wrong": wrong[0], "without_wrong": wrong[1]}


def said(*cases):
    return verdict.sentence(list(cases))[0]


class Verdict(unittest.TestCase):
    def test_the_interval_is_that_of_order_statistics(self):
        for count, rank in ((1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (20, 6), (101, 41)):
            values = list(range(1, count + 1))
            random.Random(count).shuffle(values)
            self.assertEqual(verdict.interval(values), (rank, (count + 1) / 2, count + 1 - rank), count)

    def test_the_interval_covers_the_truth_as_often_as_it_says(self):
        rng = random.Random(7)
        for count in 6, 7, 11:
            found = [verdict.interval([rng.expovariate(math.log(2)) for _ in range(count)]) for _ in range(2000)]
            self.assertGreater(sum(low <= 1 <= high for low, _, high in found), 2000 * 0.945)   # the median of these is 1

    def test_a_gain_at_large_sizes(self):
        ratios = {64 * K: 1.0, M: 1.01, 16 * M: 1.30, 64 * M: 1.32}
        self.assertEqual(said(*(case("all_reduce", s, r) for s, r in ratios.items()), case("all_gather", M, 0.99)),
                         "AllReduce of 16 MiB and more: 1.31 times as fast; nothing slower")

    def test_a_gain_at_every_size_and_of_a_single_one(self):
        self.assertEqual(said(case("all_reduce", K, 2.0), case("all_reduce", M, 4.0)), "AllReduce: 2.00 to 4.00 times as fast; nothing slower")
        self.assertEqual(said(case("all_reduce", M, 12)), "AllReduce of 1 MiB: 12 times as fast; nothing slower")
        self.assertEqual(said(case("all_reduce", K, 1.5), case("all_reduce", M, 1.0)), "AllReduce of 1 KiB: 1.50 times as fast; nothing slower")

    def test_two_ranges_of_one_operation(self):
        ratios = {64 * K: 1.7, 256 * K: 0.97, M: 1.6, 4 * M: 1.76}
        self.assertEqual(said(*(case("all_reduce", s, r) for s, r in ratios.items())),
                         "AllReduce of 64 KiB and of 1 MiB and more: 1.60 to 1.76 times as fast; nothing slower")

    def test_a_case_that_is_not_sure_does_not_cut_a_range(self):
        cases = [case("all_reduce", K, 1.3), case("all_reduce", 4 * K, 1.2, spread=0.5), case("all_reduce", 16 * K, 1.3)]
        self.assertEqual(said(*cases), "AllReduce: 1.20 to 1.30 times as fast; too uncertain to tell: AllReduce of 4 KiB")
        cases[1] = case("all_reduce", 4 * K, 1.2, spread=0.3)
        self.assertEqual(said(*cases), "AllReduce: 1.20 to 1.30 times as fast; nothing slower beyond 16 % (the least certain: AllReduce of 4 KiB)")

    def test_what_could_hide_more_than_a_quarter_is_no_finding(self):
        wide = [case("all_reduce", 64 * K, 1.0, spread=0.6), case("all_gather", 64 * K, 0.9, spread=0.6), case("all_reduce", M, 1.0)]
        gain = case("all_reduce", 4 * M, 1.5)
        uncertain = "too uncertain to tell: AllReduce and AllGather of 64 KiB; otherwise "
        self.assertEqual(said(*wide), uncertain + "no difference beyond 5 %")
        self.assertEqual(said(*wide, gain), "AllReduce of 4 MiB: 1.50 times as fast; " + uncertain + "nothing slower")
        self.assertEqual(said(wide[0], gain), "AllReduce of 4 MiB: 1.50 times as fast; too uncertain to tell: AllReduce of 64 KiB")
        self.assertEqual(said(wide[0]), "too uncertain to tell: AllReduce of 64 KiB")
        self.assertEqual(verdict.sentence([wide[0], case("sendrecv", M, 0.8)]), ("slower: sendrecv of 1 MiB, 0.80 times; too uncertain to tell: AllReduce of 64 KiB", True))

    def test_no_difference(self):
        self.assertEqual(said(case("all_reduce", M, 1.01), case("sendrecv", M, 0.99)), "no difference beyond 5 %")
        self.assertEqual(said(case("all_reduce", M, 1.01), case("sendrecv", M, 0.99, spread=0.2)),
                         "no difference beyond 21 % (the least certain: sendrecv of 1 MiB)")
        self.assertEqual(verdict.sentence([case("all_reduce", M, 1.08)], verdict.MARGIN_EMULATED)[0], "no difference beyond 10 %")
        # Beyond 1, but within the margin.
        self.assertEqual(said(case("all_reduce", M, 1.04, spread=0.005)), "no difference beyond 5 %")

    def test_slower(self):
        self.assertEqual(verdict.sentence([case("all_gather", M, 0.92), case("all_reduce", M, 1)]), ("slower: AllGather of 1 MiB, 0.92 times", True))
        self.assertEqual(said(case("all_gather", M, 0.92), case("reduce_scatter", M, 0.9), case("all_reduce", M, 1.5)),
                         "AllReduce of 1 MiB: 1.50 times as fast; slower: AllGather and ReduceScatter of 1 MiB, 0.91 times")

    def test_noise_is_no_finding(self):
        rng = random.Random(3)
        for _ in range(50):
            found = case("all_reduce", M, 1)
            found["without_s"] = [1e-3 * rng.uniform(0.98, 1.02) for _ in range(11)]
            found["with_s"] = [1e-3 * rng.uniform(0.98, 1.02) for _ in range(11)]
            self.assertEqual(said(found), "no difference beyond 5 %")

    def test_a_wrong_result_is_all_that_is_said(self):
        cases = [case("all_reduce", M, 3.0), case("all_gather", 64 * K, 1.0, wrong=(12, 0))]
        self.assertEqual(verdict.sentence(cases),
                         ("WRONG RESULTS with Tributary: AllGather of 64 KiB (12 elements); do not use it, and report this", True))
        self.assertIn("without Tributary alone: AllReduce", said(case("all_reduce", M, 3.0, wrong=(0, 1))))
        self.assertIn("on both sides", said(case("all_reduce", M, 3.0, wrong=(2, 1))))

    def test_no_pairs_no_ratio(self):
        found = case("all_reduce", M, 1)
        found["without_s"] = []
        self.assertEqual(said(found), "no ratio: there is no pair of timings")
        self.assertIn(" -", table.row(found))

    def test_sizes(self):
        self.assertEqual([verdict.size_text(s) for s in (8, K, 65520, 1048560, 64 * M, 3 << 30)], ["8 B", "1 KiB", "64 KiB", "1 MiB", "64 MiB", "3 GiB"])


class Table(unittest.TestCase):
    def test_columns_are_nccl_tests(self):
        words = table.row(case("all_gather", M, 1.5)).split()
        self.assertEqual(words[:8], ["1048576", "262144", "float", "none", "1000.00", "1.049", "0.918", "0"])
        self.assertEqual(words[8:12], ["1500.00", "0.699", "0.612", "0"])
        self.assertEqual(words[12], "1.500")
        self.assertEqual(len(table.csv_row(case("all_reduce", M, 1)).split(",")), len(table.CSV))


HEAD = """# nccl-tests version 2.17.2 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 33554432 step: 4(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on     node01 device  0 [0000:07:00] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid   4712 on     node02 device  0 [0000:07:00] NVIDIA A100-SXM4-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
TAIL = """# Out of bounds values : 0 OK
# Avg bus bandwidth    : 9.70711
#
"""


class NcclTests(unittest.TestCase):
    def test_out_of_place_counts_and_wrong_of_both(self):
        rows, ranks = nccltests.parse(HEAD + """           8             2     float     sum      -1    35.23    0.00    0.00       0    34.81    0.00    0.00       0
    33554432       8388608     float     sum      -1   2345.6   14.31   14.31       0   2301.0   14.58   14.58       3
""" + TAIL)
        self.assertEqual(ranks, 2)
        self.assertEqual(sorted(rows), [8, 33554432])
        self.assertEqual((rows[33554432][:3], rows[33554432][4]), ((8388608, "float", "sum"), 3))
        self.assertAlmostEqual(rows[33554432][3], 2345.6e-6)

    def test_not_checked_in_place_as_alltoall(self):
        rows, _ = nccltests.parse(HEAD + "     1048576        131072     float    none      -1    210.1    4.99    2.50       0    205.0    5.11    2.56     N/A\n")
        self.assertEqual(rows[1048576][4], 0)

    def test_empty_rows_are_left_out(self):
        rows, _ = nccltests.parse(HEAD + """           0             0     float    none      -1     0.05    0.00    0.00       0     0.05    0.00    0.00       0
          32             4     float    none      -1    30.05    0.00    0.00       0     30.1    0.00    0.00       0
""")
        self.assertEqual(list(rows), [32])

    def test_what_a_launcher_writes_before_each_line(self):
        text = HEAD + "        1024           256     float     sum      -1    35.23    0.03    0.03       0    34.81    0.03    0.03       0\n"
        for mark in ("[1,0]<stdout>:", "0: ", "[node01]:"):
            rows, ranks = nccltests.parse("".join(mark + line + "\n" for line in text.splitlines()))
            self.assertEqual((list(rows), ranks), ([1024], 2), mark)

    def test_wrong_in_other_words(self):
        for text, wrong in (("0", 0), ("12", 12), ("0e+00", 0), ("1e+00", 1), ("inf", 1), ("nan", 1)):
            self.assertEqual(nccltests.wrong_of(text), wrong, text)

    def test_ranks_that_ran_alone(self):
        alone = HEAD.replace("#  Rank  1 Group  0 Pid   4712 on     node02 device  0 [0000:07:00] NVIDIA A100-SXM4-40GB\n", "")
        line = "        1024           256     float     sum      -1    35.23    0.03    0.00       0    34.81    0.03    0.00       0\n"
        self.assertRaisesRegex(nccltests.Unreadable, "MPI=1", nccltests.parse, 2 * (alone + line))
        self.assertRaisesRegex(nccltests.Unreadable, "nobody to talk to", nccltests.parse, alone + line)

    def test_no_table(self):
        text = HEAD + "node01: Test NCCL failure common.cu:1014 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '\n .. node01 pid 4711: Test failure common.cu:891\n"
        self.assertRaisesRegex(nccltests.Unreadable, "no table", nccltests.parse, text)


WITH_LOG = "h:1:1 [0] NCCL INFO Tributary 0.1.0: net tcp over eth0 10 Gbit/s\nh:1:1 [0] NCCL INFO Using network Tributary\n"


class Sides(unittest.TestCase):
    def test_what_was_set_for_the_plugin_is_not_there_without_it(self):
        for plugins, left in (("tributary", None), ("ofi,tributary", "ofi"), ("/x/libnccl-net-tributary.so", None)):
            base = {"NCCL_NET_PLUGIN": plugins, "NCCL_COLLNET_ENABLE": "1", "TRIBUTARY_CLUSTER": "file"}
            env = sides.environment_of(base, sides.changes(base, "without", {"NCCL_NET_PLUGIN": "tributary"}))
            self.assertEqual((env.get("NCCL_NET_PLUGIN"), env.get("NCCL_COLLNET_ENABLE")), (left, None), plugins)
            self.assertEqual((env["TRIBUTARY_CLUSTER"], env["TRIBUTARY_DISABLE"]), ("file", "1"))

    def test_another_plugin_is_the_side_without(self):
        base = {"NCCL_NET_PLUGIN": "ofi", "NCCL_COLLNET_ENABLE": "1", "TRIBUTARY_DISABLE": "1", "NCCL_NET": "OFI"}
        self.assertEqual(sides.given(base), {"NCCL_COLLNET_ENABLE": "1"})
        env = sides.environment_of(base, sides.changes(base, "without", {}))
        self.assertEqual((env["NCCL_NET_PLUGIN"], env["NCCL_COLLNET_ENABLE"], env["NCCL_NET"]), ("ofi", "1", "OFI"))
        env = sides.environment_of(base, sides.changes(base, "with", {"NCCL_NET_PLUGIN": "tributary"}))
        self.assertEqual((env["NCCL_NET_PLUGIN"], env.get("TRIBUTARY_DISABLE"), env.get("NCCL_NET")), ("tributary", None, None))

    def test_env_does_the_same(self):
        base = {"PATH": os.environ["PATH"], "NCCL_NET_PLUGIN": "tributary"}
        for side in sides.SIDES:
            changed = sides.changes(base, side, {"NCCL_ENV_PLUGIN": "tributary"})
            text = subprocess.run(sides.words_of(changed) + ["env"], env=base, stdout=subprocess.PIPE, text=True, check=True).stdout
            self.assertEqual(dict(line.split("=", 1) for line in text.splitlines()), sides.environment_of(base, changed))

    def test_the_log_must_show_the_side(self):
        self.assertEqual(sides.check("with", WITH_LOG), "Tributary: net tcp over eth0 10 Gbit/s")
        self.assertEqual(sides.check("without", "NCCL INFO Using network Socket\n"), "Socket")
        left = "NCCL INFO Tributary 0.1.0: RDMA device mlx5_0 is active, so the network is left to NCCL\nNCCL INFO Using network IB\n"
        self.assertIn("mlx5_0", sides.check("with", left))
        for side, log, words in (("with", "NCCL INFO Using network Socket\n", "did not load"), ("with", "", "no log"), ("without", WITH_LOG, "network Tributary"),
                                 ("with", WITH_LOG.replace("Using network Tributary", "Using network Socket"), "network Socket")):
            self.assertRaisesRegex(sides.Failed, words, sides.check, side, log)


class Ranks(unittest.TestCase):
    def test_what_launchers_say(self):
        self.assertEqual(rank.launched({"SLURM_PROCID": "3", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "n[07-08,11],m1"}, "login"),
                         {"RANK": "3", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "MASTER_ADDR": "n07", "MASTER_PORT": rank.PORT})
        self.assertEqual(rank.launched({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, "h")["WORLD_SIZE"], "2")
        step = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "9", "SLURM_LOCALID": "0", "SLURM_JOB_NODELIST": "rack[2-3]node[01,5]-ib,x1"}
        self.assertEqual([rank.launched(step, "h")[name] for name in ("WORLD_SIZE", "MASTER_ADDR")], ["2", "rack2node01-ib"])
        given = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "5"}
        self.assertEqual(rank.launched(given, "h"), given)
        self.assertEqual(rank.launched({}, "h"), {})

    def test_torchrun_starts_no_python(self):
        self.assertEqual(bench.launched(["torchrun", "--nproc-per-node", "2"], ["env"]), ["torchrun", "--nproc-per-node", "2", "--no_python", "env"])
        self.assertEqual(bench.launched(["srun", "-N2"], ["env"]), ["srun", "-N2", "env"])
        self.assertEqual(bench.sizes_given("1024-65536"), [1024, 4096, 16384, 65536])


# A program of nccl-tests', by its environment; FAKE says what is wrong with it.
FAKE_PERF = r'''#!/bin/sh
side=without
[ -n "$NCCL_NET_PLUGIN" ] && [ "$TRIBUTARY_DISABLE" != 1 ] && side=with
printf '%s ' $side >>"$FAKE_TURNS"
turn=$(wc -w <"$FAKE_TURNS")
case $FAKE in
hang) echo $$ >"$FAKE_TURNS.pid"; sleep 600 ;;
"fail $side" | "turn $turn") echo "node01: Test NCCL failure common.cu:1014 'unhandled system error'" >&2; exit 1 ;;
esac
log='h:1:1 [0] NCCL INFO Using network Socket'
[ $side = with ] && [ "$FAKE" != unused ] && log='h:1:1 [0] NCCL INFO Tributary 0.1.0: net tcp over eth0
h:1:1 [0] NCCL INFO Using network Tributary'
echo "$log" >"$NCCL_DEBUG_FILE"
printf '# nThread 1 nGpus 1
#  Rank  0 Group  0
#  Rank  1 Group  0
'
wrong=0
[ "$FAKE" = "wrong $side" ] && wrong=1
for size in 1024 4096 16384; do
	us=20
	[ $side = with ] && [ $size != 1024 ] && us=10
	echo "   $size  $((size / 4))     float     sum      -1  $us.0$((turn % 3))    0.10    0.10      $wrong    $us.00    0.10    0.10      0"
done
exit $wrong
'''
# What starts two ranks here, and says so before each line.
FAKE_LAUNCHER = r'''#!/bin/sh
[ "$1" = -n ] || exit 9
shift 2
"$@" 2>&1 | sed "s/^/[1,0]<stdout>:/"
'''


class Whole(unittest.TestCase):
    """The program itself, with programs of the test's own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.turns = os.path.join(self.folder, "turns")
        self.file("all_reduce_perf", FAKE_PERF)
        self.launcher = self.file("launcher", FAKE_LAUNCHER)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o700)
        return path

    def words(self, *words):
        operations = [] if "--operations" in words else ["--operations", "all_reduce"]
        return [PROGRAM, "bench", "--nccl-tests", self.folder, *operations, *words]

    def run_it(self, *words, fake="", launcher=None, whole=None, **more):
        env = {**os.environ, "FAKE": fake, "FAKE_TURNS": self.turns, "TRIBUTARY_STATE_DIR": self.folder, **more}
        call = whole or self.words(*words) + ["--"] + (launcher or [self.launcher, "-n", "2"])
        done = subprocess.run(call, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr

    def taken(self):
        with open(self.turns, encoding="utf-8") as f:
            return f.read().split()

    def test_sides_take_turns_and_the_sentence_is_last(self):
        status, out, err = self.run_it("--turns", "6")
        self.assertEqual((status, out.splitlines()[-1]), (0, "AllReduce of 4 KiB and more: 2.00 times as fast; nothing slower"), err)
        self.assertEqual(self.taken(), 3 * ["with", "without", "without", "with"])
        self.assertIn("# with: Tributary: net tcp over eth0\n", out)
        self.assertIn("# without: Socket\n", out)

    def test_the_page_has_what_json_prints(self):
        page = os.path.join(self.folder, "page.html")
        status, out, err = self.run_it("--turns", "6", "--json", "--html", page)
        self.assertEqual(status, 0, err)
        with open(page, encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(json.loads(text.split('id="data">')[1].split("</script>")[0]), json.loads(out))
        for bad in ("-", os.path.join(self.folder, "absent", "page.html")):
            status, out, err = self.run_it("--turns", "6", "--html", bad)
            self.assertNotEqual(status, 0)
            self.assertEqual((out, err.count("\n")), ("", 1), err)

    def test_json_csv_and_report(self):
        report = os.path.join(self.folder, "report")
        status, out, err = self.run_it("--turns", "6", "--json", "--report", report, TRIBUTARY_SECRET="hush", NCCL_ALGO="Ring")
        found = json.loads(out)
        self.assertEqual((status, found["format"], found["cases"][1]["ratio"]["median"] > 1.9, found["cases"][0]["pairs"]),
                         (0, "tributary-bench 1", True, 6))
        self.assertEqual(err, found["sentence"] + "\n")
        with open(report, encoding="utf-8") as f:
            text = f.read()
        sent = json.loads(text)
        self.assertNotIn("hush", text)
        self.assertEqual((sent["environment"]["NCCL_ALGO"], len(sent["cases"][0]["with"]["times_s"])), ("Ring", 6))
        self.assertEqual(sent["facts"]["version"]["format"], "tributary-version 1")
        status, out, _ = self.run_it("--turns", "6", "--csv")
        lines = out.splitlines()
        self.assertEqual((status, len(lines), lines[0].split(",")[0]), (0, 4, "operation"))

    def test_a_wrong_result(self):
        self.launcher = self.file("env", "#!/bin/sh\nexec \"$@\"\n")
        status, out, _ = self.run_it("--turns", "6", fake="wrong with", launcher=[self.launcher])
        self.assertEqual(status, 1)
        self.assertRegex(out.splitlines()[-1], r"^WRONG RESULTS with Tributary: AllReduce of 1 KiB \(6 elements\)")

    def test_one_bad_turn_is_left_out(self):
        status, out, _ = self.run_it("--turns", "7", fake="turn 3")
        self.assertEqual((status, out.splitlines()[-1]), (0, "AllReduce of 4 KiB and more: 2.00 times as fast; nothing slower"))
        self.assertIn("# 1 of 7 turns failed and are left out; the first one without Tributary: ", out)

    def test_too_few_good_turns_are_no_comparison(self):
        self.assertIn("1 of 6 turns failed, which are too many; the first one without Tributary: ", self.run_it("--turns", "6", fake="turn 3")[2])

    def test_without_a_baseline_there_is_no_ratio(self):
        status, out, err = self.run_it(fake="fail without")
        self.assertEqual(status, 1)
        self.assertRegex(err, r"^tributary: no ratio, as no turn ended well without Tributary: ")
        self.assertIn("unhandled system error", err)
        self.assertRegex(out, r"(?m)^ +1024 +256 +float +sum +20\.\d+ .* - +- +- +- +-$")
        self.assertEqual(len(self.taken()), 4)   # and no further turns

    def test_what_never_runs(self):
        self.assertRegex(self.run_it(fake="fail with")[2], "no ratio, as no turn ended well with Tributary: ")
        self.assertRegex(self.run_it(fake="unused")[2], "with Tributary: NCCL did not load it; its log names the network Socket")
        status, _, err = self.run_it(launcher=["/nowhere/launcher"])
        self.assertEqual((status, err), (1, "tributary: no turn ended well; the first one with Tributary: /nowhere/launcher cannot be run: No such file or directory\n"))
        self.assertIn("launcher ended with status 9", self.run_it(launcher=[self.launcher, "-x"])[2])
        self.assertRegex(self.run_it(whole=[PROGRAM, "bench", "--nccl-tests", "/nowhere"])[2], "^tributary: there is no nccl-tests in /nowhere: ")

    def test_it_runs_with_the_python_of_the_wheel(self):
        python = self.file("own-python", "#!/bin/sh\necho own $*\n")
        self.assertRegex(self.run_it(whole=[PROGRAM, "bench", "--turns", "6"], _TRIBUTARY_PYTHON=python)[1], "^own -B .*/bench.py .*--turns=6")

    def assert_ended(self):
        with open(self.turns + ".pid", encoding="utf-8") as f:
            pid = int(f.read())
        for _ in range(200):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
        self.fail("what a launcher started is still there")

    def test_a_hang_ends_with_all_that_was_started(self):
        status, _, err = self.run_it("--timeout", "1", fake="hang")
        self.assertEqual(status, 1)
        self.assertIn("no end after 1 s", err)
        self.assert_ended()

    def test_an_interrupt_ends_it_all(self):
        env = {**os.environ, "FAKE": "hang", "FAKE_TURNS": self.turns}
        for number in (signal.SIGINT, signal.SIGTERM):
            if os.path.exists(self.turns + ".pid"):
                os.remove(self.turns + ".pid")
            process = subprocess.Popen(self.words("--", self.launcher, "-n", "2"), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not os.path.exists(self.turns + ".pid") or not os.path.getsize(self.turns + ".pid"):
                time.sleep(0.01)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (1, "tributary: interrupted\n"))
            self.assert_ended()

    def test_an_interrupt_right_after_the_start(self):
        started = []

        def start(*words, **more):
            started.append(Popen(*words, **more))
            os.kill(os.getpid(), signal.SIGINT)
            return started[0]
        Popen = subprocess.Popen
        with unittest.mock.patch.object(launch.subprocess, "Popen", start), self.assertRaises(KeyboardInterrupt):
            launch.run(["sleep", "1000"], os.environ, 1000)
        self.assertEqual(started[0].returncode, -signal.SIGTERM)

    def test_the_first_lines_of_many_ranks_are_kept(self):
        self.assertEqual(list(launch.run(["sh", "-c", "seq 20000 >&2"], os.environ, 60).complaints)[0], "1")

    def test_usage(self):
        for words, expected in ((["--sizes", "4M-1K"], "the smaller first"), (["--sizes", "x"], "FROM-TO"), (["--sizes", "1K-2K-4K"], "FROM-TO"), (["--operations", "reduce"], "some of all_reduce"),
                                (["--turns", "5"], "6 to 101"), (["--metric", "no group"], "group"), (["--metric", "("], "regular expression"),
                                (["--ranks", "4"], "this machine alone"), (["--json", "--csv"], "only one of"),
                                (["--tuning", "best"], "the 16 digits of a table")):
            status, _, err = self.run_it(*words)
            self.assertEqual((status, err.startswith("tributary bench: ")), (2, True), words)
            self.assertIn(expected, err)

    def test_the_testbed_is_the_packages_own_where_there_is_no_such_program(self):
        own = os.path.realpath(os.path.join(ROOT, "tests/testbed/testbed"))
        for word in ("testbed", "/nowhere/tests/testbed/testbed"):
            self.assertEqual(bench.with_testbed([word, "run", "x.bed", "--"]), [sys.executable, "-B", own, "run", "x.bed", "--"])
        for words in ([], ["srun", "testbed"], [own, "run"]):
            self.assertEqual(bench.with_testbed(words), words)

    def test_operations_are_named_as_nccl_tests_pytorch_and_nccl_name_them(self):
        for text in ("all_reduce,sendrecv", "AllReduce,SendRecv", "sendrecv_perf,all_reduce_perf", "all-reduce,send_recv"):
            self.assertEqual(bench.operations_of(text), ["all_reduce", "sendrecv"], text)
        self.assertEqual(bench.operations_of("alltoall_perf,all_gather_into_tensor,reduce_scatter_tensor"), ["all_gather", "reduce_scatter", "all_to_all"])
        self.assertEqual(bench.operations_of("all_to_all_single"), ["all_to_all"])
        for text in ("perf", "all", "", "all_reduce,,sendrecv"):
            self.assertRaises(bench.Usage, bench.operations_of, text)

    def test_local_ranks_of_launchers_with_the_same_names(self):
        slurm = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}
        for more, local in (({"PMI_RANK": "5", "PMI_SIZE": "8", **slurm}, "1"), ({"PMI_RANK": "5", "PMI_SIZE": "8", "PALS_LOCAL_RANKID": "2"}, "2"),
                            ({"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "3"}, "3"), ({"RANK": "5", "WORLD_SIZE": "8"}, "0")):
            found = rank.launched(more, "h")
            self.assertEqual((found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"]), ("5", "8", local))

    JOB = """#!/bin/sh
        network=Tributary first=9 rest=2
        [ "$TRIBUTARY_TUNING" != 0123456789abcdef ] || rest=1
        [ "$TRIBUTARY_DISABLE" != 1 ] || network=Socket first=90 rest=4
        echo "NCCL INFO Using network $network" >"$(echo "$NCCL_DEBUG_FILE" | sed 's/%h/h/; s/%p/1/')"
        printf 'step=%d\nstep=%d\nstep=%d\n' $first $rest $rest
    """

    def job(self, *words):
        return self.run_it(whole=[PROGRAM, "bench", "--turns", "6", *words, "--", self.file("job", self.JOB)])

    def test_a_job_of_ones_own(self):
        self.assertEqual(self.job("--metric", r"step=(\d+)")[1].splitlines()[-1], "your job: 2.000 times as fast [2.000, 2.000]")
        status, out, _ = self.job("--metric", r"step=(\d+)", "--higher")
        self.assertEqual((status, out.splitlines()[-1]), (3, "your job: slower, 0.500 times as fast [0.500, 0.500]"))
        self.assertIn("wall time", self.job("--job")[1])
        one = bench.Bench(bench.options_of(["--program", PROGRAM, "--job", "--", "true"]), None)
        for spread, said_of_it in ((0.1, "no difference beyond 10 %"), (0.3, "too uncertain to tell, 1.000 times as fast [0.700, 1.300]")):
            one.cases = [case("job", 0, 1.0, spread)]
            self.assertEqual(one.job_sentence(), ("your job: " + said_of_it, False))
        self.assertRegex(self.job("--metric", r"step=(\d+)", "--tuning", "0123456789abcdef")[1], r"your job: 4\.000 times")
        self.assertRegex(self.job("--metric", r"speed=(\d+)")[2], "printed nothing on this host that matches --metric")
        for found, said in (("nan", "only numbers above 0"), ("0", "only numbers above 0"), ("x", "no number")):
            with self.assertRaisesRegex(bench.Failed, said):
                bench.Bench(bench.options_of(["--program", PROGRAM, "--metric", "(a)", "--", "true"]), None).number(found)
        self.assertEqual(bench.Bench(bench.options_of(["--program", PROGRAM, "--metric", "(a)", "--", "true"]), None).number("1,234.5"), 1234.5)
        self.assertIn("set TMPDIR to a folder that they share", self.run_it(whole=[PROGRAM, "bench", "--turns", "6", "--job", "--", "true"])[2])

    def test_two_plugins_where_there_is_no_nccl(self):
        status, out, err = self.run_it(whole=[PROGRAM, "bench", "--worker", "plugins", "--ranks", "2", "--sizes", "1K-4K", "--turns", "6", "--seconds", "60"])
        self.assertIn(status, (0, 3), err)
        left_out = re.search("left out, as they would take longer.*", out)  # on a busy machine
        shown = [line for line in out.splitlines() if line.lstrip()[:1].isdigit()]
        self.assertEqual(len(shown) + (left_out[0].count(" of ") if left_out else 0), 10, out)
        self.assertRegex(out.splitlines()[-1], "times|difference|uncertain")

    def test_the_sentence_says_that_other_programs_were_busy(self):
        for load, more in ((0, ""), (1.5, "; other programs were busy (load %.1f on %d cores)" % (os.cpu_count() + 1.5, os.cpu_count()))):
            one = bench.Bench(bench.options_of(["--program", PROGRAM, "--worker", "plugins"]), None)
            with unittest.mock.patch.object(os, "getloadavg", lambda load=load: (os.cpu_count() + load, 0, 0)), \
                    unittest.mock.patch.object(launch, "run", lambda *_, one=one: one.show(case("all_reduce", M, 1.0))):
                self.assertEqual(one.run(), ("no difference beyond 10 %" + more, False))

    def test_a_launcher_whose_ranks_say_nothing(self):
        err = self.run_it(whole=[PROGRAM, "bench", "--worker", "plugins", "--", "true"])[2]
        self.assertEqual(err, "tributary: the launcher ended well and started nothing: no rank said a word\n")
        err = self.run_it(whole=[PROGRAM, "bench", "--worker", "plugins", "--", "sh", "-c", "echo it broke >&2; exit 4"])[2]
        self.assertEqual(err, "tributary: sh ended with status 4\n  it broke\n")


if __name__ == "__main__":
    if not os.access(PROGRAM, os.X_OK):
        sys.exit("no %s: run make" % PROGRAM)
    unittest.main()
