/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include "base/clock.h"
#include "base/sys.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0644, NAME_BYTES = 256 };

/* -------------------------------------------------------------------------------------------------------------- text */

void metrics_label(char labels[static METRICS_LABELS_BYTES], const char *name, const char *value)
{
	size_t at = strlen(labels), room = METRICS_LABELS_BYTES - at, need = strlen(name) + sizeof(",=\"\"");

	if (room < need)
		return;
	at += (size_t)snprintf(labels + at, room, "%s%s=\"", at ? "," : "", name);
	for (; *value && at + sizeof("\\x\"") <= METRICS_LABELS_BYTES; value++) {
		if (*value == '"' || *value == '\\')
			labels[at++] = '\\';
		labels[at++] = *value >= ' ' && *value <= '~' ? *value : '_';
	}
	memcpy(labels + at, "\"", sizeof("\""));
}

static void print_value(enum metrics_kind kind, uint64_t value, struct text *out)
{
	if (kind == METRICS_COUNTER_NS || kind == METRICS_GAUGE_NS)
		text_put(out, "%" PRIu64 ".%09" PRIu64 "\n", value / NS_PER_S, value % NS_PER_S);
	else if (kind == METRICS_GAUGE_MILLI)
		text_put(out, "%" PRIu64 ".%03" PRIu64 "\n", value / 1000, value % 1000);
	else
		text_put(out, "%" PRIu64 "\n", value);
}

void metrics_print(const struct metrics_row *rows, const struct metrics_sample *samples, size_t count, struct text *out)
{
	for (; rows->name && count; rows++) {
		const bool counter = rows->kind == METRICS_COUNTER || rows->kind == METRICS_COUNTER_NS;

		text_put(out, "# HELP %s %s\n# TYPE %s %s\n", rows->name, rows->help, rows->name,
			 counter ? "counter" : "gauge");
		for (size_t i = 0; i < count; i++) {
			const char *labels = samples[i].labels;
			uint64_t value;

			memcpy(&value, (const char *)samples[i].values + rows->offset, sizeof(value));
			text_put(out, *labels ? "%s{%s} " : "%s%s ", rows->name, labels);
			print_value(rows->kind, value, out);
		}
	}
}

/* ------------------------------------------------------------------------------------------------------------- files */

static int open_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int write_new(int folder, const char *name, const char *text, size_t bytes)
{
	int fd, r;

	(void)unlinkat(folder, name, 0); /* of a process of that name that was killed half-way */
	fd = sys_openat(folder, name, O_WRONLY | O_CREAT | O_EXCL, FILE_MODE);
	if (fd < 0)
		return fd;
	r = sys_pwrite_whole(fd, text, bytes, 0);
	sys_close(&fd);
	return r;
}

int metrics_file_write(const char *folder, const char *name, const char *text, size_t bytes)
{
	int fd = open_folder(folder), r;
	char temporary[NAME_BYTES];

	if (fd < 0)
		return fd;
	/* It begins like the others, so the sweep finds one that was left. Collectors read *.prom alone. */
	r = snprintf(temporary, sizeof(temporary), "%s.new", name) < NAME_BYTES ? 0 : -ENAMETOOLONG;
	if (r == 0)
		r = write_new(fd, temporary, text, bytes);
	if (r == 0)
		r = sys_renameat(fd, temporary, name, 0);
	if (r < 0)
		(void)unlinkat(fd, temporary, 0);
	sys_close(&fd);
	return r;
}

struct sweep {
	int folder;
	int64_t before_s;
};

static int sweep_one(void *arg, const char *name)
{
	const struct sweep *sweep = arg;
	struct stat st;

	if (fstatat(sweep->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    st.st_mtime < sweep->before_s)
		(void)unlinkat(sweep->folder, name, 0);
	return 0;
}

void metrics_file_sweep(const char *folder, const char *name, const char *prefix, int64_t stale_s)
{
	struct sweep sweep = { .folder = open_folder(folder) };
	struct stat st;

	if (sweep.folder >= 0 && fstatat(sweep.folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		sweep.before_s = st.st_mtime - stale_s;
		(void)sys_each_name(sweep.folder, ".", prefix, sweep_one, &sweep);
	}
	sys_close(&sweep.folder);
}

void metrics_file_remove(const char *folder, const char *name)
{
	int fd = open_folder(folder);

	if (fd >= 0)
		(void)unlinkat(fd, name, 0);
	sys_close(&fd);
}
