/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r = 0;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		r = -errno;
	if (fd >= 0)
		close(fd);
	return r;
}

/* The same user outside, root inside, as in a rootless container. */
static int users_enter(void)
{
	char map[2][32];
	int r;

	snprintf(map[0], sizeof(map[0]), "0 %u 1", (unsigned)geteuid());
	snprintf(map[1], sizeof(map[1]), "0 %u 1", (unsigned)getegid());
	if (unshare(CLONE_NEWUSER))
		return -errno;
	(void)put("/proc/self/setgroups", "deny");
	r = put("/proc/self/uid_map", map[0]);
	return r < 0 ? r : put("/proc/self/gid_map", map[1]);
}

/* The parent stands for the child: it ends the same way. */
static int pids_enter(void)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) ? -errno : 0;
}

/* What else holds for a mount must be said again. */
static int make_read_only(const char *path)
{
	struct statvfs now;
	unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY;

	if (statvfs(path, &now))
		return -errno;
	flags |= now.f_flag & ST_NOSUID ? MS_NOSUID : 0;
	flags |= now.f_flag & ST_NODEV ? MS_NODEV : 0;
	flags |= now.f_flag & ST_NOEXEC ? MS_NOEXEC : 0;
	flags |= now.f_flag & ST_NOATIME ? MS_NOATIME : now.f_flag & ST_RELATIME ? MS_RELATIME : 0;
	return mount(NULL, path, NULL, flags, NULL) ? -errno : 0;
}

static int capabilities_drop(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { .effective = 0 } };

	for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0))
			return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return syscall(SYS_capset, &header, none) ? -errno : 0;
}

int container_enter(unsigned kinds)
{
	int r = kinds & CONTAINER_USERS ? users_enter() : 0;

	if (r == 0 && (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)))
		r = -errno;
	if (r == 0 && kinds & CONTAINER_PIDS)
		r = pids_enter();
	if (r == 0 && kinds & CONTAINER_SHM &&
	    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m"))
		r = -errno;
	if (r == 0 && kinds & CONTAINER_SHM_READ_ONLY)
		r = make_read_only("/dev/shm");
	if (r == 0 && kinds & CONTAINER_READ_ONLY)
		r = make_read_only("/");
	if (r == 0 && kinds & CONTAINER_POWERLESS)
		r = capabilities_drop();
	return r;
}
