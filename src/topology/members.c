/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/internal.h"

#include "base/sys.h"

#include <errno.h>

int topology_memberships_init(struct topology_memberships *memberships, const struct topology *topology,
			      const uint32_t *order)
{
	size_t directed_count = 2 * topology->link_count, total = 0;

	for (size_t i = 0; i < topology->limit_count; i++)
		total += topology->limits[i].member_count;
	memberships->arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(memberships->first, directed_count + 2),
								      SYS_ARRAY(memberships->limits, total) },
						2);
	if (!memberships->arrays)
		return -ENOMEM;
	/* Counted two places further on, so that filling moves each start to where it belongs. */
	for (size_t i = 0; i < topology->limit_count; i++)
		for (size_t j = 0; j < topology->limits[i].member_count; j++)
			memberships->first[topology->limits[i].members[j] + 2]++;
	for (size_t i = 2; i < directed_count + 2; i++)
		memberships->first[i] += memberships->first[i - 1];
	for (uint32_t i = 0; i < topology->limit_count; i++) {
		const struct topology_limit *limit = &topology->limits[order ? order[i] : i];

		for (size_t j = 0; j < limit->member_count; j++)
			memberships->limits[memberships->first[limit->members[j] + 1]++] = i;
	}
	return 0;
}
