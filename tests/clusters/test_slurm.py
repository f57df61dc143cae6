#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts for Slurm in packaging/slurm, run with programs of the test's own in the place of Slurm's."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import commands  # noqa: E402

SLURM = pathlib.Path(commands.ROOT, "packaging", "slurm")
NOBODY = 4000000000 - os.getpid()    # a user without processes
PLUGIN_OF = re.compile(r"^(?:NCCL_|TRIBUTARY_|LD_LIBRARY_PATH|SLURM_|PMI)")


class Slurm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.calls = self.work / "calls"
        self.calls.touch()

    def put(self, name, text="exit 0\n"):
        """A program that notes how it was called, and does what the text says."""
        program = self.work / name
        program.write_text(f"#!/bin/sh\n{{ printf '%s ' {name} \"$@\"; echo; }} >>{shlex.quote(str(self.calls))}\n{text}")
        program.chmod(0o755)

    def run_script(self, name, shell="sh", **variables):
        """The script itself, but for where it looks for programs.  Slurm starts a prolog or an epilog without a PATH."""
        text = (SLURM / name).read_text().replace("/usr/local/bin:/usr/bin:/bin", shlex.quote(f"{self.work}:/usr/bin:/bin"))
        script = self.work / f"{name}.run"
        script.write_text(text)
        env = {n: v for n, v in os.environ.items() if not PLUGIN_OF.match(n)}
        env.update(PATH=f"{self.work}:{env['PATH']}", LC_ALL="C", **variables)  # bash complains of a locale that is not there
        if name in ("prolog", "epilog"):
            del env["PATH"]
        return subprocess.run([shutil.which(shell), script], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    def called(self, name):
        return [line[1:] for line in map(str.split, self.calls.read_text().splitlines()) if line[0] == name]

    def test_the_prolog_measures_by_exit_status_and_never_drains_a_node(self):
        self.put("logger")
        for status in 0, 1, 2, 124:
            self.calls.write_text("")
            self.put("tributary", f"echo 'run tributary measure'; echo error >&2; exit {status}\n")
            done = self.run_script("prolog")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            self.assertEqual(self.called("tributary"), [["measure", "--if-missing"]])
            self.assertEqual(len(self.called("logger")), status != 0)
        commands.check(["tributary", *self.called("tributary")[0]])

    def test_the_prolog_ends_without_the_command_and_without_a_log(self):
        self.put("timeout", "exit 127\n")
        self.put("logger", "exit 1\n")
        self.assertEqual(self.run_script("prolog").returncode, 0)
        self.assertIn("exit status 127", " ".join(self.called("logger")[0]))

    def test_the_task_prolog_leaves_a_job_alone_that_does_not_ask(self):
        self.put("tributary", "echo export NCCL_NET_PLUGIN=tributary\n")
        for asked in {}, {"NCCL_NET_PLUGIN": "aws-ofi"}, {"NCCL_ENV_PLUGIN": ""}:
            done = self.run_script("task-prolog", **asked)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), asked)
        self.assertEqual(self.called("tributary"), [])

    def test_the_task_prolog_gives_a_job_that_asks_what_the_command_exports(self):
        os.symlink(os.path.join(commands.BUILD, "tributary"), self.work / "tributary")
        done = self.run_script("task-prolog", NCCL_NET_PLUGIN="tributary", LD_LIBRARY_PATH="/opt/two words:/opt/it's")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        given = dict(line.removeprefix("export ").split("=", 1) for line in done.stdout.splitlines())
        self.assertIn("tributary", given["NCCL_ENV_PLUGIN"])
        # Where the loader finds the plugin by itself there is no path to give.
        if "LD_LIBRARY_PATH" in given:
            self.assertEqual(given["LD_LIBRARY_PATH"], f"{commands.BUILD}/lib:/opt/two words:/opt/it's")

    def test_the_task_prolog_ends_well_where_the_command_fails(self):
        self.put("tributary", "echo export NCCL_NET_PLUGIN=tributary; exit 1\n")
        done = self.run_script("task-prolog", NCCL_ENV_PLUGIN="tributary")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_the_epilog_removes_what_killed_ranks_of_that_user_left(self):
        prefix = re.search(r'NAME_PREFIX "([^"]+)"', pathlib.Path(commands.ROOT, "src/transport/pace/arbiter_file.c").read_text()).group(1)
        shared = pathlib.Path("/dev/shm")
        if not os.access(shared, os.W_OK):
            self.skipTest("/dev/shm cannot be written")
        steering, pace, others = (shared / n for n in (f"tributary-{NOBODY}", f"{prefix}{NOBODY}-1-eth0", f"{prefix}{NOBODY}1-1-eth0"))
        self.addCleanup(lambda: (shutil.rmtree(steering, True), pace.unlink(True), others.unlink(True)))
        steering.mkdir()
        pace.touch()
        others.touch()
        for user in {}, {"SLURM_JOB_UID": "0"}:
            self.assertEqual(self.run_script("epilog", **user).returncode, 0)
        self.put("ps", "echo 17\n")
        self.assertEqual(self.run_script("epilog", SLURM_JOB_UID=str(NOBODY)).returncode, 0)
        self.assertTrue(steering.exists() and pace.exists())
        (self.work / "ps").unlink()
        self.assertEqual(self.run_script("epilog", SLURM_JOB_UID=str(NOBODY)).returncode, 0)
        self.assertEqual([p.exists() for p in (steering, pace, others)], [False, False, True])

    def test_jobs_of_the_batch_script_have_ports_of_their_own(self):
        self.put("scontrol", "echo node7; echo node8\n")
        self.put("srun")
        ports = set()
        for job in range(123456, 123556):
            self.calls.write_text("")
            done = self.run_script("train.sbatch", "bash", SLURM_JOB_ID=str(job), SLURM_JOB_NODELIST="node[7-8]", SLURM_JOB_NUM_NODES="2")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            call, = self.called("srun")
            ports.add(int(re.search(r"--rdzv-endpoint=node7:(\d+) ", " ".join(call)).group(1)))
        self.assertEqual(len(ports), 100)
        self.assertTrue(all(10000 <= p < 20000 for p in ports))
        commands.check(call)
        self.assertEqual(call[call.index("--") + 1], "torchrun")
        self.assertIn("--nnodes=2", call)

    def test_the_page_names_the_scripts(self):
        self.assertEqual(list(commands.named_wrongly("slurm.md", "slurm")), [])

    def test_shellcheck_has_no_complaint(self):
        if not shutil.which("shellcheck"):
            self.skipTest("shellcheck is not installed (Debian: shellcheck)")
        done = subprocess.run(["shellcheck", *SLURM.iterdir()], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


class Commands(unittest.TestCase):
    def test_an_option_that_the_program_does_not_have_is_found(self):
        good = "tributary measure --if-missing --seconds 5", "tributary run --collnet=off -- torchrun --nosuch", "tributary cluster measure --json"
        for line in good:
            commands.check(shlex.split(line))
        for line in ("tributary measure --if-absent", "tributary nosuch", "tributary measure --seconds --quick", "tributary measure --quick=1",
                     "tributaryd --listen", "tributaryd --nosuch 1 -- x", "tributary measure stray"):
            with self.assertRaises(ValueError, msg=line):
                commands.check(shlex.split(line))


unittest.main()
