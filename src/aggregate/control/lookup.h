/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous name resolution: a resolver whose DNS servers do not answer blocks for half a minute, and callers have a
 * time-out of their own. Numeric addresses are known at once. One thread at a time for each lookup.
 */
#ifndef TRIBUTARY_AGGREGATE_CONTROL_LOOKUP_H
#define TRIBUTARY_AGGREGATE_CONTROL_LOOKUP_H

#include <stdint.h>
#include <sys/socket.h>

struct control_lookup;

/* -ENOMEM, -EAGAIN: no thread can be had. What is wrong with the address shows at the end. */
int control_lookup_start(const char *address, uint16_t port, struct control_lookup **ret);
/*
 * 0: not yet. 1: here it is. -EIO: there is none, and *ret_why says why for as long as the lookup lives (on 0 and 1 it
 * is left alone).
 */
int control_lookup_result(struct control_lookup *lookup, struct sockaddr_storage *address, socklen_t *address_bytes,
			  const char **ret_why);
/* At any time, and it never waits. NULL is fine. */
void control_lookup_end(struct control_lookup *lookup);

#endif
