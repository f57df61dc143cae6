# SPDX-License-Identifier: Apache-2.0
"""What a VM is made of: QEMU, Debian's kernel with its modules, and a small initramfs.

The kernel is downloaded once and kept with what was made of it in a cache; the host installs no kernel. Several runs may
ask for it at once: the first one makes it.
"""
import contextlib
import fcntl
import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile

QEMU = "qemu-system-x86_64"
# What runs inside comes from the host's file system, so these are needed on the host.
TOOLS = (QEMU, "busybox", "cpio", "depmod", "modprobe", "dpkg-deb", "apt-get", "apt-cache", "xz", "readelf",
         "ip", "tc", "rdma", "ibv_devinfo")
# Debian's package for clouds has no rdma_rxe.
KERNEL_PACKAGE = "linux-image-amd64"
DOWNLOAD_S = 240

# Loaded at every boot, in this order, before anything else; then as the machine wants.
MODULES = {
    "base": ("virtio_pci", "virtio_net", "9p", "9pnet_virtio", "overlay"),
    "rdma": ("crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm"),
    "net": ("veth", "sch_netem", "sch_ingress", "cls_u32", "act_gact"),
    "tree": ("e1000e",),
}
FOLDERS = ("drivers/infiniband", "drivers/virtio", "drivers/net/*.ko*", "drivers/net/ethernet/intel/e1000e",
           "drivers/char", "drivers/pps", "drivers/ptp", "net", "fs", "lib", "crypto", "arch/x86/crypto")

GUEST = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "guest")


class Missing(Exception):
    """Something is not here; the text says what."""


class Kit:
    def __init__(self, folder, release):
        self.release = release
        self.kernel = os.path.join(folder, "vmlinux")
        if not os.path.exists(self.kernel):
            self.kernel = os.path.join(folder, "vmlinuz")
        self.modules = os.path.join(folder, "modules")
        self.initramfs = None


def cache_folder():
    named = os.environ.get("VM_CACHE")
    if named:
        return os.path.abspath(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tributary-vm")


def find_tools():
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    if platform.machine() != "x86_64":
        raise Missing("only x86_64 so far, this is %s" % platform.machine())
    absent = [tool for tool in TOOLS if not shutil.which(tool)]
    if absent:
        raise Missing("%s not installed (make deps-vm)" % ", ".join(absent))
    header = output(["readelf", "-lW", shutil.which("busybox")])
    if "INTERP" in header:
        raise Missing("busybox is not the static one (Debian: busybox-static)")


def output(command):
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    if r.returncode:
        raise Missing("%s: %s" % (command[0], (r.stderr or r.stdout).strip().splitlines()[-1:] or r.returncode))
    return r.stdout


def make():
    """The kit, complete. Raises Missing."""
    find_tools()
    cache = cache_folder()
    try:
        os.makedirs(cache, exist_ok=True)
        with locked(os.path.join(cache, "lock")):
            kit = find_kernel(cache) or fetch_kernel(cache)
            kit.initramfs = make_initramfs(kit, cache)
    except OSError as e:
        raise Missing("the cache %s: %s" % (cache, e.strerror or e))
    return kit


@contextlib.contextmanager
def locked(path):
    with open(path, "w", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


# -- the kernel ----------------------------------------------------------------------------------------------------------


def find_kernel(cache):
    """The newest one in the cache; None."""
    found = sorted(glob.glob(os.path.join(cache, "kernel-*")), key=version)
    return Kit(found[-1], os.path.basename(found[-1])[len("kernel-"):]) if found else None


def version(text):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def kernel_package():
    r = subprocess.run(["apt-cache", "depends", KERNEL_PACKAGE], capture_output=True, text=True, check=False)
    return re.search(r"Depends: (linux-image-\d\S*)", r.stdout)


def fetch_kernel(cache):
    named = kernel_package()
    if not named and os.geteuid() == 0:
        # A machine on which nothing had to be installed may have no lists.
        subprocess.run(["timeout", str(DOWNLOAD_S), "apt-get", "-qq", "update"], stdin=subprocess.DEVNULL, check=False,
                       capture_output=True)
        named = kernel_package()
    if not named:
        raise Missing("apt knows no %s (apt-get update?)" % KERNEL_PACKAGE)
    with tempfile.TemporaryDirectory(dir=cache, prefix="new-") as work:
        r = subprocess.run(["timeout", str(DOWNLOAD_S), "apt-get", "-q", "download", named[1]], cwd=work, check=False,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        packages = glob.glob(os.path.join(work, "*.deb"))
        if r.returncode or not packages:
            raise Missing("%s cannot be downloaded: %s" % (
                named[1], " ".join(line for line in r.stderr.splitlines() if line.startswith("E:")) or r.returncode))
        unpack(packages[0], os.path.join(work, "root"))
        return keep_kernel(cache, work, os.path.join(work, "root"))


def unpack(package, root):
    os.mkdir(root)
    wanted = ["./boot/vmlinuz*", "./lib/modules/*/modules.*", "./usr/lib/modules/*/modules.*"]
    for folder in FOLDERS:
        wanted += ["./lib/modules/*/kernel/" + folder, "./usr/lib/modules/*/kernel/" + folder]
    files = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    # What is not in this version's package makes tar fail at the end; what is missed is noticed by its absence.
    subprocess.run(["tar", "-x", "-C", root, "--wildcards"] + wanted, stdin=files.stdout, stderr=subprocess.DEVNULL,
                   check=False)
    files.stdout.close()
    if files.wait():
        raise Missing("%s is damaged" % os.path.basename(package))
    if not os.path.isdir(os.path.join(root, "lib")) and os.path.isdir(os.path.join(root, "usr/lib")):
        os.symlink("usr/lib", os.path.join(root, "lib"))


def keep_kernel(cache, work, root):
    releases = glob.glob(os.path.join(root, "lib/modules/*"))
    images = glob.glob(os.path.join(root, "boot/vmlinuz*"))
    if len(releases) != 1 or len(images) != 1:
        raise Missing("the kernel's package holds no kernel")
    release = os.path.basename(releases[0])
    output(["depmod", "-b", root, release])
    made = os.path.join(work, "made")
    os.makedirs(os.path.join(made, "modules"))
    for name, modules in MODULES.items():
        with open(os.path.join(made, "modules", name), "w", encoding="ascii") as order:
            for path in insertions(root, release, modules):
                shutil.copy(path, os.path.join(made, "modules"))
                order.write(os.path.basename(path) + "\n")
    shutil.copy(images[0], os.path.join(made, "vmlinuz"))
    extract_elf(images[0], os.path.join(made, "vmlinux"))
    final = os.path.join(cache, "kernel-" + release)
    os.rename(made, final)
    return Kit(final, release)


def insertions(root, release, modules):
    """Files of the modules and of what they need, in the order of insmod. What is built in has none."""
    paths = []
    for module in modules:
        for line in output(["modprobe", "-d", root, "-S", release, "--show-depends", module]).splitlines():
            words = line.split()
            if words and words[0] == "insmod" and words[1] not in paths:
                paths.append(words[1])
    return paths


def extract_elf(image, to):
    """The kernel proper: emulated, its decompression would take half of the boot. Left out where it is not packed by xz."""
    with open(image, "rb") as f:
        at = f.read().find(b"\xfd7zXZ\0")
        if at < 0:
            return
        f.seek(at)
        packed = f.read()
    with open(to, "wb") as f:
        subprocess.run(["xz", "-dc", "--single-stream"], input=packed, stdout=f, stderr=subprocess.DEVNULL, check=False)
    with open(to, "rb") as f:
        good = f.read(4) == b"\x7fELF"
    if not good:
        os.unlink(to)


# -- the initramfs -------------------------------------------------------------------------------------------------------


def make_initramfs(kit, cache):
    """Process 1, busybox, modules. Everything else the VM takes from the host's file system."""
    init = os.path.join(GUEST, "init")
    busybox = shutil.which("busybox")
    mark = hashlib.sha256()
    for path in (init, busybox):
        with open(path, "rb") as f:
            mark.update(f.read())
    to = os.path.join(cache, "initramfs-%s-%s" % (kit.release, mark.hexdigest()[:16]))
    if os.path.exists(to):
        return to
    with tempfile.TemporaryDirectory(dir=cache, prefix="new-") as work:
        root = os.path.join(work, "root")
        for folder in ("bin", "dev", "proc", "sys", "new", "lower", "upper"):
            os.makedirs(os.path.join(root, folder))
        shutil.copy(busybox, os.path.join(root, "bin/busybox"))
        shutil.copy(init, os.path.join(root, "init"))
        os.chmod(os.path.join(root, "init"), 0o755)
        shutil.copytree(kit.modules, os.path.join(root, "modules"))
        names = "\n".join(os.path.relpath(os.path.join(at, name), root)
                          for at, folders, files in os.walk(root) for name in folders + files)
        with open(os.path.join(work, "initramfs"), "wb") as f:
            r = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=root, input=names.encode(),
                               stdout=f, stderr=subprocess.PIPE, check=False)
        if r.returncode:
            raise Missing("cpio: %s" % r.stderr.decode(errors="replace").strip())
        os.rename(os.path.join(work, "initramfs"), to)
    return to
