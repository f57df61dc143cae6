/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the transports' watch() has in common: descriptors in the owner's epoll set, edge-triggered, and a doorbell for what no
 * descriptor tells. Of zeroes nobody watches; then all but begin do nothing.
 */
#ifndef TRIBUTARY_TRANSPORT_WATCH_H
#define TRIBUTARY_TRANSPORT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct transport_watch {
	bool on;
	int epoll_fd;    /* the owner's */
	int doorbell_fd; /* an eventfd in it */
	uint64_t key;
};

/* -EBUSY: it has begun. */
int transport_watch_begin(struct transport_watch *watch, int epoll_fd, uint64_t key);
void transport_watch_end(struct transport_watch *watch);
int transport_watch_add(const struct transport_watch *watch, int fd, uint32_t events);
/* By hand, before it is closed: forked children may hold copies, which would keep it in the set. */
void transport_watch_remove(const struct transport_watch *watch, int fd);
/* Something happened that the owner would not learn from the descriptors. */
void transport_watch_ring(const struct transport_watch *watch);

#endif
