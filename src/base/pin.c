/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pin.h"
#include "base/minmax.h"
#include "base/parse.h"
#include "base/sys.h"
#include "base/text_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool add_range(const char *item, size_t bytes, cpu_set_t *set)
{
	char text[48];
	uint64_t low = 0, high = 0;

	if (!bytes || bytes >= sizeof(text))
		return false;
	memcpy(text, item, bytes);
	text[bytes] = '\0';
	if (strchr(text, '-') ? parse_range(text, 0, CPU_SETSIZE - 1, &low, &high) < 0
			      : parse_u64(text, 0, CPU_SETSIZE - 1, &low) < 0)
		return false;
	if (!strchr(text, '-'))
		high = low;
	for (; low <= high; low++)
		CPU_SET((size_t)low, set);
	return true;
}

bool pin_read_list(const char *text, cpu_set_t *ret)
{
	const char *rest = text, *item;
	size_t bytes;
	cpu_set_t set;

	CPU_ZERO(&set);
	while (parse_list_next(&rest, ',', &item, &bytes))
		if (!add_range(item, bytes, &set))
			return false;
	if (!CPU_COUNT(&set))
		return false;
	*ret = set;
	return true;
}

void pin_near(const char *path, int least)
{
	char name[512], text[1024] = "";
	cpu_set_t may, near;

	if (!path || snprintf(name, sizeof(name), "%s/local_cpulist", path) >= (int)sizeof(name))
		return;
	if (text_file_value(AT_FDCWD, name, text, sizeof(text)) < 0 || !pin_read_list(text, &near) ||
	    sched_getaffinity(0, sizeof(may), &may) < 0)
		return;
	CPU_AND(&near, &near, &may); /* no core that the mask excludes */
	if (CPU_COUNT(&near) && CPU_COUNT(&near) >= least)
		sched_setaffinity(0, sizeof(near), &near);
}

/* What a group may use in a period, in whole cores; no such files, or "max": as much as it likes. */
static unsigned quota_of(const char *quota_path, const char *period_path)
{
	unsigned long quota_us, period_us = 0;
	char text[64] = "";

	if (text_file_value(AT_FDCWD, quota_path, text, sizeof(text)) < 0 ||
	    sscanf(text, "%lu %lu", &quota_us, &period_us) < (period_path ? 1 : 2) || text[0] == '-')
		return UINT_MAX;
	if (period_path && (text_file_value(AT_FDCWD, period_path, text, sizeof(text)) < 0 || sscanf(text, "%lu", &period_us) != 1))
		return UINT_MAX;
	return period_us ? (unsigned)min_u64(quota_us / period_us + (quota_us % period_us != 0), UINT_MAX) : UINT_MAX;
}

unsigned pin_core_count(const cpu_set_t *cores, const char *root)
{
	char name[512], other[512], group[256] = "", *end;
	unsigned count = (unsigned)CPU_COUNT(cores);

	snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
	if (text_file_value(AT_FDCWD, name, group, sizeof(group)) < 0 || strncmp(group, "0::/", 4) != 0) {
		/* Version 1: a container has its own group there. */
		snprintf(name, sizeof(name), "%s/sys/fs/cgroup/cpu/cpu.cfs_quota_us", root);
		snprintf(other, sizeof(other), "%s/sys/fs/cgroup/cpu/cpu.cfs_period_us", root);
		return (unsigned)min_u64(count, quota_of(name, other));
	}
	for (;;) { /* of "0::/a/b" these: "/a/b", "/a", and the root, which is a container's own */
		snprintf(name, sizeof(name), "%s/sys/fs/cgroup%s/cpu.max", root, group + 3);
		count = (unsigned)min_u64(count, quota_of(name, NULL));
		end = strrchr(group + 3, '/');
		if (!end)
			break;
		*end = '\0';
	}
	return count;
}
