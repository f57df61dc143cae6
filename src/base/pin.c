/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pin.h"
#include "base/parse.h"
#include "base/sys.h"
#include "base/text_file.h"

#include <fcntl.h>
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
	CPU_AND(&near, &near, &may); /* what somebody narrowed stays as narrow */
	if (CPU_COUNT(&near) && CPU_COUNT(&near) >= least)
		sched_setaffinity(0, sizeof(near), &near);
}
