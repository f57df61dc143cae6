/* SPDX-License-Identifier: Apache-2.0 */
/* How often a path that has failed is tried, by the clock alone. */
#include "base/clock.h"
#include "transport/verbs/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { CONNECTIONS = 20 };

static const struct verbs_port port = { .name = "fake0", .ethernet = true, .gid = { 0xfe, 0x80, [15] = 1 } };
static const struct verbs_path_ends ends = { &port, { .ethernet = true, .gid = { [10] = 0xff, 0xff, 10, 9, 2, 1 } } };

/* Of so many connections that each look every millisecond: the tries of each second. */
static unsigned try_for(struct verbs_paths *paths, uint64_t from_ns, unsigned seconds, bool lone, unsigned *ret_tries)
{
	unsigned all = 0;

	memset(ret_tries, 0, seconds * sizeof(*ret_tries));
	for (uint64_t now_ns = from_ns; now_ns < from_ns + seconds * NS_PER_S; now_ns += NS_PER_MS)
		for (unsigned i = 0; i < CONNECTIONS; i++) {
			if (!verbs_path_is_open(paths, &ends, lone, now_ns))
				continue;
			assert_true(verbs_path_take(paths, &ends, lone, now_ns));
			verbs_path_failed(paths, &ends, now_ns);
			ret_tries[(now_ns - from_ns) / NS_PER_S]++;
			all++;
		}
	return all;
}

static void a_dead_path_is_tried_six_times_a_minute_at_most(void **state)
{
	enum { SECONDS = 300 };
	static unsigned tries[SECONDS];
	struct verbs_paths paths;

	(void)state;
	verbs_paths_init(&paths);
	verbs_path_doubt(&paths, &ends, NS_PER_S);
	assert_true(try_for(&paths, NS_PER_S, SECONDS, false, tries) >= 3 * SECONDS / 60);
	for (unsigned from = 0; from + 60 <= SECONDS; from++) {
		unsigned sum = 0;

		for (unsigned i = 0; i < 60; i++)
			sum += tries[from + i];
		assert_true(sum <= 6);
	}
	verbs_paths_free(&paths);
}

static void who_has_no_other_waits_less(void **state)
{
	struct verbs_paths paths;
	unsigned tries[60];

	(void)state;
	verbs_paths_init(&paths);
	verbs_path_doubt(&paths, &ends, NS_PER_S);
	assert_int_equal(try_for(&paths, NS_PER_S, 60, true, tries), 4 * 60);
	verbs_paths_free(&paths);
}

static void what_is_proven_or_up_is_tried_at_once(void **state)
{
	struct verbs_path_ends other = ends;
	struct verbs_paths paths;
	uint64_t now_ns = NS_PER_S;
	unsigned tries[60];

	(void)state;
	verbs_paths_init(&paths);
	other.there.gid[15] = 2;
	verbs_path_doubt(&paths, &ends, now_ns);
	try_for(&paths, now_ns, 60, false, tries);
	now_ns += 61 * NS_PER_S;
	for (unsigned i = 0; i < CONNECTIONS; i++) /* as at first */
		assert_true(verbs_path_take(&paths, &other, false, now_ns));
	assert_true(verbs_path_failed(&paths, &other, now_ns));
	assert_false(verbs_path_failed(&paths, &other, now_ns));
	assert_false(verbs_path_take(&paths, &other, false, now_ns));
	verbs_path_proven(&paths, &other);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		assert_true(verbs_path_take(&paths, &other, false, now_ns));
	verbs_path_doubt(&paths, &other, now_ns);
	assert_true(verbs_path_take(&paths, &other, false, now_ns));
	assert_false(verbs_path_take(&paths, &other, false, now_ns)); /* one tries, for all */
	assert_false(verbs_path_take(&paths, &ends, false, now_ns));
	verbs_path_is_up(&paths, &ends, now_ns);
	assert_true(verbs_path_take(&paths, &ends, false, now_ns));
	verbs_path_is_up(&paths, &ends, now_ns + NS_PER_MS); /* another connection hears of the same */
	assert_false(verbs_path_take(&paths, &ends, false, now_ns + NS_PER_MS));
	verbs_paths_free(&paths);
}

static void a_line_names_both_ends(void **state)
{
	struct verbs_port lid_port = { .name = "ib0:2", .lid = 7 };
	const struct verbs_path_ends infiniband = { &lid_port, { .lid = 9 } };
	char text[VERBS_PATH_TEXT_BYTES];

	(void)state;
	assert_string_equal(verbs_path_text(&ends, text), "fake0 (fe80::1) to 10.9.2.1");
	assert_string_equal(verbs_path_text(&infiniband, text), "ib0:2 (LID 7) to LID 9");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dead_path_is_tried_six_times_a_minute_at_most),
		cmocka_unit_test(who_has_no_other_waits_less),
		cmocka_unit_test(what_is_proven_or_up_is_tried_at_once),
		cmocka_unit_test(a_line_names_both_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
