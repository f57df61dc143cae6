/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes, packets and drops of every link of the test-bed, asked for while a benchmark runs on it: TB_COUNTERS is the
 * descriptor of a socket to the test-bed, which the first rank alone has. Between two questions the difference belongs to
 * whatever ran meanwhile.
 *
 * One thread. Errors: 0 or -errno.
 */
#ifndef TRIBUTARY_PERF_LINKS_H
#define TRIBUTARY_PERF_LINKS_H

#include <stddef.h>
#include <stdint.h>

enum { LINKS_MAX = 128, LINKS_NAME_BYTES = 16 };

struct links_row {
	char from[LINKS_NAME_BYTES], to[LINKS_NAME_BYTES];
	int rail; /* -1: an uplink */
	uint64_t bytes, packets, drops;
};
/* Of one moment, or the sum of some differences. */
struct links {
	size_t count;
	struct links_row rows[LINKS_MAX];
};

/* -ENOENT: no test-bed offers them; -E2BIG: more than LINKS_MAX. */
int links_take(struct links *ret_links);
/* sum += to - from; a zeroed sum takes their rows over. */
void links_add(struct links *sum, const struct links *from, const struct links *to);

#endif
