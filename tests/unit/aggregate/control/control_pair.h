/* SPDX-License-Identifier: Apache-2.0 */
/* A client's and an aggregator's end of a control connection, in memory. One thread. */
#ifndef TESTS_UNIT_AGGREGATE_CONTROL_PAIR_H
#define TESTS_UNIT_AGGREGATE_CONTROL_PAIR_H

#include "aggregate/control/channel.h"

struct control_secret control_pair_secret(const char *text);
/* One byte of what waits at `from` into `to`. True: there was one, and it was wanted. *ret: what came of it. */
bool control_pair_byte(struct control_channel *from, struct control_channel *to, int *ret);
/* Bytes both ways until none is left or an end is dead. */
void control_pair_run(struct control_channel *a, struct control_channel *b);
/* A handshake that succeeds. */
void control_pair_prove(struct control_channel *client, struct control_channel *aggregator,
			const struct control_secret *secret);

#endif
