/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log that blocks for longer than TRIBUTARY_TIMEOUT: lines wait, nothing else does. This process's log is blocked; its
 * peer, another process, must not take it for dead.
 */
#include "base/log.h"
#include "base/params.h"
#include "support/link.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "support/tree.h"
#include "transport/transport.h"

#include <errno.h>
#include <glob.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { DATA_BYTES = 100000, TIMES_THE_TIMEOUT = 2 };

static struct {
	sem_t entered, let_go;
	unsigned waits;
} blocked;

static void block(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	const char *text;
	va_list args;

	(void)flags, (void)file, (void)line;
	if (level != LOG_LEVEL_WARN)
		return;
	va_start(args, fmt);
	text = va_arg(args, const char *);
	va_end(args);
	blocked.waits += strstr(text, "to receive from host") != NULL;
	sem_post(&blocked.entered);
	while (sem_wait(&blocked.let_go) < 0)
		;
	sem_post(&blocked.let_go); /* once let go, it never blocks again */
}

static struct transport *opened(struct params *params, const char *dump_dir)
{
	struct params_source source = params_from_environment();
	struct transport *transport = NULL;

	params_load(&source, NULL, NULL, params);
	params->report_after_ns = params->timeout_ns / 4;
	snprintf(params->dump_dir, sizeof(params->dump_dir), "%s", dump_dir);
	assert_int_equal(transport_tcp.open(params, &transport), 0);
	return transport;
}

/* One end of the two connections: it is told by a byte for which message. */
static int sender_role(int control, const char *argument)
{
	static struct params params;
	struct transport *transport = opened(&params, "");
	struct transport_connection *senders[2];
	uint8_t handle[TRANSPORT_HANDLE_BYTES], *data = malloc(DATA_BYTES);
	char which;

	(void)argument;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(peer_read(control, handle, sizeof(handle)), 0);
		assert_int_equal(link_connect(&transport_tcp, transport, 0, handle, &senders[i]), 0);
	}
	pattern_fill(data, DATA_BYTES, 1);
	while (peer_read(control, &which, 1) == 0 && which != 'e')
		assert_int_equal(link_send(&transport_tcp, senders[which - '0'], data, DATA_BYTES, 0), 0);
	for (unsigned i = 0; i < 2; i++)
		transport_tcp.close_connection(senders[i]);
	transport_tcp.close(transport);
	free(data);
	return 0;
}

/* What is written of a connection that receives. */
static void check_dumps(const char *folder)
{
	char pattern[256];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/tributary-*.txt", folder);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *text = tree_read(found.gl_pathv[i], NULL);

		assert_non_null(text);
		assert_non_null(strstr(text, " from host "));
		assert_non_null(strstr(text, "\n  next message "));
		assert_non_null(strstr(text, "\n  pace: budget "));
		free(text);
	}
	globfree(&found);
}

static void peer_of_a_blocked_log_is_served(void **state)
{
	static struct params params;
	struct tree tree;
	struct transport_listener *listeners[2];
	struct transport_connection *receivers[2];
	struct transport_request *waiting = NULL;
	uint8_t handle[TRANSPORT_HANDLE_BYTES], *data = malloc(DATA_BYTES), *late = malloc(DATA_BYTES);
	void *at = late, *registration = NULL;
	size_t bytes = DATA_BYTES, sizes[TRANSPORT_MAX_RECVS];
	struct transport *transport;
	unsigned exchanges = 0;
	uint64_t end_ns;
	struct peer peer;
	int tag = 0;

	(void)state;
	tree_open(&tree);
	sem_init(&blocked.entered, 0, 0);
	sem_init(&blocked.let_go, 0, 0);
	log_set_sink(block);
	transport = opened(&params, tree.root);
	assert_int_equal(peer_start("sender", "", &peer), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(transport_tcp.listen(transport, 0, handle, &listeners[i]), 0);
		assert_int_equal(peer_write(peer.control, handle, sizeof(handle)), 0);
		assert_int_equal(link_accept(&transport_tcp, listeners[i], &receivers[i]), 0);
	}
	/* Nobody sends for this one, and nobody asks for it: it is the service thread that reports. */
	assert_int_equal(transport_tcp.receive(receivers[0], 1, &at, &bytes, &tag, &registration, &waiting), 0);
	assert_non_null(waiting);
	while (sem_wait(&blocked.entered) < 0)
		;
	end_ns = runtime_now_ns() + TIMES_THE_TIMEOUT * params.timeout_ns;
	while (runtime_now_ns() < end_ns || !exchanges) {
		assert_int_equal(peer_write(peer.control, "1", 1), 0);
		assert_int_equal(link_receive(&transport_tcp, receivers[1], data, DATA_BYTES, 0, &bytes), 0);
		assert_true(pattern_wrong_at(data, bytes, 1) == SIZE_MAX);
		exchanges++;
	}
	/* The first one has been silent all the time, and is not given up on either side. */
	assert_int_equal(peer_write(peer.control, "0", 1), 0);
	assert_int_equal(link_finish(&transport_tcp, waiting, sizes), 0);
	assert_true(pattern_wrong_at(late, sizes[0], 1) == SIZE_MAX);
	assert_int_equal(blocked.waits, 1);
	assert_int_equal(tree_count(tree.root, "tributary-"), 0);
	sem_post(&blocked.let_go);
	assert_true(log_drain(60000));
	assert_true(tree_count(tree.root, "tributary-") >=
		    1); /* on a busy machine the other one may have waited, too */
	check_dumps(tree.root);
	log_set_sink(NULL);
	assert_int_equal(peer_write(peer.control, "e", 1), 0);
	assert_int_equal(peer_wait(&peer, 60000), 0);
	for (unsigned i = 0; i < 2; i++) {
		transport_tcp.close_connection(receivers[i]);
		transport_tcp.close_listener(listeners[i]);
	}
	transport_tcp.close(transport);
	tree_close(&tree);
	free(data);
	free(late);
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "sender", sender_role }, { NULL, NULL } };
	const struct CMUnitTest tests[] = { cmocka_unit_test(peer_of_a_blocked_log_is_served) };

	setenv("TRIBUTARY_TIMEOUT", "2", 1);
	peer_main(argc, argv, roles, 60);
	runtime_start("report_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
