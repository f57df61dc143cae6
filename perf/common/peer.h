/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another program as one side of a comparison: each rank starts it once beside itself, and it runs an AllReduce of floats
 * whenever it is told to, so that both sides take turns on the same links.
 *
 * The program finds its own ranks by the usual variables (MASTER_PORT is one higher than ours). On its standard output it
 * says `ready NAME`, or `skipped: REASON`. Each line `run COUNT BATCH` on its standard input is answered by
 * `done SECONDS CPU_SECONDS WRONG`: seconds of one run, the mean of BATCH back to back; elements that are not the sum of
 * what reduce_fill() gives. The end of its input ends it.
 *
 * One thread. Errors: 0 or -errno (-ENODATA: it said that it is skipped; -EPROTO: it said something else).
 */
#ifndef TRIBUTARY_PERF_PEER_H
#define TRIBUTARY_PERF_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {
	pid_t pid;
	int to, from;
	double timeout_s;
	char name[32];
	char line[256]; /* what it said last; the reason of a skip */
};

/* command: a shell's. */
int peer_open(struct peer *peer, const char *command, double timeout_s);
void peer_close(struct peer *peer); /* zeroed is fine */

int peer_run(struct peer *peer, size_t count, int batch, double *ret_seconds, double *ret_cpu_s, uint64_t *ret_wrong);

#endif
