/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* A downstream port: PCI Express at 0x40, a serial number at 0x100, ACS at 0x148 with SrcValid and ReqRedir. */
static void make(uint8_t bytes[static 4096])
{
	memset(bytes, 0, 4096);
	bytes[0x06] = 0x10;
	bytes[0x0e] = 1;
	bytes[0x10] = 0xaa; /* an address */
	bytes[0x18] = 0x17;
	bytes[0x34] = 0x80;
	bytes[0x80] = 0x05; /* another capability first */
	bytes[0x81] = 0x40;
	bytes[0x84] = 0xbb;
	bytes[0x40] = 0x10;
	bytes[0x42] = 0x62;
	bytes[0x44] = 0x01;
	bytes[0x48] = 0x30;
	bytes[0x49] = 0x20;
	bytes[0x100] = 0x03;
	bytes[0x102] = 0x81;
	bytes[0x103] = 0x14;
	memset(bytes + 0x104, 0xcc, 8);
	bytes[0x148] = 0x0d;
	bytes[0x14a] = 0x01;
	bytes[0x14e] = 0x05;
}

static void a_port_says_its_kind_its_sizes_and_its_acs(void **state)
{
	struct discover_config config;
	uint8_t bytes[4096];

	(void)state;
	make(bytes);
	discover_config_read(bytes, sizeof(bytes), &config);
	assert_int_equal(config.port, DISCOVER_CONFIG_PORT_DOWNSTREAM);
	assert_true(config.express && config.relaxed_ordering);
	assert_int_equal(config.payload_bytes, 256);
	assert_int_equal(config.most_payload_bytes, 256);
	assert_int_equal(config.read_request_bytes, 512);
	assert_int_equal(config.acs, DISCOVER_CONFIG_PRESENT);
	assert_int_equal(config.acs_control, 0x05);
}

static void what_is_kept_says_the_same_and_has_no_address_and_no_serial_number(void **state)
{
	struct discover_config before, after;
	uint8_t bytes[4096];

	(void)state;
	make(bytes);
	discover_config_read(bytes, sizeof(bytes), &before);
	discover_config_clean(bytes, sizeof(bytes));
	discover_config_read(bytes, sizeof(bytes), &after);
	assert_int_equal(before.port, after.port);
	assert_int_equal(before.express, after.express);
	assert_int_equal(before.relaxed_ordering, after.relaxed_ordering);
	assert_int_equal(before.payload_bytes, after.payload_bytes);
	assert_int_equal(before.most_payload_bytes, after.most_payload_bytes);
	assert_int_equal(before.read_request_bytes, after.read_request_bytes);
	assert_int_equal(before.acs, after.acs);
	assert_int_equal(before.acs_control, after.acs_control);
	assert_int_equal(bytes[0x18], 0x17);
	for (size_t i = 0; i < sizeof(bytes); i++)
		assert_true(bytes[i] != 0xaa && bytes[i] != 0xbb && bytes[i] != 0xcc);
}

/* Of its first version it is short, and some cards have it last of all. */
static void a_capability_at_the_end_is_read(void **state)
{
	struct discover_config config;
	uint8_t bytes[4096];

	(void)state;
	make(bytes);
	bytes[0x81] = 0xe0;
	memcpy(bytes + 0xe0, bytes + 0x40, 0x14);
	memset(bytes + 0x40, 0, 0x14);
	bytes[0xe2] = 0x01;
	for (unsigned i = 0; i < 2; i++) {
		discover_config_read(bytes, sizeof(bytes), &config);
		assert_true(config.express && config.relaxed_ordering);
		assert_int_equal(config.payload_bytes, 256);
		assert_int_equal(config.read_request_bytes, 512);
		assert_int_equal(config.acs_control, 0x05);
		discover_config_clean(bytes, sizeof(bytes));
	}
	assert_int_equal(bytes[0x103], 0x14);
	make(bytes);
	bytes[0x81] = 0xf0; /* not even that fits */
	bytes[0xf0] = 0x10;
	discover_config_read(bytes, sizeof(bytes), &config);
	assert_false(config.express);
}

static void cleaning_twice_changes_nothing(void **state)
{
	uint8_t once[4096], twice[4096];

	(void)state;
	make(once);
	discover_config_clean(once, sizeof(once));
	memcpy(twice, once, sizeof(once));
	discover_config_clean(twice, sizeof(twice));
	assert_memory_equal(once, twice, sizeof(once));
}

static void without_roots_rights_nothing_is_known(void **state)
{
	struct discover_config config;
	uint8_t bytes[4096];

	(void)state;
	make(bytes);
	discover_config_clean(bytes, 64);
	discover_config_read(bytes, 64, &config);
	assert_int_equal(config.port, DISCOVER_CONFIG_PORT_UNKNOWN);
	assert_false(config.express);
	assert_int_equal(config.acs, DISCOVER_CONFIG_UNKNOWN);
}

static void no_acs_differs_from_not_readable(void **state)
{
	struct discover_config config;
	uint8_t bytes[4096];

	(void)state;
	make(bytes);
	bytes[0x102] = 0x01;
	bytes[0x103] = 0x00;
	discover_config_clean(bytes, sizeof(bytes));
	discover_config_read(bytes, sizeof(bytes), &config);
	assert_int_equal(config.acs, DISCOVER_CONFIG_ABSENT);
}

static void acs_in_the_first_place_is_found(void **state)
{
	struct discover_config config;
	uint8_t bytes[4096];

	(void)state;
	make(bytes);
	memset(bytes + 0x100, 0, 0x50);
	bytes[0x100] = 0x0d;
	bytes[0x102] = 0x01;
	bytes[0x106] = 0x7f;
	discover_config_clean(bytes, sizeof(bytes));
	discover_config_read(bytes, sizeof(bytes), &config);
	assert_int_equal(config.acs_control, 0x7f);
}

static void chains_in_a_circle_end(void **state)
{
	struct discover_config config;
	uint8_t bytes[4096];

	(void)state;
	make(bytes);
	bytes[0x34] = 0x80;
	bytes[0x81] = 0x80;
	bytes[0x102] = 0x01;
	bytes[0x103] = 0x10;
	discover_config_read(bytes, sizeof(bytes), &config);
	assert_false(config.express);
	assert_int_equal(config.acs, DISCOVER_CONFIG_ABSENT);
}

static void any_length_is_taken(void **state)
{
	struct discover_config config;
	uint8_t bytes[4096], copy[4096];

	(void)state;
	make(bytes);
	for (size_t count = 0; count <= sizeof(bytes); count += count < 320 ? 1 : 59) {
		memcpy(copy, bytes, count);
		discover_config_clean(copy, count);
		discover_config_read(copy, count, &config);
		assert_true(config.acs != DISCOVER_CONFIG_PRESENT || count >= 0x150);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_says_its_kind_its_sizes_and_its_acs),
		cmocka_unit_test(what_is_kept_says_the_same_and_has_no_address_and_no_serial_number),
		cmocka_unit_test(a_capability_at_the_end_is_read),
		cmocka_unit_test(cleaning_twice_changes_nothing),
		cmocka_unit_test(without_roots_rights_nothing_is_known),
		cmocka_unit_test(no_acs_differs_from_not_readable),
		cmocka_unit_test(acs_in_the_first_place_is_found),
		cmocka_unit_test(chains_in_a_circle_end),
		cmocka_unit_test(any_length_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
