/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of the loopback interface that are free. All of these assert that it worked. */
#ifndef TESTS_SUPPORT_PORT_H
#define TESTS_SUPPORT_PORT_H

#include <stdint.h>

/* A bound TCP socket that nobody listens on yet: CLOEXEC, non-blocking. */
int port_bind(uint16_t *ret_port);
/* The port that a socket is bound to. */
uint16_t port_of(int fd);
/* One that was free a moment ago. */
uint16_t port_free(void);

#endif
