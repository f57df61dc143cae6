/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: the least that TCP can cost. One non-blocking socket with TCP_NODELAY, messages back to back with no
 * header, send() and recv() polled until the message is through. What a plugin does is compared with this.
 *
 * One thread for each socket. Errors: 0 or -errno, -ETIMEDOUT when nothing moved for the poller's time-out.
 */
#ifndef TRIBUTARY_PERF_TCPLOOP_H
#define TRIBUTARY_PERF_TCPLOOP_H

#include <stddef.h>

struct oob;
struct poller;

/*
 * Joins two ranks: `server` listens on its own address and the other connects to it. All ranks of the
 * oob must make the call, in the same order of pairs; the others get -1. The address of rank 0 is the master address; any
 * other server's is that of its oob connection.
 */
int tcploop_pair(struct oob *oob, int server, int client, int *ret_fd);

int tcploop_send(int fd, const void *data, size_t bytes, struct poller *poller);
int tcploop_receive(int fd, void *data, size_t bytes, struct poller *poller);

#endif
