/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine in a temporary folder: sys/ and proc/ as fingerprint_take reads them. Every function fails the running test
 * when it cannot do its work. One thread.
 */
#ifndef TRIBUTARY_TESTS_UNIT_PROFILE_FAKE_HOST_H
#define TRIBUTARY_TESTS_UNIT_PROFILE_FAKE_HOST_H

#include "profile/fingerprint.h"
#include "support/tree.h"

/* What sysfs says of a PCI device; NULL: no such file. */
struct fake_device {
	const char *id;        /* "10de:20b5" */
	const char *subsystem; /* "10de:1533" */
	const char *class_code, *lanes, *speed, *max_speed;
};

/* place: below sys/devices, "pci0000:16/0000:16:02.0/0000:17:00.0"; its last part is the device. */
void fake_host_device(struct tree *machine, const char *place, const struct fake_device *device);
/* Removes a device again. */
void fake_host_unplug(struct tree *machine, const char *place);
/* One file of a device. */
void fake_host_attribute(struct tree *machine, const char *bus, const char *file, const char *text);

/*
 * Two GPUs (0000:19:00.0, 0000:1a:00.0) and a NIC of two ports (0000:1b:00.0 and .1) behind a switch at 0000:16:02.0, a
 * controller that is no GPU, two sockets, a driver.
 */
void fake_host_fill(struct tree *machine);
/* The fingerprint of it. */
extern const char fake_host_filled[];
struct fingerprint fake_host_take(const struct tree *machine);

#endif
