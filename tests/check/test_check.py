#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`tributary check` over hosts that are network namespaces, with each fault really made.

Exit 0, 1, or 77 where the kernel refuses namespaces.  All that is made lies in a network and a mount namespace of this
process alone, and ends with it.
"""
import concurrent.futures
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
BUILD = os.path.abspath(os.environ.get("TRIBUTARY_BUILD", "build"))
TRIBUTARY = os.path.join(BUILD, "tributary")
LIBRARIES = os.path.join(BUILD, "lib")
PLUGIN = os.path.join(LIBRARIES, "libnccl-net-tributary.so")
SECRET = "one that is long enough to be one"
GUIDE = pathlib.Path(__file__).resolve().parents[2].joinpath("docs/guide/check.md").read_text()
PROCESSES = 6
OK, FAILED, USAGE, WARNINGS, ERRORS = 0, 1, 2, 3, 4


def own_namespaces():
    """Starts again in namespaces of its own, as `ip netns` needs them."""
    if os.environ.get("CHECK_INSIDE"):
        return
    if not shutil.which("ip", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
        print("skipped: no ip (Debian: iproute2)")
        sys.exit(77)
    for more in ([], ["--map-root-user"]):
        words = ["unshare", *more, "--net", "--mount", "--uts", "--ipc"]
        if subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/run"], capture_output=True).returncode == 0:
            os.environ["CHECK_INSIDE"] = "1"
            # What this host's own nccl.conf says is no matter of those here.
            os.execvp(words[0], [*words, "sh", "-c", """mount -t tmpfs none /run && : >/run/nccl.conf || exit
                                 [ ! -e /etc/nccl.conf ] || mount --bind /run/nccl.conf /etc/nccl.conf && exec "$@" """,
                                 "sh", sys.executable, "-B", *sys.argv])
    print("skipped: no namespaces here (neither root nor user namespaces)")
    sys.exit(77)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Net:
    """Hosts, each with interfaces on switches that are bridges in a namespace of theirs."""
    def __init__(self, folder):
        self.folder, self.names, self.bridges = folder, [], set()
        self.settings, self.before = {}, {}  # by host: its environment, what a shell does there first
        ip("netns", "add", "switches")

    def host(self, name, **interfaces):
        """ens1="1.4": an address of network 1, 10.1.0.4."""
        self.names.append(name)
        self.settings[name] = {}
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        for interface, place in interfaces.items():
            network, number = place.split(".")
            bridge, port = "br" + network, name + interface
            if bridge not in self.bridges:
                ip("-n", "switches", "link", "add", bridge, "type", "bridge")
                ip("-n", "switches", "link", "set", bridge, "up")
                self.bridges.add(bridge)
            ip("link", "add", interface, "netns", name, "type", "veth", "peer", "name", port, "netns", "switches")
            ip("-n", "switches", "link", "set", port, "master", bridge, "up")
            ip("-n", name, "addr", "add", "10.%s.0.%s/24" % (network, number), "dev", interface)
            ip("-n", name, "link", "set", interface, "up")

    def close(self):
        for name in [*self.names, "switches"]:
            ip("netns", "del", name)

    def wait(self):
        """A bridge's port forwards at once, but a link that has just come up may say so a little later."""
        for name in self.names:
            end = time.monotonic() + 30
            while b"NO-CARRIER" in subprocess.run(["ip", "-n", name, "link"], capture_output=True, check=True).stdout:
                assert time.monotonic() < end
                time.sleep(0.01)

    def shell(self):
        """What starts a command on a host, as ssh does, with the settings of that host."""
        path = self.folder / "shell"
        lines = ["#!/bin/sh", "host=$1; shift", "case $host in"]
        for name in self.names:
            sets = " ".join("%s='%s'" % item for item in self.settings[name].items())
            lines.append("%s) exec ip netns exec %s env %s sh -c '%s; exec \"$@\"' sh \"$@\" ;;" %
                         (name, name, sets, self.before.get(name, ":")))
        lines += ["refused) echo 'Permission denied (publickey).' >&2; exit 255 ;;",
                  "silent) echo >%s; exec sleep 1000 ;;" % (self.folder / "begun"),
                  "noisy) echo 'Welcome!'; shift; exec ip netns exec %s %s \"$@\" ;;" % (self.names[0], TRIBUTARY),
                  "old) echo 'tributary: there is no command \"check\"' >&2; exit 2 ;;",
                  "endless) exec yes ;;",
                  "chatty) exec yes never >&2 ;;",  # cut at the most that is kept
                  "titled) printf '\\033]0;a\\007'; shift; exec ip netns exec %s %s \"$@\" ;;" % (self.names[0], TRIBUTARY),
                  "hasty) shift; exec ip netns exec %s %s \"$@\" --timeout 1 ;;" % (self.names[0], TRIBUTARY),
                  "esac", "echo \"no host $host\" >&2; exit 255"]
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o755)
        return str(path)

    def check(self, *hosts, env=(), words=()):
        """Exit status, findings as "check verdict subject evidence", the whole answer."""
        self.wait()
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": LIBRARIES, **dict(env)}
        done = subprocess.run([TRIBUTARY, "check", "--json", "--rsh", self.shell(), *words, *(hosts or self.names)],
                              env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode in (FAILED, USAGE):
            return done.returncode, [done.stderr], None
        whole = json.loads(done.stdout)
        assert SECRET not in done.stdout + done.stderr
        return done.returncode, ["%(check)s %(verdict)s %(subject)s %(evidence)s" % f for f in whole["findings"]], whole


class Bench(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tributary-check-", dir="/run"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.net = Net(self.folder)
        self.addCleanup(self.net.close)

    def pair(self):
        self.net.host("a", ens1="1.1")
        self.net.host("b", ens1="1.2")
        return self.net

    def put(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def found(self, status, *beginnings, **how):
        """The findings are those, and no other."""
        hosts = how.pop("hosts", ())
        got, findings, whole = self.net.check(*hosts, **how)
        self.assertEqual((got, len(findings)), (status, len(beginnings)), findings)
        for finding, beginning in zip(findings, beginnings):
            self.assertIn("| `%s` |" % finding.split()[0], GUIDE)
            self.assertTrue(finding.startswith(beginning), "%s\nexpected %s" % (finding, beginning))
        return whole


class Hosts(Bench):
    """By remote shells."""
    def test_nothing_is_wrong(self):
        self.net.host("a", ens1="1.1", ens2="2.1")
        self.net.host("b", ens1="1.2", ens2="2.2")
        self.net.host("c", ens1="1.3", ens2="2.3")
        secret = self.put("secret", SECRET)
        cluster = self.put("cluster", "tributary-cluster 1\nswitch s\nhost %s leaf=s\n" % socket.gethostname())
        whole = self.found(OK, env={"TRIBUTARY_SECRET": secret, "TRIBUTARY_CLUSTER": cluster,
                                    "TRIBUTARY_PORTS": "20000-20009"})
        self.assertEqual(whole["answer"], "A job over 3 hosts will work with Tributary: nothing is wrong in what was "
                                          "checked.")
        first = whole["hosts"][0]
        self.assertEqual(first["plugin"], PLUGIN)
        self.assertEqual([i["address"] for i in first["interfaces"]], ["10.1.0.1", "10.2.0.1"])
        self.assertTrue(all(20000 <= i["port"] <= 20009 for i in first["interfaces"]))
        # From each interface what is in its network, and as routed everything.
        reached = {(r["from"], r["host"], r["to"]) for r in first["reaches"] if not r["error"]}
        self.assertEqual(reached, {(i, h, i) for i in ("ens1", "ens2") for h in "bc"} |
                         {(None, h, i) for i in ("ens1", "ens2") for h in "bc"})

    def test_the_text_has_a_line_for_each_fault_and_a_table(self):
        net = self.pair()
        net.settings["b"]["TRIBUTARY_STREAMS"] = "3"
        net.wait()
        done = subprocess.run([TRIBUTARY, "check", "--rsh", net.shell(), "a", "b"],
                              env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": LIBRARIES}, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, ERRORS)
        self.assertTrue(lines[0].startswith("A job over 2 hosts will not work with Tributary: 1 error. settings: b: "))
        self.assertEqual(lines[2], "settings error b TRIBUTARY_STREAMS is unset on a; 3 on b")
        self.assertTrue(lines[3].startswith("    remedy: "))
        self.assertEqual(lines[6].split(), ["a", "ens1", "10.1.0.1", "1500", "10", "Gbit/s", "-", "ens1"])

    def test_a_value_that_is_not_valid(self):
        net = self.pair()
        for host in "a", "b":
            net.settings[host]["TRIBUTARY_PORTS"] = "70-80"
        whole = net.check()[2]
        self.assertRegex(whole["answer"], r"First, settings: a: TRIBUTARY_PORTS=70-80 is not valid: .* is used\.$")
        self.assertNotIn("..", whole["answer"])

    def test_another_version_of_the_plugin(self):
        net = self.pair()
        other = self.folder / "other"
        other.mkdir()
        version = subprocess.run([TRIBUTARY, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
        library, fake = pathlib.Path(PLUGIN).read_bytes(), "9" + version[1:]
        # The library that NCCL would load there, of another release.
        place = self.place_of_version(library)
        self.assertEqual(library[place:place + len(version)], version.encode())
        library = library[:place] + fake.encode() + library[place + len(version):]
        for name in ("libnccl-net-tributary.so", "libnccl-env-tributary.so"):
            (other / name).write_bytes(library)
        net.settings["b"]["LD_LIBRARY_PATH"] = str(other)
        self.found(ERRORS, "version error b the plugin is %s on a; %s on b" % (version, fake),
                   "version warning b the plugin %s" % other)

    def place_of_version(self, library):
        """Where the file has the symbol's bytes, from nm and readelf."""
        symbols = subprocess.run(["nm", "-D", PLUGIN], capture_output=True, text=True, check=True).stdout
        address = next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" tributary_version"))
        headers = subprocess.run(["readelf", "-lW", PLUGIN], capture_output=True, text=True, check=True).stdout
        for line in headers.splitlines():
            words = line.split()
            if words[:1] == ["LOAD"]:
                offset, start, size = int(words[1], 16), int(words[2], 16), int(words[4], 16)
                if start <= address < start + size:
                    return address - start + offset
        raise AssertionError(headers)

    def test_no_plugin_and_another_one(self):
        net = self.pair()
        net.settings["b"]["LD_LIBRARY_PATH"] = str(self.folder)
        findings = self.found(ERRORS, "plugin error b libnccl-net-tributary.so: cannot open shared object file: No such file or directory; there "
                   "is one in %s" % LIBRARIES,
                   "env-plugin warning b libnccl-env-tributary.so: cannot open")["findings"]
        self.assertNotIn("there is one in", findings[1]["evidence"])
        net.settings["b"] = {"NCCL_NET_PLUGIN": "ofi"}
        self.found(ERRORS, "plugin error b NCCL_NET_PLUGIN=ofi names another plugin",
                   "settings error b NCCL_NET_PLUGIN is unset on a; ofi on b")

    def test_other_settings(self):
        net = self.pair()
        net.settings["a"]["TRIBUTARY_TIMEOUT"] = "7"
        net.settings["b"].update(TRIBUTARY_STREEMS="4", TRIBUTARY_IF="ens")
        findings = self.found(ERRORS, "settings error b TRIBUTARY_TIMEOUT is 7 on a; unset on b",
                              "settings error b TRIBUTARY_STREEMS is unset on a; 4 on b",
                              "settings warning b TRIBUTARY_STREEMS is not")["findings"]
        self.assertIn("nccl.conf", findings[0]["remedy"])
        # What is set here is set there.
        net.settings = {"a": {}, "b": {}}
        self.found(OK, env={"TRIBUTARY_TIMEOUT": "7"})

    def test_a_setting_in_a_file_of_nccl(self):
        net = self.pair()
        net.settings["b"]["NCCL_CONF_FILE"] = self.put("nccl.conf", "TRIBUTARY_PACE=0\n")
        self.found(ERRORS, "settings error b TRIBUTARY_PACE is unset on a; 0 on b")

    def test_other_secrets(self):
        net = self.pair()
        net.settings["a"]["TRIBUTARY_SECRET"] = net.settings["b"]["TRIBUTARY_SECRET"] = "secret"
        (self.folder / "a").mkdir()
        # Of one path on both, as on hosts with file systems of their own.
        shell = pathlib.Path(net.shell())
        for name in "ab":
            (self.folder / name).mkdir(exist_ok=True)
            self.put(name + "/secret", SECRET + name)
        net.shell = lambda: str(shell)
        text = shell.read_text()
        shell.write_text(text.replace("host=$1; shift", "host=$1; shift; cd %s/$host || exit 1" % self.folder))
        self.found(ERRORS, "secret error b the secret is one on a; another on b")
        self.put("b/secret", SECRET + "a", 0o644)
        self.found(ERRORS, "secret error b secret can be read or written by others (mode 0644)")
        self.put("b/secret", SECRET + "a")
        self.found(OK)

    def test_cluster_files(self):
        net = self.pair()
        good = "tributary-cluster 1\nswitch s\nhost %s leaf=s\n" % socket.gethostname()
        path = self.put("cluster", "tributary-cluster 1\nswitch s\nhost nobody leaf=s\n")
        self.found(WARNINGS, "cluster-file warning a,b the cluster file has no host of that name",
                   env={"TRIBUTARY_CLUSTER": path})
        self.put("cluster", good)
        net.settings["b"]["NCCL_CONF_FILE"] = self.put("nccl.conf", "TRIBUTARY_CLUSTER=%s\n" % (self.folder / "other"))
        self.put("other", good + "\n")
        net.settings["a"]["TRIBUTARY_CLUSTER"] = path
        self.found(ERRORS, "settings error b TRIBUTARY_CLUSTER is ",
                   "cluster-file error b the cluster file is one on a; another on b")

    def test_a_blocked_port(self):
        net = self.pair()
        net.host("c", ens1="1.3")
        # Of TCP what a sends to the ports of b, as a firewall between them does; b may still dial a.
        program = ["40 0 0 12", "21 0 7 2048", "48 0 0 23", "21 0 5 6", "32 0 0 30", "21 0 3 %d" % 0x0a010002,
                   "40 0 0 36", "53 0 1 20000", "6 0 0 2", "6 0 0 %d" % 0xffffffff]
        for words in (["qdisc", "add", "dev", "aens1", "clsact"],
                      ["filter", "add", "dev", "aens1", "ingress", "protocol", "all", "bpf", "da", "bytecode",
                       "%d,%s" % (len(program), ",".join(program))]):
            subprocess.run(["tc", "-n", "switches", *words], check=True)
        # The ports that connections of a itself come from are below.
        subprocess.run(["ip", "netns", "exec", "b", "sysctl", "-qw", "net.ipv4.ip_local_port_range=10000 19999"], check=True)
        whole = self.found(ERRORS, "ports error b:ens1 10.1.0.2 TCP port 20000 from a: nothing answers",
                           env={"TRIBUTARY_PORTS": "20000-20009"})
        self.assertIn("Open TCP ports 20000-20009", whole["findings"][0]["remedy"])

    def test_an_address_without_a_way(self):
        self.pair()
        ip("-n", "a", "route", "add", "unreachable", "10.1.0.2")
        whole = self.found(ERRORS, "ports error a:ens1 10.1.0.1 TCP port", "route error b:ens1 10.1.0.2 TCP port")
        self.assertIn("from a: nobody has that address there, or a router rejects it (No route to host)",
                      whole["findings"][1]["evidence"])

    def test_no_port_is_free(self):
        net = self.pair()
        taken = subprocess.Popen(["ip", "netns", "exec", "b", sys.executable, "-c",
                                  "import socket, sys\ns = socket.create_server(('10.1.0.2', 20000))\nprint(flush=True)\n"
                                  "sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(taken.communicate)
        taken.stdout.readline()
        self.found(ERRORS, "ports error b:ens1 cannot listen on 10.1.0.2, TCP ports 20000-20000: Address already in use",
                   env={"TRIBUTARY_PORTS": "20000-20000"})

    def test_long_packets_vanish(self):
        net = self.pair()
        net.host("c", ens1="1.3")
        for name in "abc":
            ip("-n", name, "link", "set", "ens1", "mtu", "9000")
            # Segments as they are on a wire.
            ip("-n", name, "link", "set", "ens1", "gso_max_segs", "1")
        # The link of c alone, in its middle.
        for name in "ab":
            ip("-n", "switches", "link", "set", name + "ens1", "mtu", "9000")
        whole = self.found(ERRORS, "mtu error a:ens1 to c: packets of 9000 bytes vanish on the way",
                           "mtu error b:ens1 to c: packets of 9000 bytes vanish on the way",
                           "mtu error c:ens1 to a and b: packets of 9000 bytes vanish on the way")
        self.assertIn("those of 1500 pass", whole["findings"][0]["evidence"])
        # Both ends have what the way carries.
        for name in "abc":
            ip("-n", name, "link", "set", "ens1", "mtu", "1500")
        self.found(OK)

    def test_unequal_ports(self):
        self.net.host("a", ens1="1.1", ens2="2.1")
        self.net.host("b", ens9="2.2")
        whole = self.found(OK, "route note a:ens1 10.1.0.1 TCP port")
        self.assertIn("from b: no route leads there (Network is unreachable)", whole["findings"][0]["evidence"])
        self.assertIn("NCCL_SOCKET_IFNAME==ens2 on a", whole["findings"][0]["remedy"])

    def test_nccls_variable_keeps_from_a_faster_port(self):
        self.pair()
        self.net.settings["a"]["NCCL_SOCKET_IFNAME"] = "tap0"
        # Of 1 Gbit/s, as long as the file is open.
        tap = subprocess.Popen(["ip", "netns", "exec", "a", sys.executable, "-c", """
import array, fcntl, os, socket, struct, sys
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454ca, struct.pack("16sH22x", b"tap0", 0x1002))
speed = array.array("B", struct.pack("=IIIHBB28x", 2, 0, 0, 1000, 1, 0))
fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sP16x", b"tap0", speed.buffer_info()[0]))
print(flush=True)
sys.stdin.read()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(tap.communicate)
        if not tap.stdout.readline():
            self.skipTest("no tap interfaces here")
        ip("-n", "a", "addr", "add", "10.7.0.1/24", "dev", "tap0")
        ip("-n", "a", "link", "set", "tap0", "up")
        _, findings, whole = self.net.check()
        self.assertIn("interfaces warning a NCCL_SOCKET_IFNAME=tap0 keeps Tributary from ens1 of 10 Gbit/s, which is up and faster "
                      "than tap0", findings)
        self.assertTrue(any("TRIBUTARY_IF=^lo" in f["remedy"] for f in whole["findings"] if f["check"] == "interfaces"))

    def test_no_address_but_of_loopback(self):
        self.net.host("a")
        self.net.host("b")
        self.found(ERRORS, *["route error %s:lo 127.0.0.1 is a loopback address" % host for host in "ab"])

    def test_ipv6_alone_beside_bridges_of_containers(self):
        net = self.pair()
        for name, address in (("a", "fd00::1/64"), ("b", "fd00::2/64")):
            ip("-n", name, "addr", "flush", "dev", "ens1", "scope", "global")
            if subprocess.run(["ip", "-n", name, "addr", "add", address, "dev", "ens1", "nodad"]).returncode:
                self.skipTest("no IPv6 here")
            for bridge, own in (("docker0", "172.17.0.1/16"), ("virbr0", "192.168.122.1/24")):
                ip("-n", name, "link", "add", bridge, "up", "type", "bridge")
                ip("-n", name, "addr", "add", own, "dev", bridge)
                ip("-n", name, "link", "add", "v" + bridge, "up", "master", bridge, "type", "veth", "peer", "c" + bridge)
                ip("-n", name, "link", "set", "c" + bridge, "up")
        whole = self.found(OK)
        self.assertEqual([[i["address"] for i in h["interfaces"]] for h in whole["hosts"]], [["fd00::1"], ["fd00::2"]])

    def test_a_ring_without_a_switch(self):
        for i in range(3):
            self.net.host("abc"[i], ens0="9.%d" % (i + 1), p0="%d.1" % (i + 1), p1="%d.2" % ((i + 2) % 3 + 1))
        whole = self.found(OK, *["route note %s:%s " % (h, p) for h in "abc" for p in ("p0", "p1")])
        self.assertTrue(all("NCCL_SOCKET_IFNAME==ens0 on " in f["remedy"] for f in whole["findings"]))

    def test_an_interface_that_leads_nowhere(self):
        self.net.host("a", ens1="1.1", ens2="1.2")
        self.net.host("b", ens1="1.3")
        subprocess.run(["ip", "netns", "exec", "a", "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0",
                        "net.ipv4.conf.ens1.rp_filter=0"], check=True)
        # Its address is reached by the other interface, but what is sent through it vanishes.
        ip("-n", "switches", "link", "set", "aens2", "nomaster")
        self.found(WARNINGS, "interface warning a:ens2 through it nobody is reached: no answer from b")

    def test_ssh_is_the_shell_without_another(self):
        net = self.pair()
        net.wait()
        programs = self.folder / "bin"
        programs.mkdir()
        # It joins the words, and a shell takes them apart again.
        ssh = programs / "ssh"
        ssh.write_text("#!/bin/sh\n[ \"$1\" = -T ] || exit 9\nshift\nwhile [ \"$1\" = -o ]; do shift 2; done\nhost=$1; shift\n"
                       "exec ip netns exec \"$host\" sh -c \"$*\"\n")
        ssh.chmod(0o755)
        done = subprocess.run([TRIBUTARY, "check", "a", "b"], capture_output=True, text=True,
                              env={"PATH": "%s:%s" % (programs, os.environ["PATH"]), "LD_LIBRARY_PATH": LIBRARIES})
        self.assertEqual((done.returncode, done.stderr), (OK, ""), done.stdout)

    def test_of_many_hosts_each_tries_some_both_ways(self):
        self.net.host("a", ens1="1.1")
        self.net.wait()
        names = ["h%d=1" % i for i in range(20)]  # a variable, for env: all on one host
        done = subprocess.run([TRIBUTARY, "check", "--json", "--timeout", "60", "--rsh", "ip netns exec a env", *names],
                              env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": LIBRARIES}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (OK, ""), done.stdout[:2000])
        tried = {(h["name"], r["host"]) for h in json.loads(done.stdout)["hosts"] for r in h["reaches"]}
        self.assertTrue(all((b, a) in tried for a, b in tried))
        # At distances of 1, 2, 4, 8 and 16, which is 4 the other way round.
        self.assertEqual({len([b for a, b in tried if a == name]) for name in names}, {8})

    def test_hosts_that_do_not_answer(self):
        self.pair()
        begin = time.monotonic()
        whole = self.found(ERRORS, "host error refused does not answer: the remote shell ended: Permission denied (publickey)",
                           "host error silent does not answer: it did not answer within 8 s",
                           "host error old does not answer: the remote shell ended: tributary: there is no command",
                           "host error endless does not answer: it writes much, and no greeting",
                           "host error chatty does not answer: the remote shell ended: neve",
                           hosts=("a", "refused", "silent", "b", "old", "endless", "chatty", "hasty"),
                           words=("--timeout", "8"))
        self.assertLess(time.monotonic() - begin, 60)
        # The others were examined all the same.
        self.assertEqual([h["name"] for h in whole["hosts"] if h["answers"]], ["a", "b", "hasty"])
        self.assertTrue(any(r["host"] == "b" and not r["error"] for r in whole["hosts"][0]["reaches"]))

    def test_a_low_limit_of_files_stays(self):
        net = self.pair()
        net.wait()
        done = subprocess.run(["setpriv", "--bounding-set=-sys_resource", "sh", "-c", "ulimit -f 1000; exec \"$@\"", "sh",
                               TRIBUTARY, "check", "--rsh", net.shell(), "a", "b"], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": LIBRARIES})
        self.assertEqual((done.returncode, done.stderr), (OK, ""), done.stdout)

    def test_a_shell_that_greets_is_no_fault(self):
        self.pair()
        self.found(OK, hosts=("noisy", "b"))
        self.found(OK, hosts=("titled", "b"))

    def test_the_name_stands_where_the_shell_wants_it(self):
        net = self.pair()
        net.wait()
        done = subprocess.run([TRIBUTARY, "check", "--rsh", "ip netns exec {} env --", "a", "b"], capture_output=True,
                              text=True, env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": LIBRARIES})
        self.assertEqual((done.returncode, done.stderr), (OK, ""), done.stdout)

    def test_a_signal_ends_it_at_once(self):
        net = self.pair()
        net.wait()
        process = subprocess.Popen([TRIBUTARY, "check", "--timeout", "600", "--rsh", net.shell(), "silent", "a"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not (self.folder / "begun").exists():
            time.sleep(0.01)
        process.terminate()
        _, messages = process.communicate(timeout=60)
        self.assertEqual((process.returncode, messages), (FAILED, "tributary: interrupted\n"))

    def test_what_cannot_be_asked(self):
        self.pair()
        for hosts, words, sentence in ((("a", "a"), (), "a is named twice"), (("-a",), ("--",), "no host's name"),
                                       (("a",), ("--program", "/x y"), "characters that a shell would take apart"),
                                       (("a",), ("--timeout", "0"), "--timeout")):
            status, lines, _ = self.net.check(*hosts, words=words)
            self.assertEqual(status, USAGE, lines)
            self.assertIn(sentence, lines[0])
        done = subprocess.run([TRIBUTARY, "check"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("tributary check HOST...", done.stderr)
        done = subprocess.run([TRIBUTARY, "check", "--worker"], input="hello\n", capture_output=True, text=True)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn("--worker is for", done.stderr)

    def test_the_secret_is_on_no_command_line(self):
        net = self.pair()
        seen = self.folder / "seen"
        shell = pathlib.Path(net.shell())
        text = shell.read_text()
        shell.write_text(text.replace("host=$1; shift", "echo \"$*\" >>%s; host=$1; shift" % seen))
        net.shell = lambda: str(shell)
        self.found(OK)
        self.assertEqual(sorted(seen.read_text().splitlines()), ["%s %s check --worker" % (h, TRIBUTARY) for h in "ab"])


class Launcher(Bench):
    """As srun or mpirun start it: one process on each host, none of which is told of the others."""
    def ranks(self, present, size, timeout=60, **more):
        processes = []
        secret = self.put("job-secret", SECRET)
        self.net.wait()
        for rank in present:
            name = "abc"[rank]
            env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": LIBRARIES, "RANK": str(rank), "WORLD_SIZE": str(size),
                   "MASTER_ADDR": "10.1.0.1", "MASTER_PORT": "29600", "TRIBUTARY_SECRET": secret, **more.get(name, {})}
            processes.append(subprocess.Popen(
                ["ip", "netns", "exec", name, "unshare", "--uts", sys.executable, "-B", "-c",
                 "import os, socket, sys\nsocket.sethostname(sys.argv[1])\nos.execv(sys.argv[2], sys.argv[2:])", name,
                 TRIBUTARY, "check", "--json", "--timeout", str(timeout)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True))
        outputs = [p.communicate(timeout=200) for p in processes]
        self.assertTrue(outputs[0][0], outputs)
        whole = json.loads(outputs[0][0])
        self.assertEqual([o[0] for o in outputs[1:]], [""] * (len(present) - 1))
        return processes[0].returncode, ["%(check)s %(verdict)s %(subject)s %(evidence)s" % f for f in
                                         whole["findings"]], whole

    def test_nothing_is_wrong(self):
        self.pair()
        status, findings, whole = self.ranks((0, 1), 2)
        self.assertEqual((status, findings), (OK, []))
        self.assertEqual([h["name"] for h in whole["hosts"]], ["a", "b"])

    def test_other_secrets(self):
        self.pair()
        status, findings, _ = self.ranks((0, 1), 2, 10, b={"TRIBUTARY_SECRET": self.put("other", SECRET + "x")})
        self.assertEqual((status, len(findings)), (ERRORS, 1), findings)
        self.assertTrue(findings[0].startswith("host error rank-1 does not answer: it did not come within 10 s"))
        self.assertIn('"b" was refused', findings[0])

    def test_hosts_that_do_not_answer(self):
        self.pair()
        self.net.host("c", ens1="1.3")
        status, findings, whole = self.ranks((0, 2), 3, 10)
        self.assertEqual((status, len(findings)), (ERRORS, 1), findings)
        self.assertTrue(findings[0].startswith("host error rank-1 does not answer: it did not come within 10 s to 10.1.0.1"))
        self.assertTrue(any(r["host"] == "c" and not r["error"] for r in whole["hosts"][0]["reaches"]))

    def test_other_settings(self):
        self.pair()
        status, findings, _ = self.ranks((0, 1), 2, b={"TRIBUTARY_NET": "tcp"})
        self.assertEqual((status, findings), (ERRORS, ["settings error b TRIBUTARY_NET is unset on a; tcp on b"]))


def run_one(name):
    """In namespaces of its own: tests spend their time waiting."""
    done = subprocess.run([sys.executable, "-B", __file__, name], capture_output=True, text=True)
    return name, done.returncode, done.stdout + done.stderr


def run_all():
    names = [case.id().partition(".")[2] for suite in unittest.defaultTestLoader.loadTestsFromModule(
        sys.modules["__main__"]) for case in suite]
    worst = 0
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        for name, status, text in pool.map(run_one, names):
            print("%s: %s" % (name, {0: "ok", 77: "skipped"}.get(status, "failed")))
            if status:
                print(text)
            worst = max(worst, status if status in (0, 77) else 1000)
    return 1 if worst == 1000 else worst


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(run_all())
    own_namespaces()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # with its parent it ends, and with it the namespaces
    unittest.main()
