/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/operations.h"

#include "base/sys.h"
#include "plugin/steer/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Its blocks are reserved: a write to a page that a full /dev/shm cannot give would be SIGBUS. */
static struct operations *map_file(const struct steer_registry *registry)
{
	char name[STEER_FOLDER_NAME_BYTES];
	void *memory = MAP_FAILED;
	int fd;

	if (!registry->own)
		return NULL;
	steer_folder_name('o', registry->id, name);
	fd = steer_folder_make(registry->directory, name, sizeof(struct operations));
	if (fd < 0)
		return NULL;
	if (ftruncate(fd, (off_t)sizeof(struct operations)) == 0)
		memory = mmap(NULL, sizeof(struct operations), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		unlinkat(registry->directory, name, 0);
	sys_close(&fd);
	return memory == MAP_FAILED ? NULL : memory;
}

struct operations *steer_operations_make(const struct steer_registry *registry)
{
	struct operations *operations = map_file(registry);

	if (!operations)
		operations = sys_map_pages(sizeof(*operations));
	if (operations)
		atomic_store_explicit(&operations->magic, OPERATIONS_MAGIC, memory_order_release);
	return operations;
}

int steer_operations_read(int directory, const char *id, struct operations *ret)
{
	char name[STEER_FOLDER_NAME_BYTES];
	int fd, r;

	steer_folder_name('o', id, name);
	fd = sys_openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	r = sys_pread_whole(fd, ret, sizeof(*ret), 0);
	sys_close(&fd);
	return r == 0 && !operations_is_whole(ret, sizeof(*ret)) ? -EINVAL : r;
}
