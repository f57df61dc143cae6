/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collnet's inner form over the fake transport and the real engine, in groups of one: who holds what, and what becomes of a
 * head that fails. Groups of several, and operations, are in tests/conformance.
 */
#include "plugin/collnet.h"

#include "plugin/state.h"
#include "plugin/tuner.h"
#include "unit/plugin/fake_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint8_t handle[NCCL_HANDLE_BYTES];

static void *listening(void)
{
	void *listener = NULL;

	assert_int_equal(plugin_collnet_listen(NULL, 0, handle, &listener), 0);
	assert_non_null(listener);
	return listener;
}

static enum nccl_result connect_alone(void *listener, void **ret)
{
	void *handles[1] = { handle };

	return plugin_collnet_connect(handles, 1, 0, listener, ret);
}

static void engine_is_open_while_somebody_holds_it(void **state)
{
	void *listener;
	void *group = NULL;

	(void)state;
	listener = listening();
	assert_int_equal(plugin_state_engine_holders(), 1);
	assert_int_equal(plugin_state_holders(), 1);
	assert_int_equal(connect_alone(listener, &group), 0);
	assert_int_equal(plugin_state_engine_holders(), 2);
	assert_int_equal(plugin_collnet_close_listener(listener), 0);
	assert_int_equal(plugin_state_engine_holders(), 1);
	assert_int_equal(plugin_collnet_close_group(group), 0);
	assert_int_equal(plugin_state_engine_holders(), 0);
	assert_int_equal(plugin_state_holders(), 0);
	assert_int_equal(fake_transport.opens, 1);
	assert_int_equal(fake_transport.closes, 1);
	/* And again. */
	listener = listening();
	assert_int_equal(plugin_collnet_close_listener(listener), 0);
	assert_int_equal(fake_transport.closes, 2);
}

static void an_operation_of_one_is_a_copy(void **state)
{
	int32_t from[3] = { 1, -2, 3 };
	int32_t to[3] = { 0 };
	void *listener = listening();
	void *group;
	void *request = NULL;
	int done = 0, bytes = 0;

	(void)state;
	assert_int_equal(connect_alone(listener, &group), 0);
	assert_int_equal(plugin_collnet_reduce_all(group, from, to, 3, NCCL_INT32, NCCL_SUM, NULL, NULL, &request), 0);
	assert_non_null(request);
	while (!done)
		assert_int_equal(plugin_collnet_test(request, &done, &bytes), 0);
	assert_int_equal(bytes, sizeof(to));
	assert_memory_equal(to, from, sizeof(to));
	log_lines()->warnings = 0;
	assert_int_equal(plugin_collnet_reduce_all(group, from, to, 3, NCCL_FLOAT8E4M3, NCCL_SUM, NULL, NULL, &request),
			 NCCL_INVALID_ARGUMENT);
	assert_int_equal(log_lines()->warnings, 1);
	plugin_collnet_close_group(group);
	plugin_collnet_close_listener(listener);
}

/* NCCL's other heads wait for this one's handle: it must come, and say so. */
static void a_head_that_cannot_listen_says_so_in_its_handle(void **state)
{
	void *listener;
	void *group = NULL;
	uint8_t failed[NCCL_HANDLE_BYTES];
	void *handles[2] = { handle, failed };

	(void)state;
	fake_transport.listen_error = -EADDRINUSE;
	errno = EDOM;
	listener = listening();
	assert_int_equal(errno, EDOM);
	assert_int_equal(plugin_state_engine_holders(), 0);
	memcpy(failed, handle, sizeof(failed));
	assert_true(connect_alone(listener, &group) != NCCL_SUCCESS); /* also frees it */
	assert_null(group);
	assert_non_null(strstr(log_lines()->warning, strerror(EADDRINUSE)));
	/* Another head, whose own listener is fine, has it among its handles. */
	fake_transport.listen_error = 0;
	log_lines()->warning[0] = '\0';
	listener = listening();
	assert_true(plugin_collnet_connect(handles, 2, 0, listener, &group) != NCCL_SUCCESS);
	assert_non_null(strstr(log_lines()->warning, strerror(EADDRINUSE)));
	assert_int_equal(plugin_state_engine_holders(), 0);
}

/* What came from another host is shown, so it is made harmless. */
static void the_words_of_a_failed_handle_are_bounded(void **state)
{
	void *group = NULL;
	void *listener;

	(void)state;
	fake_transport.listen_error = -EMFILE;
	listener = listening();
	memset(handle + 8, '\n', sizeof(handle) - 8);
	assert_true(connect_alone(listener, &group) != NCCL_SUCCESS);
	assert_null(strchr(log_lines()->warning, '\n'));
	assert_non_null(strstr(log_lines()->warning, "????"));
}

static void wrong_calls_are_refused_and_leave_nothing(void **state)
{
	void *listener = NULL;
	void *group = NULL;
	void *handles[1] = { handle };

	(void)state;
	assert_int_equal(plugin_collnet_listen(NULL, FAKE_PHYSICAL, handle, &listener), NCCL_INVALID_ARGUMENT);
	assert_null(listener);
	assert_int_equal(plugin_collnet_connect(handles, 1, 0, NULL, &group), NCCL_INVALID_ARGUMENT);
	assert_true(plugin_collnet_connect(handles, 0, 0, listening(), &group) != NCCL_SUCCESS);
	assert_true(plugin_collnet_connect(handles, 1, 1, listening(), &group) != NCCL_SUCCESS);
	assert_true(plugin_collnet_connect(handles, 1, -1, listening(), &group) != NCCL_SUCCESS);
	assert_null(group);
	assert_int_equal(plugin_state_engine_holders(), 0);
	assert_int_equal(plugin_collnet_close_group(NULL), 0);
	assert_int_equal(plugin_collnet_close_listener(NULL), 0);
	assert_int_equal(plugin_collnet_finalize(NULL), 0);
}

static int count_with(const char *enable)
{
	int count = -1;

	if (enable)
		setenv("NCCL_COLLNET_ENABLE", enable, 1);
	else
		unsetenv("NCCL_COLLNET_ENABLE");
	errno = EDOM;
	assert_int_equal(plugin_collnet_devices(&count), 0);
	assert_int_equal(errno, EDOM);
	unsetenv("NCCL_COLLNET_ENABLE");
	return count;
}

static void without_it_there_are_no_devices(void **state)
{
	void *listener = NULL;
	int count = -1;

	(void)state;
	setenv("TRIBUTARY_COLLNET", "0", 1);
	plugin_state_reset(&fake_transport_ops, NULL);
	assert_int_equal(count_with("1"), 0);
	assert_int_equal(plugin_state_device_count(&count), 0);
	assert_int_equal(count, FAKE_PHYSICAL);
	assert_int_equal(plugin_collnet_listen(NULL, 0, handle, &listener), NCCL_SYSTEM_ERROR);
	unsetenv("TRIBUTARY_COLLNET");
}

static void properties_are_the_nets_but_for_memory_and_size(void **state)
{
	struct plugin_net_properties net, collnet;

	(void)state;
	fake_transport.devices[0].memory = TRANSPORT_MEMORY_HOST | TRANSPORT_MEMORY_CUDA;
	assert_int_equal(plugin_state_device(0, &net), 0);
	assert_int_equal(plugin_collnet_properties(0, &collnet), 0);
	assert_int_equal(collnet.memory, NCCL_POINTER_HOST);
	assert_true(collnet.max_collective_bytes == AGGREGATE_MAX_BYTES);
	collnet.memory = net.memory;
	collnet.max_collective_bytes = net.max_collective_bytes;
	collnet.force_flush = net.force_flush;
	assert_memory_equal(&collnet, &net, sizeof(net));
}

/* AllReduces of communicator 0x77, over eight nodes; what NCCL allows of collnet, or -1. */
static void ask_tuner(struct plugin_tuner *tuner, float collnet_us, unsigned times)
{
	float costs[7][3];

	for (unsigned t = 0; t < times; t++) {
		for (int a = 0; a < 7; a++)
			for (int p = 0; p < 3; p++)
				costs[a][p] = a == PREDICT_COLLNET_DIRECT || a == PREDICT_COLLNET_CHAIN ? -1 : 100;
		costs[PREDICT_COLLNET_CHAIN][PREDICT_SIMPLE] = collnet_us;
		plugin_tuner_edit(tuner, PREDICT_ALLREDUCE, 1024, 1, &(struct predict_table){ &costs[0][0], 7, 3 },
				  NULL);
	}
}

/* A child that was split off: its parent has collnet, and NCCL gives it none. Said once, and only if it is so. */
static void a_communicator_that_lost_collnet_is_told_of(void **state)
{
	enum { MANY = 40 };
	struct plugin_tuner *tuner = NULL;
	void *listener = listening();
	void *group = NULL;

	(void)state;
	assert_int_equal(connect_alone(listener, &group), 0);
	assert_int_equal(plugin_collnet_close_group(group), 0);
	assert_int_equal(plugin_collnet_close_listener(listener), 0);
	for (int i = 0; i < 3; i++) {
		if (i == 1)
			setenv("NCCL_ALGO", "Ring", 1); /* no loss */
		assert_int_equal(plugin_tuner_init(0x77, 16, 8, NULL, log_lines_sink, &tuner), 0);
		log_lines()->info[0] = '\0';
		ask_tuner(tuner, i == 2 ? 100 : -1, 1);
		ask_tuner(tuner, -1, MANY);
		assert_int_equal(strstr(log_lines()->info, "NCCL_COMM_SPLIT_SHARE_RESOURCES=1") != NULL, i == 0);
		log_lines()->info[0] = '\0';
		ask_tuner(tuner, -1, MANY);
		assert_string_equal(log_lines()->info, "");
		unsetenv("NCCL_ALGO");
		plugin_tuner_fini(tuner);
	}
}

/* NCCL 2.30 ends the init of hosts with unlike numbers of collnet devices, whether or not collnet is used. */
static void unasked_there_are_no_devices(void **state)
{
	(void)state;
	assert_int_equal(count_with(NULL), 0);
	assert_int_equal(count_with("0"), 0);
	assert_int_equal(count_with(""), 0);
	assert_int_equal(count_with("1"), FAKE_PHYSICAL);
}

/* NCCL takes what collnet says of a device for the net's: GPUDirect RDMA would be off for who never asked for collnet. */
static void gpudirect_is_not_given_for_collnet_unasked(void **state)
{
	(void)state;
	setenv("TRIBUTARY_NET", "verbs", 1);
	plugin_state_reset(&fake_transport_ops, NULL);
	assert_int_equal(count_with(NULL), 0);
	assert_int_equal(count_with("1"), FAKE_PHYSICAL);
	assert_null(strstr(log_lines()->info, "GPUDirect"));
	for (int i = 0; i < 2; i++) {
		plugin_state_reset(&fake_transport_ops, NULL);
		fake_transport.devices[i].memory = TRANSPORT_MEMORY_HOST |
						   (i ? TRANSPORT_MEMORY_DMABUF : TRANSPORT_MEMORY_CUDA);
		log_lines_forget();
		assert_int_equal(count_with(NULL), 0);
		assert_int_equal(count_with("0"), 0);
		assert_null(strstr(log_lines()->info, "GPUDirect"));
		assert_int_equal(count_with("1"), FAKE_PHYSICAL);
		if (i == 0) {
			assert_non_null(strstr(log_lines()->info, "NCCL_COLLNET_ENABLE switches GPUDirect RDMA off"));
			log_lines()->info[0] = '\0';
			assert_int_equal(count_with("0x1"), FAKE_PHYSICAL);
			assert_null(strstr(log_lines()->info, "GPUDirect")); /* once */
		}
		fake_transport.devices[i].memory = TRANSPORT_MEMORY_HOST;
	}
	unsetenv("TRIBUTARY_NET");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fake_transport_setup, fake_transport_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(engine_is_open_while_somebody_holds_it),
		TEST(an_operation_of_one_is_a_copy),
		TEST(a_head_that_cannot_listen_says_so_in_its_handle),
		TEST(the_words_of_a_failed_handle_are_bounded),
		TEST(wrong_calls_are_refused_and_leave_nothing),
		TEST(without_it_there_are_no_devices),
		TEST(properties_are_the_nets_but_for_memory_and_size),
		TEST(a_communicator_that_lost_collnet_is_told_of),
		TEST(unasked_there_are_no_devices),
		TEST(gpudirect_is_not_given_for_collnet_unasked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
