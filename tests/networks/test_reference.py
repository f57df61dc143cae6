#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The drawn networks, and the rule by which their paths are judged: by hand, on every drawing, and beside the kernel.

Exit 0, 1, or 77 where the kernel refuses namespaces (the rest has passed).
"""
import collections
import errno
import os
import select
import socket
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "testbed")]

import drawing  # noqa: E402
import reference  # noqa: E402

DRAWN = 300
BUILT = range(1000, 1024 if os.environ.get("TRIBUTARY_TEST_LONG") else 1006)
ANSWER_S = 1.0  # for a connection within this machine


def names(found):
    return sorted((p.name, q.name) for p, q in found)


def right(d, a, b, own, peers):
    return names(reference.right_paths(d, a, b, d.hosts[a].port(own), d.hosts[b].port(peers)))


class Rule(unittest.TestCase):
    def test_neighbours_in_a_ring_use_their_cable(self):
        d = drawing.ring_of_cables()
        self.assertTrue(drawing.can_run(d))
        self.assertEqual([p.name for p in reference.devices(d.hosts[0])], ["p0", "p1", "enP7s7"])
        for a, b in d.neighbours():
            cable = ("p0", "p1") if (b - a) % 3 == 1 else ("p1", "p0")
            for device in ("p0", "p1", "enP7s7"):  # a twentieth of the cable is too slow
                self.assertEqual(right(d, a, b, device, device), [cable])

    def test_a_management_network_as_fast_as_an_eighth_carries_its_own(self):
        d = drawing.ring_of_cables(management_Mbps=25000)
        self.assertEqual(right(d, 0, 1, "enP7s7", "enP7s7"), [("enP7s7", "enP7s7")])
        self.assertEqual(right(d, 0, 1, "p0", "p0"), [("p0", "p1")])
        for port in d.ports():
            if port.name == "enP7s7":
                port.speed_Mbps = None
        self.assertEqual(right(d, 0, 1, "enP7s7", "enP7s7"), [("enP7s7", "enP7s7")])

    def test_the_subnet_that_both_have(self):
        d = drawing.unequal_ports()
        for own in ("ens1", "ens2"):
            self.assertEqual(right(d, 0, 1, own, "ens9"), [("ens2", "ens9")])
            self.assertEqual(right(d, 1, 0, "ens9", own), [("ens9", "ens2")])
        d = drawing.unequal_ports(order=("ens2", "ens1"))
        # The own port leads to another port of the peer.
        self.assertEqual(right(d, 0, 1, "ens1", "ens1"), [("ens1", "ens2")])
        self.assertEqual(right(d, 1, 0, "ens2", "ens2"), [("ens2", "ens1")])

    def test_a_family_that_both_have(self):
        d = drawing.one_family_each()
        self.assertEqual(right(d, 0, 1, "ens1", "ens1"), [("ens1", "ens1")])
        d.hosts[0].ports[0].families = "4"
        self.assertFalse(drawing.can_run(d))
        self.assertEqual(right(d, 0, 1, "ens1", "ens1"), [])

    def test_equal_hosts_use_the_ports_of_their_devices(self):
        for one_subnet in (False, True):
            d = drawing.equal_hosts(one_subnet=one_subnet)
            self.assertEqual(right(d, 0, 3, "e1", "e1"), [("e1", "e1")])
            # The own port leads to it in one subnet, and to its like in several.
            self.assertEqual(right(d, 0, 3, "e1", "e0"), [("e1", "e0" if one_subnet else "e1")])

    def test_of_equal_rank_the_faster_and_the_slower_end_counts(self):
        d = drawing.Drawing("three in one subnet")
        switch = d.segment()
        a, b = d.host("a"), d.host("b")
        d.port(a, "x", d.segment("lone"))
        d.port(a, "fast", switch, speed_Mbps=100000)
        d.port(a, "slow", switch, speed_Mbps=25000)
        d.port(b, "own", d.segment("lone"))
        d.port(b, "one", switch, speed_Mbps=50000)
        d.port(b, "two", switch, speed_Mbps=50000)
        self.assertEqual(right(d, 0, 1, "x", "own"), [("fast", "one"), ("fast", "two")])
        self.assertEqual(right(d, 0, 1, "slow", "own"), [("slow", "one"), ("slow", "two")])
        self.assertEqual(right(d, 0, 1, "x", "two"), [("fast", "two")])
        self.assertEqual(right(d, 0, 1, "slow", "two"), [("slow", "two")])

    def test_what_leads_nowhere_is_no_path(self):
        d = drawing.equal_hosts(hosts=2, ports=1)
        halves = d.segments[0], d.segment(subnet=d.segments[0].subnet)
        d.hosts[1].ports[0].segment = halves[1]
        self.assertEqual(right(d, 0, 1, "e0", "e0"), [])
        d = drawing.equal_hosts(hosts=2, ports=2)
        d.hosts[1].ports[1].state = "down"
        self.assertEqual(right(d, 0, 1, "e1", "e0"), [("e0", "e0")])
        for host in d.hosts:
            d.port(host, "bmc0", d.segment("lone"), private=drawing.TWIN)
        self.assertEqual(right(d, 0, 1, "bmc0", "bmc0"), [("e0", "e0")])


class Drawn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.drawn = [drawing.draw(seed) for seed in range(DRAWN)]

    def test_a_seed_draws_the_same_again(self):
        self.assertEqual([d.show() for d in self.drawn], [drawing.draw(seed).show() for seed in range(DRAWN)])

    def test_each_can_be_built(self):
        for d in self.drawn:
            with self.subTest(d.show()):
                self.assertTrue(2 <= len(d.hosts) <= 5)
                for host in d.hosts:
                    self.assertTrue(host.usable())
                    self.assertEqual(len({p.name for p in host.ports}), len(host.ports))
                addresses = [a for p in d.ports() if not p.private for a in p.addresses().values()]
                self.assertEqual(len(set(addresses)), len(addresses))
                for segment in d.segments:
                    ends = [p for p in d.ports() if p.segment is segment]
                    self.assertLessEqual(len(ends), {"cable": 2, "lone": 1}.get(segment.kind, len(ends)))

    def test_all_that_can_go_wrong_is_among_them(self):
        def count(is_so):
            return sum(map(is_so, self.drawn))
        ports = [p for d in self.drawn for p in d.ports()]
        for what, found, least in (
                ("cannot run", count(lambda d: not drawing.can_run(d)), 5),
                ("can run", count(drawing.can_run), 240),
                ("cables", count(lambda d: any(s.kind == "cable" for s in d.segments)), 60),
                ("split switches", count(lambda d: len({s.subnet for s in d.segments}) < len(d.segments)), 20),
                ("IPv6 alone", sum(p.families == "6" for p in ports), 100),
                ("both families", sum(p.families == "46" for p in ports), 100),
                ("ports that are down", sum(not p.is_usable() for p in ports), 50),
                ("unknown speeds", sum(p.speed_Mbps is None for p in ports), 50),
                ("not in sysfs", sum(p.sysfs == "absent" for p in ports), 20),
                ("addresses of which there are several", sum(bool(p.private) for p in ports), 50),
                ("docker0 of one address", count(lambda d: sum(h.docker for h in d.hosts) > 1), 40),
                ("eight ports", count(lambda d: any(len(h.ports) >= 8 for h in d.hosts)), 20),
                ("two ports in a subnet", count(lambda d: any(map(d.same_subnet, d.hosts))), 60),
                ("a bootstrap of its own", count(lambda d: d.bootstrap is None), 60),
                ("rings", count(lambda d: d.ring), 60)):
            self.assertGreaterEqual(found, least, what)

    def test_each_connection_has_a_right_path_where_there_is_any(self):
        count = collections.Counter()
        for d in self.drawn:
            for _, a, b, own, peers in reference.connections([reference.devices(h) for h in d.hosts], d):
                found = reference.right_paths(d, a, b, own, peers)
                self.assertEqual(bool(found), bool(reference.paths(d, a, b)), d.show())
                self.assertTrue(all(drawing.joined(p, q) for p, q in found), d.show())
                count["all"] += 1
                count["one"] += len(found) == 1
                count["own"] += (own, peers) in found
        # The rule decides: most connections may use one path alone, of many that leave their own.
        self.assertGreater(count["one"], count["all"] // 2)
        self.assertLess(count["own"], count["all"] // 2)


class Kernel(unittest.TestCase):
    """Ports reach each other where the drawing says so, each through its own interface."""
    def test_what_is_built_is_what_was_drawn(self):
        for seed in BUILT:
            d = drawing.draw(seed)
            network = build.Network(d)
            try:
                self.assertEqual(self.reached(network), {pair for pair in self.all_pairs(d) if drawing.joined(*pair)}, d.show())
            finally:
                network.close()

    def all_pairs(self, d):
        return [(p, q) for p in d.ports() for q in d.ports()
                if p.host is not q.host and p.is_usable() and q.is_usable()]

    def attempts(self, d):
        """Within a subnet; to another one there is no route."""
        for p, q in self.all_pairs(d):
            for family in set(p.addresses()) & set(q.addresses()):
                if p.segment.subnet == q.segment.subnet and not p.private and not q.private:
                    yield p, q, family

    def reached(self, network):
        listeners, clients, found = {}, {}, set()
        try:
            for port in network.plan.ports():
                for family, address in port.addresses().items() if port.is_usable() else ():
                    listeners[port, family] = self.listener(network, port, family, address.partition("/")[0])
            for p, q, family in self.attempts(network.plan):
                client = self.client(network, p, family, listeners[q, family].getsockname())
                if client:
                    clients[client] = p, q
            end = time.monotonic() + ANSWER_S
            while clients and time.monotonic() < end:
                for client in select.select([], list(clients), [], max(0, end - time.monotonic()))[1]:
                    pair = clients.pop(client)
                    if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                        found.add(pair)
                    client.close()
        finally:
            for one in [*listeners.values(), *clients]:
                one.close()
        return found

    def new_socket(self, port, family):
        s = socket.socket(socket.AF_INET if family == "4" else socket.AF_INET6, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, port.name.encode())
        return s

    def listener(self, network, port, family, address):
        with network.inside(network.hosts[port.host.name]):
            s = self.new_socket(port, family)
        s.bind((address, 0))
        s.listen(64)
        return s

    def client(self, network, port, family, address):
        with network.inside(network.hosts[port.host.name]):
            s = self.new_socket(port, family)
        s.bind((port.addresses()[family].partition("/")[0], 0))
        error = s.connect_ex(address)
        if error in (0, errno.EINPROGRESS):
            return s
        s.close()
        return None


def main():
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    pure = unittest.TextTestRunner().run(unittest.TestSuite([load(Rule), load(Drawn)]))
    if not pure.wasSuccessful():
        return 1
    return build.in_namespaces(lambda: not unittest.TextTestRunner().run(load(Kernel)).wasSuccessful())


if __name__ == "__main__":
    import build
    sys.exit(main())
