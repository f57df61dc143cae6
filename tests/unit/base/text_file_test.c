/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a user names, and small ones of /proc and /sys. */
#include "base/sys.h"
#include "base/text_file.h"
#include "support/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Such a file is regular and says that it is empty. */
static void a_file_of_proc_is_read_whole(void **state)
{
	static const struct text_file kind = { .kind = "text", .limit_bytes = 1 << 20 };
	struct diag why = { .text = "" };
	char *text = NULL;
	size_t bytes = 0;

	(void)state;
	assert_int_equal(text_file_read(&kind, "/proc/self/status", 1 << 20, &text, &bytes, &why), 0);
	assert_true(bytes > 0 && bytes == strlen(text));
	assert_non_null(strstr(text, "Pid:"));
	sys_free(text);
}

static void what_is_no_file_is_refused_by_name(void **state)
{
	static const struct text_file kind = { .kind = "text", .limit_bytes = 1 << 20 };
	static const struct {
		const char *path, *reason;
		int error;
	} cases[] = { { "/proc", "it is a folder", -EINVAL },
		      { "/dev/null", "it is not a regular file", -EINVAL },
		      { "/nowhere", "No such file", -ENOENT } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct diag why = { .text = "" };
		char *text = NULL;
		size_t bytes = 0;

		assert_int_equal(text_file_read(&kind, cases[i].path, 1 << 20, &text, &bytes, &why), cases[i].error);
		assert_non_null(strstr(why.text, cases[i].path));
		assert_non_null(strstr(why.text, cases[i].reason));
		assert_null(text);
	}
}

/* Where the caller can wait: a pipe and the null device are read to their end, and no other device. */
static void a_stream_ends_or_is_refused(void **state)
{
	static const struct text_file kind = { .limit_bytes = 1 << 10, .stream = true };
	struct diag why = { .text = "" };
	char path[32], *text = NULL;
	size_t bytes = 1;
	int ends[2];

	(void)state;
	assert_int_equal(text_file_read(&kind, "/dev/null", 1 << 10, &text, &bytes, &why), 0);
	assert_int_equal(bytes, 0);
	sys_free(text);
	assert_int_equal(text_file_read(&kind, "/dev/zero", 1 << 10, &text, &bytes, &why), -EINVAL);
	assert_string_equal(why.text, "\"/dev/zero\" cannot be read: it is a device, not a file or a pipe");
	for (size_t length = 1 << 10; length <= (1 << 10) + 1; length++) {
		char written[(1 << 10) + 1];

		memset(written, 'x', sizeof(written));
		assert_int_equal(pipe(ends), 0);
		assert_int_equal(write(ends[1], written, length), length);
		close(ends[1]);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
		assert_int_equal(text_file_read(&kind, path, 1 << 10, &text, &bytes, &why),
				 length > 1 << 10 ? -EFBIG : 0);
		close(ends[0]);
		if (length > 1 << 10)
			break;
		assert_int_equal(bytes, length);
		sys_free(text);
	}
	assert_non_null(strstr(why.text, "it is longer than 1 KiB"));
}

/* What editors of other systems put before a text. */
static void a_byte_order_mark_is_left_out(void **state)
{
	static const struct {
		const char *written, *read; /* NULL: refused */
		bool as_is;
	} cases[] = {
		{ "\xef\xbb\xbfhello\n", "hello\n", false },
		{ "\xef\xbb\xbfhello\n", "\xef\xbb\xbfhello\n", true },
		{ "\xef\xbb\xbf", "", false },
		{ "\xef\xbb", "\xef\xbb", false },
		{ "\xff\xfeh", NULL, false },
		{ "\xfe\xff", NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct text_file kind = { .limit_bytes = 1 << 10, .as_is = cases[i].as_is };
		struct diag why = { .text = "" };
		struct tree tree;
		char path[64], *text;
		size_t bytes;
		int r;

		tree_open(&tree);
		tree_text(&tree, "text", cases[i].written);
		snprintf(path, sizeof(path), "%s/text", tree.root);
		r = text_file_read(&kind, path, 1 << 10, &text, &bytes, &why);
		assert_int_equal(r, cases[i].read ? 0 : -EINVAL);
		if (r < 0) {
			assert_non_null(strstr(why.text, "cannot be read: it is UTF-16: iconv"));
		} else {
			assert_string_equal(text, cases[i].read);
			assert_int_equal(bytes, strlen(cases[i].read));
			sys_free(text);
		}
		tree_close(&tree);
	}
}

static void a_value_is_trimmed_and_a_longer_one_is_said_to_be(void **state)
{
	char text[64], few[4];

	(void)state;
	assert_int_equal(text_file_value(AT_FDCWD, "/proc/sys/kernel/ostype", text, sizeof(text)), 0);
	assert_string_equal(text, "Linux");
	assert_int_equal(text_file_value(AT_FDCWD, "/proc/sys/kernel/ostype", few, sizeof(few)), -EOVERFLOW);
	assert_string_equal(few, "Lin");
	assert_int_equal(text_file_value(AT_FDCWD, "/nowhere", text, sizeof(text)), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_proc_is_read_whole),
		cmocka_unit_test(what_is_no_file_is_refused_by_name),
		cmocka_unit_test(a_stream_ends_or_is_refused),
		cmocka_unit_test(a_byte_order_mark_is_left_out),
		cmocka_unit_test(a_value_is_trimmed_and_a_longer_one_is_said_to_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
