/* SPDX-License-Identifier: Apache-2.0 */
/* What `tributary status --metrics` writes of jobs: the text, and the file. tests/metrics shows it of running ones. */
#include "command/status/metrics.h"

#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "command/command.h"
#include "tributary/predict.h"

static struct compare_rank ranks[3] = { { "rank 0", 200 }, { "rank 1", 400 }, { "rank 2", 210.25 } };

/* Of what was predicted to take 100 µs. */
static struct measured_row row_of(int algorithm, unsigned size_class, enum compare_cause cause)
{
	return (struct measured_row){ .of = { .collective = PREDICT_ALLREDUCE,
					      .algorithm = algorithm,
					      .protocol = algorithm,
					      .size_class = size_class,
					      .channels = 2,
					      .rank_count = 4,
					      .node_count = 1,
					      .comm_id = 0xab,
					      .count = 9,
					      .bytes = 9000,
					      .sampled = 2,
					      .sampled_bytes = 2000 },
				      .at = { .predicted_us = 100, .ranks = ranks, .rank_count = 3 },
				      .cause = cause };
}

static char *text_of(const struct job *const *jobs, const struct measured *measured, size_t count)
{
	struct text out = { .bytes = 0 };
	size_t bytes;
	char *text = NULL;

	status_metrics_print(jobs, measured, count, &out);
	assert_int_equal(text_take(&out, &text, &bytes), 0);
	return text;
}

#define OF_A(way, up_to)                                                                                             \
	"{job_id=\"j\\\"1\",command=\"a b\",communicator=\"00000000000000ab\",ranks=\"4\",hosts=\"1\",collective=\"" \
	"allreduce\"," way ",channels=\"2\",up_to=\"" up_to "\""
#define RING  "algorithm=\"ring\",protocol=\"ll128\""
#define UNSET "algorithm=\"\",protocol=\"\""

/* That metric has these series and no others; more: behind the labels, and the value. */
static void check_series(const char *text, const char *name, const char *const more[3])
{
	static const char *const labels[] = { OF_A(RING, "1K"), OF_A(UNSET, "1"), OF_A(RING, "8E") };
	char start[96], line[512];

	snprintf(start, sizeof(start), "\n%s{", name);
	for (size_t i = 0; i < 3; i++) {
		text = strstr(text, start);
		snprintf(line, sizeof(line), "%s%s%s\n", name, labels[i], more[i]);
		if (!text || strncmp(++text, line, strlen(line)) != 0) {
			fail_msg("%s, and not %s", text ? text : "nothing", line);
			return;
		}
	}
	assert_null(strstr(text, start));
}

static void running_jobs_have_times_predictions_and_causes(void **state)
{
	struct job running = { .process = { .job = "j\"1", .command = "a b" }, .running = true }, ended = running;
	struct measured_row rows[] = { row_of(1, 10, COMPARE_SLOW_RANK), row_of(-1, 0, COMPARE_AGREES),
				       row_of(1, 36, COMPARE_NOT_MEASURED), row_of(1, 63, COMPARE_LINK) };
	const struct measured measured[] = { { .rows = rows, .row_count = 4 }, { .rows = rows, .row_count = 4 } };
	const struct job *jobs[] = { &ended, &running };
	char *text;

	(void)state;
	ended.running = false;
	text = text_of(jobs, measured, 2);
	check_series(text, "tributary_collective_measured_seconds",
		     (const char *const[]){ "} 0.000210250", "} 0.000210250", "} 0.000210250" });
	check_series(text, "tributary_collective_predicted_seconds",
		     (const char *const[]){ "} 0.000100000", "} 0.000100000", "} 0.000100000" });
	/* 2 × 3/4 of each of their 1000 bytes. */
	check_series(text, "tributary_collective_bus_bytes", (const char *const[]){ "} 1500", "} 1500", "} 1500" });
	check_series(text, "tributary_collective_cause",
		     (const char *const[]){ ",cause=\"slow-rank\"} 1", ",cause=\"agrees\"} 1", ",cause=\"link\"} 1" });
	sys_free(text);
	assert_null(text_of(&jobs[0], measured, 1)); /* nothing runs */
}

/* A file stays what it was for the last job until there is another one: an empty one says that nothing runs. */
static void the_file_is_replaced_and_nothing_else_is_printed(void **state)
{
	char line[512], host[65] = "", text[1024], path[512];
	FILE *file;

	(void)state;
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	snprintf(path, sizeof(path), "%s/tributary-status-%s-%u.prom", program_folder(), host, (unsigned)getuid());
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs("tributary_collective_cause 1\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
	snprintf(line, sizeof(line), "status --metrics %s", program_folder());
	assert_int_equal(program_run(line, PROGRAM_STDOUT, text, sizeof(text)), COMMAND_OK);
	assert_string_equal(text, "");
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fgetc(file), EOF);
	assert_int_equal(fclose(file), 0);
	snprintf(line, sizeof(line), "status --metrics %s/none", program_folder());
	assert_int_equal(program_run(line, PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "/none\": No such file or directory"));
	assert_int_equal(program_run("status --metrics . --json", PROGRAM_STDERR, text, sizeof(text)), COMMAND_USAGE);
	assert_non_null(strstr(text, "give one of them"));
}

static int begin(void **state)
{
	int r = program_find(state);

	setenv("TRIBUTARY_STATE_DIR", program_folder(), 1);
	setenv("TRIBUTARY_SHARED_DIR", program_folder(), 1);
	return r;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(running_jobs_have_times_predictions_and_causes),
		cmocka_unit_test(the_file_is_replaced_and_nothing_else_is_printed),
	};

	return cmocka_run_group_tests_name("status_metrics", tests, begin, NULL);
}
