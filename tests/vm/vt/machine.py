# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: QEMU's command line, its process, and the ways to talk to it."""
import ctypes
import os
import re
import shlex
import signal
import socket
import subprocess
import time

from . import kit as kits

MEMORY_MIB = 768
ANSWER_S = 60 # on a machine that has other things to do


def accelerators():
    """KVM only where the CPU really has it: a /dev/kvm that opens may still hang a guest."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        has = re.search(r"^flags\s*:.*\b(vmx|svm)\b", f.read(), re.M)
    if has and os.access("/dev/kvm", os.R_OK | os.W_OK):
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg", "-cpu", "max,la57=off"]


def is_emulated():
    return "tcg" in accelerators()


def tree():
    """Two sockets, each with a host bridge, a root port and a PCIe switch, and on each switch two network cards."""
    words = ["-smp", "2,sockets=2,cores=1,threads=1", "-numa", "dist,src=0,dst=1,val=21"]
    for node in (0, 1):
        words += ["-object", "memory-backend-ram,id=memory%d,size=%dM" % (node, MEMORY_MIB // 2),
                  "-numa", "node,nodeid=%d,cpus=%d,memdev=memory%d" % (node, node, node)]
    # The distance is read after the nodes.
    words = words[:2] + words[4:] + words[2:4]
    chassis = 1
    for node in (0, 1):
        words += ["-device", "pxb-pcie,id=root%d,bus=pcie.0,bus_nr=%d,numa_node=%d" % (node, 0x20 + 0x40 * node, node),
                  "-device", "pcie-root-port,id=port%d,bus=root%d,chassis=%d,slot=0,x-speed=16,x-width=16"
                  % (node, node, chassis),
                  "-device", "x3130-upstream,id=up%d,bus=port%d" % (node, node)]
        chassis += 1
        for slot in (0, 1):
            words += ["-device", "xio3130-downstream,id=down%d%d,bus=up%d,chassis=%d,slot=%d"
                      % (node, slot, node, chassis, slot)]
            chassis += 1
        for slot, kind in enumerate(("e1000e", "virtio-net-pci")):
            words += ["-netdev", "hubport,id=hub%d%d,hubid=%d" % (node, slot, node),
                      "-device", "%s,netdev=hub%d%d,bus=down%d%d,mac=52:54:00:78:0%d:0%d"
                      % (kind, node, slot, node, slot, node, slot)]
    return words


MACHINES = {"plain": (lambda: ["-smp", "1"], ("base", "rdma", "net")),
            "tree": (tree, ("base", "rdma", "tree"))}


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


class Machine:
    """A VM with a folder of its own, which it shares: start() boots it."""

    def __init__(self, number, folder, options):
        self.number, self.options = number, options
        self.name = "h%d" % number
        self.share = os.path.join(folder, self.name)
        self.console = os.path.join(folder, self.name + ".console")
        self.errors = os.path.join(folder, self.name + ".qemu")
        self.folder = folder
        self.process = None
        self.killed_s = None  # when a fault killed its command: whose status does not count then
        self.ended_s = None
        self.printed = 0
        os.mkdir(self.share)

    def path(self, name):
        return os.path.join(self.share, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def start(self, kit, environment):
        settings = {"VM_HOST": self.number, "VM_HOSTS": self.options.hosts, "VM_RAILS": self.options.rails,
                    "VM_MACHINE": self.options.machine, "VM_MODULES": ",".join(MACHINES[self.options.machine][1]),
                    "VM_GUEST": kits.GUEST, "VM_FOLDER": os.getcwd()}
        lines = ["%s=%s" % (name, shlex.quote(str(value))) for name, value in settings.items()]
        self.write("settings", "\n".join(lines) + "\n")
        exports = ["export %s=%s" % (name, shlex.quote(value)) for name, value in environment.items()]
        self.write("command", "\n".join(exports + ["exec " + shlex.join(self.options.command)]) + "\n")
        self.write("output", "")
        self.write("start", os.path.join(kits.GUEST, "start") + "\n")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(self.words(kit), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                            preexec_fn=die_with_parent, start_new_session=True)

    def words(self, kit):
        machine, modules = MACHINES[self.options.machine]
        kernel = ("console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr vm.modules=%s" % ",".join(modules))
        return [kits.QEMU, "-name", self.name, "-machine", "q35", "-m", "%dM" % MEMORY_MIB, "-nodefaults",
                "-no-user-config", "-display", "none", "-no-reboot", *accelerators(),
                "-kernel", kit.kernel, "-initrd", kit.initramfs, "-append", kernel,
                "-serial", "file:" + self.console,
                "-serial", "unix:%s,server=on,wait=off" % self.socket("agent"),
                "-monitor", "unix:%s,server=on,wait=off" % self.socket("monitor"),
                "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
                "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
                "-fsdev", "local,id=share,path=%s,security_model=none" % self.share,
                "-device", "virtio-9p-pci,fsdev=share,mount_tag=share", *machine(), *self.rails()]

    def rails(self):
        """Between two VMs each rail is a cable: a local socket."""
        words = []
        for rail in range(self.options.rails if self.options.hosts > 1 else 0):
            words += ["-netdev", "stream,id=rail%d,server=%s,addr.type=unix,addr.path=%s"
                      % (rail, "off" if self.number else "on", self.rail_socket(rail)),
                      "-device", "virtio-net-pci,netdev=rail%d,mac=52:54:00:77:0%d:0%d" % (rail, self.number, rail)]
        return words

    def socket(self, name):
        return os.path.join(self.folder, "%s.%s" % (self.name, name))

    def rail_socket(self, rail):
        return os.path.join(self.folder, "rail%d" % rail)

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def end(self):
        if self.runs():
            self.process.kill()
        if self.process:
            self.process.wait()

    def status(self):
        """What the command ended with; None: it has not, or the VM died first."""
        try:
            with open(self.path("status"), encoding="ascii") as f:
                return int(f.read())
        except (OSError, ValueError):
            return None

    def tell(self, command):
        """Runs one line of shell inside, beside the command; its exit status, or None when nothing answers."""
        return _ask(self.socket("agent"), command, lambda text: int(text) if text.endswith("\n") else None)

    def monitor(self, command):
        """One command of QEMU's monitor."""
        _ask(self.socket("monitor"), command, lambda text: text if text.count("(qemu)") > 1 else None)


def _ask(path, line, understood):
    """Sends a line, gives what `understood` makes of all that came back; None after ANSWER_S."""
    end = time.monotonic() + ANSWER_S
    text = ""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        try:
            s.connect(path)
            s.sendall((line + "\n").encode())
            while time.monotonic() < end:
                s.settimeout(max(end - time.monotonic(), 0.01))
                data = s.recv(4096)
                text += data.decode(errors="replace").replace("\r", "")
                answer = understood(text)
                if answer is not None or not data:
                    return answer
        except OSError:
            return None
    return None
