/* SPDX-License-Identifier: Apache-2.0 */
/* Networks that may connect: "10.0.0.0/8,fd00::/8", "private", "any". Pure; any thread. */
#ifndef TRIBUTARY_DAEMON_ALLOW_H
#define TRIBUTARY_DAEMON_ALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct diag;

enum { DAEMON_ALLOW_MAX = 64 };

struct daemon_network {
	uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
	unsigned prefix_bits;
};
struct daemon_allow {
	size_t count;
	struct daemon_network networks[DAEMON_ALLOW_MAX];
};

/* -EINVAL: *diag names the item and what was expected. */
int daemon_allow_parse(const char *text, struct daemon_allow *ret, struct diag *diag);
bool daemon_allow_has(const struct daemon_allow *allow, const struct sockaddr_storage *address);

/* "10.0.0.1:7471", "[fd00::1]:7471". -EINVAL, and *diag. */
int daemon_address_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_bytes, struct diag *diag);
bool daemon_address_is_loopback(const struct sockaddr_storage *address);
enum { DAEMON_ADDRESS_TEXT = 80 };
/* The other way; returns text. */
const char *daemon_address_text(const struct sockaddr_storage *address, char text[static DAEMON_ADDRESS_TEXT]);
/* The address alone, for comparing: IPv4 as ::ffff:a.b.c.d. */
void daemon_address_bytes(const struct sockaddr_storage *address, uint8_t ret[static 16]);

#endif
