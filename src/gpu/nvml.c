/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/nvml.h"

#include "base/log.h"
#include "gpu/library.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define NVML_LIBRARY "libnvidia-ml.so.1"

static const struct gpu_library_symbol symbols[] = {
	{ "nvmlErrorString", offsetof(struct gpu_nvml, error_string), false },
#define NVML_SYMBOL(must, member, symbol, arguments) { #symbol, offsetof(struct gpu_nvml, member), must },
	GPU_NVML_SYMBOLS(NVML_SYMBOL)
#undef NVML_SYMBOL
};

/* Written once, by load(). */
static struct {
	struct gpu_nvml table;
	struct diag diag;
	int result;
} library;
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static _Atomic(const struct gpu_nvml *) table_of_test;

static void load(void)
{
	library.result = gpu_library_open(NVML_LIBRARY, "no GPU, or its driver is not installed", symbols,
					  sizeof(symbols) / sizeof(symbols[0]), &library.table, &library.diag);
}

const char *gpu_nvml_error_string(const struct gpu_nvml *nvml, int result)
{
	const char *text = nvml->error_string ? nvml->error_string(result) : NULL;

	return text ? text : "an NVML error without a name";
}

int gpu_nvml_open(const struct gpu_nvml **ret, struct diag *diag)
{
	const struct gpu_nvml *table = atomic_load(&table_of_test);
	int r;

	if (!table) {
		pthread_once(&library_once, load);
		if (library.result < 0) {
			if (diag)
				*diag = library.diag;
			return library.result;
		}
		table = &library.table;
	}
	r = table->init();
	if (r == GPU_NVML_DRIVER_NOT_LOADED)
		diag_set(diag, 0, 0, "the kernel's NVIDIA driver is not loaded");
	else if (r == GPU_NVML_VERSION_MISMATCH)
		diag_set(diag, 0, 0, NVML_LIBRARY " and the kernel's NVIDIA driver are of different versions");
	else if (r)
		diag_set(diag, 0, 0, "NVML does not start: %s (%d)", gpu_nvml_error_string(table, r), r);
	if (r)
		return -ENODEV;
	*ret = table;
	return 0;
}

void gpu_nvml_close(const struct gpu_nvml *nvml)
{
	if (nvml)
		nvml->shutdown();
}

void gpu_nvml_set_table(const struct gpu_nvml *table)
{
	atomic_store(&table_of_test, table);
}
