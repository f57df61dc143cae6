/* SPDX-License-Identifier: Apache-2.0 */
/* A session's members answer, are missing, have another secret, go away or fall silent; each is named, and the others are heard. */
#include "clusterprobe/clusterprobe.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/parallel.h"
#include "support/port.h"

enum { MEMBERS = 3 };
#define PATIENCE_NS (60 * NS_PER_S) /* of what comes by itself */

static const struct control_secret secret = { .bytes = "0123456789abcdef", .count = 16 },
				   other = { .bytes = "0123456789abcdeF", .count = 16 };
static _Atomic bool never;

/* How a member answers. */
enum manner { WILLING, SILENT, FAILING, LEAVING };
struct member {
	struct clusterprobe_setup setup;
	struct clusterprobe_pipe pipe;
	enum manner manner;
	_Atomic bool stop;
	pthread_t thread;
	struct diag diag;
	int result;
};

static int answer(void *arg, const char *question, char ret[static CLUSTERPROBE_TEXT_BYTES])
{
	struct member *member = arg;

	switch (member->manner) {
	case FAILING:
		return -EIO;
	case LEAVING:
		return -EINTR;
	case SILENT:
		while (!member->stop)
			poll(NULL, 0, 10);
		return -EINTR;
	default:
		return snprintf(ret, CLUSTERPROBE_TEXT_BYTES, "%s said \"%s\"", member->setup.name, question);
	}
}

static void *run(void *arg)
{
	struct member *member = arg;

	member->result = clusterprobe_worker_run(&member->setup, &member->diag);
	if (member->setup.pipe)
		close(member->pipe.in);
	return NULL;
}

static void begin(struct member *member, const struct control_secret *its_secret)
{
	member->setup.secret = its_secret;
	member->setup.timeout_ns = PATIENCE_NS;
	member->setup.stop = &member->stop;
	member->setup.answer = answer;
	member->setup.answer_arg = member;
	assert_int_equal(pthread_create(&member->thread, NULL, run, member), 0);
}

/* As at the other end of a remote shell. The session's end. */
static int begin_shell(struct member *member, uint32_t rank, const struct control_secret *its_secret)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	member->pipe = (struct clusterprobe_pipe){ fds[1], fds[1] };
	member->setup.pipe = &member->pipe;
	member->setup.launch.rank = rank;
	snprintf(member->setup.name, sizeof(member->setup.name), "same");
	begin(member, its_secret);
	return fds[0];
}

static void end(struct member *member)
{
	member->stop = true;
	pthread_join(member->thread, NULL);
}

static void every_shell_is_asked_and_answers(void **state)
{
	struct clusterprobe_setup setup = {
		.launch.size = MEMBERS, .secret = &secret, .timeout_ns = PATIENCE_NS, .stop = &never
	};
	struct clusterprobe_member shells[MEMBERS] = { 0 };
	struct member members[MEMBERS] = { 0 };
	struct clusterprobe_session *session;
	struct diag diag = { 0 };
	size_t count;

	(void)state;
	for (uint32_t i = 0; i < MEMBERS; i++)
		shells[i].fd = begin_shell(&members[i], i, &secret);
	assert_int_equal(clusterprobe_session_open(&setup, shells, MEMBERS, &session, &diag), 0);
	assert_ptr_equal(clusterprobe_session_members(session, &count), shells);
	assert_int_equal(count, MEMBERS);
	shells[0].question = "first";
	shells[2].question = "third";
	for (unsigned times = 0; times < 2; times++) {
		assert_int_equal(clusterprobe_session_ask(session, PATIENCE_NS), 0);
		for (size_t i = 0; i < MEMBERS; i++)
			assert_string_equal(shells[i].why, "");
		assert_string_equal(shells[0].answer, "same said \"first\"");
		assert_null(shells[1].answer);
		assert_string_equal(shells[2].answer, "same said \"third\"");
		assert_true(shells[2].came_ns >= shells[2].sent_ns);
	}
	clusterprobe_session_close(session);
	for (size_t i = 0; i < MEMBERS; i++) {
		end(&members[i]);
		assert_int_equal(members[i].result, 0);
	}
}

/* members[0] is willing; the other has something of its own. */
static void ask_two(struct member *members, enum manner manner, const struct control_secret *its_secret,
		    uint64_t timeout_ns, struct clusterprobe_member *shells)
{
	struct clusterprobe_setup setup = {
		.launch.size = 2, .secret = &secret, .timeout_ns = PATIENCE_NS, .stop = &never
	};
	struct clusterprobe_session *session;
	struct diag diag = { 0 };

	members[1].manner = manner;
	shells[0].fd = begin_shell(&members[0], 0, &secret);
	shells[1].fd = begin_shell(&members[1], 1, its_secret);
	assert_int_equal(clusterprobe_session_open(&setup, shells, 2, &session, &diag), 0);
	shells[0].question = shells[1].question = "so?";
	assert_int_equal(clusterprobe_session_ask(session, timeout_ns), 0);
	assert_string_equal(shells[0].why, "");
	assert_string_equal(shells[0].answer, "same said \"so?\"");
	assert_null(shells[1].answer);
	clusterprobe_session_close(session);
	end(&members[0]);
	end(&members[1]);
}

static void one_that_fails_says_why(void **state)
{
	struct clusterprobe_member shells[2] = { 0 };
	struct member members[2] = { 0 };

	(void)state;
	ask_two(members, FAILING, &secret, PATIENCE_NS, shells);
	assert_string_equal(shells[1].why, "a question cannot be answered: Input/output error");
}

static void one_that_goes_away_is_named(void **state)
{
	struct clusterprobe_member shells[2] = { 0 };
	struct member members[2] = { 0 };

	(void)state;
	ask_two(members, LEAVING, &secret, PATIENCE_NS, shells);
	assert_string_equal(shells[1].why, "it closed the connection");
}

static void one_with_another_secret_is_refused(void **state)
{
	struct clusterprobe_member shells[2] = { 0 };
	struct member members[2] = { 0 };

	(void)state;
	ask_two(members, WILLING, &other, PATIENCE_NS, shells);
	assert_non_null(strstr(shells[1].why, "secret"));
	assert_non_null(strstr(members[1].diag.text, "secret"));
}

static void one_that_is_silent_is_not_waited_for(void **state)
{
	struct clusterprobe_member shells[2] = { 0 };
	struct member members[2] = { 0 };

	(void)state;
	ask_two(members, SILENT, &secret, 5 * NS_PER_S, shells);
	assert_string_equal(shells[1].why, "it stopped answering");
}

/* Three ranks were started; of the others one is here, one has another secret. */
static void ranks_that_do_not_come_are_named(void **state)
{
	struct member members[MEMBERS] = { 0 };
	struct clusterprobe_setup *setup = &members[0].setup;
	struct clusterprobe_session *session;
	struct clusterprobe_member *list;
	struct diag diag = { 0 };
	uint16_t port = port_free();
	size_t count;

	(void)state;
	for (uint32_t i = 0; i < MEMBERS; i++) {
		members[i].setup.launch = (struct clusterprobe_launch){ i, MEMBERS, "127.0.0.1", port };
		snprintf(members[i].setup.name, sizeof(members[i].setup.name), "host%u", i);
		members[i].setup.boot = i + 1;
	}
	begin(&members[1], &secret);
	begin(&members[2], &other);
	*setup = (struct clusterprobe_setup){ .launch = setup->launch,
					      .secret = &secret,
					      .timeout_ns = 5 * NS_PER_S,
					      .stop = &never,
					      .answer = answer,
					      .answer_arg = &members[0] };
	snprintf(setup->name, sizeof(setup->name), "host0");
	assert_int_equal(clusterprobe_session_open(setup, NULL, 0, &session, &diag), 0);
	list = clusterprobe_session_members(session, &count);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < count; i++)
		list[i].question = "who?";
	assert_int_equal(clusterprobe_session_ask(session, PATIENCE_NS), 0);
	assert_string_equal(list[0].answer, "host0 said \"who?\"");
	assert_string_equal(list[1].answer, "host1 said \"who?\"");
	assert_string_equal(list[2].name, "rank-2");
	assert_null(list[2].answer);
	assert_non_null(strstr(list[2].why, "it did not come within 5 s"));
	assert_non_null(strstr(list[2].why, "\"host2\" was refused"));
	clusterprobe_session_close(session);
	end(&members[1]);
	end(&members[2]);
}

/* For as long as the coordinator may wait for others. */
static void a_member_waits_for_its_first_question(void **state)
{
	static uint64_t fake_ns = NS_PER_S;
	struct clusterprobe_setup setup = {
		.launch.size = 1, .secret = &secret, .timeout_ns = PATIENCE_NS, .stop = &never
	};
	struct clusterprobe_member shell = { 0 };
	struct member member = { 0 };
	struct clusterprobe_session *session;
	struct diag diag = { 0 };
	uint64_t now_ns;

	(void)state;
	clock_set_fake(&fake_ns);
	shell.fd = begin_shell(&member, 0, &secret);
	assert_int_equal(clusterprobe_session_open(&setup, &shell, 1, &session, &diag), 0);
	__atomic_store_n(&fake_ns, 180 * NS_PER_S + PATIENCE_NS, __ATOMIC_RELAXED);
	poll(NULL, 0, 200); /* one that gives up does so within that, if the machine is idle */
	shell.question = "who?";
	assert_int_equal(clusterprobe_session_ask(session, PATIENCE_NS), 0);
	assert_string_equal(shell.why, "");
	assert_string_equal(shell.answer, "same said \"who?\"");
	/* Not for ever, from when it began to wait. */
	for (now_ns = fake_ns; pthread_tryjoin_np(member.thread, NULL) == EBUSY; poll(NULL, 0, 20))
		__atomic_store_n(&fake_ns, now_ns += 100 * NS_PER_S, __ATOMIC_RELAXED);
	assert_int_equal(member.result, -ETIMEDOUT);
	assert_string_equal(member.diag.text, "rank 0 has been silent for 240 s");
	clusterprobe_session_close(session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shell_is_asked_and_answers),
		cmocka_unit_test(one_that_fails_says_why),
		cmocka_unit_test(one_that_goes_away_is_named),
		cmocka_unit_test(one_with_another_secret_is_refused),
		cmocka_unit_test(one_that_is_silent_is_not_waited_for),
		cmocka_unit_test(ranks_that_do_not_come_are_named),
		cmocka_unit_test(a_member_waits_for_its_first_question),
	};

	return parallel_run_group_tests(tests, NULL, NULL);
}
