/* SPDX-License-Identifier: Apache-2.0 */
/* The rank's side of the host harness: for host.c and host_process.c alone. */
#ifndef TRIBUTARY_TESTS_UNIT_PLUGIN_STEER_HOST_PROCESS_H
#define TRIBUTARY_TESTS_UNIT_PLUGIN_STEER_HOST_PROCESS_H

#include "unit/plugin/steer/host.h"

struct host_command {
	enum host_order order;
	int64_t arg;
	char name[HOST_NAME_BYTES];
};

struct host_thread {
	int orders, replies, gpu;
};

/* environment: as host_start's, and is written to. */
void host_process_main(const struct host *host, struct host_thread threads[static HOST_THREADS], char *environment)
	__attribute__((noreturn));
/* Whether a process may end by itself: a leak checker would complain. */
extern const bool host_process_can_exit;

bool host_process_read(int fd, void *data, size_t bytes);
bool host_process_write(int fd, const void *data, size_t bytes);

#endif
