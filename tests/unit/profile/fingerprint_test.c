/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/fingerprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/profile/fake_host.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void text_gives_the_same_id_and_any_other_text_another(void **state)
{
	struct fingerprint first, second;
	char *other = strdup(fake_host_filled);

	(void)state;
	assert_non_null(other);
	assert_int_equal(fingerprint_of_text(fake_host_filled, strlen(fake_host_filled), &first), 0);
	assert_string_equal(first.text, fake_host_filled);
	for (size_t i = 0; i < strlen(fake_host_filled); i++) {
		if (fake_host_filled[i] < '0' || fake_host_filled[i] > '8')
			continue;
		other[i]++;
		if (!fingerprint_of_text(other, strlen(other), &second)) {
			assert_string_not_equal(first.id, second.id);
			fingerprint_fini(&second);
		}
		other[i]--;
	}
	free(other);
	fingerprint_fini(&first);
}

/* The published values of FNV-1a: files are named by them, so they may not change with a compiler or a rewrite. */
static void id_is_the_published_hash(void **state)
{
	struct fingerprint fingerprint;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	char expected[32];

	(void)state;
	assert_int_equal(fingerprint_of_text("", 0, &fingerprint), 0);
	assert_string_equal(fingerprint.id, "cbf29ce484222325");
	fingerprint_fini(&fingerprint);
	assert_int_equal(fingerprint_of_text("cpu\n", 4, &fingerprint), 0);
	for (size_t i = 0; i < 4; i++)
		hash = (hash ^ (uint64_t) "cpu\n"[i]) * UINT64_C(1099511628211);
	snprintf(expected, sizeof(expected), "%016llx", (unsigned long long)hash);
	assert_string_equal(fingerprint.id, expected);
	fingerprint_fini(&fingerprint);
}

static void text_that_is_not_canonical_is_refused(void **state)
{
	static const char *const texts[] = {
		"cpu",                      /* no newline */
		"\n",                       /* an empty line */
		"cpu\n\n",                  /* another */
		"link 0000:00:00.0\ncpu\n", /* not in order */
		"cpu\ncpu\n",               /* twice */
		"cpu  vendor=A\n",          /* two spaces */
		" cpu\n",                   /* a space before */
		"cpu \n",                   /* and after */
		"cpu vendor=\t\n",          /* not printable */
		"cpu vendor=\xc3\xa4\n",    /* neither */
		"disk 0000:00:00.0\n",      /* no such kind */
		"cpux\n",                   /* nor such */
	};
	struct fingerprint kept = { .bytes = 5 };
	char long_line[512];

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++)
		assert_int_equal(fingerprint_of_text(texts[i], strlen(texts[i]), &kept), -EINVAL);
	snprintf(long_line, sizeof(long_line), "cpu %0*d\n", 394, 0);
	assert_int_equal(fingerprint_of_text(long_line, strlen(long_line), &kept), 0);
	fingerprint_fini(&kept);
	kept.bytes = 5;
	snprintf(long_line, sizeof(long_line), "cpu %0*d\n", 396, 0);
	assert_int_equal(fingerprint_of_text(long_line, strlen(long_line), &kept), -EINVAL);
	assert_int_equal(kept.bytes, 5);
}

static void text_is_bounded(void **state)
{
	enum { LINES = 1024 };
	struct fingerprint fingerprint = { .bytes = 5 };
	char *text = malloc((LINES + 1) * 16);
	size_t bytes = 0;

	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i <= LINES; i++) {
		if (i == LINES) {
			assert_int_equal(fingerprint_of_text(text, bytes, &fingerprint), 0);
			fingerprint_fini(&fingerprint);
		}
		bytes += (size_t)snprintf(text + bytes, 16, "cpu a=%04u\n", i);
	}
	assert_int_equal(fingerprint_of_text(text, bytes, &fingerprint), -EINVAL);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_gives_the_same_id_and_any_other_text_another),
		cmocka_unit_test(id_is_the_published_hash),
		cmocka_unit_test(text_that_is_not_canonical_is_refused),
		cmocka_unit_test(text_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
