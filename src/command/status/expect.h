/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the model says of a communicator's collectives, on the machine as it is and with what its profile says: Tributary's
 * channels through its tuner, or NCCL's own channels as they are estimated. One thread.
 */
#ifndef TRIBUTARY_COMMAND_STATUS_EXPECT_H
#define TRIBUTARY_COMMAND_STATUS_EXPECT_H

#include "command/status/compare.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command_call;
struct expect;

/* Equal on each of its hosts. */
struct expect_comm {
	const char *gpus; /* of one host: "0,1,4"; "": all that it has */
	size_t rank_count, node_count;
	bool planned; /* Tributary's channels */
};

/* from, profile: as the options of that name, or NULL. What goes wrong is said on stderr; NULL then, for which nothing is known. */
struct expect *expect_open(const char *from, const char *profile);
void expect_close(struct expect *expect);
/* Why nothing is predicted here; NULL: something is. expect: not NULL. */
const char *expect_why_not(const struct expect *expect);
/*
 * predicted, predicted_us and taken_us of one whose `taken` is set, for operations of `bytes`; 0 where the model says nothing.
 * collective: NCCL's number.
 */
void expect_case(struct expect *expect, const struct expect_comm *comm, int collective, uint64_t bytes,
		 struct compare_case *at);
/* The link that the communicator's channels cross and that lacks most; false: none does. */
bool expect_link(struct expect *expect, const struct expect_comm *comm, struct compare_link *ret);

#endif
