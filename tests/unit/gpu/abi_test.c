/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our declarations of CUDA and NVML against the real headers, where they are: CUDA's usual place, or wherever the compiler
 * looks (CPATH=.../site-packages/nvidia/cu13/include for a Python wheel). What differs is a compiler error.
 */
#include "gpu/cuda.h"
#include "gpu/nvml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#define HAVE_CUDA 1
#elif __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#define HAVE_CUDA 1
#else
#define HAVE_CUDA 0
#endif

#if __has_include(<nvml.h>)
#include <nvml.h>
#define HAVE_NVML 1
#elif __has_include("/usr/local/cuda/include/nvml.h")
#include "/usr/local/cuda/include/nvml.h"
#define HAVE_NVML 1
#else
#define HAVE_NVML 0
#endif

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)

/* Pointers to any object are one to this warning, so are integers of one size: what is left is a wrong signature. */
#pragma GCC diagnostic error "-Wcast-function-type"

#if HAVE_CUDA
SAME(GPU_CUDA_OK, CUDA_SUCCESS);
SAME(GPU_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(GPU_CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(GPU_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(GPU_CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(GPU_CUDA_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(GPU_CUDA_PEER_ACCESS_NOT_ENABLED, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
SAME(GPU_CUDA_TOO_MANY_PEERS, CUDA_ERROR_TOO_MANY_PEERS);
SAME(GPU_CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(GPU_CUDA_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME(GPU_CUDA_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(GPU_CUDA_CAN_MAP_HOST_MEMORY, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
SAME(GPU_CUDA_COPY_ENGINES, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SAME(GPU_CUDA_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(GPU_CUDA_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(GPU_CUDA_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(GPU_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(GPU_CUDA_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(GPU_CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(GPU_CUDA_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(GPU_CUDA_HOST_DEVICE_MAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(GPU_CUDA_HOST_DEVICE_MAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(sizeof(uint64_t), sizeof(CUdeviceptr));
SAME(sizeof(int), sizeof(CUdevice));
SAME(sizeof(int), sizeof(CUresult));
#define CUDA_SIGNATURE(member, symbol, arguments) SAME(sizeof((int(*) arguments) & symbol), sizeof(void *));
GPU_CUDA_SYMBOLS(CUDA_SIGNATURE)
#if CUDA_VERSION >= 11070
SAME(GPU_CUDA_HANDLE_DMABUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME(sizeof((int (*)(void *, uint64_t, size_t, int, unsigned long long)) & cuMemGetHandleForAddressRange),
     sizeof(void *));
#endif
#endif

#if HAVE_NVML
SAME(GPU_NVML_OK, NVML_SUCCESS);
SAME(GPU_NVML_INVALID_ARGUMENT, NVML_ERROR_INVALID_ARGUMENT);
SAME(GPU_NVML_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED);
SAME(GPU_NVML_NO_PERMISSION, NVML_ERROR_NO_PERMISSION);
SAME(GPU_NVML_NOT_FOUND, NVML_ERROR_NOT_FOUND);
SAME(GPU_NVML_DRIVER_NOT_LOADED, NVML_ERROR_DRIVER_NOT_LOADED);
SAME(GPU_NVML_VERSION_MISMATCH, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
SAME(GPU_NVML_P2P_OK, NVML_P2P_STATUS_OK);
SAME(GPU_NVML_P2P_CHIPSET, NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED);
SAME(GPU_NVML_P2P_GPU, NVML_P2P_STATUS_GPU_NOT_SUPPORTED);
SAME(GPU_NVML_P2P_IOH, NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED);
SAME(GPU_NVML_P2P_REGKEY, NVML_P2P_STATUS_DISABLED_BY_REGKEY);
SAME(GPU_NVML_P2P_NOT_SUPPORTED, NVML_P2P_STATUS_NOT_SUPPORTED);
SAME(GPU_NVML_P2P_UNKNOWN, NVML_P2P_STATUS_UNKNOWN);
SAME(GPU_NVML_P2P_READ, NVML_P2P_CAPS_INDEX_READ);
SAME(GPU_NVML_P2P_WRITE, NVML_P2P_CAPS_INDEX_WRITE);
SAME(GPU_NVML_P2P_NVLINK, NVML_P2P_CAPS_INDEX_NVLINK);
SAME(GPU_NVML_REMOTE_GPU, NVML_NVLINK_DEVICE_TYPE_GPU);
SAME(GPU_NVML_REMOTE_NPU, NVML_NVLINK_DEVICE_TYPE_IBMNPU);
SAME(GPU_NVML_REMOTE_SWITCH, NVML_NVLINK_DEVICE_TYPE_SWITCH);
SAME(GPU_NVML_FIELD_NVLINK_SPEED, NVML_FI_DEV_NVLINK_GET_SPEED);
SAME(GPU_NVML_NAME_BYTES, NVML_DEVICE_NAME_V2_BUFFER_SIZE);
SAME(GPU_NVML_VERSION_BYTES, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
SAME(sizeof(struct gpu_nvml_pci), sizeof(nvmlPciInfo_t));
SAME(offsetof(struct gpu_nvml_pci, domain), offsetof(nvmlPciInfo_t, domain));
SAME(offsetof(struct gpu_nvml_pci, device_id), offsetof(nvmlPciInfo_t, pciDeviceId));
SAME(offsetof(struct gpu_nvml_pci, bus_id), offsetof(nvmlPciInfo_t, busId));
SAME(sizeof(struct gpu_nvml_memory), sizeof(nvmlMemory_t));
SAME(sizeof(struct gpu_nvml_memory), sizeof(nvmlBAR1Memory_t));
SAME(offsetof(struct gpu_nvml_memory, total_bytes), offsetof(nvmlMemory_t, total));
SAME(offsetof(struct gpu_nvml_memory, total_bytes), offsetof(nvmlBAR1Memory_t, bar1Total));
SAME(sizeof(struct gpu_nvml_field), sizeof(nvmlFieldValue_t));
SAME(offsetof(struct gpu_nvml_field, scope), offsetof(nvmlFieldValue_t, scopeId));
SAME(offsetof(struct gpu_nvml_field, result), offsetof(nvmlFieldValue_t, nvmlReturn));
SAME(offsetof(struct gpu_nvml_field, value), offsetof(nvmlFieldValue_t, value));
#define NVML_SIGNATURE(must, member, symbol, arguments) SAME(sizeof((int(*) arguments) & symbol), sizeof(void *));
GPU_NVML_SYMBOLS(NVML_SIGNATURE)
#endif

/* The names that cuda.h's macros make of the plain ones. */
static void symbols_are_those_that_cuda_h_means(void **state)
{
#if HAVE_CUDA
#define TEXT(name)    #name
#define TEXT_OF(name) TEXT(name)
	static const struct {
		const char *plain, *meant;
	} names[] = {
		{ "cuDevicePrimaryCtxRelease_v2", TEXT_OF(cuDevicePrimaryCtxRelease) },
		{ "cuStreamDestroy_v2", TEXT_OF(cuStreamDestroy) },
		{ "cuEventDestroy_v2", TEXT_OF(cuEventDestroy) },
		{ "cuMemAlloc_v2", TEXT_OF(cuMemAlloc) },
		{ "cuMemFree_v2", TEXT_OF(cuMemFree) },
		{ "cuMemHostRegister_v2", TEXT_OF(cuMemHostRegister) },
		{ "cuMemHostGetDevicePointer_v2", TEXT_OF(cuMemHostGetDevicePointer) },
		{ "cuMemsetD8_v2", TEXT_OF(cuMemsetD8) },
		{ "cuMemcpyHtoDAsync_v2", TEXT_OF(cuMemcpyHtoDAsync) },
		{ "cuMemcpyDtoHAsync_v2", TEXT_OF(cuMemcpyDtoHAsync) },
		{ "cuMemcpyDtoH_v2", TEXT_OF(cuMemcpyDtoH) },
		/* These have one version; a later header that prefers another must be looked at. */
		{ "cuCtxSetCurrent", TEXT_OF(cuCtxSetCurrent) },
		{ "cuDevicePrimaryCtxRetain", TEXT_OF(cuDevicePrimaryCtxRetain) },
		{ "cuDeviceGetPCIBusId", TEXT_OF(cuDeviceGetPCIBusId) },
		{ "cuStreamCreate", TEXT_OF(cuStreamCreate) },
		{ "cuStreamWaitEvent", TEXT_OF(cuStreamWaitEvent) },
		{ "cuEventRecord", TEXT_OF(cuEventRecord) },
		{ "cuMemHostAlloc", TEXT_OF(cuMemHostAlloc) },
		{ "cuMemcpyAsync", TEXT_OF(cuMemcpyAsync) },
		{ "cuMemcpyPeerAsync", TEXT_OF(cuMemcpyPeerAsync) },
		{ "cuLaunchKernel", TEXT_OF(cuLaunchKernel) },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_string_equal(names[i].plain, names[i].meant);
	assert_true(CUDA_VERSION >= 11000);
#else
	(void)state;
	printf("skipped: no cuda.h in /usr/local/cuda/include or where the compiler looks\n");
	skip();
#endif
}

static void structs_are_those_of_nvml_h(void **state)
{
	(void)state;
#if HAVE_NVML
	assert_int_equal(sizeof(struct gpu_nvml_pci), sizeof(nvmlPciInfo_t));
#else
	printf("skipped: no nvml.h in /usr/local/cuda/include or where the compiler looks\n");
	skip();
#endif
}

/* What holds without any header. */
static void structs_have_no_holes_that_nvml_has_not(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct gpu_nvml_pci), 68);
	assert_int_equal(sizeof(struct gpu_nvml_memory), 24);
	assert_int_equal(sizeof(struct gpu_nvml_field), 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbols_are_those_that_cuda_h_means),
		cmocka_unit_test(structs_are_those_of_nvml_h),
		cmocka_unit_test(structs_have_no_holes_that_nvml_has_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
