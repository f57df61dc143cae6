/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVML in this process, as a table for gpu_nvml_set_table. It says what the test has put into it; one instance.
 */
#ifndef TESTS_UNIT_GPU_FAKE_NVML_H
#define TESTS_UNIT_GPU_FAKE_NVML_H

#include "gpu/nvml.h"

#include <stdbool.h>

enum { FAKE_NVML_DEVICES_MAX = 8, FAKE_NVML_LINKS_MAX = 18, FAKE_NVML_SLICES_MAX = 7, FAKE_NVML_PROCESSES_MAX = 80 };

struct gpu_nvml_device { /* a GPU, or a slice of one */
	bool lost;
	struct gpu_nvml_pci pci;
	const char *name;
	unsigned generation, lanes, most_generation, most_lanes; /* 0: NVML does not say */
	int major, minor;
	uint64_t memory_bytes, bar1_bytes;
	unsigned link_count;
	struct {
		bool absent, active;
		int remote;
		struct gpu_nvml_pci remote_pci;
		unsigned version, speed_MBps;
	} links[FAKE_NVML_LINKS_MAX];
	bool mig;
	struct gpu_nvml_device *slices[FAKE_NVML_SLICES_MAX]; /* NULL: that place is empty */
	unsigned gpu_instance, compute_instance;
	unsigned process_count, processes[FAKE_NVML_PROCESSES_MAX];
};

struct fake_nvml {
	unsigned count;
	struct gpu_nvml_device devices[FAKE_NVML_DEVICES_MAX];
	int p2p[FAKE_NVML_DEVICES_MAX][FAKE_NVML_DEVICES_MAX][2]; /* read, write */
	int init_result, count_result;
	int opened;              /* init less shutdown */
	uint64_t calls, fail_at; /* this call, from 1, fails with 999; 0: none */
};

extern struct fake_nvml fake_nvml;

/* `count` equal GPUs, and the table in place of the library. `old`: without what a driver may lack. */
void fake_nvml_reset(unsigned count, bool old);
void fake_nvml_remove(void);

#endif
