/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PCI configuration space: which of it is kept, and what it says. Pure.
 *
 * Without root's rights the kernel gives the first 64 bytes, which hold no capability; everything here is then unknown.
 */
#ifndef TRIBUTARY_DISCOVER_CONFIG_H
#define TRIBUTARY_DISCOVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The PCI Express capability's "device/port type". */
enum discover_config_port {
	DISCOVER_CONFIG_PORT_ENDPOINT = 0,
	DISCOVER_CONFIG_PORT_ROOT = 4,
	DISCOVER_CONFIG_PORT_UPSTREAM = 5,
	DISCOVER_CONFIG_PORT_DOWNSTREAM = 6,
	DISCOVER_CONFIG_PORT_UNKNOWN = 255,
};

/* ACS control bits, in the order of the register. */
enum { DISCOVER_ACS_BITS = 7 };
extern const char *const discover_acs_names[DISCOVER_ACS_BITS];

enum discover_config_known { DISCOVER_CONFIG_UNKNOWN, DISCOVER_CONFIG_ABSENT, DISCOVER_CONFIG_PRESENT };

struct discover_config {
	enum discover_config_port port;
	bool express; /* the next five are known */
	bool relaxed_ordering;
	unsigned payload_bytes, most_payload_bytes, read_request_bytes;
	enum discover_config_known acs;
	uint16_t acs_control;
};

/* Sets all to zero but what struct discover_config and a reader of the tree need: no address, no serial number, no VPD. */
void discover_config_clean(uint8_t *bytes, size_t count);
void discover_config_read(const uint8_t *bytes, size_t count, struct discover_config *ret);

#endif
