/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a host's GPUs are joined with its network cards, as a number that hosts of one kind have in common. NCCL (2.28, 2.30) takes
 * the heads of collnet and the beginnings of its chains host by host; with several cards a chain may begin at a GPU that is no
 * head, or at another head than on other hosts, where hosts are unlike: NCCL does not check it, and hangs.
 *
 * Threads: any. errno is kept.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_WIRING_H
#define TRIBUTARY_PLUGIN_STEER_WIRING_H

#include <stddef.h>
#include <stdint.h>

/* With one card, or one GPU, all channels have one head. */
enum { WIRING_UNKNOWN, WIRING_ONE_HEAD, WIRING_OTHERS };

/*
 * root: "", or a folder that has a machine's sys/. gpus: PCI addresses of a communicator's GPUs on this host, in any order that is
 * the same on hosts of one kind; none: WIRING_UNKNOWN. cards: folders of sysfs as "/sys/devices/...", or NULL.
 */
uint64_t wiring_number(const char *root, const char *const *gpus, size_t gpu_count, const char *const *cards,
		       size_t card_count);

#endif
