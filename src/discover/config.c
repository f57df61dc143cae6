/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/config.h"

#include "base/bytes.h"

#include <string.h>

/* Offsets and ids are the PCI Express Base Specification's (chapter 7). */
enum {
	HEADER_BYTES = 64,
	STATUS = 0x06,
	STATUS_CAPABILITIES = 1 << 4,
	CAPABILITY_POINTER = 0x34,
	CAPABILITY_EXPRESS = 0x10,
	EXPRESS_BYTES = 0x3c, /* of its second version; a device with the first may have it at the very end */
	EXPRESS_LEAST_BYTES = 0x14,
	EXPRESS_DEVICE_CAPABILITIES = 0x04,
	EXPRESS_DEVICE_CONTROL = 0x08,
	LEGACY_BYTES = 256,
	EXTENDED_ACS = 0x000d,
	ACS_BYTES = 8,
	ACS_CONTROL = 6,
	MOST_CAPABILITIES = 64,
};

const char *const discover_acs_names[DISCOVER_ACS_BITS] = { "SrcValid",    "TransBlk",   "ReqRedir",   "CmpltRedir",
							    "UpstreamFwd", "EgressCtrl", "DirectTrans" };

static uint32_t get16(const uint8_t *at)
{
	return (uint32_t)bytes_get(at, 2);
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)bytes_get(at, 4);
}

/* The place of the PCI Express capability; 0: none, or not readable. */
static size_t find_express(const uint8_t *bytes, size_t count)
{
	size_t at;

	if (count < LEGACY_BYTES || !(get16(bytes + STATUS) & STATUS_CAPABILITIES))
		return 0;
	at = bytes[CAPABILITY_POINTER] & 0xfcU;
	for (unsigned i = 0; i < MOST_CAPABILITIES && at >= HEADER_BYTES && at + 2 <= LEGACY_BYTES; i++) {
		if (bytes[at] == CAPABILITY_EXPRESS)
			return at + EXPRESS_LEAST_BYTES <= LEGACY_BYTES ? at : 0;
		at = bytes[at + 1] & 0xfcU;
	}
	return 0;
}

static size_t find_extended(const uint8_t *bytes, size_t count, uint32_t id)
{
	size_t at = LEGACY_BYTES;

	for (unsigned i = 0; i < 4 * MOST_CAPABILITIES && at >= LEGACY_BYTES && at + 4 <= count; i++) {
		uint32_t header = get32(bytes + at);

		if (header == 0 || header == UINT32_MAX)
			return 0;
		if ((header & 0xffff) == id)
			return at;
		at = header >> 20 & 0xffcU;
	}
	return 0;
}

static void keep(uint8_t *to, const uint8_t *from, size_t at, size_t bytes)
{
	memcpy(to + at, from + at, bytes);
}

void discover_config_clean(uint8_t *bytes, size_t count)
{
	uint8_t kept[4096] = { 0 };
	size_t express, acs;

	if (count > sizeof(kept))
		count = sizeof(kept);
	if (count < HEADER_BYTES) {
		memset(bytes, 0, count);
		return;
	}
	keep(kept, bytes, 0x00, 0x10); /* ids, command, status, class, header type */
	if ((bytes[0x0e] & 0x7f) == 1)
		keep(kept, bytes, 0x18, 3); /* a bridge's bus numbers; a device has addresses there */
	else
		keep(kept, bytes, 0x2c, 4); /* the subsystem's ids */
	express = find_express(bytes, count);
	acs = find_extended(bytes, count, EXTENDED_ACS);
	if (express) {
		/* The chain now leads to this capability alone. */
		kept[CAPABILITY_POINTER] = (uint8_t)express;
		keep(kept, bytes, express,
		     express + EXPRESS_BYTES <= LEGACY_BYTES ? EXPRESS_BYTES : LEGACY_BYTES - express);
		kept[express + 1] = 0;
	}
	if (count > LEGACY_BYTES) {
		/* A first entry with an id that means nothing, so that "none" differs from "not readable". */
		kept[LEGACY_BYTES] = 0xff;
		kept[LEGACY_BYTES + 1] = 0x7f;
		if (acs && acs + ACS_BYTES <= count && acs > LEGACY_BYTES) {
			kept[LEGACY_BYTES + 2] = (uint8_t)((acs & 0xf) << 4);
			kept[LEGACY_BYTES + 3] = (uint8_t)(acs >> 4);
		}
		if (acs && acs + ACS_BYTES <= count) {
			keep(kept, bytes, acs, ACS_BYTES);
			kept[acs + 2] = 1; /* the last */
			kept[acs + 3] = 0;
		}
	}
	memcpy(bytes, kept, count);
}

void discover_config_read(const uint8_t *bytes, size_t count, struct discover_config *ret)
{
	size_t express = find_express(bytes, count), acs;
	uint32_t control;

	*ret = (struct discover_config){ .port = DISCOVER_CONFIG_PORT_UNKNOWN };
	if (express) {
		control = get16(bytes + express + EXPRESS_DEVICE_CONTROL);
		ret->express = true;
		ret->port = (enum discover_config_port)(get16(bytes + express + 2) >> 4 & 0xf);
		ret->relaxed_ordering = control >> 4 & 1;
		ret->payload_bytes = 128U << (control >> 5 & 7);
		ret->read_request_bytes = 128U << (control >> 12 & 7);
		ret->most_payload_bytes = 128U << (get32(bytes + express + EXPRESS_DEVICE_CAPABILITIES) & 7);
	}
	if (count <= LEGACY_BYTES)
		return;
	acs = find_extended(bytes, count, EXTENDED_ACS);
	ret->acs = acs && acs + ACS_BYTES <= count ? DISCOVER_CONFIG_PRESENT : DISCOVER_CONFIG_ABSENT;
	if (ret->acs == DISCOVER_CONFIG_PRESENT)
		ret->acs_control = (uint16_t)(get16(bytes + acs + ACS_CONTROL) & ((1U << DISCOVER_ACS_BITS) - 1));
}
