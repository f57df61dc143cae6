/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One one-way connection that carries one message at a time, over a plugin or as a plain TCP socket, driven step by step
 * so that one thread can look after many. lane_begin() hands it a message, lane_step() moves it.
 *
 * One thread. Errors: 0 or -errno; the plugin's are said on stderr.
 */
#ifndef TRIBUTARY_PERF_LANE_H
#define TRIBUTARY_PERF_LANE_H

#include <stdbool.h>
#include <stddef.h>

#include "endpoint.h"

struct oob;

struct lane {
	struct endpoint *endpoint; /* NULL: plain TCP on fd */
	void *comm, *mhandle, *request;
	int fd;
	bool out;
	char *data;
	size_t bytes, moved;
	bool done;
};

/* Takes the comm over and registers the memory. */
int lane_open_plugin(struct lane *lane, struct endpoint *endpoint, void *comm, bool out, void *memory, size_t bytes);
void lane_open_tcp(struct lane *lane, int fd, bool out);
void lane_close(struct lane *lane); /* zeroed is not fine: opened ones only */

void lane_begin(struct lane *lane, char *data, size_t bytes);
/* 1: something moved, 0: nothing did, or -errno. lane->done tells the end. */
int lane_step(struct lane *lane);
/* A plugin's request exists (the receive is posted), or there is none to make. */
static inline bool lane_posted(const struct lane *lane)
{
	return !lane->endpoint || lane->request || lane->done;
}

#endif
