/* SPDX-License-Identifier: Apache-2.0 */
/* Why a collective took another time than was predicted: made-up records of each cause, and of none. */
#include "command/status/compare.h"

#include "tributary/predict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#define RING                                 \
	{                                    \
		PREDICT_RING, PREDICT_SIMPLE \
	}
#define TREE                             \
	{                                \
		PREDICT_TREE, PREDICT_LL \
	}

static const struct compare_link half = { "gpu2 to switch0", 6e9, 12e9 };

static const struct {
	const char *what;
	struct compare_way taken, predicted;
	double predicted_us, taken_us, times_us[4]; /* up to the first 0 */
	const struct compare_link *link;
	const char *other_job;
	enum compare_cause cause;
	const char *says; /* "": nothing */
} cases[] = {
	{ "no times", RING, RING, 100, 100, { 0 }, &half, "other", COMPARE_NOT_MEASURED, "" },
	{ "no prediction", RING, RING, 0, 0, { 100 }, NULL, NULL, COMPARE_NOT_MEASURED, "" },
	{ "as predicted", RING, RING, 100, 100, { 101, 99 }, NULL, NULL, COMPARE_AGREES, "" },
	{ "at the edge above", RING, RING, 100, 100, { 114.9, 114.9 }, &half, "other", COMPARE_AGREES, "" },
	{ "at the edge below", RING, RING, 100, 100, { 85.1 }, NULL, NULL, COMPARE_AGREES, "" },
	{ "another way as fast", TREE, RING, 100, 100, { 100 }, NULL, NULL, COMPARE_AGREES, "" },
	{ "faster as the model says of what NCCL took",
	  TREE,
	  RING,
	  100,
	  60,
	  { 60, 61 },
	  NULL,
	  NULL,
	  COMPARE_AGREES,
	  "" },
	{ "faster", RING, RING, 100, 100, { 80, 84 }, &half, "other", COMPARE_FASTER, "the profile is too low" },
	{ "another choice", TREE, RING, 100, 200, { 200, 205 }, &half, "other", COMPARE_CHOICE, "NCCL took Tree/LL" },
	{ "another choice, whose time is none of the model's",
	  TREE,
	  RING,
	  100,
	  0,
	  { 200 },
	  NULL,
	  NULL,
	  COMPARE_NOT_KNOWN,
	  "" },
	{ "another choice that does not explain it",
	  TREE,
	  RING,
	  100,
	  130,
	  { 300, 300 },
	  NULL,
	  NULL,
	  COMPARE_NOT_KNOWN,
	  "cause not known" },
	{ "a slow rank",
	  RING,
	  RING,
	  100,
	  100,
	  { 200, 101, 210, 205 },
	  &half,
	  "other",
	  COMPARE_SLOW_RANK,
	  "wait for rank 1, which takes 101 us where they take 205 us" },
	{ "a slow rank that is quicker than predicted itself",
	  RING,
	  RING,
	  100,
	  100,
	  { 200, 50, 210, 205 },
	  NULL,
	  NULL,
	  COMPARE_SLOW_RANK,
	  "wait for rank 1" },
	{ "two ranks, one slow", RING, RING, 100, 100, { 180, 95 }, NULL, NULL, COMPARE_SLOW_RANK, "wait for rank 1" },
	{ "the quickest is slow as well",
	  RING,
	  RING,
	  100,
	  100,
	  { 400, 300, 410, 405 },
	  NULL,
	  NULL,
	  COMPARE_NOT_KNOWN,
	  "" },
	{ "all alike", RING, RING, 100, 100, { 200, 190, 205, 195 }, NULL, NULL, COMPARE_NOT_KNOWN, "" },
	{ "one rank alone", RING, RING, 100, 100, { 200 }, NULL, NULL, COMPARE_NOT_KNOWN, "" },
	{ "a link",
	  RING,
	  RING,
	  100,
	  100,
	  { 200, 190 },
	  &half,
	  "other",
	  COMPARE_LINK,
	  "gpu2 to switch0 now carries 6.00 GB/s, and the profile says 12.0 GB/s" },
	{ "a link that lacks too little", RING, RING, 100, 100, { 400, 390 }, &half, NULL, COMPARE_NOT_KNOWN, "" },
	{ "a link that lacks too little, and a job",
	  RING,
	  RING,
	  100,
	  100,
	  { 400, 390 },
	  &half,
	  "python3 (job 7)",
	  COMPARE_OTHER_JOB,
	  "python3 (job 7) ran meanwhile" },
	{ "another job",
	  RING,
	  RING,
	  100,
	  100,
	  { 150, 160 },
	  NULL,
	  "python3 (job 7)",
	  COMPARE_OTHER_JOB,
	  "when it has ended" },
	{ "nothing is at hand",
	  RING,
	  RING,
	  100,
	  100,
	  { 150, 160 },
	  NULL,
	  NULL,
	  COMPARE_NOT_KNOWN,
	  "`tributary doctor`" },
};

static void each_cause_is_named_where_something_shows_it_and_not_else(void **state)
{
	bool seen[COMPARE_CAUSE_COUNT] = { false };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct compare_rank ranks[4] = { { "rank 0", 0 }, { "rank 1", 0 }, { "rank 2", 0 }, { "rank 3", 0 } };
		struct compare_case at = { .taken = cases[i].taken,
					   .predicted = cases[i].predicted,
					   .predicted_us = cases[i].predicted_us,
					   .taken_us = cases[i].taken_us,
					   .ranks = ranks,
					   .link = cases[i].link,
					   .other_job = cases[i].other_job };
		char text[COMPARE_TEXT_BYTES];
		enum compare_cause cause;

		for (; at.rank_count < 4 && cases[i].times_us[at.rank_count] > 0; at.rank_count++)
			ranks[at.rank_count].time_us = cases[i].times_us[at.rank_count];
		cause = compare_explain(&at, text);
		if (cause != cases[i].cause || !strstr(text, cases[i].says))
			fail_msg("%s: %s, \"%s\"", cases[i].what, compare_cause_word(cause), text);
		assert_int_equal(!text[0], cause == COMPARE_AGREES || cause == COMPARE_NOT_MEASURED);
		assert_true(strlen(text) < COMPARE_TEXT_BYTES - 1);
		seen[cause] = true;
	}
	for (size_t i = 0; i < COMPARE_CAUSE_COUNT; i++)
		assert_true(seen[i]);
}

static void the_median_of_the_ranks_is_what_it_took(void **state)
{
	const struct compare_rank ranks[] = { { "a", 9 }, { "b", 1 }, { "c", 5 }, { "d", 6 } };
	struct compare_case at = { .ranks = ranks };

	(void)state;
	assert_true(compare_measured_us(&at) == 0);
	at.rank_count = 3;
	assert_true(fabs(compare_measured_us(&at) - 5) < 1e-9);
	at.rank_count = 4;
	assert_true(fabs(compare_measured_us(&at) - 5.5) < 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_cause_is_named_where_something_shows_it_and_not_else),
		cmocka_unit_test(the_median_of_the_ranks_is_what_it_took),
	};

	return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
