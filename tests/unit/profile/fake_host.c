/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/profile/fake_host.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char fake_host_filled[] = "card 0000:19:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200 "
				"path=0000:16:02.0/0000:17:00.0/0000:18:00.0\n"
				"card 0000:1a:00.0 kind=gpu id=10de:20b5 subsystem=10de:1533 class=030200 "
				"path=0000:16:02.0/0000:17:00.0/0000:18:01.0\n"
				"card 0000:1b:00.0 kind=nic id=15b3:101d subsystem=15b3:0040 class=020700 "
				"path=0000:16:02.0/0000:17:00.0/0000:18:02.0\n"
				"card 0000:1b:00.1 kind=nic id=15b3:101d subsystem=15b3:0040 class=020700 "
				"path=0000:16:02.0/0000:17:00.0/0000:18:02.0\n"
				"cpu vendor=GenuineIntel family=6 model=106 domains=2\n"
				"driver nvidia version=550.54.15\n"
				"link 0000:16:02.0 lanes=16 generation=4\n"
				"link 0000:17:00.0 lanes=16 generation=4\n"
				"link 0000:18:00.0 lanes=16\n"
				"link 0000:18:01.0 lanes=16\n"
				"link 0000:18:02.0 lanes=16 generation=4\n"
				"link 0000:19:00.0 lanes=16 most_generation=4\n"
				"link 0000:1a:00.0 lanes=16 most_generation=4\n"
				"link 0000:1b:00.0 lanes=16 generation=4\n"
				"link 0000:1b:00.1 lanes=16 generation=4\n"
				"port 0000:16:02.0 id=8086:347a class=060400\n"
				"port 0000:17:00.0 id=1000:c010 class=060400\n"
				"port 0000:18:00.0 id=1000:c010 class=060400\n"
				"port 0000:18:01.0 id=1000:c010 class=060400\n"
				"port 0000:18:02.0 id=1000:c010 class=060400\n";

void fake_host_attribute(struct tree *machine, const char *bus, const char *file, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/%s", bus, file);
	tree_text(machine, path, text);
}

static const char *last_part(const char *place)
{
	return strrchr(place, '/') + 1;
}

static void id_files(struct tree *machine, const char *bus, const char *id, const char *vendor, const char *device)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%.4s\n", id);
	fake_host_attribute(machine, bus, vendor, text);
	snprintf(text, sizeof(text), "0x%.4s\n", id + 5);
	fake_host_attribute(machine, bus, device, text);
}

void fake_host_device(struct tree *machine, const char *place, const struct fake_device *device)
{
	const char *bus = last_part(place);
	char path[512], target[600];

	snprintf(path, sizeof(path), "sys/devices/%s/", place);
	tree_parents(machine->fd, path);
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", bus);
	snprintf(target, sizeof(target), "../../../devices/%s", place);
	tree_link(machine, path, target);
	id_files(machine, bus, device->id, "vendor", "device");
	if (device->subsystem)
		id_files(machine, bus, device->subsystem, "subsystem_vendor", "subsystem_device");
	fake_host_attribute(machine, bus, "class", device->class_code);
	if (device->lanes)
		fake_host_attribute(machine, bus, "current_link_width", device->lanes);
	if (device->speed)
		fake_host_attribute(machine, bus, "current_link_speed", device->speed);
	if (device->max_speed)
		fake_host_attribute(machine, bus, "max_link_speed", device->max_speed);
}

void fake_host_unplug(struct tree *machine, const char *place)
{
	char path[512];

	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", last_part(place));
	assert_int_equal(unlinkat(machine->fd, path, 0), 0);
	snprintf(path, sizeof(path), "%s/sys/devices/%s", machine->root, place);
	tree_remove(path);
}

void fake_host_fill(struct tree *machine)
{
#define SWITCH "pci0000:16/0000:16:02.0/0000:17:00.0/"
	static const struct fake_device
		root_port = { "8086:347a", NULL, "0x060400\n", "16\n", "16.0 GT/s PCIe\n", "16.0 GT/s PCIe\n" },
		port = { "1000:c010", NULL, "0x060400\n", "16\n", "16.0 GT/s PCIe\n", "16.0 GT/s PCIe\n" },
		idle_port = { "1000:c010", NULL, "0x060400\n", "16\n", "2.5 GT/s PCIe\n", "16.0 GT/s PCIe\n" },
		gpu = { "10de:20b5", "10de:1533", "0x030200\n", "16\n", "2.5 GT/s PCIe\n", "16.0 GT/s PCIe\n" },
		nic = { "15b3:101d", "15b3:0040", "0x020700\n", "16\n", "16.0 GT/s PCIe\n", "16.0 GT/s PCIe\n" },
		board = { "1a03:2000", "1a03:2000", "0x030000\n", "1\n", "2.5 GT/s PCIe\n", "2.5 GT/s PCIe\n" };

	fake_host_device(machine, "pci0000:16/0000:16:02.0", &root_port);
	fake_host_device(machine, "pci0000:16/0000:16:02.0/0000:17:00.0", &port);
	fake_host_device(machine, SWITCH "0000:18:00.0", &idle_port);
	fake_host_device(machine, SWITCH "0000:18:01.0", &idle_port);
	fake_host_device(machine, SWITCH "0000:18:02.0", &port);
	fake_host_device(machine, SWITCH "0000:18:00.0/0000:19:00.0", &gpu);
	fake_host_device(machine, SWITCH "0000:18:01.0/0000:1a:00.0", &gpu);
	fake_host_device(machine, SWITCH "0000:18:02.0/0000:1b:00.0", &nic);
	fake_host_device(machine, SWITCH "0000:18:02.0/0000:1b:00.1", &nic);
	fake_host_device(machine, "pci0000:00/0000:00:1c.0/0000:03:00.0", &board);
	tree_text(machine, "proc/cpuinfo",
		  "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n"
		  "model name\t: Xeon\nstepping\t: 6\n\nprocessor\t: 1\nmodel\t\t: 9\n");
	tree_text(machine, "sys/devices/system/node/has_cpu", "0-1\n");
	tree_text(machine, "sys/devices/system/node/online", "0-3\n");
	tree_text(machine, "sys/module/nvidia/version", "550.54.15\n");
#undef SWITCH
}

struct fingerprint fake_host_take(const struct tree *machine)
{
	struct fingerprint fingerprint = { 0 };

	errno = ENOTTY;
	assert_int_equal(fingerprint_take(machine->root, &fingerprint), 0);
	assert_int_equal(errno, ENOTTY);
	assert_non_null(fingerprint.text);
	return fingerprint;
}
