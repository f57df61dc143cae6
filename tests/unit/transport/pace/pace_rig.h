/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of struct pace have in common. For one test program each, so all is static. */
#ifndef TRIBUTARY_TESTS_UNIT_TRANSPORT_PACE_PACE_RIG_H
#define TRIBUTARY_TESTS_UNIT_TRANSPORT_PACE_PACE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "transport/pace/flight.h"
#include "transport/pace/pace.h"

enum { QUANTUM = 32 << 10, KNOWN = 64 };

static const struct pace_options plain = {
	.speed_Bps = 1250000000, .quantum_bytes = QUANTUM, .enabled = true, .fixed_budget_bytes = 2 * QUANTUM
};

static inline struct pace_state state_of(struct pace *pace)
{
	struct pace_state state;

	pace_state(pace, &state);
	return state;
}

/* So many messages of these senders in turn that the hosts are known. */
static inline void receive_from(struct pace *pace, struct pace_sender *sender, unsigned senders, uint64_t *now_ns)
{
	struct pace_message messages[KNOWN] = { 0 };

	for (unsigned i = 0; i < KNOWN; i++) {
		messages[i].sender = &sender[i % senders];
		messages[i].unscheduled_bytes = QUANTUM;
		pace_add(pace, &messages[i], QUANTUM, ++*now_ns);
		assert_int_equal(pace_granted(&messages[i]), QUANTUM);
		pace_delivered(pace, &messages[i], QUANTUM, ++*now_ns);
		if (i)
			pace_remove(pace, &messages[i - 1]);
	}
	pace_remove(pace, &messages[KNOWN - 1]);
}

#endif
