# SPDX-License-Identifier: Apache-2.0
"""Runs a command that has an end: it, and all that it started."""
import collections
import os
import signal
import subprocess
import threading
import time

GRACE_S = 10  # for launchers to end what they started on other hosts
LAST = 12     # lines of what it complained of


LINES_MOST = 1 << 18   # of standard error: NCCL writes hundreds for each rank, and the first ones say most


class Failed(Exception):
    """It could not be run, ended badly, or did not end."""


class Output:
    def __init__(self):
        self.lines, self.complaints = [], collections.deque(maxlen=LINES_MOST)

    def text(self):
        return "\n".join(self.lines)

    def log(self):
        """What NCCL says goes to standard error, or to standard output where that is no file that can be opened."""
        return "\n".join(list(self.complaints) + self.lines)

    def last(self):
        said = [line for line in self.complaints if line.strip() and " NCCL INFO " not in line] or self.lines
        return "\n".join("  " + line for line in list(said)[-LAST:])


def end(process):
    """The group, in two steps: srun and mpirun pass the first on."""
    for number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue


def run(words, environment, timeout_s, on_line=None):
    """What it printed, an Output. Raises Failed, whose second argument is an Output, too."""
    output = Output()
    # No interrupt between its start and the place that ends it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask))
    except OSError as e:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise Failed("%s cannot be run: %s" % (words[0], e.strerror), output) from e

    def read(stream, lines, call):
        with stream:
            for line in stream:
                lines.append(line.decode(errors="replace").rstrip("\r\n"))
                if call:
                    call(lines[-1])

    readers = [threading.Thread(target=read, args=args, daemon=True)
               for args in ((process.stdout, output.lines, on_line), (process.stderr, output.complaints, None))]
    for reader in readers:
        reader.start()
    began = time.monotonic()
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        end(process)
        raise Failed("no end after %g s" % timeout_s, output) from None
    finally:
        end(process)   # what it left behind; and all of it where this is interrupted
        for reader in readers:
            reader.join(max(began + timeout_s + GRACE_S - time.monotonic(), 1))
    if process.returncode:
        raise Failed("%s ended with %s" % (os.path.basename(words[0]), "signal %d" % -process.returncode if process.returncode < 0
                                           else "status %d" % process.returncode), output)
    return output
