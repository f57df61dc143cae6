/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/options.h"

#include "base/clock.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static char out_text[20000], complaint[1000];

/* Words, separated by spaces. */
static enum daemon_start parse(const char *line, struct daemon_options *ret)
{
	FILE *out = fmemopen(out_text, sizeof(out_text), "w"),
	     *complaints = fmemopen(complaint, sizeof(complaint), "w");
	char copy[1000], program[] = "tributaryd", *argv[32] = { program }, *rest = NULL;
	enum daemon_start start;
	int argc = 1;

	assert_non_null(out);
	assert_non_null(complaints);
	out_text[0] = complaint[0] = '\0';
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	start = daemon_options_parse(argc, argv, ret, out, complaints);
	fclose(out);
	fclose(complaints);
	return start;
}

#define LEAST "--listen 127.0.0.1:7471 --secret /s"

static void standards_are_what_help_says(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(parse(LEAST, &options), DAEMON_START);
	assert_int_equal(options.listen_count, 1);
	assert_string_equal(options.secret, "/s");
	assert_int_equal(options.groups_max, 16);
	assert_int_equal(options.threads, 1);
	assert_int_equal(options.memory_max_bytes, UINT64_C(1) << 30);
	assert_int_equal(options.drain_ns, 10 * NS_PER_S);
	assert_string_equal(options.user, "");
	assert_false(options.metrics);
	assert_int_equal(options.allow.count, 8);
}

static void every_option_takes_its_value_both_ways(void **state)
{
	struct daemon_options options;

	(void)state;
	assert_int_equal(
		parse("--listen=127.0.0.1:1,[::1]:2 --listen 10.0.0.1:3 --secret=/x --allow=any --groups-max 256 "
		      "--memory-max=16M --threads 64 --user nobody --metrics 127.0.0.1:9401 --drain 0.5",
		      &options),
		DAEMON_START);
	assert_int_equal(options.listen_count, 3);
	assert_int_equal(options.groups_max, 256);
	assert_int_equal(options.memory_max_bytes, 16 << 20);
	assert_int_equal(options.threads, 64);
	assert_string_equal(options.user, "nobody");
	assert_true(options.metrics);
	assert_int_equal(options.metrics_allow.count, 2); /* 127.0.0.0/8 and ::1 */
	assert_int_equal(options.drain_ns, NS_PER_S / 2);
	assert_int_equal(options.allow.count, 2);
	assert_int_equal(parse(LEAST " --metrics 10.0.0.1:9401 --metrics-allow 10.0.0.0/8", &options), DAEMON_START);
	assert_int_equal(options.metrics_allow.count, 1);
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *line, *says;
	} cases[] = {
		{ "--secret /s", "--listen is missing" },
		{ "--listen 127.0.0.1:1", "--secret is missing" },
		{ LEAST " --groups-max 0", "1 to 256" },
		{ LEAST " --groups-max 257", "1 to 256" },
		{ LEAST " --threads 65", "1 to 64" },
		{ LEAST " --memory-max 1M", "16M" },
		{ LEAST " --allow 10.0.0.0/99", "no network" },
		{ LEAST " --drain forever", "0 to 3600" },
		{ LEAST " --metrics 0.0.0.0:9401", "needs --metrics-allow" },
		{ LEAST " --metrics 10.0.0.1:9401", "needs --metrics-allow" },
		{ LEAST " --metrics 10.0.0.1:9401 --metrics-allow 10.0.0.1/8", "--metrics-allow: " },
		{ LEAST " --nonsense", "unknown option" },
		{ LEAST " --man=yes", "takes no value" },
		{ LEAST " --user", "--user needs a value, NAME" },
		{ LEAST " here", "unexpected argument" },
		{ LEAST " --listen somewhere", "no address and port" },
		{ "--listen 1.1.1.1:1,1.1.1.1:2,1.1.1.1:3,1.1.1.1:4,1.1.1.1:5,1.1.1.1:6,1.1.1.1:7,1.1.1.1:8,1.1.1.1:9 "
		  "--secret /s",
		  "more than 8" },
	};
	struct daemon_options options;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].line, &options), DAEMON_WRONG);
		assert_non_null(strstr(complaint, cases[i].says));
		assert_string_equal(out_text, "");
	}
}

static void the_texts_name_every_option(void **state)
{
	static const char *const names[] = { "listen",  "secret", "allow",   "groups-max",    "memory-max",
					     "threads", "user",   "metrics", "metrics-allow", "drain" };
	struct daemon_options options;
	char wanted[40];

	(void)state;
	assert_int_equal(parse("--help", &options), DAEMON_DONE);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(wanted, sizeof(wanted), "--%s ", names[i]);
		assert_non_null(strstr(out_text, wanted));
	}
	for (const char *line = out_text; *line; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") <= 100);
	assert_null(strstr(out_text, " \n"));
	assert_int_equal(parse("--version", &options), DAEMON_DONE);
	assert_memory_equal(out_text, "tributaryd ", 11);
}

/* What is in docs/ is what the program prints: `make generated` writes it. */
static void the_man_page_and_the_completion_are_of_this_program(void **state)
{
	static const struct {
		const char *name, *line;
	} files[] = { { "man/man8/tributaryd.8", "--man" }, { "completion/tributaryd.bash", "--completion bash" } };
	struct daemon_options options;
	const char *source = getenv("TRIBUTARY_SOURCE");
	char path[4096], *page;

	(void)state;
	if (!source) {
		print_message("skipped: TRIBUTARY_SOURCE is not set\n");
		skip();
		return;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/docs/%s", source, files[i].name);
		page = tree_read(path, NULL);
		assert_non_null(page);
		assert_int_equal(parse(files[i].line, &options), DAEMON_DONE);
		assert_string_equal(page, out_text);
		free(page);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(standards_are_what_help_says),
		cmocka_unit_test(every_option_takes_its_value_both_ways),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(the_texts_name_every_option),
		cmocka_unit_test(the_man_page_and_the_completion_are_of_this_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
