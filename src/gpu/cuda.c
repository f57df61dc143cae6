/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda.h"

#include "base/log.h"
#include "gpu/library.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define CUDA_LIBRARY "libcuda.so.1"

static const struct gpu_library_symbol symbols[] = {
	{ "cuMemGetHandleForAddressRange", offsetof(struct gpu_cuda, mem_get_handle_for_range), false },
#define CUDA_SYMBOL(member, symbol, arguments) { #symbol, offsetof(struct gpu_cuda, member), true },
	GPU_CUDA_SYMBOLS(CUDA_SYMBOL)
#undef CUDA_SYMBOL
};

/* Written once, by load(). */
static struct {
	struct gpu_cuda table;
	struct diag diag;
	int result;
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static _Atomic(const struct gpu_cuda *) table_of_test;

static void load(void)
{
	driver.result = gpu_library_open(CUDA_LIBRARY, "no GPU, or its driver is not installed", symbols,
					 sizeof(symbols) / sizeof(symbols[0]), &driver.table, &driver.diag);
}

const char *gpu_cuda_error_name(const struct gpu_cuda *cuda, int result)
{
	const char *name = NULL;

	return !cuda->get_error_name(result, &name) && name ? name : "a CUDA error without a name";
}

int gpu_cuda_open(const struct gpu_cuda **ret, struct diag *diag)
{
	const struct gpu_cuda *table = atomic_load(&table_of_test);
	int r;

	if (!table) {
		pthread_once(&driver_once, load);
		if (driver.result < 0) {
			if (diag)
				*diag = driver.diag;
			return driver.result;
		}
		table = &driver.table;
	}
	r = table->init(0);
	if (r == GPU_CUDA_NO_DEVICE)
		diag_set(diag, 0, 0, "the CUDA driver finds no GPU (%s)", gpu_cuda_error_name(table, r));
	else if (r == GPU_CUDA_DRIVER_MISMATCH)
		diag_set(diag, 0, 0, CUDA_LIBRARY " and the kernel's NVIDIA driver are of different versions (%s)",
			 gpu_cuda_error_name(table, r));
	else if (r)
		diag_set(diag, 0, 0, "the CUDA driver does not start: %s (%d)", gpu_cuda_error_name(table, r), r);
	if (r)
		return -ENODEV;
	*ret = table;
	return 0;
}

void gpu_cuda_set_table(const struct gpu_cuda *table)
{
	atomic_store(&table_of_test, table);
}
