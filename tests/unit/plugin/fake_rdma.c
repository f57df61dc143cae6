/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/plugin/fake_rdma.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fake_device {
	struct ibv_device device; /* first */
	struct ibv_context context;
	struct ibv_port_attr ports[FAKE_RDMA_PORTS_MAX];
	uint8_t port_count;
	bool refuses;
};

static struct {
	struct fake_device devices[FAKE_RDMA_DEVICES_MAX];
	unsigned count, opened, open;
	bool has_no_library;
	char root[128];
	struct plugin_rdma_source source;
} fake;

static struct ibv_device **get_device_list(int *ret_count)
{
	static struct ibv_device *list[FAKE_RDMA_DEVICES_MAX + 1];

	for (unsigned i = 0; i < fake.count; i++)
		list[i] = &fake.devices[i].device;
	list[fake.count] = NULL;
	if (ret_count)
		*ret_count = (int)fake.count;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	list[0] = NULL;
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct fake_device *at = (struct fake_device *)device;

	errno = EACCES;
	if (at->refuses)
		return NULL;
	fake.opened++;
	fake.open++;
	at->context.device = device;
	return &at->context;
}

static int close_device(struct ibv_context *context)
{
	(void)context;
	fake.open--;
	return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *ret)
{
	ret->phys_port_cnt = ((struct fake_device *)context->device)->port_count;
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *ret)
{
	struct fake_device *at = (struct fake_device *)context->device;

	assert_in_range(port, 1, at->port_count);
	*ret = at->ports[port - 1];
	return 0;
}

static const struct verbs_api *open_library(struct diag *diag)
{
	static struct verbs_api api;

	(void)diag;
	api.get_device_list = get_device_list;
	api.free_device_list = free_device_list;
	api.get_device_name = get_device_name;
	api.open_device = open_device;
	api.close_device = close_device;
	api.query_device = query_device;
	api.query_port = query_port;
	return fake.has_no_library ? NULL : &api;
}

const struct plugin_rdma_source fake_rdma_none = { .root = "", .open = open_library };

int fake_rdma_new(void **state)
{
	struct fake_sysfs *sysfs;
	int r = fake_sysfs_new(state);

	if (r != 0)
		return r;
	sysfs = *state;
	memset(&fake, 0, sizeof(fake));
	snprintf(fake.root, sizeof(fake.root), "%s/class/infiniband", sysfs->tree.root);
	fake.source = (struct plugin_rdma_source){ .root = fake.root, .open = open_library };
	return 0;
}

static struct fake_device *find(const char *device)
{
	for (unsigned i = 0; i < fake.count; i++)
		if (!strcmp(fake.devices[i].device.name, device))
			return &fake.devices[i];
	return NULL;
}

void fake_rdma_port(struct fake_sysfs *sysfs, const char *device, unsigned port, enum ibv_port_state port_state,
		    int layer)
{
	struct fake_device *at = find(device);
	char path[128];

	assert_in_range(port, 1, FAKE_RDMA_PORTS_MAX);
	if (!at) {
		assert_in_range(fake.count, 0, FAKE_RDMA_DEVICES_MAX - 1);
		at = &fake.devices[fake.count++];
		snprintf(at->device.name, sizeof(at->device.name), "%s", device);
		snprintf(path, sizeof(path), "class/infiniband/%s/node_type", device);
		tree_text(&sysfs->tree, path, "1: CA\n");
	}
	for (; at->port_count < port; at->port_count++)
		at->ports[at->port_count] = (struct ibv_port_attr){ .state = IBV_PORT_DOWN };
	at->ports[port - 1] = (struct ibv_port_attr){ .state = port_state, .link_layer = (uint8_t)layer };
}

void fake_rdma_place(struct fake_sysfs *sysfs, const char *device, const char *bus_id)
{
	char path[256], target[64];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device", sysfs->tree.root, device);
	snprintf(target, sizeof(target), "../../../%s", bus_id);
	assert_int_equal(symlink(target, path), 0);
}

void fake_rdma_close(const char *device)
{
	find(device)->refuses = true;
}

void fake_rdma_lose_library(void)
{
	fake.has_no_library = true;
}

const struct plugin_rdma_source *fake_rdma(void)
{
	return &fake.source;
}

unsigned fake_rdma_opened(void)
{
	assert_int_equal(fake.open, 0);
	return fake.opened;
}
