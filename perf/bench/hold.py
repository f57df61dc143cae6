# SPDX-License-Identifier: Apache-2.0
"""What a launcher starts as one rank of `tributary tune --measure`: hold.py PROGRAM TABLE KEEP COMMAND…

Runs the command while this host has the tuning table (base64 of its text), which a rank needs before its first communicator. A table
that was not here before goes with the command, but for KEEP 1 and a command that ends well.
"""
import base64
import json
import os
import signal
import subprocess
import sys


def install(program, text):
    """{"table": its hash, "file", "is_new"}. Raises OSError, or ValueError with what the program said."""
    done = subprocess.run([program, "tune", "--install", "-", "--json"], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace").strip() or "tributary tune --install ended with status %d" % done.returncode)
    return json.loads(done.stdout)


def remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:   # another rank of this host was first
        pass


def main(program, table, keep, *words):
    process = None

    def end(number, _):
        if process:
            process.send_signal(number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)   # a terminal's reaches the command by itself
    try:
        held = install(program, base64.urlsafe_b64decode(table))
    except (OSError, ValueError) as e:
        print("the tuning table cannot be kept on this host: %s" % e, file=sys.stderr)
        return 1
    status = 1
    try:
        process = subprocess.Popen(words, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        status = process.wait()
    finally:
        if held["is_new"] and (status or keep != "1"):
            remove(held["file"])
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
