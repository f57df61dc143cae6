/*
 * What the transports' watch() has in common: descriptors in the owner's epoll set, and a doorbell for what no descriptor
 * tells.
 */
#ifndef TRIBUTARY_TRANSPORT_WATCH_H
#define TRIBUTARY_TRANSPORT_WATCH_H

#include <stdint.h>

/* Edge-triggered. */
int transport_watch_add(int epoll_fd, int fd, uint32_t events, uint64_t key);
/* By hand, before it is closed: forked children may hold copies, which would keep it in the set. */
void transport_watch_remove(int epoll_fd, int fd);
/* An eventfd; it is not in the set yet. */
int transport_watch_doorbell(int *ret_fd);
void transport_watch_ring(int doorbell_fd);

#endif
