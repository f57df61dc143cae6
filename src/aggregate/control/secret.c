/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/control/secret.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void control_secret_forget(struct control_secret *secret)
{
	memset(secret, 0, sizeof(*secret));
	__asm__ __volatile__("" : : "r"(secret) : "memory");
}

static bool is_blank(uint8_t byte)
{
	return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/*
 * The group's bit counts as others' but where this process reads by it: so kubelet mounts secrets into pods with fsGroup
 * (root, that group, 0440).
 */
static bool seen_by_others(const struct stat *st)
{
	bool by_group = st->st_uid != geteuid() && st->st_gid == getegid();

	return st->st_mode & (by_group ? 037U : 077U);
}

/* What is wrong with the file, and what to do about it. */
static int check(const struct stat *st, const char *path, struct diag *diag)
{
	if (!S_ISREG(st->st_mode)) {
		diag_set(diag, 0, 0, "%.150s is not a regular file", path);
		return -EINVAL;
	}
	if (st->st_uid != geteuid() && st->st_uid != 0) {
		diag_set(diag, 0, 0, "%.120s belongs to user %u: chown it to the user who reads it", path,
			 (unsigned)st->st_uid);
		return -EPERM;
	}
	if (seen_by_others(st)) {
		diag_set(diag, 0, 0,
			 "%.100s can be read or written by others (mode %04o): chmod 600 it, and make a "
			 "new secret if they may have seen it",
			 path, (unsigned)st->st_mode & 07777U);
		return -EPERM;
	}
	if (st->st_size > CONTROL_SECRET_MOST + 16) {
		diag_set(diag, 0, 0, "%.120s has more than %d bytes", path, CONTROL_SECRET_MOST);
		return -EINVAL;
	}
	return 0;
}

static int check_length(const struct control_secret *secret, const char *path, struct diag *diag)
{
	if (secret->count >= CONTROL_SECRET_LEAST && secret->count <= CONTROL_SECRET_MOST)
		return 0;
	diag_set(diag, 0, 0,
		 "%.80s holds a secret of %zu bytes, which must have %d to %d: head -c 32 /dev/urandom | base64 makes "
		 "one",
		 path, secret->count, CONTROL_SECRET_LEAST, CONTROL_SECRET_MOST);
	return -EINVAL;
}

static int read_file(int fd, const char *path, struct control_secret *ret, struct diag *diag)
{
	uint8_t bytes[CONTROL_SECRET_MOST + 16];
	struct stat st;
	size_t count;
	int r;

	if (fstat(fd, &st) < 0) {
		r = -errno;
		diag_set(diag, 0, 0, "%.150s: %s", path, strerror(-r));
		return r;
	}
	r = check(&st, path, diag);
	if (r < 0)
		return r;
	count = (size_t)st.st_size;
	r = sys_pread_whole(fd, bytes, count, 0);
	if (r < 0) {
		diag_set(diag, 0, 0, "%.150s: %s", path, strerror(-r));
		return r;
	}
	while (count && is_blank(bytes[count - 1]))
		count--;
	ret->count = count;
	memcpy(ret->bytes, bytes, count < sizeof(ret->bytes) ? count : sizeof(ret->bytes));
	memset(bytes, 0, sizeof(bytes));
	__asm__ __volatile__("" : : "r"(bytes) : "memory");
	return check_length(ret, path, diag);
}

int control_secret_read(const char *path, struct control_secret *ret, struct diag *diag)
{
	struct control_secret secret = { .count = 0 };
	int saved_errno = errno, fd, r;

	/* Secrets are mounted as links (Kubernetes): what counts is the file that is reached, which is looked at. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		r = -errno;
		diag_set(diag, 0, 0, "%.150s: %s", path, strerror(-r));
	} else {
		r = read_file(fd, path, &secret, diag);
		close(fd);
	}
	if (!r)
		*ret = secret;
	control_secret_forget(&secret);
	errno = saved_errno;
	return r;
}
