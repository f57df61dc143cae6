/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/ask.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

/*
 * Components that load a vendor's library or look for a display: slow, and what they know we ask ourselves. "linux" finds
 * the PCI tree in sysfs; "pci" (Debian: libhwloc-plugins) adds the devices' names.
 */
static const char *const unwanted[] = { "opencl", "gl", "cuda", "nvml", "rsmi", "levelzero" };

#if defined(__SANITIZE_ADDRESS__)
#define WATCHES_LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHES_LEAKS 1
#endif
#endif
#ifdef WATCHES_LEAKS
#include <sanitizer/lsan_interface.h>
#else
static void __lsan_disable(void)
{
}
static void __lsan_enable(void)
{
}
#endif

/* libpciaccess, below hwloc's component "pci", keeps its list of devices and is unloaded with it: not for us to free. */
static int load_topology(hwloc_topology_t topology)
{
	int r;

	__lsan_disable();
	r = hwloc_topology_load(topology);
	__lsan_enable();
	return r;
}

static int load(hwloc_topology_t topology)
{
	for (size_t i = 0; i < sizeof(unwanted) / sizeof(unwanted[0]); i++)
		/* One that is not there cannot be kept out; that is as well. */
		(void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
	if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) ||
	    hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) || load_topology(topology))
		return errno ? -errno : -EIO;
	return 0;
}

static int export_text(hwloc_topology_t topology, char **ret, size_t *ret_bytes)
{
	char *xml = NULL, *text;
	int bytes = 0;

	if (hwloc_topology_export_xmlbuffer(topology, &xml, &bytes, 0) || bytes <= 0)
		return errno ? -errno : -EIO;
	text = malloc((size_t)bytes + 1);
	if (text) {
		memcpy(text, xml, (size_t)bytes);
		text[bytes] = '\0';
		*ret = text;
		*ret_bytes = strlen(text); /* hwloc counts the NUL */
	}
	hwloc_free_xmlbuffer(topology, xml);
	return text ? 0 : -ENOMEM;
}

/* hwloc takes a folder by its environment alone. */
static int set_environment(const char *folder)
{
	if (!*folder)
		return 0;
	if (setenv("HWLOC_FSROOT", folder, 1) || setenv("HWLOC_COMPONENTS", "linux,stop", 1))
		return -errno;
	return 0;
}

static void clear_environment(const char *folder)
{
	if (!*folder)
		return;
	unsetenv("HWLOC_FSROOT");
	unsetenv("HWLOC_COMPONENTS");
}

int discover_hwloc_export(const char *folder, char **ret, size_t *ret_bytes, struct diag *diag)
{
	hwloc_topology_t topology;
	int r = set_environment(folder);

	errno = 0;
	if (!r && hwloc_topology_init(&topology))
		r = errno ? -errno : -ENOMEM;
	if (!r) {
		errno = 0;
		r = load(topology);
		if (!r)
			r = export_text(topology, ret, ret_bytes);
		hwloc_topology_destroy(topology);
	}
	clear_environment(folder);
	if (r < 0)
		diag_set(diag, 0, 0, "hwloc cannot read the machine's topology: %s", strerror(-r));
	return r;
}
