/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/control/secret.h"

#include "base/log.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct tree tree;
static char path[64];

static int folder_make(void **state)
{
	(void)state;
	tree_open(&tree);
	snprintf(path, sizeof(path), "%s/secret", tree.root);
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	tree_close(&tree);
	return 0;
}

static void put(const char *text, size_t bytes, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int read_it(struct control_secret *ret, struct diag *diag)
{
	diag->text[0] = '\0';
	return control_secret_read(path, ret, diag);
}

static void what_the_file_holds_is_the_secret_without_the_newline(void **state)
{
	struct control_secret secret;
	struct diag diag;

	(void)state;
	put("0123456789abcdef with spaces \r\n", 31, 0600);
	assert_int_equal(read_it(&secret, &diag), 0);
	assert_int_equal(secret.count, 28);
	assert_memory_equal(secret.bytes, "0123456789abcdef with spaces", 28);
	control_secret_forget(&secret);
	assert_int_equal(secret.count, 0);
	put("0123456789abcdef", 16, 0400);
	assert_int_equal(read_it(&secret, &diag), 0);
	assert_int_equal(secret.count, 16);
}

static void a_file_that_others_may_see_is_refused_with_the_remedy(void **state)
{
	static const mode_t modes[] = { 0640, 0604, 0660, 0610, 0601, 0602, 0644 };
	struct control_secret secret = { .count = 77 };
	struct diag diag;

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		put("0123456789abcdef", 16, modes[i]);
		assert_int_equal(read_it(&secret, &diag), -EPERM);
		assert_non_null(strstr(diag.text, "chmod 600"));
		assert_int_equal(secret.count, 77);
	}
}

static int read_as(uid_t user, gid_t group, struct diag *diag)
{
	struct control_secret secret;
	int r;

	assert_int_equal(setegid(group), 0);
	assert_int_equal(seteuid(user), 0);
	r = read_it(&secret, diag);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setegid(0), 0);
	return r;
}

/* As kubelet mounts it with fsGroup: root's, that group's, 0440. */
static void a_file_of_root_may_be_read_by_the_readers_own_group_and_no_other(void **state)
{
	static const mode_t refused[] = { 0460, 0450, 0444, 0442 };
	struct diag diag;

	(void)state;
	put("0123456789abcdef", 16, 0440);
	if (geteuid() != 0 || chown(path, 0, 7471) < 0) {
		print_message("skipped: only root can give a file to a group\n");
		skip();
	}
	assert_int_equal(chmod(tree.root, 0711), 0);
	assert_int_equal(read_as(7471, 7471, &diag), 0);
	assert_int_equal(read_as(0, 0, &diag), -EPERM); /* root needs no group to read it */
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_int_equal(chmod(path, refused[i]), 0);
		assert_int_equal(read_as(7471, 7471, &diag), -EPERM);
		assert_non_null(strstr(diag.text, "by others"));
	}
}

static void a_file_of_somebody_else_is_refused(void **state)
{
	struct control_secret secret;
	struct diag diag;

	(void)state;
	put("0123456789abcdef", 16, 0600);
	if (geteuid() != 0 || chown(path, 12345, 12345) < 0) {
		print_message("skipped: only root can give a file away\n");
		skip();
	}
	assert_int_equal(read_it(&secret, &diag), -EPERM);
	assert_non_null(strstr(diag.text, "belongs to user 12345"));
}

static void too_short_and_too_long_secrets_are_refused(void **state)
{
	static char text[CONTROL_SECRET_MOST + 100];
	struct control_secret secret;
	struct diag diag;

	(void)state;
	memset(text, 'a', sizeof(text));
	put("", 0, 0600);
	assert_int_equal(read_it(&secret, &diag), -EINVAL);
	put("0123456789abcde\n", 16, 0600);
	assert_int_equal(read_it(&secret, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "/dev/urandom"));
	put(text, CONTROL_SECRET_MOST, 0600);
	assert_int_equal(read_it(&secret, &diag), 0);
	put(text, CONTROL_SECRET_MOST + 1, 0600);
	assert_int_equal(read_it(&secret, &diag), -EINVAL);
	put(text, CONTROL_SECRET_MOST + 100, 0600);
	assert_int_equal(read_it(&secret, &diag), -EINVAL);
}

static void what_is_no_plain_file_is_refused_without_waiting(void **state)
{
	struct control_secret secret;
	struct diag diag;

	(void)state;
	unlink(path);
	assert_int_equal(read_it(&secret, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, path));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(read_it(&secret, &diag), -EINVAL);
	assert_int_equal(control_secret_read(tree.root, &secret, &diag), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_file_holds_is_the_secret_without_the_newline),
		cmocka_unit_test(a_file_that_others_may_see_is_refused_with_the_remedy),
		cmocka_unit_test(a_file_of_root_may_be_read_by_the_readers_own_group_and_no_other),
		cmocka_unit_test(a_file_of_somebody_else_is_refused),
		cmocka_unit_test(too_short_and_too_long_secrets_are_refused),
		cmocka_unit_test(what_is_no_plain_file_is_refused_without_waiting),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
