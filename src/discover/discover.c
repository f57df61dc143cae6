/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/discover.h"

#include "base/sys.h"
#include "base/text_file.h"
#include "discover/archive.h"
#include "discover/build.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 64 << 20 };

/* XML, an archive, or something of ours: what is wrong with it is said by its reader. */
static bool is_any_form(const char *data, size_t bytes)
{
	static const char ours[] = "tributary-";
	size_t at = 0;

	if (!data)
		return false;
	while (at < bytes && data[at] && strchr(" \t\r\n", data[at]))
		at++;
	return discover_archive_is(data, bytes) || (at < bytes && data[at] == '<') ||
	       memmem(data, bytes < 65536 ? bytes : 65536, ours, sizeof(ours) - 1);
}

static int from_file(const char *path, struct topology *ret, struct discover_facts *ret_facts,
		     enum discover_source *ret_source, struct diag *diag)
{
	static const struct text_file kind = { "machine", FILE_MOST, .stream = true };
	struct diag unsaid;
	char *data = NULL;
	size_t bytes = 0;
	int r = text_file_read(&kind, path, FILE_MOST, &data, &bytes, &unsaid);

	if (r == -EFBIG)
		diag_set(diag, 0, 0, "it is longer than %d MiB", FILE_MOST >> 20);
	else if (r == -EINVAL)
		diag_set(diag, 0, 0, "it is a device, not a file or a pipe");
	if (r < 0)
		return r;
	if (is_any_form(data, bytes)) {
		r = discover_bytes(data, bytes, ret, ret_facts, ret_source, diag);
	} else {
		diag_set(diag, 0, 0,
			 "it is no capture, no XML of hwloc or NCCL, and no text form (which has the line "
			 "tributary-topology 1)");
		r = -EINVAL;
	}
	sys_free(data);
	return r;
}

static bool is_in(const char *folder, const char *name, char path[static PATH_MAX])
{
	struct stat status;

	return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && stat(path, &status) == 0;
}

static int from_folder(const char *path, struct topology *ret, struct discover_facts *ret_facts,
		       enum discover_source *ret_source, struct diag *diag)
{
	struct discover_root *root;
	char file[PATH_MAX];
	int r;

	if (is_in(path, "machine.topology", file))
		return from_file(file, ret, ret_facts, ret_source, diag);
	if (!is_in(path, DISCOVER_ARCHIVE_FIRST, file)) {
		diag_set(diag, 0, 0,
			 "it is a folder, but neither an unpacked capture (" DISCOVER_ARCHIVE_FIRST
			 ") nor one with a machine.topology");
		return -EINVAL;
	}
	r = discover_archive_read_folder(path, &root, diag);
	if (r < 0)
		return r;
	r = discover_machine(root, ret, ret_facts, diag);
	discover_root_close(root);
	if (!r && ret_source)
		*ret_source = DISCOVER_CAPTURE;
	return r;
}

static bool is_folder(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
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

	diag_set(diag, 0, 0, "%s", "");
	if (path && is_folder(path))
		return from_folder(path, ret, ret_facts, ret_source, diag);
	if (path)
		return from_file(path, ret, ret_facts, ret_source, diag);
	r = from_here(false, ret, ret_facts, NULL, diag);
	if (!r && ret_source)
		*ret_source = DISCOVER_HERE;
	return r;
}

int discover_capture(bool packed, FILE *to, struct diag *diag)
{
	struct discover_facts facts = { 0 };
	struct discover_root *root;
	struct topology topology;
	int r = from_here(true, &topology, &facts, &root, diag);

	if (r < 0)
		return r;
	r = discover_archive_write(root, packed, to);
	discover_facts_fini(&facts);
	topology_fini(&topology);
	discover_root_close(root);
	return r;
}
