/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport inside one process, for tests of what stands on a transport. A message goes straight from the sender's
 * memory into the receive that was posted for its tag; a send without one is "come again". Every object is counted.
 * One thread, but for open and close and the holding of connections, which the tests of state.c do from several.
 */
#ifndef TRIBUTARY_TESTS_UNIT_PLUGIN_FAKE_TRANSPORT_H
#define TRIBUTARY_TESTS_UNIT_PLUGIN_FAKE_TRANSPORT_H

#include <stdatomic.h>

#include "support/log_lines.h"
#include "transport/transport.h"

enum { FAKE_DEVICES_MAX = 80, FAKE_LISTENERS_MAX = 16, FAKE_PHYSICAL = 2 };

struct fake_transport {
	/* What it should be: set by the test after fake_transport_reset(). */
	int physical_count;
	struct transport_properties devices[FAKE_DEVICES_MAX];
	int open_error, listen_error, test_error; /* 0 or -errno, for every call */

	/* What happened. */
	atomic_int opens, closes;
	atomic_int connections, listeners; /* alive */
	int total_count;                   /* devices, joined ones included */
	int last_traffic_class;
	size_t last_registered_bytes;
	unsigned last_registered_memory;
};

extern struct fake_transport fake_transport;
extern const struct transport_ops fake_transport_ops;

/* Two devices, fake0 of 10 Gbit/s and fake1 of 2.5 Gbit/s; no errors; nothing happened yet. */
void fake_transport_reset(void);

/* cmocka setup and teardown: resets this, the plugin's state on it and log_lines; TRIBUTARY_NET is tcp, TRIBUTARY_STEER off. */
int fake_transport_setup(void **state);
int fake_transport_teardown(void **state);

#endif
