/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl/types.h"
#include "plugin/state.h"
#include "unit/plugin/fake_transport.h"
#include "unit/plugin/fake_rdma.h"

struct pair {
	void *context;
	void *listener;
	void *sender, *receiver;
	uint8_t handle[NCCL_HANDLE_BYTES];
};

static void pair_open(struct pair *pair)
{
	assert_int_equal(plugin_net_init(1, -1, log_lines_sink, &pair->context), 0);
	assert_int_equal(plugin_net_listen(0, pair->handle, &pair->listener), 0);
	assert_int_equal(plugin_net_accept(pair->listener, &pair->receiver), 0);
	assert_null(pair->receiver);
	assert_int_equal(plugin_net_connect(1, -1, pair->handle, &pair->sender), 0);
	assert_null(pair->sender);
	assert_int_equal(plugin_net_connect(1, -1, pair->handle, &pair->sender), 0);
	assert_non_null(pair->sender);
	assert_int_equal(plugin_net_accept(pair->listener, &pair->receiver), 0);
	assert_non_null(pair->receiver);
}

static void pair_close(struct pair *pair)
{
	assert_int_equal(plugin_net_close_connection(pair->sender), 0);
	assert_int_equal(plugin_net_close_connection(pair->receiver), 0);
	assert_int_equal(plugin_net_close_listener(pair->listener), 0);
	assert_int_equal(plugin_net_finalize(pair->context), 0);
}

static void one_line_is_said_for_each_communicator(void **state)
{
	void *first, *second;

	(void)state;
	errno = EXDEV;
	assert_int_equal(plugin_net_init(1, -1, log_lines_sink, &first), 0);
	assert_int_equal(log_lines()->infos, 1);
	assert_non_null(strstr(log_lines()->info, "net fake over fake0 10 Gbit/s, fake1 2.5 Gbit/s"));
	assert_int_equal(plugin_net_init(2, -1, log_lines_sink, &second), 0);
	assert_int_equal(log_lines()->infos, 2);
	assert_int_equal(log_lines()->warnings, 0);
	assert_int_equal(fake_transport.opens, 1);
	plugin_net_finalize(first);
	assert_int_equal(fake_transport.closes, 0);
	plugin_net_finalize(second);
	assert_int_equal(fake_transport.closes, 1);
	assert_int_equal(errno, EXDEV);
}

static void it_can_be_initialised_again_after_the_last_finalize(void **state)
{
	struct pair pair;

	(void)state;
	for (int i = 0; i < 3; i++) {
		pair_open(&pair);
		pair_close(&pair);
		assert_int_equal(fake_transport.opens, i + 1);
		assert_int_equal(fake_transport.closes, i + 1);
	}
}

/* NCCL may be unloaded after that, and its log function with it. */
static void nccls_log_is_not_called_after_the_last_finalize(void **state)
{
	void *contexts[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(plugin_net_init((uint64_t)i, -1, log_lines_sink, &contexts[i]), 0);
	assert_int_equal(plugin_net_finalize(contexts[0]), 0);
	log_warn("one is left");
	assert_int_equal(log_lines()->warnings, 1);
	log_warn("queued when the last one ends");
	assert_int_equal(plugin_net_finalize(contexts[1]), 0);
	assert_int_equal(log_lines_now.warnings, 2);
	log_warn("for stderr");
	assert_int_equal(log_lines()->warnings, 2);
}

static void connections_outlive_finalize(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair);
	assert_int_equal(plugin_net_finalize(pair.context), 0);
	assert_int_equal(plugin_net_close_listener(pair.listener), 0);
	assert_int_equal(plugin_net_close_connection(pair.sender), 0);
	assert_int_equal(fake_transport.closes, 0);
	assert_int_equal(plugin_net_close_connection(pair.receiver), 0);
	assert_int_equal(fake_transport.closes, 1);
}

static void unfinished_connect_and_failed_listen_hold_nothing(void **state)
{
	void *connection = NULL;
	void *listener = NULL;
	void *context;
	uint8_t handle[NCCL_HANDLE_BYTES];

	(void)state;
	assert_int_equal(plugin_net_init(1, -1, log_lines_sink, &context), 0);
	assert_int_equal(plugin_net_listen(0, handle, &listener), 0);
	assert_int_equal(plugin_net_connect(0, -1, handle, &connection), 0);
	assert_null(connection);
	assert_int_equal(plugin_net_connect(9, -1, handle, &connection), NCCL_INVALID_ARGUMENT);
	assert_int_equal(plugin_state_holders(), 2);
	fake_transport.listen_error = -EADDRINUSE;
	assert_int_equal(plugin_net_listen(0, handle, &listener), NCCL_SYSTEM_ERROR);
	assert_int_equal(plugin_state_holders(), 2);
	plugin_net_close_listener(listener);
	plugin_net_finalize(context);
}

static void failed_init_leaves_nothing(void **state)
{
	void *context = NULL;

	(void)state;
	fake_transport.open_error = -ENOMEM;
	assert_int_equal(plugin_net_init(1, -1, log_lines_sink, &context), NCCL_SYSTEM_ERROR);
	assert_int_equal(plugin_net_init_process(log_lines_sink), NCCL_SYSTEM_ERROR);
	assert_null(context);
	fake_transport.open_error = 0;
	assert_int_equal(plugin_net_init(1, 256, log_lines_sink, &context), NCCL_INVALID_ARGUMENT);
	assert_int_equal(log_lines()->warnings, 1);
	assert_null(context);
	assert_int_equal(plugin_state_holders(), 0);
}

static void process_init_needs_no_finalize_and_may_come_again(void **state)
{
	int count;

	(void)state;
	assert_int_equal(plugin_net_init_process(log_lines_sink), 0);
	assert_int_equal(plugin_net_init_process(log_lines_sink), 0);
	assert_int_equal(plugin_net_devices(&count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(fake_transport.opens, 1);
	assert_int_equal(log_lines()->infos, 2);
}

static void off_and_disable_succeed_with_no_device(void **state)
{
	static const char *const names[] = { "TRIBUTARY_NET=off", "TRIBUTARY_DISABLE" };
	void *context;
	int count;

	(void)state;
	for (int i = 0; i < 2; i++) {
		plugin_state_reset(&fake_transport_ops, NULL);
		log_lines_forget();
		setenv("TRIBUTARY_NET", i == 0 ? "off" : "tcp", 1);
		setenv("TRIBUTARY_DISABLE", i == 0 ? "0" : "1", 1);
		count = 77;
		assert_int_equal(plugin_net_init_process(log_lines_sink), 0);
		assert_int_equal(plugin_net_init(1, -1, log_lines_sink, &context), 0);
		assert_null(context); /* NCCL 2.28's own InfiniBand would free it once more */
		assert_int_equal(plugin_net_devices(&count), 0);
		assert_int_equal(count, 0);
		assert_int_equal(plugin_net_finalize(context), 0);
		assert_int_equal(log_lines()->warnings, 0);
		assert_int_equal(log_lines()->infos, 2);
		assert_non_null(strstr(log_lines()->info, names[i]));
	}
	assert_int_equal(fake_transport.opens, 0);
}

static void auto_yields_to_an_active_rdma_port(void **state)
{
	void *sysfs = NULL;
	int count = 77;

	(void)state;
	assert_int_equal(fake_rdma_new(&sysfs), 0);
	fake_rdma_port(sysfs, "mlx5_0", 1, IBV_PORT_DOWN, IBV_LINK_LAYER_ETHERNET);
	setenv("TRIBUTARY_NET", "auto", 1);
	plugin_state_reset(&fake_transport_ops, fake_rdma());
	assert_int_equal(plugin_net_devices(&count), 0);
	assert_int_equal(count, 2);
	fake_rdma_port(sysfs, "mlx5_0", 1, IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET);
	plugin_state_reset(&fake_transport_ops, fake_rdma());
	assert_int_equal(plugin_net_init_process(log_lines_sink), 0);
	assert_int_equal(plugin_net_devices(&count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(log_lines()->infos, 1);
	assert_non_null(strstr(log_lines()->info, "mlx5_0"));
	assert_int_equal(fake_sysfs_free(&sysfs), 0);
}

static void group_is_matched_by_tag_and_sizes_are_reported(void **state)
{
	char first[8] = "", second[8] = "";
	void *data[] = { first, second };
	size_t bytes[] = { sizeof(first), sizeof(second) };
	int tags[] = { 1, 2 }, sizes[] = { -1, -1, -1 }, done = 0;
	void *receive, *send;
	struct pair pair;

	(void)state;
	pair_open(&pair);
	assert_int_equal(plugin_net_send(pair.sender, first, 1, 1, NULL, &send), 0);
	assert_null(send);
	assert_int_equal(plugin_net_receive(pair.receiver, 2, data, bytes, tags, data, &receive), 0);
	assert_int_equal(plugin_net_test(receive, &done, sizes), 0);
	assert_int_equal(done, 0);
	assert_int_equal(sizes[0], -1);
	for (int tag = 2; tag >= 1; tag--) {
		char text[] = "abc";

		assert_int_equal(plugin_net_send(pair.sender, text, (size_t)tag, tag, NULL, &send), 0);
		assert_non_null(send);
		assert_int_equal(plugin_net_test(send, &done, NULL), 0);
		assert_int_equal(done, 1);
	}
	assert_int_equal(plugin_net_test(receive, &done, sizes), 0);
	assert_int_equal(done, 1);
	assert_int_equal(sizes[0], 1);
	assert_int_equal(sizes[1], 2);
	assert_int_equal(sizes[2], -1); /* no more written than the group has */
	assert_string_equal(second, "ab");
	pair_close(&pair);
}

static void sizes_beyond_int_are_given_as_int_max(void **state)
{
	size_t bytes[] = { (size_t)INT_MAX + 2 };
	int tags[] = { 0 }, size = 0, done = 0;
	void *receive, *send;
	void *data[] = { &size };
	struct pair pair;

	(void)state;
	pair_open(&pair);
	for (size_t below = 0; below < 3; below++) {
		size_t sent = bytes[0] - below;

		assert_int_equal(plugin_net_receive(pair.receiver, 1, data, bytes, tags, data, &receive), 0);
		assert_int_equal(plugin_net_send(pair.sender, &size, sent, 0, NULL, &send), 0);
		assert_int_equal(plugin_net_test(receive, &done, &size), 0);
		assert_int_equal(size, INT_MAX);
		assert_int_equal(plugin_net_test(send, &done, &size), 0);
		assert_int_equal(done, 1);
	}
	pair_close(&pair);
}

static void bad_counts_and_dead_peers_are_errors(void **state)
{
	void *request = NULL;
	size_t bytes[TRANSPORT_MAX_RECVS + 1] = { 0 };
	void *data[TRANSPORT_MAX_RECVS + 1] = { NULL };
	int tags[TRANSPORT_MAX_RECVS + 1] = { 0 };
	struct pair pair;
	int done = 77;

	(void)state;
	pair_open(&pair);
	assert_int_equal(plugin_net_receive(pair.receiver, 0, data, bytes, tags, data, &request),
			 NCCL_INVALID_ARGUMENT);
	assert_int_equal(plugin_net_receive(pair.receiver, TRANSPORT_MAX_RECVS + 1, data, bytes, tags, data, &request),
			 NCCL_INVALID_ARGUMENT);
	assert_int_equal(plugin_net_receive(pair.receiver, 1, data, bytes, tags, data, &request), 0);
	fake_transport.test_error = -EREMOTEIO;
	assert_int_equal(plugin_net_test(request, &done, NULL), NCCL_REMOTE_ERROR);
	assert_int_equal(done, 77);
	pair_close(&pair);
}

static void closing_nothing_is_fine(void **state)
{
	(void)state;
	assert_int_equal(plugin_net_close_connection(NULL), 0);
	assert_int_equal(plugin_net_close_listener(NULL), 0);
	assert_int_equal(plugin_net_finalize(NULL), 0);
}

/* Every call, as a forked child makes it. Returns the number of the first that was not refused, or 0. */
static int calls_of_a_child(struct pair *pair)
{
	struct plugin_net_properties properties;
	void *request = NULL;
	void *registration = NULL, *data[] = { &properties };
	size_t bytes[] = { 1 };
	int number = 0, tags[] = { 0 }, members[] = { 0 };
	const enum nccl_result results[] = {
		plugin_net_check(),
		plugin_net_init_process(log_lines_sink),
		plugin_net_init(1, -1, log_lines_sink, &pair->context),
		plugin_net_devices(&number),
		plugin_net_join(1, members, &number),
		plugin_net_listen(0, pair->handle, &pair->listener),
		plugin_net_connect(0, -1, pair->handle, &pair->sender),
		plugin_net_accept(pair->listener, &pair->receiver),
		plugin_net_register(pair->sender, &number, 1, NCCL_POINTER_HOST, &registration),
		plugin_net_register_dmabuf(pair->sender, &number, 1, NCCL_POINTER_CUDA, 0, 0, &registration),
		plugin_net_deregister(pair->sender, NULL),
		plugin_net_send(pair->sender, &number, 1, 0, NULL, &request),
		plugin_net_receive(pair->receiver, 1, data, bytes, tags, data, &request),
		plugin_net_flush(pair->receiver, 1, data, bytes, data, &request),
		plugin_net_test(request, &number, NULL),
	};

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i] != NCCL_INVALID_USAGE)
			return (int)i + 1;
	}
	if (plugin_net_properties(0, &properties) != -ECHILD)
		return 49;
	if (plugin_net_close_connection(pair->sender) || plugin_net_close_connection(pair->receiver) ||
	    plugin_net_close_listener(pair->listener) || plugin_net_finalize(pair->context))
		return 50;
	/* Nothing was touched: not the objects, not the counts, not the log. */
	if (fake_transport.connections != 2 || fake_transport.listeners != 1 || fake_transport.closes != 0 ||
	    plugin_state_holders() != 4 || log_lines()->infos != 1)
		return 51;
	return 0;
}

static void a_forked_child_touches_nothing(void **state)
{
	struct pair pair;
	pid_t child;
	int status;

	(void)state;
	pair_open(&pair);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(calls_of_a_child(&pair));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(plugin_net_check(), 0);
	pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_transport_setup, fake_transport_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_line_is_said_for_each_communicator),
		TEST(it_can_be_initialised_again_after_the_last_finalize),
		TEST(nccls_log_is_not_called_after_the_last_finalize),
		TEST(connections_outlive_finalize),
		TEST(unfinished_connect_and_failed_listen_hold_nothing),
		TEST(failed_init_leaves_nothing),
		TEST(process_init_needs_no_finalize_and_may_come_again),
		TEST(off_and_disable_succeed_with_no_device),
		TEST(auto_yields_to_an_active_rdma_port),
		TEST(group_is_matched_by_tag_and_sizes_are_reported),
		TEST(sizes_beyond_int_are_given_as_int_max),
		TEST(bad_counts_and_dead_peers_are_errors),
		TEST(closing_nothing_is_fine),
		TEST(a_forked_child_touches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
