/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/inventory.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Domains beyond this are NVML's way to say that it does not know the other end. */
#define NO_DOMAIN 0xfffffffeu

/* The function number is only in the text, after the last dot: "00000000:17:00.0". */
static void bus_id_of(const struct gpu_nvml_pci *pci, char *ret)
{
	const char *dot = memchr(pci->bus_id, '.', sizeof(pci->bus_id) - 1);
	char function = dot && dot[1] >= '0' && dot[1] <= '7' ? dot[1] : '0';

	ret[0] = '\0';
	if (pci->domain >= NO_DOMAIN || pci->bus > 0xff || pci->device > 0x1f)
		return;
	snprintf(ret, GPU_INVENTORY_BUS_ID_BYTES, "%04x:%02x:%02x.%c", pci->domain, pci->bus & 0xff, pci->device & 0x1f,
		 function);
}

/* 0 for what NVML does not say, or what this NVML cannot. */
static unsigned number_of(int (*get)(struct gpu_nvml_device *, unsigned *), struct gpu_nvml_device *device)
{
	unsigned value = 0;

	return get && get(device, &value) == GPU_NVML_OK ? value : 0;
}

static int instance_of(int (*get)(struct gpu_nvml_device *, unsigned *), struct gpu_nvml_device *device)
{
	unsigned value;

	return get && get(device, &value) == GPU_NVML_OK && value < 1u << 16 ? (int)value : -1;
}

static uint64_t memory_of(int (*get)(struct gpu_nvml_device *, struct gpu_nvml_memory *),
			  struct gpu_nvml_device *device)
{
	struct gpu_nvml_memory memory = { 0 };

	return get && get(device, &memory) == GPU_NVML_OK ? memory.total_bytes : 0;
}

static void name_of(const struct gpu_nvml *nvml, struct gpu_nvml_device *device, char *ret)
{
	if (nvml->get_name(device, ret, GPU_NVML_NAME_BYTES) != GPU_NVML_OK)
		ret[0] = '\0';
	ret[GPU_NVML_NAME_BYTES - 1] = '\0';
}

static uint64_t nvlink_rate(const struct gpu_nvml *nvml, struct gpu_nvml_device *device, unsigned link)
{
	struct gpu_nvml_field field = { .field = GPU_NVML_FIELD_NVLINK_SPEED, .scope = link };

	if (!nvml->get_fields || nvml->get_fields(device, 1, &field) != GPU_NVML_OK || field.result != GPU_NVML_OK)
		return 0;
	return field.value.u32 * UINT64_C(1000000);
}

static void nvlinks_read(const struct gpu_nvml *nvml, struct gpu_nvml_device *device, struct gpu_inventory_device *ret)
{
	for (unsigned i = 0; nvml->get_nvlink_state && i < GPU_INVENTORY_NVLINKS_MAX; i++) {
		struct gpu_inventory_nvlink *link = &ret->nvlinks[ret->nvlink_count];
		struct gpu_nvml_pci pci = { .domain = NO_DOMAIN };
		int active = 0, r = nvml->get_nvlink_state(device, i, &active);

		if (r == GPU_NVML_INVALID_ARGUMENT)
			break; /* past the last one */
		if (r != GPU_NVML_OK)
			continue; /* this one is not wired; a later one may be */
		*link = (struct gpu_inventory_nvlink){ .link = i, .active = active != 0, .remote = -1 };
		ret->nvlink_count++;
		if (!active)
			continue;
		if (nvml->get_nvlink_version && nvml->get_nvlink_version(device, i, &link->version) != GPU_NVML_OK)
			link->version = 0;
		if (nvml->get_nvlink_remote_type &&
		    nvml->get_nvlink_remote_type(device, i, &link->remote) != GPU_NVML_OK)
			link->remote = -1;
		if (nvml->get_nvlink_remote_pci && nvml->get_nvlink_remote_pci(device, i, &pci) == GPU_NVML_OK)
			bus_id_of(&pci, link->remote_bus_id);
		link->rate_Bps = nvlink_rate(nvml, device, i);
	}
}

static int slices_read(const struct gpu_nvml *nvml, struct gpu_nvml_device *device, struct gpu_inventory_device *ret)
{
	unsigned now = 0, pending = 0, most;

	if (!nvml->get_mig_mode || nvml->get_mig_mode(device, &now, &pending) != GPU_NVML_OK || !now)
		return 0;
	ret->mig = true;
	most = number_of(nvml->get_mig_count, device);
	if (!most || !nvml->get_mig_handle)
		return 0;
	ret->slices = sys_zalloc(most * sizeof(*ret->slices));
	if (!ret->slices)
		return -ENOMEM;
	for (unsigned i = 0; i < most; i++) {
		struct gpu_inventory_slice *slice = &ret->slices[ret->slice_count];
		struct gpu_nvml_device *handle;

		if (nvml->get_mig_handle(device, i, &handle) != GPU_NVML_OK)
			continue; /* that place is empty */
		slice->index = i;
		slice->gpu_instance = instance_of(nvml->get_gpu_instance, handle);
		slice->compute_instance = instance_of(nvml->get_compute_instance, handle);
		name_of(nvml, handle, slice->name);
		slice->memory_bytes = memory_of(nvml->get_memory, handle);
		ret->slice_count++;
	}
	return 0;
}

static int device_read(const struct gpu_nvml *nvml, struct gpu_nvml_device *device, const struct gpu_nvml_pci *pci,
		       unsigned index, struct gpu_inventory_device *ret)
{
	int major, minor;

	ret->index = index;
	bus_id_of(pci, ret->bus_id);
	ret->pci_device_id = pci->device_id;
	ret->pci_subsystem_id = pci->subsystem_id;
	name_of(nvml, device, ret->name);
	if (nvml->get_capability && nvml->get_capability(device, &major, &minor) == GPU_NVML_OK)
		ret->sm = major * 10 + minor;
	ret->generation = number_of(nvml->get_generation, device);
	ret->lanes = number_of(nvml->get_lanes, device);
	ret->most_generation = number_of(nvml->get_most_generation, device);
	ret->most_lanes = number_of(nvml->get_most_lanes, device);
	ret->memory_bytes = memory_of(nvml->get_memory, device);
	ret->bar1_bytes = memory_of(nvml->get_bar1, device);
	nvlinks_read(nvml, device, ret);
	return slices_read(nvml, device, ret);
}

static enum gpu_nvml_p2p p2p_read(const struct gpu_nvml *nvml, struct gpu_nvml_device *from, struct gpu_nvml_device *to)
{
	static const int indices[] = { GPU_NVML_P2P_READ, GPU_NVML_P2P_WRITE };

	for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
		int status = GPU_NVML_P2P_UNKNOWN;

		if (!nvml->get_p2p_status || nvml->get_p2p_status(from, to, indices[i], &status) != GPU_NVML_OK)
			return GPU_NVML_P2P_UNKNOWN;
		if (status < 0 || status >= GPU_NVML_P2P_COUNT)
			return GPU_NVML_P2P_UNKNOWN;
		if (status != GPU_NVML_P2P_OK)
			return (enum gpu_nvml_p2p)status;
	}
	return GPU_NVML_P2P_OK;
}

/* NVML's handle of a device that is in the inventory. */
struct seen {
	struct gpu_nvml_device *handle;
};

static int devices_read(const struct gpu_nvml *nvml, unsigned count, struct seen *seen, struct gpu_inventory *ret)
{
	int r;

	for (unsigned i = 0; i < count; i++) {
		struct gpu_inventory_device *device = &ret->devices[ret->device_count];
		struct gpu_nvml_pci pci = { .domain = NO_DOMAIN };

		if (nvml->get_handle(i, &seen[ret->device_count].handle) != GPU_NVML_OK ||
		    nvml->get_pci(seen[ret->device_count].handle, &pci) != GPU_NVML_OK)
			continue;
		ret->device_count++; /* first, so that fini sees what it allocates */
		r = device_read(nvml, seen[ret->device_count - 1].handle, &pci, i, device);
		if (r < 0)
			return r;
	}
	for (size_t from = 0; from < ret->device_count; from++)
		for (size_t to = 0; to < ret->device_count; to++)
			ret->p2p[from * ret->device_count + to] =
				(uint8_t)(from == to ? GPU_NVML_P2P_OK
						     : p2p_read(nvml, seen[from].handle, seen[to].handle));
	return 0;
}

int gpu_inventory_read(const struct gpu_nvml *nvml, struct gpu_inventory *ret, struct diag *diag)
{
	struct gpu_inventory inventory = { .driver = "" };
	struct seen *seen;
	unsigned count;
	int r = nvml->get_count(&count);

	if (r != GPU_NVML_OK) {
		diag_set(diag, 0, 0, "NVML does not count the GPUs: %s (%d)", gpu_nvml_error_string(nvml, r), r);
		return -EIO;
	}
	if (nvml->get_driver_version(inventory.driver, sizeof(inventory.driver)) != GPU_NVML_OK)
		inventory.driver[0] = '\0';
	r = -ENOMEM;
	seen = sys_zalloc(count * sizeof(*seen));
	inventory.devices = sys_zalloc(count * sizeof(*inventory.devices));
	inventory.p2p = sys_zalloc((size_t)count * count);
	if (seen && inventory.devices && inventory.p2p)
		r = devices_read(nvml, count, seen, &inventory);
	sys_free(seen);
	if (r < 0) {
		gpu_inventory_fini(&inventory);
		return r;
	}
	*ret = inventory;
	return 0;
}

void gpu_inventory_fini(struct gpu_inventory *inventory)
{
	for (size_t i = 0; inventory->devices && i < inventory->device_count; i++)
		sys_free(inventory->devices[i].slices);
	sys_free(inventory->devices);
	sys_free(inventory->p2p);
	*inventory = (struct gpu_inventory){ .driver = "" };
}

enum gpu_nvml_p2p gpu_inventory_p2p(const struct gpu_inventory *inventory, size_t from, size_t to)
{
	if (from >= inventory->device_count || to >= inventory->device_count)
		return GPU_NVML_P2P_UNKNOWN;
	return (enum gpu_nvml_p2p)inventory->p2p[from * inventory->device_count + to];
}

const char *gpu_inventory_p2p_word(enum gpu_nvml_p2p status)
{
	static const char *const words[GPU_NVML_P2P_COUNT] = {
		[GPU_NVML_P2P_OK] = "works",        [GPU_NVML_P2P_CHIPSET] = "chipset",
		[GPU_NVML_P2P_GPU] = "gpu",         [GPU_NVML_P2P_IOH] = "bridges",
		[GPU_NVML_P2P_REGKEY] = "setting",  [GPU_NVML_P2P_NOT_SUPPORTED] = "unsupported",
		[GPU_NVML_P2P_UNKNOWN] = "unknown",
	};

	return (unsigned)status < GPU_NVML_P2P_COUNT ? words[status] : "unknown";
}
