#include "discover/discover.h"

#include "discover/archive.h"
#include "discover/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 64 << 20 };

static int read_open(int fd, char **ret, size_t *ret_bytes)
{
	size_t used = 0, room = 0;
	char *data = NULL;
	ssize_t got = 0;

	do {
		if (used == room) {
			size_t more = room ? 2 * room : 65536;
			char *grown = used > FILE_MOST ? NULL : realloc(data, more);

			if (!grown) {
				free(data);
				return used > FILE_MOST ? -EFBIG : -ENOMEM;
			}
			data = grown;
			room = more;
		}
		got = read(fd, data + used, room - used);
		if (got > 0)
			used += (size_t)got;
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0) {
		got = -errno;
		free(data);
		return (int)got;
	}
	*ret = data;
	*ret_bytes = used;
	return 0;
}

static int from_file(const char *path, struct topology *ret, struct discover_facts *ret_facts,
		     enum discover_source *ret_source, struct diag *diag)
{
	char *data = NULL;
	size_t bytes = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), r;

	r = fd < 0 ? -errno : read_open(fd, &data, &bytes);
	if (fd >= 0)
		close(fd);
	if (r < 0) {
		diag_set(diag, 0, 0, "%.150s: %s", path, r == -EFBIG ? "longer than 64 MiB" : strerror(-r));
		return r == -EFBIG ? -EINVAL : r;
	}
	r = discover_bytes(data, bytes, ret, ret_facts, ret_source, diag);
	free(data);
	return r;
}

static int from_here(bool record, struct topology *ret, struct discover_facts *ret_facts,
		     struct discover_root **ret_root, struct diag *diag)
{
	struct discover_root *root;
	int r = discover_root_open("", record, &root);

	if (r < 0) {
		diag_set(diag, 0, 0, "the root folder cannot be opened: %s", strerror(-r));
		return r;
	}
	r = discover_machine(root, ret, ret_facts, diag);
	if (r < 0 || !ret_root)
		discover_root_close(root);
	else
		*ret_root = root;
	return r;
}

int discover(const char *path, struct topology *ret, struct discover_facts *ret_facts, enum discover_source *ret_source,
	     struct diag *diag)
{
	int r;

	if (path)
		return from_file(path, ret, ret_facts, ret_source, diag);
	r = from_here(false, ret, ret_facts, NULL, diag);
	if (!r)
		diag_set(diag, 0, 0, "%s", "");
	if (!r && ret_source)
		*ret_source = DISCOVER_HERE;
	return r;
}

int discover_capture(const char *path, struct diag *diag)
{
	struct discover_facts facts = { 0 };
	struct discover_root *root;
	struct topology topology;
	int r = from_here(true, &topology, &facts, &root, diag);

	if (r < 0)
		return r;
	r = discover_archive_write(path, root, diag);
	discover_facts_fini(&facts);
	topology_fini(&topology);
	discover_root_close(root);
	return r;
}
