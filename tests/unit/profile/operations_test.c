/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/operations.h"

#include "profile/tuning.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct operations operations;
static char text[OPERATIONS_TEXT_BYTES];

static void fill(size_t rows, uint64_t *random)
{
	memset(&operations, 0, sizeof(operations));
	for (size_t i = 0; i < OPERATIONS_COMMS; i++) {
		operations.comms[i].last_id = random_next(random);
		operations.comms[i].communicators = 1 + random_below(random, 5);
		operations.comms[i].rank_count = (uint32_t)random_below(random, 1000);
		operations.comms[i].node_count = (uint32_t)random_below(random, 10);
		operations.comms[i].rank = (int32_t)random_below(random, 1000) - 1;
	}
	for (size_t i = 0; i < rows; i++) {
		const struct operations_line line = {
			.collective = (int)random_below(random, PREDICT_COLLECTIVE_COUNT),
			.algorithm = (int)random_below(random, PREDICT_ALGORITHM_COUNT + 1) - 1,
			.protocol = (int)random_below(random, PREDICT_PROTOCOL_COUNT + 1) - 1,
			.size_class = (unsigned)random_below(random, 64),
			.channels = (unsigned)random_below(random, 65),
		};
		struct operations_row *row = &operations.rows[i];

		row->count = 1 + (random_next(random) >> random_below(random, 64));
		row->bytes = random_next(random);
		row->sampled = random_next(random);
		row->sampled_bytes = random_next(random);
		row->sampled_ns = random_next(random);
		row->least_ns = random_next(random);
		row->most_ns = random_next(random);
		row->key = operations_key(random_below(random, OPERATIONS_COMMS), &line);
	}
	operations.row_count = rows;
	operations.magic = OPERATIONS_MAGIC;
}

struct seen {
	struct operations_line lines[OPERATIONS_ROWS];
	size_t count;
};
static struct seen seen;

static void see(void *arg, const struct operations_line *line)
{
	(void)arg;
	seen.lines[seen.count++] = *line;
}

static void what_is_printed_is_read_again(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		const size_t rows = 1 + random_below(&random, OPERATIONS_LINES);
		struct operations_head head;
		struct operations_line read;
		const char *line = text;
		uint64_t before = UINT64_MAX;
		size_t found = 0, printed;

		fill(rows, &random);
		operations.times = random_below(&random, OPERATIONS_TIMES_COUNT);
		operations.captured = random_next(&random);
		printed = operations_print(&operations, text);
		assert_int_equal(printed, strlen(text));
		assert_true(operations_read_head(line, &head));
		assert_int_equal(head.times, operations.times);
		assert_int_equal(head.captured, operations.captured);
		assert_int_equal(head.lost, 0);
		seen.count = 0;
		operations_each(&operations, see, NULL);
		assert_int_equal(seen.count, rows);
		while ((line = strchr(line, '\n')) && *++line) {
			assert_true(operations_read_line(line, &read));
			assert_true(read.bytes <= before);
			before = read.bytes;
			for (size_t i = 0; i < rows; i++)
				found += !memcmp(&read, &seen.lines[i], sizeof(read));
		}
		assert_int_equal(found, rows);
	}
}

static void what_is_not_printed_is_in_lost(void **state)
{
	uint64_t random = runtime_seed(), expected = 7;
	struct operations_head head;
	struct operations_line line;
	size_t printed;

	(void)state;
	fill(OPERATIONS_ROWS, &random);
	operations.lost = 7;
	for (size_t i = 0; i < OPERATIONS_ROWS; i++) {
		operations.rows[i].count = 1 + i;
		expected += 1 + i;
	}
	printed = operations_print(&operations, text);
	assert_int_equal(printed, strlen(text));
	assert_true(operations_read_head(text, &head));
	for (const char *at = text; (at = strchr(at, '\n')) && *++at;) {
		assert_true(operations_read_line(at, &line));
		expected -= line.count;
	}
	assert_int_equal(head.lost, expected);
}

static void nothing_is_printed_of_nothing(void **state)
{
	struct operations none = { .magic = OPERATIONS_MAGIC };

	(void)state;
	assert_int_equal(operations_print(&none, text), 0);
	assert_string_equal(text, "");
	assert_false(operations_any(NULL));
}

static void other_layouts_and_damaged_rows_are_passed_over(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	fill(OPERATIONS_LINES, &random);
	assert_true(operations_is_whole(&operations, sizeof(operations)));
	assert_false(operations_is_whole(&operations, sizeof(operations) - 1));
	operations.magic++;
	assert_false(operations_is_whole(&operations, sizeof(operations)));
	for (unsigned round = 0; round < 1000; round++) {
		for (size_t i = 0; i < OPERATIONS_ROWS; i++)
			operations.rows[i].key = random_next(&random);
		seen.count = 0;
		operations_each(&operations, see, NULL);
		for (size_t i = 0; i < seen.count; i++)
			assert_non_null(operations_collective_word(seen.lines[i].collective));
	}
}

static void lines_that_are_none_are_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"operation",
		"operations times sometimes lost 0 captured 0\n",
		"operations times on lost x\n",
		"operation dance to 8 algorithm ring protocol ll channels 2 of 1 communicators 1 ranks 2 nodes 1 rank 0 "
		"count 1 bytes 8 sampled 0 sampled_bytes 0 ns 0 least 0 most 0\n",
		"operation allreduce to 8 algorithm ring protocol ll channels 2 of 1 communicators 1 ranks 2 nodes 1 "
		"rank 0 count 1 bytes 8 sampled 0 sampled_bytes 0 ns 0 least 0 most\n",
	};
	struct operations_line line = { .count = 77 };
	struct operations_head head;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_false(operations_read_line(lines[i], &line));
		assert_false(operations_read_head(lines[i], &head));
	}
	assert_int_equal(line.count, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_printed_is_read_again),
		cmocka_unit_test(what_is_not_printed_is_in_lost),
		cmocka_unit_test(nothing_is_printed_of_nothing),
		cmocka_unit_test(other_layouts_and_damaged_rows_are_passed_over),
		cmocka_unit_test(lines_that_are_none_are_refused),
	};

	runtime_start("operations", 60);
	return cmocka_run_group_tests_name("profile/operations", tests, NULL, NULL);
}
