/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/tcp/route.h"
#include "transport/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>

int tcp_socket_random(void *bytes, size_t count)
{
	return getrandom(bytes, count, 0) == (ssize_t)count ? 0 : -EIO;
}

bool tcp_bytes_equal(const uint8_t *a, const uint8_t *b, size_t count)
{
	uint8_t difference = 0;

	for (size_t i = 0; i < count; i++)
		difference |= (uint8_t)(a[i] ^ b[i]);
	return difference == 0;
}

#ifndef TCP_RTO_MAX_MS /* since Linux 6.15 */
#define TCP_RTO_MAX_MS 44
#endif

/* Options are improvements: a kernel that refuses one still moves the data. */
void tcp_socket_tune(int fd, int family, uint64_t timeout_ns, int traffic_class)
{
	int on = 1, most_ms = 1000;
	unsigned timeout_ms = (unsigned)(timeout_ns / 1000000);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* After an outage the next repetition may else be as far away as the outage was long. */
	setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &most_ms, sizeof(most_ms));
	/* Bytes that the peer's kernel does not acknowledge end the socket by themselves. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	if (traffic_class < 0)
		return;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class, sizeof(traffic_class));
	else
		setsockopt(fd, IPPROTO_IP, IP_TOS, &traffic_class, sizeof(traffic_class));
}

void tcp_socket_pace(int fd, uint64_t rate_Bps)
{
	const uint32_t none = UINT32_MAX, small = (uint32_t)rate_Bps;
	uint64_t kept = 0;
	socklen_t length = sizeof(kept);

	if (rate_Bps && rate_Bps < none) {
		setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &small, sizeof(small));
		return;
	}
	/* Kernels before 4.20 take 32 bits, whatever they are given. */
	if (!rate_Bps || setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate_Bps, sizeof(rate_Bps)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &kept, &length) < 0 || length != sizeof(kept) ||
	    kept != rate_Bps)
		setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &none, sizeof(none));
}

uint64_t tcp_socket_window_least(int fd)
{
	int segment_bytes = 0;
	socklen_t length = sizeof(segment_bytes);

	return getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, &length) < 0 ? 0 : 2 * (uint64_t)segment_bytes;
}

uint64_t tcp_socket_window(int fd, uint64_t bytes)
{
	int clamp_bytes = TCP_WINDOW_NO_BOUND;

	/* Below two segments every one would wait for a delayed acknowledgement. */
	if (bytes)
		clamp_bytes = (int)min_u64(max_u64(bytes, tcp_socket_window_least(fd)), TCP_WINDOW_NO_BOUND);
	setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp_bytes, sizeof(clamp_bytes));
	return (uint64_t)clamp_bytes;
}

/* All zero: not known. */
static struct tcp_info info_of(int fd)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
		memset(&info, 0, sizeof(info));
	return info;
}

uint64_t tcp_socket_window_offered(int fd)
{
	return info_of(fd).tcpi_rcv_ssthresh;
}

bool tcp_socket_is_scarce(int fd)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (rlim_t)fd > limit.rlim_cur / 2;
}

bool tcp_kernel_bounds_windows(const char *release)
{
	unsigned major, minor;

	return sscanf(release, "%u.%u", &major, &minor) == 2 && (major > 5 || (major == 5 && minor >= 15));
}

uint64_t tcp_socket_window_grain(int fd)
{
	const struct tcp_info info = info_of(fd);

	return info.tcpi_rcv_mss ? 1ULL << info.tcpi_rcv_wscale : TCP_WINDOW_NO_BOUND;
}

uint64_t tcp_socket_path_ns(int fd)
{
	return info_of(fd).tcpi_rtt * 1000ULL;
}

uint64_t tcp_socket_retransmissions(int fd)
{
	return info_of(fd).tcpi_total_retrans;
}

uint64_t tcp_socket_acknowledged(int fd)
{
	struct tcp_socket_sent sent;

	return tcp_socket_sent(fd, &sent) ? sent.acknowledged_bytes : 0;
}

bool tcp_socket_sent(int fd, struct tcp_socket_sent *ret)
{
	struct {
		struct tcp_info begin; /* as far as the C library has it */
		uint64_t pacing_Bps, most_pacing_Bps, acknowledged_bytes, received_bytes;
		uint32_t unused_1[6];
		uint64_t unused_2[4];
		uint32_t unused_3[2];
		uint64_t unused_4[2];
		uint32_t unused_5[3];
		uint32_t window_bytes; /* since Linux 5.4 */
	} info = { 0 };
	socklen_t length = sizeof(info);
	int waiting_bytes;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0 ||
	    (char *)&info + length < (char *)&info.received_bytes || ioctl(fd, SIOCOUTQ, &waiting_bytes) < 0)
		return false;
	*ret = (struct tcp_socket_sent){ .acknowledged_bytes = info.acknowledged_bytes,
					 .waiting_bytes = (uint64_t)waiting_bytes,
					 .repeated_segments = info.begin.tcpi_total_retrans,
					 .repeats = info.begin.tcpi_retransmits,
					 .repeat_after_ns = info.begin.tcpi_rto * UINT64_C(1000),
					 .acknowledged_ago_ns = info.begin.tcpi_last_ack_recv * (uint64_t)NS_PER_MS,
					 .segment_bytes = info.begin.tcpi_snd_mss,
					 .option_bytes = info.begin.tcpi_options & TCPI_OPT_TIMESTAMPS ? 12 : 0,
					 .silent_ns = info.begin.tcpi_last_data_recv * (uint64_t)NS_PER_MS };
	/* Where the system has no way, as while a port is down, it backs off. */
	ret->refused = waiting_bytes && !info.begin.tcpi_unacked && !info.begin.tcpi_backoff &&
		       info.window_bytes >= min_u64(ret->waiting_bytes, ret->segment_bytes);
	return true;
}

void tcp_socket_set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

static uint16_t get_port(const struct sockaddr_storage *address)
{
	in_port_t port = 0;

	if (address->ss_family == AF_INET6)
		port = ((const struct sockaddr_in6 *)address)->sin6_port;
	else if (address->ss_family == AF_INET)
		port = ((const struct sockaddr_in *)address)->sin_port;
	return ntohs(port);
}

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static int listen_at(const struct tcp_interface *interface, struct sockaddr_storage address, bool tied, uint16_t port,
		     int *ret_fd)
{
	const socklen_t bytes = address_bytes(&address);
	int fd = sys_socket(address.ss_family, SOCK_STREAM, 0), on = 1, r;

	if (fd < 0)
		return fd;
	/* A port that only connections in TIME_WAIT still have is free; one on which somebody listens is not. */
	if (port)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	tcp_socket_set_port(&address, port);
	r = tied ? tcp_route_bind_device(fd, interface) : 0;
	if (r == 0)
		r = sys_bind(fd, (struct sockaddr *)&address, bytes);
	/* In a VRF an address is one of this host's only for sockets that belong to it. */
	if (r == -EADDRNOTAVAIL && !interface->address_only && !tcp_route_bind_device(fd, interface))
		r = sys_bind(fd, (struct sockaddr *)&address, bytes);
	if (r == 0)
		r = sys_listen(fd, SOMAXCONN); /* of two that bound it at the same time one fails here */
	if (r < 0)
		sys_close_socket(&fd);
	*ret_fd = fd;
	return r;
}

int tcp_socket_listen(const struct tcp_interface *interface, const struct sockaddr_storage *address, bool tied,
		      uint16_t wished_port, uint16_t port_low, uint16_t port_high, uint16_t *ret_port, int *ret_fd)
{
	struct sockaddr_storage own = { 0 };
	socklen_t bytes = sizeof(own);
	int fd = -1, r = wished_port ? listen_at(interface, *address, tied, wished_port, &fd) : -EADDRINUSE;

	for (unsigned port = port_low; port <= port_high && r == -EADDRINUSE; port++)
		r = listen_at(interface, *address, tied, (uint16_t)port, &fd);
	if (r < 0)
		return r;
	if (getsockname(fd, (struct sockaddr *)&own, &bytes) < 0) {
		r = -errno;
		sys_close_socket(&fd);
		return r;
	}
	*ret_port = get_port(&own);
	*ret_fd = fd;
	return 0;
}

socklen_t tcp_socket_address(const struct tcp_wire_address *wire, unsigned scope_id, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (wire->family == 6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(wire->port);
		memcpy(&in6->sin6_addr, wire->bytes, 16);
		/* A link-local address means something only together with the own interface it is reached by. */
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			in6->sin6_scope_id = scope_id;
		return sizeof(*in6);
	}
	struct sockaddr_in *in = (struct sockaddr_in *)ret;

	in->sin_family = AF_INET;
	in->sin_port = htons(wire->port);
	memcpy(&in->sin_addr, wire->bytes, 4);
	return sizeof(*in);
}

void tcp_socket_wire_address(const struct sockaddr_storage *address, uint16_t port, struct tcp_wire_address *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->port = port;
	if (address->ss_family == AF_INET6) {
		ret->family = 6;
		memcpy(ret->bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
	} else {
		ret->family = 4;
		memcpy(ret->bytes, &((const struct sockaddr_in *)address)->sin_addr, 4);
	}
}

bool tcp_socket_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET6)
		return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
			       &((const struct sockaddr_in6 *)b)->sin6_addr, 16);
	return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

const char *tcp_socket_text(const struct sockaddr_storage *address, char text[static TCP_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (address->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, host, sizeof(host));
	else if (address->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, host, sizeof(host));
	snprintf(text, TCP_ADDRESS_TEXT, address->ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, get_port(address));
	return text;
}
