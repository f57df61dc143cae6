/*
 * What NCCL finds in its graph file when ranks of a host meet, or do not: communicators that are given up without a word,
 * and splits with shared resources, which call no init, on the same threads. Whatever the order, nobody finds a plan that
 * is not for exactly its GPUs.
 */
#include "plugin/session/meeting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/session/files.h"
#include "plugin/session/outlook.h"
#include "support/parallel.h"
#include "support/runtime.h"
#include "support/tree.h"
#include "unit/plugin/session/hall.h"

enum { FOUR = 0xf, ALL = 0xff, SOON_MS = 50, SLOW_MS = 2500, LONG_MS = 25000 };

static void who_waits_for_a_rank_that_does_not_come_rests(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	assert_int_equal(hall_initialise(hall, 3, 1), 3);
	hall_begin(hall, 3, 2);
	/* Rank 0 has got through the exchange of all, rank 1 has not: somebody elsewhere has died. */
	hall_phase(hall, 1);
	assert_int_equal(hall_read(hall, 1), 0);
	hall_phase(hall, 2); /* a split */
	assert_int_equal(hall_read(hall, 3), 0);
	assert_int_equal(hall_initialise(hall, 3, 3), 3);
}

static void a_part_of_what_was_given_up_rests(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 4, NULL);
	assert_int_equal(hall_initialise(hall, FOUR, 1), 0xf);
	hall_begin(hall, 7, 2); /* is given up by all, and nobody says so */
	hall_phase(hall, 3);
	assert_int_equal(hall_read(hall, 7), 0);
	hall_begin(hall, 7, 3);
	hall_phase(hall, 0xb); /* two of it, and one that was not */
	assert_int_equal(hall_read(hall, FOUR), 0);
	assert_int_equal(hall_initialise(hall, 7, 4), 7);
}

static void what_was_given_up_and_others_rest(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	assert_int_equal(hall_initialise(hall, 7, 1), 7);
	for (int64_t comm = 2; comm < (runtime_long() ? 8 : 5); comm++) { /* two seconds each */
		hall_begin(hall, 3, comm);
		switch (comm % 3) {
		case 0: /* all at once */
			hall_phase(hall, 7);
			break;
		case 1: /* the other one first: the two see that it is about to read */
			hall_phase(hall, 4);
			hall_phase(hall, 3);
			break;
		default: /* last: it sees a plan that nobody reads */
			hall_phase(hall, 3);
			hall_send(hall, 2, 0, HALL_PROPERTIES, 0);
			assert_true(hall_is_waiting(hall, 2, 0, SOON_MS));
			assert_int_equal(hall_wait(hall, 2, 0), 0);
		}
		assert_int_equal(hall_read(hall, 7), 0);
	}
	assert_int_equal(hall_initialise(hall, 7, 9), 7);
	assert_int_equal(hall->reply.warnings, 0);
}

static void two_that_were_given_up_and_go_on_as_one_rest(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 4, NULL);
	assert_int_equal(hall_initialise(hall, FOUR, 1), 0xf);
	for (int64_t comm = 2; comm < 8; comm += 2) {
		hall_begin(hall, 0x3, comm % 4 ? comm : comm + 1);
		hall_begin(hall, 0xc, comm % 4 ? comm + 1 : comm);
		if (comm < 4)
			hall_phase(hall, FOUR);
		else if (comm < 6) {
			hall_phase(hall, 0x3); /* has a plan, until the others see that it is not read */
			hall_phase(hall, 0xc);
		} else {
			hall_phase(hall, 0x1); /* rests, as rank 1 does not come */
			hall_phase(hall, 0xc);
			hall_phase(hall, 0x2);
		}
		assert_int_equal(hall_read(hall, FOUR), 0);
	}
	assert_int_equal(hall_initialise(hall, FOUR, 9), 0xf);
}

/* The same calls as those of the communicator that was given up, so the same outcome; and it is right for these GPUs. */
static void a_split_of_just_what_was_given_up_may_have_its_plan(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	assert_int_equal(hall_initialise(hall, 7, 1), 7);
	hall_begin(hall, 3, 2);
	hall_phase(hall, 3);
	assert_int_equal(hall_read(hall, 3), 3);
	hall_phase(hall, 7);
	assert_int_equal(hall_read(hall, 7), 0);
}

static void a_plan_that_is_not_read_does_not_stop_what_comes_later(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 4, NULL);
	assert_int_equal(hall_initialise(hall, FOUR, 1), 0xf);
	hall_begin(hall, 3, 2);
	hall_phase(hall, 3); /* is given up after it was published */
	assert_int_equal(hall_initialise(hall, 0xc, 3), 0xc);
	assert_int_equal(hall_initialise(hall, FOUR, 4), 0xf);
	hall_phase(hall, 1); /* a split that never comes to reading */
	assert_int_equal(hall_initialise(hall, 0xe, 5), 0xe);
}

static void ranks_whose_plan_others_took_back_say_so(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 3, NULL);
	assert_int_equal(hall_initialise(hall, 7, 1), 7);
	hall_begin(hall, 3, 2);
	hall_phase(hall, 3); /* slow: it would read when another one has waited for long */
	assert_int_equal(hall_do(hall, 2, 0, HALL_PROPERTIES, 0), 0);
	assert_int_equal(hall_read(hall, 7), 0);
	for (unsigned rank = 0; rank < 2; rank++) {
		assert_int_equal(hall_do(hall, rank, 0, HALL_TUNER, 2), 0); /* costs of what NCCL has found */
		assert_non_null(strstr(hall->reply.info, "took its plan back"));
	}
	assert_int_equal(hall_initialise(hall, 3, 3), 3);
}

static void communicators_of_others_wait_for_each_other_and_all_have_plans(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 8, NULL);
	assert_int_equal(hall_initialise(hall, ALL, 1), ALL);
	for (int64_t comm = 2; comm < 10; comm += 4) {
		for (unsigned i = 0; i < 4; i++)
			hall_begin(hall, 3u << 2 * i, comm + i);
		for (unsigned i = 0; i < 8; i++)
			hall_send(hall, i, 0, HALL_PROPERTIES, 0);
		for (unsigned left = ALL; left;)
			for (unsigned i = 0; i < 4; i++) {
				if (!(left & 1u << 2 * i) || hall_is_waiting(hall, 2 * i, 0, 1) ||
				    hall_is_waiting(hall, 2 * i + 1, 0, 200))
					continue;
				for (unsigned k = 2 * i; k < 2 * i + 2; k++)
					assert_int_equal(hall_wait(hall, k, 0), 0);
				assert_int_equal(hall_read(hall, 3u << 2 * i), 3u << 2 * i);
				left &= ~(3u << 2 * i);
			}
	}
}

static void a_stranger_does_not_wait_for_ever(void **state)
{
	struct hall *hall = *state;

	hall_start_all(hall, 2, NULL);
	hall_begin(hall, 3, 1);
	hall_phase(hall, 3); /* and is given up */
	assert_int_equal(hall_do(hall, 0, 1, HALL_PROPERTIES, 0), 0);
	assert_int_equal(hall_do(hall, 0, 1, HALL_READ, 0), 0);
	assert_int_equal(hall_gpus(hall->reply.text), 0);
	assert_int_equal(hall_read(hall, 3), 0); /* for both, as neither had read */
}

/* Two communicators at once: the first has its plan, and reads when the second would have lost patience with strangers. */
static void ranks_that_live_have_time_to_read(void **state)
{
	struct hall *hall = *state;

	hall->reading_ms = LONG_MS;
	hall_start_all(hall, 4, NULL);
	assert_int_equal(hall_initialise(hall, FOUR, 1), 0xf);
	hall_begin(hall, 0x3, 2);
	hall_begin(hall, 0xc, 3);
	hall_phase(hall, 0x3);
	for (unsigned rank = 2; rank < 4; rank++)
		hall_send(hall, rank, 0, HALL_PROPERTIES, 0);
	assert_true(hall_is_waiting(hall, 2, 0, SLOW_MS));
	assert_int_equal(hall_read(hall, 0x3), 0x3);
	hall_tuner(hall, 0x3, 2, 1);
	for (unsigned rank = 2; rank < 4; rank++)
		assert_int_equal(hall_wait(hall, rank, 0), 0);
	assert_int_equal(hall_read(hall, 0xc), 0xc);
	hall_tuner(hall, 0xc, 3, 1);
}

/* Ranks 0 and 1 have a plan, on their threads of that number, which one of them reads when it is too late. */
static void hall_publish(struct hall *hall, unsigned lane, int64_t comm)
{
	for (unsigned rank = 0; rank < 2; rank++) {
		assert_int_equal(hall_do(hall, rank, lane, HALL_BEGIN, comm), 0);
		assert_int_equal(hall_do(hall, rank, lane, HALL_CHECK, 0), 0);
	}
	for (unsigned rank = 0; rank < 2; rank++)
		hall_send(hall, rank, lane, HALL_PROPERTIES, 0);
	for (unsigned rank = 0; rank < 2; rank++)
		assert_int_equal(hall_wait(hall, rank, lane), 0);
}

/* Ranks 2 and 3, which have begun another one before, wait for nobody. */
static void others_go_on_at_once(struct hall *hall, int64_t comm, unsigned planned)
{
	for (unsigned rank = 2; rank < 4; rank++)
		hall_send(hall, rank, 0, HALL_PROPERTIES, 0);
	for (unsigned rank = 2; rank < 4; rank++) {
		assert_int_equal(hall_wait(hall, rank, 0), 0);
		assert_true(hall->reply.took_ns < LONG_MS * NS_PER_MS);
	}
	assert_int_equal(hall_read(hall, 0x1), 0);
	assert_int_equal(hall_read(hall, 0xc), planned);
	hall_tuner(hall, 0xc, comm, planned != 0);
}

static void of_what_was_given_up_others_hear_at_once(void **state)
{
	struct hall *hall = *state;

	hall->reading_ms = 4 * LONG_MS;
	hall_start_all(hall, 4, NULL);
	assert_int_equal(hall_initialise(hall, FOUR, 1), 0xf);

	hall_begin(hall, 0xc, 4);
	hall_publish(hall, 0, 2);
	assert_int_equal(hall_do(hall, 1, 0, HALL_BEGIN, 3), 0); /* a rank begins something else */
	others_go_on_at_once(hall, 4, 0xc);
	assert_int_equal(hall_do(hall, 0, 0, HALL_END, 2), 0);
	assert_int_equal(hall_do(hall, 1, 0, HALL_END, 3), 0);

	hall_begin(hall, 0xc, 6);
	hall_publish(hall, 1, 5);
	hall_send(hall, 1, 1, HALL_LEAVE, 0); /* its thread ends */
	others_go_on_at_once(hall, 6, 0xc);
	assert_int_equal(hall_do(hall, 0, 1, HALL_END, 5), 0);
	assert_int_equal(hall_do(hall, 1, 0, HALL_END, 5), 0);

	hall_begin(hall, 0xc, 8);
	hall_publish(hall, 2, 7);
	hall_kill(hall, 1);
	others_go_on_at_once(hall, 8, 0); /* not all of the job are there */
}

/* ---- what they go by, with files of a process that is this one ---- */

enum { HOST = 5, JOB = 9, OTHERS_JOB = 10, OWN = 7, OTHER = 8, ELSEWHERE = 1 };

struct meeting_place {
	char root[64];
	struct session_registry registry;
	struct session_files files;
	struct session_census census;
	struct diag diag;
};

static int meeting_open(void **state)
{
	struct meeting_place *place = calloc(1, sizeof(*place));
	struct session_process process;
	struct session_census *census;

	assert_non_null(place);
	memset(&process, 0, sizeof(process));
	snprintf(place->root, sizeof(place->root), "/dev/shm/tributary-meeting-XXXXXX");
	assert_non_null(mkdtemp(place->root));
	assert_int_equal(session_registry_open(place->root, &process, &place->registry, &place->diag), 0);
	assert_int_equal(session_files_make(place->registry.directory, place->registry.path, place->registry.id, NULL,
					    &place->files, &place->diag),
			 0);
	census = &place->census;
	census->now_ns = 100 * NS_PER_S;
	census->process_count = 2; /* a rank's, and this one */
	census->member_count = 2;
	for (unsigned i = 0; i < 2; i++) {
		census->processes[i].host = HOST;
		census->processes[i].job_key = JOB;
		census->processes[i].identity.pid = 100 + i;
		census->members[i].process = census->processes[i];
		census->members[i].process.identity.pid = 100 + 2 * i;
		census->members[i].record.begun_ns = (50 + i) * NS_PER_S;
		census->members[i].record.phase = SESSION_ARRIVED;
	}
	census->processes[1].identity = place->registry.self;
	*state = place;
	return 0;
}

static int meeting_close(void **state)
{
	struct meeting_place *place = *state;

	session_files_remove(&place->files);
	session_registry_close(&place->registry);
	tree_remove(place->root);
	free(place);
	return 0;
}

static enum session_claim claim(struct meeting_place *place)
{
	return session_meeting_claim(&place->registry, &place->census, OWN, HOST);
}

static void graph_file_is_read(const struct meeting_place *place)
{
	char byte;
	int fd = open(place->files.graph_path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(read(fd, &byte, 1), 1);
	close(fd);
}

/* This process has a communicator in that phase. */
static struct session_other *other(struct meeting_place *place, uint64_t comm, enum session_phase phase,
				   uint64_t since_s)
{
	place->census.others[place->census.other_count] = (struct session_other){
		.identity = place->registry.self,
		.job_key = JOB,
		.comm_id = comm,
		.serial = 3,
		.phase_ns = since_s * NS_PER_S,
		.phase = phase,
	};
	return &place->census.others[place->census.other_count++];
}

static void all_must_have_come(void **state)
{
	struct meeting_place *place = *state;
	struct session_census *census = &place->census;

	assert_true(session_meeting_is_whole(census));
	census->members[1].record.phase = SESSION_CLAIMS;
	assert_true(session_meeting_is_whole(census));
	census->members[1].record.phase = SESSION_AWAY;
	assert_false(session_meeting_is_whole(census));
	census->members[1].record.phase = SESSION_FOLLOWS;
	assert_false(session_meeting_is_whole(census));
	census->member_count = 0;
	assert_false(session_meeting_is_whole(census));
	census->member_count = SESSION_MEMBERS_MAX + 1;
	assert_false(session_meeting_is_whole(census));
}

static void a_claim_waits_for_those_who_are_about_to_read(void **state)
{
	struct meeting_place *place = *state;
	struct session_process *reader = &place->census.processes[1];

	session_files_watch(&place->files);
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	reader->readers.count = 1;
	reader->readers.since_ns = 52 * NS_PER_S;
	assert_int_equal(claim(place), SESSION_CLAIM_WAIT);
	reader->readers.since_ns = 51 * NS_PER_S; /* before the last init: it has nothing to do with this one */
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	reader->readers.since_ns = 52 * NS_PER_S;
	reader->job_key = OTHERS_JOB;
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	reader->job_key = JOB;
	reader->host = HOST + 1;
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	reader->host = HOST;
	graph_file_is_read(place);
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	reader->readers.count = 2; /* of two nobody knows which has read */
	assert_int_equal(claim(place), SESSION_CLAIM_WAIT);
	reader->readers.stranger_count = 1; /* it may be in a split that waits for this one */
	assert_int_equal(claim(place), SESSION_CLAIM_PASS);
	reader->readers.stranger_count = 0;
	/* A thread of a rank's process reads the same file, more than once, so it matters until that process says otherwise. */
	place->census.members[1].process.identity = place->registry.self;
	reader->readers.count = 1;
	reader->readers.since_ns = 91 * NS_PER_S;
	assert_int_equal(claim(place), SESSION_CLAIM_WAIT);
	reader->readers.since_ns = 89 * NS_PER_S;
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
}

static void one_claim_at_a_time(void **state)
{
	struct meeting_place *place = *state;
	struct session_other *at = other(place, OTHER, SESSION_CLAIMS, 60);

	assert_int_equal(claim(place), SESSION_CLAIM_HOLD);
	at->comm_id = OWN - 1;
	assert_int_equal(claim(place), SESSION_CLAIM_WAIT);
	at->job_key = OTHERS_JOB;
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	at->job_key = JOB;
	at->phase = SESSION_ARRIVED;
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	place->census.other_count = SESSION_OTHERS_MAX + 1; /* not all are known */
	assert_int_equal(claim(place), SESSION_CLAIM_PASS);
}

static void a_claim_waits_until_plans_are_read(void **state)
{
	struct meeting_place *place = *state;
	struct session_other *at = other(place, OTHER, SESSION_FOLLOWS, 60);

	assert_int_equal(claim(place), SESSION_CLAIM_FREE); /* it has none any more */
	assert_int_equal(session_files_prepare(&place->files, 3), 0);
	assert_int_equal(claim(place), SESSION_CLAIM_WAIT); /* about to be published */
	assert_int_equal(session_files_publish(&place->files, "plan", 4), 0);
	assert_int_equal(claim(place), SESSION_CLAIM_WAIT);
	at->phase_ns = 51 * NS_PER_S;
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	at->phase_ns = 60 * NS_PER_S;
	other(place, OTHER, SESSION_HAS_READ, 60)->serial = 99; /* a rank of another process */
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
	place->census.other_count--;
	graph_file_is_read(place);
	assert_int_equal(claim(place), SESSION_CLAIM_FREE);
}

/* In the registry, where all ranks of a communicator are looked up: of OTHER, which this process is a rank of. */
static void has_record(struct meeting_place *place, enum session_phase phase)
{
	const struct session_record record = {
		.used = 1,
		.comm_id = OTHER,
		.host = HOST,
		.serial = 3,
		.phase = phase,
		.thread = process_thread(),
	};

	assert_int_equal(session_registry_write(&place->registry, 0, &record), 0);
}

static bool may_read(struct meeting_place *place)
{
	static const struct session_patience patience = { .meeting_ns = 2 * NS_PER_S, .reading_ns = 10 * NS_PER_S };

	return session_meeting_may_read(&place->registry, &place->census, JOB, HOST, &patience);
}

static void reading_waits_for_plans_and_ends_those_that_nobody_reads(void **state)
{
	struct meeting_place *place = *state;
	struct session_other *at = other(place, OTHER, SESSION_CLAIMS, 99);

	assert_int_equal(session_files_prepare(&place->files, 3), 0);
	assert_int_equal(session_files_publish(&place->files, "plan", 4), 0);
	assert_false(may_read(place));
	at->phase_ns = 96 * NS_PER_S; /* it has been stopped */
	assert_true(may_read(place));
	at->phase = SESSION_FOLLOWS;
	at->phase_ns = 90 * NS_PER_S + 1;
	assert_false(may_read(place));
	assert_int_equal(session_files_plan_state(place->registry.directory, place->registry.id, 3),
			 SESSION_PLAN_UNREAD);
	at->job_key = OTHERS_JOB;
	assert_true(may_read(place));
	at->job_key = JOB;
	at->phase_ns = 90 * NS_PER_S;
	has_record(place, SESSION_FOLLOWS);
	other(place, ELSEWHERE, SESSION_FOLLOWS, 90)->serial = 4; /* another, which is over */
	assert_true(may_read(place));
	assert_int_equal(session_files_plan_state(place->registry.directory, place->registry.id, 3), SESSION_PLAN_OVER);
	assert_int_equal(session_files_rest(&place->files), 0);
	assert_int_equal(session_files_prepare(&place->files, 3), 0);
	assert_int_equal(session_files_publish(&place->files, "plan", 4), 0);
	graph_file_is_read(place);
	assert_true(may_read(place)); /* and leaves it: others of it are about to read */
	assert_int_equal(session_files_plan_state(place->registry.directory, place->registry.id, 3), SESSION_PLAN_READ);
}

static enum session_plan_state plan_state(const struct meeting_place *place)
{
	return session_files_plan_state(place->registry.directory, place->registry.id, 3);
}

static void what_was_given_up_is_waited_for_no_longer(void **state)
{
	struct meeting_place *place = *state;

	other(place, OTHER, SESSION_FOLLOWS, 99);
	assert_int_equal(session_files_prepare(&place->files, 3), 0);
	assert_int_equal(session_files_publish(&place->files, "plan", 4), 0);
	has_record(place, SESSION_FOLLOWS);
	assert_false(may_read(place));
	has_record(place, SESSION_HAS_READ); /* since long: a census of others does not name it any more */
	assert_true(may_read(place));
	assert_int_equal(plan_state(place), SESSION_PLAN_UNREAD);
	has_record(place, SESSION_AWAY); /* it does something else now */
	assert_true(may_read(place));
	assert_int_equal(plan_state(place), SESSION_PLAN_OVER);
}

static enum session_outlook outlook(const struct meeting_place *place)
{
	return session_outlook_of(&place->registry, &place->census);
}

static void the_outlook_is_what_the_ranks_tell(void **state)
{
	struct meeting_place *place = *state;
	struct session_member *at = place->census.members;

	for (unsigned i = 0; i < 2; i++) {
		at[i].process.identity = place->registry.self;
		at[i].record.phase = SESSION_FOLLOWS;
		at[i].record.thread = process_thread();
		at[i].record.serial = 3 + i;
		at[i].record.planned = 2;
	}
	assert_int_equal(outlook(place), SESSION_OUTLOOK_SLOW);
	at[0].record.phase = SESSION_ARRIVED; /* it follows at once */
	assert_int_equal(outlook(place), SESSION_OUTLOOK_SLOW);
	at[0].record.phase = SESSION_FOLLOWS;
	at[1].record.planned = 3; /* one has ended, and its files are removed */
	assert_int_equal(outlook(place), SESSION_OUTLOOK_GIVEN_UP);
	at[1].record.planned = 0; /* not known */
	assert_int_equal(outlook(place), SESSION_OUTLOOK_SLOW);
	at[1].state = PROCESS_GONE;
	assert_int_equal(outlook(place), SESSION_OUTLOOK_GIVEN_UP);
	at[1].state = PROCESS_ALIVE;
	at[1].record.phase = SESSION_AWAY;
	assert_int_equal(outlook(place), SESSION_OUTLOOK_GIVEN_UP);
	at[1].record.phase = SESSION_FOLLOWS;
	at[1].record.thread = INT32_MAX;
	assert_int_equal(outlook(place), SESSION_OUTLOOK_GIVEN_UP);
	at[1].state = PROCESS_UNKNOWN; /* in another namespace: its threads are not seen */
	assert_int_equal(outlook(place), SESSION_OUTLOOK_SLOW);
	at[1].state = PROCESS_GONE;
	at[0].record.phase = SESSION_HAS_READ; /* then nobody takes it from the others, whatever else there is */
	assert_int_equal(outlook(place), SESSION_OUTLOOK_READ);
	at[0].record.phase = SESSION_FOLLOWS;
	assert_int_equal(session_files_prepare(&place->files, 3), 0);
	assert_int_equal(session_files_publish(&place->files, "plan", 4), 0);
	assert_int_equal(outlook(place), SESSION_OUTLOOK_GIVEN_UP);
	graph_file_is_read(place);
	assert_int_equal(outlook(place), SESSION_OUTLOOK_READ);
}

#define HALL_TEST(name) cmocka_unit_test_setup_teardown(name, hall_open, hall_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HALL_TEST(who_waits_for_a_rank_that_does_not_come_rests),
		HALL_TEST(a_part_of_what_was_given_up_rests),
		HALL_TEST(what_was_given_up_and_others_rest),
		HALL_TEST(two_that_were_given_up_and_go_on_as_one_rest),
		HALL_TEST(a_split_of_just_what_was_given_up_may_have_its_plan),
		HALL_TEST(a_plan_that_is_not_read_does_not_stop_what_comes_later),
		HALL_TEST(ranks_whose_plan_others_took_back_say_so),
		HALL_TEST(communicators_of_others_wait_for_each_other_and_all_have_plans),
		HALL_TEST(a_stranger_does_not_wait_for_ever),
		HALL_TEST(ranks_that_live_have_time_to_read),
		HALL_TEST(of_what_was_given_up_others_hear_at_once),
		cmocka_unit_test_setup_teardown(all_must_have_come, meeting_open, meeting_close),
		cmocka_unit_test_setup_teardown(a_claim_waits_for_those_who_are_about_to_read, meeting_open,
						meeting_close),
		cmocka_unit_test_setup_teardown(one_claim_at_a_time, meeting_open, meeting_close),
		cmocka_unit_test_setup_teardown(a_claim_waits_until_plans_are_read, meeting_open, meeting_close),
		cmocka_unit_test_setup_teardown(reading_waits_for_plans_and_ends_those_that_nobody_reads, meeting_open,
						meeting_close),
		cmocka_unit_test_setup_teardown(what_was_given_up_is_waited_for_no_longer, meeting_open, meeting_close),
		cmocka_unit_test_setup_teardown(the_outlook_is_what_the_ranks_tell, meeting_open, meeting_close),
	};

	return parallel_run_group_tests(tests, NULL, NULL);
}
