/* NVML's answers, as lines of text: what a capture keeps of them, and what the graph is built from. One thread. */
#ifndef TRIBUTARY_DISCOVER_NVML_H
#define TRIBUTARY_DISCOVER_NVML_H

#include "base/log.h"
#include "gpu/inventory.h"

#include <stddef.h>

/* -ENODEV: there is no NVML here, or it does not start. *ret is malloc'ed and NUL-terminated; the caller frees it. */
int discover_nvml_ask(void *unused, char **ret, size_t *ret_bytes);

int discover_nvml_write(const struct gpu_inventory *inventory, char **ret, size_t *ret_bytes);
/* -EINVAL: not such text, line and reason in *diag. On success the caller ends it with gpu_inventory_fini. */
int discover_nvml_read(const char *text, size_t bytes, struct gpu_inventory *ret, struct diag *diag);

#endif
