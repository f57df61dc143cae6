/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL_SOCKET_IFNAME is meant for NCCL's bootstrap, often names a slow network, and where TRIBUTARY_IF is unset confines
 * Tributary, too. What it keeps TCP from is said, with the remedy. Any thread; errno is kept.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_CONFINED_H
#define TRIBUTARY_TRANSPORT_TCP_CONFINED_H

#include <stdbool.h>
#include <stddef.h>

struct params;
struct tcp_interface;

#define TCP_CONFINED_REMEDY "TRIBUTARY_IF=^lo beside it lets Tributary use all suitable interfaces"
enum { TCP_CONFINED_BYTES = 384 };

/*
 * The first of all[] whose speed is known and above that of each in at[]. NULL: none; or a speed in at[] is not known, so
 * nothing is known to be faster. Pure.
 */
const struct tcp_interface *tcp_confined_faster(const struct tcp_interface *at, size_t count,
						const struct tcp_interface *all, size_t all_count);
/* at[count]: what tcp_interfaces_find chose for these. True: a clause that says what is left out. */
bool tcp_confined(const struct params *params, const struct tcp_interface *at, size_t count,
		  char ret[static TCP_CONFINED_BYTES]);

#endif
