/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary top`: metrics as they are read, also when they are damaged, and what the built program makes of them. */
#include "command/command.h"
#include "command/top/top.h"

#include "program.h"
#include "schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/metrics.h"
#include "base/sys.h"
#include "plugin/metrics.h"
#include "support/runtime.h"

static void samples_are_found_by_name_and_labels(void **state)
{
	static const char text[] =
		"# HELP a_total a\na_total_x{process=\"p\"} 1\n"
		"a_total{process=\"p\",device=\"e\\\\\\\"th,}0\"} 2.5\n"
		"a_total{device=\"e1\",process=\"q\"} 3\na_total 4\n"
		"c{process=\"p\",channels=\"planned\"} 5\nc{process=\"p\",channels=\"nccl\"} 6 1700000000\n";
	struct top_subject of = { "p", "e\\\"th,}0" }, nobody = { "", "" };
	char label[TOP_LABEL_BYTES];

	(void)state;
	assert_true(top_value(text, "a_total", &of, NULL) == 2.5);
	assert_true(top_value(text, "a_total", &(struct top_subject){ "q", "e1" }, NULL) == 3);
	assert_true(top_value(text, "a_total", &nobody, NULL) == 4);
	assert_true(isnan(top_value(text, "a_total", &(struct top_subject){ "q", "" }, NULL)));
	assert_true(isnan(top_value(text, "a", &nobody, NULL)));
	assert_true(top_value(text, "c", &(struct top_subject){ "p", "" }, "nccl") == 6);
	assert_true(top_label(text, "a_total", &of, "device", label));
	assert_string_equal(label, "e\\\"th,}0");
	assert_false(top_label(text, "a_total", &of, "none", label));
}

/* Whatever a file holds, or is cut to: no reading beyond it, and no value that it has not. */
static void damaged_text_gives_nothing(void **state)
{
	static const char text[] = "tributary_connections{process=\"p\",device=\"eth0\"} 12\n";
	static const char *const wrong[] = {
		"a{",           "a{x",
		"a{x=",         "a{x=\"",
		"a{x=\"y",      "a{x=\"y\"",
		"a{x=\"y\"}",   "a{x=\"y\"}7",
		"a{x=\"y\"} ",  "a{x=\"y\"} seven\n",
		"a{\"y\"} 7\n", "a{x=\"y\\",
		"a\n7\n",       "a 7x\n",
		"a{x=y} 7\n",   "",
	};
	struct top_subject of = { "p", "eth0" }, nobody = { "", "" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (!isnan(top_value(wrong[i], "a", &nobody, NULL)))
			fail_msg("%s has a value", wrong[i]);
	for (size_t bytes = 0; bytes + 3 < sizeof(text); bytes++) {
		char *part = malloc(bytes + 1);
		const char *at = part;
		struct top_subject found;

		assert_non_null(part);
		memcpy(part, text, bytes);
		part[bytes] = '\0';
		assert_true(isnan(top_value(part, "tributary_connections", &of, NULL)));
		while (top_next_subject(&at, &found))
			assert_string_equal(found.device, "eth0");
		free(part);
	}
}

static char folder[256];
static atomic_bool written_enough;

/* Each file says that a second has passed, in which so many bytes went out. */
static void write_process(unsigned pid, double updated_s, double bytes)
{
	char name[64], text[2000];
	int length;

	snprintf(name, sizeof(name), PLUGIN_METRICS_PREFIX "h-%u-1.prom", pid);
	length = snprintf(
		text, sizeof(text),
		"tributary_info{process=\"%u-1\",pid=\"%u\",local_rank=\"%u\",host=\"h\",command=\"py\x1b\"} 1\n"
		"tributary_updated_timestamp_seconds{process=\"%u-1\"} %.3f\n"
		"tributary_communicators_total{process=\"%u-1\",channels=\"planned\"} 3\n"
		"tributary_communicators_total{process=\"%u-1\",channels=\"nccl\"} 1\n"
		"tributary_collnet_bytes_total{process=\"%u-1\"} 0\n"
		"tributary_sent_bytes_total{process=\"%u-1\",device=\"eth0\"} %.0f\n"
		"tributary_received_bytes_total{process=\"%u-1\",device=\"eth0\"} %.0f\n"
		"tributary_connections{process=\"%u-1\",device=\"eth0\"} 4\n"
		"tributary_streams{process=\"%u-1\",device=\"eth0\"} 32\n"
		"tributary_movers{process=\"%u-1\",device=\"eth0\"} 5\n"
		"tributary_oldest_wait_seconds{process=\"%u-1\",device=\"eth0\"} 2.5\n",
		pid, pid, pid, pid, updated_s, pid, pid, pid, pid, bytes, pid, 2 * bytes, pid, pid, pid, pid);
	assert_int_equal(metrics_file_write(folder, name, text, (size_t)length), 0);
}

static void *write_on(void *arg)
{
	const double now_s = (double)time(NULL);

	(void)arg;
	for (unsigned i = 1; !written_enough; i++) {
		write_process(7, now_s + i, 125e6 * i);
		write_process(10, now_s + i, 0);
		usleep(100000);
	}
	return NULL;
}

static int run_top(const char *arguments, char *text, size_t bytes)
{
	pthread_t writer;
	char line[512];
	int status;

	written_enough = false;
	assert_int_equal(pthread_create(&writer, NULL, write_on, NULL), 0);
	snprintf(line, sizeof(line), "top %s %s", arguments, folder);
	status = program_run(line, PROGRAM_STDOUT, text, bytes);
	written_enough = true;
	pthread_join(writer, NULL);
	return status;
}

static void rates_follow_from_what_files_say_themselves(void **state)
{
	char text[8000];
	json_t *whole, *rows;

	(void)state;
	snprintf(folder, sizeof(folder), "%s", program_folder());
	write_process(7, (double)time(NULL), 0);
	write_process(10, (double)time(NULL), 0);
	write_process(8, (double)time(NULL) - 1000, 5e9); /* was killed */
	assert_int_equal(run_top("--json", text, sizeof(text)), COMMAND_OK);
	whole = schema_check_output(text);
	rows = json_object_get(whole, "rows");
	assert_int_equal(json_array_size(rows), 2);
	program_check_near(program_number(json_array_get(rows, 0), "send_Bps"), 125e6, 1e-6);
	program_check_near(program_number(json_array_get(rows, 0), "receive_Bps"), 250e6, 1e-6);
	assert_true(program_number(json_array_get(rows, 0), "communicators_planned") == 3);
	assert_true(program_number(json_array_get(rows, 0), "streams") == 32);
	assert_true(program_number(json_array_get(rows, 0), "movers") == 5);
	assert_true(program_number(json_array_get(rows, 1), "send_Bps") == 0);
	assert_true(json_is_null(json_object_get(json_array_get(rows, 1), "groups")));
	json_decref(whole);
	assert_int_equal(run_top("--once", text, sizeof(text)), COMMAND_OK);
	assert_non_null(strstr(text, "1 device of processes that have ended left out\nHOST "));
	assert_non_null(strstr(text, "\nh       7     7  eth0    1.00     2.00       -       2.5          -          -     4       32       5        0.00"));
	assert_null(strchr(text, '\x1b')); /* no terminal, and nothing of what a file holds reaches one */
}

static void a_place_that_cannot_be_read_is_named(void **state)
{
	char text[2000];

	(void)state;
	assert_int_equal(program_run("top /nowhere/at/all", PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "/nowhere/at/all: No such file"));
	assert_int_equal(program_run("top 127.0.0.1:1", PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "127.0.0.1:1: Connection refused"));
	assert_int_equal(program_run("top", PROGRAM_STDERR, text, sizeof(text)), COMMAND_FAILED);
	assert_non_null(strstr(text, "TRIBUTARY_METRICS"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_found_by_name_and_labels),
		cmocka_unit_test(damaged_text_gives_nothing),
		cmocka_unit_test(rates_follow_from_what_files_say_themselves),
		cmocka_unit_test(a_place_that_cannot_be_read_is_named),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
