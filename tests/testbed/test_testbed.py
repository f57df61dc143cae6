#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The test-bed's own tests. Exit 0, 1, or 77 when the kernel refused a part (which is named)."""
import collections
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

from tb import bed, cluster, count, faults, net, show, units  # noqa: E402

TESTBED = os.path.join(HERE, "testbed")
PROCESSES = 4
stalls = None  # of this process


def alone(test):
    """For tests that look at all runs on the machine."""
    test.alone = True
    return test


class Stalls(threading.Thread):
    """For how long, all in all, the machine kept back a thread that wanted to go on."""
    STEP_S = 0.005

    def __init__(self):
        super().__init__(daemon=True)
        self.seconds = 0.0
        self.start()

    def run(self):
        while True:
            began = time.monotonic()
            time.sleep(self.STEP_S)
            self.seconds += max(0.0, time.monotonic() - began - self.STEP_S)


def faults_in_time(test):
    """For tests in which ranks meet a fault at a time: again if a fault was late, or the machine stood still."""
    @functools.wraps(test)
    def tries(self):
        for more in range(5, -1, -1):
            self.late_s, before_s = 0.0, stalls.seconds
            try:
                return test(self)
            except AssertionError as e:
                stalled_s = stalls.seconds - before_s
                if not more or (self.late_s < 0.05 and stalled_s < 0.1):
                    raise
                print("again: %s: a fault was %.3f s late, the machine stood still for %.3f s: %s" %
                      (test.__name__, self.late_s, stalled_s, e), file=sys.stderr)
        return None
    return tries


PAIR = "hosts 2\nrate 100Mbit\nbuffer 1MB\noffload off\n"

SENDER = """
import os, socket, struct, time
size, peers = %d, os.environ["TB_PEERS"].split(",")
if os.environ["RANK"] == "0":
    got, began = 0, b""
    with socket.create_server(("", 5000)) as listener:
        with listener.accept()[0] as c:
            while True:
                data = c.recv(1 << 20)
                began = (began + data)[:8]
                got += len(data)
                if not data:
                    break
            print("%%d %%.6f" %% (got, time.monotonic() - struct.unpack("d", began)[0]))
else:
    while True:
        began = time.monotonic()
        try:
            c = socket.create_connection((peers[0], 5000))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    c.sendall(struct.pack("d", began) + bytes(size - 8))
    c.close()
"""

# Several flows at once, each of as many bytes, to ports that follow each other.
FLOWS = """
import os, socket, threading, time
flows, size, peer = %d, %d, os.environ["TB_PEERS"].split(",")[0]
def take(listener):
    c = listener.accept()[0]
    while c.recv(1 << 20):
        pass
    c.shutdown(socket.SHUT_WR)
def give(port):
    while True:
        try:
            c = socket.create_connection((peer, port))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    began = time.monotonic()
    c.sendall(bytes(size))
    c.shutdown(socket.SHUT_WR)
    c.recv(1)
    os.write(1, b"%%.6f %%.6f\\n" %% (began, time.monotonic()))  # whole, whatever the other threads print
first = os.environ["RANK"] == "0"
ends = [socket.create_server(("", 5000 + i)) if first else 5000 + i for i in range(flows)]
threads = [threading.Thread(target=take if first else give, args=(end,)) for end in ends]
for t in threads:
    t.start()
for t in threads:
    t.join()
"""

DATAGRAMS = """
import os, socket, time
peers = os.environ["TB_PEERS"].split(",")
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if os.environ["RANK"] == "1":
    for i in range(%d):
        s.sendto(bytes(1000), (peers[0], 9))
"""

ROUND_TRIPS = """
import os, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((os.environ["TB_ADDR"], 5000))
peer, sent = (os.environ["TB_PEERS"].split(",")[0], 5000), 0
while os.environ["RANK"] == "0":
    what, sender = s.recvfrom(9)
    if what == b"end":
        break
    s.sendto(what, sender)
for i in range(%d if os.environ["RANK"] == "1" else 0):
    wait_s, answer = 0.1, None
    while answer is None:  # the first may come before the other end does
        began, sent = time.monotonic(), sent + 1
        s.settimeout(wait_s)
        s.sendto(b"%%d" %% sent, peer)
        try:
            while answer != sent:  # one may be that to the try before
                answer = int(s.recv(9))
        except TimeoutError:
            wait_s, answer = 2 * wait_s, None
    print("%%.6f" %% (time.monotonic() - began))
s.sendto(b"end", peer)
"""

# One rank sends so many datagrams once the other one is there, which waits for those that are not lost.
LOSSES = """
import os, socket, time
sender, sent, come = %d, %d, %d
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((os.environ["TB_ADDR"], 5000))
peer = (os.environ["TB_PEERS"].split(",")[1 - int(os.environ["RANK"])], 5000)
if os.environ["RANK"] == str(sender):
    s.recv(9)
    for i in range(sent):
        s.sendto(bytes(1000), peer)
else:
    s.settimeout(0.1)
    while come:
        try:
            s.recv(1000)
            come -= 1
        except TimeoutError:
            s.sendto(b"here", peer)
"""

# Several pairs of threads, each of which moves as many bytes. Prints the seconds, and how many cores there are.
THREADS = """
import os, socket, threading, time
pairs, size = %d, %d
def take(s):
    got = 0
    while got < size:
        got += len(s.recv(1 << 16))
sockets = [socket.socketpair() for _ in range(pairs)]
threads = [threading.Thread(target=a.sendall, args=(bytes(size),)) for a, _ in sockets]
threads += [threading.Thread(target=take, args=(b,)) for _, b in sockets]
began = time.monotonic()
for t in threads:
    t.start()
for t in threads:
    t.join()
print(time.monotonic() - began, len(os.sched_getaffinity(0)), os.cpu_count())
"""

FAR = "hosts 2\nleaf a h0\nleaf b h1\noffload off\n"


def splitmix64(seed):
    """The generator of src/base/random.h."""
    while True:
        seed = (seed + 0x9e3779b97f4a7c15) % 2**64
        z = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9 % 2**64
        z = (z ^ z >> 27) * 0x94d049bb133111eb % 2**64
        yield z ^ z >> 31


def column(text):
    """Where the parser points: (line, column, message)."""
    try:
        bed.parse("x.bed", text)
    except bed.BedError as e:
        m = re.fullmatch(r"x\.bed:(\d+):(\d+): (.*)", str(e))
        return int(m.group(1)), int(m.group(2)), m.group(3)
    return None


class Parsing(unittest.TestCase):
    def test_errors_name_line_and_column(self):
        for text, line, col, words in (
                ("hosts 2\nrait 1Gbit\n", 2, 1, "'rait' is not a fact"),
                ("hosts 2\nrate 10Gb\n", 2, 6, "'10Gb' is not a rate"),
                ("hosts 2\nrate\n", 2, 5, "expected a rate"),
                ("hosts 2\n\n  rate 1Gbit h0 h7 # no such\n", 3, 17, "there is no host 'h7'"),
                ("hosts 2\nrate 1Gbit h0 rail 1\n", 2, 20, "not a number from 0 to 0"),
                ("hosts 2\nflow 1Gbit,2Gb\n", 2, 6, "'2Gb' is not a rate"),
                ("hosts 2\nflow 1Gbit h1\n", 1, 1, "its link has no rate: add 'rate R h1'"),
                ("hosts 2\nmtu 1500 9000\n", 2, 10, "one word too many"),
                ("hosts 2\nbuffer 0B\n", 2, 8, "outside 1B to 2GiB"),
                ("hosts 0\n", 1, 7, "not a number from 1 to 250"),
                ("host a a\n", 1, 8, "already taken"),
                ("host eth0\n", 1, 6, "uses itself"),
                ("host averylongname\n", 1, 6, "longer than 12"),
                ("hosts 2\norder h0\n", 2, 7, "every host once"),
                ("hosts 2\nleaf a h0\nleaf b h0\n", 3, 8, "already on leaf a"),
                ("hosts 2\nleaf a h0\n", 1, 1, "h1 is on no leaf"),
                ("hosts 2\nleaf a h0\nleaf b h1\n", 1, 1, "an uplink is missing"),
                ("hosts 1\nleaf a h0\nspine s\nuplink a s\nuplink s a\n", 1, 1, "closes a loop"),
                ("hosts 2\nleaf a h0\nleaf b h1\nuplink a b rate 1Gbit paths 65\n", 4, 29, "from 1 to 64"),
                ("hosts 2\nleaf a h0\nleaf b h1\nuplink a b loss 0.1\n", 4, 17, "not a share such as 0.1%"),
                ("hosts 2\nleaf a h0\nleaf b h1\nuplink a b loss 101%\n", 4, 17, "above 100%"),
                ("hosts 2\nleaf a h0\nleaf b h1\nuplink a b delay 5m\n", 4, 18, "not a time"),
                ("hosts 1\nleaf relay0a h0\n", 2, 6, "uses itself"),
                ("hosts 2\nleaf a h0\nleaf b h1\nuplink a b paths 4\n", 1, 1, "no rate that they share"),
                ("hosts 1\nleaf a h0\nuplink a z\n", 3, 10, "no leaf or spine 'z'"),
                ("hosts 2\nat 1s rate 1Gbit\n", 2, 12, "has none to change"),
                ("hosts 2\nat 1s partition h0 from h0\n", 2, 25, "two groups"),
                ("hosts 2\nat soon heal\n", 2, 4, "not a time"),
                ("hosts 2\nsysctl kernel.pid_max 1\n", 2, 8, "not a sysctl of net"),
                ("hosts 2\nservice h2 true\n", 2, 9, "there is no host 'h2'"),
                ("hosts 2\nservice h1\n", 2, 11, "expected a command"),
                ("hosts 2\naggregator h1 70000\n", 2, 15, "not a number from 1 to 65535"),
                ("hosts 1\nservice h0 true\n", 1, 1, "none is left"),
                ("# nothing\n", 1, 1, "there are no hosts")):
            with self.subTest(text=text):
                found = column(text)
                self.assertIsNotNone(found, "parsed without complaint")
                self.assertEqual(found[:2], (line, col), found[2])
                self.assertIn(words, found[2])

    def test_facts_replace_earlier_ones_in_order(self):
        b = bed.parse("x.bed", "hosts 3\nrails 2\nrate 1Gbit\nrate 400Mbit h1-h2 rail 1\nrate 10Mbit h2 rail 1 out\n"
                               "buffer 100KB h0\nrto_min 4ms h0\nsysctl h1 net.ipv4.tcp_rmem 1 2 3\n")
        rates = [[(k.out.rate_bps, k.in_.rate_bps) for k in h.links] for h in b.hosts]
        self.assertEqual(rates, [[(10**9, 10**9)] * 2, [(10**9, 10**9), (4 * 10**8, 4 * 10**8)],
                                 [(10**9, 10**9), (10**7, 4 * 10**8)]])
        self.assertEqual([h.links[0].in_.queue_bytes for h in b.hosts], [100_000, 1_000_000, 1_000_000])
        self.assertEqual([h.rto_min_us for h in b.hosts], [4000, None, None])
        self.assertEqual([h.sysctls for h in b.hosts], [{}, {"net.ipv4.tcp_rmem": "1 2 3"}, {}])

    def test_uplink_is_one_however_often_it_is_spoken_of(self):
        b = bed.parse("x.bed", "hosts 2\nleaf a h0\nleaf b h1\nuplink a b rate 1Gbit 10Mbit\nuplink a b buffer 64KiB\n")
        self.assertEqual([(u.ab.rate_bps, u.ba.rate_bps, u.ab.queue_bytes) for u in b.uplinks], [(10**9, 10**7, 65536)])

    def test_names_addresses_and_ports_are_distinct(self):
        b = bed.parse("x.bed", "hosts 250\nrails 16\nhost far-away\n")
        for part in ("addr", "addr6", "mac", "port"):
            self.assertEqual(len({getattr(k, part) for k in b.links()}), 251 * 16)
        self.assertTrue(all(len(k.port) <= bed.IF_NAME_MAX for k in b.links()))

    def test_order_and_faults_sorted_by_time(self):
        b = bed.parse("x.bed", "hosts 2\norder h1 h0\nat 3s heal\nat 500ms kill rank 1\n")
        self.assertEqual(b.order, ["h1", "h0"])
        self.assertEqual([(f.at_s, f.kind) for f in b.faults], [(0.5, "signal"), (3.0, "heal")])

    def test_services_have_hosts_of_their_own(self):
        b = bed.parse("x.bed", "hosts 4\norder h3 h2 h1 h0\naggregator h1 4791\nservice h2 run $TB_ADDR  -x\n"
                               "service h2 other\n")
        self.assertEqual(b.rank_hosts(), ["h3", "h0"])
        self.assertEqual((b.services, b.aggregators), ([("h2", "other")], [("h1", 4791)]))

    def test_cluster_file_says_what_the_links_are(self):
        two = ("hosts 4\nleaf a h0,h2\nleaf b h1,h3\nuplink a b rate 100Mbit 50Mbit\nrate 400Mbit\nrate none h1\n"
               "aggregator h3 4791\nrate 1.5Gbit h3\n")
        self.assertEqual(cluster.text(bed.parse("two.bed", two)).splitlines()[1:], [
            "tributary-cluster 1", "switch top", "switch a parent=top up=100Mbit/s down=50Mbit/s",
            "switch b parent=top up=50Mbit/s down=100Mbit/s", "host h0 leaf=a rate=400Mbit/s", "host h1 leaf=b",
            "host h2 leaf=a rate=400Mbit/s", "aggregator 10.80.0.4:4791 leaf=b rate=1500Mbit/s"])
        tree = "hosts 2\nleaf l0 h0\nleaf l1 h1\nspine t\nspine s\nuplink l0 s\nuplink s t rate 10Mbit\nuplink l1 t\n"
        self.assertEqual(cluster.text(bed.parse("tree.bed", tree)).splitlines()[2:], [
            "switch t", "switch s parent=t rate=10Mbit/s", "switch l0 parent=s", "switch l1 parent=t",
            "host h0 leaf=l0", "host h1 leaf=l1"])
        self.assertEqual(cluster.text(bed.parse("one.bed", "hosts 1\n")).splitlines()[2:],
                         ["switch leaf", "host h0 leaf=leaf"])

    def test_frames_find_their_way_over_the_spine(self):
        b = bed.parse("x.bed", "hosts 2\nleaf l0 h0\nleaf l1 h1\nspine s\nuplink l0 s\nuplink l1 s\n")
        self.assertEqual(net.next_hops(b), {("s", "l0"): "up0b", ("l1", "l0"): "up1a",
                                            ("s", "l1"): "up1b", ("l0", "l1"): "up0a"})
        self.assertEqual(len(net.table_lines(b)), 2 * 3)

    def test_units(self):
        self.assertEqual(units.rate_bps("1.5Gbit"), 1_500_000_000)
        self.assertEqual((units.size_bytes("100KB"), units.size_bytes("64KiB")), (100_000, 65536))
        self.assertEqual((units.time_s("4ms"), units.time_s("2")), (0.004, 2.0))
        self.assertEqual(units.show_rate(1_500_000_000), "1500Mbit")
        for bad in ("", "-1", "1e3", "nan", "1 s", "1S"):
            self.assertRaises(ValueError, units.time_s, bad)

    def test_partition_program_drops_exactly_the_named(self):
        macs = [k.mac for k in bed.parse("x.bed", "hosts 3").links()]
        words = faults.block_program(macs[:2]).split(",")
        self.assertEqual(int(words[0]), len(words) - 1)
        for mac, verdict in zip(macs, (2, 2, 0xffffffff)):
            self.assertEqual(self.bpf(words[1:], bytes.fromhex(mac.replace(":", ""))), verdict)

    def test_flows_are_hashed_to_classes_by_their_ports(self):
        minor = self.hashed(net.FLOW_CLASSES, net.SPREAD)
        near = [minor(0x800, 20, 6, 40000 + 2 * i, 5000) for i in range(net.FLOW_CLASSES)]
        self.assertEqual(set(near), set(range(net.FIRST_FLOW, net.FIRST_FLOW + net.FLOW_CLASSES)))
        for other in ((0x800, 24, 6), (0x800, 20, 17), (0x86dd, 40, 6), (0x86dd, 40, 17)):
            self.assertEqual(minor(*other, 40006, 5000), near[3], other)
        self.assertEqual(minor(0x800, 20, 6, 65535, 65535), net.FIRST_FLOW + 65534 // 2 % net.FLOW_CLASSES)
        for other in ((0x800, 20, 1), (0x86dd, 40, 58), (0x806, 28, 6)):
            self.assertEqual(minor(*other, 40006, 5000), 0, other)

    def test_paths_are_taken_as_by_chance(self):
        minor = self.hashed(4, net.MIXED)
        of = collections.Counter(minor(0x800, 20, 6, 40000 + 2 * i, 5000) - net.FIRST_FLOW for i in range(4000))
        self.assertEqual(sorted(of), [0, 1, 2, 3])
        self.assertTrue(all(900 < n < 1100 for n in of.values()), of)
        # Four flows that follow each other are on four paths in 4! / 4^4 = 9 % of all cases.
        four = [len({minor(0x800, 20, 6, 32768 + 8 * i + 2 * k, 5000) for k in range(4)}) for i in range(3000)]
        self.assertTrue(0.08 < four.count(4) / len(four) < 0.11, four.count(4))
        b = bed.parse("x.bed", "hosts 2\nleaf a h0\nleaf b h1\nuplink a b rate 1Gbit 200Mbit paths 4\n")
        self.assertEqual([list(net.leaf_rates(s).values()) for s in (b.uplinks[0].ab, b.uplinks[0].ba)],
                         [[10**9] + [25 * 10**7] * 4, [2 * 10**8] + [5 * 10**7] * 4])
        self.assertIn("out 1Gbit, 1MB, 4 paths", "\n".join(show.picture(b)))
        b = bed.parse("x.bed", FAR + "uplink a b delay 5ms loss 0.1%\n")
        self.assertEqual("\n".join(show.picture(b)).count("  one way 5ms, loses 0.1%\n"), 2)

    def hashed(self, classes, mixer):
        """The class, as tc finds it, of (EtherType, bytes of the IP header, protocol, source port, destination port)."""
        words = net.hash_program(classes, mixer).split(",")
        self.assertEqual(int(words[0]), len(words) - 1)

        def minor(ethertype, header, protocol, sport, dport):
            ip = bytearray(header)
            ip[0] = 0x40 | header // 4
            ip[9 if ethertype == 0x800 else 6] = protocol
            ports = sport.to_bytes(2, "big") + dport.to_bytes(2, "big")
            verdict = self.bpf(words[1:], bytes(12) + ethertype.to_bytes(2, "big") + ip + ports + bytes(20))
            return verdict and verdict - 0x10000
        return minor

    def test_unequal_flows_are_dealt_to_the_classes_in_turn(self):
        b = bed.parse("x.bed", "hosts 2\nrate 2Gbit\nflow 400Mbit,50Mbit h0\n")
        rates = net.leaf_rates(b.hosts[0].links[0].out)
        self.assertEqual(rates.pop(net.OTHERS), 2 * 10**9)
        self.assertEqual(list(rates.values()), [4 * 10**8, 5 * 10**7] * (net.FLOW_CLASSES // 2))
        self.assertEqual(net.leaf_rates(b.hosts[1].links[0].out), {})
        self.assertIn("out 2Gbit, 1000 packets, a flow 400Mbit or 50Mbit", "\n".join(show.picture(b)))

    @staticmethod
    def bpf(program, packet):
        pc, a, x = 0, 0, 0
        while True:
            code, jt, jf, k = map(int, program[pc].split())
            pc += 1
            if code in (0x20, 0x28, 0x30, 0x40):
                at = k + (x if code == 0x40 else 0)
                a = int.from_bytes(packet[at:at + {0x28: 2, 0x30: 1}.get(code, 4)], "big")
            elif code == 0xb1:
                x = 4 * (packet[k] & 15)
            elif code == 0x05:
                pc += k
            elif code == 0x15:
                pc += jt if a == k else jf
            elif code in (0x06, 0x16):
                return k if code == 0x06 else a
            elif code == 0x07:
                x = a
            else:
                a = {0x24: a * k, 0x74: a >> k, 0x94: a % (k or 1), 0x04: a + k, 0xac: a ^ x}[code] & 0xffffffff

    def test_examples_parse_and_have_a_picture(self):
        examples = [f for f in os.listdir(HERE) if f.endswith(".bed")]
        self.assertGreaterEqual(len(examples), 8)
        for name in examples:
            b = bed.load(os.path.join(HERE, name))
            text = "\n".join(show.picture(b))
            for host in b.hosts:
                self.assertIn(host.name, text)

    def test_delta_and_table(self):
        row = ("h0", "leaf", 0, 10**9)
        links = count.delta([row + ([10, 1, 0], 0)], [row + ([110, 3, 2], 1)])
        self.assertEqual(links[0], {"from": "h0", "to": "leaf", "rail": 0, "rate_bps": 10**9, "bytes": 100,
                                    "packets": 2, "drops": 2, "filtered": 1})
        self.assertEqual(len(count.table(links)), 2)


class SlowCores(unittest.TestCase):
    """perf/preload/slowcore.c."""

    def seconds(self, cores, pairs, size):
        library = os.path.join(os.path.dirname(os.environ.get("TB_RELAY", net.RELAY)), "slowcore.so")
        if not os.path.exists(library):
            self.skipTest("%s is not built: make" % library)
        env = dict(os.environ, LD_PRELOAD=library, SLOWCORE_BPS="10000000", SLOWCORE_CORES=str(cores))
        done = subprocess.run([sys.executable, "-c", THREADS % (pairs, size)], env=env, stdout=subprocess.PIPE, text=True,
                              check=True)
        seconds, *counts = done.stdout.split()
        self.assertEqual(counts, [str(cores)] * 2)
        return float(seconds)

    def test_threads_share_the_cores_that_there_are(self):
        # Eight threads move 200 KB each: 160 ms of one core, 20 ms of one of eight.
        self.assertGreater(self.seconds(1, 4, 200_000), 0.15)
        found = []
        while len(found) < 10 and min(found, default=1) > 0.15:  # a busy machine may not get there at once
            found.append(self.seconds(8, 4, 200_000))
            self.assertGreater(found[-1], 0.018)
        self.assertLess(min(found), 0.15)


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run([TESTBED, "check"], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == 77:
            raise unittest.SkipTest(done.stdout.strip().removeprefix("skipped: "))
        assert done.returncode == 0, "testbed check: exit %d" % done.returncode

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "x.bed")
        self.json = os.path.join(self.folder.name, "x.json")
        self.late_s = 0.0

    def command(self, text, command, *options):
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(text)
        return [TESTBED, "run", self.file, "--json", self.json, *options, "--", *command]

    def run_bed(self, text, command, *options):
        """(exit status, stdout, stderr, report)."""
        done = subprocess.run(self.command(text, command, *options), text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        report = None
        if os.path.exists(self.json):
            with open(self.json, encoding="utf-8") as f:
                report = json.load(f)
            self.late_s = max([self.late_s] + [f["done_s"] - f["at_s"] for f in report["faults"]])
        return done.returncode, done.stdout, done.stderr, report

    def link(self, report, sender, receiver):
        return next(k for k in report["links"] if (k["from"], k["to"]) == (sender, receiver))

    def test_rate_holds_and_bytes_are_exact(self):
        size = 6_000_000
        rates = []
        # Never faster. A busy machine may not get there, but far enough to tell it from a wrong unit.
        while len(rates) < 10 and max(rates, default=0) <= 0.3 * 95.7e6:
            status, out, err, report = self.run_bed(PAIR, [sys.executable, "-c", SENDER % size], "--timeout", "60")
            self.assertEqual(status, 0, err)
            got, seconds = out.removeprefix("[h0] ").split()
            self.assertEqual(int(got), size)
            rates.append(size * 8 / float(seconds))
            self.assertLess(rates[-1], 1.15 * 100e6)
            a, b = self.link(report, "h1", "leaf"), self.link(report, "leaf", "h0")
            self.assertEqual((a["drops"], b["drops"]), (0, 0))
            self.assertEqual((a["bytes"], a["packets"]), (b["bytes"], b["packets"]))
            self.assertGreater(a["bytes"], size)
        self.assertGreater(max(rates), 0.3 * 95.7e6, ["%.1f Mbit/s" % (rate / 1e6) for rate in rates])

    def flow_rates(self, text, flows, size):
        """(the fastest flow, all together), in bit/s."""
        status, out, err, _ = self.run_bed(text, [sys.executable, "-c", FLOWS % (flows, size)], "--timeout", "60")
        self.assertEqual(status, 0, err)
        spans = [tuple(map(float, line.split()[1:])) for line in out.splitlines()]
        self.assertEqual(len(spans), flows)
        return (max(8 * size / (end - began) for began, end in spans),
                8 * size * flows / (max(end for _, end in spans) - min(began for began, _ in spans)))

    def test_each_flow_is_capped_and_several_are_not(self):
        text = PAIR + "flow 10Mbit\n"
        sums = []
        while len(sums) < 10 and max(sums, default=0) <= 20e6:  # a busy machine may not get there at once
            fastest, together = self.flow_rates(text, 6, 400_000)
            self.assertLess(fastest, 1.15 * 10e6)
            sums.append(together)
        self.assertGreater(max(sums), 20e6)

    def test_a_flow_gets_one_path_and_several_more(self):
        text = "hosts 2\nleaf a h0\nleaf b h1\nuplink a b rate 80Mbit paths 8\noffload off\n"
        sums = []
        while len(sums) < 10 and max(sums, default=0) <= 20e6:
            fastest, together = self.flow_rates(text, 6, 400_000)
            self.assertLess(fastest, 1.15 * 10e6)
            sums.append(together)
        self.assertGreater(max(sums), 20e6)

    def run_far(self, uplink, script):
        """The report and the output of a run over an uplink with a relay."""
        if not os.access(os.environ.get("TB_RELAY", net.RELAY), os.X_OK):
            self.skipTest("the relay is not built: make")
        status, out, err, report = self.run_bed(FAR + "uplink a b %s\n" % uplink, [sys.executable, "-c", script],
                                                "--timeout", "60", "--no-prefix")
        self.assertEqual((status, report and report["warnings"]), (0, []), err)
        return report, out

    def test_delay_is_never_shorter_and_each_way(self):
        times_s = []
        while len(times_s) < 200 and min(times_s, default=1) > 0.06:  # a busy machine may not get there at once
            times_s += map(float, self.run_far("delay 20ms", ROUND_TRIPS % 20)[1].split())
            self.assertGreaterEqual(min(times_s), 0.04)
        self.assertLess(min(times_s), 0.06)

    def test_loss_is_that_of_its_share_and_each_way_has_its_own(self):
        # A burst that the least buffer of the relay's socket holds, whenever the relay has its turn.
        for sender, ends, seed in ((1, ("b", "a", "h0"), 1), (0, ("a", "b", "h1"), 0)):
            lost = sum(draw < 0.1 * 2**64 for draw, _ in zip(splitmix64(seed), range(100)))
            report, _ = self.run_far("loss 10%", LOSSES % (sender, 100, 100 - lost))
            self.assertTrue(3 < lost < 25)
            uplink, last = self.link(report, *ends[:2]), self.link(report, *ends[1:])
            self.assertEqual((uplink["packets"], uplink["filtered"], last["packets"]), (100, lost, 100 - lost))

    def test_a_relay_that_is_not_there_is_named(self):
        command = self.command(FAR + "uplink a b delay 1ms\n", ["true"])
        done = subprocess.run(command, env=dict(os.environ, TB_RELAY="/no/relay"), stderr=subprocess.PIPE, text=True,
                              check=False)
        self.assertEqual(done.returncode, 125)
        self.assertIn("delay and loss need the relay, /no/relay: No such file or directory: run make", done.stderr)

    def test_a_datagram_is_counted_to_the_byte(self):
        status, _, err, report = self.run_bed(PAIR, [sys.executable, "-c", DATAGRAMS % 7])
        self.assertEqual(status, 0, err)
        for ends in (("h1", "leaf"), ("leaf", "h0")):
            link = self.link(report, *ends)
            self.assertEqual((link["packets"], link["bytes"]), (7, 7 * (1000 + 8 + 20 + 14)))

    def test_overflow_is_counted(self):
        text = PAIR + "rate 10Mbit h0 in\nbuffer 20KB h0\n"
        status, _, err, report = self.run_bed(text, [sys.executable, "-c", DATAGRAMS % 400])
        self.assertEqual(status, 0, err)
        sent, kept = self.link(report, "h1", "leaf"), self.link(report, "leaf", "h0")
        self.assertEqual(sent["packets"], 400)
        self.assertGreater(kept["drops"], 0)
        self.assertLessEqual(kept["packets"] + kept["drops"], 400)

    def test_environment_of_every_rank(self):
        script = ("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $TB_ADDRS $X $(hostname) "
                  "$(ls /sys/class/net)")
        status, out, err, _ = self.run_bed(PAIR + "rails 2\norder h1 h0\n", ["sh", "-c", script], "--per-host", "2",
                                           "--env", "X=y z")
        self.assertEqual(status, 0, err)
        rest = "10.80.0.2 10.80.0.%d,10.81.0.%d y z h%d eth0 eth1 lo"
        self.assertEqual(sorted(out.splitlines()), sorted(
            "[h%d:%d] %d 4 %d 2 " % (h, k, 2 * (1 - h) + k, k) + rest % (h + 1, h + 1, h)
            for h in (0, 1) for k in (0, 1)))

    def test_hosts_have_their_own_boot_id(self):
        _, out, _, report = self.run_bed(PAIR, ["cat", "/proc/sys/kernel/random/boot_id"], "--no-prefix")
        if "the hosts share one boot id" in report["warnings"]:
            self.skipTest("the kernel refuses a boot id of one's own")
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            self.assertEqual(len(set(out.split()) | {f.read().strip()}), 3)

    def test_more_processes_on_one_host(self):
        script = ["sh", "-c", "echo $RANK $WORLD_SIZE $LOCAL_WORLD_SIZE"]
        _, out, err, _ = self.run_bed(PAIR, script, "--per-host", "h0=3")
        self.assertEqual(sorted(out.splitlines()),
                         ["[h0:0] 0 4 3", "[h0:1] 1 4 3", "[h0:2] 2 4 3", "[h1] 3 4 1"], err)

    def test_first_failure_is_the_status(self):
        script = ('[ $RANK = 1 ] && echo $$ >"$0.new" && mv "$0.new" "$0" && exit 5; until [ -e "$0" ]; do sleep 0.01; done; '
                  'read pid <"$0"; while [ -d /proc/$pid ]; do sleep 0.01; done; exit 6')
        status, _, _, report = self.run_bed(PAIR, ["sh", "-c", script, os.path.join(self.folder.name, "pid")])
        self.assertEqual(status, 5)
        self.assertEqual([r["exit"] for r in report["ranks"]], [6, 5])

    def test_command_not_found(self):
        status, _, err, _ = self.run_bed(PAIR, ["/no/such/command"])
        self.assertEqual(status, 127)
        self.assertIn("No such file", err)

    def test_timeout_returns_124(self):
        began = time.monotonic()
        script = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
        status, _, _, report = self.run_bed(PAIR, script, "--timeout", "0.2")
        self.assertEqual((status, report["timed_out"]), (124, True))
        self.assertLess(time.monotonic() - began, 90)

    def test_killed_rank_does_not_count(self):
        script = "[ $RANK = 0 ] || exec sleep 60; echo end"
        status, out, _, report = self.run_bed(PAIR + "at 100ms kill rank 1\n", ["sh", "-c", script])
        self.assertEqual((status, out), (0, "[h0] end\n"))
        self.assertEqual([(r["exit"], r["killed_by_fault"]) for r in report["ranks"]], [(0, False), (137, True)])
        self.assertEqual(len(report["faults"]), 1)

    @faults_in_time
    def test_stop_and_cont(self):
        text = PAIR + "at 50ms stop rank 0\nat 600ms cont rank 0\n"
        status, _, _, report = self.run_bed(text, ["sh", "-c", "sleep 0.2; true"])
        self.assertEqual(status, 0)
        self.assertGreaterEqual(report["ranks"][0]["seconds"], 0.6)
        self.assertLess(report["ranks"][1]["seconds"], report["ranks"][0]["seconds"])

    def test_stopped_for_good_does_not_hang(self):
        script = ["sh", "-c", "[ $RANK = 1 ] || exec sleep 60"]
        status, _, _, report = self.run_bed(PAIR + "at 50ms stop host h0\n", script, "--timeout", "90")
        self.assertEqual((status, report["ranks"][0]["killed_by_fault"]), (0, True))

    @faults_in_time
    def test_link_down_and_up(self):
        script = "sleep 0.3; cat /sys/class/net/eth0/carrier; sleep 0.5; cat /sys/class/net/eth0/carrier"
        text = PAIR + "at 100ms link h0 down\nat 500ms link h0 up\n"
        _, out, err, _ = self.run_bed(text, ["sh", "-c", script])
        lines = out.splitlines()
        self.assertEqual([x for x in lines if "h0" in x], ["[h0] 0", "[h0] 1"], err)
        self.assertEqual([x for x in lines if "h1" in x], ["[h1] 1", "[h1] 1"])

    @faults_in_time
    def test_partition_filters_and_heals(self):
        script = ["sh", "-c", "sleep 0.3; exec %s -c '%s'" % (sys.executable, DATAGRAMS % 5)]
        status, _, err, report = self.run_bed(PAIR + "at 50ms partition h0 from h1\n", script)
        self.assertEqual(status, 0, err)
        self.assertEqual(self.filtered_and_arrived(report), (5, 0))
        _, _, _, report = self.run_bed(PAIR + "at 50ms partition h0 from h1\nat 100ms heal\n", script)
        self.assertEqual(self.filtered_and_arrived(report), (0, 5))

    def filtered_and_arrived(self, report):
        return self.link(report, "h1", "leaf")["filtered"], self.link(report, "leaf", "h0")["packets"]

    @faults_in_time
    def test_rate_change(self):
        text = PAIR + "at 1ms rate 20Mbit h0 in\n"
        script = ["sh", "-c", "sleep 0.2; exec \"$0\" -c \"$1\"", sys.executable, SENDER % 2_000_000]
        _, out, err, _ = self.run_bed(text, script)
        self.assertTrue(out, err)
        rate = 16e6 / float(out.split()[2])
        self.assertTrue(0.7 * 20e6 < rate < 1.3 * 20e6, "%.1f Mbit/s" % (rate / 1e6))

    def test_uplink_carries_only_what_crosses(self):
        text = "hosts 4\nleaf a h0,h2\nleaf b h1,h3\nspine s\nuplink a s rate 50Mbit\nuplink b s\noffload off\n"
        status, _, err, report = self.run_bed(text, [sys.executable, "-c", DATAGRAMS % 3])
        self.assertEqual(status, 0, err)
        packets = {(k["from"], k["to"]): k["packets"] for k in report["links"]}
        for ends in (("h1", "b"), ("b", "s"), ("s", "a"), ("a", "h0")):
            self.assertEqual(packets[ends], 3, ends)
        for host, leaf in (("h2", "a"), ("h3", "b")):
            self.assertEqual((packets[host, leaf], packets[leaf, host]), (0, 0), host)

    def test_hosts_share_no_memory_unless_asked(self):
        name = "testbed-%d" % os.getpid()
        text = ('touch /dev/shm/%s.$RANK "$0.$RANK"; until [ -e "$0.0" ] && [ -e "$0.1" ]; do sleep 0.01; done; '
                'ls /dev/shm | grep -c %s' % (name, name))
        script = ["sh", "-c", text, os.path.join(self.folder.name, "alone")]
        _, out, _, report = self.run_bed(PAIR, script, "--no-prefix")
        if "the hosts share /dev/shm" in report["warnings"]:
            self.skipTest("the kernel refuses a /dev/shm of one's own")
        self.assertEqual(out.split(), ["1", "1"])
        script[-1] = os.path.join(self.folder.name, "shared")
        try:
            _, out, _, _ = self.run_bed(PAIR + "shm shared\n", script, "--no-prefix")
            self.assertEqual(out.split(), ["2", "2"])
        finally:
            for rank in (0, 1):
                os.unlink("/dev/shm/%s.%d" % (name, rank))

    SERVICE = ("exec %s -u -c \"import signal,socket,time; signal.signal(15, lambda *a: (print('bye'), exit(3))); time.sleep(0.2); "
               "l = socket.create_server(('', 4791)); print('up'); time.sleep(60)\"" % sys.executable)

    def test_service_is_up_before_the_command_and_ends_after_it(self):
        text = PAIR + "aggregator h1 4791\nservice h1 %s\n" % self.SERVICE
        script = "exec 3<>/dev/tcp/10.80.0.2/4791 && echo connected of $WORLD_SIZE"
        status, out, err, report = self.run_bed(text, ["bash", "-c", script])
        lines = out.splitlines()  # those of two hosts come in any order
        self.assertEqual((status, lines[:1], sorted(lines)), (0, ["[h1] up"], ["[h0] connected of 1", "[h1] bye", "[h1] up"]), err)
        self.assertEqual([(s["host"], s["exit"]) for s in report["services"]], [("h1", 3)])
        self.assertEqual([r["host"] for r in report["ranks"]], ["h0"])

    def test_service_that_does_not_come_up_fails_the_run(self):
        text = PAIR + "aggregator h1 4791\nservice h1 echo no; exit 4\n"
        status, out, err, report = self.run_bed(text, ["echo", "never"])
        self.assertEqual((status, out), (125, "[h1] no\n"))
        self.assertIn("the service on h1 ended with status 4", err)
        self.assertEqual(report["services"][0]["exit"], 4)

    @faults_in_time
    def test_fault_kills_a_service(self):
        text = PAIR + "service h1 sleep 60\nat 100ms kill host h1\n"
        status, _, err, report = self.run_bed(text, ["sleep", "0.3"])
        self.assertEqual((status, report["services"][0]["exit"]), (0, 137), err)
        self.assertTrue(report["services"][0]["killed_by_fault"])

    def test_cluster_file_reaches_every_host(self):
        _, out, err, _ = self.run_bed(PAIR + "cluster on\n", ["sh", "-c", "grep ^host $TRIBUTARY_CLUSTER"], "--no-prefix")
        self.assertEqual(sorted(out.splitlines()), sorted(2 * ["host h%d leaf=leaf rate=100Mbit/s" % h for h in (0, 1)]), err)
        _, out, _, _ = self.run_bed(PAIR, ["sh", "-c", "echo ${TRIBUTARY_CLUSTER:-none} $(wc -l < $TB_CLUSTER)"], "--no-prefix")
        self.assertEqual(out, 2 * "none 5\n")

    def test_counters_answer_the_first_rank(self):
        ask = ("import os, socket\n"
               "s = socket.socket(fileno=int(os.environ['TB_COUNTERS']))\n"
               "def ask():\n"
               "    s.sendall(b'counters\\n'); text = b''\n"
               "    while not text.endswith(b'\\n\\n'): text += s.recv(65536)\n"
               "    return [row.split() for row in text.decode().split('\\n') if row]\n"
               "before = ask()\n"
               "d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
               "for i in range(3): d.sendto(bytes(1000), ('10.80.0.2', 9))\n"
               "for a, b in zip(before, ask()): print(*b[:3], *[int(y) - int(x) for x, y in zip(a[3:], b[3:])])\n")
        script = '[ $RANK = 0 ] && exec "$0" -c "$1"; [ -z "$TB_COUNTERS" ]'
        status, out, err, _ = self.run_bed(PAIR, ["sh", "-c", script, sys.executable, ask], "--no-prefix")
        self.assertEqual(status, 0, err)
        sent = "%d 3 0" % (3 * (1000 + 8 + 20 + 14))
        rows = [line for line in out.splitlines() if line.startswith(("h0 leaf", "leaf h1"))]
        self.assertEqual(rows, ["h0 leaf 0 " + sent, "leaf h1 0 " + sent], out)

    def test_first_rank_can_cause_a_fault(self):
        ask = ("import os, socket\n"
               "s = socket.socket(fileno=int(os.environ['TB_COUNTERS']))\n"
               "def say(line):\n"
               "    s.sendall(line); text = b''\n"
               "    while not text.endswith(b'\\n\\n'):\n"
               "        text += s.recv(65536) or b'refused\\n\\n'\n"
               "    return 'refused' if b'refused' in text else open('/sys/class/net/eth0/carrier').read().strip()\n"
               "lines = ['counters'] + ['at 0s link %s' % what for what in ('h0 down', 'h0 up', 'h9 up')]\n"
               "print(*[say(line.encode() + b'\\n') for line in lines])\n")
        command = ["sh", "-c", '[ $RANK = 1 ] || exec "$0" -c "$1"', sys.executable, ask]
        status, out, err, report = self.run_bed(PAIR, command, "--no-prefix")
        self.assertEqual((status, out), (0, "1 0 1 refused\n"), err)
        self.assertIn("there is no host 'h9'", err)
        self.assertEqual([f["what"] for f in report["faults"]], ["link h0 down", "link h0 up"])

    def test_ipv6(self):
        if not os.path.exists("/proc/sys/net/ipv6"):
            self.skipTest("the kernel has no IPv6")
        script = SENDER.replace("TB_PEERS", "TB_PEERS6").replace('create_server((""', 'create_server(("::"')
        script = script.replace(", 5000)) as", ", 5000), family=socket.AF_INET6) as") % 100_000
        status, out, err, _ = self.run_bed(PAIR + "ipv6 on\n", [sys.executable, "-c", script], "--timeout", "90")
        self.assertEqual(status, 0, err)
        self.assertEqual(out.split()[1], "100000")

    def marked(self, mark):
        """Processes of ours that carry a mark on their command line, and network namespaces that any process is in."""
        found, spaces = set(), set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    if mark.encode() in f.read():
                        found.add(int(pid))
                        spaces.add(os.stat("/proc/%s/ns/net" % pid).st_ino)
            except OSError:
                continue
        return found, spaces

    @alone
    def test_sigkill_leaves_nothing(self):
        mark = "mark-%d-%d" % (os.getpid(), time.monotonic_ns())
        script = "trap '' TERM HUP INT; (sleep 1000; : %s) & while :; do sleep 1000; done; : %s" % (mark, mark)
        interfaces = os.listdir("/sys/class/net")
        for delay_s in (0.02, 0.1, None):  # while it builds, and while it runs
            process = subprocess.Popen(self.command(PAIR, ["sh", "-c", script]), stderr=subprocess.DEVNULL)
            end = time.monotonic() + (60 if delay_s is None else delay_s)
            is_up = False  # two of the test-bed, two shells, two children, in two namespaces
            while time.monotonic() < end and not is_up:
                # Looked at once: a child that is about to become `sleep` still has the mark, and loses it.
                found, spaces = self.marked(mark)
                is_up = len(found) >= 6 and len(spaces - {os.stat("/proc/self/ns/net").st_ino}) >= 2
                time.sleep(0.01)
            self.assertTrue(is_up or delay_s is not None)
            process.send_signal(signal.SIGKILL)
            process.wait()
            end = time.monotonic() + 60
            while self.marked(mark)[0] and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual(self.marked(mark), (set(), set()))
        self.assertEqual(os.listdir("/sys/class/net"), interfaces)
        done = subprocess.run([TESTBED, "cleanup"], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "0 left by dead runs, 0 ended\n"))

    def test_sigterm_ends_the_run_in_order(self):
        process = subprocess.Popen(self.command(PAIR, ["sh", "-c", "echo up; exec sleep 1000"]), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(sorted(process.stdout.readline() for _ in range(2)), ["[h0] up\n", "[h1] up\n"])
        process.terminate()
        self.assertEqual(process.wait(), 143)
        process.stdout.close()
        with open(self.json, encoding="utf-8") as f:
            self.assertEqual([r["exit"] for r in json.load(f)["ranks"]], [143, 143])

    def test_two_runs_side_by_side(self):
        runs = [subprocess.Popen(self.command(PAIR, ["sh", "-c", "sleep 0.3; hostname"]), stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True) for _ in range(2)]
        for process in runs:
            self.assertEqual(sorted(process.communicate()[0].split()), ["[h0]", "[h1]", "h0", "h1"])
            self.assertEqual(process.returncode, 0)

    def test_unprivileged_user(self):
        if os.geteuid() != 0:
            self.skipTest("the whole run is unprivileged already")
        nobody = 65534

        def demote():
            os.setgroups([])
            os.setgid(nobody)
            os.setuid(nobody)
        os.chmod(self.folder.name, 0o777)
        command = self.command(PAIR, ["sh", "-c", "hostname; ls /sys/class/net"])
        os.chmod(self.file, 0o644)
        if subprocess.run(["test", "-x", TESTBED], preexec_fn=demote, check=False).returncode != 0:
            self.skipTest("an ordinary user cannot read this folder")
        done = subprocess.run(command, preexec_fn=demote, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip().removeprefix("skipped: "))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted("[h%d] %s" % (h, x) for h in (0, 1) for x in ("h%d" % h, "eth0", "lo")))

    def test_shell(self):
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(PAIR)
        done = subprocess.run([TESTBED, "shell", self.file, "h1", "--", "sh", "-c", "hostname; exit 3"],
                              stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, "h1\n"))


class Result(unittest.TextTestResult):
    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        if self.showAll:
            self.stream.write("%.2f s " % (time.monotonic() - self.began))
        super().addSuccess(test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.stream.writeln("skipped: %s: %s" % (test, reason))


class Runner(unittest.TextTestRunner):
    """Deals the tests out to several processes, as most of their time is waited for. Its result: their exit status."""
    resultclass = Result

    def run(self, test):
        tests, alone = [], []
        for one in tests_of(test):
            (alone if hasattr(getattr(one, one._testMethodName), "alone") else tests).append(one)
        statuses = self.run_parts([tests[i::PROCESSES] for i in range(PROCESSES)]) + self.run_parts([alone])
        return max(statuses, key=lambda status: (status not in (0, 77), status), default=5)

    def run_parts(self, parts):
        parts = [part for part in parts if part]
        outputs = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in parts]
        children = [self.start(part, output) for part, output in zip(parts, outputs)]
        statuses = []
        for child, output in zip(children, outputs):
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            output.seek(0)
            sys.stderr.write(output.read())
        return statuses

    def start(self, tests, output):
        global stalls
        child = os.fork()
        if child:
            return child
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        stalls = Stalls()
        result = super().run(unittest.TestSuite(tests))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)


def tests_of(suite):
    for test in suite:
        yield from tests_of(test) if isinstance(test, unittest.TestSuite) else (test,)


if __name__ == "__main__":
    sys.exit(unittest.main(exit=False, testRunner=Runner).result)
