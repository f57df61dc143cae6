/* SPDX-License-Identifier: Apache-2.0 */
#include "support/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int port_bind(uint16_t *ret_port)
{
	const struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	*ret_port = port_of(fd);
	return fd;
}

uint16_t port_of(int fd)
{
	struct sockaddr_in address;
	socklen_t bytes = sizeof(address);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	return ntohs(address.sin_port);
}

uint16_t port_free(void)
{
	uint16_t port;

	close(port_bind(&port));
	return port;
}
