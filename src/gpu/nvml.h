/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML, opened at run time: one table of the functions we use. Nothing is loaded before gpu_nvml_open, and building needs
 * no NVIDIA header. gpu/inventory.h turns what it says into facts; few need this table itself.
 *
 * All functions of the table return an nvmlReturn_t as int. Any thread.
 */
#ifndef TRIBUTARY_GPU_NVML_H
#define TRIBUTARY_GPU_NVML_H

#include <stddef.h>
#include <stdint.h>

struct diag;

struct gpu_nvml_device; /* nvmlDevice_t is a pointer to it */

enum gpu_nvml_result {
	GPU_NVML_OK = 0,
	GPU_NVML_INVALID_ARGUMENT = 2,
	GPU_NVML_NOT_SUPPORTED = 3,
	GPU_NVML_NO_PERMISSION = 4,
	GPU_NVML_NOT_FOUND = 6,
	GPU_NVML_INSUFFICIENT_SIZE = 7,
	GPU_NVML_DRIVER_NOT_LOADED = 9,
	GPU_NVML_VERSION_MISMATCH = 18,
};

/* nvmlGpuP2PStatus_t: why two GPUs have no P2P. The same numbers. */
enum gpu_nvml_p2p {
	GPU_NVML_P2P_OK,
	GPU_NVML_P2P_CHIPSET, /* the chipset does not allow it */
	GPU_NVML_P2P_GPU,     /* the GPU cannot */
	GPU_NVML_P2P_IOH,     /* the way between two host bridges does not allow it */
	GPU_NVML_P2P_REGKEY,  /* switched off by a driver setting */
	GPU_NVML_P2P_NOT_SUPPORTED,
	GPU_NVML_P2P_UNKNOWN,
	GPU_NVML_P2P_COUNT
};
enum gpu_nvml_p2p_index { GPU_NVML_P2P_READ = 0, GPU_NVML_P2P_WRITE = 1, GPU_NVML_P2P_NVLINK = 2 };

enum gpu_nvml_remote { GPU_NVML_REMOTE_GPU = 0, GPU_NVML_REMOTE_NPU = 1, GPU_NVML_REMOTE_SWITCH = 2 };

enum {
	GPU_NVML_NAME_BYTES = 96,
	GPU_NVML_VERSION_BYTES = 80,
	GPU_NVML_FIELD_NVLINK_SPEED = 164, /* MB/s of the link that scope names */
};

struct gpu_nvml_pci { /* nvmlPciInfo_t since CUDA 10 */
	char bus_id_legacy[16];
	unsigned domain, bus, device;
	unsigned device_id, subsystem_id; /* device or subsystem in the high half, vendor in the low one */
	char bus_id[32];
};

struct gpu_nvml_memory {                               /* nvmlMemory_t and nvmlBAR1Memory_t */
	unsigned long long total_bytes, second, third; /* the two differ in the order of free and used */
};

struct gpu_nvml_field { /* nvmlFieldValue_t */
	unsigned field, scope;
	long long timestamp_us, latency_us;
	unsigned value_type;
	int result;
	union {
		double real;
		unsigned u32;
		unsigned long long u64;
	} value;
};

struct gpu_nvml_process { /* nvmlProcessInfo_v2_t */
	unsigned pid;
	unsigned long long memory_bytes;
	unsigned gpu_instance, compute_instance;
};

#define GPU_NVML_MUST 1
#define GPU_NVML_MAY  0 /* younger than the oldest driver we know; NULL in the table when it is missing */

/* X(must, member, symbol, arguments) */
#define GPU_NVML_SYMBOLS(X)                                                                                          \
	X(GPU_NVML_MUST, init, nvmlInit_v2, (void))                                                                  \
	X(GPU_NVML_MUST, shutdown, nvmlShutdown, (void))                                                             \
	X(GPU_NVML_MUST, get_driver_version, nvmlSystemGetDriverVersion, (char *ret, unsigned bytes))                \
	X(GPU_NVML_MUST, get_count, nvmlDeviceGetCount_v2, (unsigned *ret))                                          \
	X(GPU_NVML_MUST, get_handle, nvmlDeviceGetHandleByIndex_v2, (unsigned index, struct gpu_nvml_device **ret))  \
	X(GPU_NVML_MUST, get_name, nvmlDeviceGetName, (struct gpu_nvml_device * device, char *ret, unsigned bytes))  \
	X(GPU_NVML_MUST, get_pci, nvmlDeviceGetPciInfo_v3,                                                           \
	  (struct gpu_nvml_device * device, struct gpu_nvml_pci * ret))                                              \
	X(GPU_NVML_MUST, get_memory, nvmlDeviceGetMemoryInfo,                                                        \
	  (struct gpu_nvml_device * device, struct gpu_nvml_memory * ret))                                           \
	X(GPU_NVML_MAY, get_bar1, nvmlDeviceGetBAR1MemoryInfo,                                                       \
	  (struct gpu_nvml_device * device, struct gpu_nvml_memory * ret))                                           \
	X(GPU_NVML_MAY, get_capability, nvmlDeviceGetCudaComputeCapability,                                          \
	  (struct gpu_nvml_device * device, int *ret_major, int *ret_minor))                                         \
	X(GPU_NVML_MAY, get_generation, nvmlDeviceGetCurrPcieLinkGeneration,                                         \
	  (struct gpu_nvml_device * device, unsigned *ret))                                                          \
	X(GPU_NVML_MAY, get_lanes, nvmlDeviceGetCurrPcieLinkWidth, (struct gpu_nvml_device * device, unsigned *ret)) \
	X(GPU_NVML_MAY, get_most_generation, nvmlDeviceGetMaxPcieLinkGeneration,                                     \
	  (struct gpu_nvml_device * device, unsigned *ret))                                                          \
	X(GPU_NVML_MAY, get_most_lanes, nvmlDeviceGetMaxPcieLinkWidth,                                               \
	  (struct gpu_nvml_device * device, unsigned *ret))                                                          \
	X(GPU_NVML_MAY, get_p2p_status, nvmlDeviceGetP2PStatus,                                                      \
	  (struct gpu_nvml_device * device, struct gpu_nvml_device * peer, int index, int *ret))                     \
	X(GPU_NVML_MAY, get_nvlink_state, nvmlDeviceGetNvLinkState,                                                  \
	  (struct gpu_nvml_device * device, unsigned link, int *ret_active))                                         \
	X(GPU_NVML_MAY, get_nvlink_version, nvmlDeviceGetNvLinkVersion,                                              \
	  (struct gpu_nvml_device * device, unsigned link, unsigned *ret))                                           \
	X(GPU_NVML_MAY, get_nvlink_remote_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2,                                  \
	  (struct gpu_nvml_device * device, unsigned link, struct gpu_nvml_pci *ret))                                \
	X(GPU_NVML_MAY, get_nvlink_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType,                                 \
	  (struct gpu_nvml_device * device, unsigned link, int *ret))                                                \
	X(GPU_NVML_MAY, get_fields, nvmlDeviceGetFieldValues,                                                        \
	  (struct gpu_nvml_device * device, int count, struct gpu_nvml_field *fields))                               \
	X(GPU_NVML_MAY, get_compute_processes, nvmlDeviceGetComputeRunningProcesses_v3,                              \
	  (struct gpu_nvml_device * device, unsigned *count, struct gpu_nvml_process *ret))                          \
	X(GPU_NVML_MAY, get_mig_mode, nvmlDeviceGetMigMode,                                                          \
	  (struct gpu_nvml_device * device, unsigned *ret_now, unsigned *ret_pending))                               \
	X(GPU_NVML_MAY, get_mig_count, nvmlDeviceGetMaxMigDeviceCount,                                               \
	  (struct gpu_nvml_device * device, unsigned *ret))                                                          \
	X(GPU_NVML_MAY, get_mig_handle, nvmlDeviceGetMigDeviceHandleByIndex,                                         \
	  (struct gpu_nvml_device * device, unsigned index, struct gpu_nvml_device **ret))                           \
	X(GPU_NVML_MAY, get_gpu_instance, nvmlDeviceGetGpuInstanceId,                                                \
	  (struct gpu_nvml_device * device, unsigned *ret))                                                          \
	X(GPU_NVML_MAY, get_compute_instance, nvmlDeviceGetComputeInstanceId,                                        \
	  (struct gpu_nvml_device * device, unsigned *ret))

struct gpu_nvml {
	/* Apart from the list: the only one that returns no code. NULL: not there. */
	const char *(*error_string)(int result);
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define GPU_NVML_MEMBER(must, member, symbol, arguments) int(*member) arguments;
	GPU_NVML_SYMBOLS(GPU_NVML_MEMBER)
#undef GPU_NVML_MEMBER
};

/*
 * The table, after nvmlInit: the library is loaded once in the process. Every success is paired with gpu_nvml_close. The
 * errors are those of gpu_cuda_open.
 */
int gpu_nvml_open(const struct gpu_nvml **ret, struct diag *diag);
void gpu_nvml_close(const struct gpu_nvml *nvml);

/* NVML's sentence for it; never NULL. */
const char *gpu_nvml_error_string(const struct gpu_nvml *nvml, int result);

/* Tests only, as gpu_cuda_set_table. */
void gpu_nvml_set_table(const struct gpu_nvml *table);

#endif
