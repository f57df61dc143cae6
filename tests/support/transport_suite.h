/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a transport (transport.h, and behind it NCCL's), run over any table of that shape: the built plugin
 * through one of its versions, or a transport linked in. One process, one thread that polls both ends in turn.
 *
 * TRIBUTARY_TEST_FILTER: only the cases whose name matches this pattern.
 */
#ifndef TESTS_SUPPORT_TRANSPORT_SUITE_H
#define TESTS_SUPPORT_TRANSPORT_SUITE_H

#include "transport/transport.h"

struct params;

struct transport_suite {
	const struct transport_ops *ops;
	const struct params *params; /* of its open */
	struct transport *transport;
	int device;
	unsigned max_recvs;
	uint64_t seed;   /* of the run and the label together */
	unsigned rounds; /* how often each state is closed in */
};

enum { TRANSPORT_SUITE_ROUNDS = 20 };

/*
 * Every case over a transport opened for them; label goes before the names. params is what the transport's open wants.
 * rounds: how often each state is closed in; a program that runs the suite several times may share
 * TRANSPORT_SUITE_ROUNDS out among the runs, but no less in all. What waits for a time-out is done in the first run of a
 * transport, and not without params (the plugin, whose time-out is that of the environment); TRIBUTARY_TEST_LONG: in all. The
 * number of cases that failed.
 */
int transport_suite_run(const struct transport_ops *ops, const struct params *params, const char *label,
			unsigned rounds);

#endif
