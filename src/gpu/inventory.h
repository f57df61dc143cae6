/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NVML says of the GPUs of this machine, as plain facts: no serial number and no UUID is read. Any thread.
 */
#ifndef TRIBUTARY_GPU_INVENTORY_H
#define TRIBUTARY_GPU_INVENTORY_H

#include "gpu/nvml.h"

#include <stdbool.h>

enum {
	GPU_INVENTORY_BUS_ID_BYTES = 20, /* "0000:17:00.0", lower case; a domain may have up to eight digits */
	GPU_INVENTORY_NVLINKS_MAX = 36,  /* more than any GPU has: NVML says where they end */
};

struct gpu_inventory_nvlink {
	unsigned link;                                  /* NVML's number */
	bool active;                                    /* trained */
	unsigned version;                               /* of NVLink; 0: not known */
	uint64_t rate_Bps;                              /* each direction; 0: not known */
	int remote;                                     /* enum gpu_nvml_remote; -1: not known */
	char remote_bus_id[GPU_INVENTORY_BUS_ID_BYTES]; /* "" not known; an NVSwitch may be hidden from a guest */
};

struct gpu_inventory_slice {                /* of a GPU in MIG mode */
	unsigned index;                     /* NVML's, below the parent's most */
	int gpu_instance, compute_instance; /* -1: not known */
	char name[GPU_NVML_NAME_BYTES];
	uint64_t memory_bytes;
};

struct gpu_inventory_device {
	unsigned index; /* NVML's, which NCCL calls dev */
	char bus_id[GPU_INVENTORY_BUS_ID_BYTES];
	char name[GPU_NVML_NAME_BYTES];
	unsigned pci_device_id, pci_subsystem_id; /* device in the high half, vendor in the low one */
	int sm;                                   /* compute capability × 10: 86; 0: not known */
	unsigned generation, lanes;               /* of the PCIe link now (an idle GPU trains down); 0: not known */
	unsigned most_generation, most_lanes;
	uint64_t memory_bytes, bar1_bytes; /* 0: not known */
	bool mig;                          /* in MIG mode */
	struct gpu_inventory_slice *slices;
	size_t slice_count;
	struct gpu_inventory_nvlink nvlinks[GPU_INVENTORY_NVLINKS_MAX];
	size_t nvlink_count;
};

struct gpu_inventory {
	char driver[GPU_NVML_VERSION_BYTES]; /* "550.54.15" */
	struct gpu_inventory_device *devices;
	size_t device_count;
	uint8_t *p2p; /* enum gpu_nvml_p2p, [from × device_count + to]: the worse of reading and writing */
};

/*
 * What one GPU refuses to say stays "not known"; a GPU that is lost is left out. -ENOMEM; -EIO: NVML does not say how many
 * GPUs there are. On success the caller ends it with gpu_inventory_fini.
 */
int gpu_inventory_read(const struct gpu_nvml *nvml, struct gpu_inventory *ret, struct diag *diag);
void gpu_inventory_fini(struct gpu_inventory *inventory);

/* Of two indices into devices: GPU_NVML_P2P_UNKNOWN when out of range. */
enum gpu_nvml_p2p gpu_inventory_p2p(const struct gpu_inventory *inventory, size_t from, size_t to);

/* A word for enum gpu_nvml_p2p: "works", "chipset", "gpu", "bridges", "setting", "unsupported", "unknown". */
const char *gpu_inventory_p2p_word(enum gpu_nvml_p2p status);

#endif
