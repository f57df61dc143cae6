/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a machine graph comes from: this machine (hwloc, sysfs, NVML), a capture of another, a hwloc XML file, or an NCCL
 * topology file. Command only; one thread. docs/format/graph.md lists what is read.
 */
#ifndef TRIBUTARY_DISCOVER_DISCOVER_H
#define TRIBUTARY_DISCOVER_DISCOVER_H

#include "base/log.h"
#include "tributary/topology.h"

#include <stdio.h>

/* Facts beside the graph that doctor wants: one a line in a capture, "what key=value ...". */
struct discover_facts {
	char *text; /* malloc'ed, sorted, NUL-terminated: "acs 0000:16:01.0 SrcValid=1 ..." , "mtu eth0 1500", ... */
	size_t bytes;
};
void discover_facts_fini(struct discover_facts *facts);

enum discover_source {
	DISCOVER_HERE,
	DISCOVER_CAPTURE,
	DISCOVER_HWLOC_XML,
	DISCOVER_NCCL_XML,
	DISCOVER_TEXT,
	DISCOVER_SOURCE_COUNT
};

/*
 * path NULL: this machine; otherwise a capture (.tar, .tar.gz), a hwloc XML, an NCCL topology XML, or our own text form,
 * told apart by what is in it; "-": standard input; or a folder: a capture unpacked, or FOLDER/machine.topology. ret_facts
 * may be NULL. -EINVAL: none of them, or damaged, with place and reason in *diag; otherwise as the system said, and the text
 * of *diag is "". 0: *diag warns of something in the file, or its text is "".
 */
int discover(const char *path, struct topology *ret, struct discover_facts *ret_facts, enum discover_source *ret_source,
	     struct diag *diag);

/*
 * An archive of what discover() reads of this machine, without serial numbers, addresses, host names or keys: a tar, packed
 * by gzip or not. The same machine gives the same bytes.
 */
int discover_capture(bool packed, FILE *to, struct diag *diag);

#endif
