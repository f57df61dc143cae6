/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/ask.h"

#include "base/log.h"
#include "transport/verbs/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_BYTES = 256, PORTS_MOST = 4 };

static void ask(const struct verbs_api *verbs, struct ibv_context *context, char text[static ANSWER_BYTES])
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	int used;

	memset(&device, 0, sizeof(device));
	if (verbs->query_device(context, &device))
		return;
	used = snprintf(text, ANSWER_BYTES, "max_qp=%d max_mr=%d", device.max_qp, device.max_mr);
	for (unsigned i = 1; i <= device.phys_port_cnt && i <= PORTS_MOST; i++) {
		/* Older libraries fill in the first part of it alone. */
		memset(&port, 0, sizeof(port));
		if (!verbs->query_port(context, (uint8_t)i, &port) && port.active_mtu >= IBV_MTU_256 &&
		    port.active_mtu <= IBV_MTU_4096)
			used += snprintf(text + used, ANSWER_BYTES - (size_t)used, " packet%u=%u", i,
					 128U << port.active_mtu);
	}
}

int discover_verbs_ask(void *name, char **ret, size_t *ret_bytes)
{
	struct diag unsaid;
	const struct verbs_api *verbs = verbs_api_open(&unsaid);
	char text[ANSWER_BYTES] = "";
	struct ibv_device **list;
	int count = 0;

	if (!verbs)
		return -ENOENT;
	list = verbs->get_device_list(&count);
	for (int i = 0; list && i < count; i++) {
		struct ibv_context *context;

		if (strcmp(verbs->get_device_name(list[i]), name) != 0)
			continue;
		context = verbs->open_device(list[i]);
		if (!context)
			break;
		ask(verbs, context, text);
		verbs->close_device(context);
		break;
	}
	if (list)
		verbs->free_device_list(list);
	if (!*text)
		return -ENOENT;
	*ret = strdup(text);
	if (!*ret)
		return -ENOMEM;
	*ret_bytes = strlen(*ret);
	return 0;
}
