#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tributary tune --measure`: the search on surfaces drawn by a seed, what is read of NCCL's log, and the whole with programs of the test's own."""
import contextlib
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "perf", "bench")]
PROGRAM = os.path.realpath(os.path.join(os.environ.pop("TRIBUTARY_BUILD", None) or os.path.join(ROOT, "build"), "tributary"))

import descent  # noqa: E402
import gpu  # noqa: E402
import nccllog  # noqa: E402
import surfaces  # noqa: E402
import tune  # noqa: E402
from surfaces import CELLS  # noqa: E402

OWN = ("ring", "simple", 2)


class Surfaces(unittest.TestCase):
    """Machines of 45 cells each, noise of 1, 3 or 6 % on each time, 3 % on each run, and an outlier in a hundred."""

    @classmethod
    def setUpClass(cls):
        cls.found = [surfaces.Machine(seed, CELLS, seed % 2 == 1).tune() for seed in range(60)]
        cls.gains = [pair for gains, _, _ in cls.found for pair in gains.values()]

    def test_no_table_makes_anything_slower(self):
        self.assertGreater(min(gain for gain, _ in self.gains), 0.98)

    def test_what_can_gain_gains(self):
        could = [gain >= 1.2 for gain, most in self.gains if most >= 1.25]
        self.assertGreater(len(could), 1000)
        self.assertGreater(statistics.mean(could), 0.96)
        self.assertGreater(statistics.median(gain / most for gain, most in self.gains), 0.97)

    def test_times_that_are_off_cost_runs_and_little_gain(self):
        """One in ten is 1.3 to 5 times as long: as emulated hosts that share two cores have it."""
        gains = []
        for seed in range(20):
            machine = surfaces.Machine(seed, CELLS, seed % 2 == 1)
            machine.outliers, machine.noise = 0.1, 0.05
            gains += machine.tune()[0].values()
        self.assertGreater(min(gain for gain, _ in gains), 0.98)
        self.assertGreater(statistics.mean([gain >= 1.2 for gain, most in gains if most >= 1.25]), 0.9)

    def test_all_cells_share_their_runs(self):
        runs = [search.runs for _, search, _ in self.found]
        self.assertLess(statistics.median(runs), 160)
        self.assertLess(max(runs), 230)

    def test_where_nothing_gains_there_is_no_table(self):
        for seed in range(20):
            machine = surfaces.Machine(seed, CELLS, False)
            for surface in machine.surfaces.values():
                surface.us = lambda choice, us=surface.us: us(choice) and 100.0
            gains, search, _ = machine.tune()
            kept = [cell for cell, (gain, _) in gains.items() if gain != 1]
            self.assertEqual(kept, [])

    def test_time_that_runs_out_costs_gain_alone(self):
        for runs in 5, 20, 40:
            machine = surfaces.Machine(7, CELLS, False)
            calls = []
            gains, search, _ = machine.tune(has_time=lambda: calls.append(0) or len(calls) < runs)
            self.assertGreater(min(gain for gain, _ in gains.values()), 0.98)


class Failures(unittest.TestCase):
    """A command that fails, says wrong, or does not take what it is given."""

    def setUp(self):
        self.notes, self.runs = [], []
        self.search = descent.Search(self.once, self.notes.append)
        self.cells = CELLS[:8]
        self.bad = lambda cell, choice: None

    def once(self, choices, cells):
        self.runs.append(choices)
        found = {}
        for cell in cells:
            choice = choices.get(cell, descent.OWN)
            what = self.bad(cell, choice)
            if what == "fails":
                raise descent.Broken("it hung", {} if self.is_silent else found)
            pair = OWN[:2] if choice.algorithm == "-" or what == "not taken" else choice[:2]
            found[cell] = descent.Took(1e-3 if pair == OWN[:2] else 5e-4 if pair == ("tree", "ll") else 2e-3, what == "wrong", *pair, choice.channels or 2)
        return found

    def explore(self):
        return self.search.explore(self.search.untuned(self.cells), 4, [], lambda: len(self.runs) < 1000)

    def test_a_candidate_that_fails_is_dropped_and_no_other(self):
        for self.is_silent in True, False:
            self.setUp()
            culprit = self.cells[3]
            self.bad = lambda cell, choice: "fails" if cell == culprit and choice[:2] == ("tree", "ll") else None
            found = self.explore()
            self.assertEqual({cell for cell, choice in found.items() if choice[:2] == ("tree", "ll")}, set(self.cells) - {culprit})
            self.assertEqual(len([note for note in self.notes if "AllReduce of 32 KiB with tree/ll" in note and "it hung" in note]), 1)

    def test_what_nccl_does_not_take_is_asked_once_of_all_sizes(self):
        self.bad = lambda cell, choice: "not taken" if choice.algorithm == "nvls" else None
        self.explore()
        asked = [(cell, choice) for choices in self.runs for cell, choice in choices.items() if choice.algorithm == "nvls"]
        self.assertEqual(len(asked), 1)

    def test_a_wrong_result_is_no_candidate(self):
        self.bad = lambda cell, choice: "wrong" if choice[:2] == ("tree", "ll") else None
        self.assertEqual(set(self.explore().values()), {descent.OWN})
        self.assertIn("WRONG RESULTS", self.notes[0])

    def test_a_choice_that_is_wrong_now_and_then_enters_no_table(self):
        found, culprit = self.explore(), self.cells[3]
        self.bad = lambda cell, choice: "wrong" if cell == culprit and choice != descent.OWN and len(self.runs) % 4 == 0 else None
        times = self.search.verify(found, 11, lambda: True)
        self.assertEqual({cell for cell in found if descent.holds(times[cell])}, set(self.cells) - {culprit})
        self.assertEqual([note for note in self.notes if "AllReduce of 32 KiB with tree/ll" in note and "WRONG RESULTS" in note], self.notes)
        self.bad = lambda cell, choice: "wrong" if choice == descent.OWN else None
        self.assertRaisesRegex(descent.GaveUp, "wrong without a table", lambda: self.search.verify(found, 11, lambda: True))

    def test_a_command_that_fails_by_itself_is_not_measured(self):
        self.is_silent = True
        self.bad = lambda cell, choice: "fails"
        self.assertRaisesRegex(descent.GaveUp, "without a table: it hung", self.explore)
        self.bad = lambda cell, choice: "wrong"
        self.assertRaisesRegex(descent.GaveUp, "wrong without a table", self.explore)

    def test_a_command_that_fails_with_every_table_ends_it(self):
        self.is_silent = True
        self.bad = lambda cell, choice: "fails" if choice != descent.OWN else None
        self.assertRaisesRegex(descent.GaveUp, "9 runs failed, and none with a table ended well; the last one: it hung", self.explore)

    def test_what_is_faster_only_while_it_is_searched_is_not_kept(self):
        found = self.explore()
        self.assertEqual(len([c for c in found.values() if c[:2] == ("tree", "ll")]), len(self.cells))
        late = []
        self.search.once = lambda choices, cells: late.append(0) or {cell: descent.Took(1e-3 + 1e-6 * (len(late) % 3), 0, None, None, 0) for cell in cells}
        times = self.search.verify(found, 11, lambda: True)
        self.assertEqual([cell for cell in found if descent.holds(times[cell])], [])


LOG = """NCCL version 2.28.9+cuda13.0
h0:9:9 [0] NCCL INFO comm 0x7f959631d010 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
h0:9:9 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer
h0:9:9 [0] NCCL INFO AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
h0:9:9 [0] NCCL INFO AllReduce: 65536 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}
h0:9:9 [0] NCCL INFO AllGather: 16384 Bytes -> Algo COLLNET_DIRECT proto SIMPLE channel{Lo..Hi}={0..0}
"""


class Log(unittest.TestCase):
    def test_what_was_taken(self):
        self.assertEqual(nccllog.ways(LOG, 4), {("all_reduce", 65536): ("tree", "ll", 2), ("all_gather", 65536): ("collnet-direct", "simple", 1)})

    def test_the_communicator(self):
        self.assertEqual(nccllog.shape(LOG), {"nccl": "2.28.9", "ranks": 4, "hosts": 2, "channels": 2})
        self.assertIsNone(nccllog.shape("NCCL version 2.28.9+cuda13.0\n"))


class Torch(unittest.TestCase):
    def test_a_run_times_each_cell_once_and_says_what_nccl_took(self):
        class Group:
            def __init__(self, side, world, *_):
                self.side, self.asked = side, []

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            def ask(self, question, timeout_s):
                self.asked.append(question)
                return [{"us": 100.0 + rank, "wrong": rank} for rank in range(2)]

            def log(self):
                return LOG + LOG
        torch = types.SimpleNamespace(cuda=types.SimpleNamespace(get_device_name=lambda i: "A100"))
        out = io.StringIO()
        with unittest.mock.patch.object(gpu.ranks, "Group", Group), unittest.mock.patch.dict(sys.modules, torch=torch), contextlib.redirect_stdout(out):
            gpu.once(4, {"cells": [["all_reduce", 65536], ["all_gather", 65536]], "timeout": 1, "variables": {}}, "", None, None, None)
        said = [json.loads(line) for line in out.getvalue().splitlines()]
        self.assertEqual([(s["operation"], s["size"], s["wrong"]) for s in said[:2]], [("all_reduce", 65536, 1), ("all_gather", 65536, 1)])
        self.assertAlmostEqual(said[0]["seconds"], 101e-6)
        self.assertEqual((said[2]["gpu"], nccllog.ways(said[2]["text"], 4)), ("A100", nccllog.ways(LOG, 4)))


# A program of nccl-tests', which follows the tuning table as the plugin does; FAKE says what is wrong with it.
FAKE_PERF = r'''#!/usr/bin/env python3
import os, sys, time
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
fake, name = os.environ["FAKE"], os.environ["TRIBUTARY_TUNING"]
folder, table = os.path.join(os.environ["TRIBUTARY_STATE_DIR"], "tuning"), {}
with open(os.environ["FAKE_TURNS"], "a") as f:
    f.write(name + "\n")
    turn = f.tell() // 17
if name != "off":
    with open(os.path.join(folder, name + ".tuning")) as f:
        table = {int(w[2]): w[3:6] for w in map(str.split, f) if w[0] == "choice"}
if fake == "hang" and name != "off":
    with open(os.environ["FAKE_TURNS"] + ".pid", "w") as f:
        f.write(str(os.getpid()))
    time.sleep(600)
if fake == "slow":
    time.sleep(0.2)
print("# nThread 1 nGpus 1\n#  Rank  0 Group  0 Pid 1 on h0 device  0 [0000:07:00] NVIDIA A100\n#  Rank  1 Group  0 Pid 2 on h1 device  0 [0000:07:00] NVIDIA A100")
log = open(os.environ["NCCL_DEBUG_FILE"], "w")
log.write("NCCL version 2.28.9+cuda13.0\nNCCL INFO Tributary 0.1.0: net tcp over eth0 10 Gbit/s\nNCCL INFO Using network Tributary\n")
log.write("NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes %s localRanks 1 localRank 0 MNNVL 0\nNCCL INFO 2 coll channels, 2 collnet channels\n" % os.environ["FAKE_HOSTS"])
size, noise = int(options["-b"]), [1.0, 1.01, 0.995][turn % 3]
while size <= int(options["-e"]):
    way, channels, us = table.get(size, ["-"]), 2, 100
    if fake in ("fast", "hang") and way[0] != "-" and way[:2] in (["tree", "ll"], ["ring", "simple"]):
        taken, channels = way[:2], int(way[2]) or 2
        us = (50 if size > 4096 else 99) if channels == 1 and way[0] == "tree" else 100
    elif fake == "same" and way[0] != "-":
        taken = way[:2]
    else:
        taken = ["ring", "simple"]
    if "TUNING" in os.environ["NCCL_DEBUG_SUBSYS"]:
        log.write("NCCL INFO AllReduce: %d Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%d}\n" % (size, taken[0].upper().replace("-", "_"), taken[1].upper(), channels - 1))
    print("%d %d float sum -1 %.3f 0.1 0.1 0 %.3f 0.1 0.1 0" % (size, size // 4, us * noise, us))
    size *= 2
if fake == "at last" and name != "off" and os.environ["NCCL_DEBUG_SUBSYS"] == "INIT,NET":
    sys.exit(1)
'''


class Whole(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.turns = folder.name, os.path.join(folder.name, "turns")
        path = os.path.join(self.folder, "all_reduce_perf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(FAKE_PERF)
        os.chmod(path, 0o700)

    def words(self, *more):
        standard = {"--operations": "all_reduce", "--sizes": "4K-16K", "--turns": "6"}
        return [PROGRAM, "tune", "--measure", "--nccl-tests", self.folder] + [w for pair in standard.items() if pair[0] not in more for w in pair] + list(more)

    def env(self, fake, hosts=2):
        return {**os.environ, "FAKE": fake, "FAKE_HOSTS": "%d" % hosts, "FAKE_TURNS": self.turns, "TRIBUTARY_STATE_DIR": self.folder}

    def run_it(self, fake, *more, hosts=2):
        done = subprocess.run(self.words(*more), env=self.env(fake, hosts), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
        return done.returncode, done.stdout, done.stderr

    def tables(self):
        folder = os.path.join(self.folder, "tuning")
        return [name for name in os.listdir(folder) if name.endswith(".tuning")] if os.path.isdir(folder) else []

    def test_a_table_and_one_sentence(self):
        status, out, err = self.run_it("fast")
        self.assertEqual(status, 0, err)
        [name] = self.tables()
        self.assertRegex(out.splitlines()[-1], r"^AllReduce of 8 KiB and more: 2\.0\d times as fast with tree/ll on 1 channel; "
                         "table %s: `tributary run --tuning %s` uses it$" % (name[:16], name[:16]))
        with open(os.path.join(self.folder, "tuning", name), encoding="utf-8") as f:
            lines = f.read().splitlines()
        self.assertIn("nccl 2.28.9", lines)
        self.assertIn("gpus NVIDIA A100", lines)
        self.assertIn("network tcp 10 Gbit/s", lines)
        self.assertEqual([line.split()[1:7] for line in lines if line.startswith("choice")],
                         [["allreduce", "8192", "tree", "ll", "1", "0"], ["allreduce", "16384", "tree", "ll", "1", "0"]])

    def test_the_network_in_words(self):
        """As the plugin makes them of its devices: tests/unit/plugin/steer/tuning_test.c has the same."""
        for said, words in (("net tcp over eth0 25 Gbit/s, eth1; TRIBUTARY_STREAMS=2 10 Gbit/s", "tcp 25 Gbit/s"),
                            ("net verbs over mlx5_0:1 25 Gbit/s, mlx5_1:1 100 Mbit/s", "verbs 25.1 Gbit/s"),
                            ("net tcp over eth0, eth1 100 Mbit/s", "tcp 100 Mbit/s"), ("net tcp over eth0, eth1", "tcp"),
                            ("RDMA device mlx5_0 is active, so the network is left to NCCL", None), (None, "not known")):
            told = types.SimpleNamespace(networks={"with": said and "Tributary: " + said})
            self.assertEqual(tune.Tune.network(told), words or said)

    def test_on_one_host_nothing_is_to_be_set(self):
        self.assertIn("use it by themselves", tune.use_of("4bb271278d63b336", 1))

    def test_nothing_faster_no_table(self):
        status, out, err = self.run_it("same", "--json", hosts=1)
        found = json.loads(out)
        self.assertEqual((status, self.tables(), found["format"], found["table"], found["sentence"]),
                         (0, [], "tributary-tuned 1", None, "nothing that was tried is faster than NCCL's own choice by 3 % or more: no table"), err)
        self.assertEqual([(case["size_bytes"], case["is_kept"]) for case in found["cases"]], [(4096 << i, False) for i in range(3)])

    def test_a_tuner_that_is_not_asked(self):
        self.assertIn("NCCL took no choice of the table", self.run_it("")[2])

    def test_time_that_does_not_suffice(self):
        status, _, err = self.run_it("slow", "--seconds", "1")
        self.assertEqual((status, self.tables()), (1, []))
        self.assertRegex(err, "give --seconds [0-9]+ or more")

    def test_an_interrupt_leaves_nothing(self):
        process = subprocess.Popen(self.words(), env=self.env("hang"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(self.turns + ".pid") or not os.path.getsize(self.turns + ".pid"):
            time.sleep(0.01)
        self.assertEqual(len(self.tables()), 1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err, self.tables()), (1, "tributary: interrupted\n", []))

    def test_usage(self):
        for words, expected in ((["--sizes", "3K-4K"], "powers of two"), (["--operations", "sendrecv"], "some of all_reduce"),
                                (["--gpus", "0-3"], "not for --measure"), (["--", "torchrun", "--nnodes=2"], "srun or mpirun")):
            status, _, err = self.run_it("fast", *words)
            self.assertEqual((status, err.startswith("tributary tune: ")), (2, True), err)
            self.assertIn(expected, err)


if __name__ == "__main__":
    unittest.main()
