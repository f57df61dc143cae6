/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/gpu/fake_nvml.h"

#include <stdio.h>
#include <string.h>

struct fake_nvml fake_nvml;

enum { UNKNOWN = 999 };

static int step(int result)
{
	return ++fake_nvml.calls == fake_nvml.fail_at ? UNKNOWN : result;
}

static int known(unsigned value, unsigned *ret)
{
	*ret = value;
	return step(value ? GPU_NVML_OK : GPU_NVML_NOT_SUPPORTED);
}

static const char *fake_error_string(int result)
{
	return result == UNKNOWN ? "Unknown Error" : NULL;
}

static int fake_init(void)
{
	int r = step(fake_nvml.init_result);

	fake_nvml.opened += !r;
	return r;
}

static int fake_shutdown(void)
{
	fake_nvml.opened--;
	return GPU_NVML_OK;
}

static int fake_get_driver_version(char *ret, unsigned bytes)
{
	snprintf(ret, bytes, "550.54.15");
	return step(GPU_NVML_OK);
}

static int fake_get_count(unsigned *ret)
{
	*ret = fake_nvml.count;
	return step(fake_nvml.count_result);
}

static int fake_get_handle(unsigned index, struct gpu_nvml_device **ret)
{
	*ret = &fake_nvml.devices[index];
	return step(fake_nvml.devices[index].lost ? 15 : GPU_NVML_OK);
}

static int fake_get_name(struct gpu_nvml_device *device, char *ret, unsigned bytes)
{
	snprintf(ret, bytes, "%s", device->name);
	return step(GPU_NVML_OK);
}

static int fake_get_pci(struct gpu_nvml_device *device, struct gpu_nvml_pci *ret)
{
	*ret = device->pci;
	return step(GPU_NVML_OK);
}

static int fake_get_memory(struct gpu_nvml_device *device, struct gpu_nvml_memory *ret)
{
	*ret = (struct gpu_nvml_memory){ device->memory_bytes, 1, 2 };
	return step(GPU_NVML_OK);
}

static int fake_get_bar1(struct gpu_nvml_device *device, struct gpu_nvml_memory *ret)
{
	*ret = (struct gpu_nvml_memory){ device->bar1_bytes, 1, 2 };
	return step(GPU_NVML_OK);
}

static int fake_get_capability(struct gpu_nvml_device *device, int *ret_major, int *ret_minor)
{
	*ret_major = device->major;
	*ret_minor = device->minor;
	return step(GPU_NVML_OK);
}

static int fake_get_generation(struct gpu_nvml_device *device, unsigned *ret)
{
	return known(device->generation, ret);
}

static int fake_get_lanes(struct gpu_nvml_device *device, unsigned *ret)
{
	return known(device->lanes, ret);
}

static int fake_get_most_generation(struct gpu_nvml_device *device, unsigned *ret)
{
	return known(device->most_generation, ret);
}

static int fake_get_most_lanes(struct gpu_nvml_device *device, unsigned *ret)
{
	return known(device->most_lanes, ret);
}

static int fake_get_p2p_status(struct gpu_nvml_device *device, struct gpu_nvml_device *peer, int index, int *ret)
{
	*ret = fake_nvml.p2p[device - fake_nvml.devices][peer - fake_nvml.devices][index];
	return step(GPU_NVML_OK);
}

static int fake_get_nvlink_state(struct gpu_nvml_device *device, unsigned link, int *ret_active)
{
	if (link >= device->link_count)
		return step(device->link_count ? GPU_NVML_INVALID_ARGUMENT : GPU_NVML_NOT_SUPPORTED);
	*ret_active = device->links[link].active;
	return step(device->links[link].absent ? GPU_NVML_NOT_SUPPORTED : GPU_NVML_OK);
}

static int fake_get_nvlink_version(struct gpu_nvml_device *device, unsigned link, unsigned *ret)
{
	return known(device->links[link].version, ret);
}

static int fake_get_nvlink_remote_pci(struct gpu_nvml_device *device, unsigned link, struct gpu_nvml_pci *ret)
{
	*ret = device->links[link].remote_pci;
	return step(GPU_NVML_OK);
}

static int fake_get_nvlink_remote_type(struct gpu_nvml_device *device, unsigned link, int *ret)
{
	*ret = device->links[link].remote;
	return step(GPU_NVML_OK);
}

static int fake_get_fields(struct gpu_nvml_device *device, int count, struct gpu_nvml_field *fields)
{
	for (int i = 0; i < count; i++) {
		fields[i].result = fields[i].field == GPU_NVML_FIELD_NVLINK_SPEED ? GPU_NVML_OK
										  : GPU_NVML_NOT_SUPPORTED;
		fields[i].value.u32 = device->links[fields[i].scope].speed_MBps;
	}
	return step(GPU_NVML_OK);
}

static int fake_get_compute_processes(struct gpu_nvml_device *device, unsigned *count, struct gpu_nvml_process *ret)
{
	const unsigned room = *count;

	*count = device->process_count;
	if (room < device->process_count)
		return step(GPU_NVML_INSUFFICIENT_SIZE);
	for (unsigned i = 0; i < device->process_count; i++)
		ret[i] = (struct gpu_nvml_process){ .pid = device->processes[i] };
	return step(GPU_NVML_OK);
}

static int fake_get_mig_mode(struct gpu_nvml_device *device, unsigned *ret_now, unsigned *ret_pending)
{
	*ret_now = *ret_pending = device->mig;
	return step(GPU_NVML_OK);
}

static int fake_get_mig_count(struct gpu_nvml_device *device, unsigned *ret)
{
	(void)device;
	return known(FAKE_NVML_SLICES_MAX, ret);
}

static int fake_get_mig_handle(struct gpu_nvml_device *device, unsigned index, struct gpu_nvml_device **ret)
{
	*ret = device->slices[index];
	return step(*ret ? GPU_NVML_OK : GPU_NVML_NOT_FOUND);
}

static int fake_get_gpu_instance(struct gpu_nvml_device *device, unsigned *ret)
{
	*ret = device->gpu_instance;
	return step(GPU_NVML_OK);
}

static int fake_get_compute_instance(struct gpu_nvml_device *device, unsigned *ret)
{
	*ret = device->compute_instance;
	return step(GPU_NVML_OK);
}

void fake_nvml_reset(unsigned count, bool old)
{
	static struct gpu_nvml table;

	table = (struct gpu_nvml){ .error_string = old ? NULL : fake_error_string,
#define FAKE(must, member, symbol, arguments) .member = (must) == GPU_NVML_MUST || !old ? fake_##member : NULL,
				   GPU_NVML_SYMBOLS(FAKE)
#undef FAKE
	};
	fake_nvml = (struct fake_nvml){ .count = count };
	for (unsigned i = 0; i < count; i++) {
		struct gpu_nvml_device *device = &fake_nvml.devices[i];

		device->name = "NVIDIA Test GPU";
		device->pci.bus = 0x10 * (i + 1) + 0xa;
		device->pci.device_id = 0x233010de;
		snprintf(device->pci.bus_id, sizeof(device->pci.bus_id), "00000000:%02X:00.0", device->pci.bus);
		device->generation = 1;
		device->lanes = 16;
		device->most_generation = 5;
		device->most_lanes = 16;
		device->major = 9;
		device->memory_bytes = UINT64_C(80) << 30;
		device->bar1_bytes = UINT64_C(128) << 30;
	}
	gpu_nvml_set_table(&table);
}

void fake_nvml_remove(void)
{
	gpu_nvml_set_table(NULL);
}
