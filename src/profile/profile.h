/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile: what was measured of one machine, and of which machine. Text in, values out and back; docs/format/profile.md
 * describes it. The format is pure; fingerprint.h and store.h read the system. The plugin reads profiles, so nothing but
 * libc is needed. One thread for each struct.
 */
#ifndef TRIBUTARY_PROFILE_PROFILE_H
#define TRIBUTARY_PROFILE_PROFILE_H

#include "base/log.h"
#include "profile/fingerprint.h"
#include "tributary/cluster.h"
#include "tributary/topology.h"

/* Version 2 has a cluster; one without a cluster is written as version 1, which older programs read. */
enum { PROFILE_VERSION = 2 };

struct profile {
	struct topology topology;              /* with capacities, limits and pairs */
	struct fingerprint fingerprint;        /* of the machine that it was measured on */
	struct cluster *cluster;               /* which the machine is one host of, or NULL: not said */
	int64_t date_s;                        /* of the measurement */
	char measured_by[TOPOLOGY_NAME_BYTES]; /* "tributary 0.1.0" */
};

void profile_init(struct profile *profile);
void profile_fini(struct profile *profile);

/* *ret is malloc'ed and NUL-terminated; the caller frees it. */
int profile_write(const struct profile *profile, char **ret, size_t *ret_bytes);
/*
 * -EBADMSG: damaged (cut off, or the checksum is another); -EPROTONOSUPPORT: a newer version; -EINVAL: not a profile, or a
 * line is wrong. Line and reason in *diag; *ret is empty then.
 */
int profile_read(const char *text, size_t bytes, struct profile *ret, struct diag *diag);

#endif
