#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tool's own tests: what it makes of commands that fail, of VMs that hang or die, and of wrong descriptions."""
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

from vt import faults  # noqa: E402

VM = os.path.join(HERE, "vm")


def vm(*words, limit=180):
    began = time.monotonic()
    r = subprocess.run([VM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                       timeout=limit, check=False)
    r.seconds = time.monotonic() - began
    return r


def sh(text, *options, **more):
    return vm("run", *options, "--", "/bin/sh", "-c", text, **more)


def left_behind():
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("tributary-vm-")]


class Faults(unittest.TestCase):
    def test_each_form_is_understood(self):
        for text, kind, host, rails, value in (
                ("2 link h1 down", "link", 1, [0, 1], "down"), ("2.5s link h0 rail 1 up", "link", 0, [1], "up"),
                ("0 loss 1% h0", "loss", 0, [0, 1], "1"), ("0 loss 0.5 h0 rail 0", "loss", 0, [0], "0.5"),
                ("3 blackhole h1", "blackhole", 1, [0, 1], ""), ("3 blackhole h1 rail 0 roce", "blackhole", 1, [0], "roce"),
                ("3 blackhole h1 tcp", "blackhole", 1, [0, 1], "tcp"),
                ("4 heal h1", "heal", 1, [0, 1], ""), ("1 kill h0", "kill", 0, [0, 1], "")):
            fault = faults.parse(text, 2, 2)
            self.assertEqual((fault.kind, fault.host, fault.rails, fault.value), (kind, host, rails, value), text)

    def test_anything_else_is_refused(self):
        for text in ("", "soon kill h0", "1 melt h0", "1 kill", "1 kill h2", "1 link h0", "1 link h0 sideways",
                     "1 loss h0", "1 link h0 rail 2 down", "1 kill h0 now", "1 blackhole h0 udp"):
            with self.assertRaises(faults.FaultError, msg=text):
                faults.parse(text, 2, 2)
        with self.assertRaises(faults.FaultError):
            faults.parse("1 link h0 down", 1, 0)


class Commands(unittest.TestCase):
    def test_status_output_environment_and_folder_are_the_commands(self):
        r = sh('echo "out $COLOUR $PWD"; echo err >&2; printf last; exit 42', "--env", "COLOUR=it's \"blue\"")
        self.assertEqual(r.stdout, 'out it\'s "blue" %s\nerr\nlast\n' % os.getcwd(), r.stderr)
        self.assertEqual(r.returncode, 42)

    def test_a_signal_is_128_and_its_number(self):
        self.assertEqual(sh("kill -9 $$").returncode, 137)

    def test_the_host_is_read_only_and_temporary_files_are_the_vms_own(self):
        with tempfile.NamedTemporaryFile(dir=HERE) as f:
            r = sh("echo changed >%s; cat %s; echo x >/tmp/x && cat /tmp/x" % (f.name, f.name))
            self.assertEqual((r.returncode, r.stdout), (0, "changed\nx\n"), r.stderr)
            with open(f.name, "rb") as again:
                self.assertEqual(again.read(), b"")

    def test_what_a_command_leaves_can_be_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(sh("echo kept >/run/vm/left", "--keep", folder).returncode, 0)
            with open(os.path.join(folder, "left"), encoding="ascii") as f:
                self.assertEqual(f.read(), "kept\n")

    def test_the_kernel_is_another_one(self):
        self.assertNotEqual(sh("uname -r").stdout.strip(), os.uname().release)

    def test_two_hosts_see_each_other_and_know_who_they_are(self):
        # The second asks when the command of the first has long ended: its host is there until both have.
        r = sh("echo $RANK/$WORLD_SIZE $TB_ADDR $(hostname); sleep $((RANK * 5)); busybox ping -c 1 -w 20 "
               "$(echo $TB_PEERS | tr , '\\n' | grep -v $TB_ADDR) >/dev/null", "--hosts", "2")
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertEqual(sorted(r.stdout.splitlines()), ["[h0] 0/2 10.77.0.1 h0", "[h1] 1/2 10.77.0.2 h1"])


class Trouble(unittest.TestCase):
    def test_a_command_that_goes_on_is_ended_and_what_it_printed_shown(self):
        r = sh("echo begun; sleep 1000", "--timeout", "3")
        self.assertEqual((r.returncode, r.stdout), (124, "begun\n"))
        self.assertIn("still running after 3 s", r.stderr)

    def test_a_kernel_that_panics_is_a_failure_with_its_last_words(self):
        r = sh("echo begun; sleep 0.5; echo c >/proc/sysrq-trigger; sleep 100", "--timeout", "60")
        self.assertEqual((r.returncode, r.stdout), (125, "begun\n"), r.stderr)
        self.assertIn("h0 died", r.stderr)
        self.assertIn("sysrq", r.stderr)
        self.assertLess(r.seconds, 60)

    def test_a_vm_that_stands_still_has_an_end(self):
        # Nothing runs any more, and nobody in there can say so.
        r = sh("echo begun; sleep 0.5; echo 0 >/proc/sys/kernel/panic; echo c >/proc/sysrq-trigger", "--timeout", "8")
        self.assertEqual((r.returncode, r.stdout), (124, "begun\n"), r.stderr)
        self.assertIn("console", r.stderr)
        self.assertLess(r.seconds, 60)

    def test_a_run_that_is_ended_leaves_nothing(self):
        before = left_behind()
        with subprocess.Popen([VM, "run", "--", "sleep", "1000"], stderr=subprocess.PIPE, text=True) as p:
            time.sleep(6)
            p.terminate()
            _, errors = p.communicate(timeout=30)
        self.assertEqual(p.returncode, 143, errors)
        self.assertEqual([name for name in left_behind() if name not in before], [])

    def test_a_killed_hosts_status_does_not_count_and_the_links_go_down_and_up(self):
        r = sh('if [ $RANK = 1 ]; then sleep 1000; fi; seen=; end=$(($(date +%s) + 60))\n'
               'while [ "$seen" != 101 ] && [ $(date +%s) -lt $end ]; do now=$(cat /sys/class/net/rail0/carrier)\n'
               'case $seen in *$now) ;; *) seen=$seen$now ;; esac; done; echo $seen',
               "--hosts", "2", "--fault", "6 link h0 down", "--fault", "10 link h0 up", "--fault", "12 kill h1")
        self.assertEqual((r.returncode, r.stdout), (0, "[h0] 101\n"), r.stderr)

    def test_a_kill_reaches_processes_of_other_groups(self):
        # `timeout` makes a group of its own. The other host sees whether what it started still listens.
        r = sh("if [ $RANK = 1 ]; then timeout 100 python3 -m http.server 5000; exit 0; fi\n"
               "until busybox nc 10.77.0.2 5000 </dev/null >/dev/null; do sleep 0.2; done; sleep 20\n"
               "! busybox nc 10.77.0.2 5000 </dev/null", "--hosts", "2", "--fault", "15 kill h1", "--timeout", "80")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_a_killed_host_that_does_not_come_to_its_end_is_not_waited_for(self):
        # Who would say that the command has ended is stopped, as by a kernel that hangs.
        r = sh("if [ $RANK = 1 ]; then kill -STOP $PPID; sleep 1000; fi; sleep 25; echo on", "--hosts", "2",
               "--fault", "3 kill h1", "--timeout", "100")
        self.assertEqual((r.returncode, r.stdout), (0, "[h0] on\n"), r.stderr)
        self.assertIn("its kernel has not ended the command", r.stderr)

    def test_lost_packets_and_a_blackhole_lose_packets(self):
        for fault, least, most in (("0 loss 50% h0", 1, 39), ("0 blackhole h0", 40, 40), ("0 heal h0", 0, 0)):
            r = sh('if [ $RANK = 1 ]; then sleep 12; exit 0; fi; sleep 1.5\n'
                   'busybox ping -c 40 -i 0.05 -w 12 10.77.0.2 | grep received', "--hosts", "2", "--fault", fault)
            words = r.stdout.replace(",", "").split()
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            lost = int(words[1]) - int(words[4])
            self.assertTrue(least <= lost <= most, "%s: %s" % (fault, r.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=0)
