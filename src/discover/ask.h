/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls alone can tell of this machine: the answers that discover_root_answer keeps in a capture, each as text. *ret is
 * malloc'ed and NUL-terminated; the caller frees it. Inner header of src/discover; one thread.
 */
#ifndef TRIBUTARY_DISCOVER_ASK_H
#define TRIBUTARY_DISCOVER_ASK_H

#include "base/log.h"
#include "gpu/inventory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* hwloc_here.c: hwloc's view of this machine (folder ""), or of a folder that holds a machine's sys/ and proc/, as XML. */
int discover_hwloc_export(const char *folder, char **ret, size_t *ret_bytes, struct diag *diag);

/*
 * verbs.c. Of the RDMA device `name`, one line: "max_qp=262144 max_mr=16777216 packet1=4096"; packetN is of port N. -ENOENT:
 * no library, no such device, or no right to open it.
 */
int discover_verbs_ask(void *name, char **ret, size_t *ret_bytes);

/*
 * ethtool.c. Of the interface `name`, one line: "most_Mbps=25000 pause_rx=on pause_tx=off pfc=00010000 trust=dscp
 * dscp=26:3,48:6"; what is not known is left out. pfc has one digit for each priority from 0; trust says what decides a
 * packet's priority, dscp which priority the first DSCPs that are listed have.
 */
int discover_ethtool_ask(void *name, char **ret, size_t *ret_bytes);

/* dcb.c: what an interface does with the priorities of packets, as the kernel's data centre bridging (dcbnl) tells it. */
enum { DISCOVER_DSCPS = 64, DISCOVER_NO_PRIORITY = 0xff };
struct discover_dcb {
	bool has_pfc;     /* pfc is known */
	uint8_t pfc;      /* a bit for each priority whose senders can be stopped */
	bool trusts_dscp; /* a packet's DSCP decides its priority; else its VLAN tag, without which it is 0 */
	uint8_t priority[DISCOVER_DSCPS]; /* of each DSCP that has an entry; DISCOVER_NO_PRIORITY */
};
/* -EOPNOTSUPP, -ENODATA: its driver does not tell; others as the system said. */
int discover_dcb_ask(const char *name, struct discover_dcb *ret);
/* The kernel's reply, aligned as a struct nlmsghdr. -EOPNOTSUPP: an error or no such reply; -ENODATA: without an answer. */
int discover_dcb_read(const void *reply, size_t bytes, struct discover_dcb *ret);

/* nvml.c: NVML's answers, which the graph is built from. -ENODEV: there is no NVML here, or it does not start. */
int discover_nvml_ask(void *unused, char **ret, size_t *ret_bytes);
int discover_nvml_write(const struct gpu_inventory *inventory, char **ret, size_t *ret_bytes);
/* -EINVAL: not such text, line and reason in *diag. On success the caller ends it with gpu_inventory_fini. */
int discover_nvml_read(const char *text, size_t bytes, struct gpu_inventory *ret, struct diag *diag);

#endif
