/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A version's getProperties, of the net and of collnet, which share their struct. The including file defines
 *
 *   PROPERTIES   the struct
 *   MEMBERS_MAX  what its vProps has room for; 0: it has none
 *   SET          the PLUGIN_PROPERTIES_SET_... of the version
 */
#include "plugin/versions/properties.h"

static enum nccl_result properties_of(enum plugin_family family, int device, PROPERTIES *ret_properties)
{
	struct plugin_properties from;
	enum nccl_result r = plugin_properties_get(family, device, MEMBERS_MAX, &from);

	if (r == NCCL_SUCCESS)
		SET(ret_properties, &from);
	return r;
}

static enum nccl_result net_properties(int device, PROPERTIES *ret_properties)
{
	return properties_of(PLUGIN_NET, device, ret_properties);
}

static enum nccl_result collnet_properties(int device, PROPERTIES *ret_properties)
{
	return properties_of(PLUGIN_COLLNET, device, ret_properties);
}
