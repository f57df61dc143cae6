/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets and addresses, nothing of connections. Any thread. Errors are -errno. */
#ifndef TRIBUTARY_TRANSPORT_TCP_SOCKET_H
#define TRIBUTARY_TRANSPORT_TCP_SOCKET_H

#include "transport/tcp/interface.h"
#include "transport/tcp/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

int tcp_socket_random(void *bytes, size_t count);
void tcp_socket_tune(int fd, int family, uint64_t timeout_ns, int traffic_class);
/* At one of the interface's addresses. wished_port: taken if it is free; 0: none. */
int tcp_socket_listen(const struct tcp_interface *interface, const struct sockaddr_storage *address, bool tied,
		      uint16_t wished_port, uint16_t port_low, uint16_t port_high, uint16_t *ret_port, int *ret_fd);
void tcp_socket_set_port(struct sockaddr_storage *address, uint16_t port);
/* What goes out of one socket in a second, spread evenly. 0: no bound, as in the beginning. */
void tcp_socket_pace(int fd, uint64_t rate_Bps);
/* What the peer may have on its way in one socket, where tcp_kernel_bounds_windows. 0: as much as it likes. */
enum { TCP_WINDOW_NO_BOUND = 1 << 30 };
uint64_t tcp_socket_window(int fd, uint64_t bytes); /* what was set: two segments at least */
uint64_t tcp_socket_window_least(int fd);           /* those two; 0: not known */
/* At most so much more the peer may send already, whatever bound is set now. 0: not known. */
uint64_t tcp_socket_window_offered(int fd);
/* Kernels since 5.15 follow a bound that is set in mid-stream at once, older ones never. release: uname's. */
bool tcp_kernel_bounds_windows(const char *release);
/* The least difference that two windows can show. */
uint64_t tcp_socket_window_grain(int fd);
/* The round trip as the kernel has measured it: of a socket just connected, the handshake's. 0: not known. */
uint64_t tcp_socket_path_ns(int fd);
/* Half of the descriptors that this process may have are in use, as far as a new one shows: no more for what may be spared. */
bool tcp_socket_is_scarce(int fd);
uint64_t tcp_socket_retransmissions(int fd); /* segments, since it was connected */
uint64_t tcp_socket_acknowledged(int fd);    /* bytes, the same */
struct tcp_socket_sent {
	uint64_t acknowledged_bytes, repeated_segments; /* since it was connected */
	uint64_t waiting_bytes;                         /* not acknowledged */
	unsigned repeats; /* of the first segment by the retransmission timer, since something was acknowledged last */
	uint64_t repeat_after_ns;     /* the retransmission timer */
	uint64_t acknowledged_ago_ns; /* since any acknowledgement came in, also a repeated one */
	bool refused;     /* the receiver has room, and the own port does not take the first segment; not known before Linux 5.4 */
	unsigned segment_bytes, option_bytes; /* the longest payload, and what options take in each packet */
	uint64_t silent_ns; /* since data came in last; in steps of the kernel's clock, 10 ms at most */
};
bool tcp_socket_sent(int fd, struct tcp_socket_sent *ret); /* false: not known */
socklen_t tcp_socket_address(const struct tcp_wire_address *wire, unsigned scope_id, struct sockaddr_storage *ret);
void tcp_socket_wire_address(const struct sockaddr_storage *address, uint16_t port, struct tcp_wire_address *ret);
bool tcp_socket_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b); /* ports aside */
enum { TCP_ADDRESS_TEXT = 80 };
/* "10.0.0.1:4711" or "[fe80::1]:4711"; returns text. */
const char *tcp_socket_text(const struct sockaddr_storage *address, char text[static TCP_ADDRESS_TEXT]);
bool tcp_bytes_equal(const uint8_t *a, const uint8_t *b, size_t count); /* in constant time */

#endif
