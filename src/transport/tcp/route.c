/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/route.h"

#include "base/sys.h"
#include "transport/tcp/interface.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>

enum { ROUTE_BYTES = 512 };

static size_t address_of(const struct sockaddr_storage *address, const void **ret)
{
	if (address->ss_family == AF_INET6) {
		*ret = &((const struct sockaddr_in6 *)address)->sin6_addr;
		return 16;
	}
	*ret = &((const struct sockaddr_in *)address)->sin_addr;
	return 4;
}

static void put(struct nlmsghdr *message, unsigned short type, const void *data, size_t bytes)
{
	struct rtattr *at = (struct rtattr *)(void *)((char *)message + NLMSG_ALIGN(message->nlmsg_len));

	at->rta_type = type;
	at->rta_len = (unsigned short)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(at), data, bytes);
	message->nlmsg_len = NLMSG_ALIGN(message->nlmsg_len) + (uint32_t)RTA_LENGTH(bytes);
}

static int read_answer(const struct nlmsghdr *message, size_t bytes, int through, int *ret_index)
{
	const struct rtmsg *route = NLMSG_DATA(message);
	const struct rtattr *at;

	if (!NLMSG_OK(message, bytes))
		return -EPROTO;
	if (message->nlmsg_type == NLMSG_ERROR) {
		int error = ((const struct nlmsgerr *)NLMSG_DATA(message))->error;

		return error == -EHOSTUNREACH || error == -EACCES ? -ENETUNREACH : error ? error : -EPROTO;
	}
	if (message->nlmsg_type != RTM_NEWROUTE || message->nlmsg_len < NLMSG_LENGTH(sizeof(*route)))
		return -EPROTO;
	if (route->rtm_type != RTN_UNICAST && route->rtm_type != RTN_LOCAL)
		return -ENETUNREACH;
	*ret_index = through;
	for (size_t offset = NLMSG_LENGTH(sizeof(*route)); offset + sizeof(*at) <= message->nlmsg_len;
	     offset += RTA_ALIGN((size_t)at->rta_len)) {
		at = (const struct rtattr *)(const void *)((const char *)message + offset);
		if (at->rta_len < sizeof(*at) || offset + at->rta_len > message->nlmsg_len)
			return -EPROTO;
		if (at->rta_type == RTA_OIF && at->rta_len == RTA_LENGTH(sizeof(*ret_index)))
			memcpy(ret_index, RTA_DATA(at), sizeof(*ret_index));
	}
	return *ret_index > 0 ? 0 : -EMLINK; /* several, among which the kernel chooses by a hash */
}

int tcp_route_find(const struct sockaddr_storage *to, const struct sockaddr_storage *from, int through, int *ret_index)
{
	_Alignas(struct nlmsghdr) char buffer[ROUTE_BYTES] = { 0 };
	struct nlmsghdr *message = (struct nlmsghdr *)(void *)buffer;
	struct rtmsg *route = NLMSG_DATA(message);
	const void *address;
	size_t bytes = address_of(to, &address);
	ssize_t got;
	int fd;

	message->nlmsg_len = NLMSG_LENGTH(sizeof(*route));
	message->nlmsg_type = RTM_GETROUTE;
	message->nlmsg_flags = NLM_F_REQUEST;
	route->rtm_family = (unsigned char)to->ss_family;
	route->rtm_dst_len = (unsigned char)(bytes * 8);
	put(message, RTA_DST, address, bytes);
	if (from && from->ss_family == to->ss_family) {
		route->rtm_src_len = (unsigned char)(bytes * 8);
		bytes = address_of(from, &address);
		put(message, RTA_SRC, address, bytes);
	}
	/* The entry of the table itself: with an interface IPv4 else takes everything for on-link that has no route. */
	route->rtm_flags = RTM_F_FIB_MATCH;
	if (through > 0)
		put(message, RTA_OIF, &through, sizeof(through));
	fd = sys_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	if (fd < 0)
		return fd;
	got = sys_send(fd, buffer, message->nlmsg_len);
	if (got >= 0)
		got = sys_recv(fd, buffer, sizeof(buffer), 0); /* the answer is there when send returns */
	sys_close(&fd);
	return got < 0 ? (int)got : read_answer(message, (size_t)got, through, ret_index);
}

int tcp_route_bind_device(int fd, const struct tcp_interface *interface)
{
	int saved_errno = errno, r = 0;

	/* By index, which a rename keeps; by name if the interface was created anew, or before Linux 5.1. */
	if (interface->index > 0 &&
	    !setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface->index, sizeof(interface->index)))
		return 0;
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface->name, (socklen_t)strlen(interface->name)) < 0)
		r = -errno;
	errno = saved_errno;
	return r;
}

bool tcp_route_is_bound(int fd)
{
	char name[IFNAMSIZ] = "";
	socklen_t bytes = sizeof(name);

	return !getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &bytes) && bytes > 0 && name[0];
}

int tcp_route_bind_address(int fd, const struct sockaddr_storage *address)
{
	int saved_errno = errno, on = 1;

	/* Otherwise bind takes a port that no other connection of this host may have, whoever its peer is. */
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	errno = saved_errno;
	return sys_bind(fd, (const struct sockaddr *)address,
			address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

int tcp_route_came_through(int fd, int family)
{
	/* The kernel keeps the interface of the handshake where multicast would go out. */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(int)) * 2];
	struct msghdr message = { .msg_control = control };
	socklen_t bytes = sizeof(control);
	int saved_errno = errno, on = 1, index = -EOPNOTSUPP;

	if (family == AF_INET6) {
		bytes = sizeof(index);
		if (getsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, &bytes) < 0)
			index = -errno;
		errno = saved_errno;
		return index;
	}
	if (setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) < 0 ||
	    getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, control, &bytes) < 0) {
		index = -errno;
		errno = saved_errno;
		return index;
	}
	message.msg_controllen = bytes;
	for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
		if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO)
			index = ((const struct in_pktinfo *)(const void *)CMSG_DATA(at))->ipi_ifindex;
	}
	on = 0;
	setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	errno = saved_errno;
	return index;
}
