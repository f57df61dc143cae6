/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/versions/properties.h"

#include "base/clock.h"
#include "base/log.h"
#include "plugin/collnet.h"
#include "plugin/net.h"
#include "plugin/result.h"

#include <errno.h>
#include <limits.h>

enum { BITS_PER_BYTE = 8, BITS_PER_MBIT = 1000000 };

static int misfit(const struct plugin_net_properties *inner, const char *what)
{
	log_warn("The %s of network device %s does not fit NCCL's interface", what, inner->name);
	return -EINVAL;
}

static bool fits_int16(int value)
{
	return value >= INT16_MIN && value <= INT16_MAX;
}

int plugin_properties_convert(const struct plugin_net_properties *inner, int greatest_members,
			      struct plugin_properties *ret)
{
	struct plugin_properties to = { .inner = *inner };
	uint64_t speed_Mbps = inner->speed_Bps / (BITS_PER_MBIT / BITS_PER_BYTE);

	if (speed_Mbps > INT_MAX)
		return misfit(inner, "speed");
	if (inner->memory > INT_MAX)
		return misfit(inner, "kinds of memory");
	if (greatest_members > 0 && (inner->member_count < 1 || inner->member_count > greatest_members))
		return misfit(inner, "number of members");
	if (!fits_int16(inner->rail) || !fits_int16(inner->plane))
		return misfit(inner, "rail or plane");
	to.speed_Mbps = (int)speed_Mbps;
	to.ptr_support = (int)inner->memory;
	to.latency_us = (float)((double)inner->latency_ns / NS_PER_US);
	to.rail = (int16_t)inner->rail;
	to.plane = (int16_t)inner->plane;
	*ret = to;
	return 0;
}

enum nccl_result plugin_properties_get(enum plugin_family family, int device, int greatest_members,
				       struct plugin_properties *ret)
{
	struct plugin_net_properties inner;
	int r;

	r = family == PLUGIN_COLLNET ? plugin_collnet_properties(device, &inner)
				     : plugin_net_properties(device, &inner);
	return plugin_result(r < 0 ? r : plugin_properties_convert(&inner, greatest_members, ret));
}

void plugin_properties_members(const struct plugin_net_properties *inner, int room, int *devs)
{
	for (int i = 0; i < room; i++)
		devs[i] = i < inner->member_count ? inner->members[i] : 0;
}
