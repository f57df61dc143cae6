/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/current.h"

#include "base/log.h"
#include "gpu/library.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define CUDA_LIBRARY "libcuda.so.1"

enum { DOMAIN_DIGITS = 8, SYSFS_DOMAIN_DIGITS = 4 };

static const struct gpu_library_symbol symbols[] = {
	{ "cuCtxGetDevice", offsetof(struct gpu_current_driver, ctx_get_device), true },
	{ "cuDeviceGetPCIBusId", offsetof(struct gpu_current_driver, device_get_pci_bus_id), true },
};

/* Written once, by load(). */
static struct {
	struct gpu_current_driver table;
	struct diag diag;
	int result;
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static _Atomic(const struct gpu_current_driver *) driver_of_test;

static void load(void)
{
	driver.result = gpu_library_open(CUDA_LIBRARY, "no GPU, or its driver is not installed", symbols,
					 sizeof(symbols) / sizeof(symbols[0]), &driver.table, &driver.diag);
}

static const struct gpu_current_driver *driver_get(struct diag *diag)
{
	const struct gpu_current_driver *table = atomic_load(&driver_of_test);

	if (table)
		return table;
	pthread_once(&driver_once, load);
	if (driver.result == 0)
		return &driver.table;
	if (diag)
		*diag = driver.diag;
	return NULL;
}

/* In place. CUDA writes a domain of up to eight digits, and hexadecimal digits in either case. */
static void as_sysfs_has_it(char *bus_id)
{
	size_t domain = strcspn(bus_id, ":");

	if (domain == DOMAIN_DIGITS && !strncmp(bus_id, "0000", DOMAIN_DIGITS - SYSFS_DOMAIN_DIGITS))
		memmove(bus_id, bus_id + SYSFS_DOMAIN_DIGITS, strlen(bus_id + SYSFS_DOMAIN_DIGITS) + 1);
	for (char *at = bus_id; *at; at++)
		*at = (char)tolower((unsigned char)*at);
}

int gpu_current_bus_id(char ret[static GPU_CURRENT_BUS_ID_BYTES], struct diag *diag)
{
	char bus_id[GPU_CURRENT_BUS_ID_BYTES] = "";
	const struct gpu_current_driver *table;
	int saved_errno = errno, device = 0, r;

	table = driver_get(diag);
	if (!table)
		return -ENODEV;
	r = table->ctx_get_device(&device);
	if (r) {
		diag_set(diag, 0, 0, "no GPU is current on this thread (CUDA error %d)", r);
		errno = saved_errno;
		return -ENOENT;
	}
	r = table->device_get_pci_bus_id(bus_id, sizeof(bus_id), device);
	errno = saved_errno;
	if (r || !memchr(bus_id, '\0', sizeof(bus_id)) || !bus_id[0]) {
		diag_set(diag, 0, 0, "CUDA does not say where device %d is (CUDA error %d)", device, r);
		return -ENOENT;
	}
	as_sysfs_has_it(bus_id);
	memcpy(ret, bus_id, sizeof(bus_id));
	return 0;
}

void gpu_current_set_driver(const struct gpu_current_driver *table)
{
	atomic_store(&driver_of_test, table);
}
