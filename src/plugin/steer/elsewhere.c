/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/elsewhere.h"

#include "base/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKETS_FILE "/proc/net/unix"

static int hold(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t bytes = strlen(name);
	int fd, r;

	if (bytes + 1 > sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path + 1, name, bytes); /* after a NUL: no file */
	fd = sys_socket(AF_UNIX, SOCK_DGRAM, 0);
	if (fd < 0)
		return fd;
	r = sys_bind(fd, (const struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes));
	if (r < 0)
		sys_close(&fd);
	return r < 0 ? r : fd;
}

int steer_elsewhere_open(const struct process_identity *self, uint64_t whole_job, uint64_t host, int directory,
			 struct steer_elsewhere *ret)
{
	char name[STEER_ELSEWHERE_BYTES + 16];
	struct stat st;

	*ret = (struct steer_elsewhere){ .fd = -1 };
	if (fstat(directory, &st) < 0)
		return -errno;
	snprintf(ret->job, sizeof(ret->job), "@tributary.%08" PRIx32 ".%016" PRIx64 ".%016" PRIx64 ".",
		 (uint32_t)self->boot, whole_job, host);
	snprintf(ret->own, sizeof(ret->own), "%s%" PRIx64 ".%" PRIx64 ".", ret->job, (uint64_t)st.st_dev,
		 (uint64_t)st.st_ino);
	snprintf(name, sizeof(name), "%s%" PRIu32, ret->own + 1, self->pid);
	ret->fd = hold(name);
	return ret->fd < 0 ? ret->fd : 0;
}

void steer_elsewhere_close(struct steer_elsewhere *presence)
{
	sys_close(&presence->fd);
}

bool steer_elsewhere_in_text(const struct steer_elsewhere *presence, const char *text)
{
	while ((text = strstr(text, presence->job))) {
		if (strncmp(text, presence->own, strlen(presence->own)) != 0)
			return true;
		text += strlen(presence->job);
	}
	return false;
}

bool steer_elsewhere_is(const struct steer_elsewhere *presence, struct diag *diag)
{
	FILE *file = fopen(SOCKETS_FILE, "re");
	bool elsewhere = false;
	char *line = NULL;
	size_t room = 0;

	while (file && !elsewhere && getline(&line, &room, file) >= 0)
		elsewhere = steer_elsewhere_in_text(presence, line);
	if (elsewhere) {
		diag_set(diag, 0, 0,
			 "processes of the job on this host have another shared folder: give all the same /dev/shm "
			 "(--ipc=host) and TRIBUTARY_SHARED_DIR");
	} else if (!file || !feof(file)) {
		diag_set(diag, 0, 0, SOCKETS_FILE ": %s", strerror(errno));
		elsewhere = true;
	}
	free(line);
	if (file)
		fclose(file);
	return elsewhere;
}
