/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, opened at run time: one table of the functions we use. Nothing is loaded before gpu_cuda_open. Building
 * needs no CUDA header: what we need of cuda.h is declared here, under our own names, and a test compares it with the
 * real header where there is one.
 *
 * All functions of the table return a CUresult as int: 0, or an error that gpu_cuda_error_name names. Threads: as CUDA
 * has it; gpu_cuda_open from any thread.
 */
#ifndef TRIBUTARY_GPU_CUDA_H
#define TRIBUTARY_GPU_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct diag;

struct gpu_cuda_context; /* CUcontext, and so on, are pointers to these */
struct gpu_cuda_stream;
struct gpu_cuda_event;
struct gpu_cuda_module;
struct gpu_cuda_function;

enum gpu_cuda_result {
	GPU_CUDA_OK = 0,
	GPU_CUDA_OUT_OF_MEMORY = 2,
	GPU_CUDA_STUB_LIBRARY = 34,
	GPU_CUDA_NO_DEVICE = 100,
	GPU_CUDA_NOT_READY = 600,
	GPU_CUDA_PEER_ACCESS_ALREADY_ENABLED = 704,
	GPU_CUDA_PEER_ACCESS_NOT_ENABLED = 705,
	GPU_CUDA_TOO_MANY_PEERS = 711,
	GPU_CUDA_NOT_SUPPORTED = 801,
	GPU_CUDA_DRIVER_MISMATCH = 803,
};

enum gpu_cuda_attribute {
	GPU_CUDA_MULTIPROCESSORS = 16,
	GPU_CUDA_CAN_MAP_HOST_MEMORY = 19,
	GPU_CUDA_COPY_ENGINES = 40,
	GPU_CUDA_UNIFIED_ADDRESSING = 41,
	GPU_CUDA_CAPABILITY_MAJOR = 75,
	GPU_CUDA_CAPABILITY_MINOR = 76,
};

enum {
	GPU_CUDA_STREAM_NON_BLOCKING = 1, /* cuStreamCreate: does not wait for the default stream */
	GPU_CUDA_EVENT_NO_TIMING = 2,     /* cuEventCreate */
	GPU_CUDA_HOST_PORTABLE = 1,       /* cuMemHostAlloc, cuMemHostRegister: pinned for all contexts */
	GPU_CUDA_HOST_DEVICE_MAP = 2,     /* both: also mapped into the GPUs' addresses */
	GPU_CUDA_BUS_ID_BYTES = 32,
	GPU_CUDA_HANDLE_DMABUF = 1, /* cuMemGetHandleForAddressRange: *ret is a descriptor, an int */
};

/*
 * X(member, symbol, arguments). The symbols are those that cuda.h's macros make of the plain names, of CUDA 11; later
 * headers prefer a later cuEventElapsedTime, which older drivers lack.
 */
#define GPU_CUDA_SYMBOLS(X)                                                                                          \
	X(init, cuInit, (unsigned flags))                                                                            \
	X(get_error_name, cuGetErrorName, (int result, const char **ret))                                            \
	X(driver_get_version, cuDriverGetVersion, (int *ret))                                                        \
	X(device_get, cuDeviceGet, (int *ret, int ordinal))                                                          \
	X(device_get_count, cuDeviceGetCount, (int *ret))                                                            \
	X(device_get_pci_bus_id, cuDeviceGetPCIBusId, (char *ret, int bytes, int device))                            \
	X(device_get_by_pci_bus_id, cuDeviceGetByPCIBusId, (int *ret, const char *bus_id))                           \
	X(device_get_attribute, cuDeviceGetAttribute, (int *ret, int attribute, int device))                         \
	X(device_can_access_peer, cuDeviceCanAccessPeer, (int *ret, int device, int peer))                           \
	X(primary_retain, cuDevicePrimaryCtxRetain, (struct gpu_cuda_context * *ret, int device))                    \
	X(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                                               \
	X(ctx_set_current, cuCtxSetCurrent, (struct gpu_cuda_context * context))                                     \
	X(ctx_synchronize, cuCtxSynchronize, (void))                                                                 \
	X(ctx_enable_peer_access, cuCtxEnablePeerAccess, (struct gpu_cuda_context * peer, unsigned flags))           \
	X(ctx_disable_peer_access, cuCtxDisablePeerAccess, (struct gpu_cuda_context * peer))                         \
	X(stream_create, cuStreamCreate, (struct gpu_cuda_stream * *ret, unsigned flags))                            \
	X(stream_destroy, cuStreamDestroy_v2, (struct gpu_cuda_stream * stream))                                     \
	X(stream_synchronize, cuStreamSynchronize, (struct gpu_cuda_stream * stream))                                \
	X(stream_wait_event, cuStreamWaitEvent,                                                                      \
	  (struct gpu_cuda_stream * stream, struct gpu_cuda_event * event, unsigned flags))                          \
	X(event_create, cuEventCreate, (struct gpu_cuda_event * *ret, unsigned flags))                               \
	X(event_destroy, cuEventDestroy_v2, (struct gpu_cuda_event * event))                                         \
	X(event_record, cuEventRecord, (struct gpu_cuda_event * event, struct gpu_cuda_stream * stream))             \
	X(event_query, cuEventQuery, (struct gpu_cuda_event * event))                                                \
	X(event_elapsed_time, cuEventElapsedTime,                                                                    \
	  (float *ret_ms, struct gpu_cuda_event *start, struct gpu_cuda_event *end))                                 \
	X(mem_alloc, cuMemAlloc_v2, (uint64_t * ret, size_t bytes))                                                  \
	X(mem_free, cuMemFree_v2, (uint64_t address))                                                                \
	X(mem_host_alloc, cuMemHostAlloc, (void **ret, size_t bytes, unsigned flags))                                \
	X(mem_free_host, cuMemFreeHost, (void *memory))                                                              \
	X(mem_host_register, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                     \
	X(mem_host_unregister, cuMemHostUnregister, (void *memory))                                                  \
	X(mem_host_get_device_pointer, cuMemHostGetDevicePointer_v2, (uint64_t * ret, void *memory, unsigned flags)) \
	X(memset_d8, cuMemsetD8_v2, (uint64_t to, unsigned char value, size_t bytes))                                \
	X(memcpy_async, cuMemcpyAsync, (uint64_t to, uint64_t from, size_t bytes, struct gpu_cuda_stream * stream))  \
	X(memcpy_htod_async, cuMemcpyHtoDAsync_v2,                                                                   \
	  (uint64_t to, const void *from, size_t bytes, struct gpu_cuda_stream *stream))                             \
	X(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2,                                                                   \
	  (void *to, uint64_t from, size_t bytes, struct gpu_cuda_stream *stream))                                   \
	X(memcpy_dtoh, cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes))                                     \
	X(memcpy_peer_async, cuMemcpyPeerAsync,                                                                      \
	  (uint64_t to, struct gpu_cuda_context * to_context, uint64_t from, struct gpu_cuda_context * from_context, \
	   size_t bytes, struct gpu_cuda_stream * stream))                                                           \
	X(module_load_data, cuModuleLoadData, (struct gpu_cuda_module * *ret, const void *image))                    \
	X(module_unload, cuModuleUnload, (struct gpu_cuda_module * module))                                          \
	X(module_get_function, cuModuleGetFunction,                                                                  \
	  (struct gpu_cuda_function * *ret, struct gpu_cuda_module * module, const char *name))                      \
	X(launch_kernel, cuLaunchKernel,                                                                             \
	  (struct gpu_cuda_function * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
	   unsigned block_y, unsigned block_z, unsigned shared_bytes, struct gpu_cuda_stream *stream,                \
	   void **parameters, void **extra))

struct gpu_cuda {
	/* Apart from the list: drivers before 11.7 have it not; NULL then. In whole pages of the host. */
	int (*mem_get_handle_for_range)(void *ret, uint64_t address, size_t bytes, int kind, unsigned long long flags);
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define GPU_CUDA_MEMBER(member, symbol, arguments) int(*member) arguments;
	GPU_CUDA_SYMBOLS(GPU_CUDA_MEMBER)
#undef GPU_CUDA_MEMBER
};

/*
 * The table, after cuInit: loaded once in the process, whoever asks first. -ENODEV: no driver or no GPU; -ENOSYS: the
 * driver is too old. The reason, a plain sentence, is in *diag (which may be NULL).
 */
int gpu_cuda_open(const struct gpu_cuda **ret, struct diag *diag);

/* "CUDA_ERROR_OUT_OF_MEMORY"; a number that the driver does not know has a text of its own. Never NULL. */
const char *gpu_cuda_error_name(const struct gpu_cuda *cuda, int result);

/* Tests only: from now on gpu_cuda_open hands out this table. NULL: the real driver again. */
void gpu_cuda_set_table(const struct gpu_cuda *table);

#endif
