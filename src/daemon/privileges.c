/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/privileges.h"

#include "base/log.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

static int look_up(const char *user, uid_t *ret_uid, gid_t *ret_gid, struct diag *diag)
{
	struct passwd entry, *found = NULL;
	char text[4096];
	int r = getpwnam_r(user, &entry, text, sizeof(text), &found);

	if (r || !found) {
		diag_set(diag, 0, 0, "--user %.60s: %s", user, r ? strerror(r) : "there is no such user on this host");
		return r ? -r : -ENOENT;
	}
	*ret_uid = entry.pw_uid;
	*ret_gid = entry.pw_gid;
	return 0;
}

static int become(const char *user, struct diag *diag)
{
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	int r = look_up(user, &uid, &gid, diag);

	if (r < 0)
		return r;
	if (uid == geteuid() && uid == getuid())
		return 0;
	if (geteuid() != 0) {
		diag_set(diag, 0, 0,
			 "--user %.60s: only root can become another user; start it as root, or as that user", user);
		return -EPERM;
	}
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0) {
		r = -errno;
		diag_set(diag, 0, 0, "--user %.60s: %s", user, strerror(-r));
		return r;
	}
	if (uid != 0 && (setuid(0) == 0 || setgid(0) == 0)) {
		diag_set(diag, 0, 0, "--user %.60s: root's privileges could be had again", user);
		return -EPERM;
	}
	return 0;
}

int daemon_privileges_drop(const char *user, struct diag *diag)
{
	int r = user[0] ? become(user, diag) : 0;

	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
		r = -errno;
		diag_set(diag, 0, 0, "prctl: %s", strerror(-r));
	}
	return r;
}
