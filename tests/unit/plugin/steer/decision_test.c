/* SPDX-License-Identifier: Apache-2.0 */
/* That one rank decides and all read the same, whoever dies when. */
#include "plugin/steer/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "unit/plugin/steer/registry_place.h"

enum { DECIDERS = 8, ROUNDS = 20 };

/* -------------------------------------------------------------------------------------------------------------- decisions */

static void the_claim_of_a_dead_process_holds_nobody_up(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other = registry_other_start(place);

	assert_int_equal(registry_other_do(&other, REGISTRY_CLAIM), 0);
	assert_int_equal(steer_registry_claim(&place->registry, 5), -EEXIST);
	place->registry.host++;
	assert_int_equal(steer_registry_claim(&place->registry, 5), 0);
	place->registry.host--;
	assert_int_equal(steer_registry_claim(&place->registry, 6), 0);
	steer_registry_unclaim(&place->registry, 6);
	assert_int_equal(registry_other_do(&other, REGISTRY_ADD), 0);
	kill(other.pid, SIGSTOP); /* it lives */
	assert_int_equal(steer_registry_claim(&place->registry, 5), -EEXIST);
	registry_other_end(&other, SIGKILL);
	assert_int_equal(steer_registry_claim(&place->registry, 5), 0);
	steer_registry_unclaim(&place->registry, 5);
	place->registry.host++;
	steer_registry_unclaim(&place->registry, 5);
	place->registry.host--;
	assert_int_equal(tree_count(place->folder, "c-"), 0);
}

static void a_decision_goes_with_its_author(void **state)
{
	struct registry_place *place = *state;
	struct registry_other other = registry_other_start(place);

	assert_int_equal(steer_registry_decision(&place->registry, 5, &place->decision, &place->diag), -ENOENT);
	assert_int_equal(registry_other_do(&other, REGISTRY_ADD), 0);
	assert_int_equal(registry_other_do(&other, REGISTRY_DECIDE), 0);
	assert_int_equal(steer_registry_decision(&place->registry, 5, &place->decision, &place->diag), 0);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "d-"), 1);
	registry_other_end(&other, SIGKILL);
	assert_int_equal(steer_registry_decision(&place->registry, 5, &place->decision, &place->diag), 0);
	registry_place_sweep(place);
	assert_int_equal(tree_count(place->folder, "d-"), 0);
}

/* 0: this process's decision counts; 1: another one's does. In *ret, whose number it has. */
static int decide_once(const char *root, uint64_t comm, int number, int *ret)
{
	struct steer_process process = registry_place_process(DECIDERS, (uint32_t)number);
	static struct steer_registry registry; /* its files are there until the process ends */
	static struct steer_decision decision;
	struct diag diag;
	bool is_author;
	int slot;

	if (!registry.own && steer_registry_open(root, &process, &registry, &diag) < 0)
		return -1;
	slot = registry_place_add(&registry, comm, "0000:10:00.0");
	registry_place_decision(&decision, comm, number);
	if (slot < 0 || steer_registry_decide(&registry, slot, &decision, &is_author, &diag) < 0)
		return -1;
	*ret = atoi(decision.reason);
	return is_author ? 0 : 1;
}

struct outcome {
	int round, is_other, whose, number;
};

/* All at the same time, as near as a pipe that closes can make it. */
static void one_of_many_processes_decides_and_all_read_the_same(void **state)
{
	struct outcome outcome, authors[ROUNDS] = { { 0 } };
	struct registry_place *place = *state;
	unsigned author_count[ROUNDS] = { 0 };
	int outcomes[2], end[2], go[ROUNDS][2];

	assert_int_equal(pipe2(outcomes, O_CLOEXEC), 0);
	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	for (int round = 0; round < ROUNDS; round++)
		assert_int_equal(pipe2(go[round], O_CLOEXEC), 0);
	for (int number = 0; number < DECIDERS; number++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		for (int round = 0; round < ROUNDS && !pid; round++)
			close(go[round][1]);
		for (int round = 0; round < ROUNDS && !pid; round++) {
			char none;

			outcome = (struct outcome){ .round = round, .number = number };
			while (read(go[round][0], &none, 1) > 0)
				;
			outcome.is_other = decide_once(place->root, 100 + (uint64_t)round, number, &outcome.whose);
			if (write(outcomes[1], &outcome, sizeof(outcome)) != sizeof(outcome))
				_exit(1);
		}
		if (!pid) { /* none goes before all have read: its decisions would be swept with it */
			char none;

			close(end[1]);
			_exit(read(end[0], &none, 1) != 0);
		}
	}
	for (int round = 0; round < ROUNDS; round++) {
		struct outcome all[DECIDERS];

		close(go[round][1]);
		for (int i = 0; i < DECIDERS; i++) {
			assert_int_equal(read(outcomes[0], &all[i], sizeof(all[i])), sizeof(all[i]));
			assert_int_equal(all[i].round, round);
			assert_in_range(all[i].is_other, 0, 1);
			if (all[i].is_other == 0) {
				authors[round] = all[i];
				author_count[round]++;
			}
		}
		assert_int_equal(author_count[round], 1);
		for (int i = 0; i < DECIDERS; i++)
			assert_int_equal(all[i].whose, authors[round].number);
		close(go[round][0]);
	}
	close(end[0]);
	close(end[1]);
	close(outcomes[0]);
	close(outcomes[1]);
	for (int number = 0; number < DECIDERS; number++)
		assert_true(wait(NULL) > 0);
}

static void decisions_are_checked(void **state)
{
	struct registry_place *place = *state;
	struct steer_decision *decision = &place->decision, *ret = calloc(1, sizeof(*ret));

	assert_non_null(ret);
	memset(decision, 0, sizeof(*decision));
	decision->result = STEER_PLAN;
	decision->member_count = 2;
	decision->request.gpu_count = 2;
	decision->set.channel_count = 1;
	for (unsigned i = 0; i < 2; i++) {
		struct plan *plan = &decision->set.plans[i];

		decision->set.has[i] = true;
		plan->pattern = (enum plan_pattern)i;
		plan->gpu_count = 2;
		plan->channel_count = 1;
		plan->channels[0].order[1] = 1;
	}
	steer_decision_seal(decision);
	assert_int_equal(steer_decision_read(decision, sizeof(*decision), ret), 0);
	assert_int_equal(steer_decision_read(decision, sizeof(*decision) - 1, ret), -EINVAL);
#define REFUSED(field, value)                                                             \
	do {                                                                              \
		struct steer_decision *copy = malloc(sizeof(*copy));                      \
		assert_non_null(copy);                                                    \
		memcpy(copy, decision, sizeof(*copy));                                    \
		copy->field = (value);                                                    \
		assert_int_equal(steer_decision_read(copy, sizeof(*copy), ret), -EINVAL); \
		steer_decision_seal(copy);                                                \
		assert_int_equal(steer_decision_read(copy, sizeof(*copy), ret), -EINVAL); \
		free(copy);                                                               \
	} while (0)
	REFUSED(result, 2);
	REFUSED(member_count, 3);
	REFUSED(request.gpu_count, PLAN_GPUS_MAX + 1);
	REFUSED(request.nic_count, PLAN_NICS_MAX + 1);
	REFUSED(request.nic_count, SIZE_MAX);
	REFUSED(set.channel_count, 0);
	REFUSED(set.channel_count, PLAN_CHANNELS_MAX + 1);
	REFUSED(set.has[PLAN_RING], false);
	REFUSED(set.plans[PLAN_RING].channels[0].order[1], 0); /* a GPU twice */
	REFUSED(set.plans[PLAN_RING].channels[0].order[1], 2);
	REFUSED(set.plans[PLAN_TREE].channel_count, 2);
	REFUSED(set.plans[PLAN_TREE].pattern, PLAN_RING);
	REFUSED(set.plans[PLAN_RING].intra_class, TOPOLOGY_CLASS_COUNT);
	REFUSED(set.where, PLAN_WHERE_COUNT);
#undef REFUSED
	memset(decision->reason, 'x', sizeof(decision->reason));
	steer_decision_seal(decision);
	assert_int_equal(steer_decision_read(decision, sizeof(*decision), ret), -EINVAL);
	free(ret);
}

/* All that a process does with the registry. */
static int life(const char *root)
{
	static struct steer_snapshot snapshot;
	static struct steer_decision decision;
	struct steer_process process = registry_place_process(1, 1);
	struct steer_registry registry;
	struct diag diag;
	bool is_author;
	int slot;

	if (steer_registry_open(root, &process, &registry, &diag) < 0)
		return 1;
	slot = registry_place_add(&registry, 5, "0000:11:00.0");
	registry_place_decision(&decision, 5, 1);
	if (slot < 0 || steer_registry_claim(&registry, 5) < 0 ||
	    steer_registry_scan(&registry, 5, &snapshot, &diag) < 0 ||
	    steer_registry_decide(&registry, slot, &decision, &is_author, &diag) < 0 || !is_author)
		return 2;
	steer_registry_unclaim(&registry, 5);
	if (steer_registry_decision(&registry, 5, &decision, &diag) < 0)
		return 3;
	steer_registry_forget(&registry, 5);
	steer_registry_drop(&registry, slot);
	steer_registry_close(&registry);
	return 0;
}

/* A process that lives as above and is killed at its nth system call. False: it made fewer. -1: nobody may trace. */
static int killed_at(const char *root, unsigned nth)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(77);
		raise(SIGSTOP);
		_exit(life(root));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return -1;
	for (unsigned stops = 0; WIFSTOPPED(status) && stops < nth; stops++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	if (WIFSTOPPED(status)) {
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		return 1;
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	return 0;
}

static void a_process_that_is_killed_at_any_moment_leaves_whole_facts_or_none(void **state)
{
	struct registry_place *place = *state;
	unsigned nth = 1;
	int r;

	assert_int_equal(registry_place_add(&place->registry, 5, "0000:10:00.0"), 0);
	for (; (r = killed_at(place->root, nth)) > 0; nth++) {
		registry_place_scan(place, 5);
		assert_int_equal(place->snapshot.process_count, 1);
		assert_int_equal(place->snapshot.member_count, 1);
		assert_int_equal(place->snapshot.foreign_count, 0);
		r = steer_registry_decision(&place->registry, 5, &place->decision, &place->diag);
		if (r == 0)
			assert_string_equal(place->decision.reason, "1");
		else
			assert_int_equal(r, -ENOENT);
		assert_int_equal(steer_registry_claim(&place->registry, 5), 0);
		steer_registry_unclaim(&place->registry, 5);
		registry_place_sweep(place);
		if (tree_count(place->folder, "") != 2)
			fail_msg("killed at its call %u it left %u files", nth, tree_count(place->folder, "") - 2);
	}
	if (r < 0) {
		print_message("skipped: processes may not be traced here\n");
		skip();
	}
	print_message("killed at each of %u system calls\n", nth / 2);
	assert_true(nth > 40);
}

#ifdef TRIBUTARY_FAULTS
/* Each call that can fail, in turn: an error, or what was asked for; never a crash, a leak or half a file. */
static void every_failure_is_reported(void **state)
{
	static const enum sys_fault_kind kinds[] = { SYS_FAULT_MEMORY, SYS_FAULT_FILE, SYS_FAULT_FILE_DATA };
	struct steer_process process = registry_place_process(1, 0);
	struct registry_place *place = *state;
	bool is_author;

	steer_registry_close(&place->registry);
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		for (uint64_t nth = 1; nth < 40; nth++) {
			int r, slot;

			sys_fault_set(kinds[kind], nth, ENOSPC);
			r = steer_registry_open(place->root, &process, &place->registry, &place->diag);
			slot = r == 0 ? registry_place_add(&place->registry, nth, "0000:10:00.0") : r;
			if (r == 0 && slot < 0)
				assert_true(place->registry.own->process.overflowed);
			if (slot >= 0) {
				(void)steer_registry_scan(&place->registry, nth, &place->snapshot, &place->diag);
				(void)steer_registry_claim(&place->registry, nth);
				registry_place_decision(&place->decision, nth, 1);
				r = steer_registry_decide(&place->registry, slot, &place->decision, &is_author,
							  &place->diag);
				assert_int_equal(is_author, r == 0);
				sys_fault_set(kinds[kind], 0, 0);
				steer_registry_unclaim(&place->registry, nth);
				assert_int_equal(
					steer_registry_decision(&place->registry, nth, &place->decision, &place->diag),
					r == 0 ? 0 : -ENOENT);
				steer_registry_forget(&place->registry, nth);
			}
			sys_fault_set(kinds[kind], 0, 0);
			steer_registry_close(&place->registry);
			assert_int_equal(access(place->folder, F_OK), -1);
		}
	}
}
#endif

#define REGISTRY_TEST(name) cmocka_unit_test_setup_teardown(name, registry_place_open, registry_place_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		REGISTRY_TEST(the_claim_of_a_dead_process_holds_nobody_up),
		REGISTRY_TEST(a_decision_goes_with_its_author),
		REGISTRY_TEST(one_of_many_processes_decides_and_all_read_the_same),
		REGISTRY_TEST(decisions_are_checked),
		REGISTRY_TEST(a_process_that_is_killed_at_any_moment_leaves_whole_facts_or_none),
#ifdef TRIBUTARY_FAULTS
		REGISTRY_TEST(every_failure_is_reported),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
