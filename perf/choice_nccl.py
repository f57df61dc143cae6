#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whether Tributary carries wherever NCCL would take its sockets, and leaves the network to NCCL wherever it would take RDMA.

    perf/choice_nccl.py --fakerun PROGRAM --lib DIR [--plugin FILE] [--hosts N]

Needs an NCCL that moves data on simulated GPUs, which is not part of this repository: a launcher, and a folder with
libnccl.so.2 and rankbench. Without them, or without the right to make namespaces, it says so and ends with status 77.

Hosts are drawn: RDMA devices, their ports, what of them a process may open, NCCL_IB_DISABLE, NCCL_IB_HCA, the library missing.
One rank is initialised on each, without the plugin and with it. The devices are those of a libibverbs.so.1 that is made here.
"""

import argparse
import contextlib
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import simulated_nccl

CALLS = ("query_gid", "query_qp", "reg_mr", "reg_mr_iova2", "dereg_mr", "create_cq", "destroy_cq", "create_qp", "modify_qp", "destroy_qp",
         "ack_async_event", "event_type_str", "create_comp_channel", "destroy_comp_channel", "get_cq_event", "ack_cq_events",
         "wc_status_str")
# FAKE_RDMA: "NAME,OPENS,STATE LAYER,...;...", a character for each of the last two; FAKE_RDMA_RANK: of that rank alone.
LIBRARY = r"""
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#undef ibv_query_port
#undef ibv_reg_mr
struct device { struct ibv_device device; struct verbs_context whole; struct ibv_pd pd; int opens, ports, state[4], layer[4]; };
static struct device devices[8];
static struct ibv_device *list[9];
struct ibv_device **ibv_get_device_list(int *ret)
{
	char *given = getenv(getenv("FAKE_RDMA_RANK") && strcmp(getenv("FAKE_RDMA_RANK"), getenv("FAKE_RANK")) ? "" : "FAKE_RDMA");
	char *text = strdup(given ? given : ""), *rest = text, *one, *word;
	int count = 0;
	for (; (one = strsep(&rest, ";")) && *one; count++) {
		struct device *at = &devices[count];
		strcpy(at->device.name, strsep(&one, ","));
		strcpy(at->device.dev_name, "uverbs0");
		at->opens = *strsep(&one, ",") == '1';
		for (at->ports = 0; (word = strsep(&one, ",")); at->ports++) {
			at->state[at->ports] = word[0] - '0';
			at->layer[at->ports] = word[1] - '0';
		}
		list[count] = &at->device;
	}
	list[count] = NULL;
	if (ret)
		*ret = count;
	return list;
}
void ibv_free_device_list(struct ibv_device **all) {}
const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct device *at = (struct device *)device;
	errno = EACCES;
	at->whole.context.device = device;
	return at->opens ? &at->whole.context : NULL;
}
int ibv_close_device(struct ibv_context *context) { return 0; }
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->phys_port_cnt = (unsigned char)((struct device *)context->device)->ports;
	ret->max_qp = 1000;
	return 0;
}
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *ret = (struct ibv_port_attr *)compat;
	struct device *at = (struct device *)context->device;
	ret->state = at->state[port - 1];
	ret->link_layer = (unsigned char)at->layer[port - 1];
	ret->active_speed = 32;
	ret->active_width = 2;
	ret->gid_tbl_len = 1;
	return 0;
}
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct device *at = (struct device *)context->device;
	at->pd.context = context;
	return &at->pd;
}
int ibv_dealloc_pd(struct ibv_pd *pd) { return 0; }
int ibv_fork_init(void) { return 0; }
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *ret) { for (;;) pause(); }
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access)
{ errno = EOPNOTSUPP; return NULL; }
"""
VERSIONS = {"create_comp_channel": "1.0", "destroy_comp_channel": "1.0", "reg_mr_iova2": "1.8", "reg_dmabuf_mr": "1.12"}
# Without GPU-initiated networking, which such a build of NCCL 2.28 does not have whole.
GIVEN = {"NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_SOCKET_IFNAME": "lo", "TRIBUTARY_IF": "lo", "NCCL_GIN_TYPE": "0"}
NETWORK = re.compile(r"Initialized NET plugin (\S+)")


def make_library(folder):
    names = set(re.findall(r"^\S.* \**ibv_(\w+)\(", LIBRARY, re.MULTILINE)) | set(CALLS)
    code = LIBRARY + "".join("#undef ibv_%s\nlong fake_%s(void) __asm__(\"ibv_%s\");\nlong fake_%s(void) { return 0; }\n" %
                             (name, name, name, name) for name in CALLS)
    by_version = {}
    for name in sorted(names):
        by_version.setdefault(VERSIONS.get(name, "1.1"), []).append("ibv_%s;" % name)
    (folder / "map").write_text("".join("IBVERBS_%s { global: %s };\n" % (version, " ".join(all_)) for version, all_ in by_version.items()))
    subprocess.run(["cc", "-w", "-x", "c", "-shared", "-fPIC", "-o", folder / "libibverbs.so.1", "-",
                    "-Wl,--version-script=%s" % (folder / "map")], input=code, text=True, check=True)
    (folder / "libibverbs.so").symlink_to("libibverbs.so.1")


def draw(rng):
    names = rng.sample(("mlx5_0", "mlx5_1", "mlx5_10", "bnxt_re0", "rxe0"), rng.choice((0, 1, 1, 2, 3)))
    devices = [",".join([name, rng.choice("1111110"), *(rng.choice("1444445") + rng.choice("0111222") for _ in range(rng.choice((1, 1, 2))))])
               for name in names]
    settings = {"NCCL_IB_DISABLE": rng.choice(("", "", "", "", "0", "1", "2", "false", " 1", "0x1", "no")),
                "NCCL_IB_HCA": rng.choice(("", "", "", "", "mlx5", "=mlx5_0:1", "^mlx5", "^=mlx5_1", "bnxt", "mlx5_0:2", "mlx5_0:1:0:1",
                                           ":1", "^", ",", "mlx5_0:0", "mlx5_1,rxe", "=mlx5_1:1,bnxt_re0:1"))}
    return names, ";".join(devices), settings, rng.random() < 0.1


def list_devices(names):
    """In sysfs, in a mount namespace of our own, where the machine has none."""
    old = pathlib.Path("/run/sys")
    if not old.exists():
        old.mkdir()
        subprocess.run(["mount", "--bind", "/sys", old], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/sys/class"], check=True)
    for entry in (old / "class").iterdir():
        if entry.name != "infiniband":
            (pathlib.Path("/sys/class") / entry.name).symlink_to(entry)
    for number, name in enumerate(names):
        place = pathlib.Path("/sys/class/infiniband") / name
        place.mkdir(parents=True)
        card = pathlib.Path("/sys/class/cards/0000:%d1:00.0" % (number + 1))
        card.mkdir(parents=True)
        (place / "device").symlink_to(card)


def network(options, folder, library, devices, settings, plugin):
    given = {**GIVEN, "FAKE_RDMA": devices, **settings,
             **({"plugin": "none"} if not plugin else {})}
    options.driver = library
    with contextlib.suppress(SystemExit):  # where NCCL then does not find a path to these cards, it has chosen
        simulated_nccl.run(options, folder, given, ["-o", "allreduce", "-b", "1K", "-e", "1K", "-n", 1])
    said = "".join(path.read_text(errors="replace") for path in (folder / "logs").rglob("*") if path.is_file())
    found = NETWORK.search(said)
    if not found:
        sys.exit("NCCL named no network:\n%s" % said[-2000:])
    return found.group(1)


def unequal(options, folder, library):
    """Two hosts, RDMA on one alone: whether the other one names the cause, in how many seconds, without a word of CollNet."""
    list_devices(["mlx5_0"])
    options.ranks, options.driver = 2, library
    began_s = time.monotonic()
    with contextlib.suppress(SystemExit):
        simulated_nccl.run(options, folder, {**GIVEN, "FAKE_RDMA": "mlx5_0,1,42", "FAKE_RDMA_RANK": "0", "NCCL_IB_DISABLE": ""},
                           ["-o", "allreduce", "-b", "1K", "-e", "1K", "-n", 1])
    ended_s = time.monotonic() - began_s
    said = "".join(path.read_text(errors="replace") for path in (folder / "logs").rglob("*") if path.is_file())
    return "uses NCCL's own RDMA" in said and "mixed local CollNet" not in said, ended_s, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    simulated_nccl.add_arguments(parser, 1)
    parser.add_argument("--hosts", type=int, default=40)
    options = simulated_nccl.parse(parser)
    simulated_nccl.own_namespaces()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    found, wrong = {}, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "library").mkdir()
        make_library(folder / "library")
        for number in range(options.hosts):
            names, devices, settings, is_missing = draw(random.Random(number))
            list_devices(names)
            library = None if is_missing else folder / "library"
            nccls = network(options, folder / ("%d" % number), library, devices, settings, False)
            with_us = network(options, folder / ("%dt" % number), library, devices, settings, True)
            subprocess.run(["umount", "/sys/class"], check=True)
            is_right = with_us == {"Socket": "Tributary", "IB": "IB"}[nccls]
            wrong += not is_right
            found[nccls, with_us] = found.get((nccls, with_us), 0) + 1
            if not is_right:
                print("host %d, %s, %s%s: NCCL takes %s, with Tributary %s" %
                      (number, devices or "no device", settings, ", no library" if is_missing else "", nccls, with_us))
        named, ended_s, said = unequal(options, folder / "unequal", folder / "library")
    print("RDMA on one of two hosts: %s, the job ended after %.1f s" %
          ("the other one names it" if named else "nobody names it:\n" + said[-4000:], ended_s))
    wrong += not named
    for (nccls, with_us), count in sorted(found.items()):
        print("%d hosts: NCCL alone takes %s, with the plugin %s" % (count, nccls, with_us))
    print("%d of %d hosts right" % (options.hosts - wrong, options.hosts))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
