/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport for aggregators that errs: TCP, until a stroke falls at a moment of their work; then every call fails of all
 * that use it, as if their processes had ended. One for the whole program.
 */
#ifndef TESTS_UNIT_DAEMON_BLOW_H
#define TESTS_UNIT_DAEMON_BLOW_H

#include "transport/transport.h"

enum stroke {
	STROKE_NONE,
	STROKE_HEAD,    /* HEADs are asked for */
	STROKE_INPUT,   /* an input is */
	STROKE_PARTIAL, /* a leaf's sum, at the root */
	STROKE_RESULT,  /* the root's, at a leaf's aggregator */
	STROKE_UP,      /* a sum goes up */
	STROKE_DOWN,    /* a result goes out: some have it, others do not */
	STROKE_ANY,     /* whatever */
	STROKE_COUNT
};
extern const char *const blow_names[STROKE_COUNT];

extern struct transport_ops blow_ops; /* after blow_start */
void blow_start(void);
/*
 * After so many calls of a kind, and so many turns of any connection more. one_way: only the connection fails on which it
 * fell. Takes back the one before.
 */
void blow_set(enum stroke stroke, bool one_way, int64_t calls, int64_t turns);
bool blow_has_fallen(void);

#endif
