/* SPDX-License-Identifier: Apache-2.0 */
/* What --user leaves of root, each case in a process of its own. What only root can try is skipped for others. */
#include "daemon/privileges.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char nobody[] = "nobody";

static bool in_child(bool (*is_right)(void))
{
	pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (child == 0)
		_exit(is_right() ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool says(const char *user, int result, const char *words)
{
	struct diag diag = { 0 };

	return daemon_privileges_drop(user, &diag) == result && strstr(diag.text, words);
}

static bool is_locked(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
}

static bool nobody_is_left(void)
{
	const struct passwd *entry = getpwnam(nobody);
	uid_t uid = entry->pw_uid;
	gid_t gid = entry->pw_gid;

	return says(nobody, 0, "") && is_locked() && getuid() == uid && geteuid() == uid && getgid() == gid &&
	       getegid() == gid && getgroups(0, NULL) == 0 && setuid(0) < 0 && setgid(0) < 0;
}

static bool become_nobody(void)
{
	const struct passwd *entry = getpwnam(nobody);

	return geteuid() != 0 || setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) == 0;
}

static bool others_cannot_change(void)
{
	uid_t before;

	if (!become_nobody())
		return false;
	before = geteuid();
	return says("root", -EPERM, "--user root: only root can become another user") && geteuid() == before;
}

/* User 1 is as good as any. */
static bool user_1_cannot_change(void)
{
	return setresuid(1, 1, 1) == 0 && says("root", -EPERM, "only root can become another user");
}

static bool the_same_user_stays(void)
{
	return become_nobody() && says(getpwuid(geteuid())->pw_name, 0, "") && is_locked();
}

static bool without_a_user_all_stays(void)
{
	uid_t before = geteuid();

	return says("", 0, "") && geteuid() == before && is_locked();
}

static bool nobody_has_this_name(void)
{
	return says("tributary-no-such-user", -ENOENT,
		    "--user tributary-no-such-user: there is no such user on this host");
}

static void root_is_given_up_for_good(void **state)
{
	(void)state;
	assert_true(in_child(nobody_has_this_name));
	assert_true(in_child(without_a_user_all_stays));
	if (!getpwnam(nobody)) {
		print_message("skipped: there is no user nobody\n");
		skip();
	}
	assert_true(in_child(others_cannot_change));
	if (geteuid() != 0 || setgroups(0, NULL) < 0) {
		print_message("skipped: this takes root\n");
		skip();
	}
	assert_true(in_child(user_1_cannot_change));
	assert_true(in_child(the_same_user_stays));
	assert_true(in_child(nobody_is_left));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_is_given_up_for_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
