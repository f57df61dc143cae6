/* SPDX-License-Identifier: Apache-2.0 */
/* A list of interfaces as NCCL_SOCKET_IFNAME has it: [^][=]item,item. Pure, any thread. */
#ifndef TRIBUTARY_TRANSPORT_TCP_INTERFACE_WISH_H
#define TRIBUTARY_TRANSPORT_TCP_INTERFACE_WISH_H

#include <stdbool.h>
#include <stddef.h>

enum { TCP_INTERFACE_ITEMS_MAX = 32 };

/* As it was written; the items point into the text, which stays the caller's. */
struct tcp_interface_wish {
	const char *text;
	bool exclude, exact;
	size_t item_count;
	struct {
		const char *text;
		size_t bytes;
		bool exact, matched;
	} items[TCP_INTERFACE_ITEMS_MAX];
};

void tcp_interface_wish_parse(const char *text, struct tcp_interface_wish *ret);
/* Index of the first item that the name matches, or item_count. */
size_t tcp_interface_wish_match(const struct tcp_interface_wish *wish, const char *name);

#endif
