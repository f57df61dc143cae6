#include "discover/verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_BYTES = 256, PORTS_MOST = 4 };

/* Only what is asked here: types and constants are the header's, functions the library's. */
struct library {
	void *handle;
	struct ibv_device **(*get_device_list)(int *);
	void (*free_device_list)(struct ibv_device **);
	const char *(*get_device_name)(struct ibv_device *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	int (*close_device)(struct ibv_context *);
	int (*query_device)(struct ibv_context *, struct ibv_device_attr *);
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
};

static bool load(struct library *library)
{
	const struct {
		const char *name;
		void *to;
	} functions[] = {
		{ "ibv_get_device_list", &library->get_device_list },
		{ "ibv_free_device_list", &library->free_device_list },
		{ "ibv_get_device_name", &library->get_device_name },
		{ "ibv_open_device", &library->open_device },
		{ "ibv_close_device", &library->close_device },
		{ "ibv_query_device", &library->query_device },
		{ "ibv_query_port", &library->query_port },
	};

	/* Its drivers do not survive being unloaded, so it stays. */
	library->handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; library->handle && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library->handle, functions[i].name);

		if (!function)
			return false;
		memcpy(functions[i].to, &function, sizeof(function));
	}
	return library->handle != NULL;
}

static void ask(const struct library *library, struct ibv_context *context, char text[static ANSWER_BYTES])
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	int used;

	memset(&device, 0, sizeof(device));
	if (library->query_device(context, &device))
		return;
	used = snprintf(text, ANSWER_BYTES, "max_qp=%d max_mr=%d", device.max_qp, device.max_mr);
	for (unsigned i = 1; i <= device.phys_port_cnt && i <= PORTS_MOST; i++) {
		/* Older libraries fill in the first part of it alone. */
		memset(&port, 0, sizeof(port));
		if (!library->query_port(context, (uint8_t)i, &port) && port.active_mtu >= IBV_MTU_256 &&
		    port.active_mtu <= IBV_MTU_4096)
			used += snprintf(text + used, ANSWER_BYTES - (size_t)used, " packet%u=%u", i,
					 128U << port.active_mtu);
	}
}

int discover_verbs_ask(void *name, char **ret, size_t *ret_bytes)
{
	struct library library = { 0 };
	char text[ANSWER_BYTES] = "";
	struct ibv_device **list;
	int count = 0;

	if (!load(&library))
		return -ENOENT;
	list = library.get_device_list(&count);
	for (int i = 0; list && i < count; i++) {
		struct ibv_context *context;

		if (strcmp(library.get_device_name(list[i]), name) != 0)
			continue;
		context = library.open_device(list[i]);
		if (!context)
			break;
		ask(&library, context, text);
		library.close_device(context);
		break;
	}
	if (list)
		library.free_device_list(list);
	if (!*text)
		return -ENOENT;
	*ret = strdup(text);
	if (!*ret)
		return -ENOMEM;
	*ret_bytes = strlen(*ret);
	return 0;
}
