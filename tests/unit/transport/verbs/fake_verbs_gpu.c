/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/transport/verbs/fake_verbs_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GPUS = 64 };

static struct fake_verbs_gpu gpus[GPUS]; /* outlive a fake: a test frees what it made */

struct fake_verbs_gpu fake_verbs_gpu_new(size_t bytes)
{
	struct fake_verbs_gpu gpu = { .bytes = (bytes + 4095) / 4096 * 4096 };

	gpu.fd = memfd_create("gpu", MFD_CLOEXEC);
	if (gpu.fd < 0 || ftruncate(gpu.fd, (off_t)gpu.bytes) < 0)
		abort();
	gpu.view = mmap(NULL, gpu.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, gpu.fd, 0);
	gpu.address = mmap(NULL, gpu.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (gpu.view == MAP_FAILED || gpu.address == MAP_FAILED)
		abort();
	pthread_mutex_lock(&fake_lock);
	for (unsigned i = 0; i <= GPUS; i++) {
		if (i == GPUS)
			abort();
		if (gpus[i].address)
			continue;
		gpus[i] = gpu;
		break;
	}
	pthread_mutex_unlock(&fake_lock);
	return gpu;
}

void fake_verbs_gpu_free(struct fake_verbs_gpu *gpu)
{
	pthread_mutex_lock(&fake_lock);
	fake_catch_up(NULL);
	for (unsigned i = 0; i < GPUS; i++)
		if (gpus[i].address == gpu->address)
			memset(&gpus[i], 0, sizeof(gpus[i]));
	pthread_mutex_unlock(&fake_lock);
	munmap(gpu->address, gpu->bytes);
	munmap(gpu->view, gpu->bytes);
	close(gpu->fd);
	memset(gpu, 0, sizeof(*gpu));
}

static const struct fake_verbs_gpu *find(uint64_t address)
{
	for (unsigned i = 0; i < GPUS; i++)
		if (gpus[i].address && address - (uintptr_t)gpus[i].address < gpus[i].bytes)
			return &gpus[i];
	return NULL;
}

/* Also another descriptor of it, as a driver hands out one each time. */
static bool is_its(const struct fake_verbs_gpu *gpu, int fd)
{
	struct stat own, asked;

	return fstat(gpu->fd, &own) == 0 && fstat(fd, &asked) == 0 && own.st_dev == asked.st_dev &&
	       own.st_ino == asked.st_ino;
}

bool fake_gpu_has(const void *data, size_t bytes, int fd, uint64_t offset)
{
	const struct fake_verbs_gpu *gpu = find((uintptr_t)data);
	size_t at;

	if (!gpu)
		return false;
	at = (size_t)((const uint8_t *)data - gpu->address);
	return bytes <= gpu->bytes - at && (fd < 0 || (is_its(gpu, fd) && offset == at));
}

void fake_catch_up(const struct fake_device *device)
{
	struct fake_late **link = &fake.late;

	while (*link) {
		struct fake_late *late = *link;

		if (device && late->device != device) {
			link = &late->next;
			continue;
		}
		memcpy(late->to, late->data, late->bytes);
		*link = late->next;
		free(late);
	}
	fake.late_end = link;
}

void fake_write(const struct fake_device *device, uint64_t to, const void *from, uint32_t bytes)
{
	const struct fake_verbs_gpu *gpu = find(to);
	struct fake_late *late;

	if (!gpu) {
		memcpy((void *)(uintptr_t)to, from, bytes);
		return;
	}
	late = malloc(sizeof(*late) + bytes);
	if (!late)
		abort();
	late->next = NULL;
	late->device = device;
	late->to = gpu->view + (to - (uintptr_t)gpu->address);
	late->bytes = bytes;
	memcpy(late->data, from, bytes);
	*fake.late_end = late;
	fake.late_end = &late->next;
}

void fake_read(const struct fake_device *device, void *to, uint64_t from, uint32_t bytes)
{
	const struct fake_verbs_gpu *gpu = find(from);

	if (gpu)
		fake_catch_up(device);
	memcpy(to, gpu ? gpu->view + (from - (uintptr_t)gpu->address) : (const uint8_t *)(uintptr_t)from, bytes);
}
