/* SPDX-License-Identifier: Apache-2.0 */
/* What the profiler half counts, as series: how many there may be, and that they leave out nothing and add nothing. */
#include "plugin/metrics_operations.h"

#include "base/sys.h"
#include "base/text.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MIB = 1 << 20, ROUNDS = 20 };

static struct operations operations;

static void put_row(size_t i, size_t comm, const struct operations_line *line, uint64_t count, uint64_t sampled)
{
	struct operations_row *row = &operations.rows[i];

	row->count = count;
	row->bytes = count * MIB;
	row->sampled = sampled;
	row->sampled_bytes = sampled * MIB;
	row->sampled_ns = sampled * 1000;
	row->key = operations_key(comm, line);
}

static char *printed(void)
{
	struct text out = { .bytes = 0 };
	char *text;
	size_t bytes;

	plugin_metrics_operations_print(&operations, "1-2", &out);
	assert_int_equal(text_take(&out, &text, &bytes), 0);
	return text;
}

/* Of all series of that metric, and how many there are. */
static size_t sum_of(const char *text, const char *name, double *ret_sum)
{
	size_t count = 0, bytes = strlen(name);

	*ret_sum = 0;
	for (const char *line = text; line; line = strchr(line, '\n'), line += line ? 1 : 0)
		if (!strncmp(line, name, bytes) && line[bytes] == '{') {
			*ret_sum += strtod(strchr(line, '}') + 1, NULL);
			count++;
		}
	return count;
}

static void communicators_and_channels_are_added_up(void **state)
{
	const struct operations_line four = { .collective = PREDICT_ALLREDUCE,
					      .algorithm = PREDICT_RING,
					      .protocol = PREDICT_LL128,
					      .size_class = 20,
					      .channels = 4 };
	struct operations_line eight = four, other = four;
	double sum;
	char *text;

	(void)state;
	memset(&operations, 0, sizeof(operations));
	operations.times = OPERATIONS_TIMES_ON;
	operations.captured = 5;
	operations.lost = 6;
	operations.comms[0].rank_count = 4;
	operations.comms[1].rank_count = 2;
	eight.channels = 8;
	eight.size_class = 17; /* of the same step */
	other.size_class = 21;
	put_row(3, 0, &four, 10, 2);
	put_row(5, 1, &eight, 20, 4);
	put_row(9, 0, &other, 1, 0);
	text = printed();
#define LABELS(size) \
	"{process=\"1-2\",collective=\"allreduce\",algorithm=\"ring\",protocol=\"ll128\",up_to=\"" size "\"} "
	assert_non_null(strstr(text, "\ntributary_operations_total" LABELS("1M") "30\n"));
	assert_non_null(strstr(text, "\ntributary_operations_total" LABELS("16M") "1\n"));
	assert_non_null(strstr(text, "\ntributary_operation_bytes_total" LABELS("1M") "31457280\n"));
	assert_non_null(strstr(text, "\ntributary_operation_samples_total" LABELS("1M") "6\n"));
	assert_non_null(strstr(text, "\ntributary_operation_samples_total" LABELS("16M") "0\n"));
	assert_non_null(strstr(text, "\ntributary_operation_sampled_seconds_total" LABELS("1M") "0.000006000\n"));
	assert_non_null(strstr(text, "\ntributary_operation_sampled_bytes_total" LABELS("1M") "6291456\n"));
	/* Of 4 ranks 3/2, of 2 ranks 1. */
	assert_non_null(strstr(text, "\ntributary_operation_sampled_bus_bytes_total" LABELS("1M") "7340032\n"));
	assert_non_null(strstr(text, "\ntributary_operations_captured_total{process=\"1-2\"} 5\n"));
	assert_non_null(strstr(text, "\ntributary_operations_lost_total{process=\"1-2\"} 6\n"));
	assert_non_null(strstr(text, "\ntributary_operations_timed{process=\"1-2\"} 1\n"));
	assert_int_equal(sum_of(text, "tributary_operations_total", &sum), 2);
	sys_free(text);
}

static void messages_have_no_algorithm_and_cross_the_bus_once(void **state)
{
	const struct operations_line send = {
		.collective = OPERATIONS_SEND, .algorithm = -1, .protocol = -1, .size_class = 40
	};
	char *text;

	(void)state;
	memset(&operations, 0, sizeof(operations));
	operations.times = OPERATIONS_TIMES_GRAPHS; /* what was sampled before stays */
	put_row(0, 0, &send, 3, 3);
	text = printed();
	assert_non_null(strstr(text,
			       "\ntributary_operation_sampled_bus_bytes_total{process=\"1-2\",collective=\"send\","
			       "algorithm=\"\",protocol=\"\",up_to=\"+Inf\"} 3145728\n"));
	assert_non_null(strstr(text, "\ntributary_operations_timed{process=\"1-2\"} 0\n"));
	sys_free(text);
}

static void without_times_there_are_no_series_of_them(void **state)
{
	const struct operations_line line = { .collective = PREDICT_REDUCE, .algorithm = -1, .protocol = -1 };
	double sum;
	char *text;

	(void)state;
	memset(&operations, 0, sizeof(operations));
	put_row(0, 0, &line, 3, 0);
	text = printed();
	assert_int_equal(sum_of(text, "tributary_operations_total", &sum), 1);
	assert_null(strstr(text, "tributary_operation_samples_total"));
	sys_free(text);
	memset(&operations, 0, sizeof(operations));
	text = printed();
	assert_null(strstr(text, "tributary_operations_total"));
	assert_non_null(strstr(text, "tributary_operations_lost_total{process=\"1-2\"} 0\n"));
	sys_free(text);
}

static void series_are_bounded_and_sum_up_to_what_was_counted(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		double counted = 0, sum;
		char *text;

		memset(&operations, 0, sizeof(operations));
		for (size_t i = 0; i < OPERATIONS_ROWS; i++) {
			const struct operations_line line = {
				.collective = (int)random_below(&random, OPERATIONS_KINDS),
				.algorithm = (int)random_below(&random, PREDICT_ALGORITHM_COUNT + 1) - 1,
				.protocol = (int)random_below(&random, PREDICT_PROTOCOL_COUNT + 1) - 1,
				.size_class = (unsigned)random_below(&random, 65),
				.channels = (unsigned)random_below(&random, 65),
			};
			const uint64_t count = 1 + random_below(&random, 1000000);

			if (!operations_collective_word(line.collective))
				continue;
			put_row(i, random_below(&random, OPERATIONS_COMMS), &line, count, 0);
			counted += (double)count;
		}
		text = printed();
		assert_true(sum_of(text, "tributary_operations_total", &sum) <= PLUGIN_METRICS_OPERATIONS_SERIES);
		assert_true(sum == counted); /* whole numbers below 2^53 */
		sys_free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(communicators_and_channels_are_added_up),
		cmocka_unit_test(messages_have_no_algorithm_and_cross_the_bus_once),
		cmocka_unit_test(without_times_there_are_no_series_of_them),
		cmocka_unit_test(series_are_bounded_and_sum_up_to_what_was_counted),
	};

	runtime_start("metrics_operations", 60);
	return cmocka_run_group_tests_name("plugin/metrics_operations", tests, NULL, NULL);
}
