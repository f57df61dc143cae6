/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text form, and files that are replaced as a whole. */
#include "base/metrics.h"

#include "base/sys.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct values {
	uint64_t first, second, third;
};

static const struct metrics_row rows[] = {
	{ "a_total", METRICS_COUNTER, offsetof(struct values, first), "First." },
	{ "b_seconds", METRICS_GAUGE_NS, offsetof(struct values, second), "Second." },
	{ "c_cores", METRICS_GAUGE_MILLI, offsetof(struct values, third), "Third." },
	{ .name = NULL },
};

static char folder[] = "/tmp/metrics_test.XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char line[64];

	(void)state;
	snprintf(line, sizeof(line), "rm -rf %s", folder);
	return system(line);
}

static void a_table_becomes_help_type_and_one_line_a_sample(void **state)
{
	const struct values one = { UINT64_MAX, 1500000000, 2250 }, two = { 7, 3, 40 };
	const struct metrics_sample samples[] = { { &one, "x=\"1\"" }, { &two, "" } };
	struct text out = { .bytes = 0 };

	(void)state;
	metrics_print(rows, samples, 2, &out);
	metrics_print(rows, samples, 0, &out); /* no device: no line at all */
	assert_int_equal(out.error, 0);
	assert_string_equal(out.at, "# HELP a_total First.\n# TYPE a_total counter\n"
				    "a_total{x=\"1\"} 18446744073709551615\na_total 7\n"
				    "# HELP b_seconds Second.\n# TYPE b_seconds gauge\n"
				    "b_seconds{x=\"1\"} 1.500000000\nb_seconds 0.000000003\n"
				    "# HELP c_cores Third.\n# TYPE c_cores gauge\n"
				    "c_cores{x=\"1\"} 2.250\nc_cores 0.040\n");
	sys_free(out.at);
}

static void labels_are_escaped_and_cut_where_they_do_not_fit(void **state)
{
	char labels[METRICS_LABELS_BYTES] = "", value[2 * METRICS_LABELS_BYTES];

	(void)state;
	metrics_label(labels, "group", "a \"b\\\n\x7f\xc3\xa4");
	metrics_label(labels, "id", "");
	assert_string_equal(labels, "group=\"a \\\"b\\\\____\",id=\"\"");
	memset(value, '"', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	metrics_label(labels, "long", value);
	assert_true(strlen(labels) < sizeof(labels));
	assert_string_equal(labels + strlen(labels) - 3, "\\\"\"");
	snprintf(value, sizeof(value), "%s", labels);
	metrics_label(labels, "none", "x"); /* no room for its name */
	assert_string_equal(labels, value);
}

static size_t names_in_folder(void)
{
	char line[64];
	FILE *list;
	size_t count = 0;

	snprintf(line, sizeof(line), "ls -A %s", folder);
	list = popen(line, "r");
	assert_non_null(list);
	while (fgets(line, sizeof(line), list))
		count++;
	pclose(list);
	return count;
}

static void must_hold(const char *name, const char *expected)
{
	char path[128], text[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(text, expected);
}

/* Who has it open goes on reading the old one; and a link that somebody put there is replaced, not followed. */
static void a_file_is_replaced_as_a_whole(void **state)
{
	char path[128], text[8] = "";
	int fd;

	(void)state;
	assert_int_equal(metrics_file_write(folder, "p-1.prom", "old\n", 4), 0);
	snprintf(path, sizeof(path), "%s/p-1.prom", folder);
	fd = open(path, O_RDONLY);
	assert_int_equal(metrics_file_write(folder, "p-1.prom", "newer\n", 6), 0);
	assert_int_equal(read(fd, text, sizeof(text)), 4);
	close(fd);
	must_hold("p-1.prom", "newer\n");
	snprintf(path, sizeof(path), "%s/p-2.prom", folder);
	assert_int_equal(symlink("p-1.prom", path), 0);
	assert_int_equal(metrics_file_write(folder, "p-2.prom", "own\n", 4), 0);
	must_hold("p-1.prom", "newer\n");
	must_hold("p-2.prom", "own\n");
	metrics_file_remove(folder, "p-2.prom");
	assert_int_equal(names_in_folder(), 1);
}

/* As on a full disk: the write fails in its midst. */
static void a_write_that_fails_leaves_the_old_file_and_nothing_else(void **state)
{
	struct rlimit before, none = { 0, 0 };

	(void)state;
	assert_int_equal(metrics_file_write(folder, "p-1.prom", "old\n", 4), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(metrics_file_write(folder, "p-1.prom", "newer\n", 6), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	must_hold("p-1.prom", "old\n");
	assert_int_equal(names_in_folder(), 1);
	assert_int_equal(metrics_file_write("/nowhere/at/all", "p-1.prom", "x", 1), -ENOENT);
	assert_int_equal(metrics_file_write("/dev/null", "p-1.prom", "x", 1), -ENOTDIR);
}

static void age(const char *name, time_t by_s)
{
	const struct timespec times[2] = { { .tv_sec = time(NULL) - by_s }, { .tv_sec = time(NULL) - by_s } };
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void only_stale_files_of_that_name_are_swept(void **state)
{
	static const char *const names[] = { "p-1.prom", "p-2.prom", "p-3.prom.new", "p-4.prom", "other.prom" };

	(void)state;
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(metrics_file_write(folder, names[i], "x\n", 2), 0);
	age("p-2.prom", 100);
	age("p-3.prom.new", 100);
	age("p-4.prom", 10);
	age("other.prom", 100);
	metrics_file_sweep(folder, "p-1.prom", "p-", 60);
	assert_int_equal(names_in_folder(), 3);
	must_hold("p-4.prom", "x\n");
	must_hold("other.prom", "x\n");
	/* Its own file is as old as they are: its host's clock says nothing of theirs. */
	age("p-1.prom", 100);
	age("p-4.prom", 120);
	metrics_file_sweep(folder, "p-1.prom", "p-", 60);
	must_hold("p-4.prom", "x\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_becomes_help_type_and_one_line_a_sample),
		cmocka_unit_test(labels_are_escaped_and_cut_where_they_do_not_fit),
		cmocka_unit_test(a_file_is_replaced_as_a_whole),
		cmocka_unit_test(a_write_that_fails_leaves_the_old_file_and_nothing_else),
		cmocka_unit_test(only_stale_files_of_that_name_are_swept),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
