/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "profile/profile_text.h"
#include "unit/profile/sample.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char machine[] = "card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n"
			      "cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
			      "driver nvidia version=550.54.15\n"
			      "link 0000:19:00.0 lanes=16 most_generation=4\n";

static char *written(void)
{
	struct fingerprint fingerprint;
	struct profile profile;
	size_t bytes = 0;
	char *text = NULL;

	assert_int_equal(fingerprint_of_text(machine, strlen(machine), &fingerprint), 0);
	profile = sample_profile(&fingerprint);
	assert_int_equal(profile_write(&profile, &text, &bytes), 0);
	assert_int_equal(strlen(text), bytes);
	fingerprint_fini(&fingerprint);
	profile_fini(&profile);
	return text;
}

static void assert_empty(struct profile *profile)
{
	assert_int_equal(profile->topology.vertex_count + profile->topology.link_count, 0);
	assert_null(profile->fingerprint.text);
	assert_null(profile->cluster);
	assert_string_equal(profile->measured_by, "");
	assert_int_equal(profile->date_s, 0);
	profile_fini(profile);
}

/* Reads exactly these bytes, so that a sanitizer sees one byte too many. diag->text becomes what was said. */
static int read_bytes(const char *text, size_t bytes, struct diag *diag)
{
	char *exact = malloc(bytes ? bytes : 1);
	struct profile profile;
	int r;

	assert_non_null(exact);
	memcpy(exact, text, bytes);
	memset(&profile, 0xee, sizeof(profile));
	memset(diag, 0, sizeof(*diag));
	r = profile_read(exact, bytes, &profile, diag);
	free(exact);
	if (r < 0) {
		assert_string_not_equal(diag->text, "");
		assert_empty(&profile);
	} else {
		profile_fini(&profile);
	}
	return r;
}

/* The change, sealed with a right checksum, is refused in this line for this reason. */
static void assert_refused(const char *from, const char *to, int line, const char *reason)
{
	char *text = written(), *changed = sample_replaced(text, from, to), *sealed = sample_resealed(changed);
	struct diag diag;

	assert_int_equal(read_bytes(sealed, strlen(sealed), &diag), -EINVAL);
	assert_int_equal(diag.line, line);
	assert_non_null(strstr(diag.text, reason));
	free(text);
	free(changed);
	free(sealed);
}

/* -------- what is written -------- */

static void text_is_as_documented(void **state)
{
	char *text = written();
	static const char head[] = "tributary-profile 1\n"
				   "measured 1753900000 by \"tributary 0.1.0\"\n"
				   "fingerprint ";
	static const char body[] = "machine card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200\n"
				   "machine cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
				   "machine driver nvidia version=550.54.15\n"
				   "machine link 0000:19:00.0 lanes=16 most_generation=4\n"
				   "tributary-topology 1\n";

	(void)state;
	assert_int_equal(strncmp(text, head, strlen(head)), 0);
	assert_int_equal(strncmp(text + strlen(head) + FINGERPRINT_ID_BYTES, body, strlen(body)), 0);
	assert_int_equal(strncmp(text + strlen(text) - 25, "\nchecksum crc32 ", 16), 0);
	free(text);
}

static void what_is_written_is_read_back(void **state)
{
	char *text = written(), *again = NULL;
	struct diag diag = { .text = "untouched" };
	struct profile profile;
	size_t bytes = 0;

	(void)state;
	assert_int_equal(profile_read(text, strlen(text), &profile, &diag), 0);
	assert_string_equal(diag.text, "untouched");
	assert_int_equal(profile.date_s, 1753900000);
	assert_string_equal(profile.measured_by, "tributary 0.1.0");
	assert_string_equal(profile.fingerprint.text, machine);
	assert_string_equal(profile.topology.driver, "nvidia 550.54.15");
	assert_int_equal(profile.topology.vertex_count, 3);
	assert_int_equal(profile.topology.link_count, 2);
	assert_int_equal(profile.topology.limit_count, 1);
	assert_int_equal(profile.topology.pair_count, 1);
	assert_int_equal(profile.topology.links[0].capacity[TOPOLOGY_UP].rate_Bps, 24500000000);
	assert_int_equal(profile.topology.links[0].capacity[TOPOLOGY_UP].provenance, TOPOLOGY_MEASURED);
	assert_int_equal(profile_write(&profile, &again, &bytes), 0);
	assert_string_equal(again, text);
	profile_fini(&profile);
	free(text);
	free(again);
}

static void profile_of_no_machine_is_one_too(void **state)
{
	struct profile profile = sample_profile(NULL), back;
	size_t bytes = 0;
	char *text = NULL;

	(void)state;
	assert_int_equal(profile_write(&profile, &text, &bytes), 0);
	assert_null(strstr(text, "machine"));
	assert_int_equal(profile_read(text, bytes, &back, NULL), 0);
	assert_int_equal(back.fingerprint.bytes, 0);
	profile_fini(&back);
	profile_fini(&profile);
	free(text);
}

static void what_could_not_be_read_back_is_not_written(void **state)
{
	static const char *const names[] = { "a \"b\"", "a\\b", "a\nb", "\xc3\xa4" };
	struct profile profile = sample_profile(NULL);
	char unordered[] = "link 0000:19:00.0\ncpu\n", *text = NULL;
	size_t bytes = 7;

	(void)state;
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(profile.measured_by, sizeof(profile.measured_by), "%s", names[i]);
		assert_int_equal(profile_write(&profile, &text, &bytes), -EINVAL);
	}
	snprintf(profile.measured_by, sizeof(profile.measured_by), "t");
	sys_free(profile.fingerprint.text);
	profile.fingerprint.text = unordered;
	profile.fingerprint.bytes = strlen(unordered);
	assert_int_equal(profile_write(&profile, &text, &bytes), -EINVAL);
	profile.fingerprint.text = NULL;
	assert_null(text);
	assert_int_equal(bytes, 7);
	profile_fini(&profile);
}

/* -------- the cluster -------- */

static const char cluster_lines[] = "tributary-cluster 1\n"
				    "switch spine\n"
				    "switch leaf1 parent=spine rate=100Gbit/s\n"
				    "host node[1-4] leaf=leaf1 rate=25Gbit/s\n"
				    "aggregator agg:7471 leaf=spine\n";

static char *written_with_cluster(void)
{
	struct profile profile = sample_profile(NULL);
	char *text = NULL;
	size_t bytes = 0;

	assert_int_equal(cluster_read(cluster_lines, strlen(cluster_lines), &profile.cluster, NULL), 0);
	assert_int_equal(profile_write(&profile, &text, &bytes), 0);
	profile_fini(&profile);
	return text;
}

/* Programs that know version 1 alone refuse it by its first line; without a cluster they get what they know. */
static void cluster_makes_it_version_2(void **state)
{
	char *text = written_with_cluster(), *again = NULL;
	struct profile profile;
	size_t bytes = 0;

	(void)state;
	assert_int_equal(strncmp(text, "tributary-profile 2\n", 20), 0);
	assert_non_null(strstr(text, cluster_lines));
	assert_int_equal(profile_read(text, strlen(text), &profile, NULL), 0);
	assert_non_null(profile.cluster);
	assert_int_equal(profile.cluster->host_count, 4);
	assert_int_equal(profile.topology.vertex_count, 3);
	assert_int_equal(profile_write(&profile, &again, &bytes), 0);
	assert_string_equal(text, again);
	profile_fini(&profile);
	free(text);
	free(again);
}

static void assert_cluster_refused(const char *from, const char *to, const char *before, const char *reason)
{
	char *text = written_with_cluster(), *changed = sample_replaced(text, from, to);
	char *sealed = sample_resealed(changed);
	struct diag diag;
	int line = 1;

	for (const char *at = sealed; at < strstr(sealed, before); at++)
		line += *at == '\n';
	assert_int_equal(read_bytes(sealed, strlen(sealed), &diag), -EINVAL);
	assert_non_null(strstr(diag.text, reason));
	assert_int_equal(diag.line, line);
	free(text);
	free(changed);
	free(sealed);
}

static void wrong_lines_of_the_cluster_are_named(void **state)
{
	(void)state;
	assert_cluster_refused("node[1-4]", "node[4-1]", "host ", "lower end first");
	assert_cluster_refused("switch spine\n", "leaf spine\n", "leaf spine", "switch, host, aggregator");
	assert_cluster_refused("tributary-cluster 1", "tributary-cluster 2", "tributary-cluster", "version 1");
	assert_cluster_refused(cluster_lines, "", "checksum", "tributary-cluster 1");
	assert_cluster_refused("tributary-profile 2", "tributary-profile 1", "tributary-cluster", "name, driver");
}

/* -------- damage -------- */

static void text_that_is_cut_off_anywhere_is_damaged(void **state)
{
	char *text = written();
	struct diag diag;

	(void)state;
	for (size_t bytes = 0; bytes < strlen(text); bytes++) {
		assert_int_equal(read_bytes(text, bytes, &diag), -EBADMSG);
		assert_non_null(strstr(diag.text, bytes ? "cut off" : "empty"));
	}
	assert_int_equal(read_bytes(text, strlen(text), &diag), 0);
	free(text);
}

static void any_changed_byte_is_noticed(void **state)
{
	char *text = written();
	size_t first_line = strlen("tributary-profile 1\n");
	struct diag diag;

	(void)state;
	for (size_t i = first_line; i < strlen(text); i++) {
		char before = text[i];

		text[i] = (char)(before ^ 1);
		assert_int_equal(read_bytes(text, strlen(text), &diag), -EBADMSG);
		text[i] = before;
	}
	free(text);
}

static void checksum_says_what_it_is(void **state)
{
	char *text = written(), *changed = sample_replaced(text, "model=106", "model=107");
	struct diag diag;

	(void)state;
	assert_int_equal(read_bytes(changed, strlen(changed), &diag), -EBADMSG);
	assert_non_null(strstr(diag.text, "damaged: its checksum is "));
	free(text);
	free(changed);
}

static void what_follows_the_checksum_is_damage(void **state)
{
	char *text = written(), *longer = malloc(strlen(text) + 8);
	struct diag diag;

	(void)state;
	assert_non_null(longer);
	snprintf(longer, strlen(text) + 8, "%s\n", text);
	assert_int_equal(read_bytes(longer, strlen(longer), &diag), -EBADMSG);
	snprintf(longer, strlen(text) + 8, "%s# x\n", text);
	assert_int_equal(read_bytes(longer, strlen(longer), &diag), -EBADMSG);
	free(text);
	free(longer);
}

static void checksum_in_capitals_is_not_ours(void **state)
{
	char *text = written(), *sealed = NULL, *letter = NULL, date[16];
	struct diag diag;

	(void)state;
	for (unsigned i = 0; i < 1000 && !letter; i++) { /* until there is a letter in it */
		free(sealed);
		snprintf(date, sizeof(date), "1753900%03u", i);
		memcpy(strstr(text, "1753900"), date, strlen(date));
		sealed = sample_resealed(text);
		letter = strpbrk(sealed + strlen(sealed) - 9, "abcdef");
	}
	assert_non_null(letter);
	assert_int_equal(read_bytes(sealed, strlen(sealed), &diag), 0);
	*letter = (char)(*letter - 'a' + 'A');
	assert_int_equal(read_bytes(sealed, strlen(sealed), &diag), -EBADMSG);
	free(sealed);
	free(text);
}

/* -------- versions, and what is none -------- */

/* Nothing but the first line is looked at: the rest of a newer version may be anything. */
static void newer_version_is_known_by_its_first_line(void **state)
{
	static const char *const texts[] = {
		"tributary-profile 3\n",
		"tributary-profile 3\nwhat ever\x01",
		"tributary-profile 10 zstd\n\xff\xfe",
		"tributary-profile 99999999999999999999999999999\n",
	};
	struct diag diag;

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_int_equal(read_bytes(texts[i], strlen(texts[i]), &diag), -EPROTONOSUPPORT);
		assert_int_equal(diag.line, 1);
	}
	assert_int_equal(read_bytes(texts[0], strlen(texts[0]), &diag), -EPROTONOSUPPORT);
	assert_string_equal(diag.text, "it is of version 3, and this program reads versions up to 2");
}

static void other_files_are_no_profiles(void **state)
{
	static const char *const texts[] = {
		"\n",
		"<system version=\"1\">\n",
		"tributary-topology 1\n",
		"tributary-profile\n",
		"tributary-profile 0\n",
		"tributary-profile 01\n",
		"tributary-profile -1\n",
		"tributary-profile one\n",
		"tributary-profile 1x\n",
		"tributary-profile  1\n",
		"tributary-profile 1 more\n",
		"tributary-profile 1\r\n",
		"Tributary-profile 1\n",
	};
	struct diag diag;

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_int_equal(read_bytes(texts[i], strlen(texts[i]), &diag), -EINVAL);
		assert_int_equal(diag.line, 1);
	}
	assert_int_equal(read_bytes("\0\0\0", 3, &diag), -EINVAL);
}

static void what_no_profile_needs_to_be_is_not_read(void **state)
{
	size_t bytes = PROFILE_MOST_BYTES + 1;
	char *text = malloc(bytes);
	struct diag diag;

	(void)state;
	assert_non_null(text);
	memset(text, '\n', bytes);
	memcpy(text, "tributary-profile 1\n", 20);
	assert_int_equal(read_bytes(text, bytes, &diag), -EINVAL);
	assert_string_equal(diag.text, "it is longer than 4 MiB");
	free(text);
}

/* -------- wrong lines under a right checksum -------- */

static void wrong_line_of_the_measurement_is_named(void **state)
{
	(void)state;
	assert_refused("measured ", "mesured ", 2, "was expected");
	assert_refused("measured 1753900000 by \"tributary 0.1.0\"\n", "", 2, "was expected");
	assert_refused("1753900000 by", "soon by", 2, "the date");
	assert_refused("1753900000 by", " by", 2, "the date");
	assert_refused("1753900000 by", "9223372036854775808 by", 2, "the date");
	assert_refused("1753900000 by", "1234567890123456789012345678901234567890 by", 2, "the date");
	assert_refused(" by \"tributary 0.1.0\"", "", 2, "was expected");
	assert_refused(" by \"tributary 0.1.0\"", " by \"", 2, "was expected");
	assert_refused("tributary 0.1.0\"", "tributary 0.1.0", 2, "was expected");
	assert_refused("tributary 0.1.0", "a\" by \"b", 2, "not allowed");
	assert_refused("tributary 0.1.0", "a\tb", 2, "not allowed");
	assert_refused("tributary 0.1.0", "0123456789012345678901234567890123456789012345678901234567890123", 2,
		       "too long");
}

static void fingerprint_must_be_of_its_lines(void **state)
{
	(void)state;
	assert_refused("fingerprint ", "finger print ", 3, "was expected");
	assert_refused("fingerprint ", "fingerprint 0", 3, "the lines of the machine give the fingerprint ");
	assert_refused("machine cpu vendor=GenuineIntel", "machine cpu vendor=AuthenticAMD", 3,
		       "give the fingerprint ");
}

static void wrong_line_of_the_machine_is_named(void **state)
{
	(void)state;
	assert_refused("machine cpu", "machine disk", 5, "no kind that belongs to a machine");
	assert_refused("machine cpu", "machine  cpu", 5, "one space between");
	assert_refused("machine cpu vendor=GenuineIntel family=6 model=106 domains=2", "machine ", 5, "no kind");
	assert_refused("machine driver", "machine card", 6, "in the order of bytes");
}

static void wrong_line_of_the_graph_is_counted_from_the_beginning(void **state)
{
	char *text = written();
	int lines = 0;

	(void)state;
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	free(text);
	assert_refused("tributary-topology 1", "tributary-topologies", 8, "tributary-topology");
	assert_refused("tributary-topology 1\ndriver", "tributary-topology 1\nmotor", 9, "");
	assert_refused("\nchecksum", "\nunknown line\nchecksum", lines, "");
}

static void bytes_that_are_no_text_are_refused_with_a_right_checksum(void **state)
{
	char *text = written(), *sealed;
	struct diag diag;

	(void)state;
	for (const char *at = text + 20; *at; at++) {
		size_t place = (size_t)(at - text);

		if (!strncmp(at, "checksum", 8))
			break;
		if (*at != ' ')
			continue;
		text[place] = '\x01';
		sealed = sample_resealed(text);
		text[place] = ' ';
		assert_int_equal(read_bytes(sealed, strlen(sealed), &diag), -EINVAL);
		free(sealed);
	}
	free(text);
}

/* -------- the beginning alone -------- */

static void beginning_gives_fingerprint_and_date_without_the_rest(void **state)
{
	char *text = written();
	size_t end = (size_t)(strstr(text, "tributary-topology") - text);
	struct fingerprint fingerprint = { 0 };
	int64_t date_s = 0;

	(void)state;
	assert_int_equal(profile_read_head(text, end, &fingerprint, &date_s), 0);
	assert_string_equal(fingerprint.text, machine);
	assert_int_equal(date_s, 1753900000);
	fingerprint_fini(&fingerprint);
	for (size_t bytes = 0; bytes < end - 1; bytes++)
		assert_int_not_equal(profile_read_head(text, bytes, &fingerprint, &date_s), 0);
	assert_null(fingerprint.text);
	free(text);
}

#ifdef TRIBUTARY_FAULTS
static void no_memory_is_an_error_and_leaves_nothing(void **state)
{
	char *text = written(), *again = NULL;
	struct profile profile;
	size_t bytes;
	int r = -ENOMEM;

	(void)state;
	for (unsigned nth = 1; r; nth++) {
		assert_true(nth < 1000);
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		r = profile_read(text, strlen(text), &profile, NULL);
		assert_true(!r || r == -ENOMEM);
		if (r)
			assert_empty(&profile);
	}
	r = -ENOMEM;
	for (unsigned nth = 1; r; nth++) {
		assert_true(nth < 1000);
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		r = profile_write(&profile, &again, &bytes);
		assert_true(!r || r == -ENOMEM);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_string_equal(again, text);
	profile_fini(&profile);
	free(text);
	free(again);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_as_documented),
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(profile_of_no_machine_is_one_too),
		cmocka_unit_test(what_could_not_be_read_back_is_not_written),
		cmocka_unit_test(cluster_makes_it_version_2),
		cmocka_unit_test(wrong_lines_of_the_cluster_are_named),
		cmocka_unit_test(text_that_is_cut_off_anywhere_is_damaged),
		cmocka_unit_test(any_changed_byte_is_noticed),
		cmocka_unit_test(checksum_says_what_it_is),
		cmocka_unit_test(what_follows_the_checksum_is_damage),
		cmocka_unit_test(checksum_in_capitals_is_not_ours),
		cmocka_unit_test(newer_version_is_known_by_its_first_line),
		cmocka_unit_test(other_files_are_no_profiles),
		cmocka_unit_test(what_no_profile_needs_to_be_is_not_read),
		cmocka_unit_test(wrong_line_of_the_measurement_is_named),
		cmocka_unit_test(fingerprint_must_be_of_its_lines),
		cmocka_unit_test(wrong_line_of_the_machine_is_named),
		cmocka_unit_test(wrong_line_of_the_graph_is_counted_from_the_beginning),
		cmocka_unit_test(bytes_that_are_no_text_are_refused_with_a_right_checksum),
		cmocka_unit_test(beginning_gives_fingerprint_and_date_without_the_rest),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(no_memory_is_an_error_and_leaves_nothing),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
