#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What of the GPU tests needs no GPU: expected values, environments, log reading, statistics."""
import contextlib
import io
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
BENCH = os.path.join(HERE, "..", "..", "perf", "bench")
sys.path[:0] = [HERE, BENCH]

import check_gpu  # noqa: E402
import gpu  # noqa: E402
import operations  # noqa: E402
import ranks  # noqa: E402

PLUGIN_LOG = """host:1:2 [0] NCCL INFO Using network Tributary
host:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Tributary/0
host:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Tributary/1(0)/GDRDMA
"""

FAKE_WORKER = """
import json, os, sys
rank = int(os.environ["RANK"])
with open(os.environ["NCCL_DEBUG_FILE"], "w") as f:
    f.write("0[0] -> 1[0] [send] via NET/%s/0\\n" % os.environ.get("FAKE_NET", "Tributary"))
    if os.environ.get("NCCL_COLLNET_ENABLE"):
        f.write("CollNet 00/0 : 0 [send] via COLLNET/%s/0\\n" % os.environ.get("FAKE_COLLNET", "Tributary"))
        f.write("AllReduce: 4 Bytes -> Algo %s proto SIMPLE\\n" % os.environ.get("FAKE_ALGO", "COLLNET_CHAIN"))
for line in sys.stdin:
    question = json.loads(line)
    if question.get("die") == rank:
        sys.exit(3)
    if question.get("hang") == rank:
        continue
    if "env" in question:
        print(json.dumps({"env": {name: os.environ[name] for name in question["env"] if name in os.environ}}), flush=True)
        continue
    wrong = {"error": "no"} if question.get("error") == rank else {"wrong": rank, "us": 10.0 + rank}
    print(json.dumps(wrong), flush=True)
"""


class Operations(unittest.TestCase):
    def test_values_are_exact_in_every_type(self):
        for i in range(1000):
            values = [operations.summand(r, i) for r in range(4)]
            self.assertLessEqual(set(values), {1, 2, 3})
            self.assertLessEqual(operations.reduced(values, "prod"), 81)   # int8's and bfloat16's limits
            self.assertIn(operations.label(i % 16, i), range(1, 98))

    def test_reductions(self):
        values = [3, 1, 2, 2]
        self.assertEqual([operations.reduced(values, op) for op in operations.REDUCTIONS], [8, 12, 3, 1, 2.0])

    def test_special_values_meet_each_other(self):
        count = len(operations.SPECIALS)
        for world in (2, 4):
            met = {tuple(operations.special(rank, i) for rank in range(world)) for i in range(count * count)}
            self.assertEqual(len({(m[0], m[-1]) for m in met}), count * count)
            self.assertIn((0,) * world, met)

    def test_labels_tell_ranks_and_pairs_apart(self):
        for world in (2, 4):
            for i in (0, 1, 96, 97, 5000):
                pairs = [operations.label(operations.pair(a, b, world), i)
                         for a, b in itertools.product(range(world), repeat=2)]
                self.assertEqual(len(set(pairs)), world * world)

    def test_counts_and_bus_factors(self):
        self.assertEqual(operations.count_of("all_reduce", 1024, "float16", 4), 512)
        self.assertEqual(operations.count_of("all_gather", 1024, "float32", 4), 64)
        self.assertEqual(operations.count_of("all_to_all", 1, "float64", 4), 1)
        factors = [operations.bus_factor(op, 4) for op in ("all_reduce", "all_gather", "broadcast")]
        self.assertEqual(factors, [1.5, 0.75, 1])


class Ranks(unittest.TestCase):
    def test_each_rank_is_a_host_of_its_own(self):
        envs = [ranks.environment(ranks.on_one_gpu({"NCCL_NET": "IB", "PATH": "/bin"}, r, 4), "with", 1234, "log", ranks.own_variables())
                for r in range(4)]
        self.assertEqual(len({e["NCCL_HOSTID"] for e in envs}), 4)
        self.assertNotIn("NCCL_NET", envs[0])
        self.assertEqual((envs[2]["RANK"], envs[2]["WORLD_SIZE"], envs[2]["PATH"]), ("2", "4", "/bin"))
        self.assertEqual(envs[0]["NCCL_NET_PLUGIN"], "tributary")

    def test_both_sides_differ_in_the_plugin_alone(self):
        base = ranks.on_one_gpu({"LD_LIBRARY_PATH": "/x"}, 0, 2)
        a, b = (ranks.environment(base, side, 1, "log", ranks.own_variables()) for side in ("with", "without"))
        self.assertEqual({k for k in a.keys() | b.keys() if a.get(k) != b.get(k)},
                         {"NCCL_NET_PLUGIN", "NCCL_NET", "LD_LIBRARY_PATH", "TRIBUTARY_DISABLE"})
        self.assertEqual((b["NCCL_NET_PLUGIN"], b["NCCL_NET"]), ("none", "Socket"))

    def test_transports_from_the_log(self):
        self.assertEqual(ranks.transports(PLUGIN_LOG), {"NET/Tributary"})
        text = "x 0[0] -> 1[1] via P2P/CUMEM\ny 1[1] -> 0[0] via SHM/direct\n"
        self.assertEqual(ranks.transports(text), {"P2P", "SHM"})
        self.assertEqual(ranks.transports("went home via Rome"), set())
        self.assertEqual(ranks.nccl_version("NCCL version 2.28.9+cuda12.9\n"), "2.28.9+cuda12.9")


class Groups(unittest.TestCase):
    """The parent's side, against a worker that answers what the test wants."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(os.path.join(self.folder.name, "worker.py"), "w", encoding="utf-8") as f:
            f.write(FAKE_WORKER)
        real, ranks.HERE = ranks.HERE, self.folder.name
        self.addCleanup(setattr, ranks, "HERE", real)

    def group(self, side="with", **extra):
        return ranks.Group(side, 2, self.folder.name, extra)

    def test_answers_come_in_rank_order(self):
        with self.group() as group:
            self.assertEqual([a["wrong"] for a in group.ask({}, 20)], [0, 1])
            self.assertEqual(group.used(), "Tributary")

    def test_no_connection_takes_a_port_before_it_is_bound(self):
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
            given = int(f.read().split()[0])
        if given <= ranks.PORTS_FROM:
            self.skipTest("the kernel gives all ports to connections here")
        self.assertTrue(all(ranks.PORTS_FROM <= ranks.free_port() < given for _ in range(20)))

    def launched(self):
        """Rank 0 of a job of two, and the program of the other."""
        environs = [{"RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"} for r in range(2)]
        environs[0]["MASTER_PORT"] = environs[1]["MASTER_PORT"] = str(ranks.free_port() - 1)
        environment = unittest.mock.patch.dict(os.environ, environs[0])
        environment.start()
        self.addCleanup(environment.stop)
        first = ranks.Launched(environs[0], {})
        self.addCleanup(first.close)
        text = "import os, ranks, sys; ranks.HERE = %r; sys.exit(ranks.Launched(os.environ, {}).serve())" % ranks.HERE
        other = subprocess.Popen([sys.executable, "-c", text], env={**os.environ, **environs[1], "PYTHONPATH": BENCH})
        self.addCleanup(other.wait)
        self.addCleanup(other.terminate)
        return first, other

    def test_ranks_of_a_launcher_answer_rank_0(self):
        first, other = self.launched()
        with ranks.Group("with", 2, self.folder.name, None, first) as with_, \
                ranks.Group("without", 2, self.folder.name, {"FAKE_NET": "Socket"}, first) as without:
            for _ in range(3):
                for group in with_, without:
                    self.assertEqual([a["wrong"] for a in group.ask({}, 20)], [0, 1])
            with_.used()
            without.used()
        first.close()
        self.assertEqual(other.wait(20), 0)

    def test_strangers_do_not_disturb(self):
        first, other = self.launched()
        for text in b"", b"7\n", b"GET / HTTP/1.1\n", None:
            stranger = socket.create_connection(("127.0.0.1", first.address[1]))
            self.addCleanup(stranger.close)
            if text is not None:
                stranger.sendall(text)
                stranger.shutdown(socket.SHUT_WR)
        with ranks.Group("with", 2, self.folder.name, None, first) as group:
            self.assertEqual([a["wrong"] for a in group.ask({}, 20)], [0, 1])
        first.close()
        self.assertEqual(other.wait(20), 0)
        self.assertRaisesRegex(ranks.Failed, "65536", ranks.Launched, {**os.environ, "MASTER_PORT": "65535"}, {})

    def test_an_order_sets_where_mps_is_and_nothing_else(self):
        first, other = self.launched()
        extra = {"FAKE_NET": "Socket", "FAKE_ALGO": "RING", **dict.fromkeys(ranks.MPS_NAMES, "/mps")}
        with ranks.Group("with", 2, self.folder.name, extra, first) as group:
            self.assertEqual([[a["env"].get(name) for name in extra] for a in group.ask({"env": list(extra)}, 20)],
                             [list(extra.values()), [None, None, "/mps", "/mps"]])
        first.close()
        self.assertEqual(other.wait(20), 0)

    def test_mps_of_its_own(self):
        control = os.path.join(self.folder.name, "nvidia-cuda-mps-control")
        said = os.path.join(self.folder.name, "said")
        with open(control, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\necho \"$* $CUDA_MPS_PIPE_DIRECTORY\" >>%s\n[ -n \"$1\" ] || cat >>%s\n" % (said, said))
        os.chmod(control, 0o700)
        with unittest.mock.patch.dict(os.environ, {"PATH": self.folder.name + ":" + os.environ["PATH"]}), ranks.mps() as env:
            folder = env["CUDA_MPS_PIPE_DIRECTORY"]
            self.assertTrue(os.path.isdir(folder))
        self.assertFalse(os.path.isdir(folder))
        with open(said, encoding="utf-8") as f:
            self.assertEqual(f.read(), "-d %s\n %s\nquit -t 5\n" % (folder, folder))
        with unittest.mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            self.assertRaisesRegex(ranks.Failed, "no MPS", ranks.mps().__enter__)

    def test_a_launched_rank_that_dies_or_is_missing_is_a_failure(self):
        first, other = self.launched()
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaisesRegex(ranks.Failed, "rank 1 of 2: it died"), \
                ranks.Group("with", 2, self.folder.name, None, first) as group:
            group.ask({"die": 1}, 20)
        first.world, first.LIMIT_S = 3, 2
        self.assertRaisesRegex(ranks.Failed, "only 2 of 3 ranks", ranks.Group, "with", 3, self.folder.name, None, first)
        first.close()
        self.assertEqual(other.wait(20), 3)

    def test_another_transport_is_a_failure(self):
        with self.group(FAKE_NET="Socket") as group:
            group.ask({}, 20)
            self.assertRaisesRegex(ranks.Failed, "names the network Socket", group.used)

    def test_collnet_that_is_not_taken_is_a_failure(self):
        with self.group(**ranks.COLLNET) as group:
            group.ask({}, 20)
            group.used_collnet()
        for fake, words in (({}, "no collnet"), ({**ranks.COLLNET, "FAKE_COLLNET": "IB"}, "no collnet"),
                            ({**ranks.COLLNET, "FAKE_ALGO": "RING"}, "took RING")):
            with self.group(**fake) as group:
                group.ask({}, 20)
                self.assertRaisesRegex(ranks.Failed, words, group.used_collnet)

    def test_collnet_is_asked_for_reductions_alone(self):
        questions = list(check_gpu.reductions(4))
        self.assertEqual({q["op"] for q in questions}, {"all_reduce"})
        self.assertEqual({q["type"] for q in questions}, set(operations.TYPES))
        with contextlib.redirect_stdout(io.StringIO()):
            done, wrong, _ = check_gpu.check_collnet(2, self.folder.name, 20, [4])
        self.assertEqual(done, len(list(check_gpu.reductions(2, [4]))) + len(list(check_gpu.specials())))
        self.assertEqual(wrong, done)

    def test_death_hang_and_error_are_failures(self):
        for key, timeout_s, words in (("die", 20, "it died"), ("error", 20, "rank 1 of 2: no"),
                                      ("hang", 0.2, "no answer")):
            with self.group() as group:
                self.assertRaisesRegex(ranks.Failed, words, group.ask, {key: 1}, timeout_s)

    def test_check_counts_wrong_elements(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            done, wrong, _ = check_gpu.check(2, self.folder.name, 20, [4])
        self.assertEqual(len(said.getvalue().splitlines()), done)
        self.assertEqual(done, len(list(check_gpu.cases(2, [4]))))
        self.assertEqual(wrong, done)  # rank 1 says 1 each time

    def test_pairs_alternate_and_take_the_slowest_rank(self):
        with self.group() as with_, self.group("without") as without:
            case = gpu.Case({"with": with_, "without": without}, {}, 3, 1e-2, 20)
            for i in range(3):
                case.pair(i)
        self.assertEqual(case.times, {"with": [11e-6] * 3, "without": [11e-6] * 3})
        self.assertEqual(case.wrong, {"with": 4, "without": 4})


class Bench(unittest.TestCase):
    def test_cases_cover_every_operation_type_and_root(self):
        found = list(check_gpu.cases(4))
        self.assertEqual({c["op"] for c in found}, set(operations.OPERATIONS))
        self.assertEqual({c["type"] for c in found}, set(operations.TYPES))
        self.assertEqual({c["root"] for c in found if c["op"] == "broadcast"}, {0, 1, 2, 3})
        self.assertFalse([c for c in found if c.get("redop") == "avg" and c["type"].startswith(("int", "uint"))])

    def test_iterations_fill_the_time(self):
        self.assertEqual(gpu.iterations(10, 1e5, 1000), 1000)
        self.assertEqual(gpu.iterations(1e6, 1e5, 1000), 3)


if __name__ == "__main__":
    unittest.main()
