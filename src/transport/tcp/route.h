/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's routing says, and sockets tied to one interface. Nothing here blocks; any thread.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_ROUTE_H
#define TRIBUTARY_TRANSPORT_TCP_ROUTE_H

#include <stdbool.h>
#include <sys/socket.h>

struct tcp_interface;

/*
 * The interface through which packets from `from` to `to` leave, by its index; with `through` > 0 only routes through
 * that one count. -ENETUNREACH: no such route. -EMLINK: several interfaces. Other errors: the kernel does not tell.
 * `from` may be NULL.
 */
int tcp_route_find(const struct sockaddr_storage *to, const struct sockaddr_storage *from, int through, int *ret_index);

/*
 * Ties a socket to the interface: its packets leave there whatever the routes prefer, and only what comes in there
 * belongs to it. -EPERM: a kernel before 5.7 lets only CAP_NET_RAW do so.
 */
int tcp_route_bind_device(int fd, const struct tcp_interface *interface);
bool tcp_route_is_bound(int fd);
/* Its packets carry that address. The port is chosen at connect. */
int tcp_route_bind_address(int fd, const struct sockaddr_storage *address);

/* Index of the interface through which an accepted connection came in; -errno. */
int tcp_route_came_through(int fd, int family);

#endif
