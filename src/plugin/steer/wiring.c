/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/wiring.h"

#include "base/hash.h"
#include "base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 16, HOST_BRIDGES = 3 }; /* "/sys/devices/pci0000:17": what is below it shares a bridge */

/* "" when there is none. */
static void folder_of_gpu(const char *root, const char *bus_id, char ret[static PATH_MAX])
{
	char path[PATH_MAX], real_root[PATH_MAX] = "";
	size_t root_bytes;
	int bytes = snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s", root, bus_id);

	if (bytes < 0 || (size_t)bytes >= sizeof(path) || !realpath(path, ret) ||
	    (root[0] && !realpath(root, real_root)) || strncmp(ret, real_root, strlen(real_root)) != 0) {
		ret[0] = '\0';
		return;
	}
	root_bytes = strlen(real_root);
	memmove(ret, ret + root_bytes, strlen(ret) + 1 - root_bytes);
}

static void numa_of(const char *root, const char *folder, char ret[static NUMBER_BYTES])
{
	char path[PATH_MAX];
	int bytes = snprintf(path, sizeof(path), "%s%s/numa_node", root, folder);

	ret[0] = '\0';
	if (bytes > 0 && (size_t)bytes < sizeof(path) && text_file_value(AT_FDCWD, path, ret, NUMBER_BYTES) < 0)
		ret[0] = '\0';
}

static unsigned slashes(const char *text)
{
	unsigned count = 0;

	for (; *text; text++)
		count += *text == '/';
	return count;
}

/* 0: not known; 1: another NUMA node; 2: the same; more: the bridges between them, where one is above both. */
static uint64_t way(const char *root, const char *gpu, const char *card)
{
	char of_gpu[NUMBER_BYTES], of_card[NUMBER_BYTES];
	unsigned shared = 0;

	if (!gpu[0] || !card)
		return 0;
	for (size_t i = 0; gpu[i] && gpu[i] == card[i]; i++)
		shared += gpu[i] == '/';
	if (shared > HOST_BRIDGES + 1)
		return 2 + slashes(gpu) + slashes(card) - 2 * (shared - 1);
	numa_of(root, gpu, of_gpu);
	numa_of(root, card, of_card);
	return strcmp(of_gpu, of_card) == 0 ? 2 : 1;
}

uint64_t wiring_number(const char *root, const char *const *gpus, size_t gpu_count, const char *const *cards,
		       size_t card_count)
{
	uint64_t hash = hash_step(hash_step(HASH_START, gpu_count), card_count);
	char folder[PATH_MAX];
	int saved_errno = errno;

	if (card_count < 2)
		return WIRING_ONE_HEAD;
	if (gpu_count < 2)
		return gpu_count ? WIRING_ONE_HEAD : WIRING_UNKNOWN;
	for (size_t i = 0; i < gpu_count; i++) {
		folder_of_gpu(root, gpus[i], folder);
		for (size_t k = 0; k < card_count; k++)
			hash = hash_step(hash, way(root, folder, cards[k]));
	}
	errno = saved_errno;
	return hash < WIRING_OTHERS ? WIRING_OTHERS : hash;
}
