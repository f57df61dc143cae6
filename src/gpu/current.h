/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPU is current on this thread, from the CUDA driver that the process has already loaded and started. It needs
 * three of its functions and nothing else. Any thread; errno is kept.
 */
#ifndef TRIBUTARY_GPU_CURRENT_H
#define TRIBUTARY_GPU_CURRENT_H

#include <stddef.h>

struct diag;

enum { GPU_CURRENT_BUS_ID_BYTES = 24 };

/* "0000:17:00.0", lower case, as sysfs has it. Why not in *diag: -ENODEV: no driver; -ENOENT: none is current. */
int gpu_current_bus_id(char ret[static GPU_CURRENT_BUS_ID_BYTES], struct diag *diag);

/* The driver's functions, as gpu_current takes them. */
struct gpu_current_driver {
	int (*ctx_get_device)(int *ret);
	int (*device_get_pci_bus_id)(char *ret, int bytes, int device);
};
/* Tests only: from now on these. NULL: the real driver again. */
void gpu_current_set_driver(const struct gpu_current_driver *driver);

#endif
