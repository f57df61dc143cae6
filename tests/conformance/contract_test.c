/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole contract, through every version's table: the suite in one process, and traffic between two processes.
 */
#include "plugin_ops.h"
#include "support/link.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "support/transport_suite.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PEER_MS       150000
#define VERSIONS      (NETPLUGIN_NEWEST - NETPLUGIN_OLDEST + 1)
#define SHARED_ROUNDS ((TRANSPORT_SUITE_ROUNDS + VERSIONS - 1) / VERSIONS)

/* Both processes: every shape one way, then the other way. The handle of the accepting one goes over control. */
static int one_way(struct transport *transport, int control, bool sends, uint64_t seed)
{
	struct transport_connection *connection = NULL;
	struct transport_listener *listener = NULL;
	struct traffic_end *end = calloc(1, sizeof(*end));
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct traffic_plan plan;
	char token = 'x';
	int r;

	if (!end)
		return -ENOMEM;
	if (sends) {
		r = peer_read(control, handle, sizeof(handle));
		if (r == 0)
			r = link_connect(&plugin_ops, transport, 0, handle, &connection);
	} else {
		r = plugin_ops.listen(transport, 0, handle, &listener);
		if (r == 0)
			r = peer_write(control, handle, sizeof(handle));
		if (r == 0)
			r = link_accept(&plugin_ops, listener, &connection);
	}
	for (const struct traffic_shape *shape = traffic_shapes; shape->name && r == 0; shape++) {
		r = traffic_plan_init(shape, seed, TRANSPORT_MAX_RECVS, &plan);
		if (r < 0)
			break;
		traffic_end_init(end, &plugin_ops, connection, &plan, sends);
		r = traffic_run(end, PEER_MS / 2);
		traffic_plan_fini(&plan);
	}
	/* Neither closes before both are done. */
	if (r == 0)
		r = peer_write(control, &token, 1);
	if (r == 0)
		r = peer_read(control, &token, 1);
	plugin_ops.close_connection(connection);
	plugin_ops.close_listener(listener);
	free(end);
	return r;
}

static int both_ways(int control, int version, uint64_t seed, bool first_sends)
{
	struct transport *transport;
	int r;

	plugin_ops_choose(version);
	r = plugin_ops.open(NULL, &transport);
	if (r < 0)
		return r;
	r = one_way(transport, control, first_sends, seed);
	if (r == 0)
		r = one_way(transport, control, !first_sends, seed + 1);
	plugin_ops.close(transport);
	return r;
}

static int traffic_role(int control, const char *argument)
{
	uint64_t seed;
	int version;

	if (sscanf(argument, "%d %" SCNx64, &version, &seed) != 2)
		return 2;
	return both_ways(control, version, seed, false) < 0;
}

static void two_processes_exchange_every_shape(void **state)
{
	int version = *(const int *)*state;
	char argument[64];
	struct peer peer;

	snprintf(argument, sizeof(argument), "%d %" PRIx64, version, runtime_seed());
	assert_int_equal(peer_start("traffic", argument, &peer), 0);
	if (both_ways(peer.control, version, runtime_seed(), true) < 0) {
		peer_stop(&peer);
		fail();
	}
	assert_int_equal(peer_wait(&peer, PEER_MS), 0);
}

static int run_version(int version, unsigned rounds)
{
	static int versions[NETPLUGIN_NEWEST + 1];
	char label[16], name[64];
	struct CMUnitTest test = { .name = name, .test_func = two_processes_exchange_every_shape };

	snprintf(label, sizeof(label), "v%d", version);
	snprintf(name, sizeof(name), "v%d: two processes exchange every shape", version);
	versions[version] = version;
	test.initial_state = &versions[version];
	plugin_ops_choose(version);
	return transport_suite_run(&plugin_ops, NULL, label, rounds) +
	       _cmocka_run_group_tests(label, &test, 1, NULL, NULL);
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "traffic", traffic_role }, { NULL, NULL } };
	const char *only;
	int failed = 0;

	peer_main(argc, argv, roles, 90);
	runtime_start("contract_test", 110);
	runtime_watch_stalls();
	setenv("TRIBUTARY_TIMEOUT", "5", 1); /* closed connects expire after it, for which a case waits */
	only = runtime_setting("TEST_VERSION");
	for (int version = NETPLUGIN_OLDEST; version <= NETPLUGIN_NEWEST; version++) {
		if (only && strtol(only, NULL, 10) != version)
			continue;
		if (!plugin_ops_has(version)) {
			failed += !!runtime_complain(ENOENT, "no table of version %d", version);
			continue;
		}
		if (version < NETPLUGIN_NEWEST) {
			runtime_set_streams((uint64_t)version);
		} else { /* as it is without settings */
			unsetenv("TRIBUTARY_STREAMS");
			unsetenv("TRIBUTARY_MOVERS");
		}
		failed += run_version(version, only ? TRANSPORT_SUITE_ROUNDS : SHARED_ROUNDS);
	}
	return failed != 0;
}
