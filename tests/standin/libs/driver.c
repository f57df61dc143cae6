/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver of which only what tells GPUs apart works: which GPUs there are and which is current in a thread. It is
 * built as libcuda.so.1 and opened before the plugin asks for that name.
 */
#include "gpu/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { GPUS_MAX = 16, BUS_ID_BYTES = 24, INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_CONTEXT = 201 };

static char gpus[GPUS_MAX][BUS_ID_BYTES];
static int gpu_count;
static _Thread_local int current = -1;

/* For the rank: once, before its threads. */
EXPORT void standin_driver_show(const char (*bus_ids)[BUS_ID_BYTES], int count);
/* The GPU that is current in this thread; NULL: none. Not 0: it is not one that is shown. */
EXPORT int standin_driver_use(const char *bus_id);

void standin_driver_show(const char (*bus_ids)[BUS_ID_BYTES], int count)
{
	gpu_count = count > GPUS_MAX ? GPUS_MAX : count;
	memcpy(gpus, bus_ids, (size_t)gpu_count * sizeof(gpus[0]));
}

int standin_driver_use(const char *bus_id)
{
	current = -1;
	if (!bus_id)
		return 0;
	for (int i = 0; i < gpu_count; i++)
		if (!strcmp(gpus[i], bus_id))
			current = i;
	return current < 0;
}

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
	return flags ? INVALID_VALUE : gpu_count ? 0 : GPU_CUDA_NO_DEVICE;
}

EXPORT int cuCtxGetDevice(int *ret);
int cuCtxGetDevice(int *ret)
{
	if (current < 0)
		return INVALID_CONTEXT;
	*ret = current;
	return 0;
}

EXPORT int cuDeviceGetCount(int *ret);
int cuDeviceGetCount(int *ret)
{
	*ret = gpu_count;
	return 0;
}

EXPORT int cuDeviceGet(int *ret, int ordinal);
int cuDeviceGet(int *ret, int ordinal)
{
	if (ordinal < 0 || ordinal >= gpu_count)
		return INVALID_DEVICE;
	*ret = ordinal;
	return 0;
}

/* The real one writes capital letters, and as much as fits. */
EXPORT int cuDeviceGetPCIBusId(char *ret, int bytes, int device);
int cuDeviceGetPCIBusId(char *ret, int bytes, int device)
{
	if (device < 0 || device >= gpu_count)
		return INVALID_DEVICE;
	if (bytes < 13)
		return INVALID_VALUE;
	snprintf(ret, (size_t)bytes, "%s", gpus[device]);
	for (char *at = ret; *at; at++)
		if (*at >= 'a' && *at <= 'f')
			*at = (char)(*at - 'a' + 'A');
	return 0;
}

EXPORT int cuGetErrorName(int result, const char **ret);
int cuGetErrorName(int result, const char **ret)
{
	*ret = result == INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT" : "CUDA_ERROR";
	return 0;
}
